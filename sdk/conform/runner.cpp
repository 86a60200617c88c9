// SPDX-License-Identifier: Apache-2.0
//
// The parent's side: which case in which mode, batches, children, deadlines, verdicts.
#include "sdk/conform/runner.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <deque>
#include <map>
#include <memory>

#include "sdk/conform/checks.hpp"
#include "sdk/conform/child.hpp"
#include "sdk/conform/platform.hpp"

namespace bp::conform {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kKeptOutputBytes = 1500;
// Cases of level 3 in one child: many, and most of them on any one device have nothing to run.
constexpr size_t kKernelBatch = 256;

/// Of control calls, where all of a case may take `deadline`: behind waits of half of that.
std::chrono::milliseconds call_timeout(Clock::duration deadline) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(deadline * 3 / 8);
}

/// Rows that one child runs, in turn.
struct Job {
  std::vector<size_t> rows;
  bool alone = false;
};

/// A job at work.
struct Running {
  Job job;
  std::vector<const Case*> cases;  // the child's view; it must not move
  Child child;
  Clock::time_point since;  // when the current case began, or the last one ended
  std::string results;      // what has come and is no whole line yet
  std::string output;
  std::vector<Outcome> outcomes;  // of the cases that ended
  bool in_case = false;
  bool late = false;
  bool stopped = false;  // since a case failed and the others are to be left
  bool left = false;     // a process, behind a good end
  Outcome closed{Verdict::kNotRun, {}};
};

bool has_failure(const std::vector<Outcome>& outcomes) {
  return std::any_of(outcomes.begin(), outcomes.end(), [](const Outcome& outcome) {
    return outcome.verdict != Verdict::kPass && outcome.verdict != Verdict::kUnsupported;
  });
}

class Scheduler {
 public:
  Scheduler(DeviceRows* device, const RunOptions& options) : device_(*device), options_(options) {}

  void run();

 private:
  void make_jobs();
  Status start(Job job);
  void wait();
  void read_messages(Running* running);
  void finish(std::unique_ptr<Running> running);
  std::string ending(Running* running);
  void settle(const Running& running, size_t position, const Outcome& outcome);
  void blame(const Running& running, const Outcome& after, std::vector<Outcome>* outcomes);
  void settle_suspicions();
  void stop();
  Clock::duration deadline() const {
    const std::chrono::duration<double> seconds(options_.deadline_s * options_.slowness);
    return std::chrono::duration_cast<Clock::duration>(seconds);
  }

  DeviceRows& device_;
  const RunOptions& options_;
  std::deque<Job> jobs_;
  std::vector<std::unique_ptr<Running>> running_;
  bool is_stopped_ = false;                   // fail_fast: a row has failed for good
  std::map<size_t, Outcome> batch_outcomes_;  // of rows that are to be run again alone
  std::vector<std::pair<std::vector<size_t>, Outcome>> suspicions_;  // batches that ended badly
};

/// One child per mode and batch; cases of level 0 have one each.
void Scheduler::make_jobs() {
  std::map<std::pair<uint64_t, bool>, Job> open;  // by mode, level 3 apart
  for (size_t i = 0; i < device_.rows.size(); ++i) {
    const Row& row = device_.rows[i];
    if (row.outcome.verdict == Verdict::kUnsupported) continue;
    const bool is_kernel = row.tested->level() > 2;
    const size_t batch = is_kernel ? kKernelBatch : options_.batch;
    if (row.tested->abi || batch <= 1) {
      jobs_.push_back({{i}, true});
      continue;
    }
    Job& job = open[{row.masked, is_kernel}];
    job.rows.push_back(i);
    if (job.rows.size() == batch) jobs_.push_back(std::exchange(job, {}));
  }
  for (auto& [mode, job] : open) {
    if (!job.rows.empty()) jobs_.push_back(std::move(job));
  }
}

Status Scheduler::start(Job job) {
  auto running = std::make_unique<Running>();
  running->job = std::move(job);
  for (const size_t row : running->job.rows) running->cases.push_back(device_.rows[row].tested);
  // A case's own waits end before it is killed, so that it can say what it waited for; and so does
  // a slot that a wait has called, so that its name is told.
  const Batch batch{device_.target, device_.rows[running->job.rows[0]].masked, running->cases,
                    deadline() / 2, call_timeout(deadline())};
  BP_TRY_ASSIGN(running->child,
                start_child([&batch](int results) { return run_batch(batch, results); }));
  running->since = Clock::now();
  running_.push_back(std::move(running));
  return {};
}

void Scheduler::read_messages(Running* running) {
  for (size_t end = 0; (end = running->results.find('\n')) != std::string::npos;) {
    const auto message = Message::parse(std::string_view(running->results).substr(0, end));
    running->results.erase(0, end + 1);
    if (!message) continue;
    running->since = Clock::now();
    running->in_case = message->kind == Message::Kind::kBegin;
    const Outcome outcome{message->verdict, message->words};
    if (message->kind == Message::Kind::kEnd) running->outcomes.push_back(outcome);
    if (message->kind == Message::Kind::kClosed) running->closed = outcome;
  }
}

void Scheduler::wait() {
  std::vector<int> files;
  Clock::time_point next = Clock::now() + std::chrono::seconds(1);
  for (const auto& running : running_) {
    files.push_back(running->child.results);
    next = std::min(next, running->since + deadline());
  }
  const auto pause = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
  wait_readable(files, std::max(pause, std::chrono::milliseconds(0)));
  for (size_t i = 0; i < running_.size();) {
    Running& running = *running_[i];
    const bool ended_before = has_ended(running.child);  // then all that it wrote is there
    bool open = read_available(running.child.results, &running.results) && !ended_before;
    read_available(running.child.output, &running.output);
    if (running.output.size() > kKeptOutputBytes) {
      running.output.erase(0, running.output.size() - kKeptOutputBytes);
    }
    read_messages(&running);
    if (open && options_.fail_fast && has_failure(running.outcomes)) {
      running.stopped = true;
      kill_child(running.child);
      open = false;
    }
    if (open && Clock::now() >= running.since + deadline()) {
      running.late = true;
      kill_child(running.child);
      open = false;
    }
    if (open) {
      ++i;
      continue;
    }
    std::unique_ptr<Running> ended = std::move(running_[i]);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    finish(std::move(ended));
  }
}

/// How a child ended, with its last output; empty if it ended well.
std::string Scheduler::ending(Running* running) {
  const Ending how = reap_child(&running->child);
  std::string ended = how.words;
  if (ended.empty() && how.left_a_process) {
    running->left = true;
    ended = "left a process behind";
  }
  if (running->late) {
    ended = words("still busy after ", options_.deadline_s * options_.slowness, " s");
  }
  if (ended.empty()) return ended;
  ended += how.step;
  const size_t last = running->output.find_last_not_of(" \n");
  if (last == std::string::npos) return ended;
  return ended + "; its output ends with: " + running->output.substr(0, last + 1);
}

/// The verdict of one row. Not good in a batch: again alone; that one counts, but a difference is a
/// failure of its own, except for lateness, which may be the machine's.
void Scheduler::settle(const Running& running, size_t position, const Outcome& outcome) {
  const size_t index = running.job.rows[position];
  Row& row = device_.rows[index];
  const bool good = outcome.verdict == Verdict::kPass || outcome.verdict == Verdict::kUnsupported;
  if (!running.job.alone && !good) {
    batch_outcomes_[index] = outcome;
    jobs_.push_front({{index}, true});
    return;
  }
  row.outcome = outcome;
  const auto before = batch_outcomes_.find(index);
  if (!good) is_stopped_ = options_.fail_fast;
  if (before == batch_outcomes_.end() || !good) return;
  const Outcome& in_batch = before->second;
  if (in_batch.verdict == Verdict::kTimeout || in_batch.verdict == Verdict::kNotRun) return;
  row.outcome = {Verdict::kFail,
                 words(verdict_name(in_batch.verdict),
                       " behind other cases in one process, but PASS alone: ", in_batch.words)};
}

/// What was wrong when the device was closed or the process ended is put down to the case. In a
/// batch all are run again alone; if none is to blame then, that is a failure of its own.
void Scheduler::blame(const Running& running, const Outcome& after,
                      std::vector<Outcome>* outcomes) {
  if (after.verdict == Verdict::kPass) return;
  const auto passed = [](const Outcome& outcome) { return outcome.verdict == Verdict::kPass; };
  if (!running.job.alone) suspicions_.push_back({running.job.rows, after});
  for (Outcome& outcome : *outcomes) {
    if (passed(outcome)) outcome = running.job.alone ? after : Outcome{Verdict::kNotRun, {}};
  }
}

/// Once all rows have their verdicts.
void Scheduler::settle_suspicions() {
  for (const auto& [rows, after] : suspicions_) {
    const auto passed = [this](size_t row) {
      return device_.rows[row].outcome.verdict == Verdict::kPass;
    };
    if (!std::all_of(rows.begin(), rows.end(), passed)) continue;
    device_.rows[rows.front()].outcome = {
        Verdict::kFail, words(verdict_name(after.verdict), " after ", rows.size(),
                              " cases in one process, all PASS alone: ", after.words)};
  }
}

void Scheduler::finish(std::unique_ptr<Running> running) {
  const bool in_case = running->in_case;
  const std::string ended = ending(running.get());
  std::vector<Outcome>& outcomes = running->outcomes;
  const size_t count = running->job.rows.size();
  const Verdict bad_end = running->late ? Verdict::kTimeout : Verdict::kCrash;
  if (running->stopped) {
    // How it ended is the runner's own doing.
  } else if (in_case && outcomes.size() < count) {
    outcomes.push_back({bad_end, ended.empty() ? "the process ended by itself" : ended});
  } else if (outcomes.size() == count && !outcomes.empty()) {
    // All cases ended; then the device was closed and the process ended.
    Outcome after = running->closed;
    if (!ended.empty()) {
      after = {running->left ? Verdict::kLeak : bad_end, "after the case: " + ended};
    }
    if (after.verdict == Verdict::kNotRun) after = {Verdict::kPass, {}};
    blame(*running, after, &outcomes);
  }
  for (size_t i = 0; i < outcomes.size(); ++i) settle(*running, i, outcomes[i]);
  if (outcomes.size() == count) return;
  const size_t done = outcomes.size();
  if (done == 0) {  // it never began
    for (size_t i = 0; i < count; ++i) {
      device_.rows[running->job.rows[i]].outcome = {bad_end, "before the first case: " + ended};
    }
    return;
  }
  Job rest = running->job;
  rest.rows.erase(rest.rows.begin(), rest.rows.begin() + static_cast<std::ptrdiff_t>(done));
  jobs_.push_back(std::move(rest));
}

void Scheduler::stop() {
  jobs_.clear();
  for (const auto& running : running_) {
    kill_child(running->child);
    reap_child(&running->child);
  }
  running_.clear();
}

void Scheduler::run() {
  make_jobs();
  while (!jobs_.empty() || !running_.empty()) {
    while (!jobs_.empty() && running_.size() < std::max<size_t>(options_.jobs, 1)) {
      Job job = std::move(jobs_.front());
      jobs_.pop_front();
      const std::vector<size_t> rows = job.rows;
      const Status status = start(std::move(job));
      if (status.ok()) continue;
      for (const size_t row : rows) {
        device_.rows[row].outcome = {Verdict::kNotRun, status.to_string()};
      }
    }
    if (!running_.empty()) wait();
    if (is_stopped_) stop();
    if (options_.on_progress) {
      const size_t total = device_.rows.size();
      options_.on_progress(total - device_.count(Verdict::kNotRun), total);
    }
  }
  settle_suspicions();
}

Result<Message> ask_probe(const Target& target, Clock::duration deadline) {
  BP_TRY_ASSIGN(Child child, start_child([&target, deadline](int results) {
                  return probe(target, call_timeout(deadline), results);
                }));
  std::string results;
  std::string output;
  const Clock::time_point end = Clock::now() + deadline;
  const int files[] = {child.results};
  bool open = true;
  while (open && Clock::now() < end) {
    wait_readable(files, std::chrono::milliseconds(100));
    const bool ended_before = has_ended(child);
    open = read_available(child.results, &results) && !ended_before;
    read_available(child.output, &output);
  }
  if (open) kill_child(child);
  const Ending how = reap_child(&child);
  const std::string ended = (open ? "no answer before the deadline" : how.words) + how.step;
  const auto message = Message::parse(results.substr(0, results.find('\n')));
  if (!message || message->kind != Message::Kind::kProbe) {
    return Status(BP_INTERNAL,
                  words(target.device_name(), " cannot be opened: ", ended, " ", output));
  }
  if (message->verdict == Verdict::kFail) {
    return Status(static_cast<bp_status>(message->number), message->words);
  }
  return *message;
}

/// The modes of one case: sets of bands to take from the device.
std::vector<uint64_t> modes_of(const Case& tested, uint64_t features, const RunOptions& options) {
  if (tested.abi) return options.native ? std::vector<uint64_t>{0} : std::vector<uint64_t>{};
  std::vector<uint64_t> modes;
  const bool can_be_emulated = (tested.bands & kNeverEmulated) == 0;
  const uint64_t taken = can_be_emulated ? tested.bands & features & ~options.masked : 0;
  if (options.native) modes.push_back(0);
  if (options.emulated && taken != 0) modes.push_back(taken);
  if (!options.each_band || tested.level() > 2) return modes;
  for (const Feature& band : kBands) {
    const bool part = (taken & band.bit) != 0 && taken != band.bit;
    if (part || band.bit == kOneCallAtATime) modes.push_back(band.bit);
  }
  return modes;
}

Row make_row(const Case& tested, uint64_t masked, uint64_t features, uint32_t needs) {
  Row row{&tested, masked, (tested.bands & ~(features & ~masked)) != 0, {}};
  if (const uint32_t missing = tested.needs & ~needs; missing != 0) {
    constexpr std::string_view kWords[] = {
        "no kernel for add of f32",          "memory without addresses",
        "memory that the host cannot reach", "one device in the instance",
        "more memory than can be filled up", "no collectives"};
    row.outcome.verdict = Verdict::kUnsupported;
    for (size_t i = 0; i < std::size(kWords); ++i) {
      if ((missing >> i & 1) != 0) row.outcome.words = kWords[i];
    }
  }
  const uint64_t gone = tested.bands & ~(features & ~masked);
  if ((tested.abi && row.emulated) || (gone & kNeverEmulated) != 0) {
    row.outcome = {Verdict::kUnsupported, "the plugin has no band " + band_names(gone)};
    row.emulated = false;
  }
  return row;
}

}  // namespace

std::string_view verdict_name(Verdict verdict) {
  constexpr std::string_view kNames[] = {"PASS",        "FAIL",    "CRASH", "TIMEOUT", "LEAK",
                                         "UNSUPPORTED", "NOT RUN", "XFAIL", "XPASS"};
  return kNames[static_cast<size_t>(verdict)];
}

bool matches(std::string_view pattern, std::string_view id) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == id;
  if (!id.starts_with(pattern.substr(0, star))) return false;
  pattern.remove_prefix(star + 1);
  for (size_t at = star; at <= id.size(); ++at) {
    if (matches(pattern, id.substr(at))) return true;
  }
  return false;
}

Result<std::vector<const Case*>> choose_cases(std::span<const Case> cases,
                                              std::span<const std::string> filters) {
  const auto fits = [](const std::string& filter, const Case& tested) {
    return matches(filter, tested.id) || matches(filter + ".*", tested.id);
  };
  for (const std::string& filter : filters) {
    const auto fits_it = [&](const Case& tested) { return fits(filter, tested); };
    if (std::none_of(cases.begin(), cases.end(), fits_it)) {
      return Status(BP_INVALID_ARGUMENT, "no case is called '" + filter + "'");
    }
  }
  std::vector<const Case*> chosen;
  for (const Case& tested : cases) {
    const auto takes_it = [&](const std::string& filter) { return fits(filter, tested); };
    if (filters.empty() || std::any_of(filters.begin(), filters.end(), takes_it)) {
      chosen.push_back(&tested);
    }
  }
  return chosen;
}

size_t DeviceRows::count(Verdict verdict) const {
  return static_cast<size_t>(std::count_if(
      rows.begin(), rows.end(), [=](const Row& row) { return row.outcome.verdict == verdict; }));
}

size_t DeviceRows::executed_count() const {
  return rows.size() - count(Verdict::kUnsupported) - count(Verdict::kNotRun);
}

size_t DeviceRows::failed_count() const {
  return rows.size() - count(Verdict::kUnsupported) - count(Verdict::kPass) -
         count(Verdict::kExpectedFail);
}

Result<DeviceRows> run_cases(std::span<const Case> cases, const Target& target,
                             const RunOptions& options) {
  BP_TRY_ASSIGN(const auto chosen, choose_cases(cases, options.filters));
  DeviceRows device;
  device.target = target;
  const std::chrono::duration<double> patience(3 * options.deadline_s * options.slowness);
  BP_TRY_ASSIGN(const Message answer,
                ask_probe(target, std::chrono::duration_cast<Clock::duration>(patience)));
  if (answer.verdict == Verdict::kNotRun) {
    device.absent = answer.words;
    return device;
  }
  device.features = answer.number;
  uint32_t needs = 0;
  const std::string& text = answer.words;
  const char* rest = std::from_chars(text.data(), text.data() + text.size(), needs).ptr;
  if (rest != text.data() + text.size()) device.driver = rest + 1;
  for (const Case* tested : chosen) {
    for (const uint64_t mode : modes_of(*tested, device.features, options)) {
      device.rows.push_back(make_row(*tested, mode | options.masked, device.features, needs));
    }
  }
  Scheduler(&device, options).run();
  return device;
}

}  // namespace bp::conform
