// SPDX-License-Identifier: Apache-2.0
//
// Operations of a group of which some ranks are linked, and not all: each island of linked ranks
// reduces to its leader by the plugin's own collectives, leaders and other ranks exchange messages,
// and leaders tell their islands. All ranks conclude alike from their cards (ADR 36).
#include <algorithm>

#include "ccl/group/enqueue.hpp"

namespace bp::ccl {
namespace {

bool has(const Island& island, Kind kind, const Operation& operation) {
  CollectiveCaps caps;
  caps.rows = island.rows;
  // Who runs the messages divides what was summed.
  const Reduction reduction =
      operation.reduction == Reduction::kAvg ? Reduction::kSum : operation.reduction;
  return caps.has(static_cast<uint32_t>(kind), operation.dtype, static_cast<uint32_t>(reduction),
                  false);
}

bool has_rank(const Island& island, uint32_t rank) {
  return std::binary_search(island.ranks.begin(), island.ranks.end(), rank);
}

/// What its plugin calls the rank.
uint32_t number_in(const Island& island, uint32_t rank) {
  const auto found = std::lower_bound(island.ranks.begin(), island.ranks.end(), rank);
  return static_cast<uint32_t>(found - island.ranks.begin());
}

/// The same tensor both ways.
CheckedCall in_place(const CheckedCall& call) {
  CheckedCall changed = call;
  changed.send = call.recv;
  changed.send_bytes = call.recv_bytes;
  changed.is_in_place = true;
  return changed;
}

}  // namespace

bool ProcessGroup::serves_by_islands(const Operation& operation) const {
  if (is_native() || agreement_.islands.empty()) return false;
  if (operation.count == 0 || operation.is_deterministic) return false;
  const bool reduces = operation.kind == Kind::kAllReduce;
  if (!reduces && operation.kind != Kind::kBroadcast) return false;
  const auto& islands = agreement_.islands;
  return std::all_of(islands.begin(), islands.end(), [&](const Island& island) {
    if (!has(island, Kind::kBroadcast, operation)) return false;
    return !reduces || has(island, Kind::kReduce, operation) ||
           has(island, Kind::kAllReduce, operation);
  });
}

/// Which rank of the island takes part in messages: the root, to spare a hop.
uint32_t ProcessGroup::leader_of(const Island& island, const Operation& operation) const {
  const bool has_root = kind_info(operation.kind).has_root && has_rank(island, operation.root);
  return has_root ? operation.root : island.ranks[0];
}

std::vector<uint32_t> ProcessGroup::leaders_for(const Operation& operation) const {
  std::vector<uint32_t> leaders;
  for (uint32_t rank = 0; rank < args_.place.rank_count; ++rank) {
    const Island* const island = agreement_.island_of(rank);
    if (island == nullptr || leader_of(*island, operation) == rank) leaders.push_back(rank);
  }
  return leaders;
}

/// From the leader, which has it in `recv`; in the root's own island from `send`.
CheckedCall ProcessGroup::inner_broadcast(const EnqueuedOne& one) const {
  const uint32_t leader = leader_of(*island_, one.call.operation);
  const bool is_root = one.call.operation.kind == Kind::kBroadcast && one.call.send;
  CheckedCall inner = is_root ? one.call : in_place(one.call);
  inner.operation.kind = Kind::kBroadcast;
  inner.operation.reduction = Reduction::kSum;
  inner.operation.root = number_in(*island_, leader);
  if (args_.place.rank != leader) inner.send = {};
  return inner;
}

/// Into `recv` of the leader.
CheckedCall ProcessGroup::inner_reduction(const EnqueuedOne& one) const {
  const uint32_t leader = leader_of(*island_, one.call.operation);
  CheckedCall inner = one.call;
  Operation& operation = inner.operation;
  if (operation.reduction == Reduction::kAvg) operation.reduction = Reduction::kSum;
  if (!has(*island_, Kind::kReduce, operation)) return inner;
  operation.kind = Kind::kReduce;
  operation.root = number_in(*island_, leader);
  if (args_.place.rank != leader) inner.recv = {};
  return inner;
}

std::vector<ProcessGroup::Piece> ProcessGroup::pieces_of(const EnqueuedOne& one) const {
  const Operation& operation = one.call.operation;
  const bool is_leader = leader_of(*island_, operation) == args_.place.rank;
  std::vector<Piece> pieces;
  if (operation.kind == Kind::kBroadcast && has_rank(*island_, operation.root)) {
    pieces.push_back({inner_broadcast(one), true});
    if (is_leader) pieces.push_back({in_place(one.call), false});
    return pieces;
  }
  const bool reduces = operation.kind == Kind::kAllReduce;
  if (reduces) pieces.push_back({inner_reduction(one), true});
  if (is_leader) pieces.push_back({reduces ? in_place(one.call) : one.call, false});
  pieces.push_back({inner_broadcast(one), true});
  return pieces;
}

Result<Ref<Work>> ProcessGroup::enqueue_piece(const Enqueue& whole, EnqueuedOne* one,
                                              const Piece& piece) {
  Enqueue part;
  part.stream = whole.stream;
  part.timeout = whole.timeout;
  part.path = piece.is_native ? OperationPath::kNative : whole.path;
  EnqueuedOne& of_part = part.ones.emplace_back(*one);
  of_part.call = piece.call;
  auto work = piece.is_native ? enqueue_native(&part) : enqueue_host(&part);
  one->record_id = of_part.record_id;
  one->is_recorded = of_part.is_recorded;
  return work;
}

/// What has no kernels is refused on all ranks before any piece begins.
Status ProcessGroup::check_kernels(const Enqueue& enqueue) {
  if (!enqueue.is_in_pieces && !enqueue.is_in_parts) return {};
  for (const EnqueuedOne& one : enqueue.ones) {
    if (one.is_native || one.is_among_leaders) continue;
    const auto combiner = combiner_of(one.call.operation);
    BP_TRY(combiner.status());
  }
  return {};
}

/// Answers the work of the last piece, which is over when the others are: they are in one stream.
Result<Ref<Work>> ProcessGroup::enqueue_in_pieces(Enqueue* enqueue) {
  Result<Ref<Work>> work = Ref<Work>();
  bool has_begun = false;
  for (EnqueuedOne& one : enqueue->ones) {
    std::vector<Piece> pieces;
    if (one.is_among_leaders) pieces = pieces_of(one);
    if (pieces.empty()) pieces.push_back({one.call, one.is_native});
    const CheckedCall called = one.call;
    if (one.is_among_leaders) one.whole = &called;  // for as long as this loop
    for (const Piece& piece : pieces) {
      one.is_last = &piece == &pieces.back();
      work = contain([&] { return enqueue_piece(*enqueue, &one, piece); });
      if (!work.ok() && has_begun) give_up(one, work.status());
      if (!work.ok()) return work;
      has_begun = true;
    }
    one.whole = nullptr;
  }
  return work;
}

/// Others have begun what this rank cannot go on with. Returns when the group has failed, to tell
/// why. Where the plugin's group has failed, this rank is a witness: the thread that drives may not
/// have asked the plugin yet.
void ProcessGroup::give_up(const EnqueuedOne& one, const Status& why) {
  bp_status code = why.code();
  std::vector<uint32_t> culprits;
  if (communicator_ != nullptr) {
    const auto state = communicator_->poll();
    if (state.ok() && state->state == BP_COMM_FAILED) {
      code = state->failure.code();
      culprits = island_->rank_of(state->culprit);
    }
  }
  if (culprits.empty()) culprits = {args_.place.rank};
  request_failure({.code = code,
                   .words = agreement_.names[args_.place.rank] + " could not go on with " +
                            describe(one.called().operation) + ": " + why.message(),
                   .culprits = std::move(culprits),
                   .sequence = one.sequence,
                   .operation = describe(one.called().operation)});
  messenger_->drive_until([this] { return has_failed_.load(); },
                          Clock::now() + std::chrono::seconds(1));
}

}  // namespace bp::ccl
