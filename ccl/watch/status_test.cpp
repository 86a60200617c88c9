// SPDX-License-Identifier: Apache-2.0
//
// The status of a process as a text, and the socket that tells it: whatever clients do, and
// whatever is where it is to be.
#include "ccl/watch/status.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "ccl/watch/status_server.hpp"
#include "core/base/fork.hpp"
#include "core/base/temp_folder_test.hpp"

namespace bp::ccl {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

GroupStatus filled_group() {
  GroupStatus group;
  group.name = "world \"1\"";
  group.epoch = 2;
  group.place = {1, 4};
  group.device = "npu:1";
  group.last = {9, 8, 7};
  group.operation = "all_reduce sum f32 3";
  group.sequence = 8;
  group.since_ns = 7'000'000'000;
  group.peers = {{0, 9'000'000'000, ""}, {2, 0, ""}, {3, 5, "its process\n ended"}};
  group.error = {.code = BP_UNAVAILABLE, .words = "rank 3 is gone", .culprits = {3}};
  return group;
}

ProcessStatus filled_process() {
  return {.host = "node-1", .process_id = 42, .time_ns = 9'500'000'000, .groups = {filled_group()}};
}

TEST(GroupStatus, Text_ComesBack) {
  const std::string text = status_text(filled_process());
  const auto read = parse_status(text, "x");
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  EXPECT_EQ(status_text(*read).size(), text.size() - 1) << "all but the culprits, which words have";
  const GroupStatus& group = read->groups.at(0);
  EXPECT_EQ(group.name, "world \"1\"");
  EXPECT_EQ(group.since_ns, 7'000'000'000);
  EXPECT_EQ(group.peers.at(2).lost, "its process\n ended");
  EXPECT_EQ(group.error.code, BP_UNAVAILABLE);
}

TEST(GroupStatus, Words_AreForPeople) {
  EXPECT_EQ(status_words(filled_process()),
            "process 42 on node-1\n"
            "  group world \"1\" epoch 2: rank 1 of 4 on npu:1, entered 9, completed 7\n"
            "    in all_reduce sum f32 3 as number 8 for 2.5 s\n"
            "    has failed: UNAVAILABLE: rank 3 is gone\n"
            "    rank 0 was heard 0.5 s ago\n"
            "    rank 2 was not heard yet\n"
            "    rank 3 is lost: its process  ended\n");
  EXPECT_THAT(status_words({.host = "h", .process_id = 1, .time_ns = 0, .groups = {}}),
              HasSubstr("no group"));
}

TEST(GroupStatus, Garbage_IsRefusedByTheFieldsName) {
  const std::string good = status_text(filled_process());
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return parse_status(text, "/tmp/x.sock").status();
  };
  EXPECT_THAT(changed("-status-1", "-status-2").message(),
              AllOf(HasSubstr("/tmp/x.sock"), HasSubstr("format")));
  EXPECT_THAT(changed("\"epoch\": 2", "\"epoch\": -2").message(),
              HasSubstr("epoch: expected a whole number, found -2"));
  EXPECT_THAT(changed("\"peers\": [", "\"peers\": 5, \"x\": [").message(), HasSubstr("peers"));
  EXPECT_THAT(changed("UNAVAILABLE", "SAD").message(), HasSubstr("SAD"));
  EXPECT_EQ(parse_status("", "x").status().code(), BP_INVALID_ARGUMENT);
  EXPECT_EQ(parse_status("[]", "x").status().code(), BP_INVALID_ARGUMENT);
}

class StatusServerTest : public testing::Test, protected StatusSource {
 protected:
  GroupStatus status() const override { return filled_group(); }
  std::string path(const std::string& name = "status.sock") const { return folder_.path(name); }
  std::shared_ptr<StatusServer> open(const std::string& at) {
    auto server = StatusServer::open(at);
    EXPECT_TRUE(server.ok()) << server.status().to_string();
    return server.ok() ? *server : nullptr;
  }
  static Status refusal(const std::string& at) { return StatusServer::open(at).status(); }
  static std::vector<std::string> ask(const std::string& at) {
    auto answers = read_status(at);
    EXPECT_TRUE(answers.ok()) << answers.status().to_string();
    return answers.ok() ? *answers : std::vector<std::string>();
  }
  static sockaddr_un address_of(const std::string& at) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, at.c_str(), sizeof(address.sun_path) - 1);
    return address;
  }
  static int connect_to(const std::string& at) {
    const int client = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_un address = address_of(at);
    EXPECT_EQ(::connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return client;
  }
  /// A socket of a process that is dead.
  static void leave_socket(const std::string& at) {
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_un address = address_of(at);
    EXPECT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    ::close(socket);
  }
  const TempFolder folder_;
};

TEST_F(StatusServerTest, Client_GetsOneDocumentOfAllGroups) {
  {
    const auto server = open(path());
    ASSERT_TRUE(server);
    struct stat there {};
    ASSERT_EQ(::lstat(path().c_str(), &there), 0);
    EXPECT_TRUE(S_ISSOCK(there.st_mode));
    EXPECT_EQ(there.st_mode & 0777u, 0600u);
    const auto none = parse_status(ask(path()).at(0), path());
    ASSERT_TRUE(none.ok()) << none.status().to_string();
    EXPECT_EQ(none->groups.size(), 0u);
    EXPECT_EQ(none->process_id, static_cast<uint64_t>(::getpid()));
    server->add(this);
    const auto again = open(path());  // another group's
    EXPECT_EQ(again.get(), server.get());
    again->add(this);
    EXPECT_EQ(parse_status(ask(path()).at(0), path())->groups.size(), 2u);
    server->remove(this);
    EXPECT_EQ(parse_status(ask(path()).at(0), path())->groups.size(), 0u);
  }
  EXPECT_FALSE(std::filesystem::exists(path())) << "its last user removes it";
}

TEST_F(StatusServerTest, Folder_HasASocketOfEachProcess) {
  leave_socket(path("backplane-1.sock"));  // passed over
  std::ofstream(path("other.txt")) << "x";
  EXPECT_THAT(read_status(path("")).status().message(), HasSubstr("no process serves one"));
  const auto server = open(path(""));
  ASSERT_TRUE(server);
  EXPECT_THAT(server->path(), HasSubstr("/backplane-" + std::to_string(::getpid()) + ".sock"));
  EXPECT_EQ(ask(path("")).size(), 1u);
}

TEST_F(StatusServerTest, WhatIsThere_IsReplacedOnlyWhereItsProcessIsDead) {
  leave_socket(path());
  EXPECT_THAT(read_status(path()).status().message(), HasSubstr("its process is dead"));
  const auto server = open(path());
  ASSERT_TRUE(server);
  EXPECT_EQ(ask(path()).size(), 1u);

  std::ofstream(path("file")) << "mine";
  EXPECT_EQ(refusal(path("file")).code(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(refusal(path("file")).message(), AllOf(HasSubstr(path("file")), HasSubstr("socket")));
  std::filesystem::create_symlink(path(), path("link"));
  EXPECT_EQ(refusal(path("link")).code(), BP_INVALID_ARGUMENT);
  EXPECT_TRUE(std::filesystem::exists(path("file")));
  EXPECT_THAT(read_status(path("file")).status().message(), HasSubstr("expected a socket"));

  const int other = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_un address = address_of(path("taken"));
  ASSERT_EQ(::bind(other, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(other, 1), 0);
  EXPECT_EQ(refusal(path("taken")).code(), BP_UNAVAILABLE);
  EXPECT_THAT(refusal(path("taken")).message(), HasSubstr("another process serves it"));
  ::close(other);
}

TEST_F(StatusServerTest, BadPaths_AreNamed) {
  EXPECT_THAT(refusal("/nosuch/x.sock").message(),
              AllOf(HasSubstr("/nosuch/x.sock"), HasSubstr("No such file")));
  EXPECT_THAT(refusal(path(std::string(200, 'x'))).message(),
              HasSubstr("expected a path of at most 107 bytes"));
  EXPECT_THAT(read_status("/nosuch").status().message(), HasSubstr("/nosuch"));
}

TEST_F(StatusServerTest, EndOfAnother_LeavesTheNewOnesSocket) {
  auto server = open(path());
  std::filesystem::remove(path());
  leave_socket(path());  // by whoever took its place
  server.reset();
  EXPECT_TRUE(std::filesystem::exists(path()));
}

TEST_F(StatusServerTest, ClientsThatReadNothingOrSendGarbage_HoldUpNobody) {
  const auto server = open(path());
  ASSERT_TRUE(server);
  // So long that it does not fit into a socket.
  constexpr size_t kGroups = 600;
  for (size_t i = 0; i < kGroups; ++i) server->add(this);
  std::vector<int> clients;
  for (int i = 0; i < 12; ++i) clients.push_back(connect_to(path()));
  const std::string garbage(10000, '\xff');
  EXPECT_GT(::send(clients[0], garbage.data(), garbage.size(), MSG_NOSIGNAL | MSG_DONTWAIT), 0);
  const auto begin = Clock::now();
  const auto answers = ask(path());
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_GT(answers[0].size(), 250'000u) << "it fits into a socket";
  const auto parsed = parse_status(answers[0], path());
  ASSERT_TRUE(parsed.ok()) << parsed.status().to_string();
  EXPECT_EQ(parsed->groups.size(), kGroups);
  // A second for each of them would be twelve.
  EXPECT_LT(Clock::now() - begin, seconds(8));
  for (const int client : clients) {  // each is dropped, with a part of the document or none
    char bytes[65536];
    ssize_t count = 1;
    const auto end = Clock::now() + seconds(10);
    std::this_thread::sleep_for(milliseconds(client == clients[0] ? 1500 : 0));
    while (count > 0 && Clock::now() < end) count = ::recv(client, bytes, sizeof(bytes), 0);
    EXPECT_LE(count, 0);
    ::close(client);
  }
  for (size_t i = 0; i < kGroups; ++i) server->remove(this);
  EXPECT_EQ(ask(path()).size(), 1u);
}

TEST_F(StatusServerTest, ForkedChild_NeitherServesNorRemovesIt) {
  watch_forks();
  auto server = open(path());
  ASSERT_TRUE(server);
  const pid_t child = ::fork();
  if (child == 0) {
    server.reset();
    ::_exit(std::filesystem::exists(path()) ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(ask(path()).size(), 1u);
}

TEST_F(StatusServerTest, ManyUsersAtOnce_MakeAndRemoveIt) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      for (int round = 0; round < 50; ++round) {
        const auto server = open(path());
        if (server == nullptr) return;
        server->add(this);
        EXPECT_EQ(ask(path()).size(), 1u);
        server->remove(this);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(std::filesystem::exists(path()));
}

}  // namespace
}  // namespace bp::ccl
