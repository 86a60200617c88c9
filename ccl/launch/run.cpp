// SPDX-License-Identifier: Apache-2.0
#include "ccl/launch/run.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

namespace bp::ccl {
namespace {

// What a process of another group, which a rank started, may still write after the rank's end.
constexpr std::chrono::milliseconds kLateOutput{1000};
constexpr std::chrono::milliseconds kKilledPatience{2000};
// More than that is not read before it is written: then the ranks wait for who reads it.
constexpr size_t kMostQueuedBytes = size_t{1} << 23;
constexpr int kLastReads = 16;  // of 64 KiB: as large as pipes are made

}  // namespace

Run::~Run() {
  for (Rank& rank : ranks_) {
    if (rank.ended) continue;
    signal_group(rank.process, SIGKILL);
    while (!take_end(rank.process)) ::poll(nullptr, 0, 1);
    guard_.remove(rank.process);
    await_empty_group(rank.process, kKilledPatience);
  }
}

Status Run::start(const RankArgs& args) {
  const std::string number = "rank " + std::to_string(args.rank);
  auto started = start_process(args.process, guard_);
  if (!started.ok()) return started.status().with_prefix(number);
  const std::string device = args.device.empty() ? "" : " " + args.device;
  const std::string label = "[" + number + device + "] ";
  ranks_.push_back({.number = args.rank,
                    .title = number + " (" + (args.device.empty() ? "" : args.device + ", ") +
                             "process " + std::to_string(started->process) + ")",
                    .process = started->process,
                    .streams = {{std::move(started->output), LabelledLines(label), STDOUT_FILENO},
                                {std::move(started->error), LabelledLines(label), STDERR_FILENO}},
                    .ended = {}});
  return {};
}

void Run::stop(int signal) {
  const bool is_again = std::exchange(is_stopping_, true);
  for (const Rank& rank : ranks_) {
    if (!rank.ended) signal_group(rank.process, is_again ? SIGKILL : signal);
  }
  if (!is_again) kill_at_ = std::chrono::steady_clock::now() + grace_;
}

Run::TimePoint Run::next_deadline() const {
  TimePoint next = is_stopping_ ? TimePoint::max() : well_ends_.next();
  for (const Rank& rank : ranks_) {
    if (rank.ended) next = std::min(next, *rank.ended + kLateOutput);
  }
  return kill_at_ ? std::min(next, *kill_at_) : next;
}

void Run::add_awaited(std::vector<pollfd>* awaited) const {
  if (output_->bytes() >= kMostQueuedBytes) return;
  for (const Rank& rank : ranks_) {
    for (const Stream& stream : rank.streams) {
      if (!stream.source.is_open()) continue;
      awaited->push_back({.fd = stream.source.get(), .events = POLLIN, .revents = 0});
    }
  }
}

/// Once, unless it is the last time; then all that a pipe holds.
void Run::read(Stream* stream, bool is_last) {
  std::array<char, 65536> room;
  bool is_at_end = is_last;
  for (int left = is_last ? kLastReads : 1; left > 0 && stream->source.is_open(); --left) {
    if (!is_last && output_->bytes() >= kMostQueuedBytes) return;
    const ssize_t count = ::read(stream->source.get(), room.data(), room.size());
    if (count > 0) {
      output_->add(stream->target, stream->lines.take({room.data(), static_cast<size_t>(count)}));
      continue;
    }
    is_at_end = is_last || count == 0 || (errno != EAGAIN && errno != EINTR);
    break;
  }
  if (!is_at_end || !stream->source.is_open()) return;
  output_->add(stream->target, stream->lines.finish());
  stream->source.close();
}

void Run::take_ends(TimePoint now) {
  for (Rank& rank : ranks_) {
    if (rank.ended) continue;
    const auto end = take_end(rank.process);
    if (!end) continue;
    rank.ended = now;
    guard_.remove(rank.process);
    if (is_stopping_) continue;
    if (end->ok()) {
      well_ends_.note(rank.number, now);
    } else {
      failures_.push_back({*end, rank.title + " " + end->words()});
    }
  }
}

std::optional<std::string> Run::take_well_ends(bool has_other_nodes) {
  if (is_stopping_) return std::nullopt;
  std::vector<uint32_t> running;
  for (const Rank& rank : ranks_) {
    if (!rank.ended) running.push_back(rank.number);
  }
  return well_ends_.take(std::chrono::steady_clock::now(), running, has_other_nodes);
}

/// True: there is none any more.
bool Run::close_output(Rank* rank, TimePoint now) {
  const bool is_late = rank->ended && now - *rank->ended >= kLateOutput;
  bool is_open = false;
  for (Stream& stream : rank->streams) {
    read(&stream, is_late);
    is_open = is_open || stream.source.is_open();
  }
  return !is_open;
}

void Run::turn() {
  const auto now = std::chrono::steady_clock::now();
  take_ends(now);
  if (kill_at_ && now >= *kill_at_) {
    kill_at_.reset();
    for (const Rank& rank : ranks_) {
      if (!rank.ended) signal_group(rank.process, SIGKILL);
    }
  }
  std::erase_if(ranks_, [&](Rank& rank) {
    if (!close_output(&rank, now) || !rank.ended) return false;
    await_empty_group(rank.process, kKilledPatience);
    return true;
  });
  std::vector<pid_t> left = {guard_.process()};
  for (const Rank& rank : ranks_) left.push_back(rank.process);
  take_orphans(left);
}

}  // namespace bp::ccl
