// SPDX-License-Identifier: Apache-2.0
//
// How a run ends before its time, how long its steps take, and how much memory a session may take.
// All are asked between steps, so a run without them pays one compare per step.
#ifndef BACKPLANE_CORE_EXECUTE_RUN_CONTROL_HPP
#define BACKPLANE_CORE_EXECUTE_RUN_CONTROL_HPP

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/file_bytes.hpp"
#include "core/base/status.hpp"
#include "core/runtime/stream.hpp"
#include "core/runtime/tensor.hpp"

namespace bp {

/// What may stop a run between two steps. Pointers outlive the run.
struct RunControl {
  using Clock = std::chrono::steady_clock;
  const std::atomic<bool>* cancelled = nullptr;  // on request
  const std::atomic<bool>* closing = nullptr;    // the Runtime is being closed
  Clock::time_point deadline = Clock::time_point::max();
  /// Set: told after each step which kernel it launched ("" for a copy), and how long that took
  /// with all its work, which is waited for. On the run's thread.
  std::function<void(std::string_view kernel, std::chrono::nanoseconds)> on_step = {};

  /// Somebody asked, or the time is over.
  bool is_stopped() const {
    return (cancelled != nullptr && cancelled->load(std::memory_order_acquire)) ||
           Clock::now() >= deadline;
  }
  /// CANCELLED or TIMEOUT once it is to stop.
  Status check() const;
  /// Waits until the stream is idle or the run is to stop, at most the Runtime's deadline. Errors:
  /// check()'s; TIMEOUT; the stream's.
  Status wait(Stream& stream) const;
};

/// Memory of devices, and of files that are read, which a session holds, against its limit. Any
/// thread.
class MemoryBudget {
 public:
  /// limit_bytes 0: none.
  explicit MemoryBudget(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  /// Errors: OUT_OF_MEMORY naming the limit, what is in use and what for more is needed.
  Status charge(uint64_t bytes, std::string_view what);
  void refund(uint64_t bytes) { used_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }
  uint64_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }

 private:
  const uint64_t limit_bytes_;
  std::atomic<uint64_t> used_bytes_{0};
};

/// Bytes of a budget, given back at the end of the object's life.
class MemoryCharge {
 public:
  explicit MemoryCharge(std::shared_ptr<MemoryBudget> budget) : budget_(std::move(budget)) {}
  ~MemoryCharge() { budget_->refund(bytes_); }
  MemoryCharge(const MemoryCharge&) = delete;
  MemoryCharge& operator=(const MemoryCharge&) = delete;
  Status add(uint64_t bytes, std::string_view what) {
    BP_TRY(budget_->charge(bytes, what));
    bytes_ += bytes;
    return {};
  }

 private:
  const std::shared_ptr<MemoryBudget> budget_;
  uint64_t bytes_ = 0;
};

/// Files are read, and their bytes are charged to `budget`. Errors: OUT_OF_MEMORY naming the limit.
FileAccess read_within(std::shared_ptr<MemoryBudget> budget);

/// What one run brings to the segments that it walks.
struct RunState {
  const RunControl* control = nullptr;  // nullptr: nothing stops it
  /// By value of the graph: the tensor that the value is to be written to, or nullptr. Empty: none.
  std::vector<Ref<Tensor>> bound;
  MemoryCharge charge;
};

/// Element [0, ...] lies on a 256-byte boundary, which is what plans count on for outputs.
bool is_plan_aligned(const Tensor& tensor);
/// The constant where it lies, for a device that reads host memory; nullptr: it must be copied.
Ref<Tensor> share_constant(Device& device, const std::shared_ptr<const HostTensor>& constant);

}  // namespace bp

#endif
