// SPDX-License-Identifier: Apache-2.0
//
// Reductions of host memory, by the kernels of a device that computes there, found by the names of
// their operators: ccl has no arithmetic of its own.
#ifndef BACKPLANE_CCL_BRIDGE_COMBINER_HPP
#define BACKPLANE_CCL_BRIDGE_COMBINER_HPP

#include <array>
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
  Status finish(void* values, uint64_t count, uint32_t rank_count) {
    if (reduction_ != Reduction::kAvg || count == 0 || rank_count == 1) return {};
    return divide(values, count, rank_count);
  }

 private:
  /// Of y = a op b; b has one element where it divides.
  struct Places {
    const void* a;
    const void* b;
    void* y;
  };
  using Offsets = std::array<uint64_t, 3>;  // of places, modulo what is known of alignments
  static Offsets offsets_of(const Places& places);
  /// A kernel for one size and one place of each argument.
  struct Planned {
    bool is_for(const Offsets& of_places, uint64_t of_count, bool that_divides) const {
      return count == of_count && divides == that_divides && offsets == of_places;
    }
    uint64_t count = 0;
    Offsets offsets{};
    bool divides = false;
    std::shared_ptr<PlannedKernel> kernel = {};
  };
  /// The latest launch, without its places: the parts of a schedule are much alike.
  struct Ready {
    bool is_for(const Places& places, uint64_t count, bool divides) const {
      return planned.is_for(offsets_of(places), count, divides) &&
             is_in_a == (places.y == places.a) && is_in_b == (places.y == places.b);
    }
    Planned planned;       // of no elements: there was none
    bool is_in_a = false;  // y is
    bool is_in_b = false;
    int64_t size = 0;  // the count, for the tensors
    std::array<bp_tensor, 3> tensors{};
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

  Combiner(Device& device, uint32_t dtype, uint64_t numbers_of_each, Reduction reduction)
      : device_(device), dtype_(dtype), numbers_of_each_(numbers_of_each), reduction_(reduction) {}
  Result<std::shared_ptr<PlannedKernel>> plan(const Places& places, uint64_t count, bool divides);
  Status run(const Places& places, uint64_t count, bool divides);
  Status run_aligned(const Places& places, uint64_t count, bool divides);
  void make_ready(std::shared_ptr<PlannedKernel> kernel, const Places& places, uint64_t count,
                  bool divides);
  Status launch_ready(const Places& places);
  Status divide(void* values, uint64_t count, uint32_t rank_count);
  static bool fits(const PlannedKernel& kernel, const Places& places);

  static constexpr size_t kMostPlans = 64;

  Device& device_;
  const uint32_t dtype_;            // of the numbers that are reduced
  const uint64_t numbers_of_each_;  // element
  const Reduction reduction_;
  std::vector<Planned> plans_;
  Ready ready_;
  Aligned scratch_;
  Aligned divisor_;
};

}  // namespace bp::ccl

#endif
