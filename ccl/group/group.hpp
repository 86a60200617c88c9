// SPDX-License-Identifier: Apache-2.0
//
// A process group on one rank: its operations, by the device's own collectives where all ranks have
// them, else by messages; its deadlines, and its end. Ranks are processes, or threads.
#ifndef BACKPLANE_CCL_GROUP_GROUP_HPP
#define BACKPLANE_CCL_GROUP_GROUP_HPP

#include <chrono>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ccl/bridge/average.hpp"
#include "ccl/bridge/native.hpp"
#include "ccl/bridge/staging_ring.hpp"
#include "ccl/group/call.hpp"
#include "ccl/group/control.hpp"
#include "ccl/group/descent.hpp"
#include "ccl/group/inquiry.hpp"
#include "ccl/group/join.hpp"
#include "ccl/group/known_call.hpp"
#include "ccl/group/lanes.hpp"
#include "ccl/schedule/select.hpp"
#include "ccl/store/store.hpp"
#include "ccl/watch/status_server.hpp"
#include "ccl/watch/words.hpp"
#include "core/runtime/runtime.hpp"

namespace bp::ccl {

inline constexpr size_t kMostNameBytes = 256;

struct GroupArgs {
  std::shared_ptr<Store> store;  // where the ranks meet; nobody else uses keys with this name there
  std::string name = "default";  // 1 to 256 bytes; the same on all ranks
  RankPlace place;
  Device* device = nullptr;
  /// How long ranks are waited for, in joining and in each operation. 0: BACKPLANE_CCL_TIMEOUT.
  std::chrono::nanoseconds timeout{0};
  std::string_view timeout_set_by = kSetByProgram;      // of one that is 0: kSetByOption
  Descent descent = {};                                 // of a group that is made from another
  std::optional<Clock::time_point> join_deadline = {};  // where joining has a part of the timeout
};

struct EnqueueArgs {
  /// Of the group's device. nullptr: one of the group's own, so that communication goes on beside
  /// other work; tensors carry marks of it.
  Stream* stream = nullptr;
  std::chrono::nanoseconds timeout{0};  // 0: the group's
  /// Returns when it is over, with its failure as the error, and without one maybe nullptr.
  bool waits = false;
};

/// For a timeout of 0: BACKPLANE_CCL_TIMEOUT, or 2 s less than BACKPLANE_TIMEOUT (half, if less).
std::chrono::nanoseconds default_timeout(const Runtime& runtime);
/// Errors: INVALID_ARGUMENT for one that is negative, or longer than BACKPLANE_TIMEOUT.
Status check_timeout(const Runtime& runtime, std::chrono::nanoseconds timeout);

/// What happened in a group since it was made.
struct GroupCounters {
  std::atomic<uint64_t> native_operations{0};
  std::atomic<uint64_t> host_operations{0};    // by messages
  std::atomic<uint64_t> staged_operations{0};  // ... through copies in host memory
  std::atomic<uint64_t> staged_bytes{0};       // copied between device and host for these
  std::atomic<uint64_t> ring_bytes{0};         // host memory taken for chunks of these
  std::atomic<uint64_t> contiguous_copies{0};  // strided inputs made contiguous
};

/// Any thread, and as many as like; all ranks call the same operations in the same order. Its end
/// waits for operations in progress, whose other ranks rely on this one: abort() comes before it
/// where they are to be given up.
class ProcessGroup final : public Counted<ProcessGroup>,
                           private Port,
                           private CloseListener,
                           private StatusSource {
 public:
  /// Joins, and waits for all ranks. Errors: INVALID_ARGUMENT for arguments that cannot be, and for
  /// ranks that disagree, naming both; TIMEOUT naming who is missing; UNAVAILABLE for a rank that
  /// cannot join, with its words.
  static Result<Ref<ProcessGroup>> create(const GroupArgs& args);

  /// Another group, of some of this one's ranks, which is called on all of these and waits for
  /// them. It has the same name and device, and meets in the same store. This group is left as it
  /// is, failed or not, and need not stay. Errors: INVALID_ARGUMENT for arguments that cannot be,
  /// and naming ranks that were told otherwise; TIMEOUT naming who did not come; those of create().
  /// After an error the epoch is used up. Any thread.
  Result<Ref<ProcessGroup>> rebuild(const RebuildArgs& args);

  /// Groups out of this one, which all its ranks call: one of those of each color, ordered by their
  /// keys, of equal ones by their ranks. nullptr for kNoColor. It is an operation of the group:
  /// where a rank does not come it fails, on all. Errors: INVALID_ARGUMENT for arguments that
  /// cannot be, and then the others wait; the group's failure; those of create(), and these leave
  /// this group as it is. Any thread, but one at a time.
  Result<Ref<ProcessGroup>> split(const SplitArgs& args);

  /// Calls that go together: none waits for another of them, but for collectives, which keep their
  /// order. All of them have begun when this returns, or none has. Errors: INVALID_ARGUMENT naming
  /// what is wrong; UNSUPPORTED; the group's failure; OUT_OF_MEMORY.
  Result<Ref<Work>> enqueue(std::span<const Call> calls, const EnqueueArgs& args = {});
  Result<Ref<Work>> enqueue(const Call& call, const EnqueueArgs& args = {}) {
    return enqueue(std::span(&call, 1), args);
  }

  /// Ends the group on all ranks that can be reached, within a second: pending operations and later
  /// ones fail with these words. Idempotent.
  void abort(std::string_view words) noexcept;
  /// ok(): it has not failed.
  Failure failure() const;

  RankPlace place() const { return args_.place; }
  const std::string& name() const { return args_.name; }
  uint64_t epoch() const { return args_.descent.epoch; }
  /// By rank: the rank in the group from which this one descends; its own numbers if it does not.
  const std::vector<uint32_t>& job_ranks() const { return job_ranks_; }
  Device& device() const { return *args_.device; }
  Runtime& runtime() const { return *runtime_; }
  std::chrono::nanoseconds timeout() const { return args_.timeout; }
  bool is_native() const { return agreement_.is_native(); }
  /// Why messages serve, for people; empty where the device's own collectives do.
  const std::string& why_not_native() const { return agreement_.why_not_native; }
  const GroupCounters& counters() const { return counters_; }
  /// What went by messages.
  const WireCounters& wire() const { return lanes_->wire(); }
  /// Until all operations in progress are over, well or not: their deadlines end this. Driving.
  void finish();
  /// Where it is now.
  GroupStatus status() const override;
  /// What was recorded, as a JSON text (ccl/watch/dump.hpp).
  std::string trace() const;

 private:
  friend class Counted<ProcessGroup>;
  friend class Ref<ProcessGroup>;
  explicit ProcessGroup(const GroupArgs& args);
  ~ProcessGroup();

  /// An operation that the plugin runs.
  struct NativeTask {
    Ref<Work> work;
    Operation operation;
    uint64_t sequence = 0;
    uint64_t native_sequence = 0;        // of its last collective, as the plugin counts; 0: none
    uint64_t record_id = 0;              // of the first of its operations
    uint64_t record_count = 1;           // ... whose records follow each other
    std::shared_ptr<DeviceHold> before;  // what comes before it in its stream
    std::vector<CommunicatorChain::Turn> turns_before;      // ... of other groups
    Clock::time_point deadline = Clock::time_point::max();  // from when that is done
    std::chrono::nanoseconds timeout{0};
    bool is_last = true;  // no other piece of the operation comes after it on this rank
    bool is_over = false;

    /// When it began; never, before it has a deadline.
    Clock::time_point begun() const {
      return deadline == Clock::time_point::max() ? deadline : deadline - timeout;
    }
  };
  /// What a batch is made of; kept while it is being made.
  struct Enqueue;
  struct EnqueuedOne;
  struct Piece;

  // group.cpp: joining and leaving
  Status join();
  Result<RankCard> make_card();
  std::shared_ptr<Store> make_joining_store() const;
  void give_up_joining(const Status& joined) noexcept;
  Status connect(Store& store, const JoinWait& wait);
  Result<std::unique_ptr<Engine>> make_engine(Store& store, const EngineChoice& choice,
                                              Clock::time_point deadline);
  Status open_messenger(Store& store, Clock::time_point deadline);
  Status connect_ranks(Store& store, Clock::time_point deadline);
  Status join_natively(Store& store, const JoinWait& wait);
  Status begin_communicator(Store& store, const std::string& key, Clock::time_point deadline);
  Status wait_until_ready(const JoinWait& wait);
  GroupInfo info() const;
  /// "test", "test epoch 2".
  std::string words() const { return group_words(args_.name, epoch()); }

  bool is_failing() const {
    return has_failed_.load(std::memory_order_acquire) ||
           is_requested_.load(std::memory_order_acquire);
  }

  // group_status.cpp
  Status open_status();
  void note_heard(uint32_t peer) noexcept;
  void note_lost(uint32_t peer, const Status& why);

  // group_descent.cpp
  /// What this rank left in the store when the group was split.
  struct LastSplit {
    uint64_t number = 0;    // 0: it was not
    std::string path = {};  // of the group that it made; empty: none
    uint32_t rank = 0;      // there
  };
  void forget_split(const Relatives& relatives, LastSplit next);
  std::vector<uint32_t> job_ranks_of(std::span<const uint32_t> members) const;
  Result<Ref<ProcessGroup>> rebuild_now(const RebuildArgs& args);
  Result<Ref<ProcessGroup>> split_now(const SplitArgs& args);
  Status give_up(const Status& why, const std::vector<uint32_t>& culprits);

  // group_enqueue.cpp
  Status check_calls(std::span<const Call> calls, Enqueue* enqueue) const;
  Result<Stream*> choose_stream(const EnqueueArgs& args, bool needs_order);
  Result<Ref<Work>> enqueue_all(std::span<const Call> calls, const EnqueueArgs& args,
                                std::chrono::nanoseconds timeout);
  static void find_users_of_results(Enqueue* enqueue);       // group_batch.cpp
  Result<Ref<Work>> enqueue_in_parts(const Enqueue& whole);  // group_batch.cpp
  bool may_be_about_to_fail(bp_status code) const;
  Status order_input(CheckedCall* call, Stream& stream);
  bool is_native(const CheckedCall& call) const;
  bool has_native(Kind kind, const Operation& operation, Reduction reduction) const;
  bool is_composed_average(const Operation& operation) const;
  Status check_averages(const Enqueue& enqueue) const;
  Result<std::optional<Average>> make_average(const CheckedCall& call, Stream& stream);
  Result<std::vector<NativeOperation>> native_operations(Enqueue* enqueue);
  Status divide_averages(Enqueue* enqueue);
  uint64_t next_sequence(const Operation& operation);
  void take_back_sequences(const Enqueue& enqueue);
  void record(Enqueue* enqueue);
  Result<Ref<Work>> enqueue_native(Enqueue* enqueue);
  Result<Ref<Work>> enqueue_host(Enqueue* enqueue);
  Result<Ref<Work>> enqueue_unchecked(Enqueue* enqueue);
  Result<Ref<Work>> check_and_enqueue(Enqueue* enqueue);
  Status enqueue_check(const Enqueue& native, bool* out_has_begun);
  Status run_inline(Enqueue* enqueue);
  Status put_on_stream(Enqueue* enqueue);
  Status hold_on_stream(Enqueue* enqueue);
  Status copy_out(Enqueue* enqueue, uint64_t* out_seq);
  void finish_on_stream(Enqueue* enqueue, uint64_t seq);
  void lose_results(Work& work, const Status& why) noexcept;
  void reserve_marks(const Enqueue& enqueue);
  void note_marks(const CheckedCall& call, Stream& stream, uint64_t seq);
  void note_marks(const Enqueue& enqueue, uint64_t seq);
  void note_faults(const CheckedCall& call);
  void note_faults(const Enqueue& enqueue);
  Ref<Work> make_work(const Enqueue& enqueue, OperationPath path);
  // group_direct.cpp
  Result<bool> run_directly(const Call& call, std::chrono::nanoseconds timeout);
  Result<bool> begin_directly(const Call& call, std::chrono::nanoseconds timeout, EnqueuedOne* one);
  Result<const KnownCall::Served*> find_served(const Call& call, const EnqueuedOne& one);
  Status make_direct(const EnqueuedOne& one, const KnownCall::Served& served,
                     std::chrono::nanoseconds timeout);
  Status end_directly(EnqueuedOne* one);

  // group_islands.cpp
  bool serves_by_islands(const Operation& operation) const;
  uint32_t leader_of(const Island& island, const Operation& operation) const;
  std::vector<uint32_t> leaders_for(const Operation& operation) const;
  std::vector<Piece> pieces_of(const EnqueuedOne& one) const;
  CheckedCall inner_broadcast(const EnqueuedOne& one) const;
  CheckedCall inner_reduction(const EnqueuedOne& one) const;
  Status check_kernels(const Enqueue& enqueue);
  Result<Ref<Work>> enqueue_in_pieces(Enqueue* enqueue);
  void give_up(const EnqueuedOne& one, const Status& why);
  Result<Ref<Work>> enqueue_piece(const Enqueue& whole, EnqueuedOne* one, const Piece& piece);

  // group_items.cpp
  static bool stages_by_turns(const Enqueue& enqueue);
  Status add_items(Enqueue* enqueue);
  Result<HostBuffers> stage_whole(const CheckedCall& call, DeviceHold& hold);
  Result<std::unique_ptr<ChunkMemory>> stage_chunks(const CheckedCall& call, const ChunkPlan& plan);
  Status make_run(const EnqueuedOne& one, HostBuffers buffers, bool is_in_place, HostItem* out);
  Status make_chunks(const EnqueuedOne& one, const ChunkPlan& plan, HostBuffers buffers,
                     bool is_in_place, HostItem* out);
  Result<std::vector<ChunkSchedule>> schedules_of(const EnqueuedOne& one, const ChunkPlan& plan,
                                                  bool is_in_place);
  Result<Combiner*> combiner_of(const Operation& operation);
  Result<HostRunPool*> runs_of(const EnqueuedOne& one, uint64_t count, bool is_in_place);
  /// What is built of an operation: all of it, or a chunk.
  struct Portion {
    uint64_t count = 0;              // as the operation counts
    const Blocks* blocks = nullptr;  // where they differ in size
    bool is_in_place = false;
    bool is_first = true;
  };
  Result<Schedule> build_schedule(const EnqueuedOne& one, const Portion& portion);

  // group_watch.cpp: driven
  void message_arrived(uint32_t peer, const Header& header, uint64_t bytes,
                       uint64_t token) noexcept override;
  void peer_lost(uint32_t peer, const Status& why) noexcept override;
  void messages_lost() noexcept override { has_lost_news_ = true; }
  bool advance(Clock::time_point now) noexcept override;
  bool has_lanes_alone(Clock::time_point now) const;
  bool is_busy() const noexcept override;
  Clock::time_point next_look() const noexcept override;
  void runtime_closes() noexcept override;
  bool advance_control();
  void take_news(std::optional<Failure>* out_requested);
  void let_copies_go(Clock::time_point now);
  void end_queue_of(Work& work, const Failure& failure);
  bool awaits_streams() const;
  void drop_kept();
  std::optional<Failure> advance_native(Clock::time_point now);
  std::optional<Failure> ask_communicator(Clock::time_point now);
  Failure explained(Failure failure);
  void record_end(const NativeTask& task, bp_status code, Clock::time_point now);
  std::optional<Failure> suspect(std::optional<Failure> failure, Clock::time_point now);
  std::optional<Overdue> find_overdue(Clock::time_point now);
  std::optional<Failure> advance_inquiry(Clock::time_point now);
  void request_failure(Failure failure) noexcept;
  void fail(Failure why, bool spreads);
  void end_work();
  bool has_ended_work() const { return tasks_.empty() && lanes_->is_idle(); }
  Failure out_of_memory() const;
  Whereabouts whereabouts(uint64_t sequence);
  bool is_held(const NativeTask& task, Whereabouts* out_here) const;

  GroupArgs args_;
  const Ref<Runtime> runtime_;  // keeps the device
  std::vector<uint32_t> job_ranks_;
  std::shared_ptr<Messenger> messenger_;  // set under state_mutex_
  Agreement agreement_;
  AlgorithmRules rules_;
  std::vector<uint32_t> hosts_;     // of each rank, by numbers; empty: all share one
  const Island* island_ = nullptr;  // its ranks share the communicator
  CollectiveCaps native_rows_;      // rows alone
  bool is_concurrent_ = true;       // its device's communicators need not take turns
  std::unique_ptr<Communicator> communicator_;
  Recorder recorder_;
  GroupCounters counters_;
  std::shared_ptr<Store> joining_;      // its waits end with the Runtime
  std::shared_ptr<Store> descendants_;  // ... and its; where groups made from this one begin
  std::shared_ptr<StatusServer> status_server_;       // BACKPLANE_CCL_STATUS
  std::unique_ptr<std::atomic<int64_t>[]> heard_ns_;  // with a server: when each rank was heard
  std::map<uint32_t, std::string> lost_peers_;  // ... and why not any more; under state_mutex_
  Clock::time_point driven_{};                  // last; driven
  bool is_listening_ = false;
  bool is_in_messenger_ = false;

  std::mutex enqueue_mutex_;  // calls take their numbers in the order in which they begin
  uint64_t last_sequence_ = 0;
  uint64_t last_native_sequence_ = 0;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> pair_sequences_;  // by SEND or RECV, and peer
  Stream* own_stream_ = nullptr;
  Stream* copy_stream_ = nullptr;      // of chunks, which is never held
  std::shared_ptr<StagingRing> ring_;  // that collectives' chunks go through, in turn
  struct KnownSchedule {
    Operation operation;
    std::shared_ptr<const Blocks> blocks;
    uint64_t count;
    bool is_in_place;
    bool is_among_leaders;
    std::shared_ptr<HostRunPool> runs;
  };
  std::list<KnownSchedule> schedules_;  // the latest first
  struct KnownCombiner {
    uint32_t dtype;
    Reduction reduction;
    std::unique_ptr<Combiner> combiner;
  };
  std::vector<KnownCombiner> combiners_;
  Divider divider_{args_.place.rank_count};
  uint32_t told_unfit_kinds_ = 0;        // bit 1 << kind
  std::atomic<bool> has_direct_{false};  // taken under enqueue_mutex_
  Lanes::Direct direct_;                 // ... by whoever does so
  KnownCall known_call_;

  mutable std::mutex state_mutex_;
  Failure failure_;                   // under state_mutex_
  std::optional<Failure> requested_;  // ... by a thread that does not drive
  std::atomic<bool> is_requested_{false};
  std::list<std::shared_ptr<NativeTask>> new_tasks_;  // under state_mutex_
  std::atomic<uint64_t> split_count_{0};
  LastSplit last_split_;       // under state_mutex_
  uint64_t latest_epoch_ = 0;  // ... of this group, or of a try to rebuild it
  std::atomic<bool> has_failed_{false};
  std::atomic<bool> has_told_{false};  // ... and what tells the others of it has been sent
  std::atomic<size_t> open_tasks_{0};  // of these, those that have not ended
  std::list<Ref<Work>> new_copies_;    // ... whose copies are still queued
  std::atomic<bool> has_news_{false};  // of these three

  // Driven.
  std::unique_ptr<Lanes> lanes_;
  std::unique_ptr<Control> control_;
  std::unique_ptr<Inquiry> inquiry_;
  bool has_lost_news_ = false;  // of another rank, for want of memory
  std::list<std::shared_ptr<NativeTask>> tasks_;
  /// Tensors of work that is over; to drop one whose stream has more to do may mean to wait.
  std::list<std::pair<Mark, KeptTensors>> kept_;
  std::list<Ref<Work>> copies_;  // keep the memory that copies behind the hold use
  uint64_t native_completed_ = 0;
  uint64_t native_enqueued_ = 0;  // what the plugin told when it was asked
  Clock::time_point native_asked_{};
  Failure suspicion_;  // what the plugin tells; another rank may know more
  Clock::time_point suspicion_end_{};
  Clock::time_point next_native_look_{};
  Clock::time_point next_copy_look_{};
  Clock::time_point next_communicator_look_{};
};

}  // namespace bp::ccl

#endif
