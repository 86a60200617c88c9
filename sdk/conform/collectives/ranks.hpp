// SPDX-License-Identifier: Apache-2.0
//
// What cases of level 4 are written with: ranks on devices of one instance, groups of them, and
// device memory between bytes that nothing may touch. All slots are called as the core calls them.
#ifndef BACKPLANE_SDK_CONFORM_COLLECTIVES_RANKS_HPP
#define BACKPLANE_SDK_CONFORM_COLLECTIVES_RANKS_HPP

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/device/collective_caps.hpp"
#include "sdk/conform/context.hpp"
#include "sdk/conform/device.hpp"

namespace bp::conform {

/// What the case's device answers. NotApplicable where bands were taken that collectives need.
CollectiveCaps caps_of(Context& context);

/// Devices of the instance, a rank on each. Where there are fewer, and two ranks may be on one
/// device, they take turns; else NotApplicable.
class Ranks {
 public:
  Ranks(Context& context, uint32_t count);
  /// Tells the case what failed on its other devices.
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  Context& context() const { return context_; }  // the case's, and that of rank 0
  const CollectiveCaps& caps() const { return caps_; }
  /// A dtype that can be summed by all_reduce: f32 where that is one.
  uint32_t sum_dtype() const { return sum_dtype_; }
  /// A sum of nothing, in which all ranks take part.
  bp_collective_op nothing() const;
  uint32_t count() const { return static_cast<uint32_t>(by_rank_.size()); }
  /// Of the rank's device: what is made with it lies there.
  Context& on(uint32_t rank) const { return *by_rank_[rank]; }
  const DeviceTable& table(uint32_t rank) const { return on(rank).table(); }
  bool has_failures() const;

 private:
  struct Other {
    std::unique_ptr<SiblingDevice> device;
    std::unique_ptr<Context> context;
  };
  Context& context_;
  const CollectiveCaps caps_;
  uint32_t sum_dtype_ = 0;
  std::vector<Other> others_;
  std::vector<Context*> by_rank_;
};

/// As uid_create answers it.
Bytes new_uid(Context& context, const CollectiveCaps& caps);
/// Of one id.
bp_comm_args comm_args(const Bytes& uid, uint32_t rank, uint32_t rank_count);
bp_comm_state poll(Context& context, bp_comm* comm);
bp_status abort(Context& context, const std::vector<bp_comm*>& comms);
/// How long comm_abort, and what it ends, may take: a second where waits may take four, and longer
/// where the machine is slow.
uint64_t abort_ns(const Context& context);

using Operations = std::vector<bp_collective_op>;
bp_collective_op operation(uint32_t kind, uint32_t dtype, uint64_t count, bp_mem send, bp_mem recv,
                           uint32_t reduction = 0, uint32_t peer = 0);
bool is_between_two(const bp_collective_op& op);

/// A rank's communicator with a stream.
class Member {
 public:
  explicit Member(Context& context) : context_(context), stream_(context) {}
  ~Member() { destroy(); }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  Context& context() const { return context_; }
  bp_comm* comm() const { return comm_; }
  const Stream& stream() const { return stream_; }
  bp_status init(const bp_comm_args& args);
  bp_comm_state poll() const { return conform::poll(context_, comm_); }
  /// Once it is JOINING no more, or the wait was too long.
  bp_comm_state poll_joined() const;
  bp_status abort() const { return conform::abort(context_, {comm_}); }

  /// The next operations of this rank as a batch of an array, on its own stream or another.
  bp_collective_batch batch(const Operations& operations, const Stream* stream = nullptr) const;
  /// ... which has been enqueued.
  void count_in(const Operations& operations);
  bp_status enqueue(const Operations& operations, const Stream* stream = nullptr);
  /// Expects that all work of the stream ends well.
  void finish() const;
  /// What stream_sync answers after comm_abort.
  bp_status sync_aborted() const;
  void destroy();

 private:
  Context& context_;
  Stream stream_;
  bp_comm* comm_ = nullptr;
  uint64_t sequence_ = 1;  // of the next collective
};

bp_status enqueue(Context& context, const std::vector<bp_collective_batch>& batches);

/// All ranks, joined. Ends well where nothing failed, and by comm_abort otherwise.
class Group {
 public:
  /// Throws Stop where it does not get ready.
  explicit Group(Ranks& ranks);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  Ranks& ranks() const { return ranks_; }
  uint32_t count() const { return ranks_.count(); }
  Member& operator[](uint32_t rank) const { return *members_[rank]; }
  std::vector<bp_comm*> comms() const;

  /// One call for all ranks. Expects BP_OK.
  void enqueue_together(const std::vector<Operations>& of_ranks);
  /// One thread for each rank. Expects BP_OK.
  void enqueue_by_threads(const std::vector<Operations>& of_ranks);
  void finish() const;

 private:
  Ranks& ranks_;
  std::vector<std::unique_ptr<Member>> members_;
};

/// Memory of a rank between bytes that stay as they are.
class Fenced {
 public:
  /// `shift_bytes`: how far it lies behind an aligned address.
  Fenced(Context& context, const Bytes& content, uint64_t shift_bytes = 0);

  bp_mem at(uint64_t offset_bytes = 0) const;
  void write(const Bytes& content) { memory_.write(content, before_bytes_); }
  // In a stream's order; the bytes stay where they are until that is done.
  void upload(const Stream& stream, const Bytes& content) const;
  void download(const Stream& stream, Bytes* out_content) const;
  /// What it holds. Expects that nothing round it has changed.
  Bytes read(std::string_view what) const;

 private:
  Context& context_;
  uint64_t before_bytes_;
  uint64_t bytes_;
  Memory memory_;
};

}  // namespace bp::conform

#endif
