// SPDX-License-Identifier: Apache-2.0
//
// Stopping, waiting and counting for runs; and where tensors lie: outputs that are bound, constants
// that are shared.
#include "core/execute/run_control.hpp"

#include <algorithm>
#include <thread>

#include "core/base/dtype.hpp"
#include "core/plan/planner.hpp"
#include "core/runtime/device.hpp"

namespace bp {
namespace {

using std::chrono::microseconds;

constexpr microseconds kShortestPause{20};
constexpr microseconds kLongestPause{1000};
constexpr uint64_t kAlignment = 256;

struct Range {
  uint64_t handle;  // 0: begin and end are addresses
  uint64_t begin;
  uint64_t end;
};

Range range_of(const Tensor& tensor) {
  const Storage& storage = tensor.storage();
  const Device* device = tensor.device();
  const bool address =
      device == nullptr || (device->table().props.flags & BP_DEVICE_ADDRESS_BIT) != 0;
  const uint64_t base = storage.offset_bytes() + (address ? storage.handle() : 0);
  // A view's bytes are somewhere in its storage; a contiguous one's are known.
  if (!tensor.contiguous()) {
    return {address ? 0 : storage.handle(), base, base + storage.bytes()};
  }
  const uint64_t first = base + tensor.offset_bytes();
  const uint64_t bytes = dtype_storage_bytes(tensor.dtype(), tensor.element_count());
  return {address ? 0 : storage.handle(), first, first + bytes};
}

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

bool may_overlap(const Tensor& a, const Tensor& b) {
  const bool host_a = a.device() == nullptr || a.device()->has_host_memory();
  const bool host_b = b.device() == nullptr || b.device()->has_host_memory();
  if (a.device() != b.device() && !(host_a && host_b)) return false;
  const Range x = range_of(a);
  const Range y = range_of(b);
  return x.handle == y.handle && x.begin < y.end && y.begin < x.end;
}

bool is_plan_aligned(const Tensor& tensor) { return range_of(tensor).begin % kAlignment == 0; }

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
