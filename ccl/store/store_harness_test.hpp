// SPDX-License-Identifier: Apache-2.0
//
// What the tests of stores share: a server with its token, the log's lines, other processes, and a
// client that says what a test wants it to say.
#ifndef BACKPLANE_CCL_STORE_STORE_HARNESS_TEST_HPP
#define BACKPLANE_CCL_STORE_STORE_HARNESS_TEST_HPP

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "ccl/store/file_store.hpp"
#include "ccl/store/handshake.hpp"
#include "ccl/store/sockets.hpp"
#include "ccl/store/tcp_server.hpp"
#include "ccl/store/tcp_store.hpp"
#include "core/base/log.hpp"
#include "tests/living_threads.hpp"

namespace bp::ccl {

using std::chrono::milliseconds;
using std::chrono::seconds;

inline constexpr std::string_view kTestJob = "test/1";

inline Store::Clock::time_point in(milliseconds time) { return Store::Clock::now() + time; }
/// Longer than anything takes on a machine that is busy.
inline Store::Clock::time_point soon() { return in(seconds(60)); }

template <class T>
T value_of(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status().to_string();
  if (!result.ok()) throw std::runtime_error(result.status().to_string());
  return std::move(result).value();
}
inline std::string words_of(const Status& status) { return status.to_string(); }
template <class T>
std::string words_of(const Result<T>& result) {
  return result.status().to_string();
}

inline std::shared_ptr<const Token> new_token() { return value_of(Token::make()); }

/// The log's lines while it lives.
class LogLines {
 public:
  LogLines() {
    set_log_sink([this](uint32_t, std::string_view line) {
      const std::lock_guard lock(mutex_);
      lines_.emplace_back(line);
    });
  }
  ~LogLines() { set_log_sink({}); }
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;

  std::vector<std::string> all() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  size_t count(std::string_view words) const {
    const auto lines = all();
    return static_cast<size_t>(std::ranges::count_if(
        lines, [&](const std::string& line) { return line.find(words) != line.npos; }));
  }
  /// Waits for it; false: it did not come.
  bool has(std::string_view words) const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

/// Waits until it is so; false: it did not come to be.
inline bool comes_true(const std::function<bool()>& is_so) {
  for (const auto end = soon(); Store::Clock::now() < end;) {
    if (is_so()) return true;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return is_so();
}

inline bool LogLines::has(std::string_view words) const {
  return comes_true([&] { return count(words) > 0; });
}

/// A server on the loopback, and clients of it.
struct TestServer {
  explicit TestServer(TcpServerOptions options = {}) {
    if (options.token == nullptr) options.token = new_token();
    token = options.token;
    options.job = kTestJob;
    server = value_of(TcpServer::start(std::move(options)));
  }
  TcpStoreOptions client_options() const {
    return {.endpoint = server->endpoint(),
            .token = token,
            .job = std::string(kTestJob),
            .deadline = soon(),
            .answer_grace = seconds(60)};
  }
  std::shared_ptr<Store> client() const { return value_of(connect_tcp_store(client_options())); }

  std::shared_ptr<const Token> token;
  std::unique_ptr<TcpServer> server;
};

/// A peer that sends what it is told to.
class RawClient {
 public:
  explicit RawClient(const std::string& endpoint) {
    const auto address = value_of(SocketAddress::of_address(value_of(parse_endpoint(endpoint))));
    int error = 0;
    socket_ = value_of(connect_to(address, soon(), &error));
  }
  /// False: the other side has closed.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const SocketTransfer transfer = send_to(socket_.get(), {&bytes, 1});
      if (transfer.error != 0) return false;
      bytes.remove_prefix(transfer.bytes);
      Awaited awaited{socket_.get(), true, false};
      if (transfer.would_wait) wait_for_ready({&awaited, 1}, soon());
    }
    return true;
  }
  /// What comes until there are so many bytes, or the other side closes.
  std::string receive(size_t bytes) {
    std::string got;
    char room[4096];
    while (got.size() < bytes) {
      Awaited awaited{socket_.get(), false, false};
      if (!wait_for_ready({&awaited, 1}, soon())) break;
      const size_t wanted = std::min(sizeof(room), bytes - got.size());
      const SocketTransfer transfer = receive_from(socket_.get(), std::span(room).first(wanted));
      if (transfer.has_ended || transfer.error != 0) break;
      got.append(room, transfer.bytes);
    }
    return got;
  }
  /// Whether the other side closes, whatever it sends before.
  bool is_closed() {
    receive(SIZE_MAX);
    char room[1];
    const SocketTransfer transfer = receive_from(socket_.get(), room);
    return transfer.has_ended || transfer.error != 0;
  }
  /// What was sent by this side of a handshake that came to its end.
  std::string shake_hands(const TestServer& server) {
    auto handshake = value_of(Handshake::begin(
        Handshake::Side::kConnects, {.token = server.token, .job = std::string(kTestJob)}));
    std::string sent;
    while (!handshake.is_done()) {
      const std::string output = handshake.take_output();
      sent += output;
      if (!send(output)) break;
      const std::string got = receive(40);
      if (got.size() < 40) break;
      EXPECT_EQ(value_of(handshake.receive(got)), got.size());
    }
    EXPECT_TRUE(handshake.is_done());
    return sent;
  }
  int descriptor() const { return socket_.get(); }

 private:
  Descriptor socket_;
};

/// This program once more, as another process that runs one test, which is disabled otherwise.
class OtherProcess {
 public:
  OtherProcess(const std::string& test, const std::vector<std::string>& variables) {
    std::vector<std::string> words = {"/proc/self/exe", "--gtest_also_run_disabled_tests",
                                      "--gtest_filter=" + test};
    std::vector<std::string> environment = variables;
    for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    EXPECT_EQ(posix_spawn(&process_, words[0].c_str(), &actions, nullptr, pointers(&words).data(),
                          pointers(&environment).data()),
              0);
    posix_spawn_file_actions_destroy(&actions);
  }
  ~OtherProcess() { end(SIGKILL); }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  void signal(int number) const {
    kill(process_, number);
    int status = 0;  // it has stopped when that is told, and not before
    if (number == SIGSTOP) waitpid(process_, &status, WUNTRACED);
  }
  /// Sends the signal, 0 for none, and waits. Answers the exit code; -1: it was killed.
  int end(int number) {
    if (process_ <= 0) return -1;
    if (number != 0) kill(process_, number);
    int status = 0;
    waitpid(process_, &status, 0);
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

/// What the child of a fork answers: 0 to 255.
inline int in_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

inline size_t entries_of(const char* folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder),
                                           std::filesystem::directory_iterator()));
}
inline size_t open_descriptors() { return entries_of("/proc/self/fd"); }
inline size_t running_threads() { return tests::living_threads().size(); }

}  // namespace bp::ccl

#endif
