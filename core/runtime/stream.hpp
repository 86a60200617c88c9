// SPDX-License-Identifier: Apache-2.0
//
// An ordered queue of one device. A device's default stream is inline on inline devices (no queue
// at all: work is done when the call returns) and a real or emulated stream elsewhere.
#ifndef BACKPLANE_CORE_RUNTIME_STREAM_HPP
#define BACKPLANE_CORE_RUNTIME_STREAM_HPP

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backplane/device_api.h"
#include "core/base/status.hpp"
#include "core/base/timed_lock.hpp"
#include "core/memory/allocator.hpp"
#include "core/op/schema.hpp"
#include "core/plugin/call_gate.hpp"
#include "core/plugin/host_context.hpp"
#include "core/runtime/deferred_free.hpp"
#include "core/runtime/fault_marks.hpp"

namespace bp {

class Device;

/// A queue of the vendor's own interface.
struct NativeQueue {
  std::string kind;  // what `handle` is: "acme.queue"
  uint64_t handle = 0;
};

enum class StreamOrigin : uint8_t {
  kCreated,
  kWrapped,  // stands for a queue of the application's
};

class Stream {
 public:
  /// `handle` nullptr: the inline stream. Made by Device only.
  Stream(Device& device, bp_stream* handle, uint64_t index,
         StreamOrigin origin = StreamOrigin::kCreated);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device& device() const { return device_; }
  /// Changes when the stream is reset; nullptr once a wrapped stream has ended. Stays while held.
  bp_stream* handle() const { return handle_.load(std::memory_order_acquire); }
  bool is_inline() const { return is_inline_; }
  bool is_wrapped() const { return is_wrapped_; }
  /// The vendor's queue behind the stream, until it is reset. Errors: UNSUPPORTED without one.
  Result<NativeQueue> native_handle();

  /// Where memory that this stream writes first comes from.
  Allocator::Pool& pool() { return pool_; }

  /// Holds the stream while a sequence number is taken and its work is enqueued. Errors: TIMEOUT,
  /// where another thread's call into the plugin has held it as long as waits may be.
  Status hold(TimedLock& out_lock) {
    out_lock = TimedLock(mutex_, std::try_to_lock);
    if (out_lock.owns_lock()) [[likely]]
      return {};
    return wait_to_hold(out_lock);
  }
  /// The number of the next piece of work. While held.
  uint64_t next_seq() {
    const uint64_t seq = issued_seq() + 1;
    issued_seq_.store(seq, std::memory_order_relaxed);
    return seq;
  }
  /// The number of the latest piece of work, which may be on its way into the queue still.
  uint64_t issued_seq() const { return issued_seq_.load(std::memory_order_relaxed); }
  /// A name for the launch with this number in reports: unique within the process's device.
  uint64_t op_seq(uint64_t seq) const { return (index_ << kSeqBits) | seq; }
  /// Remembers which operator a launch ran, and by which kernel if it was one, for error messages.
  /// While held.
  void note_launch(uint64_t seq, OpId op, const bp_kernel* kernel = nullptr) {
    recent_ops_[seq % kRecentOps] = {seq, op, kernel};
  }

  /// All work from now on comes after the producer's up to `seq`, by a wait that is in the queue
  /// and takes a number itself. While held.
  void note_wait(Stream& producer, uint64_t seq);

  /// POISONED with the first failure, once one has come to light; else OK. While held.
  Status check_healthy() const;
  /// No failure has come to light since the last reset, as far as can be told. Not while held.
  bool is_healthy();
  /// Takes the memory of the fault words at the first call. Errors: OUT_OF_MEMORY; POISONED. Not
  /// while held: where memory is short, the allocator waits for every stream.
  Status prepare_faults() {
    if (has_fault_words_.load(std::memory_order_acquire)) [[likely]]
      return {};
    return make_fault_words();
  }
  /// Zeroed device memory for the fault of launch `seq`. After prepare_faults(); while
  /// fault_words_full(), sync() has to come first. While held.
  bp_mem fault_word(uint64_t seq);
  bool fault_words_full() const { return fault_count_ == kFaultWords; }
  /// Reads the words of launches up to `seq`, which are done, and keeps what they say for
  /// claim_fault(). Not while held.
  Status collect_faults(uint64_t seq);

  /// A copy behind the stream's work so far; answers its number. The host's end stays as it is
  /// until that is done. Errors: POISONED; TIMEOUT; the plugin's. Not on an inline stream; not
  /// while held.
  Result<uint64_t> enqueue_copy(const bp_copy_args& args);
  /// Work `seq` uses no memory any more: it is known to be done, or never will be.
  bool is_over(uint64_t seq);

  /// Work enqueued from now on waits for `producer`'s work up to `seq`. Between devices, and when
  /// this stream is inline, the host waits (counted). Errors: the producer's failure; TIMEOUT.
  /// Not while held.
  Status wait_for(Stream& producer, uint64_t seq);
  /// The host waits for everything enqueued, at most the Runtime's deadline, and collects the
  /// faults of launches that may have had one. Errors: TIMEOUT; the stream's failure, naming the
  /// operator, again at each call. Any thread.
  Status sync();
  /// A data fault of launches [first_seq, last_seq], which sync() covered: reported once.
  Status claim_fault(uint64_t first_seq, uint64_t last_seq);
  /// One is there to be claimed.
  bool has_fault(uint64_t first_seq, uint64_t last_seq);
  /// The failure that work `seq` was lost by, if the stream was reset since: each caller that asks
  /// gets it.
  Status check_lost(uint64_t seq);
  /// sync(), then any data fault that no caller has claimed.
  Status sync_and_claim();
  /// ... of work since begin_lease(), for faults of earlier users' work wait for their readers, and
  /// of what the user's own work on the native queue has read.
  Status sync_and_claim_own();
  /// Work that the core does not see reads contents with these marks on the stream; what such work
  /// writes has them too.
  void add_unseen_faults(const FaultMarks& marks);
  FaultMarks unseen_faults();
  /// The stream is given to a new user.
  void begin_lease();
  /// Work from `seq` on was lost by a failure that the plugin's queue does not know of: the stream
  /// fails, and with it those of the device that have waited for that work. The first failure
  /// stays. Work that depends on it may run all the same. `status` is neither TIMEOUT nor PENDING,
  /// which tell of a wait. Any thread; not while held.
  void fail(uint64_t seq, const Status& status);
  /// An event or a host call behind work in the queue was told that this failed with `code`:
  /// answers the stream's failure, in its own words, which it has from now on. The first one stays.
  /// Any thread; not while held. Waits for who holds it a second at most.
  Status failure_told(bp_status code);
  /// Ends a failure: waits for the rest, and begins anew with an empty queue. Work that was lost by
  /// it answers its failure to readers of its results. Other waits on this stream end first.
  /// Errors: TIMEOUT; the plugin's; UNSUPPORTED on a wrapped stream.
  Status reset();
  /// Of a wrapped stream: waits as reset() does, and lets go of the queue. Marks of its work stay
  /// good. Errors: TIMEOUT, and it goes on; the plugin's, after the end.
  Status end();
  /// Stands for another queue from now on. After end(); the caller is the only holder.
  Status begin(bp_stream* handle);
  /// BP_OK, BP_PENDING (also while another thread puts work in), or the stream's failure. Never
  /// waits.
  Status query();
  /// True if work up to `seq` is known to be done, without asking the device.
  bool known_done(uint64_t seq) const { return seq <= done_seq_.load(std::memory_order_acquire); }
  /// Work up to `seq` is done, as an event has told. False: that cannot be noted now, for another
  /// thread has the stream, a fault is still to be read, or the stream has failed. Never waits.
  bool try_note_done(uint64_t seq);
  /// The TIMEOUT of a wait that was as long as waits may be, in words.
  Status timed_out(std::string_view what = "the stream was not done") const;
  /// An error of a call on this stream in words: the plugin's, and the operator's name (`op`, where
  /// the call was for one). Not while held.
  Status failure(bp_status code, CallTitle title, const bp_kernel* kernel = nullptr,
                 std::string_view op = {});
  /// When the device is closed, after the stream's end.
  void release_host_memory();

 private:
  static constexpr uint64_t kSeqBits = 40;
  static constexpr uint64_t kSeqMask = (uint64_t{1} << kSeqBits) - 1;
  static constexpr size_t kRecentOps = 256;
  static constexpr size_t kFaultWords = 64;
  static constexpr size_t kMaxTroubles = 1024;
  struct RecentOp {
    uint64_t seq = 0;
    OpId op = 0;
    const bp_kernel* kernel = nullptr;
  };
  enum class TroubleKind : uint8_t {
    kFault,         // a data fault, for the first who asks
    kMergedFaults,  // data faults among the range, for all who ask, as they cannot be told apart
    kLostWork,      // for all who ask
  };
  /// What went wrong in [first_seq, last_seq].
  struct Trouble {
    uint64_t first_seq;
    uint64_t last_seq;
    TroubleKind kind;
    Status status;
    bool is_fault_in(uint64_t first, uint64_t last) const {
      return kind != TroubleKind::kLostWork && first_seq <= last && first <= last_seq;
    }
  };

  Status wait_until_done(uint64_t* out_issued);
  Status wait_to_hold(TimedLock& out_lock);
  /// For what error messages say, which is left out where it would take long.
  bool hold_briefly(TimedLock& out_lock);
  /// Both locks, with nothing at work and nobody waiting.
  Status drain(TimedLock& out_collecting, TimedLock& out_lock);
  Status begin_anew();
  Status make_fault_words();
  Status zero_fault_words();
  void leave_failure();
  bp_status copy_fault_words();
  bp_status copy_fault_words(size_t first, size_t count);
  Status read_fault_words(size_t first, std::span<bp_fault_word> out_words);
  Status clear_fault_word(size_t word);
  Status describe(const bp_fault_word& word, uint64_t seq);
  bool has_input(uint64_t seq, uint32_t input);
  Status describe_unknown(const bp_fault_word& word, uint64_t seq);
  void add_trouble(Trouble trouble);
  void merge_oldest_faults();
  Status note_failure(bp_status code, Slot slot);
  /// The first one stays.
  Status keep_failure(const Status& status);
  bool has_waited_from(const Stream& producer, uint64_t seq);
  friend class Device;  // spread_failure
  Status check_reports(bp_stream* handle);
  /// What the plugin says of a failure in the queue, which it says once, for the one who asks
  /// first; kept for those who ask after that.
  std::optional<PluginReport> take_report(bp_stream* handle);
  /// What take_report() kept, where it is the reason for `code`.
  std::optional<PluginReport> kept_report(bp_status code);
  Result<bool> has_waited_for(const Stream& producer, uint64_t seq);
  /// The launch of that name, if it is not too long ago.
  std::optional<RecentOp> find_recent(uint64_t op_seq);
  /// Whom an error is about: words for it, and the operator where it is one, and known.
  struct Culprit {
    std::string words;
    std::string op;
  };
  Culprit culprit(uint64_t op_seq);
  /// Of a failure of which is known only that it is of work in the queue.
  Culprit suspects();
  bp_mem fault_place(size_t word) const;

  Device& device_;
  std::atomic<bp_stream*> handle_;  // written while held
  const bool is_inline_;
  const bool is_wrapped_;
  const uint64_t index_;
  Allocator::Pool& pool_;
  std::timed_mutex mutex_;
  std::atomic<uint64_t> issued_seq_{0};  // written while held
  std::atomic<uint64_t> lease_seq_{0};   // issued_seq_ when the present user got the stream
  std::atomic<uint64_t> done_seq_{0};
  std::array<RecentOp, kRecentOps> recent_ops_{};
  std::vector<Mark> waits_;              // under mutex_, until reset(): one for each producer
  Status first_failure_;                 // under mutex_; until reset()
  bool failure_is_settled_ = false;      // under mutex_: no work is left that still uses memory
  std::atomic<bool> was_failed_{false};  // by fail(); until reset()
  std::atomic<uint32_t> waits_in_progress_{0};  // they begin under mutex_, and use handle_ without

  // The fault words are a ring; launches take them in order, collect_faults() gives them back.
  std::timed_mutex collect_mutex_;  // taken before mutex_
  bp_mem fault_words_{};            // under mutex_ until has_fault_words_, then fixed
  std::atomic<bool> has_fault_words_{false};
  std::array<uint64_t, kFaultWords> fault_seqs_{};
  size_t fault_first_ = 0;  // this and the counts: under mutex_
  size_t fault_count_ = 0;
  // The oldest words have copies in the queue, so that the wait for the work is the only one.
  size_t fault_copy_count_ = 0;
  std::array<uint64_t, kFaultWords> fault_copy_seqs_{};
  bp_fault_word* fault_copies_ = nullptr;  // by word; nullptr: there was no memory

  std::mutex report_mutex_;
  std::optional<PluginReport> kept_report_;  // the first one that tells of lost work; until reset()

  std::mutex unseen_mutex_;
  FaultMarks unseen_faults_;

  std::mutex trouble_mutex_;
  std::vector<Trouble> troubles_;
  std::atomic<bool> has_troubles_{false};
};

}  // namespace bp

#endif
