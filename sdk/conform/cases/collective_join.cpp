// SPDX-License-Identifier: Apache-2.0
//
// Level 4: what devices answer of collectives, and how groups come about.
#include <algorithm>
#include <set>
#include <string>
#include <thread>

#include "sdk/conform/case.hpp"
#include "sdk/conform/collectives/subjects.hpp"

namespace bp::conform {
namespace {

bp_collective_caps raw_caps(Context& context) {
  bp_collective_caps caps{};
  caps.struct_size = sizeof(caps);
  context.require_ok("collective_caps", context.table().collective_caps(&caps));
  return caps;
}

void answer_stays_the_same(Context& context) {
  const CollectiveCaps first = caps_of(context);
  const bp_collective_caps before = raw_caps(context);
  const std::string domain(static_cast<const char*>(before.domain), before.domain_bytes);
  Ranks ranks(context, 1);
  const Group group(ranks);
  const CollectiveCaps again = caps_of(context);
  context.expect(again.domain == first.domain && again.domain == domain, "the same domain again");
  context.expect_equal("flags", again.flags, first.flags);
  context.expect_equal("uid_bytes", again.uid_bytes, first.uid_bytes);
  context.expect_equal("uid_count_max", again.uid_count_max, first.uid_count_max);
  context.expect_equal("rank_count_max", again.rank_count_max, first.rank_count_max);
  context.expect_equal("rows", again.rows.size(), first.rows.size());
}

void more_ranks_than_the_most(Context& context) {
  const CollectiveCaps caps = caps_of(context);
  if (caps.rank_count_max == 0) throw NotApplicable{"rank_count_max is 0: no limit"};
  const Bytes uid = new_uid(context, caps);
  Member member(context);
  context.expect_status("comm_init with more ranks than rank_count_max",
                        member.init(comm_args(uid, 0, caps.rank_count_max + 1)),
                        BP_INVALID_ARGUMENT);
}

/// Every code that no row has, known or not, with the flag too where a row has it only without.
void unclaimed_is_refused(Context& context, uint32_t kind) {
  Ranks ranks(context, 1);
  Group group(ranks);
  std::vector<uint32_t> dtypes = {0, 63, 64, 1000};
  for (uint32_t dtype = BP_DTYPE_BOOL; dtype <= BP_DTYPE_F8E8M0; ++dtype) dtypes.push_back(dtype);
  std::vector<uint32_t> reductions = {0};
  if (collective_reduces(kind)) reductions = {0, 1, 2, 3, 4, 5, 63, 64, 1000};
  for (const uint32_t dtype : dtypes) {
    for (const uint32_t reduction : reductions) {
      for (const uint32_t flags : {0u, BP_OPERATION_DETERMINISTIC_BIT}) {
        const bool is_row_of_known = ranks.caps().has(kind, dtype, reduction, flags != 0);
        if (is_row_of_known || (flags != 0 && !collective_reduces(kind))) continue;
        bp_collective_op op = operation(kind, dtype, 0, {}, {}, reduction);
        op.flags = flags;
        context.expect_status(words("collective_enqueue of kind ", kind, ", dtype ", dtype,
                                    ", reduction ", reduction, ", flags ", flags),
                              group[0].enqueue({op}), BP_UNSUPPORTED);
      }
    }
  }
  context.expect_equal("enqueued_sequence", group[0].poll().enqueued_sequence, 0u);
  context.expect_ok("collective_enqueue of what a row has", group[0].enqueue({ranks.nothing()}));
  group.finish();
}

void unknown_kind_is_refused(Context& context) {
  Ranks ranks(context, 1);
  Group group(ranks);
  for (const uint32_t kind : {BP_COLLECTIVE_ALL_TO_ALL + 1, 99u, UINT32_MAX}) {
    context.expect_status(words("collective_enqueue of kind ", kind),
                          group[0].enqueue({operation(kind, ranks.sum_dtype(), 0, {}, {})}),
                          BP_UNSUPPORTED);
  }
  context.expect_ok("collective_enqueue afterwards", group[0].enqueue({ranks.nothing()}));
  group.finish();
}

void peer_out_of_range(Context& context) {
  Ranks ranks(context, 2);
  Group group(ranks);
  for (const uint32_t kind : {BP_COLLECTIVE_BROADCAST, BP_COLLECTIVE_SEND, BP_COLLECTIVE_RECV}) {
    for (const uint32_t dtype : kMovedDtypes) {
      if (!ranks.caps().has(kind, dtype, 0, false)) continue;
      context.expect_status(words("collective_enqueue of kind ", kind, " with peer 2 of 2"),
                            group[0].enqueue({operation(kind, dtype, 0, {}, {}, 0, 2)}),
                            BP_INVALID_ARGUMENT);
      break;
    }
  }
  group.enqueue_together(std::vector<Operations>(2, {ranks.nothing()}));
  group.finish();
}

void no_two_ids_are_equal(Context& context) {
  const CollectiveCaps caps = caps_of(context);
  std::set<Bytes> ids;
  constexpr size_t kCount = 200;
  for (size_t i = 0; i < kCount; ++i) ids.insert(new_uid(context, caps));
  context.expect_equal("different ids", ids.size(), kCount);
}

void ids_are_written_whole(Context& context) {
  const CollectiveCaps caps = caps_of(context);
  Bytes ids[2] = {Bytes(caps.uid_bytes, std::byte{0x55}), Bytes(caps.uid_bytes, std::byte{0xAA})};
  for (Bytes& id : ids) {
    bp_uid_space space{sizeof(space), 0, id.data(), id.size()};
    context.require_ok("uid_create", context.table().uid_create(&space));
  }
  size_t unwritten = 0;
  for (size_t i = 0; i < caps.uid_bytes; ++i) {
    unwritten += ids[0][i] == std::byte{0x55} && ids[1][i] == std::byte{0xAA} ? 1 : 0;
  }
  context.expect_equal("bytes of an id that are not written", unwritten, 0u);
}

void ids_of_another_size(Context& context) {
  const CollectiveCaps caps = caps_of(context);
  Bytes room(caps.uid_bytes + 1);
  for (const uint64_t bytes : {uint64_t{0}, caps.uid_bytes - 1, caps.uid_bytes + 1}) {
    bp_uid_space space{sizeof(space), 0, room.data(), bytes};
    context.expect_status(words("uid_create into ", bytes, " bytes"),
                          context.table().uid_create(&space), BP_INVALID_ARGUMENT);
  }
}

void init_does_not_wait(Context& context) {
  Ranks ranks(context, 2);
  const Bytes uid = new_uid(context, ranks.caps());
  Member first(context);
  context.require_ok("comm_init of the first of two ranks", first.init(comm_args(uid, 0, 2)));
  for (int i = 0; i < 20; ++i) {
    context.expect_equal("state while a rank is missing", first.poll().state, BP_COMM_JOINING);
    context.expect_status("collective_enqueue while a rank is missing",
                          first.enqueue({ranks.nothing()}), BP_PENDING);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  context.expect_ok("stream_sync of a stream that was given nothing", first.stream().sync());
}

void ready_once_all_have_come(Context& context, uint32_t count) {
  Ranks ranks(context, count);
  const Bytes uid = new_uid(context, ranks.caps());
  std::vector<std::unique_ptr<Member>> members;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t rank = count - 1 - i;  // the last one comes first
    for (const auto& member : members) {
      context.expect_equal("state while a rank is missing", member->poll().state, BP_COMM_JOINING);
    }
    members.push_back(std::make_unique<Member>(ranks.on(rank)));
    ranks.on(rank).require_ok("comm_init", members.back()->init(comm_args(uid, rank, count)));
  }
  for (const auto& member : members) {
    context.expect_equal("state once all have come", member->poll_joined().state, BP_COMM_READY);
  }
}

void threads_join_at_once(Context& context) {
  Ranks ranks(context, 4);
  for (int round = 0; round < 20; ++round) {
    const Bytes uid = new_uid(context, ranks.caps());
    std::vector<std::unique_ptr<Member>> members;
    for (uint32_t rank = 0; rank < 4; ++rank) {
      members.push_back(std::make_unique<Member>(ranks.on(rank)));
    }
    std::vector<bp_status> answers(4);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < 4; ++rank) {
      threads.emplace_back(
          [&, rank] { answers[rank] = members[rank]->init(comm_args(uid, rank, 4)); });
    }
    for (std::thread& thread : threads) thread.join();
    for (uint32_t rank = 0; rank < 4; ++rank) {
      context.require_ok(words("comm_init of rank ", rank), answers[rank]);
    }
    for (const auto& member : members) {
      context.expect_equal("state once all have come", member->poll_joined().state, BP_COMM_READY);
    }
  }
}

void bad_ranks_are_refused(Context& context) {
  const CollectiveCaps caps = caps_of(context);
  const Bytes uid = new_uid(context, caps);
  const std::pair<uint32_t, uint32_t> bad[] = {{1, 1}, {2, 2}, {UINT32_MAX, 2}, {0, 0}};
  for (const auto& [rank, rank_count] : bad) {
    Member member(context);
    context.expect_status(words("comm_init of rank ", rank, " of ", rank_count),
                          member.init(comm_args(uid, rank, rank_count)), BP_INVALID_ARGUMENT);
    context.expect(member.comm() == nullptr, "no communicator of a call that was refused");
  }
}

void bad_ids_are_refused(Context& context) {
  const CollectiveCaps caps = caps_of(context);
  const Bytes uid = new_uid(context, caps);
  const auto refused = [&](std::string_view what, auto change) {
    bp_comm_args args = comm_args(uid, 0, 1);
    change(args);
    Member member(context);
    context.expect_status(words("comm_init with ", what), member.init(args), BP_INVALID_ARGUMENT);
  };
  refused("no id", [](bp_comm_args& args) { args.uid_count = 0; });
  refused("an id of another size", [](bp_comm_args& args) { --args.uid_bytes; });
  refused("more ids than uid_count_max",
          [&](bp_comm_args& args) { args.uid_count = caps.uid_count_max + 1; });
}

void several_ids(Context& context) {
  Ranks ranks(context, 2);
  const uint32_t most = ranks.caps().uid_count_max;
  if (most < 2) throw NotApplicable{"uid_count_max is 1"};
  Bytes uids;
  for (uint32_t i = 0; i < std::min(most, 2u); ++i) {
    const Bytes uid = new_uid(ranks.on(i), ranks.caps());
    uids.insert(uids.end(), uid.begin(), uid.end());
  }
  std::vector<std::unique_ptr<Member>> members;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    bp_comm_args args = comm_args(uids, rank, 2);
    args.uid_bytes = ranks.caps().uid_bytes;
    args.uid_count = std::min(most, 2u);
    members.push_back(std::make_unique<Member>(ranks.on(rank)));
    ranks.on(rank).require_ok("comm_init with two ids", members[rank]->init(args));
  }
  context.expect_equal("state once both have come", members[0]->poll_joined().state, BP_COMM_READY);
}

/// Rank 0 of one group and rank 1 of another are no group.
void ids_keep_groups_apart(Context& context) {
  Ranks ranks(context, 2);
  const Bytes uid = new_uid(context, ranks.caps());
  const Bytes other = new_uid(context, ranks.caps());
  Member first(ranks.on(0));
  Member second(ranks.on(1));
  context.require_ok("comm_init", first.init(comm_args(uid, 0, 2)));
  context.require_ok("comm_init", second.init(comm_args(other, 1, 2)));
  for (int i = 0; i < 20; ++i) {
    context.expect_equal("state of rank 0 of a group", first.poll().state, BP_COMM_JOINING);
    context.expect_equal("state of rank 1 of another", second.poll().state, BP_COMM_JOINING);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void arguments_of_init_are_consumed(Context& context) {
  Ranks ranks(context, 2);
  const Bytes uid = new_uid(context, ranks.caps());
  std::vector<std::unique_ptr<Member>> members;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    Bytes copy = uid;
    std::string name = "a name that is gone after the call";
    bp_comm_args args = comm_args(copy, rank, 2);
    args.name = {name.data(), name.size()};
    args.timeout_hint_ns = context.patience_ns();
    members.push_back(std::make_unique<Member>(ranks.on(rank)));
    ranks.on(rank).require_ok("comm_init", members[rank]->init(args));
    std::fill(copy.begin(), copy.end(), std::byte{0xFF});
    std::fill(name.begin(), name.end(), 'x');
  }
  for (const auto& member : members) {
    context.expect_equal("state once both have come", member->poll_joined().state, BP_COMM_READY);
  }
}

void many_groups_in_turn(Context& context) {
  Ranks ranks(context, 2);
  for (int i = 0; i < 50; ++i) {
    Group group(ranks);
    group.enqueue_together(std::vector<Operations>(2, {ranks.nothing()}));
    group.finish();
    context.require(!ranks.has_failures(), "no failure so far");
  }
  context.expect(true, "fifty groups");
}

void many_groups_at_once(Context& context) {
  Ranks ranks(context, 2);
  std::vector<std::unique_ptr<Group>> groups;
  for (int i = 0; i < 16; ++i) groups.push_back(std::make_unique<Group>(ranks));
  for (const auto& group : groups) {
    group->enqueue_together(std::vector<Operations>(2, {ranks.nothing()}));
    group->finish();
    context.expect_equal("enqueued_sequence", (*group)[0].poll().enqueued_sequence, 1u);
  }
}

void add(CaseList* list, std::string id, std::string_view proves,
         std::function<void(Context&)> run) {
  list->add(
      {.id = std::move(id), .proves = proves, .needs = kNeedCollectives, .run = std::move(run)});
}

}  // namespace

void add_collective_join_cases(CaseList* list) {
  add(list, "L4.caps.answer_stays_the_same",
      "what a device answers of collectives does not change while it is open",
      answer_stays_the_same);
  add(list, "L4.caps.more_ranks_than_the_most", "a group of more ranks than can be is refused",
      more_ranks_than_the_most);
  for (const KindShape& shape : kind_shapes()) {
    const bool is_exchange = shape.kind == kExchange;
    add(list, "L4.rows." + std::string(is_exchange ? "send" : shape.name) + ".others_are_refused",
        "an operation that no row has is UNSUPPORTED, and has no effect",
        [kind = shape.kind](Context& context) { unclaimed_is_refused(context, kind); });
  }
  add(list, "L4.rows.recv.others_are_refused",
      "an operation that no row has is UNSUPPORTED, and has no effect",
      [](Context& context) { unclaimed_is_refused(context, BP_COLLECTIVE_RECV); });
  add(list, "L4.rows.unknown_kind", "a kind of a newer ABI is UNSUPPORTED",
      unknown_kind_is_refused);
  add(list, "L4.rows.peer_out_of_range",
      "a root or peer that is no rank is refused, with no effect", peer_out_of_range);
  add(list, "L4.uid.no_two_are_equal", "every id is a new one", no_two_ids_are_equal);
  add(list, "L4.uid.written_whole", "all bytes of an id are written", ids_are_written_whole);
  add(list, "L4.uid.another_size", "room of another size than an id's is refused",
      ids_of_another_size);
  add(list, "L4.join.init_does_not_wait",
      "comm_init returns while other ranks are missing, and work is PENDING until they come",
      init_does_not_wait);
  for (uint32_t count = 1; count <= kMostRanks; ++count) {
    add(list, words("L4.join.ready_once_all_have_come.p", count),
        "a group is ready when its last rank has come, and not before",
        [count](Context& context) { ready_once_all_have_come(context, count); });
  }
  add(list, "L4.join.threads_at_once", "ranks may join at once, each on a thread of its own",
      threads_join_at_once);
  add(list, "L4.join.bad_rank", "a rank beyond the group is refused", bad_ranks_are_refused);
  add(list, "L4.join.bad_ids", "ids of another size or number than the caps' are refused",
      bad_ids_are_refused);
  add(list, "L4.join.several_ids", "as many ids as the caps say make one group", several_ids);
  add(list, "L4.join.ids_keep_groups_apart", "ranks with different ids never meet",
      ids_keep_groups_apart);
  add(list, "L4.join.arguments_are_consumed", "comm_init keeps nothing of its arguments",
      arguments_of_init_are_consumed);
  add(list, "L4.join.many_in_turn", "groups come and go, and leave nothing behind",
      many_groups_in_turn);
  add(list, "L4.join.many_at_once", "groups on the same devices do not disturb each other",
      many_groups_at_once);
}

}  // namespace bp::conform
