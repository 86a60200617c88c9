// SPDX-License-Identifier: Apache-2.0
//
// Averages on a device whose own collectives sum and do not average: the sum lies in memory of its
// own, and is divided into the result by the device's own kernel, found by its operator's name, in
// the order of the stream.
#ifndef BACKPLANE_CCL_BRIDGE_AVERAGE_HPP
#define BACKPLANE_CCL_BRIDGE_AVERAGE_HPP

#include <cstdint>
#include <memory>
#include <vector>

#include "core/dispatch/dispatcher.hpp"
#include "core/runtime/device.hpp"
#include "core/runtime/tensor.hpp"

namespace bp::ccl {

/// Those of these dtypes (bits) that the device has a kernel to divide for. Any thread.
uint64_t divided_dtypes(Device& device, uint64_t dtypes);

/// That of one operation; stream-ordered.
class Average {
 public:
  /// Where the sum is wanted.
  const Ref<Tensor>& sum() const { return sum_; }
  /// Where the division writes: the result, or memory of its own, which is copied there. Both stay
  /// until the stream is done with them.
  const Ref<Tensor>& quotient() const { return quotient_; }
  /// Divides what is in the sum by then. Errors: the plugin's; POISONED.
  Status divide(Stream& stream);

 private:
  friend class Divider;
  Ref<Tensor> result_;
  Ref<Tensor> divisor_;
  Ref<Tensor> sum_;
  Ref<Tensor> quotient_;
  bool is_copied_ = false;
  std::shared_ptr<PlannedKernel> kernel_;
};

/// Of one group's device. One thread at a time.
class Divider {
 public:
  explicit Divider(uint32_t rank_count) : rank_count_(rank_count) {}

  /// All that the division takes is there before anything begins. `result`: contiguous, with
  /// elements, on the stream's device. Errors: UNSUPPORTED without a kernel; OUT_OF_MEMORY; the
  /// plugin's.
  Result<Average> average_into(const Ref<Tensor>& result, Stream& stream);

 private:
  struct Known {
    uint32_t dtype;
    int64_t count;
    std::shared_ptr<PlannedKernel> kernel;
  };
  Result<Ref<Tensor>> divisor_of(uint32_t dtype, Stream& stream);
  Result<std::shared_ptr<PlannedKernel>> kernel_of(const Tensor& result, Device& device);

  static constexpr size_t kMostKnown = 64;

  const uint32_t rank_count_;
  std::vector<Ref<Tensor>> divisors_;  // one element each: how many ranks there are
  std::vector<Known> known_;           // the latest last
};

}  // namespace bp::ccl

#endif
