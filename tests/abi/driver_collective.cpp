// SPDX-License-Identifier: Apache-2.0
//
// Collectives of a plugin that has the table: a group of one rank from its id to its end. A side of
// the past has no place for the table.
#include <algorithm>
#include <array>
#include <iterator>
#include <thread>

#include "core/device/collective_caps.hpp"
#include "driver.hpp"

namespace bp::abi {
namespace {

constexpr uint64_t kCount = 3;
constexpr uint64_t kBytes = kCount * sizeof(float);

/// A group of one rank, a stream, and what it works on.
class OneRank {
 public:
  OneRank(const Subject& subject, uint64_t id_bytes) : subject_(subject) {
    const bp_stream_args stream_args{.struct_size = sizeof(bp_stream_args), .flags = 0};
    ok(table().stream_create(stream_args, &stream_), "stream_create");
    join(id_bytes);
  }
  ~OneRank() {
    if (comm_ != nullptr) ok(table().comm_destroy(comm_), "comm_destroy");
    if (stream_ != nullptr) ok(table().stream_destroy(stream_), "stream_destroy");
  }
  OneRank(const OneRank&) = delete;
  OneRank& operator=(const OneRank&) = delete;

  bool complete() const { return stream_ != nullptr && comm_ != nullptr; }
  void ok(bp_status code, std::string_view what) const { expect(code, BP_OK, what); }
  void expect(bp_status code, bp_status expected, std::string_view what) const {
    subject_.checks.expect_status(subject_.plugin.host(), code, expected, what);
  }
  bp_comm_state poll() const {
    bp_comm_state state{};
    state.struct_size = sizeof(state);
    ok(table().comm_poll(comm_, &state), "comm_poll");
    return state;
  }
  bp_comm_state joined() const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kDeadlineNs);
    bp_comm_state state = poll();
    while (state.state == BP_COMM_JOINING && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      state = poll();
    }
    return state;
  }
  bp_status enqueue(const bp_collective_op* operations, uint32_t count, uint64_t sequence) const {
    const bp_collective_batch batch{.struct_size = sizeof(bp_collective_batch),
                                    .flags = 0,
                                    .comm = comm_,
                                    .stream = stream_,
                                    .operations = operations,
                                    .operation_count = count,
                                    .operation_stride_bytes = sizeof(bp_collective_op),
                                    .sequence = sequence,
                                    .op_seq = 1};
    const bp_collective_args args{.struct_size = sizeof(bp_collective_args),
                                  .flags = 0,
                                  .batches = &batch,
                                  .batch_count = 1,
                                  .batch_stride_bytes = sizeof(bp_collective_batch)};
    return table().collective_enqueue(args);
  }
  void sync() const { ok(table().stream_sync(stream_, kDeadlineNs), "stream_sync"); }
  void abort() const {
    bp_comm* const comms[] = {comm_};
    const bp_comm_abort_args args{
        .struct_size = sizeof(bp_comm_abort_args), .flags = 0, .comms = comms, .comm_count = 1};
    ok(table().comm_abort(args), "comm_abort");
  }

 private:
  const DeviceTable& table() const { return subject_.table; }
  void join(uint64_t id_bytes) {
    std::vector<std::byte> id(id_bytes);
    bp_uid_space space{};
    space.struct_size = sizeof(space);
    space.data = id.data();
    space.bytes = id.size();
    ok(table().uid_create(&space), "uid_create");
    const bp_comm_args args{.struct_size = sizeof(bp_comm_args),
                            .flags = 0,
                            .uids = id.data(),
                            .uid_bytes = id.size(),
                            .uid_count = 1,
                            .rank = 0,
                            .rank_count = 1,
                            .reserved = 0,
                            .timeout_hint_ns = kDeadlineNs,
                            .name = {"alone", 5}};
    ok(table().comm_init(args, &comm_), "comm_init");
  }

  const Subject& subject_;
  bp_stream* stream_ = nullptr;
  bp_comm* comm_ = nullptr;
};

bp_collective_op sum(const DeviceMemory& send, const DeviceMemory& recv) {
  return {.struct_size = sizeof(bp_collective_op),
          .flags = 0,
          .kind = BP_COLLECTIVE_ALL_REDUCE,
          .dtype = BP_DTYPE_F32,
          .reduction = BP_REDUCTION_SUM,
          .peer = 0,
          .count = kCount,
          .send = send.at(),
          .recv = recv.at()};
}

/// The sum over one rank is what it sent; the second operation takes what the first one made.
void check_sums(const Subject& subject, const OneRank& rank) {
  const DeviceMemory first(subject, kBytes);
  const DeviceMemory second(subject, kBytes);
  const DeviceMemory third(subject, kBytes);
  const std::array<float, kCount> sent = {1, -2, 3.5F};
  const std::array<float, kCount> before = {7, 7, 7};
  first.upload(sent.data());
  second.upload(before.data());
  third.upload(before.data());
  const bp_collective_op operations[] = {sum(first, second), sum(second, third)};
  rank.ok(rank.enqueue(operations, std::size(operations), 1), "collective_enqueue");
  rank.sync();
  std::array<float, kCount> found{};
  third.download(found.data());
  subject.checks.expect(found == sent, "all_reduce: the values of the one rank");
  subject.checks.expect(rank.poll().enqueued_sequence == std::size(operations),
                        "comm_poll: the last sequence");
  bp_collective_op unknown = sum(first, second);
#if defined(BP_GENERATION_FUTURE)
  unknown.kind = BP_COLLECTIVE_FUTURE;
#else
  unknown.kind = 4711;
#endif
  rank.expect(rank.enqueue(&unknown, 1, 3), BP_UNSUPPORTED, "collective_enqueue: unknown kind");
}

void check_end(const Subject& subject, const OneRank& rank) {
  rank.abort();
  const bp_comm_state state = rank.poll();
  subject.checks.expect(state.state == BP_COMM_FAILED && state.status == BP_CANCELLED,
                        "comm_poll: a group that was aborted");
  rank.expect(rank.enqueue(nullptr, 0, 3), BP_CANCELLED, "collective_enqueue: after comm_abort");
}

/// What the core believes: kinds and bits of a later ABI are left out.
void check_caps(const CollectiveCaps& caps, Checks* checks) {
  constexpr uint32_t kFlags =
      BP_CAPS_SHARED_DEVICE_BIT | BP_CAPS_CONCURRENT_BIT | BP_CAPS_CAPTURE_BIT | BP_CAPS_NAN_BIT;
  checks->expect((caps.flags & ~kFlags) == 0, "collective_caps: unknown bits");
  checks->expect(caps.has(BP_COLLECTIVE_ALL_REDUCE, BP_DTYPE_F32, BP_REDUCTION_SUM, false),
                 "collective_caps: a sum of f32");
  const bool is_known = std::all_of(caps.rows.begin(), caps.rows.end(), [](const auto& row) {
    return row.kind <= BP_COLLECTIVE_ALL_TO_ALL;
  });
  checks->expect(is_known, "collective_caps: an unknown kind");
}

/// Whether the table is where it must be; only npu is known to have one.
bool has_table(const Subject& subject) {
  const bool has = subject.table.collective.collective_caps != nullptr;
#if defined(BP_GENERATION_PAST)
  subject.checks.expect(!has, "collectives: unknown to the past");
#else
  const bool is_past = subject.plugin_generation == Generation::kPast;
  subject.checks.expect(is_past ? !has : has || subject.plugin.manifest().id != "npu",
                        "collectives: those of the plugin");
#endif
  return has;
}

}  // namespace

void check_collectives(const Subject& subject) {
  if (!has_table(subject)) return;
  const Result<std::optional<CollectiveCaps>> caps =
      ask_collective_caps(subject.plugin, subject.table);
  subject.checks.expect(caps.ok(), "collective_caps: " + as_status(caps).to_string());
  if (!caps.ok()) return;
  subject.checks.expect(caps->has_value(), "collective_caps: a device that has them");
  if (!caps->has_value()) return;
  check_caps(**caps, &subject.checks);
  const OneRank rank(subject, (*caps)->uid_bytes);
  if (!rank.complete()) return;
  subject.checks.expect(rank.joined().state == BP_COMM_READY, "comm_poll: a group of one");
  check_sums(subject, rank);
  check_end(subject, rank);
}

}  // namespace bp::abi
