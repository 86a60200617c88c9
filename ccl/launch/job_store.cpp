// SPDX-License-Identifier: Apache-2.0
//
// Keys, each run of the job below "run N/": "job/rank_count" (with the rank that says so),
// "job/rank/R" (who it is), "job/come" (how many), "job/all" (all have, or why they cannot), and
// "user/..." for what the program does.
#include "ccl/launch/job_store.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <span>
#include <thread>
#include <utility>

#include "ccl/launch/ancestor.hpp"
#include "ccl/launch/number_list.hpp"
#include "ccl/store/file_store.hpp"
#include "ccl/store/tcp_store.hpp"
#include "core/base/fork.hpp"
#include "core/base/hash.hpp"

namespace bp::ccl {
namespace {

constexpr std::chrono::seconds kLeaveTime{5};
constexpr std::string_view kAllHaveCome = "1";

std::string hex(uint64_t number) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[(number >> shift) & 15];
  return text;
}

constexpr std::string_view kProcess = "process ";

/// " on node-1 (", behind the number of a process.
std::string place_words() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return std::string(" on ") + host.data() + " (";
}

/// Which process this is, and which call of it, for people and for no other call.
Result<std::string> own_words() {
  BP_TRY_ASSIGN(const Nonce nonce, make_nonce());
  const uint64_t mark = content_hash(std::as_bytes(std::span(nonce)));
  return std::string(kProcess) + std::to_string(::getpid()) + place_words() + hex(mark) + ")";
}

/// Whether own_words() of a process of this host says so, and it has ended. A number that another
/// process has by now is none that has ended.
bool has_ended(std::string_view words) {
  if (!words.starts_with(kProcess)) return false;
  words.remove_prefix(kProcess.size());
  pid_t process = 0;
  const auto [end, error] = std::from_chars(words.data(), words.data() + words.size(), process);
  if (error != std::errc() || process <= 0) return false;
  words.remove_prefix(static_cast<size_t>(end - words.data()));
  return words.starts_with(place_words()) && ::kill(process, 0) != 0 && errno == ESRCH;
}

bool is_of_this_process(std::string_view words) {
  return words.starts_with(std::string(kProcess) + std::to_string(::getpid()) + place_words());
}

/// What to do about a place that the process of `found` has taken.
std::string taken_words(const Job& job, const std::string& found) {
  if (is_of_this_process(found)) {
    return "; that is this process: a process asks for its job once, and keeps it";
  }
  if (!has_ended(found)) return "";
  if (job.store.kind == StorePlace::Kind::kFile) {
    return "; that process has ended, so that the file is of an earlier run: remove it, or name "
           "another file for each run (BACKPLANE_CCL_STORE)";
  }
  return "; that process has ended, and a rank comes once in a run: start all ranks anew, with a "
         "new store";
}

/// Those below `end` that have not come.
Result<std::vector<uint32_t>> missing_ranks(Store& store, uint32_t end) {
  return missing_numbers(store, 0, end,
                         [](uint32_t rank) { return "job/rank/" + std::to_string(rank); });
}

/// Of a wait that is still going on.
std::string waiting_words(const Job& job, const std::shared_ptr<Store>& store) {
  const uint32_t end = std::min(job.rank_count, kMostLooks);
  const auto missing = missing_ranks(*store, end);
  const std::string own = "job " + job.name + ": rank " + std::to_string(job.rank);
  if (!missing.ok()) return unknown_words(own, missing.status());
  if (missing->empty() && end == job.rank_count) return "";
  std::string words = own + " waits for ";
  words +=
      missing->empty() ? "ranks above " + std::to_string(end - 1) : number_list("rank", *missing);
  words += " of " + std::to_string(job.rank_count);
  if (!missing->empty()) words += beyond_words(end, job.rank_count);
  return words + not_come_words(missing->size());
}

Status tell_missing(const Job& job, const std::shared_ptr<Store>& store, const Status& why,
                    std::string_view set_by) {
  BP_TRY_ASSIGN(const std::vector<uint32_t> missing, missing_ranks(*store, job.rank_count));
  if (missing.empty()) return why;
  return Status(BP_TIMEOUT, "job " + job.name + ": " + number_list("rank", missing) + " of " +
                                std::to_string(job.rank_count) + " did not come in time (" +
                                std::string(set_by) + "); " + store->name());
}

Status refuse_counts(const Job& job, const Store& store, const std::string& words) {
  return Status(BP_INVALID_ARGUMENT, "job " + job.name + ": " + words +
                                         (job.store.kind == StorePlace::Kind::kFile
                                              ? "; or the file is of an earlier run: remove it; "
                                              : "; ") +
                                         store.name());
}

/// The first rank's number counts. Ranks that were told of another would wait for others than these
/// do: who finds that tells all that wait.
Status agree_on_rank_count(const Job& job, Store& store) {
  const std::string count = std::to_string(job.rank_count);
  const std::string rank = std::to_string(job.rank);
  BP_TRY_ASSIGN(const std::string agreed,
                store.compare_set("job/rank_count", {}, count + " " + rank));
  const size_t space = std::min(agreed.find(' '), agreed.size() - 1);
  if (agreed.substr(0, space) == count) return {};
  const std::string words = "rank " + rank + " expects " + count + " ranks, rank " +
                            agreed.substr(space + 1) + " expects " + agreed.substr(0, space);
  static_cast<void>(store.compare_set("job/all", {}, words));
  return refuse_counts(job, store, words);
}

/// Says that this rank is there, and waits for all others.
Status arrive(const Job& job, const std::shared_ptr<Store>& store,
              Store::Clock::time_point deadline, const Telling& telling) {
  BP_TRY(agree_on_rank_count(job, *store));
  BP_TRY_ASSIGN(const std::string own, own_words());
  const std::string rank = std::to_string(job.rank);
  BP_TRY_ASSIGN(const std::string found, store->compare_set("job/rank/" + rank, {}, own));
  if (found != own) {
    return Status(BP_INVALID_ARGUMENT, "job " + job.name + ": rank " + rank +
                                           " is there already, as " + found + "; " + store->name() +
                                           taken_words(job, found));
  }
  BP_TRY_ASSIGN(const int64_t come, store->add("job/come", 1));
  if (come == static_cast<int64_t>(job.rank_count)) {
    BP_TRY(store->compare_set("job/all", {}, kAllHaveCome));
  }
  ToldWait wait(deadline, telling, [&] { return waiting_words(job, store); });
  const auto all = wait.get(*store, "job/all");
  if (all.status().code() == BP_TIMEOUT) {
    return tell_missing(job, store, all.status(), telling.set_by);
  }
  BP_TRY(all.status());
  return *all == kAllHaveCome ? Status() : refuse_counts(job, *store, *all);
}

}  // namespace

std::string handshake_job(const std::string& job_name) { return "job " + job_name; }

Status JobStore::open_store(const Job& job, const Environment& environment,
                            Store::Clock::time_point deadline, const Telling& telling) {
  const std::string run = std::to_string(job.restart);
  const std::string title = "job " + job.name + " run " + run;
  switch (job.store.kind) {
    case StorePlace::Kind::kMemory:
      store_ = make_memory_store();
      return {};
    case StorePlace::Kind::kPrivate: {
      std::string name = job.name;
      if (name.empty()) {
        BP_TRY_ASSIGN(name, nearest_ancestor_without("PMI_RANK"));
      }
      const uint64_t hash = content_hash(std::as_bytes(std::span(name)));
      BP_TRY_ASSIGN(const std::string folder, private_folder(environment));
      name = std::string(launcher_name(job.launcher)) + "-" + hex(hash) + "-" + run;
      BP_TRY_ASSIGN(held_, HeldName::hold(folder, name, deadline));
      BP_TRY_ASSIGN(store_, open_file_store({.path = held_->path("store"), .job = title}));
      return {};
    }
    case StorePlace::Kind::kFile: {
      // Which the user named for all runs.
      const std::string whole = "job " + job.name;
      BP_TRY_ASSIGN(store_, open_file_store({.path = job.store.where, .job = whole}));
      return {};
    }
    case StorePlace::Kind::kTcp:
      break;
  }
  BP_TRY_ASSIGN(const std::shared_ptr<const Token> token, read_token(job, environment));
  std::string endpoint = job.store.where;
  if (job.store.serves) {
    BP_TRY_ASSIGN(
        server_,
        TcpServer::start({.endpoint = endpoint, .token = token, .job = handshake_job(job.name)}));
    endpoint = server_->endpoint();
  }
  BP_TRY_ASSIGN(store_, connect_tcp_store({.endpoint = endpoint,
                                           .token = token,
                                           .job = handshake_job(job.name),
                                           .deadline = deadline,
                                           .telling = telling}));
  return {};
}

Result<std::shared_ptr<JobStore>> JobStore::open(const Job& job, const Environment& environment,
                                                 Store::Clock::time_point deadline,
                                                 const Telling& telling) {
  BP_TRY(check_not_forked());
  const std::shared_ptr<JobStore> opened(new JobStore);
  BP_TRY(opened->open_store(job, environment, deadline, telling));
  const auto run =
      make_prefix_store("run " + std::to_string(job.restart) + "/", std::move(opened->store_));
  BP_TRY(arrive(job, run, deadline, telling));
  opened->store_ = make_prefix_store("user/", run);
  return opened;
}

JobStore::~JobStore() {
  if (server_ == nullptr) return;
  store_ = nullptr;  // its connection too, if the program has none of it any more
  const auto deadline = Store::Clock::now() + kLeaveTime;
  while (server_->client_count() > 0 && Store::Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace bp::ccl
