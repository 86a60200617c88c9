// SPDX-License-Identifier: Apache-2.0
//
// Keys: "run N/terms" (what all are started with), "run N/node/K" (how node K was started), "run
// N/ready" (how many), "run N/all" (all are, or why they cannot be), "run N/done" (nodes whose
// ranks have ended), "run N/bad" (the first bad end, where the others go on), "run N/verdict";
// "beat/K" (grows while node K's launcher lives), "left" and "all left".
#include "ccl/launch/nodes.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

#include "ccl/launch/number_list.hpp"
#include "core/base/quoted.hpp"

namespace bp::ccl {
namespace {

constexpr std::chrono::seconds kBeatEvery{1};
constexpr int kLostStatus = 3;  // the command's code for what its environment lacks
constexpr std::string_view kAllAreReady = "1";

std::string host_name() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return host.data();
}

Status no_verdict(const std::string& text) {
  return Status(BP_INCOMPATIBLE,
                "expected a verdict of another launcher, found " + bp::quoted(text));
}

/// What is the same on all nodes, as one of them says it: "nodes restarts node".
struct Terms {
  uint32_t node_count = 0;
  uint32_t restarts = 0;
  uint32_t node_rank = 0;

  std::string encode() const {
    return std::to_string(node_count) + " " + std::to_string(restarts) + " " +
           std::to_string(node_rank);
  }
  static Result<Terms> decode(const std::string& text) {
    Terms terms;
    std::istringstream fields(text);
    fields >> terms.node_count >> terms.restarts >> terms.node_rank;
    if (fields) return terms;
    return Status(BP_INCOMPATIBLE,
                  "expected what another launcher was started with, found " + bp::quoted(text));
  }
};

/// "node 1 was started with --nnodes 3, node 0 with --nnodes 2"; "": they are the same.
std::string difference(const Terms& a, const Terms& b) {
  std::string words;
  const auto compare = [&](const char* option, uint32_t of_a, uint32_t of_b) {
    if (of_a == of_b) return;
    words += (words.empty() ? "" : "; ") + ("node " + std::to_string(a.node_rank)) +
             " was started with " + option + " " + std::to_string(of_a) + ", node " +
             std::to_string(b.node_rank) + " with " + option + " " + std::to_string(of_b);
  };
  compare("--nnodes", a.node_count, b.node_count);
  compare("--restarts", a.restarts, b.restarts);
  return words;
}

}  // namespace

std::string Verdict::encode() const {
  return std::to_string(static_cast<int>(kind)) + " " + std::to_string(status) + " " +
         std::to_string(node_rank) + " " + words;
}

Result<Verdict> Verdict::decode(const std::string& text) {
  std::istringstream fields(text);
  Verdict verdict;
  int kind = -1;
  fields >> kind >> verdict.status >> verdict.node_rank;
  if (!fields || kind < 0 || kind > static_cast<int>(Kind::kStopped) || verdict.status < 0 ||
      verdict.status > 255) {
    return no_verdict(text);
  }
  verdict.kind = static_cast<Kind>(kind);
  fields.get();
  std::getline(fields, verdict.words);
  return verdict;
}

Result<std::unique_ptr<Nodes>> Nodes::make(NodesArgs args) {
  BP_TRY_ASSIGN(Wakeup news, Wakeup::make());
  return std::unique_ptr<Nodes>(new Nodes(std::move(args), std::move(news)));
}

Nodes::~Nodes() { end_watch(); }

std::string Nodes::run_key(const std::string& name) const {
  return "run " + std::to_string(run_) + "/" + name;
}

/// The first node's count. Of nodes that were started otherwise, neither would find as many as it
/// waits for: who finds that tells all that wait.
Status Nodes::agree_on_terms() {
  const Terms own = {args_.node_count, args_.restarts, args_.node_rank};
  BP_TRY_ASSIGN(const std::string found,
                args_.store->compare_set(run_key("terms"), {}, own.encode()));
  BP_TRY_ASSIGN(const Terms theirs, Terms::decode(found));
  const std::string words = difference(own, theirs);
  if (words.empty()) return {};
  static_cast<void>(args_.store->compare_set(run_key("all"), {}, words));
  return Status(BP_INVALID_ARGUMENT, words);
}

Status Nodes::announce() {
  BP_TRY(agree_on_terms());
  const std::string own = std::to_string(args_.local_count) + " ranks, process " +
                          std::to_string(::getpid()) + " on " + host_name();
  const std::string key = run_key("node/" + std::to_string(args_.node_rank));
  BP_TRY_ASSIGN(const std::string found, args_.store->compare_set(key, {}, own));
  if (found != own) {
    return Status(BP_INVALID_ARGUMENT, "node " + std::to_string(args_.node_rank) +
                                           " is there already, started as " + bp::quoted(found));
  }
  BP_TRY_ASSIGN(const int64_t ready, args_.store->add(run_key("ready"), 1));
  if (ready < static_cast<int64_t>(args_.node_count)) return {};
  return args_.store->compare_set(run_key("all"), {}, kAllAreReady).status();
}

/// Those below `end` that have not come.
Result<std::vector<uint32_t>> Nodes::missing_nodes(uint32_t end) {
  return missing_numbers(*args_.store, 0, end,
                         [this](uint32_t node) { return run_key("node/" + std::to_string(node)); });
}

/// Of a wait that is still going on.
std::string Nodes::waiting_words() {
  const uint32_t end = std::min(args_.node_count, kMostLooks);
  const auto missing = missing_nodes(end);
  const std::string own = "node " + std::to_string(args_.node_rank);
  if (!missing.ok()) return unknown_words(own, missing.status());
  if (missing->empty() && end == args_.node_count) return "";
  std::string words = own + " waits for ";
  words +=
      missing->empty() ? "nodes above " + std::to_string(end - 1) : number_list("node", *missing);
  words += " of " + std::to_string(args_.node_count);
  if (!missing->empty()) words += beyond_words(end, args_.node_count);
  return words + not_come_words(missing->size());
}

Result<RankRange> Nodes::begin(uint32_t run, TimePoint deadline, const Telling& telling) {
  run_ = run;
  {
    const std::lock_guard lock(mutex_);
    verdict_.reset();
  }
  news_.clear();
  BP_TRY(announce());
  ToldWait wait(deadline, telling, [this] { return waiting_words(); });
  const auto all = wait.get(*args_.store, run_key("all"));
  if (!all.ok()) {
    if (all.status().code() != BP_TIMEOUT) return all.status();
    BP_TRY_ASSIGN(const std::vector<uint32_t> missing, missing_nodes(args_.node_count));
    if (missing.empty()) return all.status();
    return Status(BP_TIMEOUT, number_list("node", missing) + " of " +
                                  std::to_string(args_.node_count) + " did not come in time (" +
                                  std::string(telling.set_by) + ")");
  }
  if (*all != kAllAreReady) return Status(BP_INVALID_ARGUMENT, *all);
  return number_ranks(deadline);
}

Result<RankRange> Nodes::number_ranks(TimePoint deadline) {
  RankRange ranks;
  for (uint32_t node = 0; node < args_.node_count; ++node) {
    BP_TRY_ASSIGN(const std::string text,
                  args_.store->get(run_key("node/" + std::to_string(node)), deadline));
    uint32_t local_count = 0;
    std::from_chars(text.data(), text.data() + text.size(), local_count);
    if (local_count == 0) {
      return Status(BP_INCOMPATIBLE, "node " + std::to_string(node) + " was started as " +
                                         bp::quoted(text) + "; expected a number of ranks first");
    }
    if (node < args_.node_rank) ranks.first += local_count;
    ranks.count += local_count;
  }
  return ranks;
}

void Nodes::watch() {
  beats_.assign(args_.node_count, {"", Store::Clock::now()});
  watch_store_ = args_.store->share();
  watcher_ = std::thread([this] {
    const auto ended = contain([this] { look(watch_store_); });
    if (!ended.ok())
      settle({Verdict::Kind::kFailed, kLostStatus, args_.node_rank, ended.message()});
  });
}

void Nodes::look(const std::shared_ptr<Store>& store) {
  for (;;) {
    const auto text = store->get(run_key("verdict"), Store::Clock::now() + kBeatEvery);
    if (text.ok()) {
      const auto verdict = Verdict::decode(*text);
      settle(verdict.ok() ? *verdict
                          : Verdict{Verdict::Kind::kFailed, kLostStatus, args_.node_rank,
                                    verdict.status().message()});
      return;
    }
    if (text.status().code() == BP_CANCELLED) return;
    Status status = text.status().code() == BP_TIMEOUT ? beat(store) : text.status();
    if (status.code() == BP_CANCELLED) return;
    if (status.ok()) continue;
    settle({Verdict::Kind::kFailed, kLostStatus, args_.node_rank,
            "the launcher of node 0 does not answer: " + status.message()});
    return;
  }
}

/// Tells that this launcher lives. That of node 0 looks whether the others do.
Status Nodes::beat(const std::shared_ptr<Store>& store) {
  if (args_.node_count == 1) return {};
  BP_TRY(store->add("beat/" + std::to_string(args_.node_rank), 1));
  if (args_.node_rank != 0) return {};
  for (uint32_t node = 1; node < args_.node_count; ++node) {
    BP_TRY_ASSIGN(const auto value, store->try_get("beat/" + std::to_string(node)));
    Beat& beat = beats_[node];
    const auto now = Store::Clock::now();
    if (value && *value != beat.value) beat = {*value, now};
    if (now - beat.since < args_.silence) continue;
    const Verdict lost = {Verdict::Kind::kFailed, kLostStatus, node,
                          "the launcher of node " + std::to_string(node) + " is silent"};
    return as_status(store->compare_set(run_key("verdict"), {}, lost.encode()));
  }
  return {};
}

void Nodes::settle(Verdict verdict) {
  const std::lock_guard lock(mutex_);
  if (!verdict_) verdict_ = std::move(verdict);
  news_.wake();
}

void Nodes::propose_done() {
  const auto done = args_.store->add(run_key("done"), 1);
  if (!done.ok()) {
    settle({Verdict::Kind::kFailed, kLostStatus, args_.node_rank, done.status().message()});
  } else if (*done == static_cast<int64_t>(args_.node_count)) {
    const auto ended = contain([this]() -> Status {
      BP_TRY_ASSIGN(const auto bad, args_.store->try_get(run_key("bad")));
      if (!bad) {
        propose({});
        return {};
      }
      BP_TRY_ASSIGN(const Verdict verdict, Verdict::decode(*bad));
      propose(verdict);
      return {};
    });
    if (!ended.ok())
      settle({Verdict::Kind::kFailed, kLostStatus, args_.node_rank, ended.message()});
  }
}

void Nodes::note_failure(const Verdict& verdict) {
  const auto found = args_.store->compare_set(run_key("bad"), {}, verdict.encode());
  // Without a store nobody learns of it otherwise.
  if (!found.ok()) settle(verdict);
}

void Nodes::propose(const Verdict& verdict) {
  // The one that is found is told by the watch as well.
  const auto found = args_.store->compare_set(run_key("verdict"), {}, verdict.encode());
  if (!found.ok()) settle(verdict);
}

std::optional<Verdict> Nodes::verdict() {
  const std::lock_guard lock(mutex_);
  return verdict_;
}

void Nodes::end_watch() {
  if (!watcher_.joinable()) return;
  watch_store_->abort();
  watcher_.join();
  watch_store_ = nullptr;
}

void Nodes::leave(TimePoint deadline) {
  const auto left = args_.store->add("left", 1);
  if (!left.ok()) return;  // nobody is there to be told
  if (*left == static_cast<int64_t>(args_.node_count)) {
    static_cast<void>(args_.store->set("all left", "1"));
  }
  if (args_.node_rank == 0) static_cast<void>(args_.store->get("all left", deadline));
}

}  // namespace bp::ccl
