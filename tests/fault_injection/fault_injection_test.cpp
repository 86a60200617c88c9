// SPDX-License-Identifier: Apache-2.0
//
// The parent of the sweeps: starts fault_sweep for each device and kind of fault, follows its lines
// under a deadline, takes note of where it dies or hangs, goes on behind that point, and writes the
// table. With BP_FAULTS=every each point is tried; else the many points of long calls are sampled.
// BP_FAULTS_REPORT is the table's name, for runs that filter the kinds.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string>

#include "tests/fault_injection/interposer.hpp"
#include "tests/fault_injection/report.hpp"
#include "tests/fault_injection/targets.hpp"

namespace bp::faults {
namespace {

constexpr int kPointDeadlineMs = 120'000;
constexpr size_t kMaxFailuresPerRow = 5;

/// A running fault_sweep whose standard output is read line by line.
class Child {
 public:
  Child(const std::string& target, const std::string& kind, size_t call, uint64_t point,
        const std::string& points) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) std::abort();
    const std::string call_text = std::to_string(call);
    const std::string point_text = std::to_string(point);
    const char* const arguments[] = {
        BP_FAULT_SWEEP,     target.c_str(), kind.c_str(), call_text.c_str(),
        point_text.c_str(), points.c_str(), nullptr};
    process_ = fork();
    if (process_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      execv(BP_FAULT_SWEEP, const_cast<char* const*>(arguments));
      _exit(127);
    }
    close(ends[1]);
    output_ = ends[0];
  }
  ~Child() {
    close(output_);
    if (process_ > 0) kill(process_, SIGKILL);
    if (process_ > 0) waitpid(process_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// nullopt: it ended, or said nothing until the deadline (then hung() is true).
  std::optional<std::string> next_line() {
    for (;;) {
      if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
        std::string line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return line;
      }
      pollfd readable{output_, POLLIN, 0};
      hung_ = poll(&readable, 1, kPointDeadlineMs) == 0;
      if (hung_) return std::nullopt;
      std::array<char, 4096> bytes{};
      const ssize_t count = read(output_, bytes.data(), bytes.size());
      if (count <= 0) return std::nullopt;
      buffer_.append(bytes.data(), static_cast<size_t>(count));
    }
  }
  bool hung() const { return hung_; }

  /// Waits for its end: "exit code 3", "signal 6".
  std::string end() {
    int status = 0;
    waitpid(std::exchange(process_, -1), &status, 0);
    return WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                               : "exit code " + std::to_string(WEXITSTATUS(status));
  }

 private:
  pid_t process_ = -1;
  int output_ = -1;
  std::string buffer_;
  bool hung_ = false;
};

/// One device and kind of fault: its rows, over as many children as it takes.
class SweepOfCalls {
 public:
  SweepOfCalls(std::string target, std::string kind, std::string points)
      : target_(std::move(target)), kind_(std::move(kind)), points_(std::move(points)) {}

  std::vector<Row> run() {
    while (!finished_) run_child();
    return std::move(rows_);
  }

 private:
  void run_child() {
    Child child(target_, kind_, call_, point_, points_);
    while (const auto line = child.next_line()) take(*line);
    if (finished_) return;
    if (rows_.empty()) rows_.push_back({.call = "none", .kind = kind_, .device = target_});
    Row& row = rows_.back();
    const std::string how = child.hung() ? "it hangs" : "it ends with " + child.end();
    row.failed.push_back("point " + std::to_string(point_) + ": " + how + broken_);
    ++row.points;
    ++point_;
    const bool hopeless = !broken_.empty() || !begun_ || row.failed.size() >= kMaxFailuresPerRow;
    if (hopeless) next_call();
    broken_.clear();
    begun_ = false;
  }

  void next_call() {
    ++call_;
    point_ = 1;
    finished_ = finished_ || row_is_missing_;
  }

  void take(const std::string& line) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "call") {
      take_call(words);
    } else if (word == "begin") {
      words >> point_;
      begun_ = true;
    } else if (word == "end") {
      take_end(words);
    } else if (word == "broken") {
      broken_ = ": " + line;
    } else if (word == "finished") {
      finished_ = true;
    }
  }

  void take_call(std::istringstream& words) {
    std::string name;
    words >> call_;
    std::getline(words >> std::ws, name);
    row_is_missing_ = false;
    if (!rows_.empty() && rows_.back().call == name) return;
    rows_.push_back({.call = name, .kind = kind_, .device = target_});
  }

  void take_end(std::istringstream& words) {
    std::string verdict;
    std::string status;
    std::string wrong;
    words >> point_ >> verdict >> status;
    std::getline(words >> std::ws, wrong);
    Row& row = rows_.back();
    if (verdict != "unmet") ++row.points;
    row.errors += verdict == "error" ? 1 : 0;
    row.streams += verdict == "stream" ? 1 : 0;
    row.absorbed += verdict == "absorbed" ? 1 : 0;
    if (verdict == "wrong") row.failed.push_back("point " + std::to_string(point_) + ": " + wrong);
    ++point_;
  }

  const std::string target_;
  const std::string kind_;
  const std::string points_;
  std::vector<Row> rows_;
  size_t call_ = 0;
  uint64_t point_ = 1;
  bool begun_ = false;
  bool finished_ = false;
  bool row_is_missing_ = true;  // no child has come as far as its first call
  std::string broken_;
};

std::string setting(const char* name, const char* otherwise) {
  const char* const wanted = std::getenv(name);
  return wanted != nullptr ? wanted : otherwise;
}

std::vector<Row>& all_rows() {
  static std::vector<Row> rows;
  return rows;
}

class Faults : public testing::TestWithParam<FaultKind> {};

TEST_P(Faults, EveryCall_EveryPoint_IsSurvived) {
  const FaultKind& kind = GetParam();
  for (const Target& target : targets()) {
    if (!kind.is_host && !target.injects) continue;
    SweepOfCalls sweep{std::string(target.name), std::string(kind.name),
                       setting("BP_FAULTS", "sampled")};
    uint64_t points = 0;
    for (const Row& row : sweep.run()) {
      points += row.points;
      for (const std::string& words : row.failed) {
        ADD_FAILURE() << row.device << ", " << row.kind << ", " << row.call << ", " << words;
      }
      all_rows().push_back(row);
    }
    // A sweep that meets nothing would pass.
    EXPECT_GE(points, least_points(target, kind)) << target.name;
  }
}

std::vector<FaultKind> kinds_here() {
  std::vector<FaultKind> kinds = fault_kinds();
  std::erase_if(kinds, [](const FaultKind& kind) {
    return kind.fault == Fault::kThread && !kCanRefuseThreads;
  });
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Kinds, Faults, testing::ValuesIn(kinds_here()),
                         [](const auto& kind) { return std::string(kind.param.name); });

class Report : public testing::Environment {
 public:
  void TearDown() override {
    EXPECT_TRUE(write_report(BP_REPORTS_DIR "/" + setting("BP_FAULTS_REPORT", "fault_injection"),
                             all_rows()));
  }
};

[[maybe_unused]] const testing::Environment* const kReport =
    testing::AddGlobalTestEnvironment(new Report);

}  // namespace
}  // namespace bp::faults
