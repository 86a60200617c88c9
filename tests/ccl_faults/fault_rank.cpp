// SPDX-License-Identifier: Apache-2.0
//
// A rank as a user's program has it, through libbackplane, that does what lines on its standard
// input say, one after the other, and answers each with a line of JSON. It ends with its input.
//
//   ID serve ENDPOINT TOKEN_FILE            ID connect ENDPOINT TOKEN_FILE TIMEOUT_MS
//   ID join NAME RANK RANK_COUNT TIMEOUT_MS
//   ID rebuild TIMEOUT_MS RANK...           the group that it has, of these of its ranks
//   ID sum COUNT TIMEOUT_MS                 one sum, of which every value is checked
//   ID sums COUNT TIMEOUT_MS                sums until one fails
//   ID call KIND COUNT TIMEOUT_MS           broadcast, int_sum, max or sum, of ones
//   ID abort WORDS                          at once, beside what goes on
//   ID limit fds|memory SPARE               descriptors, or MiB, that may still be had
//   ID native                               how many operations went between devices alone; in
//                                           words, why not all of them do
//   ID unlimit    ID failure    ID leave    ID close
#include <sys/resource.h>
#include <time.h>

#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <mutex>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backplane/backplane.hpp"

namespace {

using std::chrono::milliseconds;

constexpr const char* kJob = "ccl faults/1";

int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);  // one for all processes of the system
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') out += '\\';
    out += static_cast<unsigned char>(letter) < 0x20 ? ' ' : letter;
  }
  return out + '"';
}

/// What a command came to.
struct Answer {
  bpa_status code = BP_OK;
  std::string words{};
  std::vector<uint32_t> culprits{};
  int64_t value = 0;
};

void tell(const std::string& id, const Answer& answer) {
  static std::mutex mutex;
  std::string culprits;
  for (const uint32_t rank : answer.culprits) {
    culprits += (culprits.empty() ? "" : ", ") + std::to_string(rank);
  }
  const std::lock_guard lock(mutex);
  std::printf(
      "{\"id\": %s, \"at_ns\": %lld, \"code\": %s, \"words\": %s, \"culprits\": [%s], "
      "\"value\": %lld}\n",
      id.c_str(), static_cast<long long>(now_ns()), quoted(bpa_status_name(answer.code)).c_str(),
      quoted(answer.words).c_str(), culprits.c_str(), static_cast<long long>(answer.value));
  std::fflush(stdout);
}

Answer answer_of(const std::function<Answer()>& body) {
  try {
    return body();
  } catch (const bp::ccl::GroupError& error) {
    return {error.failure().code, error.what(), error.failure().culprits};
  } catch (const bp::Error& error) {
    return {error.status(), error.what()};
  } catch (const std::bad_alloc&) {
    return {BP_OUT_OF_MEMORY, "the program itself had no memory"};
  } catch (const std::exception& error) {
    return {BP_INTERNAL, error.what()};
  }
}

class Rank {
 public:
  explicit Rank(const std::string& device)
      : runtime_(bp::Runtime::create()), device_(runtime_.device(device)) {}

  Answer run(const std::string& id, std::istringstream& words) {
    std::string what;
    words >> what;
    if (what == "serve" || what == "connect") return open_store(what == "serve", words);
    if (what == "join") return join(words);
    if (what == "rebuild") return rebuild(words);
    if (what == "call") return call(words);
    if (what == "sum" || what == "sums") {
      const uint64_t count = take(words);
      const milliseconds timeout(take(words));
      return what == "sum" ? sum(count, timeout) : sum_until_it_fails(id, count, timeout);
    }
    if (what == "limit") return limit(words);
    if (what == "unlimit") return lift_limits();
    if (what == "native") return tell_native();
    if (what == "failure") return tell_failure();
    if (what == "leave") return leave();
    throw std::runtime_error("no command " + what);
  }
  /// Of other threads, too.
  Answer abort(const std::string& words) {
    group().abort(words);
    return {};
  }
  Answer close() {
    runtime_.close();
    return {};
  }

 private:
  static uint64_t take(std::istringstream& words) {
    uint64_t number = 0;
    if (!(words >> number)) throw std::runtime_error("a number is missing");
    return number;
  }
  bp::ccl::Group group() {
    const std::lock_guard lock(mutex_);
    return group_;
  }

  Answer open_store(bool serves, std::istringstream& words) {
    bp::ccl::TcpStoreOptions options;
    options.job = kJob;
    options.serve = serves;
    words >> options.endpoint >> options.token_file;
    options.timeout = milliseconds(serves ? 10'000 : take(words));
    store_ = bp::ccl::Store::tcp(options);
    return {};
  }
  Answer join(std::istringstream& words) {
    bp::ccl::GroupOptions options;
    options.store = store_;
    words >> options.name >> options.rank >> options.rank_count;
    options.timeout = milliseconds(take(words));
    auto made = bp::ccl::Group::create(device_, options);
    const std::lock_guard lock(mutex_);
    group_ = std::move(made);
    return {};
  }
  Answer rebuild(std::istringstream& words) {
    const bp::ccl::Group group = this->group();
    bp::ccl::RebuildOptions options;
    options.epoch = group.epoch() + 1;
    options.timeout = milliseconds(take(words));
    for (uint32_t rank = 0; words >> rank;) options.members.push_back(rank);
    forget_lost_work();
    auto made = group.rebuild(options);
    const std::lock_guard lock(mutex_);
    group_ = std::move(made);
    return {};
  }
  /// Rank r has r + 1 everywhere. A second one of as many takes no memory of the program's own.
  Answer sum(uint64_t count, milliseconds timeout) {
    const bp::ccl::Group group = this->group();
    const auto size = static_cast<int64_t>(count);
    if (values_.size() != count || summand_of_ != group.rank()) {
      values_.assign(count, static_cast<float>(group.rank() + 1));
      send_ = bp::Tensor::from_host<float>(device_, values_, {size});
      recv_ = bp::Tensor::from_host<float>(device_, values_, {size});
      summand_of_ = group.rank();
    }
    group.all_reduce(send_, recv_, {.timeout = timeout});
    recv_.to_host<float>(values_);
    const uint32_t ranks = group.rank_count();
    const auto expected = static_cast<float>(ranks * (ranks + 1) / 2);
    for (const float value : values_) {
      if (value == expected) continue;
      return {BP_INTERNAL,
              "expected the sum " + std::to_string(expected) + ", found " + std::to_string(value)};
    }
    return {BP_OK, "", {}, static_cast<int64_t>(expected)};
  }
  Answer sum_until_it_fails(const std::string& id, uint64_t count, milliseconds timeout) {
    for (int64_t done = 0;; ++done) {
      Answer answer = answer_of([&] { return sum(count, timeout); });
      answer.value = done;
      if (answer.code != BP_OK) return answer;
      if (done == 0) tell(id, {});  // it is in the middle of them
    }
  }
  /// Operations that another rank does not call.
  Answer call(std::istringstream& words) {
    std::string kind;
    words >> kind;
    const uint64_t count = take(words);
    const milliseconds timeout(take(words));
    const bp::ccl::Group group = this->group();
    const auto size = static_cast<int64_t>(count);
    const auto x = bp::Tensor::from_host<float>(device_, std::vector<float>(count, 1), {size});
    if (kind == "sum") {
      group.all_reduce(x, {.timeout = timeout});
    } else if (kind == "max") {
      group.all_reduce(x, {.op = bp::ccl::Reduction::max, .timeout = timeout});
    } else if (kind == "broadcast") {
      group.broadcast(x, 0, {.timeout = timeout});
    } else if (kind == "int_sum") {
      group.all_reduce(
          bp::Tensor::from_host<int32_t>(device_, std::vector<int32_t>(count, 1), {size}),
          {.timeout = timeout});
    } else {
      throw std::runtime_error("no kind " + kind);
    }
    return {};
  }
  Answer tell_native() {
    const bp::ccl::Group group = this->group();  // its words are the group's own
    const bpa_ccl_group_info info = group.info();
    return {BP_OK, info.why_not_native, {}, static_cast<int64_t>(info.native_operations)};
  }
  Answer tell_failure() {
    const bp::ccl::Failure failure = group().failure();
    return {failure.code, failure.words, failure.culprits};
  }
  Answer leave() {
    {
      const std::lock_guard lock(mutex_);
      group_ = {};
    }
    forget_lost_work();
    return {};
  }
  /// Whatever comes behind an operation that failed has failed with it, in the default stream, too.
  void forget_lost_work() { bp::Stream::default_of(device_).reset(); }

  /// Above what the process has now.
  Answer limit(std::istringstream& words) {
    std::string what;
    words >> what;
    const rlim_t spare = take(words);
    rlimit limit{};
    if (what == "fds") {
      using Files = std::filesystem::directory_iterator;
      const auto open = std::distance(Files("/proc/self/fd"), Files()) - 1;
      getrlimit(RLIMIT_NOFILE, &limit);
      limit.rlim_cur = static_cast<rlim_t>(open) + spare;
      if (setrlimit(RLIMIT_NOFILE, &limit) != 0) throw std::runtime_error("RLIMIT_NOFILE");
      return {};
    }
    uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = pages * 4096 + (spare << 20);
    if (setrlimit(RLIMIT_AS, &limit) != 0) throw std::runtime_error("RLIMIT_AS");
    return {};
  }
  static Answer lift_limits() {
    for (const auto what : {RLIMIT_NOFILE, RLIMIT_AS}) {
      rlimit limit{};
      getrlimit(what, &limit);
      limit.rlim_cur = limit.rlim_max;
      setrlimit(what, &limit);
    }
    return {};
  }

  std::mutex mutex_;
  bp::Runtime runtime_;
  bp::Device device_;
  bp::ccl::Store store_;
  bp::ccl::Group group_;
  // Of sums.
  uint32_t summand_of_ = 0;
  std::vector<float> values_;
  bp::Tensor send_;
  bp::Tensor recv_;
};

/// A thread that does one command after the other.
class Worker {
 public:
  explicit Worker(Rank& rank) : rank_(rank), thread_([this] { run(); }) {}
  ~Worker() {
    add("");
    thread_.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  void add(const std::string& line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(line);
    changed_.notify_one();
  }

 private:
  void run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !lines_.empty(); });
      std::istringstream words(lines_.front());
      lines_.pop_front();
      lock.unlock();
      std::string id;
      if (!(words >> id)) return;
      tell(id, answer_of([&] { return rank_.run(id, words); }));
    }
  }
  Rank& rank_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> lines_;
  std::thread thread_;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    Rank rank(argc > 1 ? argv[1] : "cpu:0");
    Worker worker(rank);
    tell("0", {});
    for (std::string line; std::getline(std::cin, line);) {
      std::istringstream words(line);
      std::string id, what, rest;
      words >> id >> what;
      std::getline(words >> std::ws, rest);
      if (what == "abort") {
        tell(id, answer_of([&] { return rank.abort(rest); }));
      } else if (what == "close") {
        tell(id, answer_of([&] { return rank.close(); }));
      } else {
        worker.add(line);
      }
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
