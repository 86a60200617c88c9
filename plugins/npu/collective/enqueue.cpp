// SPDX-License-Identifier: Apache-2.0
//
// See enqueue.hpp. Batches of one stream are one command, which brings all of them to their groups
// before it waits, so that none waits for another of the array.
#include "collective/enqueue.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "collective/communicator.hpp"

namespace bp::npu {
namespace {

constexpr auto kLook = std::chrono::milliseconds(1);
constexpr auto kSlowness = std::chrono::milliseconds(300);

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
  std::shared_ptr<Group> group;
  std::shared_ptr<std::atomic<int>> pending_count;
  Device* device;
  RankPlace place;
  std::vector<bp_collective_op> operations;
  std::vector<uint64_t> numbers;
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
    std::vector<std::unique_ptr<Posting>> postings;
    try {
      const auto waiter = std::make_shared<Waiter>();
      take_links(*waiter, stop);
      const Links links{*batches_[0].device};
      for (const Batch& batch : batches_) postings.push_back(posting_of(batch, waiter, stop));
      meet(postings, *waiter, stop);
    } catch (...) {
      StreamFailure failure = failure_of_exception(op_seq_);
      failure.op_seq = op_seq_;
      // No group knows a posting that is gone.
      for (size_t i = 0; i < postings.size(); ++i) {
        batches_[i].group->withdraw(postings[i].get(), failure);
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

  void meet(const std::vector<std::unique_ptr<Posting>>& postings, Waiter& waiter,
            const std::stop_token& stop) {
    for (size_t i = 0; i < batches_.size(); ++i) batches_[i].group->post(postings[i].get());
    for (size_t i = 0; i < batches_.size();) {
      if (batches_[i].group->is_over(*postings[i])) {
        ++i;
      } else if (!waiter.wait(stop)) {
        throw_stopped();
      }
    }
    for (const auto& posting : postings) {
      if (posting->spoilt_in != nullptr) *posting->spoilt_in ^= std::byte{1};
    }
  }

  /// Batches of an array do not wait for each other, so they take the links together.
  void take_links(Waiter& waiter, const std::stop_token& stop) const {
    const auto first = std::min_element(
        batches_.begin(), batches_.end(),
        [](const Batch& a, const Batch& b) { return std::less<>()(a.group, b.group); });
    while (!batches_[0].device->try_take_links(first->group.get())) {
      for (const Batch& batch : batches_) {
        const StreamFailure failure = batch.group->state(batch.place.rank).failure;
        if (failure.status != BP_OK) throw StreamFailure(failure);
      }
      if (stop.stop_requested()) throw_stopped();
      waiter.wait_for(kLook, stop);
    }
  }

  [[noreturn]] static void throw_stopped() {
    throw StreamFailure{BP_CANCELLED, "the stream was destroyed before its work was done"};
  }

  /// What tests ask for of the latest operation.
  static void spoil(const Batch& batch, Posting* posting, const std::stop_token& stop) {
    bp_collective_op& what = posting->operations.back().what;
    switch (batch.device->next_collective_fault()) {
      case CollectiveFault::kNeverComes:
        posting->stays_away = true;
        break;
      case CollectiveFault::kDies:
        batch.device->lose();
        batch.group->leave(batch.place.rank, BP_DEVICE_LOST, "the device is lost");
        break;
      case CollectiveFault::kSlow:
        Waiter().wait_for(kSlowness, stop);
        break;
      case CollectiveFault::kFlipsBit:
        posting->spoilt_in = posting->operations.back().recv;
        break;
      case CollectiveFault::kDisagrees:
        what.count -= std::min<uint64_t>(what.count, 1);
        break;
      case CollectiveFault::kLiesReady:
      case CollectiveFault::kNone:
        break;
    }
  }

  static std::unique_ptr<Posting> posting_of(const Batch& batch,
                                             const std::shared_ptr<Waiter>& waiter,
                                             const std::stop_token& stop) {
    auto posting = std::make_unique<Posting>();
    posting->rank = batch.place.rank;
    posting->numbers = batch.numbers;
    posting->waiter = waiter;
    posting->mismatch = batch.device->options().mismatch;
    for (const bp_collective_op& what : batch.operations) {
      posting->operations.push_back(find_memory(what, batch.place, batch.device->memory()));
      spoil(batch, posting.get(), stop);
    }
    return posting;
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
    found->second->add({comm.shared_group(), comm.pending_count(), &comm.device(), comm.place(),
                        batch.operations, std::move(own)});
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
