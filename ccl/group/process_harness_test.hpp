// SPDX-License-Identifier: Apache-2.0
//
// Groups whose ranks are processes: this program once more for each rank, which plays a part and
// writes down what it saw.
#ifndef BACKPLANE_CCL_GROUP_PROCESS_HARNESS_TEST_HPP
#define BACKPLANE_CCL_GROUP_PROCESS_HARNESS_TEST_HPP

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ccl/engine/engine.hpp"
#include "ccl/store/tcp_server.hpp"

namespace bp::ccl {

using Variables = std::map<std::string, std::string>;

inline int64_t now_ns() {
  return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
}

inline std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline size_t entries_of(const char* folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder),
                                           std::filesystem::directory_iterator()));
}

/// One rank, which is killed at the end if it is there still.
class RankProcess {
 public:
  /// `before`: a command that runs this program, whose words come behind its own.
  RankProcess(const std::string& test, const Variables& variables,
              const std::vector<std::string>& before = {}) {
    std::vector<std::string> words = before;
    words.push_back(std::filesystem::read_symlink("/proc/self/exe"));
    words.insert(words.end(), {"--gtest_also_run_disabled_tests", "--gtest_filter=" + test});
    std::vector<std::string> environment;
    for (const auto& [name, value] : variables) environment.push_back(name + "=" + value);
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string name = std::string(*entry).substr(0, std::string(*entry).find('='));
      if (variables.count(name) == 0) environment.emplace_back(*entry);
    }
    EXPECT_EQ(posix_spawnp(&process_, words[0].c_str(), nullptr, nullptr, pointers(&words).data(),
                           pointers(&environment).data()),
              0);
  }
  ~RankProcess() {
    if (process_ > 0) signal(SIGKILL);
    [[maybe_unused]] const int code = end();
  }
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  void signal(int number) const {
    kill(process_, number);
    int status = 0;  // it has stopped when that is told, and not before
    if (number == SIGSTOP) waitpid(process_, &status, WUNTRACED);
  }
  /// Its exit code; -1: it was killed. It is killed here after `most`.
  int end(std::chrono::seconds most = std::chrono::seconds(180)) {
    if (process_ <= 0) return -1;
    int status = 0;
    for (const auto until = Clock::now() + most;;) {
      if (waitpid(process_, &status, WNOHANG) != 0) break;
      if (Clock::now() > until) kill(process_, SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    process_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  static std::vector<char*> pointers(std::vector<std::string>* words) {
    std::vector<char*> all;
    for (std::string& word : *words) all.push_back(word.data());
    all.push_back(nullptr);
    return all;
  }
  pid_t process_ = 0;
};

/// The ranks of each host. A host is namespaces of this one: its ranks see no process of another
/// host, and the system calls their shared memory by names of its own.
using Hosts = std::vector<std::vector<uint32_t>>;

/// A host ends with the process that made it.
inline const std::vector<std::string> kOnNewHost = {"unshare",      "--ipc",  "--pid",
                                                    "--mount-proc", "--fork", "--kill-child"};

/// Why hosts cannot be made here, which takes root and the kernel's namespaces; empty: they can.
inline std::string why_no_hosts() {
  std::string command;
  for (const std::string& word : kOnNewHost) command += word + " ";
  FILE* const output = popen((command + "true 2>&1").c_str(), "r");
  if (output == nullptr) return "no command can be run";
  std::string words;
  for (int byte = fgetc(output); byte != EOF; byte = fgetc(output)) {
    words += static_cast<char>(byte);
  }
  const bool can = pclose(output) == 0;
  return can ? "" : "namespaces cannot be made: " + words;
}

/// How ranks find each other.
enum class Meeting { kFile, kTcp };

/// All ranks of one job, each with a folder's files "ready.RANK" and "told.RANK".
class Job {
 public:
  static constexpr const char* kName = "process test/1";

  /// `hosts`: where ranks run; empty: all on this one.
  Job(Meeting meeting, const std::string& part, const std::vector<std::string>& devices,
      const Variables& more = {}, const Hosts& hosts = {})
      : rank_count_(static_cast<uint32_t>(devices.size())) {
    char name[] = "/tmp/bp_process_test_XXXXXX";
    folder_ = mkdtemp(name);
    Variables variables = {{"BP_TEST_PART", part},
                           {"BP_TEST_FOLDER", folder_},
                           {"BP_TEST_RANKS", std::to_string(rank_count_)}};
    if (meeting == Meeting::kTcp) {
      TcpServerOptions options;
      options.token = *Token::make();
      options.job = kName;
      EXPECT_TRUE(options.token->write_file(folder_ + "/token").ok());
      server_ = *TcpServer::start(options);
      variables["BP_TEST_ENDPOINT"] = server_->endpoint();
    }
    variables.insert(more.begin(), more.end());
    for (const std::vector<uint32_t>& ranks : hosts) {
      hosts_.push_back(std::make_unique<RankProcess>(kRankTest, variables, run_on(ranks, devices)));
    }
    if (!hosts.empty()) return;
    for (uint32_t rank = 0; rank < rank_count_; ++rank) {
      variables["BP_TEST_RANK"] = std::to_string(rank);
      variables["BP_TEST_DEVICE"] = devices[rank];
      // Variables of one rank: "BACKPLANE_X@1".
      Variables own;
      for (const auto& [key, value] : variables) {
        const size_t at = key.find('@');
        if (at == std::string::npos) own.emplace(key, value);
        if (at != std::string::npos && key.substr(at + 1) == std::to_string(rank)) {
          own[key.substr(0, at)] = value;
        }
      }
      ranks_.push_back(std::make_unique<RankProcess>(kRankTest, own));
    }
  }
  ~Job() {
    ranks_.clear();
    hosts_.clear();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  /// Of a job on this host.
  RankProcess& rank(uint32_t number) { return *ranks_[number]; }
  /// The exit code of each host, when its ranks have ended: 0 where all of theirs are.
  std::vector<int> end_hosts() {
    std::vector<int> codes;
    for (const auto& host : hosts_) codes.push_back(host->end());
    return codes;
  }
  std::string told(uint32_t number) const {
    return read_file(folder_ + "/told." + std::to_string(number));
  }
  /// When it was told.
  int64_t told_ns(uint32_t number) const {
    return std::atoll(read_file(folder_ + "/time." + std::to_string(number)).c_str());
  }
  /// Until the ranks have come so far.
  [[nodiscard]] bool await_ready(const std::vector<uint32_t>& ranks,
                                 const std::string& what = "ready") const {
    const auto end = Clock::now() + std::chrono::seconds(60);
    for (const uint32_t number : ranks) {
      while (!std::filesystem::exists(folder_ + "/" + what + "." + std::to_string(number))) {
        if (Clock::now() > end) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
    return true;
  }
  std::vector<uint32_t> all() const {
    std::vector<uint32_t> numbers(rank_count_);
    for (uint32_t rank = 0; rank < rank_count_; ++rank) numbers[rank] = rank;
    return numbers;
  }

 private:
  static constexpr const char* kRankTest = "Ranks.DISABLED_Part";

  /// A command that runs the words behind it for each of the ranks, on a host of theirs.
  static std::vector<std::string> run_on(const std::vector<uint32_t>& ranks,
                                         const std::vector<std::string>& devices) {
    std::string script;
    for (const uint32_t rank : ranks) {
      script += "BP_TEST_RANK=" + std::to_string(rank) + " BP_TEST_DEVICE=" + devices[rank] +
                " \"$0\" \"$@\" & all=\"$all $!\"; ";
    }
    script += "for one in $all; do wait $one || exit 1; done";
    std::vector<std::string> command = kOnNewHost;
    command.insert(command.end(), {"sh", "-c", script});
    return command;
  }

  const uint32_t rank_count_;
  std::string folder_;
  std::unique_ptr<TcpServer> server_;
  std::vector<std::unique_ptr<RankProcess>> ranks_;
  std::vector<std::unique_ptr<RankProcess>> hosts_;  // in place of ranks
};

}  // namespace bp::ccl

#endif
