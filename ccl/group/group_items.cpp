// SPDX-License-Identifier: Apache-2.0
//
// What operations by messages are made of: a schedule, a combiner, and the memory that they work
// in, as a whole or in chunks.
#include <algorithm>

#include "ccl/group/enqueue.hpp"
#include "ccl/group/staged_chunks.hpp"
#include "core/base/log.hpp"
#include "core/runtime/memory_range.hpp"

namespace bp::ccl {
namespace {

constexpr size_t kMostSchedules = 64;

bool same(const std::shared_ptr<const Blocks>& a, const std::shared_ptr<const Blocks>& b) {
  return a == b || (a != nullptr && b != nullptr && *a == *b);
}

/// What a block has on average, rounded up. The same on all ranks: of those that know their own
/// blocks alone it is 0.
uint64_t average_count(const Operation& operation, uint32_t rank_count) {
  if (operation.blocks == 0) return operation.count;
  return operation.count / rank_count + (operation.count % rank_count != 0 ? 1 : 0);
}

}  // namespace

/// By what is best for all of the operation. Among leaders these are numbered by themselves while
/// it is built.
Result<Schedule> ProcessGroup::build_schedule(const EnqueuedOne& one, const Portion& portion) {
  Operation operation = one.call.operation;
  RankPlace place = args_.place;
  std::vector<uint32_t> leaders;
  if (one.is_among_leaders) {
    leaders = leaders_for(operation);
    const auto number_of = [&](uint32_t rank) {
      return static_cast<uint32_t>(std::find(leaders.begin(), leaders.end(), rank) -
                                   leaders.begin());
    };
    place = {number_of(place.rank), static_cast<uint32_t>(leaders.size())};
    if (kind_info(operation.kind).has_root) operation.root = number_of(operation.root);
  }
  std::vector<uint32_t> hosts = hosts_;
  if (one.is_among_leaders && !hosts_.empty()) {
    hosts.clear();
    for (const uint32_t rank : leaders) hosts.push_back(hosts_[rank]);
  }
  Operation average = operation;
  average.count = average_count(operation, place.rank_count);
  const Choice choice = choose({.operation = average,
                                .rank_count = place.rank_count,
                                .has_blocks = portion.blocks != nullptr,
                                .hosts = hosts},
                               hosts.empty() ? kWithinHost : kBetweenHosts, rules_);
  const uint32_t kind_bit = 1u << static_cast<uint32_t>(operation.kind);
  if (choice.unfit_wish != nullptr && (told_unfit_kinds_ & kind_bit) == 0) {
    told_unfit_kinds_ |= kind_bit;
    log(BP_LOG_WARNING, "group " + args_.name + ": BACKPLANE_CCL_ALGORITHM wants " +
                            std::string(choice.unfit_wish->name) + " for " + describe(operation) +
                            ", which it cannot run among " + std::to_string(place.rank_count) +
                            " ranks: " + std::string(choice.algorithm->name) + " serves");
  }
  log(BP_LOG_DEBUG, "group " + args_.name + ": " + describe(operation) + " by " +
                        std::string(choice.algorithm->name));
  operation.count = portion.count;
  BuildArgs args{.operation = operation,
                 .place = place,
                 .is_in_place = portion.is_in_place,
                 .sends_empty_blocks = operation.blocks == kOwnBlocks && portion.is_first,
                 .hosts = hosts};
  if (portion.blocks != nullptr) args.blocks = &portion.blocks->all;
  if (operation.blocks == kOwnBlocks) args.send_blocks = &portion.blocks->send;
  BP_TRY_ASSIGN(Schedule built, build(choice.algorithm->name, args));
  for (Step& step : built.steps) {
    const bool is_message = step.kind == StepKind::kSend || step.kind == StepKind::kRecv;
    if (one.is_among_leaders && is_message) step.peer = leaders[step.peer];
  }
  return built;
}

/// Runs of `count` elements of the operation.
Result<HostRunPool*> ProcessGroup::runs_of(const EnqueuedOne& one, uint64_t count,
                                           bool is_in_place) {
  const Operation& operation = one.call.operation;
  const std::shared_ptr<const Blocks>& blocks = one.call.blocks;
  const auto known = std::find_if(schedules_.begin(), schedules_.end(), [&](const auto& entry) {
    return entry.count == count && entry.is_in_place == is_in_place &&
           entry.is_among_leaders == one.is_among_leaders && entry.operation == operation &&
           same(entry.blocks, blocks);
  });
  if (known != schedules_.end()) {
    schedules_.splice(schedules_.begin(), schedules_, known);
    return known->runs.get();
  }
  BP_TRY_ASSIGN(Schedule built, build_schedule(one, {count, blocks.get(), is_in_place}));
  Operation part = operation;
  part.count = count;
  const uint64_t received =
      blocks ? blocks->all.count(args_.place.rank) : recv_count(part, args_.place);
  auto runs = std::make_shared<HostRunPool>(
      HostRunArgs{.operation = operation,
                  .group = agreement_.group,
                  .place = args_.place,
                  .part = {std::make_shared<const Schedule>(std::move(built)), {}, received},
                  .blocks = blocks});
  schedules_.push_front(
      {operation, blocks, count, is_in_place, one.is_among_leaders, std::move(runs)});
  if (schedules_.size() > kMostSchedules) schedules_.pop_back();
  return schedules_.front().runs.get();
}

/// Its kernels are found before any rank waits for this one. Used while the messenger is driven.
/// Null: the operation does not reduce.
Result<Combiner*> ProcessGroup::combiner_of(const Operation& operation) {
  if (!kind_info(operation.kind).reduces) return nullptr;
  for (const KnownCombiner& known : combiners_) {
    if (known.dtype == operation.dtype && known.reduction == operation.reduction) {
      return known.combiner.get();
    }
  }
  Device* const computes = device().is_host_like() ? &device() : runtime_->host_device();
  if (computes == nullptr) {
    return Status(BP_UNSUPPORTED, describe(operation) +
                                      ": no device that computes on host memory is loaded to "
                                      "reduce with");
  }
  auto made = Combiner::make(*computes, operation.dtype, operation.reduction);
  if (!made.ok()) return made.status().with_prefix(describe(operation));
  combiners_.push_back({operation.dtype, operation.reduction, *std::move(made)});
  return combiners_.back().combiner.get();
}

/// Of the chunks that an operation is cut into. Where blocks differ in size a chunk's schedule is
/// another one when a block has ended.
Result<std::vector<ChunkSchedule>> ProcessGroup::schedules_of(const EnqueuedOne& one,
                                                              const ChunkPlan& plan,
                                                              bool is_in_place) {
  std::vector<ChunkSchedule> schedules;
  if (!one.call.blocks) {
    BP_TRY_ASSIGN(const HostRunPool* const runs, runs_of(one, plan.chunk_count, is_in_place));
    schedules.push_back({0, runs->schedule()});  // `runs` may go
    BP_TRY_ASSIGN(const HostRunPool* const last_runs, runs_of(one, plan.last_count(), is_in_place));
    schedules.push_back({plan.chunks() - 1, last_runs->schedule()});
    return schedules;
  }
  Blocks latest;
  for (uint64_t index = 0; index < plan.chunks(); ++index) {
    BP_TRY_ASSIGN(Blocks blocks, blocks_of_chunk(*one.call.blocks, plan, index));
    // What the first one has for others says of all of it how much that is.
    if (index > 1 && blocks == latest) continue;
    latest = std::move(blocks);
    BP_TRY_ASSIGN(Schedule built, build_schedule(one, {one.call.operation.count, &latest,
                                                       is_in_place, index == 0}));
    schedules.push_back({index, std::make_shared<const Schedule>(std::move(built))});
  }
  return schedules;
}

Status ProcessGroup::make_run(const EnqueuedOne& one, HostBuffers buffers, bool is_in_place,
                              HostItem* out) {
  const Operation& operation = one.call.operation;
  BP_TRY_ASSIGN(Combiner* const combiner, combiner_of(operation));
  BP_TRY_ASSIGN(HostRunPool* const runs, runs_of(one, operation.count, is_in_place));
  BP_TRY_ASSIGN(out->run, runs->take(one.sequence, buffers, combiner));
  return {};
}

Status ProcessGroup::make_chunks(const EnqueuedOne& one, const ChunkPlan& plan, HostBuffers buffers,
                                 bool is_in_place, HostItem* out) {
  const Operation& operation = one.call.operation;
  BP_TRY_ASSIGN(Combiner* const combiner, combiner_of(operation));
  ChunkedRun::Args chunked{.plan = plan};
  BP_TRY_ASSIGN(chunked.schedules, schedules_of(one, plan, is_in_place));
  std::vector<std::shared_ptr<const Schedule>> later;
  for (const ChunkSchedule& each : chunked.schedules) later.push_back(each.schedule);
  HostRunArgs of_track{.operation = operation,
                       .group = agreement_.group,
                       .sequence = one.sequence,
                       .place = args_.place,
                       .part = {later.front(), buffers, plan.recv_count(0)},
                       .later_schedules = std::vector(later.begin() + 1, later.end()),
                       .combiner = combiner,
                       .blocks = one.call.blocks};
  BP_TRY_ASSIGN(auto run, HostRun::make(of_track));
  out->run = HostRunPool::Lent(run.release());
  of_track.track = 1;
  BP_TRY_ASSIGN(chunked.second_run, HostRun::make(of_track));
  if (device().has_host_memory()) {
    BP_TRY_ASSIGN(chunked.memory, make_host_chunks(plan, buffers));
  } else {
    BP_TRY_ASSIGN(chunked.memory, stage_chunks(one.call, plan));
  }
  out->chunks = std::make_unique<ChunkedRun>(std::move(chunked));
  return {};
}

Result<std::unique_ptr<ChunkMemory>> ProcessGroup::stage_chunks(const CheckedCall& call,
                                                                const ChunkPlan& plan) {
  if (copy_stream_ == nullptr) {
    BP_TRY_ASSIGN(copy_stream_, device().acquire_stream());
  }
  const auto make_ring = [this] {
    return std::make_shared<StagingRing>(device(), &counters_.ring_bytes);
  };
  // Sends and recvs run beside collectives, which take turns.
  const bool is_of_two = kind_info(call.operation.kind).is_of_two;
  if (!is_of_two && ring_ == nullptr) ring_ = make_ring();
  StagedChunksArgs args{.plan = plan,
                        .send = place_of(call.send),
                        .recv = place_of(call.recv),
                        .stream = copy_stream_,
                        .ring = is_of_two ? make_ring() : ring_,
                        .copied_bytes = &counters_.staged_bytes};
  const uint64_t bytes = plan.chunk_count * plan.element_bytes;
  const uint64_t send_blocks = plan.is_in_place() ? 0 : plan.send_blocks;
  BP_TRY_ASSIGN(args.slots, args.ring->take(send_blocks * bytes, plan.recv_blocks * bytes));
  return std::unique_ptr<ChunkMemory>(std::make_unique<StagedChunks>(std::move(args)));
}

/// The whole of what a rank has, for the stream to copy.
Result<HostBuffers> ProcessGroup::stage_whole(const CheckedCall& call, DeviceHold& hold) {
  HostBuffers buffers;
  if (call.send_bytes > 0) {
    BP_TRY_ASSIGN(buffers.send, hold.allocate(call.send_bytes));
  }
  if (call.recv_bytes > 0) {
    BP_TRY_ASSIGN(buffers.recv, hold.allocate(call.recv_bytes));
  }
  return buffers;
}

/// What is staged as a whole is copied in before all of them, and out behind all of them. Where one
/// uses the memory of another's result each is copied by itself, as chunks are: collectives keep
/// their order.
bool ProcessGroup::stages_by_turns(const Enqueue& enqueue) {
  constexpr size_t kMostCompared = 64;  // operations; turns are right for all, and only slower
  const auto& ones = enqueue.ones;
  if (enqueue.path != OperationPath::kStaged || ones.size() == 1) return false;
  if (ones.size() > kMostCompared) return true;
  const auto share = [](const Ref<Tensor>& a, const Ref<Tensor>& b) {
    return a && b && may_overlap(*a, *b);
  };
  for (size_t i = 0; i < ones.size(); ++i) {
    for (size_t k = i + 1; k < ones.size(); ++k) {
      const CheckedCall& first = ones[i].call;
      const CheckedCall& then = ones[k].call;
      if (share(first.recv, then.send) || share(first.recv, then.recv) ||
          share(first.send, then.recv)) {
        return true;
      }
    }
  }
  return false;
}

Status ProcessGroup::add_items(Enqueue* enqueue) {
  const bool is_staged = enqueue->path == OperationPath::kStaged;
  const bool is_by_turns = stages_by_turns(*enqueue);
  for (Enqueue::One& one : enqueue->ones) {
    const CheckedCall& call = one.call;
    const ChunkPlan plan = plan_chunks(call, args_.place, agreement_.chunk_bytes);
    HostItem* const item = &enqueue->batch->items().emplace_back();
    item->is_last = one.is_last;
    const bool takes_turn = is_by_turns && !kind_info(call.operation.kind).is_of_two &&
                            call.send_bytes + call.recv_bytes > 0;
    if (plan.is_cut() || takes_turn) {
      // Staged blocks, and those that are cut, lie elsewhere.
      const bool lies_there = is_staged ? plan.is_in_place() : call.is_in_place && !plan.has_blocks;
      const HostBuffers buffers = is_staged ? HostBuffers() : host_buffers_of(call);
      BP_TRY(make_chunks(one, plan, buffers, lies_there, item));
    } else if (is_staged) {
      BP_TRY_ASSIGN(one.staged, stage_whole(call, *enqueue->hold));
      BP_TRY(make_run(one, one.staged, false, item));
    } else {
      BP_TRY(make_run(one, host_buffers_of(call), call.is_in_place, item));
    }
  }
  return {};
}

}  // namespace bp::ccl
