// SPDX-License-Identifier: Apache-2.0
//
// What a swept call happens in: a runtime over few plugins, the device under test and the host
// device, and the way to the device's bp.test_inject. And what must not change by a failed call.
#ifndef BACKPLANE_TESTS_FAULT_INJECTION_WORLD_HPP
#define BACKPLANE_TESTS_FAULT_INJECTION_WORLD_HPP

#include <array>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "backplane/backplane.h"
#include "backplane/sdk/test_inject.h"
#include "tests/fault_injection/targets.hpp"

namespace bp::faults {

/// A runtime and what hangs on it. Everything it does itself is done without faults.
class World {
 public:
  explicit World(const Target& target) : target_(target) {}
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// Creates the runtime, finds the devices. `inject_kind` and nth: of the plugin's options, since
  /// nothing can be armed before the instance is there; nullptr: none. Allocates nothing itself.
  bpa_status open(const char* inject_kind = nullptr, const char* inject_nth = "1");
  /// Ends with a failure where the target's plugin has no bp.test_inject.
  void find_injection();
  void arm(const FaultKind& kind, uint64_t nth);
  struct Counts {
    uint64_t points = 0;  // places where the fault could have come
    uint64_t hits = 0;
  };
  Counts disarm(const FaultKind& kind);

  const Target& target() const { return target_; }
  /// Ends the run if the status is none: what is done without faults must work.
  static void must(bpa_status status, const char* what);

  bpa_runtime* runtime = nullptr;
  bpa_device* device = nullptr;
  bpa_device* host = nullptr;  // cpu:0
  bpa_session* session = nullptr;
  bpa_cancel* cancel = nullptr;
  bpa_stream* stream = nullptr;
  bpa_stream* other_stream = nullptr;
  bpa_ccl_store* store = nullptr;
  bpa_ccl_group* group = nullptr;
  bpa_ccl_work* work = nullptr;
  std::array<bpa_tensor*, 4> inputs{};
  std::array<bpa_tensor*, 2> outputs{};
  std::array<float, 64> values{};  // read back
  int wrapped_count = 0;           // tensors over memory of the test's
  int deleted_count = 0;           // calls of their deleter
  struct Async {                   // the end of an asynchronous run
    std::mutex mutex;
    std::condition_variable ended;
    int calls = 0;
    bpa_status status = BP_OK;
  } async;
  std::array<char, 1024> words{};  // of an error that came on another thread; "": bpa_last_error's
  const char* misuse = nullptr;    // a rule of the API that was seen broken
  bool injection_is_gone = false;  // with the instance

 private:
  const Target target_;
  const bp_test_inject_api* injection_ = nullptr;
  bp_instance* instance_ = nullptr;
};

/// What a call that failed must leave as it was.
struct Snapshot {
  uint64_t device_bytes = 0;
  uint64_t host_bytes = 0;
};
Snapshot snapshot(const World& world);

/// What the process holds, for leaks. Threads that have just ended may still be counted.
struct Holdings {
  int64_t blocks = 0;
  uint64_t threads = 0;
  uint64_t files = 0;

  bool exceeds(const Holdings& other) const {
    return blocks > other.blocks || threads > other.threads || files > other.files;
  }
};
Holdings holdings();

}  // namespace bp::faults

#endif
