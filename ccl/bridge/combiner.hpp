// SPDX-License-Identifier: Apache-2.0
//
// Reductions of host memory, by the kernels of a device that computes there, found by the names of
// their operators: ccl has no arithmetic of its own.
#ifndef BACKPLANE_CCL_BRIDGE_COMBINER_HPP
#define BACKPLANE_CCL_BRIDGE_COMBINER_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ccl/operation.hpp"
#include "core/dispatch/dispatcher.hpp"
#include "core/runtime/device.hpp"

namespace bp::ccl {

/// Of one dtype and reduction. One thread at a time.
class Combiner {
 public:
  /// `device` computes inline on host memory. Errors: UNSUPPORTED, naming the operator and dtype,
  /// where the device has no kernel.
  static Result<std::unique_ptr<Combiner>> make(Device& device, uint32_t dtype,
                                                Reduction reduction);

  /// to = to combined with from, or with `is_from_first` from with to; `count` elements each. The
  /// two do not overlap. Errors: the kernel's.
  Status combine(void* to, const void* from, uint64_t count, bool is_from_first);
  /// Divides by the number of ranks where the reduction is the average.
  Status finish(void* values, uint64_t count, uint32_t rank_count);

 private:
  /// A kernel for one size and one place of each argument.
  struct Planned {
    uint64_t count;
    uint64_t offsets[3];  // of a, b and y, modulo what is known of alignments
    bool divides;
    std::shared_ptr<PlannedKernel> kernel;
  };
  /// Memory at a boundary that every kernel takes.
  class Aligned {
   public:
    std::byte* get(uint64_t bytes);

   private:
    struct Free {
      void operator()(std::byte* bytes) const;
    };
    std::unique_ptr<std::byte, Free> data_;
    uint64_t bytes_ = 0;
  };

  Combiner(Device& device, uint32_t dtype, Reduction reduction)
      : device_(device), dtype_(dtype), reduction_(reduction) {}
  Result<std::shared_ptr<PlannedKernel>> plan(const void* a, const void* b, const void* y,
                                              uint64_t count, bool divides);
  /// y = a op b; b has one element where it divides.
  Status run(const void* a, const void* b, void* y, uint64_t count, bool divides);
  static bool fits(const PlannedKernel& kernel, const void* a, const void* b, const void* y);

  static constexpr size_t kMostPlans = 64;

  Device& device_;
  const uint32_t dtype_;
  const Reduction reduction_;
  std::vector<Planned> plans_;
  Aligned scratch_;
  Aligned divisor_;
};

}  // namespace bp::ccl

#endif
