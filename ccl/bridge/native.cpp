// SPDX-License-Identifier: Apache-2.0
//
// See native.hpp. Buffers that a late control call may still use are kept by the device's gate.
#include "ccl/bridge/native.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/log.hpp"
#include "core/runtime/runtime.hpp"

namespace bp::ccl {
namespace {

/// The answer about collectives, and the communicators' turns.
struct Collectives : CommunicatorChain {
  std::mutex caps_mutex;
  bool is_asked = false;
  Result<std::optional<CollectiveCaps>> caps = std::optional<CollectiveCaps>();
};

Collectives& collectives_of(Device& device) {
  return static_cast<Collectives&>(
      device.extension(DevicePart::kCollectives, [] { return std::make_unique<Collectives>(); }));
}

bp_collective_op abi_of(const NativeOperation& native) {
  const Operation& operation = native.operation;
  const KindInfo& kind = kind_info(operation.kind);
  return {.struct_size = sizeof(bp_collective_op),
          .flags = operation.is_deterministic ? BP_OPERATION_DETERMINISTIC_BIT : 0,
          .kind = static_cast<uint32_t>(operation.kind),
          .dtype = operation.dtype,
          .reduction = kind.reduces ? static_cast<uint32_t>(operation.reduction) : 0,
          .peer = operation.root,
          .count = operation.count,
          .send = native.send,
          .recv = native.recv};
}

}  // namespace

CommunicatorChain& CommunicatorChain::of(Device& device) { return collectives_of(device); }

Result<const CollectiveCaps*> collective_caps_of(Device& device) {
  Collectives& own = collectives_of(device);
  const std::lock_guard lock(own.caps_mutex);
  if (!own.is_asked) {
    BP_TRY(device.check_open());
    own.caps = ask_collective_caps(device.plugin(), device.table());
    own.is_asked = true;
  }
  if (!own.caps.ok()) return own.caps.status();
  return own.caps->has_value() ? &**own.caps : nullptr;
}

Result<std::string> create_uid(Device& device, const CollectiveCaps& caps) {
  auto room = std::make_shared<std::string>(caps.uid_bytes, '\0');
  bp_uid_space space{};
  space.struct_size = sizeof(space);
  space.data = room->data();
  space.bytes = room->size();
  const bp_status code = device.table().uid_create(&space);
  if (device.table().gate->is_abandoned()) device.table().gate->keep_for_late_call(room);
  if (code != BP_OK) return device.failure(code, Slot::kUidCreate);
  return *room;
}

Communicator::Communicator(Device& device)
    : device_(device), number_([] {
        static constinit std::atomic<uint64_t> next{0};
        return ++next;
      }()) {}

Result<std::unique_ptr<Communicator>> Communicator::make(Device& device, const Args& args) {
  BP_TRY(device.check_open());
  const auto kept = std::make_shared<const Args>(args);
  bp_comm_args given{};
  given.struct_size = sizeof(given);
  given.uids = kept->uid.data();
  given.uid_bytes = kept->uid.size();
  given.uid_count = 1;
  given.rank = kept->place.rank;
  given.rank_count = kept->place.rank_count;
  given.timeout_hint_ns = static_cast<uint64_t>(kept->timeout.count());
  given.name = {kept->name.data(), kept->name.size()};
  // All that its end needs is there before it is.
  std::unique_ptr<Communicator> made(new Communicator(device));
  device.track(made.get());
  const std::lock_guard lock(made->mutex_);
  const bp_status code = device.table().comm_init(given, &made->comm_);
  if (device.table().gate->is_abandoned()) device.table().gate->keep_for_late_call(kept);
  if (code != BP_OK) return device.failure(code, Slot::kCommInit);
  return made;
}

Communicator::~Communicator() {
  release_plugin_objects();
  // Only now: a close of the device waits for those that it knows of.
  if (!device_.closed()) device_.untrack(this);
}

void Communicator::release_plugin_objects() {
  const std::lock_guard lock(mutex_);
  abort_now();
  bp_comm* const comm = std::exchange(comm_, nullptr);
  if (comm == nullptr || device_.table().gate->is_abandoned()) return;
  device_.warn(device_.table().comm_destroy(comm), Slot::kCommDestroy);
}

Result<Communicator::State> Communicator::poll() {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) return Status(BP_GONE, "the communicator of " + device_.name() + " ended");
  bp_comm_state state{};
  state.struct_size = sizeof(state);
  const bp_status code = device_.table().comm_poll(comm_, &state);
  if (code != BP_OK) return device_.failure(code, Slot::kCommPoll);
  State answer;
  answer.state = state.state;
  answer.enqueued_sequence = state.enqueued_sequence;
  if (state.state == BP_COMM_JOINING || state.state == BP_COMM_READY) return answer;
  answer.state = BP_COMM_FAILED;  // an unknown state, too
  const bp_status told = known_status(state.status);
  const bool is_cause = can_fail_work(told) || told == BP_CANCELLED;
  const bp_status cause = is_cause ? told : BP_INTERNAL;
  answer.failure = device_.failure(cause, Slot::kCommPoll, nullptr, "tells that the group failed");
  if (state.culprit != 0) answer.culprit = state.culprit - 1;
  return answer;
}

void Communicator::abort() {
  const std::lock_guard lock(mutex_);
  abort_now();
}

void Communicator::abort_now() {
  if (comm_ == nullptr || std::exchange(is_aborted_, true)) return;
  if (device_.table().gate->is_abandoned()) return;
  abort_list_->front() = comm_;
  const bp_comm_abort_args args{sizeof(args), 0, abort_list_->data(), abort_list_->size()};
  const bp_status code = device_.table().comm_abort(args);
  if (device_.table().gate->is_abandoned()) device_.table().gate->keep_for_late_call(abort_list_);
  device_.warn(code, Slot::kCommAbort);
}

Result<uint64_t> Communicator::enqueue(Stream& stream, uint64_t sequence,
                                       std::span<const NativeOperation> operations) {
  std::vector<bp_collective_op> given;
  given.reserve(operations.size());
  for (const NativeOperation& native : operations) given.push_back(abi_of(native));
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) return Status(BP_GONE, "the communicator of " + device_.name() + " ended");
  uint64_t seq = 0;
  bp_status code = BP_OK;
  {
    TimedLock held;
    BP_TRY(stream.hold(held));
    BP_TRY(stream.check_healthy());
    seq = stream.next_seq();
    bp_collective_batch batch{};
    batch.struct_size = sizeof(batch);
    batch.comm = comm_;
    batch.stream = stream.handle();
    batch.operations = given.data();
    batch.operation_count = static_cast<uint32_t>(given.size());
    batch.operation_stride_bytes = sizeof(bp_collective_op);
    batch.sequence = sequence;
    batch.op_seq = stream.op_seq(seq);
    for (size_t i = 1; i < given.size(); ++i) seq = stream.next_seq();
    const bp_collective_args args{sizeof(args), 0, &batch, 1, sizeof(batch)};
    code = device_.table().collective_enqueue(args);
  }
  if (code != BP_OK) return stream.failure(code, Slot::kCollectiveEnqueue);
  return seq;
}

Result<std::vector<CommunicatorChain::Turn>> CommunicatorChain::order_before(
    const Communicator& communicator, Stream& stream) {
  // Work that failed is over.
  std::erase_if(turns_, [](const Turn& turn) {
    return !turn.is_pending() || turn.stream->query().code() != BP_PENDING;
  });
  std::vector<Turn> before;
  for (const Turn& turn : turns_) {
    if (turn.communicator == communicator.number()) continue;
    BP_TRY(stream.wait_for(*turn.stream, turn.seq));
    before.push_back(turn);
  }
  return before;
}

void CommunicatorChain::note(std::list<Turn>* turn) noexcept {
  const Turn& latest = turn->front();
  std::erase_if(turns_, [&](const Turn& each) {
    return each.communicator == latest.communicator && each.stream == latest.stream;
  });
  turns_.splice(turns_.end(), *turn);
}

std::vector<std::string> CommunicatorChain::groups_behind(const Communicator& communicator) const {
  const auto own = std::find_if(turns_.begin(), turns_.end(), [&](const Turn& turn) {
    return turn.communicator == communicator.number() && turn.is_pending();
  });
  std::vector<std::string> groups;
  for (auto turn = own; turn != turns_.end(); ++turn) {
    const bool is_known = std::find(groups.begin(), groups.end(), turn->group) != groups.end();
    const bool waits = turn->communicator != communicator.number() && turn->is_pending();
    if (waits && !is_known) groups.push_back(turn->group);
  }
  return groups;
}

}  // namespace bp::ccl
