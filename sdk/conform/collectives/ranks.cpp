// SPDX-License-Identifier: Apache-2.0
//
// Devices, communicators and their ends. Whatever a case does, its streams are free of work that
// waits for other ranks before they are destroyed.
#include "sdk/conform/collectives/ranks.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <thread>
#include <utility>

#include "core/plugin/loader.hpp"

namespace bp::conform {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::byte kFence{0xA5};
constexpr uint64_t kFenceBytes = 256;
constexpr uint64_t kSecondNs = 1'000'000'000;

Bytes fenced(const Bytes& content, uint64_t before_bytes) {
  Bytes all(before_bytes + content.size() + kFenceBytes, kFence);
  std::copy(content.begin(), content.end(),
            all.begin() + static_cast<std::ptrdiff_t>(before_bytes));
  return all;
}

}  // namespace

CollectiveCaps caps_of(Context& context) {
  context.require(context.origin().plugin != nullptr, "a context that knows its plugin");
  const auto caps = ask_collective_caps(*context.origin().plugin, context.table());
  context.require(caps.ok(),
                  "an answer of collective_caps that can be believed: " + caps.status().message());
  if (!caps->has_value()) throw NotApplicable{"no collectives without the bands that were taken"};
  return **caps;
}

Ranks::Ranks(Context& context, uint32_t count) : context_(context), caps_(caps_of(context)) {
  if (caps_.rank_count_max != 0 && count > caps_.rank_count_max) {
    throw NotApplicable{words("a group has at most ", caps_.rank_count_max, " ranks")};
  }
  const auto can_sum = [this](uint32_t dtype) {
    return caps_.has(BP_COLLECTIVE_ALL_REDUCE, dtype, BP_REDUCTION_SUM, false);
  };
  sum_dtype_ = BP_DTYPE_F32;
  for (uint32_t dtype = 1; !can_sum(sum_dtype_) && dtype < 64; ++dtype) sum_dtype_ = dtype;
  if (!can_sum(sum_dtype_)) throw NotApplicable{"all_reduce has no sum"};
  const LoadedPlugin& plugin = *context.origin().plugin;
  const uint32_t device_count = plugin.device_count();
  const bool may_share = (caps_.flags & BP_CAPS_SHARED_DEVICE_BIT) != 0;
  if (count > device_count && !may_share) {
    throw NotApplicable{words("there are ", device_count, " devices, with one rank on each")};
  }
  by_rank_.push_back(&context);
  for (uint32_t rank = 1; rank < count; ++rank) {
    if (rank >= device_count) {
      by_rank_.push_back(by_rank_[rank % device_count]);
      continue;
    }
    const uint32_t index = (context.origin().device_index + rank) % device_count;
    auto opened = SiblingDevice::open(plugin, index);
    context.require(opened.ok(),
                    words("device ", index, " to be opened: ", opened.status().message()));
    const auto patience = std::chrono::nanoseconds(context.patience_ns());
    auto own = std::make_unique<Context>((*opened)->table(), context.kernels(), context.injection(),
                                         patience, Origin{&plugin, index});
    const auto their_caps = caps_of(*own);
    if (their_caps.domain != caps_.domain) {
      throw NotApplicable{words("device ", index, " is not linked with the one that is tried")};
    }
    by_rank_.push_back(own.get());
    others_.push_back({std::move(*opened), std::move(own)});
  }
}

Ranks::~Ranks() {
  for (Other& other : others_) {
    const uint32_t index = other.context->origin().device_index;
    for (const std::string& failure : other.context->failures()) {
      context_.fail(words("device ", index, ": ", failure));
    }
    const bp_status closed = other.device->close();
    context_.expect_ok(words("device_close of device ", index), closed);
  }
}

bp_collective_op Ranks::nothing() const {
  return operation(BP_COLLECTIVE_ALL_REDUCE, sum_dtype_, 0, {}, {}, BP_REDUCTION_SUM);
}

bool Ranks::has_failures() const {
  return std::any_of(by_rank_.begin(), by_rank_.end(),
                     [](const Context* each) { return !each->failures().empty(); });
}

Bytes new_uid(Context& context, const CollectiveCaps& caps) {
  Bytes uid(caps.uid_bytes);
  bp_uid_space space{sizeof(space), 0, uid.data(), uid.size()};
  context.require_ok("uid_create", context.table().uid_create(&space));
  return uid;
}

bp_comm_args comm_args(const Bytes& uid, uint32_t rank, uint32_t rank_count) {
  return {.struct_size = sizeof(bp_comm_args),
          .flags = 0,
          .uids = uid.data(),
          .uid_bytes = uid.size(),
          .uid_count = 1,
          .rank = rank,
          .rank_count = rank_count,
          .reserved = 0,
          .timeout_hint_ns = 0,
          .name = {"conform", 7}};
}

bp_comm_state poll(Context& context, bp_comm* comm) {
  bp_comm_state state{};
  state.struct_size = sizeof(state);
  context.require_ok("comm_poll", context.table().comm_poll(comm, &state));
  return state;
}

bp_status abort(Context& context, const std::vector<bp_comm*>& comms) {
  const bp_comm_abort_args args{sizeof(args), 0, comms.data(), comms.size()};
  return context.table().comm_abort(args);
}

uint64_t abort_ns(const Context& context) { return std::max(kSecondNs, context.patience_ns() / 4); }

bp_collective_op operation(uint32_t kind, uint32_t dtype, uint64_t count, bp_mem send, bp_mem recv,
                           uint32_t reduction, uint32_t peer) {
  return {sizeof(bp_collective_op), 0, kind, dtype, reduction, peer, count, send, recv};
}

bool is_between_two(const bp_collective_op& op) {
  return op.kind == BP_COLLECTIVE_SEND || op.kind == BP_COLLECTIVE_RECV;
}

bp_status Member::init(const bp_comm_args& args) {
  return context_.table().comm_init(args, &comm_);
}

bp_comm_state Member::poll_joined() const {
  const auto end = Clock::now() + std::chrono::nanoseconds(context_.patience_ns());
  bp_comm_state state = poll();
  while (state.state == BP_COMM_JOINING && Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    state = poll();
  }
  return state;
}

bp_collective_batch Member::batch(const Operations& operations, const Stream* stream) const {
  return {.struct_size = sizeof(bp_collective_batch),
          .flags = 0,
          .comm = comm_,
          .stream = (stream != nullptr ? *stream : stream_).get(),
          .operations = operations.data(),
          .operation_count = static_cast<uint32_t>(operations.size()),
          .operation_stride_bytes = sizeof(bp_collective_op),
          .sequence = sequence_,
          .op_seq = 1};
}

void Member::count_in(const Operations& operations) {
  sequence_ += static_cast<uint64_t>(
      std::count_if(operations.begin(), operations.end(),
                    [](const bp_collective_op& op) { return !is_between_two(op); }));
}

bp_status Member::enqueue(const Operations& operations, const Stream* stream) {
  const bp_status status = conform::enqueue(context_, {batch(operations, stream)});
  if (status == BP_OK) count_in(operations);
  return status;
}

void Member::finish() const { stream_.finish(); }

bp_status Member::sync_aborted() const {
  return context_.table().stream_sync(stream_.get(), abort_ns(context_));
}

void Member::destroy() {
  bp_comm* const comm = std::exchange(comm_, nullptr);
  if (comm == nullptr) return;
  context_.expect_ok("comm_destroy", context_.table().comm_destroy(comm));
}

bp_status enqueue(Context& context, const std::vector<bp_collective_batch>& batches) {
  const bp_collective_args args{sizeof(args), 0, batches.data(),
                                static_cast<uint32_t>(batches.size()), sizeof(bp_collective_batch)};
  return context.table().collective_enqueue(args);
}

Group::Group(Ranks& ranks) : ranks_(ranks) {
  const Bytes uid = new_uid(ranks.context(), ranks.caps());
  for (uint32_t rank = 0; rank < count(); ++rank) {
    members_.push_back(std::make_unique<Member>(ranks.on(rank)));
    ranks.on(rank).require_ok("comm_init", members_[rank]->init(comm_args(uid, rank, count())));
  }
  for (const auto& member : members_) {
    const bp_comm_state state = member->poll_joined();
    ranks.context().require(state.state == BP_COMM_READY,
                            words("a group that is ready once all ranks have come, found state ",
                                  state.state, ", status ", status_words(state.status)));
  }
}

Group::~Group() {
  if (ranks_.has_failures()) {
    for (const auto& member : members_) {
      if (member->comm() != nullptr) member->abort();
    }
  }
}

std::vector<bp_comm*> Group::comms() const {
  std::vector<bp_comm*> all;
  for (const auto& member : members_) all.push_back(member->comm());
  return all;
}

void Group::enqueue_together(const std::vector<Operations>& of_ranks) {
  std::vector<bp_collective_batch> batches;
  for (uint32_t rank = 0; rank < count(); ++rank) {
    batches.push_back(members_[rank]->batch(of_ranks[rank]));
  }
  Context& context = ranks_.context();
  if (!context.expect_ok("collective_enqueue", enqueue(context, batches))) throw Stop{};
  for (uint32_t rank = 0; rank < count(); ++rank) members_[rank]->count_in(of_ranks[rank]);
}

void Group::enqueue_by_threads(const std::vector<Operations>& of_ranks) {
  std::vector<bp_status> answers(count());
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < count(); ++rank) {
    threads.emplace_back([&, rank] { answers[rank] = members_[rank]->enqueue(of_ranks[rank]); });
  }
  for (std::thread& thread : threads) thread.join();
  for (uint32_t rank = 0; rank < count(); ++rank) {
    ranks_.context().require_ok(words("collective_enqueue of rank ", rank), answers[rank]);
  }
}

void Group::finish() const {
  for (const auto& member : members_) {
    member->context().require_ok("stream_sync", member->stream().sync());
  }
}

Fenced::Fenced(Context& context, const Bytes& content, uint64_t shift_bytes)
    : context_(context),
      before_bytes_(kFenceBytes + shift_bytes),
      bytes_(content.size()),
      memory_(context, fenced(content, before_bytes_)) {}

bp_mem Fenced::at(uint64_t offset_bytes) const { return memory_.at(before_bytes_ + offset_bytes); }

void Fenced::upload(const Stream& stream, const Bytes& content) const {
  context_.expect_ok("mem_copy_async to the device",
                     context_.copy_async(stream.get(), BP_COPY_HOST_TO_DEVICE, at(),
                                         host_end(content.data()), content.size()));
}

void Fenced::download(const Stream& stream, Bytes* out_content) const {
  out_content->resize(bytes_);
  context_.expect_ok("mem_copy_async to the host",
                     context_.copy_async(stream.get(), BP_COPY_DEVICE_TO_HOST,
                                         host_end(out_content->data()), at(), bytes_));
}

Bytes Fenced::read(std::string_view what) const {
  const Bytes all = memory_.read();
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(before_bytes_);
  const auto end = begin + static_cast<std::ptrdiff_t>(bytes_);
  const auto is_whole = [](std::byte each) { return each == kFence; };
  context_.expect(std::all_of(all.begin(), begin, is_whole),
                  words("the bytes before ", what, " as they were"));
  context_.expect(std::all_of(end, all.end(), is_whole),
                  words("the bytes behind ", what, " as they were"));
  return Bytes(begin, end);
}

}  // namespace bp::conform
