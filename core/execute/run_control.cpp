// SPDX-License-Identifier: Apache-2.0
//
// Stopping, waiting and counting for runs; and where tensors lie: outputs that are bound, constants
// that are shared.
#include "core/execute/run_control.hpp"

#include <algorithm>
#include <thread>

#include "core/plan/planner.hpp"
#include "core/runtime/device.hpp"
#include "core/runtime/memory_range.hpp"

namespace bp {
namespace {

using std::chrono::microseconds;

constexpr microseconds kShortestPause{20};
constexpr microseconds kLongestPause{1000};
constexpr uint64_t kAlignment = 256;

}  // namespace

Status RunControl::check() const {
  if (cancelled != nullptr && cancelled->load(std::memory_order_relaxed)) {
    return Status(BP_CANCELLED, "the run was cancelled");
  }
  if (closing != nullptr && closing->load(std::memory_order_relaxed)) {
    return Status(BP_CANCELLED, "the run was cancelled, since its Runtime is being closed");
  }
  if (deadline != Clock::time_point::max() && Clock::now() >= deadline) {
    return Status(BP_TIMEOUT, "the run's timeout passed");
  }
  return {};
}

Status RunControl::wait(Stream& stream) const {
  const auto give_up = Clock::now() + stream.device().wait_timeout();
  for (auto pause = kShortestPause;; pause = std::min(2 * pause, kLongestPause)) {
    const Status status = stream.query();
    if (status.code() != BP_PENDING) return status;
    BP_TRY(check());
    if (Clock::now() >= give_up) return stream.timed_out();
    std::this_thread::sleep_for(pause);
  }
}

FileAccess read_within(std::shared_ptr<MemoryBudget> budget) {
  const auto reserve =
      [budget = std::move(budget)](uint64_t bytes) -> Result<std::shared_ptr<const void>> {
    auto charge = std::make_shared<MemoryCharge>(budget);
    BP_TRY(charge->add(bytes, "the bytes of the file, which is read,"));
    return std::shared_ptr<const void>(std::move(charge));
  };
  return {.read = true, .reserve = reserve};
}

Status MemoryBudget::charge(uint64_t bytes, std::string_view what) {
  const uint64_t before = used_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  if (limit_bytes_ == 0 || (before <= limit_bytes_ && bytes <= limit_bytes_ - before)) return {};
  refund(bytes);
  return Status(BP_OUT_OF_MEMORY, "the session's memory limit (memory_limit_bytes) is " +
                                      std::to_string(limit_bytes_) + " bytes, of which " +
                                      std::to_string(before) + " are in use, and " +
                                      std::string(what) + " need " + std::to_string(bytes) +
                                      " more");
}

bool is_plan_aligned(const Tensor& tensor) { return memory_range(tensor).begin % kAlignment == 0; }

Ref<Tensor> share_constant(Device& device, const std::shared_ptr<const HostTensor>& constant) {
  const auto address = reinterpret_cast<uint64_t>(constant->data);
  if (!device.has_host_memory() || !is_used_in_place(*constant)) return nullptr;
  // The storage begins on a boundary, so that the tensor's offset tells how it is aligned.
  const uint64_t skew = address % kAlignment;
  auto storage = Storage::wrap(&device, address - skew, constant->bytes + skew, constant);
  return Ref<Tensor>::make(std::move(storage), constant->dtype, constant->sizes,
                           contiguous_strides(constant->sizes), skew);
}

}  // namespace bp
