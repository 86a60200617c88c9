// SPDX-License-Identifier: Apache-2.0
//
// What a group does while it is driven: messages come, operations go on, deadlines pass, and the
// group fails once, on this rank first and then on all.
#include <algorithm>
#include <vector>

#include "ccl/group/group.hpp"
#include "core/base/log.hpp"

namespace bp::ccl {
namespace {

constexpr auto kNativeLook = std::chrono::milliseconds(5);
constexpr auto kCommunicatorLook = std::chrono::milliseconds(50);
constexpr auto kWordsComeWithin = std::chrono::milliseconds(20);

/// " 1, 2".
std::string ranks_text(const std::vector<uint32_t>& ranks) {
  std::string text;
  for (const uint32_t rank : ranks) text += (text.empty() ? " " : ", ") + std::to_string(rank);
  return text;
}

/// Of a task that has failed. The plugin knows why others did not do their part, and not why the
/// stream failed before. That may be by an earlier task, which was not over when it was asked.
template <class Tasks>
bool fails_by_plugin(const Tasks& tasks, const typename Tasks::value_type& failed) {
  for (const auto& task : tasks) {
    if (!task->is_over && task->before->query() == BP_OK) return true;
    if (task == failed) break;
  }
  return false;
}

/// One look at work in progress, in the order in which it was called: behind what is pending of a
/// stream nothing of it is over, and need not be asked about.
class PendingStreams {
 public:
  bool holds(const Work& work) const {
    const Stream* const stream = work.last_mark().stream;
    return stream != nullptr &&
           std::find(streams_.begin(), streams_.end(), stream) != streams_.end();
  }
  bp_status ask(Work& work) {
    if (holds(work)) return BP_PENDING;
    const bp_status answer = work.ask_queue();
    if (answer == BP_PENDING) streams_.push_back(work.last_mark().stream);
    return answer;
  }

 private:
  std::vector<const Stream*> streams_;
};

/// A plugin does not tell what it failed in: about in this one, the first that is not over.
template <class Task>
Failure failure_in(const Task& task, Failure told) {
  if (told.sequence != 0) return told;
  told.sequence = task.sequence;
  told.operation = describe(task.operation);
  return told;
}

}  // namespace

void ProcessGroup::message_arrived(uint32_t peer, const Header& header, uint64_t bytes,
                                   uint64_t token) noexcept {
  if (peer >= args_.place.rank_count) return;
  note_heard(peer);
  const Status noted = contain([&] {
    if (header.type == MessageType::kPayload) {
      lanes_->message_arrived(peer, header, bytes, token);
    } else {
      control_->message_arrived(peer, header, bytes, token);
    }
  });
  if (!noted.ok()) has_lost_news_ = true;
}

void ProcessGroup::peer_lost(uint32_t peer, const Status& why) noexcept {
  if (peer >= args_.place.rank_count) return;
  const Status noted = contain([&] {
    lanes_->rank_lost(peer, why);
    note_lost(peer, why);
    if (inquiry_ != nullptr) inquiry_->lost(peer);
  });
  if (!noted.ok()) has_lost_news_ = true;
}

/// Whether it was called and has not begun, and why.
bool ProcessGroup::is_held(const NativeTask& task, Whereabouts* out_here) const {
  std::string why;
  std::string group;
  if (const bp_status before = task.before->query(); before != BP_OK) {
    why = "queued behind other work of its stream";
    const auto& turns = task.turns_before;
    const auto turn = std::find_if(turns.begin(), turns.end(),
                                   [](const auto& each) { return each.is_pending(); });
    if (turn != turns.end()) {
      group = turn->group;
      why = "queued behind " + turn->operation + " of group " + group;
    }
    if (before != BP_PENDING) why += ", which failed";
  } else if (native_asked_ > task.begun() && task.native_sequence > native_enqueued_) {
    why = "at its device, which has not begun it";
  }
  if (why.empty()) return false;
  if (out_here->held == 0 && task.native_sequence != 0) {
    out_here->held = task.sequence;
    out_here->held_by = std::move(why);
    out_here->held_group = std::move(group);
  }
  return true;
}

/// `sequence`: of the collective that is asked about.
Whereabouts ProcessGroup::whereabouts(uint64_t sequence) {
  Whereabouts here;
  here.called = recorder_.find_collective(sequence);
  here.entered = std::max({lanes_->entered(), lanes_->checking(), native_completed_});
  here.completed = std::max(lanes_->completed(), native_completed_);
  here.operation = lanes_->latest_operation();
  // To ask the plugin may take longer than other ranks wait for the answer.
  const auto now = Clock::now();
  const bool is_stale = std::any_of(tasks_.begin(), tasks_.end(), [&](const auto& task) {
    return task->begun() <= now && task->begun() >= native_asked_;
  });
  if (is_stale) ask_communicator(now);
  for (const auto& task : tasks_) {
    if (task->sequence <= here.entered || is_held(*task, &here)) continue;
    here.entered = task->sequence;
    here.operation = task->work->operation();
  }
  return here;
}

/// Answers and takes what others say. True: there was something.
bool ProcessGroup::advance_control() {
  if (control_->is_idle()) return false;
  const std::vector<ControlMessage> messages = control_->take();
  for (const ControlMessage& message : messages) {
    if (message.header.type == MessageType::kWhere) {
      control_->send(message.rank, MessageType::kHere,
                     encode(whereabouts(message.header.sequence)));
    } else if (message.header.type == MessageType::kHere && inquiry_ != nullptr) {
      if (const auto here = decode_whereabouts(message.payload)) {
        inquiry_->answered(message.rank, *here);
      }
    } else if (message.header.type == MessageType::kAbort && !has_failed_.load()) {
      auto told = decode_failure(message.payload, args_.place.rank_count);
      if (!told) {
        told = Failure{.code = BP_INTERNAL,
                       .words = agreement_.names[message.rank] + " told that the group failed"};
      }
      fail(*std::move(told), false);
    }
  }
  return !messages.empty();
}

/// What another rank sent is lost, and would be waited for.
Failure ProcessGroup::out_of_memory() const {
  return {.code = BP_OUT_OF_MEMORY,
          .words =
              agreement_.names[args_.place.rank] + " had no host memory for what another rank sent",
          .culprits = {args_.place.rank}};
}

void ProcessGroup::take_news(std::optional<Failure>* out_requested) {
  const std::lock_guard lock(state_mutex_);
  *out_requested = requested_;
  tasks_.splice(tasks_.end(), new_tasks_);
  copies_.splice(copies_.end(), new_copies_);
}

/// Whoever drives may not wait for a stream, whose later work waits for who drives.
void ProcessGroup::end_queue_of(Work& work, const Failure& failure) {
  const Mark last = work.last_mark();
  const Status room = contain([&] { kept_.emplace_back(); });
  if (!room.ok()) {  // they go with the work, which is known to be done where that can be noted
    if (last.stream != nullptr) last.stream->try_note_done(last.seq);
    return work.end_queue_keeping(failure);
  }
  kept_.back() = {last, work.end_queue(failure)};
}

/// Copies, or tensors of work that is over, wait for their streams.
bool ProcessGroup::awaits_streams() const {
  return !copies_.empty() || (!kept_.empty() && !has_failed_.load());
}

void ProcessGroup::drop_kept() {
  if (has_failed_.load()) return;  // the end of the group does
  std::erase_if(kept_, [](const auto& kept) {
    return kept.first.stream == nullptr || kept.first.stream->try_note_done(kept.first.seq);
  });
  if (device().deferred_free().count() > 0) device().deferred_free().release_done();
}

/// Also of a group that has failed: its streams go on, and copies behind the hold with them.
void ProcessGroup::let_copies_go(Clock::time_point now) {
  if (!awaits_streams() || now < next_copy_look_) return;
  next_copy_look_ = now + kNativeLook;
  PendingStreams pending;
  for (auto work = copies_.begin(); work != copies_.end();) {
    const bp_status answer = pending.ask(**work);
    if (answer == BP_PENDING) {
      ++work;
      continue;
    }
    end_queue_of(**work, answer == BP_OK ? Failure() : (*work)->explain(answer));
    work = copies_.erase(work);
    open_tasks_.fetch_sub(1, std::memory_order_release);
  }
  drop_kept();
}

/// There is nothing to look at but the lanes, as most of the time.
bool ProcessGroup::has_lanes_alone(Clock::time_point now) const {
  return !has_news_.load() && control_->is_idle() && !awaits_streams() && tasks_.empty() &&
         !has_failed_.load() && !has_lost_news_ && suspicion_.ok() && inquiry_ == nullptr &&
         !lanes_->may_be_overdue(now);
}

bool ProcessGroup::advance(Clock::time_point now) noexcept {
  driven_ = now;
  // What uses a tensor that is dropped here may be held until this thread goes on.
  const LeavesStorages leaves;
  bool has_moved = false;
  const Status status = contain([&] {
    std::optional<Failure> failure;
    if (has_lanes_alone(now)) {
      failure = lanes_->advance(now, &has_moved);
      if (!failure) return;
    } else {
      std::optional<Failure> requested;
      if (has_news_.load() && has_news_.exchange(false)) take_news(&requested);
      has_moved = advance_control();
      let_copies_go(now);
      if (has_failed_.load()) return end_work();  // what was called while it failed
      if (requested) return fail(explained(*std::move(requested)), true);
      if (has_lost_news_) return fail(out_of_memory(), true);
      // What was to come from a rank that is gone does not: nothing goes on without it.
      if (suspicion_.ok()) failure = lanes_->advance(now, &has_moved);
    }
    if (failure) failure = explained(*std::move(failure));
    bool is_hearsay = (failure && failure->code == BP_UNAVAILABLE) || !suspicion_.ok();
    if (!failure && !tasks_.empty()) {
      failure = advance_native(now);
      is_hearsay = true;
    }
    if (is_hearsay) failure = suspect(std::move(failure), now);
    if (failure) return fail(*std::move(failure), true);
    if (auto late = advance_inquiry(now)) fail(*std::move(late), true);
  });
  if (!status.ok() && !has_failed_.load()) {
    // Words that are short take no memory, which may be what is missing.
    [[maybe_unused]] const Status failed =
        contain([&] { fail({.code = status.code(), .words = status.message()}, true); });
  }
  return has_moved;
}

bool ProcessGroup::is_busy() const noexcept {
  return has_news_.load() || !has_ended_work() || !copies_.empty() || !kept_.empty() ||
         inquiry_ != nullptr || !suspicion_.ok();
}

Clock::time_point ProcessGroup::next_look() const noexcept {
  if (has_news_.load()) return Clock::time_point::min();
  const auto copies = awaits_streams() ? next_copy_look_ : Clock::time_point::max();
  if (has_failed_.load()) {  // what had no memory to end is tried again
    return has_ended_work() ? copies : std::min(copies, Clock::now() + kNativeLook);
  }
  auto next = inquiry_ != nullptr ? inquiry_->next_look() : lanes_->next_look(Clock::now());
  next = std::min(next, copies);
  if (!suspicion_.ok()) next = std::min(next, suspicion_end_);
  if (!tasks_.empty()) next = std::min(next, next_native_look_);
  return next;
}

std::optional<Failure> ProcessGroup::ask_communicator(Clock::time_point now) {
  const auto state = communicator_->poll();
  const Status why = state.ok() ? state->failure : state.status();
  if (state.ok()) {
    native_enqueued_ = state->enqueued_sequence;
    native_asked_ = now;
    if (state->state != BP_COMM_FAILED) return std::nullopt;
  }
  Failure failure{.code = why.code(), .words = why.message()};
  if (state.ok()) failure.culprits = island_->rank_of(state->culprit);
  // The plugin numbers the ranks of the island.
  if (!is_native()) failure.words += " (its ranks are" + ranks_text(island_->ranks) + " here)";
  return failure;
}

void ProcessGroup::record_end(const NativeTask& task, bp_status code, Clock::time_point now) {
  for (uint64_t i = 0; i < task.record_count; ++i) {
    recorder_.completed(task.record_id + i, code, now);
  }
}

std::optional<Failure> ProcessGroup::advance_native(Clock::time_point now) {
  if (now < next_native_look_) return std::nullopt;
  next_native_look_ = now + kNativeLook;
  PendingStreams pending;
  for (const auto& task : tasks_) {
    if (task->is_over) continue;  // from a look that found a failure behind it
    if (pending.holds(*task->work)) continue;
    if (task->deadline == Clock::time_point::max() && task->before->query() != BP_PENDING) {
      task->deadline = now + task->timeout;
      for (uint64_t i = 0; i < task->record_count; ++i) {
        recorder_.started(task->record_id + i, now);
      }
    }
    const bp_status answer = pending.ask(*task->work);
    if (answer == BP_PENDING) continue;
    if (answer != BP_OK || task->is_last) record_end(*task, answer, now);
    if (answer != BP_OK) {
      auto why = fails_by_plugin(tasks_, task) ? ask_communicator(now) : std::nullopt;
      return why ? failure_in(*task, *std::move(why)) : task->work->explain(answer);
    }
    if (task->is_last) native_completed_ = std::max(native_completed_, task->sequence);
    end_queue_of(*task->work, {});
    task->is_over = true;
  }
  const size_t ended = std::erase_if(tasks_, [](const auto& task) { return task->is_over; });
  drop_kept();
  open_tasks_.fetch_sub(ended, std::memory_order_release);
  if (tasks_.empty() || now < next_communicator_look_) return std::nullopt;
  next_communicator_look_ = now + kCommunicatorLook;
  auto why = ask_communicator(now);
  if (!why) return std::nullopt;
  return failure_in(*tasks_.front(), *std::move(why));
}

/// Where the plugin's collectives failed, what comes behind them in their stream cannot begin: then
/// they are the cause.
Failure ProcessGroup::explained(Failure failure) {
  if (tasks_.empty() || failure.code == BP_CANCELLED) return failure;
  next_native_look_ = Clock::time_point::min();
  auto cause = advance_native(Clock::now());
  return cause ? *std::move(cause) : failure;
}

/// A rank that fails tells the others, and then it leaves, which may be noticed before its words
/// have come.
std::optional<Failure> ProcessGroup::suspect(std::optional<Failure> failure,
                                             Clock::time_point now) {
  if (suspicion_.ok() && failure) {
    suspicion_ = *std::move(failure);
    // Not `now`: a call of the plugin may have taken long since.
    suspicion_end_ = Clock::now() + kWordsComeWithin;
  }
  if (suspicion_.ok() || now < suspicion_end_) return std::nullopt;
  return suspicion_;
}

std::optional<Overdue> ProcessGroup::find_overdue(Clock::time_point now) {
  if (auto overdue = lanes_->overdue(now)) return overdue;
  for (const auto& task : tasks_) {
    if (now >= task->deadline) return Overdue{task->operation, task->sequence, task->timeout, {}};
  }
  return std::nullopt;
}

std::optional<Failure> ProcessGroup::advance_inquiry(Clock::time_point now) {
  if (inquiry_ == nullptr) {
    if (tasks_.empty() && !lanes_->may_be_overdue(now)) return std::nullopt;
    auto overdue = find_overdue(now);
    if (!overdue) return std::nullopt;
    std::vector<std::string> groups_behind;
    if (!is_concurrent_ && communicator_ != nullptr) {
      CommunicatorChain& chain = CommunicatorChain::of(device());
      const std::lock_guard lock(chain.mutex());
      groups_behind = chain.groups_behind(*communicator_);
    }
    Whereabouts own = whereabouts(overdue->sequence);
    inquiry_ =
        std::make_unique<Inquiry>(Inquiry::Args{*std::move(overdue), args_.place, agreement_.names,
                                                std::move(own), std::move(groups_behind)},
                                  control_.get(), now);
  }
  if (!inquiry_->is_over(now)) return std::nullopt;
  return inquiry_->failure([this](uint32_t rank) { return messenger_->engine().state_of(rank); });
}

void ProcessGroup::request_failure(Failure failure) noexcept {
  std::shared_ptr<Messenger> messenger;  // none while ranks join
  {
    const std::lock_guard lock(state_mutex_);
    if (!requested_) requested_ = std::move(failure);
    is_requested_.store(true, std::memory_order_release);
    messenger = messenger_;
  }
  has_news_.store(true);
  if (messenger != nullptr) messenger->kick();
}

void ProcessGroup::runtime_closes() noexcept {
  request_failure(tell_or_few(BP_CANCELLED, "is closed", [this](Failure& failure) {
    failure.words = "the Runtime of rank " + std::to_string(args_.place.rank) + " (" +
                    device().name() + ") is being closed";
  }));
  joining_->abort();  // who joins tells the others why
  descendants_->abort();
}

/// All that is in progress, once the group has failed.
void ProcessGroup::end_work() {
  if (!control_->is_sending() && !messenger_->engine().has_unsent()) has_told_.store(true);
  if (has_ended_work()) return;
  const Failure& why = failure_;  // only who drives writes it
  // Streams first: whoever reads the results learns why, and not that the plugin was told to stop.
  for (const auto& task : tasks_) {
    if (task->work->queue_is_over()) {  // somebody has been told so, who reads its results
      if (task->is_last) record_end(*task, BP_OK, Clock::now());
      continue;
    }
    const Mark mark = task->work->mark();
    // In this order: who has waited for the work must not order new work behind a stream that is
    // about to fail by this.
    mark.stream->fail(mark.seq, why.to_stream_status());
    task->work->end(why);
    record_end(*task, why.code, Clock::now());
  }
  if (communicator_ != nullptr) communicator_->abort();
  lanes_->end_all(why);
  for (const auto& task : tasks_) end_queue_of(*task->work, why);
  open_tasks_.fetch_sub(tasks_.size(), std::memory_order_release);
  tasks_.clear();
}

void ProcessGroup::fail(Failure why, bool spreads) {
  const bool is_own = spreads && why.code == BP_DEVICE_LOST;
  if (is_own && why.culprits.empty()) why.culprits = {args_.place.rank};
  {
    const std::lock_guard lock(state_mutex_);
    failure_ = std::move(why);
    tasks_.splice(tasks_.end(), new_tasks_);
  }
  has_failed_.store(true);
  inquiry_.reset();
  // Before this rank leaves the plugin's group, which others may see. Whom that does not reach,
  // this rank's end or the deadline does.
  const Status told = contain([&] {
    for (uint32_t rank = 0; spreads && rank < args_.place.rank_count; ++rank) {
      if (rank != args_.place.rank) control_->send(rank, MessageType::kAbort, encode(failure_));
    }
  });
  end_work();
  if (!told.ok()) log(BP_LOG_WARNING, told.with_prefix("group " + words()).to_string());
  const std::string& folder = runtime_->options().text("BACKPLANE_CCL_TRACE");
  Status dumped = folder.empty() ? Status() : recorder_.write_dump(folder, info());
  if (!dumped.ok()) log(BP_LOG_WARNING, dumped.with_prefix("BACKPLANE_CCL_TRACE").to_string());
  log(BP_LOG_WARNING, "group " + words() + " ends on " + agreement_.names[args_.place.rank] + ": " +
                          failure_.to_status().to_string());
}

}  // namespace bp::ccl
