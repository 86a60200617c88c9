// SPDX-License-Identifier: Apache-2.0
//
// A device for this module's tests: host memory behind handles that are no addresses, the nine
// functions, and bands that a test switches on one by one. Its streams have no thread: each
// question runs one task, so that their progress is the test's to decide. It counts what a correct
// core never does: calls that overlap, calls that block, ranges outside memory.
#ifndef BACKPLANE_CORE_EMULATION_FAKE_DEVICE_HPP
#define BACKPLANE_CORE_EMULATION_FAKE_DEVICE_HPP

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/device/device_table.hpp"
#include "core/emulation/emulate_missing.hpp"

namespace bp::testing {

/// All that can be emulated.
inline constexpr uint64_t kAllFeatures = BP_FEATURE_ASYNC_BIT | BP_FEATURE_TIMING_BIT |
                                         BP_FEATURE_FILL_BIT | BP_FEATURE_PINNED_BIT |
                                         BP_FEATURE_MAP_BIT;

/// Closed until opened; holds a worker where the test wants it. Copies are the same gate, so that a
/// worker may be on its way through when the test's own copy is gone.
class Gate {
 public:
  void open() const;
  void wait() const;

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable opened;
    bool open = false;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

struct Reported {
  bp_status status = BP_OK;
  uint64_t op_seq = 0;
  bp_stream* stream = nullptr;
  std::string message;
};

struct FakeRecord {
  bool done = false;
  bp_status failure = BP_OK;
};

struct FakeEvent {
  class FakeDevice& device;
  uint32_t flags = 0;
  std::shared_ptr<FakeRecord> latest;
};

/// A native stream of the fake. A task gets the stream's failure and says whether it could run.
struct FakeStream {
  class FakeDevice& device;
  std::deque<std::function<bool(bp_status* failure)>> tasks;
  bp_status failure = BP_OK;
  uint64_t wrapped = 0;  // the queue that stream_wrap was given
};

class FakeDevice {
 public:
  FakeDevice(uint32_t device_flags, uint64_t features);
  FakeDevice(const FakeDevice&) = delete;
  FakeDevice& operator=(const FakeDevice&) = delete;

  /// What a loader would fill: props, tables without the bands that are off, host.
  DeviceTable table();
  bp_device* handle() { return reinterpret_cast<bp_device*>(this); }
  static FakeDevice& from(bp_device* device) { return *reinterpret_cast<FakeDevice*>(device); }

  /// Runs one task of one stream, if any can run. Under stream_mutex.
  void step();
  std::vector<Reported> reports();
  size_t allocation_count();
  bp_status copy(const bp_copy_args& args);
  bp_status fill(const bp_fill_args& args);

  /// What the kernel computes; set before the first launch.
  std::function<bp_status(const bp_launch_args&)> on_launch;
  /// Gets what stream_host_call is given, in place of the stream, if set.
  std::function<void(bp_host_fn fn, void* user)> on_host_call;
  bp_kernel kernel{};

  // Set by tests; a status other than BP_OK is answered instead of doing the work.
  std::atomic<bp_status> copy_status{BP_OK};
  std::atomic<bp_status> host_call_status{BP_OK};
  std::atomic<int> copies_before_failure{0};

  std::atomic<int> call_count{0};
  std::atomic<int> active_count{0};
  std::atomic<int> overlap_count{0};
  std::atomic<int> blocking_count{0};  // stream_sync, event_sync, late stream_destroy
  std::atomic<int> copy_count{0};
  std::atomic<int> native_fill_count{0};
  std::atomic<int> mapped_count{0};
  std::atomic<uint32_t> event_flags{0};  // of the latest event_create

  std::mutex memory_mutex;
  std::map<uint64_t, std::vector<std::byte>> memory;
  uint64_t next_handle = 1000;

  std::mutex stream_mutex;
  std::vector<FakeStream*> streams;

 private:
  friend struct FakeHost;
  std::byte* resolve(const bp_mem& mem, uint64_t bytes);

  const uint32_t device_flags_;
  const uint64_t features_;
  std::mutex reports_mutex_;
  std::vector<Reported> reports_;
};

/// Stands round the body of each slot and sees whether two of them overlap.
class CallScope {
 public:
  explicit CallScope(FakeDevice& device);
  ~CallScope();

 private:
  FakeDevice& device_;
};

bp_stream_api fake_stream_api(uint64_t features);

/// An opened device, with the calls that tests make all the time.
class Opened {
 public:
  explicit Opened(uint64_t features = 0, uint32_t device_flags = BP_DEVICE_CONCURRENT_BIT);

  FakeDevice fake;
  DeviceTable table;
  EmulationPtr emulation;

  bp_stream* stream();
  bp_event* event(uint32_t flags = 0);
  uint64_t alloc(uint64_t bytes);
  /// All bytes of an allocation, past the slots.
  std::vector<std::byte> bytes_of(uint64_t handle);
  bp_status copy_to_device(bp_stream* stream, uint64_t handle, const void* source, uint64_t bytes);
  bp_status host_alloc(uint64_t bytes, void** out_ptr);
  bp_status fill(bp_stream* stream, bp_mem dst, uint64_t bytes, uint64_t pattern,
                 uint32_t pattern_bytes);
  /// Launches the fake's kernel, without tensors.
  bp_status launch(bp_stream* stream, uint64_t op_seq,
                   std::shared_ptr<const void> keep_alive = nullptr);
  bp_launch_args launch_args(uint64_t op_seq);
  bp_status host_call(bp_stream* stream, std::function<void(bp_status)> fn);
  bp_status sync(bp_stream* stream) { return table.stream_sync(stream, kSoonNs); }
  bp_status destroy(bp_stream* stream) { return table.stream_destroy(stream); }

  /// Far longer than anything here takes; a hang becomes a failure.
  static constexpr uint64_t kSoonNs = 60'000'000'000;
};

}  // namespace bp::testing

#endif
