// SPDX-License-Identifier: Apache-2.0
//
// Level 4: how groups end, and what stays as it was; and what is promised of values beside them.
#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

#include "core/base/dtype.hpp"
#include "ops/oracle/oracle_tensor.hpp"
#include "sdk/conform/case.hpp"
#include "sdk/conform/collectives/subjects.hpp"

namespace bp::conform {
namespace {

using Clock = std::chrono::steady_clock;

void expect_cancelled(Context& context, const Member& member, std::string_view when) {
  const bp_comm_state state = member.poll();
  context.expect_equal(words("state ", when), state.state, BP_COMM_FAILED);
  context.expect_status(words("status of comm_poll ", when), state.status, BP_CANCELLED);
}

void while_joining(Context& context) {
  Ranks ranks(context, 2);
  const Bytes uid = new_uid(context, ranks.caps());
  Member member(context);
  context.require_ok("comm_init", member.init(comm_args(uid, 0, 2)));
  context.expect_ok("comm_abort while a rank is missing", member.abort());
  expect_cancelled(context, member, "after comm_abort");
  context.expect_status("collective_enqueue after comm_abort", member.enqueue({ranks.nothing()}),
                        BP_CANCELLED);
  member.destroy();
  context.expect_ok("stream_sync", member.stream().sync());
}

void destroyed_while_joining(Context& context) {
  Ranks ranks(context, 2);
  const Bytes uid = new_uid(context, ranks.caps());
  Member member(context);
  context.require_ok("comm_init", member.init(comm_args(uid, 0, 2)));
  member.destroy();
}

/// All ranks but the last have come.
void while_an_operation_waits(Context& context, uint32_t count) {
  Ranks ranks(context, count);
  Group group(ranks);
  for (uint32_t rank = 0; rank + 1 < count; ++rank) {
    ranks.on(rank).require_ok("collective_enqueue", group[rank].enqueue({ranks.nothing()}));
  }
  const auto begin = Clock::now();
  context.expect_ok("comm_abort of all ranks", abort(context, group.comms()));
  context.expect(Clock::now() - begin <= std::chrono::nanoseconds(abort_ns(context)),
                 "comm_abort to return within a second");
  for (uint32_t rank = 0; rank < count; ++rank) {
    if (rank + 1 < count) {
      context.expect_status(words("stream_sync of rank ", rank, " after comm_abort"),
                            group[rank].sync_aborted(), BP_CANCELLED);
    }
    expect_cancelled(context, group[rank], "after comm_abort");
    context.expect_status("collective_enqueue after comm_abort",
                          group[rank].enqueue({ranks.nothing()}), BP_CANCELLED);
  }
}

void one_rank_alone(Context& context) {
  Ranks ranks(context, 2);
  Group group(ranks);
  ranks.on(1).require_ok("collective_enqueue", group[1].enqueue({ranks.nothing()}));
  context.expect_ok("comm_abort of rank 0", group[0].abort());
  expect_cancelled(context, group[0], "of the rank that was aborted");
  context.expect_equal("state of the other rank", group[1].poll().state, BP_COMM_READY);
  context.expect_status("stream_sync of the other rank",
                        ranks.table(1).stream_sync(group[1].stream().get(), 20'000'000),
                        BP_TIMEOUT);
  ranks.on(1).expect_ok("comm_abort of rank 1", group[1].abort());
  ranks.on(1).expect_status("stream_sync of rank 1", group[1].sync_aborted(), BP_CANCELLED);
}

void again_and_again(Context& context) {
  Ranks ranks(context, 2);
  Group group(ranks);
  context.require_ok("collective_enqueue", group[0].enqueue({ranks.nothing()}));
  for (int i = 0; i < 3; ++i) {
    context.expect_ok(words("comm_abort, time ", i + 1), abort(context, group.comms()));
  }
  context.expect_ok("comm_abort of one of them", group[1].abort());
  context.expect_status("stream_sync", group[0].sync_aborted(), BP_CANCELLED);
  expect_cancelled(context, group[0], "after the last comm_abort");
}

void idle_group(Context& context) {
  Ranks ranks(context, 2);
  Group group(ranks);
  group.enqueue_together(std::vector<Operations>(2, {ranks.nothing()}));
  group.finish();
  context.expect_ok("comm_abort of an idle group", abort(context, group.comms()));
  for (uint32_t rank = 0; rank < 2; ++rank) {
    expect_cancelled(context, group[rank], "after comm_abort");
    ranks.on(rank).expect_ok("stream_sync of a stream whose work was done before",
                             group[rank].stream().sync());
  }
}

/// The communicator ends while its operation is behind work that has not begun.
void destroy_waits_for_nothing(Context& context) {
  Ranks ranks(context, 2);
  Group group(ranks);
  Gate gate(context, group[0].stream());
  context.require_ok("collective_enqueue", group[0].enqueue({ranks.nothing()}));
  context.expect_ok("comm_abort", group[0].abort());
  const auto begin = Clock::now();
  group[0].destroy();
  context.expect(Clock::now() - begin <= std::chrono::nanoseconds(abort_ns(context)),
                 "comm_destroy to wait for no stream");
  gate.open();
  context.expect_status("stream_sync", group[0].sync_aborted(), BP_CANCELLED);
}

void all_streams_end(Context& context) {
  Ranks ranks(context, 2);
  Group group(ranks);
  const Stream other(context);
  context.require_ok("collective_enqueue", group[0].enqueue({ranks.nothing()}));
  context.require_ok("collective_enqueue into another stream",
                     group[0].enqueue({ranks.nothing()}, &other));
  context.expect_ok("comm_abort", group[0].abort());
  context.expect_status("stream_sync", group[0].sync_aborted(), BP_CANCELLED);
  context.expect_status("stream_sync of the other stream",
                        context.table().stream_sync(other.get(), abort_ns(context)), BP_CANCELLED);
}

void sends_and_recvs(Context& context) {
  Ranks ranks(context, 2);
  const uint32_t dtype = ranks.sum_dtype();
  if (!ranks.caps().has(BP_COLLECTIVE_RECV, dtype, 0, false)) throw NotApplicable{"no recv of it"};
  Group group(ranks);
  context.require_ok("collective_enqueue of a recv",
                     group[0].enqueue({operation(BP_COLLECTIVE_RECV, dtype, 0, {}, {}, 0, 1)}));
  context.expect_ok("comm_abort", group[0].abort());
  context.expect_status("stream_sync", group[0].sync_aborted(), BP_CANCELLED);
}

void two_groups_by_one_call(Context& context) {
  Ranks ranks(context, 2);
  Group groups[2] = {Group(ranks), Group(ranks)};
  std::vector<bp_comm*> all;
  for (const Group& group : groups) {
    context.require_ok("collective_enqueue", group[0].enqueue({ranks.nothing()}));
    for (bp_comm* const comm : group.comms()) all.push_back(comm);
  }
  context.expect_ok("comm_abort of two groups", abort(context, all));
  for (const Group& group : groups) {
    context.expect_status("stream_sync", group[0].sync_aborted(), BP_CANCELLED);
    for (uint32_t rank = 0; rank < 2; ++rank) {
      expect_cancelled(context, group[rank], "after comm_abort of both groups");
    }
  }
}

void other_groups_go_on(Context& context) {
  Ranks ranks(context, 2);
  Group ended(ranks);
  Group other(ranks);
  context.expect_ok("comm_abort", abort(context, ended.comms()));
  other.enqueue_together(std::vector<Operations>(2, {ranks.nothing()}));
  other.finish();
  context.expect_equal("state of another group", other[0].poll().state, BP_COMM_READY);
}

void another_group_afterwards(Context& context) {
  Ranks ranks(context, 3);
  for (int i = 0; i < 5; ++i) {
    {
      Group group(ranks);
      context.require_ok("collective_enqueue", group[0].enqueue({ranks.nothing()}));
      context.expect_ok("comm_abort", abort(context, group.comms()));
      context.expect_status("stream_sync", group[0].sync_aborted(), BP_CANCELLED);
    }
    Group next(ranks);
    next.enqueue_together(std::vector<Operations>(3, {ranks.nothing()}));
    next.finish();
  }
}

/// While one thread polls and another enqueues.
void during_other_calls(Context& context) {
  Ranks ranks(context, 2);
  Group group(ranks);
  std::atomic<bool> stop{false};
  std::atomic<int> polls{0};
  std::thread poller([&] {
    bp_comm_state state{};
    state.struct_size = sizeof(state);
    while (!stop && context.table().comm_poll(group[0].comm(), &state) == BP_OK) ++polls;
  });
  bp_status last = BP_OK;
  std::atomic<bool> enqueued{false};
  std::thread enqueuer([&] {
    while (!stop && last == BP_OK) {
      last = group[0].enqueue({ranks.nothing()});
      enqueued = true;
    }
  });
  // Without an operation the abort would leave the stream as it was: OK.
  const auto end = Clock::now() + std::chrono::nanoseconds(context.patience_ns());
  while ((polls < 10 || !enqueued) && Clock::now() < end) std::this_thread::yield();
  context.expect_ok("comm_abort", group[0].abort());
  enqueuer.join();
  stop = true;
  poller.join();
  context.expect(polls >= 10, "comm_poll to answer while other calls are in progress");
  context.expect(
      last == BP_CANCELLED || last == BP_POISONED,
      words("collective_enqueue to answer CANCELLED or POISONED, found ", status_words(last)));
  context.expect_status("stream_sync", group[0].sync_aborted(), BP_CANCELLED);
}

void busy_while_healthy(Context& context) {
  Ranks ranks(context, 2);
  Group group(ranks);
  context.require_ok("collective_enqueue", group[0].enqueue({ranks.nothing()}));
  context.expect_status("comm_destroy with work that is pending",
                        context.table().comm_destroy(group[0].comm()), BP_BUSY);
  context.expect_equal("state after comm_destroy that was BUSY", group[0].poll().state,
                       BP_COMM_READY);
  ranks.on(1).require_ok("collective_enqueue", group[1].enqueue({ranks.nothing()}));
  group.finish();
}

void ready_to_go_after_sync(Context& context) {
  Ranks ranks(context, 2);
  for (int i = 0; i < 50; ++i) {
    Group group(ranks);
    group.enqueue_together(std::vector<Operations>(2, {ranks.nothing()}));
    group.finish();
    for (uint32_t rank = 0; rank < 2; ++rank) group[rank].destroy();
    context.require(!ranks.has_failures(), "no failure so far");
  }
}

/// A minimum or maximum of one NaN among other values, at each rank in turn.
void nan_among_values(Context& context, uint32_t reduction, uint32_t dtype) {
  Ranks ranks(context, 3);
  if (!ranks.caps().has(BP_COLLECTIVE_ALL_REDUCE, dtype, reduction, false)) {
    throw NotApplicable{"no row has this reduction and dtype"};
  }
  const bool keeps_nan = (ranks.caps().flags & BP_CAPS_NAN_BIT) != 0;
  Group group(ranks);
  std::vector<std::unique_ptr<Fenced>> memories;
  std::vector<Operations> of_ranks;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    double values[4] = {1.0, 1.0, 1.0, 1.0};
    values[rank] = std::numeric_limits<double>::quiet_NaN();
    const Bytes content = OracleTensor::from_f64(dtype, {4}, values).bytes;
    memories.push_back(std::make_unique<Fenced>(ranks.on(rank), content));
    const bp_mem mem = memories[rank]->at();
    of_ranks.push_back({operation(BP_COLLECTIVE_ALL_REDUCE, dtype, 4, mem, mem, reduction)});
  }
  group.enqueue_together(of_ranks);
  group.finish();
  const Bytes first = memories[0]->read("what rank 0 received");
  for (uint32_t rank = 0; rank < 3; ++rank) {
    const Bytes found = memories[rank]->read("what is received");
    context.expect_bytes(words("what rank ", rank, " received, beside rank 0"), found, first);
    for (uint64_t i = 0; i < 4; ++i) {
      const double value = load_real(dtype, found.data(), i);
      const bool fits = std::isnan(value) ? i < 3 : value == 1.0 && (i == 3 || !keeps_nan);
      context.expect(fits, words("element ", i, " as the caps say of NaN, found ", value));
    }
  }
}

struct Named {
  const char* id;
  const char* proves;
  void (*run)(Context&);
};
constexpr Named kCases[] = {
    {"abort.while_joining", "a communicator that joins can be aborted", while_joining},
    {"abort.idle_group", "work that was done before comm_abort stays done", idle_group},
    {"abort.is_local", "comm_abort tells no other rank, and waits for none", one_rank_alone},
    {"abort.again", "comm_abort may be called again", again_and_again},
    {"abort.destroy_waits_for_nothing",
     "after comm_abort a communicator ends without its stream's work", destroy_waits_for_nothing},
    {"abort.all_streams_end", "comm_abort ends each stream that has the communicator's work",
     all_streams_end},
    {"abort.recv", "comm_abort ends a recv that no send will meet", sends_and_recvs},
    {"abort.two_groups", "one comm_abort ends communicators of several groups",
     two_groups_by_one_call},
    {"abort.other_groups_go_on", "comm_abort ends no other group", other_groups_go_on},
    {"abort.another_group_afterwards", "after comm_abort another group can be made",
     another_group_afterwards},
    {"abort.during_other_calls", "comm_abort may come while other calls are in progress",
     during_other_calls},
    {"destroy.while_joining", "a communicator may end before its group is ready",
     destroyed_while_joining},
    {"destroy.busy", "a healthy communicator with work pending is BUSY, and stays as it is",
     busy_while_healthy},
    {"destroy.after_sync", "a communicator can end once its streams were waited for",
     ready_to_go_after_sync},
};

}  // namespace

void add_collective_end_cases(CaseList* list) {
  const auto add = [list](std::string id, std::string_view proves, auto run) {
    list->add({.id = "L4." + std::move(id),
               .proves = proves,
               .needs = kNeedCollectives,
               .run = std::move(run)});
  };
  for (const Named& each : kCases) add(each.id, each.proves, each.run);
  for (uint32_t count = 2; count <= kMostRanks; ++count) {
    add(words("abort.while_an_operation_waits.p", count),
        "comm_abort ends pending and later operations with CANCELLED, within a second",
        [count](Context& context) { while_an_operation_waits(context, count); });
  }
  for (const uint32_t reduction : {BP_REDUCTION_MIN, BP_REDUCTION_MAX}) {
    for (const uint32_t dtype : {BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_F32, BP_DTYPE_F64}) {
      add(words("nan.", reduction_name(reduction), ".", dtype_name(dtype)),
          "what a minimum or maximum with NaN is, is as the caps say, and the same on all ranks",
          [=](Context& context) { nan_among_values(context, reduction, dtype); });
    }
  }
}

}  // namespace bp::conform
