// SPDX-License-Identifier: Apache-2.0
//
// See enqueue.hpp. Batches of one stream are one command, which brings all of them to their groups
// before it waits, so that none waits for another of the array.
#include "collective/enqueue.hpp"

#include <algorithm>
#include <condition_variable>
#include <iterator>
#include <thread>
#include <utility>

#include "collective/communicator.hpp"
#include "collective/course.hpp"

namespace bp::npu {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLook = std::chrono::milliseconds(1);
constexpr auto kLongLook = std::chrono::milliseconds(10);  // of who waits for one bell alone
constexpr auto kLookForDead = std::chrono::milliseconds(200);
constexpr auto kSlowness = std::chrono::milliseconds(300);

[[noreturn]] void throw_stopped() {
  throw StreamFailure{BP_CANCELLED, "the stream was destroyed before its work was done"};
}

/// The rows of an array of versioned structs.
template <class Row>
std::vector<Row> read_rows(const Row* rows, uint32_t count, uint32_t stride_bytes,
                           uint32_t known_flags, const char* what) {
  if (count > 0 && (rows == nullptr || stride_bytes < 2 * sizeof(uint32_t))) {
    refuse("collective_enqueue: ", count, " ", what, " at ", static_cast<const void*>(rows),
           " with a stride of ", stride_bytes);
  }
  std::vector<Row> read;
  const auto* at = reinterpret_cast<const std::byte*>(rows);
  for (uint32_t i = 0; i < count; ++i, at += stride_bytes) {
    read.push_back(read_args(reinterpret_cast<const Row*>(at), known_flags));
  }
  return read;
}

/// A batch as its stream runs it; it knows nothing of the communicator, which may be gone then.
struct Batch {
  std::shared_ptr<Seat> seat;
  std::shared_ptr<std::atomic<int>> pending_count;
  Device* device;
  std::vector<bp_collective_op> operations;
  std::vector<uint64_t> numbers;
};

/// A batch that has begun.
class RunningBatch {
 public:
  RunningBatch(const Batch& batch, const std::stop_token& stop) : seat_(*batch.seat) {
    for (size_t i = 0; i < batch.operations.size(); ++i) {
      Operation operation = find_memory(batch.operations[i], seat_.place(), batch.device->memory());
      spoil(batch, &operation, stop);
      courses_.emplace_back(seat_, operation, batch.numbers[i], batch.device->options().mismatch);
    }
    if (stays_away_) seat_.withhold(batch.numbers.front());
  }

  Seat& seat() const { return seat_; }
  bool is_over() const {
    return !stays_away_ && std::all_of(courses_.begin(), courses_.end(),
                                       [](const Course& course) { return course.is_over(); });
  }
  /// False: all wait for other ranks. Throws StreamFailure where the rank has failed.
  bool advance() {
    if (is_over()) return false;
    seat_.check();
    bool has_moved = false;
    for (Course& course : courses_) has_moved = (!stays_away_ && course.advance()) || has_moved;
    if (has_moved && is_over() && spoilt_in_ != nullptr) *spoilt_in_ ^= std::byte{1};
    return has_moved;
  }
  void withdraw() noexcept {
    for (Course& course : courses_) course.withdraw();
  }
  /// Throws StreamFailure where that will never end.
  void look_for_lost_ranks() {
    seat_.look_for_disagreement();
    const auto now = Clock::now();
    const bool looks_for_dead = now >= next_look_for_dead_;
    if (looks_for_dead) next_look_for_dead_ = now + kLookForDead;
    const RankPlace place = seat_.place();
    for (uint32_t rank = 0; rank < place.rank_count; ++rank) {
      if (rank == place.rank || !waits_for(rank)) continue;
      const bool is_dead = looks_for_dead && seat_.meeting().is_dead(rank);
      const bool is_gone = is_dead || seat_.meeting().has_left(rank);
      // What it did before it went is there by now.
      if (is_gone && waits_for(rank)) seat_.miss(rank, is_dead);
    }
    seat_.check();
  }

 private:
  bool waits_for(uint32_t rank) const {
    return !stays_away_ &&
           std::any_of(courses_.begin(), courses_.end(),
                       [rank](const Course& course) { return course.waits_for(rank); });
  }

  /// What tests ask for of the latest operation.
  void spoil(const Batch& batch, Operation* operation, const std::stop_token& stop) {
    switch (batch.device->next_collective_fault()) {
      case CollectiveFault::kNeverComes:
        stays_away_ = true;
        break;
      case CollectiveFault::kDies:
        batch.device->lose();
        seat_.leave(BP_DEVICE_LOST, "the device is lost");
        break;
      case CollectiveFault::kSlow:
        for (const auto end = Clock::now() + kSlowness; Clock::now() < end;) {
          if (stop.stop_requested()) throw_stopped();
          std::this_thread::sleep_for(kLook);
        }
        break;
      case CollectiveFault::kFlipsBit:
        spoilt_in_ = operation->recv;
        break;
      case CollectiveFault::kDisagrees:
        operation->what.count -= std::min<uint64_t>(operation->what.count, 1);
        break;
      case CollectiveFault::kLiesReady:
      case CollectiveFault::kNone:
        break;
    }
  }

  Seat& seat_;
  std::vector<Course> courses_;
  bool stays_away_ = false;         // its operations are in no meeting (CollectiveFault)
  std::byte* spoilt_in_ = nullptr;  // what is received and wrong afterwards
  Clock::time_point next_look_for_dead_ = Clock::now() + kLookForDead;
};

/// What goes into one stream.
class StreamBatches {
 public:
  explicit StreamBatches(uint64_t op_seq) : op_seq_(op_seq) {}
  ~StreamBatches() { end(); }
  StreamBatches(const StreamBatches&) = delete;
  StreamBatches& operator=(const StreamBatches&) = delete;

  /// From now on the batch is pending.
  void add(Batch batch) {
    batches_.push_back(std::move(batch));
    ++*batches_.back().pending_count;
  }
  uint64_t op_seq() const { return op_seq_; }
  /// Nothing of it is pending any more: when it has run, at the latest when it is dropped.
  void end() {
    if (is_over_.exchange(true)) return;
    for (const Batch& batch : batches_) --*batch.pending_count;
  }

  /// Throws StreamFailure.
  void run(const std::stop_token& stop) {
    std::vector<RunningBatch> running;
    try {
      take_links(stop);
      const Links links{*batches_[0].device};
      running.reserve(batches_.size());
      for (const Batch& batch : batches_) running.emplace_back(batch, stop);
      meet(running, stop);
    } catch (...) {
      StreamFailure failure = failure_of_exception(op_seq_);
      failure.op_seq = op_seq_;
      for (RunningBatch& batch : running) batch.withdraw();
      for (size_t i = 0; i < batches_.size(); ++i) {
        const bool is_over = i < running.size() && running[i].is_over();
        if (!is_over) batches_[i].seat->fail(failure.status, failure.message);
      }
      throw StreamFailure(std::move(failure));
    }
  }

 private:
  /// The device's, while they are taken.
  struct Links {
    Device& device;
    ~Links() { device.give_links(); }
  };

  static void meet(std::span<RunningBatch> running, const std::stop_token& stop) {
    const Meeting& first = running[0].seat().meeting();
    const auto is_over = [](const RunningBatch& batch) { return batch.is_over(); };
    for (;;) {
      const uint32_t bell_count = first.bell_count();
      bool has_moved = false;
      for (RunningBatch& batch : running) has_moved = batch.advance() || has_moved;
      if (std::all_of(running.begin(), running.end(), is_over)) return;
      if (has_moved) continue;
      if (stop.stop_requested()) throw_stopped();
      for (RunningBatch& batch : running) batch.look_for_lost_ranks();
      first.wait(bell_count, running.size() == 1 ? kLongLook : kLook);
    }
  }

  /// Batches of an array do not wait for each other, so they take the links together.
  void take_links(const std::stop_token& stop) const {
    uint64_t user = UINT64_MAX;
    for (const Batch& batch : batches_) user = std::min(user, batch.seat->id().nonce[0]);
    while (!batches_[0].device->try_take_links(user)) {
      for (const Batch& batch : batches_) batch.seat->check();
      if (stop.stop_requested()) throw_stopped();
      std::this_thread::sleep_for(kLook);
    }
  }

  const uint64_t op_seq_;
  std::vector<Batch> batches_;
  std::atomic<bool> is_over_ = false;
};

/// Whether an array is to run: streams that have their part wait for that, since another stream may
/// refuse its.
class Decision {
 public:
  /// The first answer stands.
  void decide(bool runs) {
    const std::scoped_lock lock(mutex_);
    if (!runs_.has_value()) runs_ = runs;
    changed_.notify_all();
  }
  /// False: it does not run, or a stop was asked for first.
  bool wait(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    return changed_.wait(lock, stop, [this] { return runs_.has_value(); }) && *runs_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<bool> runs_;
};

/// A batch of the call, read and checked.
struct Wanted {
  bp_comm* comm;
  bp_stream* stream;
  uint64_t sequence;
  uint64_t op_seq;
  std::vector<bp_collective_op> operations;
};

Wanted read_batch(const bp_collective_batch& batch) {
  if (batch.comm == nullptr || batch.stream == nullptr) {
    refuse("collective_enqueue: a batch without communicator or stream");
  }
  bp_comm& comm = *batch.comm;
  const RankState state = comm.state();
  if (state.failure.status != BP_OK) fail(state.failure.status, state.failure.message);
  if (!state.is_ready) fail(BP_PENDING, "collective_enqueue: the group is not complete yet");
  if (&batch.stream->device() != &comm.device()) {
    refuse("collective_enqueue: the stream is of another device than the communicator");
  }
  auto operations = read_rows(batch.operations, batch.operation_count, batch.operation_stride_bytes,
                              BP_OPERATION_DETERMINISTIC_BIT, "operations");
  bool has_collectives = false;
  for (const bp_collective_op& what : operations) {
    check_operation(what, comm.place());
    find_memory(what, comm.place(), comm.device().memory());
    has_collectives = has_collectives || !is_between_two(what.kind);
  }
  if (has_collectives && batch.sequence != comm.enqueued_sequence() + 1) {
    refuse("collective_enqueue: sequence ", batch.sequence, ", expected ",
           comm.enqueued_sequence() + 1);
  }
  return {&comm, batch.stream, batch.sequence, batch.op_seq, std::move(operations)};
}

std::vector<Wanted> read_batches(const bp_collective_args& args) {
  std::vector<Wanted> wanted;
  for (const auto& batch :
       read_rows(args.batches, args.batch_count, args.batch_stride_bytes, 0, "batches")) {
    for (const Wanted& other : wanted) {
      if (other.comm == batch.comm) refuse("collective_enqueue: a communicator has two batches");
    }
    wanted.push_back(read_batch(batch));
  }
  if (wanted.empty()) refuse("collective_enqueue: no batch");
  return wanted;
}

/// An array by its streams, and what its communicators know afterwards.
struct Array {
  std::vector<std::pair<bp_stream*, std::shared_ptr<StreamBatches>>> by_stream;
  std::vector<std::pair<bp_comm*, OperationNumbers>> numbers;

  explicit Array(const std::vector<Wanted>& wanted) {
    for (const Wanted& batch : wanted) add(batch);
  }

 private:
  void add(const Wanted& batch) {
    auto found = std::find_if(by_stream.begin(), by_stream.end(),
                              [&](const auto& entry) { return entry.first == batch.stream; });
    if (found == by_stream.end()) {
      by_stream.emplace_back(batch.stream, std::make_shared<StreamBatches>(batch.op_seq));
      found = std::prev(by_stream.end());
    }
    const bp_comm& comm = *batch.comm;
    OperationNumbers after = comm.numbers();
    uint64_t sequence = batch.sequence;
    std::vector<uint64_t> own;
    for (const bp_collective_op& what : batch.operations)
      own.push_back(after.next(what, &sequence));
    found->second->add({comm.shared_seat(), comm.pending_count(), &comm.device(), batch.operations,
                        std::move(own)});
    numbers.emplace_back(batch.comm, std::move(after));
  }
};

}  // namespace

void enqueue(Device& device, const bp_collective_args& args) {
  device.require_not_lost();
  Array array(read_batches(args));
  const auto decision = std::make_shared<Decision>();
  struct Undecided {
    Decision& decision;
    ~Undecided() { decision.decide(false); }
  } const undecided{*decision};
  for (const auto& [stream, batches] : array.by_stream) {
    const auto run = [batches = batches, decision](const std::stop_token& stop) {
      struct End {
        StreamBatches& batches;
        ~End() { batches.end(); }
      } const end{*batches};
      if (decision->wait(stop)) batches->run(stop);
    };
    stream->push({.work = run, .op_seq = batches->op_seq()});
  }
  for (auto& [comm, numbers] : array.numbers) comm->set_numbers(std::move(numbers));
  decision->decide(true);
}

}  // namespace bp::npu
