// SPDX-License-Identifier: Apache-2.0
//
// Level 4: operations in the order of their streams, arrays of them, and which ones meet.
#include <algorithm>
#include <atomic>
#include <optional>

#include "ops/oracle/oracle_tensor.hpp"
#include "sdk/conform/case.hpp"
#include "sdk/conform/collectives/subjects.hpp"

namespace bp::conform {
namespace {

constexpr uint64_t kCount = 100;
// Of what must not have happened by then: too short a wait hides a defect, and never makes one.
constexpr uint64_t kMomentNs = 20'000'000;

/// Elements of the group's own dtype, all of one small whole number.
Bytes all_of(const Ranks& ranks, int value, uint64_t count = kCount) {
  const uint32_t dtype = ranks.sum_dtype();
  Bytes bytes(count * element_bytes(dtype));
  for (uint64_t i = 0; i < count; ++i) {
    if (is_real_float(dtype)) {
      ops::store_float(dtype, bytes.data(), static_cast<int64_t>(i), value);
    } else {
      ops::store_integer(dtype, bytes.data(), static_cast<int64_t>(i),
                         static_cast<uint64_t>(value));
    }
  }
  return bytes;
}

/// The sum of all ranks, in place.
bp_collective_op sum(const Ranks& ranks, bp_mem mem, uint64_t count = kCount) {
  return operation(BP_COLLECTIVE_ALL_REDUCE, ranks.sum_dtype(), count, mem, mem, BP_REDUCTION_SUM);
}

/// NotApplicable where sends and recvs of the dtype are not among the rows.
void need_sends(const Ranks& ranks) {
  for (const uint32_t kind : {BP_COLLECTIVE_SEND, BP_COLLECTIVE_RECV}) {
    if (!ranks.caps().has(kind, ranks.sum_dtype(), 0, false)) {
      throw NotApplicable{"sends of another dtype than sums"};
    }
  }
}
bp_collective_op send(const Ranks& ranks, bp_mem mem, uint32_t to, uint64_t count = kCount) {
  return operation(BP_COLLECTIVE_SEND, ranks.sum_dtype(), count, mem, {}, 0, to);
}
bp_collective_op recv(const Ranks& ranks, bp_mem mem, uint32_t from, uint64_t count = kCount) {
  return operation(BP_COLLECTIVE_RECV, ranks.sum_dtype(), count, {}, mem, 0, from);
}

/// Room on each rank.
struct Buffers {
  Buffers(const Ranks& ranks, int value) {
    for (uint32_t rank = 0; rank < ranks.count(); ++rank) {
      each.push_back(std::make_unique<Fenced>(ranks.on(rank), all_of(ranks, value)));
    }
  }
  Fenced& operator[](uint32_t rank) const { return *each[rank]; }
  void expect(const Ranks& ranks, uint32_t rank, int value) const {
    ranks.context().expect_bytes(words("memory of rank ", rank), each[rank]->read("it"),
                                 all_of(ranks, value));
  }

  std::vector<std::unique_ptr<Fenced>> each;
};

void enqueue_does_not_wait(Context& context) {
  Ranks ranks(context, 2);
  Group group(ranks);
  const Buffers buffers(ranks, 1);
  Gate gate(context, group[0].stream());
  context.require_ok("collective_enqueue behind a held stream",
                     group[0].enqueue({sum(ranks, buffers[0].at())}));
  gate.open();
  context.expect_status("stream_sync while a rank is missing",
                        context.table().stream_sync(group[0].stream().get(), kMomentNs),
                        BP_TIMEOUT);
  context.expect_status("stream_query while a rank is missing", group[0].stream().query(),
                        BP_PENDING);
  ranks.on(1).require_ok("collective_enqueue of the other rank",
                         group[1].enqueue({sum(ranks, buffers[1].at())}));
  group.finish();
  for (uint32_t rank = 0; rank < 2; ++rank) buffers.expect(ranks, rank, 2);
}

void nothing_is_waited_for(Context& context) {
  Ranks ranks(context, 3);
  Group group(ranks);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    ranks.on(rank).require_ok("collective_enqueue of count 0",
                              group[rank].enqueue({ranks.nothing()}));
  }
  context.expect_status("stream_sync while a rank is missing",
                        context.table().stream_sync(group[0].stream().get(), kMomentNs),
                        BP_TIMEOUT);
  ranks.on(2).require_ok("collective_enqueue of count 0", group[2].enqueue({ranks.nothing()}));
  group.finish();
}

void events_come_behind(Context& context) {
  Ranks ranks(context, 2);
  Group group(ranks);
  const Buffers buffers(ranks, 1);
  context.require_ok("collective_enqueue", group[0].enqueue({sum(ranks, buffers[0].at())}));
  const Event event(context);
  event.record(group[0].stream());
  std::atomic<int> calls{0};
  group[0].stream().call([](void* user, bp_status) { ++*static_cast<std::atomic<int>*>(user); },
                         &calls);
  context.expect_status("event_sync of an event behind an operation", event.sync(kMomentNs),
                        BP_TIMEOUT);
  context.expect_equal("host calls behind an operation that is not done", calls.load(), 0);
  ranks.on(1).require_ok("collective_enqueue", group[1].enqueue({sum(ranks, buffers[1].at())}));
  context.expect_ok("event_sync", event.sync(context.patience_ns()));
  buffers.expect(ranks, 0, 2);
  group.finish();
  context.expect_equal("host calls", calls.load(), 1);
}

void other_streams_go_on(Context& context) {
  Ranks ranks(context, 2);
  Group group(ranks);
  const Buffers buffers(ranks, 1);
  context.require_ok("collective_enqueue", group[0].enqueue({sum(ranks, buffers[0].at())}));
  const Stream other(context);
  Memory memory(context, 4096);
  const Bytes content = make_bytes(4096, 7);
  other.upload(memory, content);
  other.finish();  // while the operation waits for rank 1
  memory.expect("memory that another stream wrote", content);
  ranks.on(1).require_ok("collective_enqueue", group[1].enqueue({sum(ranks, buffers[1].at())}));
  group.finish();
}

void many_in_one_stream(Context& context) {
  Ranks ranks(context, 2);
  Group group(ranks);
  const Buffers buffers(ranks, 1);
  for (int i = 0; i < 3; ++i) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      ranks.on(rank).require_ok("collective_enqueue",
                                group[rank].enqueue({sum(ranks, buffers[rank].at())}));
    }
  }
  group.finish();
  for (uint32_t rank = 0; rank < 2; ++rank) buffers.expect(ranks, rank, 8);
}

/// 64 operations as one batch, on the same memory.
void many_in_one_array(Context& context) {
  Ranks ranks(context, 2);
  Group group(ranks);
  const Buffers buffers(ranks, 0);
  std::vector<Operations> of_ranks;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    of_ranks.emplace_back(64, sum(ranks, buffers[rank].at()));
  }
  group.enqueue_together(of_ranks);
  group.finish();
  for (uint32_t rank = 0; rank < 2; ++rank) {
    buffers.expect(ranks, rank, 0);
    context.expect_equal("enqueued_sequence", group[rank].poll().enqueued_sequence, 64u);
  }
}

/// One in each of two streams: a communicator's operations keep their order all the same.
void two_streams_of_a_communicator(Context& context) {
  Ranks ranks(context, 2);
  Group group(ranks);
  const Buffers first(ranks, 1);
  const Buffers second(ranks, 3);
  std::vector<Stream> others;
  for (uint32_t rank = 0; rank < 2; ++rank) others.emplace_back(ranks.on(rank));
  for (uint32_t rank = 0; rank < 2; ++rank) {
    ranks.on(rank).require_ok("collective_enqueue",
                              group[rank].enqueue({sum(ranks, first[rank].at())}));
    const Event event(ranks.on(rank));
    event.record(group[rank].stream());
    event.wait_on(others[rank]);
    ranks.on(rank).require_ok("collective_enqueue into another stream",
                              group[rank].enqueue({sum(ranks, second[rank].at())}, &others[rank]));
  }
  group.finish();
  for (uint32_t rank = 0; rank < 2; ++rank) {
    others[rank].finish();
    first.expect(ranks, rank, 2);
    second.expect(ranks, rank, 6);
  }
}

void arguments_are_consumed(Context& context) {
  Ranks ranks(context, 2);
  Group group(ranks);
  const Buffers buffers(ranks, 1);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    Operations operations = {sum(ranks, buffers[rank].at())};
    std::vector<bp_collective_batch> batches = {group[rank].batch(operations)};
    ranks.on(rank).require_ok("collective_enqueue", enqueue(ranks.on(rank), batches));
    group[rank].count_in(operations);
    operations[0].count = UINT64_MAX;
    operations[0].kind = 99;
    operations[0].send = operations[0].recv = {};
    batches[0].sequence = 0;
  }
  group.finish();
  for (uint32_t rank = 0; rank < 2; ++rank) buffers.expect(ranks, rank, 2);
}

template <class Row>
struct Wider {
  Row row;
  uint64_t future[3] = {~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}};
};

void wider_strides(Context& context) {
  Ranks ranks(context, 2);
  Group group(ranks);
  const Buffers buffers(ranks, 1);
  std::vector<std::vector<Wider<bp_collective_op>>> operations(2);
  std::vector<Wider<bp_collective_batch>> batches;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    operations[rank].assign(2, {sum(ranks, buffers[rank].at())});
    const Operations none;
    batches.push_back({group[rank].batch(none)});
    batches[rank].row.operations = &operations[rank][0].row;
    batches[rank].row.operation_count = 2;
    batches[rank].row.operation_stride_bytes = sizeof(Wider<bp_collective_op>);
  }
  const bp_collective_args args{sizeof(args), 0, &batches[0].row, 2,
                                sizeof(Wider<bp_collective_batch>)};
  context.require_ok("collective_enqueue of rows with wider strides",
                     context.table().collective_enqueue(args));
  group.finish();
  for (uint32_t rank = 0; rank < 2; ++rank) buffers.expect(ranks, rank, 4);
}

void both_ways_in_one_array(Context& context) {
  Ranks ranks(context, 2);
  need_sends(ranks);
  Group group(ranks);
  const Buffers own(ranks, 3);
  const Buffers other(ranks, 0);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    own[rank].write(all_of(ranks, static_cast<int>(rank) + 1));
    // One sends first, the other receives first.
    Operations operations = {send(ranks, own[rank].at(), 1 - rank),
                             recv(ranks, other[rank].at(), 1 - rank)};
    if (rank == 1) std::swap(operations[0], operations[1]);
    ranks.on(rank).require_ok("collective_enqueue", group[rank].enqueue(operations));
  }
  group.finish();
  for (uint32_t rank = 0; rank < 2; ++rank) other.expect(ranks, rank, 2 - static_cast<int>(rank));
}

/// In opposite orders on the two ranks, one stream each: an array has no order.
void two_groups_on_one_stream(Context& context) {
  Ranks ranks(context, 2);
  Group groups[2] = {Group(ranks), Group(ranks)};
  const Buffers first(ranks, 1);
  const Buffers second(ranks, 3);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const Operations of_groups[2] = {{sum(ranks, first[rank].at())},
                                     {sum(ranks, second[rank].at())}};
    std::vector<bp_collective_batch> batches;
    for (uint32_t i = 0; i < 2; ++i) {
      const uint32_t which = rank == 0 ? i : 1 - i;
      batches.push_back(groups[which][rank].batch(of_groups[which], &groups[0][rank].stream()));
    }
    ranks.on(rank).require_ok("collective_enqueue of two communicators",
                              enqueue(ranks.on(rank), batches));
    for (uint32_t i = 0; i < 2; ++i) groups[i][rank].count_in(of_groups[i]);
  }
  groups[0].finish();
  for (uint32_t rank = 0; rank < 2; ++rank) {
    first.expect(ranks, rank, 2);
    second.expect(ranks, rank, 6);
  }
}

void refused_as_a_whole(Context& context) {
  Ranks ranks(context, 2);
  Group group(ranks);
  const Buffers buffers(ranks, 1);
  std::vector<Operations> of_ranks;
  for (uint32_t rank = 0; rank < 2; ++rank) of_ranks.push_back({sum(ranks, buffers[rank].at())});
  std::vector<Operations> spoilt = of_ranks;
  spoilt[1].push_back(operation(99, ranks.sum_dtype(), 0, {}, {}));
  const std::vector<bp_collective_batch> batches = {group[0].batch(spoilt[0]),
                                                    group[1].batch(spoilt[1])};
  context.expect_status("collective_enqueue with a bad operation at its end",
                        enqueue(context, batches), BP_UNSUPPORTED);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    context.expect_equal("enqueued_sequence", group[rank].poll().enqueued_sequence, 0u);
    group[rank].finish();
    buffers.expect(ranks, rank, 1);
  }
  group.enqueue_together(of_ranks);
  group.finish();
  for (uint32_t rank = 0; rank < 2; ++rank) buffers.expect(ranks, rank, 2);
}

void two_batches_of_one_communicator(Context& context) {
  Ranks ranks(context, 1);
  Group group(ranks);
  const Operations one = {ranks.nothing()};
  const std::vector<bp_collective_batch> batches(2, group[0].batch(one));
  context.expect_status("collective_enqueue with two batches of a communicator",
                        enqueue(context, batches), BP_INVALID_ARGUMENT);
  context.expect_ok("collective_enqueue afterwards", group[0].enqueue(one));
  group.finish();
}

void memory_that_is_not_there(Context& context) {
  Ranks ranks(context, 1);
  Group group(ranks);
  const Operations bad = {sum(ranks, {})};
  context.expect_status("collective_enqueue with handle 0", group[0].enqueue(bad),
                        BP_INVALID_ARGUMENT);
  context.expect_ok("collective_enqueue afterwards", group[0].enqueue({ranks.nothing()}));
  group.finish();
}

/// Two sends to each of two ranks, mixed, and one back; all ranks but the first receive late.
void sends_count_by_peer_and_direction(Context& context) {
  Ranks ranks(context, 3);
  need_sends(ranks);
  Group group(ranks);
  std::vector<std::unique_ptr<Fenced>> sent;
  for (int value = 1; value <= 4; ++value) {
    sent.push_back(std::make_unique<Fenced>(context, all_of(ranks, value)));
  }
  const Fenced back(context, all_of(ranks, 0));
  const uint32_t to[] = {1, 2, 2, 1};
  for (size_t i = 0; i < std::size(to); ++i) {
    if (i == 2) {
      context.require_ok("collective_enqueue of a recv",
                         group[0].enqueue({recv(ranks, back.at(), 1)}));
    }
    context.require_ok("collective_enqueue of a send",
                       group[0].enqueue({send(ranks, sent[i]->at(), to[i])}));
  }
  const Buffers first(ranks, 0);
  const Buffers second(ranks, 0);
  const Fenced own(ranks.on(1), all_of(ranks, 5));
  // Rank 1 sends first, since rank 0's stream comes to that recv before its second send.
  ranks.on(1).require_ok("collective_enqueue", group[1].enqueue({recv(ranks, first[1].at(), 0),
                                                                 send(ranks, own.at(), 0)}));
  ranks.on(1).require_ok("collective_enqueue", group[1].enqueue({recv(ranks, second[1].at(), 0)}));
  ranks.on(2).require_ok("collective_enqueue", group[2].enqueue({recv(ranks, first[2].at(), 0),
                                                                 recv(ranks, second[2].at(), 0)}));
  group.finish();
  first.expect(ranks, 1, 1);
  second.expect(ranks, 1, 4);
  first.expect(ranks, 2, 2);
  second.expect(ranks, 2, 3);
  context.expect_bytes("what rank 1 sent back", back.read("it"), all_of(ranks, 5));
}

void sends_take_no_sequence(Context& context) {
  Ranks ranks(context, 2);
  need_sends(ranks);
  Group group(ranks);
  const Buffers sums(ranks, 1);
  const Buffers other(ranks, 0);
  const Fenced own(context, all_of(ranks, 7));
  // Rank 0's array has a send between its sums, rank 1's a recv before them.
  context.require_ok("collective_enqueue",
                     group[0].enqueue({sum(ranks, sums[0].at()), send(ranks, own.at(), 1),
                                       sum(ranks, sums[0].at())}));
  ranks.on(1).require_ok("collective_enqueue",
                         group[1].enqueue({recv(ranks, other[1].at(), 0), sum(ranks, sums[1].at()),
                                           sum(ranks, sums[1].at())}));
  group.finish();
  for (uint32_t rank = 0; rank < 2; ++rank) {
    sums.expect(ranks, rank, 4);
    context.expect_equal("enqueued_sequence", group[rank].poll().enqueued_sequence, 2u);
  }
  other.expect(ranks, 1, 7);
}

void enqueued_sequence(Context& context) {
  Ranks ranks(context, 2);
  Group group(ranks);
  context.expect_equal("enqueued_sequence at first", group[0].poll().enqueued_sequence, 0u);
  for (uint64_t sequence = 1; sequence <= 3; ++sequence) {
    context.require_ok("collective_enqueue", group[0].enqueue({ranks.nothing()}));
    const auto told = [&] { return group[0].poll().enqueued_sequence; };
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::nanoseconds(context.patience_ns());
    while (told() != sequence && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    context.expect_equal("enqueued_sequence, while rank 1 is missing", told(), sequence);
    context.expect_equal("enqueued_sequence of rank 1", group[1].poll().enqueued_sequence, 0u);
  }
  for (int i = 0; i < 3; ++i) {
    ranks.on(1).require_ok("collective_enqueue", group[1].enqueue({ranks.nothing()}));
  }
  group.finish();
}

/// No third rank takes part, and none is waited for.
void two_of_three_ranks(Context& context) {
  Ranks ranks(context, 3);
  need_sends(ranks);
  Group group(ranks);
  const Buffers buffers(ranks, 0);
  const Fenced own(context, all_of(ranks, 3));
  context.require_ok("collective_enqueue", group[0].enqueue({send(ranks, own.at(), 2)}));
  ranks.on(2).require_ok("collective_enqueue", group[2].enqueue({recv(ranks, buffers[2].at(), 0)}));
  group[0].finish();
  group[2].finish();
  buffers.expect(ranks, 2, 3);
}

/// The device may have both at work at once, where it says so.
void communicators_at_once(Context& context) {
  Ranks ranks(context, 2);
  if ((ranks.caps().flags & BP_CAPS_CONCURRENT_BIT) == 0) throw NotApplicable{"not CONCURRENT"};
  Group held(ranks);
  Group other(ranks);
  const Buffers buffers(ranks, 1);
  context.require_ok("collective_enqueue", held[0].enqueue({sum(ranks, buffers[0].at())}));
  for (int i = 0; i < 10; ++i) {
    other.enqueue_together(std::vector<Operations>(2, {ranks.nothing()}));
    other.finish();  // while the first group's operation waits for its rank 1
  }
  ranks.on(1).require_ok("collective_enqueue", held[1].enqueue({sum(ranks, buffers[1].at())}));
  held.finish();
  for (uint32_t rank = 0; rank < 2; ++rank) buffers.expect(ranks, rank, 2);
}

void two_ranks_on_one_device(Context& context) {
  const CollectiveCaps caps = caps_of(context);
  if ((caps.flags & BP_CAPS_SHARED_DEVICE_BIT) == 0) throw NotApplicable{"not SHARED_DEVICE"};
  const Bytes uid = new_uid(context, caps);
  Member members[2] = {Member(context), Member(context)};
  for (uint32_t rank = 0; rank < 2; ++rank) {
    context.require_ok("comm_init", members[rank].init(comm_args(uid, rank, 2)));
  }
  const Ranks ranks(context, 1);
  const Fenced memories[2] = {Fenced(context, all_of(ranks, 1)), Fenced(context, all_of(ranks, 2))};
  for (uint32_t rank = 0; rank < 2; ++rank) {
    context.require(members[rank].poll_joined().state == BP_COMM_READY, "a group that is ready");
  }
  for (uint32_t rank = 0; rank < 2; ++rank) {
    context.require_ok("collective_enqueue",
                       members[rank].enqueue({sum(ranks, memories[rank].at())}));
  }
  for (uint32_t rank = 0; rank < 2; ++rank) {
    members[rank].finish();
    context.expect_bytes(words("memory of rank ", rank), memories[rank].read("it"),
                         all_of(ranks, 3));
  }
}

struct Named {
  const char* id;
  const char* proves;
  void (*run)(Context&);
};
constexpr Named kCases[] = {
    {"order.enqueue_does_not_wait", "collective_enqueue waits for no stream and no rank",
     enqueue_does_not_wait},
    {"order.count_0_takes_part", "an operation of nothing waits for all ranks, and ends",
     nothing_is_waited_for},
    {"order.events_and_host_calls_come_behind",
     "what is enqueued behind an operation comes after it", events_come_behind},
    {"order.other_streams_go_on", "an operation that waits for a rank holds up no other stream",
     other_streams_go_on},
    {"order.many_in_one_stream", "operations of a stream run one after the other",
     many_in_one_stream},
    {"order.two_streams_of_a_communicator",
     "operations of a communicator may lie in several streams", two_streams_of_a_communicator},
    {"order.arguments_are_consumed", "collective_enqueue keeps nothing of its arguments",
     arguments_are_consumed},
    {"order.communicators_at_once", "where the caps say so, communicators of a device work at once",
     communicators_at_once},
    {"array.many_operations", "an array has as many operations as are asked for",
     many_in_one_array},
    {"array.wider_strides", "rows of a newer ABI are read by their strides", wider_strides},
    {"array.both_ways", "a send and a recv of one array do not wait for each other",
     both_ways_in_one_array},
    {"array.two_groups_on_one_stream", "batches of an array do not wait for each other",
     two_groups_on_one_stream},
    {"array.refused_as_a_whole", "an array with a bad operation has no effect", refused_as_a_whole},
    {"array.two_batches_of_a_communicator", "a communicator has one batch at most in an array",
     two_batches_of_one_communicator},
    {"array.memory_that_is_not_there", "an operation without its memory is refused",
     memory_that_is_not_there},
    {"numbers.sends_by_peer_and_direction",
     "a send meets the recv of its own number for that peer and direction",
     sends_count_by_peer_and_direction},
    {"numbers.sends_take_no_sequence", "sends and recvs do not count among collectives",
     sends_take_no_sequence},
    {"numbers.enqueued_sequence", "comm_poll tells the last collective in this rank's order",
     enqueued_sequence},
    {"numbers.two_of_three_ranks", "a send concerns two ranks alone", two_of_three_ranks},
    {"caps.two_ranks_on_one_device", "where the caps say so, two ranks may be on one device",
     two_ranks_on_one_device},
};

}  // namespace

void add_collective_order_cases(CaseList* list) {
  for (const KindShape& shape : kind_shapes()) {
    list->add({.id = "L4.order." + std::string(shape.name),
               .proves = "an operation begins when the work before it is done, and the work behind "
                         "it sees what it wrote",
               .needs = kNeedCollectives,
               .run = [&shape](Context& context) { run_in_streams(context, shape); }});
  }
  for (const Named& each : kCases) {
    list->add({.id = words("L4.", each.id),
               .proves = each.proves,
               .needs = kNeedCollectives,
               .run = each.run});
  }
}

}  // namespace bp::conform
