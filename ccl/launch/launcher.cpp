// SPDX-License-Identifier: Apache-2.0
#include "ccl/launch/launcher.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

#include "ccl/launch/job_store.hpp"
#include "ccl/launch/nodes.hpp"
#include "ccl/launch/private_folder.hpp"
#include "ccl/launch/processes.hpp"
#include "ccl/launch/run.hpp"
#include "ccl/store/endpoint.hpp"
#include "ccl/store/tcp_server.hpp"
#include "ccl/store/tcp_store.hpp"
#include "core/base/foreign_text.hpp"
#include "core/base/quoted.hpp"

extern char** environ;

namespace bp::ccl {
namespace {

constexpr int kNotStartedStatus = 3;  // the command's code for what its environment lacks
constexpr std::chrono::seconds kFolderTime{10};
constexpr std::chrono::seconds kReadTime{5};
constexpr std::chrono::seconds kVerdictTime{10};
constexpr std::string_view kLoopback = "127.0.0.1:0";

// What a rank gets from this launcher and from nothing else.
constexpr std::string_view kJobVariables[] = {
    "BACKPLANE_CCL_DEVICE",     "BACKPLANE_CCL_JOB",        "BACKPLANE_CCL_LOCAL_COUNT",
    "BACKPLANE_CCL_LOCAL_RANK", "BACKPLANE_CCL_NODE_RANK",  "BACKPLANE_CCL_RANK",
    "BACKPLANE_CCL_RANK_COUNT", "BACKPLANE_CCL_RESTART",    "BACKPLANE_CCL_STORE",
    "BACKPLANE_CCL_TOKEN",      "BACKPLANE_CCL_TOKEN_FILE",
};

bool is_job_variable(std::string_view entry) {
  const std::string_view name = entry.substr(0, entry.find('='));
  return std::find(std::begin(kJobVariables), std::end(kJobVariables), name) !=
         std::end(kJobVariables);
}

Result<std::string> unique_name() {
  BP_TRY_ASSIGN(const Nonce nonce, make_nonce());
  std::string name = "launch-";
  for (size_t i = 0; i < 8; ++i) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    name += kDigits[nonce[i] >> 4];
    name += kDigits[nonce[i] & 15];
  }
  return name;
}

Result<std::string> job_name() {
  std::string name = process_variable("BACKPLANE_CCL_JOB").value_or("job");
  if (!name.empty() && name.size() <= Job::kMostNameBytes) return name;
  return Status(BP_INVALID_ARGUMENT, "BACKPLANE_CCL_JOB: expected 1 to " +
                                         std::to_string(Job::kMostNameBytes) + " bytes, found " +
                                         std::to_string(name.size()));
}

/// The ranks' meeting place, and this launcher's.
struct Meeting {
  std::string job;
  std::string token_file;
  std::unique_ptr<HeldName> held;  // of the token's file, where it was made here
  std::unique_ptr<TcpServer> server;
  std::string endpoint;
  std::shared_ptr<Store> store;

  /// The other nodes read in the store why this one ends.
  void await_others() const;
};

void Meeting::await_others() const {
  const auto deadline = std::chrono::steady_clock::now() + kReadTime;
  // One client is this launcher's own.
  while (server != nullptr && server->client_count() > 1 &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

Result<std::shared_ptr<const Token>> take_token(const LaunchArgs& args, Meeting* meeting) {
  if (!args.token_file.empty()) {
    std::error_code error;
    meeting->token_file = std::filesystem::absolute(args.token_file, error).string();
    return Token::from_file(args.token_file);
  }
  BP_TRY_ASSIGN(const std::string folder, private_folder(process_variable));
  BP_TRY_ASSIGN(const std::string name, unique_name());
  BP_TRY_ASSIGN(meeting->held,
                HeldName::hold(folder, name, std::chrono::steady_clock::now() + kFolderTime));
  BP_TRY_ASSIGN(std::shared_ptr<const Token> token, Token::make());
  meeting->token_file = meeting->held->path("token");
  BP_TRY(token->write_file(meeting->token_file));
  return token;
}

/// While there are no ranks, into whose lines it could run.
void tell_at_once(const std::string& words) {
  std::fprintf(stderr, "backplane launch: %s\n", one_line(words).c_str());
}

Result<Meeting> meet(const LaunchArgs& args) {
  Meeting meeting;
  BP_TRY_ASSIGN(meeting.job, job_name());
  BP_TRY_ASSIGN(const std::shared_ptr<const Token> token, take_token(args, &meeting));
  meeting.endpoint = args.rendezvous.empty() ? std::string(kLoopback) : args.rendezvous;
  if (args.node_rank == 0) {
    BP_TRY_ASSIGN(meeting.server, TcpServer::start({.endpoint = meeting.endpoint,
                                                    .token = token,
                                                    .job = handshake_job(meeting.job)}));
    meeting.endpoint = meeting.server->endpoint();
  }
  const Signals::Pass pass;
  BP_TRY_ASSIGN(auto store,
                connect_tcp_store({.endpoint = meeting.endpoint,
                                   .token = token,
                                   .job = handshake_job(meeting.job),
                                   .deadline = std::chrono::steady_clock::now() + args.timeout,
                                   .telling = {.tell = tell_at_once}}));
  meeting.store = make_prefix_store("launch/", std::move(store));
  return meeting;
}

std::string device_of(const LaunchArgs& args, uint32_t local_rank) {
  if (args.devices.empty()) return "";
  return args.devices.size() == 1 ? args.devices[0] : args.devices[local_rank];
}

class Launch {
 public:
  Launch(const LaunchArgs& args, std::string path, const Guard& guard, const Signals& signals,
         Meeting meeting, std::unique_ptr<Nodes> nodes)
      : args_(args),
        path_(std::move(path)),
        guard_(guard),
        signals_(signals),
        meeting_(std::move(meeting)),
        nodes_(std::move(nodes)) {}

  Result<int> run_all();

 private:
  RankArgs rank_args(uint32_t local_rank, const RankRange& ranks, uint32_t run) const;
  Result<Verdict> run_once(uint32_t run);
  Status start_ranks(uint32_t run, const RankRange& ranks, Run* ranks_here);
  void wait_for_events(const Run& run, bool is_decided);
  void take_signals(Run* run);
  bool follow(Run* run);
  void take_failures(const Run& run);
  void propose(Verdict verdict);
  void say(const std::string& words);
  void flush();

  const LaunchArgs& args_;
  const std::string path_;
  const Guard& guard_;
  const Signals& signals_;
  const Meeting meeting_;
  const std::unique_ptr<Nodes> nodes_;
  OutputQueue output_;
  // Of the current run.
  bool has_proposed_ = false;
  bool is_stopped_ = false;
  size_t told_failures_ = 0;
};

RankArgs Launch::rank_args(uint32_t local_rank, const RankRange& ranks, uint32_t run) const {
  RankArgs rank = {.rank = ranks.first + local_rank,
                   .device = device_of(args_, local_rank),
                   .process = {.path = path_, .arguments = args_.command, .environment = {}}};
  auto& environment = rank.process.environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!is_job_variable(*entry)) environment.emplace_back(*entry);
  }
  const auto add = [&](const char* name, const std::string& value) {
    environment.push_back("BACKPLANE_CCL_" + std::string(name) + "=" + value);
  };
  add("RANK", std::to_string(rank.rank));
  add("RANK_COUNT", std::to_string(ranks.count));
  add("LOCAL_RANK", std::to_string(local_rank));
  add("LOCAL_COUNT", std::to_string(args_.local_count));
  add("NODE_RANK", std::to_string(args_.node_rank));
  add("RESTART", std::to_string(run));
  add("JOB", meeting_.job);
  add("STORE", "tcp://" + meeting_.endpoint);
  add("TOKEN_FILE", meeting_.token_file);
  if (!rank.device.empty()) add("DEVICE", rank.device);
  return rank;
}

void Launch::say(const std::string& words) {
  output_.add(STDERR_FILENO, "backplane launch: " + one_line(words) + "\n");
}

/// Until everything is written.
void Launch::flush() {
  const Signals::Pass pass;
  while (!output_.is_empty()) {
    pollfd wanted = {.fd = output_.descriptor(), .events = POLLOUT, .revents = 0};
    if (::poll(&wanted, 1, -1) > 0) output_.write_some();
  }
}

void Launch::propose(Verdict verdict) {
  if (std::exchange(has_proposed_, true)) return;
  verdict.node_rank = args_.node_rank;
  nodes_->propose(verdict);
}

Status Launch::start_ranks(uint32_t run, const RankRange& ranks, Run* ranks_here) {
  for (uint32_t i = 0; i < args_.local_count; ++i) {
    const Status started = ranks_here->start(rank_args(i, ranks, run));
    if (started.ok()) continue;
    // Another try would not end otherwise.
    propose({Verdict::Kind::kStopped, kNotStartedStatus, 0, started.message()});
    ranks_here->stop(SIGTERM);
    return started;
  }
  return {};
}

/// `is_decided`: the verdict is there and was followed. One that came since then ends the wait.
void Launch::wait_for_events(const Run& run, bool is_decided) {
  std::vector<pollfd> awaited = {{.fd = signals_.descriptor(), .events = POLLIN, .revents = 0}};
  // Once it is there, the descriptor stays ready.
  if (!is_decided) {
    awaited.push_back({.fd = nodes_->descriptor(), .events = POLLIN, .revents = 0});
  }
  const size_t output = awaited.size();
  if (!output_.is_empty()) {
    awaited.push_back({.fd = output_.descriptor(), .events = POLLOUT, .revents = 0});
  }
  run.add_awaited(&awaited);
  int timeout_ms = -1;
  if (const auto next = run.next_deadline(); next != Run::TimePoint::max()) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(next - std::chrono::steady_clock::now());
    timeout_ms = static_cast<int>(std::clamp<int64_t>(left.count(), 0, INT32_MAX));
  }
  if (::poll(awaited.data(), awaited.size(), timeout_ms) <= 0) return;
  if (!output_.is_empty() && awaited[output].revents != 0) output_.write_some();
}

void Launch::take_signals(Run* run) {
  for (int signal = signals_.take(); signal != 0; signal = signals_.take()) {
    if (signal == SIGCHLD) continue;
    propose({Verdict::Kind::kStopped, 128 + signal, 0,
             "the launcher was told to stop by signal " + std::to_string(signal) + " (" +
                 ::strsignal(signal) + ")"});
    is_stopped_ = true;
    run->stop(signal);
  }
}

/// The first failure ends the run; or each is told, and the other ranks go on.
void Launch::take_failures(const Run& run) {
  const auto& failures = run.failures();
  for (; told_failures_ < failures.size(); ++told_failures_) {
    const RankFailure& failure = failures[told_failures_];
    Verdict verdict = {Verdict::Kind::kFailed, failure.end.status(), args_.node_rank,
                       failure.words};
    if (!args_.keeps_going) {
      propose(std::move(verdict));
      continue;
    }
    say(failure.words + "; the others go on (--keep-going)");
    nodes_->note_failure(verdict);
  }
}

/// What the verdict, and the ranks here, ask for. True: the verdict was there.
bool Launch::follow(Run* run) {
  take_failures(*run);
  if (run->is_over() && !is_stopped_ && !has_proposed_) {
    has_proposed_ = true;
    nodes_->propose_done();
  }
  const auto verdict = nodes_->verdict();
  const auto ends = run->take_well_ends(args_.node_count > 1);
  if (ends && !verdict) say(*ends);
  const bool is_failed = !run->failures().empty() && !args_.keeps_going;
  const bool is_bad = is_failed || (verdict && verdict->kind != Verdict::Kind::kDone);
  if (is_bad && !std::exchange(is_stopped_, true)) run->stop(SIGTERM);
  return verdict.has_value();
}

Result<Verdict> Launch::run_once(uint32_t run) {
  RankRange ranks;
  {
    const Signals::Pass pass;
    const auto patience = args_.timeout + (run > 0 ? args_.grace : std::chrono::seconds(0));
    BP_TRY_ASSIGN(ranks, nodes_->begin(run, std::chrono::steady_clock::now() + patience,
                                       {.tell = tell_at_once}));
  }
  if (ranks.count > Job::kMostRanks) {
    return Status(BP_INVALID_ARGUMENT, "expected at most " + std::to_string(Job::kMostRanks) +
                                           " ranks, found " + std::to_string(ranks.count));
  }
  has_proposed_ = false;
  is_stopped_ = false;
  told_failures_ = 0;
  nodes_->watch();
  Run ranks_here(guard_, &output_, args_.grace);
  // Where one cannot be started, the verdict says so.
  if (!start_ranks(run, ranks, &ranks_here).ok()) is_stopped_ = true;
  for (;;) {
    take_signals(&ranks_here);
    ranks_here.turn();
    const bool is_decided = follow(&ranks_here);
    if (ranks_here.is_over() && is_decided) break;
    wait_for_events(ranks_here, is_decided);
  }
  nodes_->end_watch();
  return *nodes_->verdict();
}

Result<int> Launch::run_all() {
  for (uint32_t run = 0;; ++run) {
    auto verdict = run_once(run);
    if (!verdict.ok()) {
      flush();
      const Signals::Pass pass;
      meeting_.await_others();
      return verdict.status();
    }
    const bool starts_again = verdict->kind == Verdict::Kind::kFailed && run < args_.restarts;
    if (verdict->kind != Verdict::Kind::kDone) {
      const bool is_elsewhere = verdict->node_rank != args_.node_rank;
      say((is_elsewhere ? "node " + std::to_string(verdict->node_rank) + ": " : std::string()) +
          verdict->words +
          (starts_again
               ? "; restart " + std::to_string(run + 1) + " of " + std::to_string(args_.restarts)
               : ""));
    }
    flush();
    if (starts_again) continue;
    const Signals::Pass pass;
    nodes_->leave(std::chrono::steady_clock::now() + args_.grace + kVerdictTime);
    return verdict->status;
  }
}

}  // namespace

Status check_launch(const LaunchArgs& args) {
  const auto refuse = [](const std::string& words) { return Status(BP_INVALID_ARGUMENT, words); };
  if (args.command.empty()) return refuse("expected a program to start, found none");
  if (args.node_rank >= args.node_count) {
    return refuse("--node-rank: expected less than --nnodes, " + std::to_string(args.node_count) +
                  ", found " + std::to_string(args.node_rank));
  }
  if (args.devices.size() > 1 && args.devices.size() != args.local_count) {
    return refuse("--devices: expected one device or one for each of the " +
                  std::to_string(args.local_count) + " ranks, found " +
                  std::to_string(args.devices.size()));
  }
  for (const std::string& device : args.devices) {
    if (device.empty() || one_line(device) != device) {
      return refuse("--devices: expected names of devices, found '" + foreign_text(device) + "'");
    }
  }
  if (args.keeps_going && args.restarts > 0) {
    return refuse(
        "--keep-going: expected no --restarts beside it, found --restarts " +
        std::to_string(args.restarts) +
        "; either the ranks that are left go on, or all start again: leave one of them out");
  }
  if (args.node_count > 1 && args.rendezvous.empty()) {
    return refuse("--rdzv: expected ADDRESS:PORT of node 0 beside --nnodes, found none");
  }
  if (args.node_count > 1 && args.token_file.empty()) {
    return refuse(
        "--token-file: expected a file with the job's token beside --nnodes, found none; "
        "(umask 077; openssl rand -hex 32 > FILE) makes one, and every node needs the same");
  }
  if (args.rendezvous.empty()) return {};
  const auto endpoint = parse_endpoint(args.rendezvous);
  if (!endpoint.ok()) return endpoint.status().with_prefix("--rdzv");
  if (args.node_count > 1 && endpoint->port == 0) {
    return refuse("--rdzv: expected a port that all nodes know, found 0");
  }
  if (args.node_rank > 0 && endpoint->kind == Endpoint::Kind::kInterface) {
    return refuse("--rdzv: expected an address of node 0, found " + bp::quoted(endpoint->host) +
                  ", the name of an interface or a host; neither is looked up here: give the "
                  "address, such as 10.0.0.1:4711");
  }
  return {};
}

Result<int> launch(const LaunchArgs& args) {
  BP_TRY(check_launch(args));
  BP_TRY_ASSIGN(std::string path, find_program(args.command.front()));
  open_standard_streams();
  BP_TRY_ASSIGN(const Guard guard, Guard::make());
  BP_TRY_ASSIGN(const Signals signals, Signals::make());
  BP_TRY_ASSIGN(Meeting meeting, meet(args));
  BP_TRY_ASSIGN(auto nodes, Nodes::make({.store = meeting.store,
                                         .node_rank = args.node_rank,
                                         .node_count = args.node_count,
                                         .local_count = args.local_count,
                                         .restarts = args.restarts}));
  Launch job(args, std::move(path), guard, signals, std::move(meeting), std::move(nodes));
  return job.run_all();
}

}  // namespace bp::ccl
