// SPDX-License-Identifier: Apache-2.0
//
// A device's own collectives: one rank's communicator, as the plugin made it, for ccl/group to
// enqueue into. The core keeps the deadlines and carries the ids; nothing here waits for a rank.
#ifndef BACKPLANE_CCL_BRIDGE_NATIVE_HPP
#define BACKPLANE_CCL_BRIDGE_NATIVE_HPP

#include <array>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ccl/operation.hpp"
#include "core/device/collective_caps.hpp"
#include "core/runtime/device.hpp"
#include "core/runtime/stream.hpp"

namespace bp::ccl {

/// What a device answers about collectives, asked once. nullptr: it has none. Errors: the plugin's.
Result<const CollectiveCaps*> collective_caps_of(Device& device);

/// An id for a new group, of caps.uid_bytes. Errors: the plugin's; TIMEOUT past the deadline of
/// control calls. Any thread.
Result<std::string> create_uid(Device& device, const CollectiveCaps& caps);

/// One operation with its memory on the device.
struct NativeOperation {
  Operation operation;
  bp_mem send{};
  bp_mem recv{};
};

/// Any thread, but for enqueue(), one at a time.
class Communicator final : public PluginObjectHolder {
 public:
  struct Args {
    std::string uid;
    RankPlace place;
    std::chrono::nanoseconds timeout{0};
    std::string name;
  };
  /// Begins to join; poll() tells how it goes. Errors: the plugin's.
  static Result<std::unique_ptr<Communicator>> make(Device& device, const Args& args);
  /// Aborts what is not idle. The device may have been closed.
  ~Communicator();

  struct State {
    uint32_t state = BP_COMM_JOINING;  // BP_COMM_*
    Status failure;                    // FAILED: the plugin's words
    std::optional<uint32_t> culprit;   // a rank
    uint64_t enqueued_sequence = 0;    // the last collective that the plugin has let go of
  };
  /// Errors: the plugin's, and then the communicator counts as failed.
  Result<State> poll();
  /// On this side only, and of no communicator twice. Logs what goes wrong.
  void abort();

  /// Puts them into the order of the stream, which is held, healthy, and of the device: answers the
  /// number of the last of them there. `sequence`: of the first collective among them.
  Result<uint64_t> enqueue(Stream& stream, uint64_t sequence,
                           std::span<const NativeOperation> operations);

  uint64_t number() const { return number_; }
  void release_plugin_objects() override;
  bool holds_states() const override { return true; }

 private:
  explicit Communicator(Device& device);
  void abort_now();  // under mutex_

  Device& device_;
  const uint64_t number_;  // of no other of this process, now or ever
  std::mutex mutex_;
  bp_comm* comm_ = nullptr;  // under mutex_; nullptr: ended
  bool is_aborted_ = false;
  /// What a late comm_abort may still read; made beforehand, since to end it takes no memory.
  const std::shared_ptr<std::array<bp_comm*, 1>> abort_list_ =
      std::make_shared<std::array<bp_comm*, 1>>();
};

/// Keeps the communicators of one device in turn, where its library cannot have two at work at
/// once: work of one begins when that of the others, enqueued before, is done. Where that fails,
/// what waits for it in its streams fails too.
class CommunicatorChain : public DeviceExtension {
 public:
  /// Work of a communicator.
  struct Turn {
    uint64_t communicator = 0;  // its number; 0: none
    Stream* stream = nullptr;
    uint64_t seq = 0;
    std::string group;      // its name
    std::string operation;  // in words
    bool is_pending() const { return communicator != 0 && !stream->known_done(seq); }
  };

  static CommunicatorChain& of(Device& device);
  /// Held from before the wait until the work is noted, and for what only asks.
  std::mutex& mutex() { return mutex_; }
  /// With the mutex: `stream` waits for the pending work of other communicators, which is answered.
  Result<std::vector<Turn>> order_before(const Communicator& communicator, Stream& stream);
  /// `turn`: one, whose place in the list is made before the work is: then there is no way back.
  void note(std::list<Turn>* turn) noexcept;
  /// Groups with work that waits for the communicator's.
  std::vector<std::string> groups_behind(const Communicator& communicator) const;

 private:
  std::mutex mutex_;
  /// The latest of each communicator in each of its streams, the last one last. Streams of one
  /// communicator do not wait for each other: what waits for it has to wait for all of them.
  std::list<Turn> turns_;
};

}  // namespace bp::ccl

#endif
