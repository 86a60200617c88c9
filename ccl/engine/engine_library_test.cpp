// SPDX-License-Identifier: Apache-2.0
//
// An engine's library as a guest of its process: what it may open and change, who is trusted, and
// what peers that cannot prove themselves get.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "ccl/engine/abi/engine_abi.h"
#include "ccl/engine/engine_harness_test.hpp"
#include "ccl/store/handshake.hpp"
#include "core/base/log.hpp"
#include "core/base/temp_folder_test.hpp"

namespace bp::ccl {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

size_t open_descriptors() {
  return static_cast<size_t>(
      std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

// --- What it opens

/// The addresses of this process's listening sockets, as the kernel writes them: "0100007F:1F90".
std::multiset<std::string> listeners() {
  std::set<std::string> own;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    own.insert(fs::read_symlink(entry.path(), error).string());
  }
  std::multiset<std::string> found;
  for (const char* const table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    for (std::getline(file, line); std::getline(file, line);) {
      std::istringstream fields(line);
      std::vector<std::string> words(10);
      for (std::string& word : words) fields >> word;
      constexpr const char* kListening = "0A";
      if (words[3] == kListening && own.count("socket:[" + words[9] + "]") != 0) {
        found.insert(words[1]);
      }
    }
  }
  return found;
}

TEST(EngineLibrary, SharedMemory_NeedsNoListener) {
  const auto before = listeners();
  const auto engine = make_engine(EngineKind::kShared, 0);
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(listeners(), before);
}

TEST(EngineLibrary, NamedInterface_IsTheOnlyOneThatListens) {
  const auto before = listeners();
  ASSERT_TRUE(before.empty());
  const auto engine = make_engine(EngineKind::kNetwork, 0);
  ASSERT_NE(engine, nullptr);
  const auto after = listeners();
  EXPECT_FALSE(after.empty());
  for (const std::string& address : after) {
    const std::string host = address.substr(0, address.find(':'));
    EXPECT_TRUE(host == "0100007F" || host == "00000000000000000000000001000000") << address;
  }
}

TEST(EngineLibrary, UnknownInterface_IsAnErrorThatListsThem) {
  LibraryEngineArgs args = library_args(EngineKind::kNetwork);
  args.interface_name = "eth77";
  const Status status = make_library_engine(args).status();
  EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("found 'eth77'"), HasSubstr("lo")));
}

/// With room for so many descriptors more.
Status make_engine_with(EngineKind kind, size_t spare) {
  rlimit limit{};
  EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit less{.rlim_cur = open_descriptors() + spare, .rlim_max = limit.rlim_max};
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &less), 0);
  Status status = make_library_engine(library_args(kind)).status();
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  return status;
}

// UCX would end the process with some of these.
TEST(EngineLibrary, TooFewDescriptors_AreAnErrorThatSaysSo) {
  for (const EngineKind kind : {EngineKind::kShared, EngineKind::kNetwork}) {
    ASSERT_NE(make_engine(kind, 0), nullptr);  // loads what there is to load
    const size_t before = open_descriptors();
    for (size_t spare = 0; spare < 30; ++spare) {
      const Status status = make_engine_with(kind, spare);
      EXPECT_EQ(status.code(), BP_UNAVAILABLE) << kind_name(kind) << ", " << spare;
      EXPECT_THAT(status.message(), HasSubstr("descriptors"));
    }
    EXPECT_TRUE(make_engine_with(kind, 40).ok()) << kind_name(kind);
    EXPECT_EQ(open_descriptors(), before) << kind_name(kind);
  }
}

TEST(EngineLibrary, EndsThatComeAndGo_LeaveNoDescriptors) {
  const auto use_once = [](EngineKind kind) {
    Ends ends(2);
    for (uint32_t i = 0; i < 2; ++i) ends.engines[i] = make_engine(kind, i);
    ends.connect_all();
    const Bytes payload = pattern(100'000, 1);
    Transfer unread;
    ends.send(0, 1, "h", payload, &unread);
    EXPECT_TRUE(ends.await_arrivals(1, 1));
  };
  for (const EngineKind kind : {EngineKind::kShared, EngineKind::kNetwork}) {
    use_once(kind);
    const size_t before = open_descriptors();
    for (int round = 0; round < 5; ++round) use_once(kind);
    EXPECT_EQ(open_descriptors(), before) << kind_name(kind);
  }
}

// --- What it changes

/// How the C library's functions about memory begin, which UCX's hooks overwrite with a jump.
std::vector<std::array<unsigned char, 16>> memory_functions() {
  std::vector<std::array<unsigned char, 16>> found;
  void* const library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  for (const char* const name :
       {"mmap", "munmap", "mremap", "madvise", "brk", "sbrk", "shmat", "shmdt"}) {
    const void* const code = library != nullptr ? dlsym(library, name) : nullptr;
    EXPECT_NE(code, nullptr) << name;
    if (code != nullptr) std::memcpy(found.emplace_back().data(), code, found.back().size());
  }
  if (library != nullptr) dlclose(library);
  return found;
}

struct ProcessLook {
  std::vector<std::array<unsigned char, 16>> functions = memory_functions();
  std::vector<void (*)(int)> handlers;
  std::vector<std::string> environment;
  char** environment_at = environ;
  std::string folder = fs::current_path();
  ProcessLook() {
    for (int number = 1; number < NSIG; ++number) {
      struct sigaction action {};
      sigaction(number, nullptr, &action);
      handlers.push_back(action.sa_handler);
    }
    for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  }
};

/// Bits of what has changed.
int differences(const ProcessLook& before, const ProcessLook& after) {
  int found = 0;
  if (after.handlers != before.handlers) found |= 2;
  if (after.environment != before.environment) found |= 4;
  if (after.environment_at != before.environment_at) found |= 8;
  if (after.folder != before.folder) found |= 16;
  if (fs::exists("log")) found |= 32;
  if (after.functions != before.functions) found |= 64;
  return found;
}

/// A message that stays in its sender's memory until it is taken; false: it does not arrive.
bool exchange(EngineKind kind) {
  Ends ends(2);
  for (uint32_t i = 0; i < 2; ++i) ends.engines[i] = make_engine(kind, i);
  if (ends.engines[0] == nullptr || ends.engines[1] == nullptr) return false;
  ends.connect_all();
  const Bytes payload = pattern(8 << 20, 1);
  Bytes room(payload.size());
  Transfer sent, received;
  ends.send(0, 1, "h", payload, &sent);
  if (!ends.await_arrivals(1, 1)) return false;
  ends[1].receive(ends.inboxes[1].arrived[0].token, room.data(), &received);
  return ends.await(received) && ends.await(sent) && room == payload;
}

/// In a process that has not loaded it yet. Exit code 0: as it was, also when messages have gone.
void load_and_compare(const std::string& folder) {
  fs::current_path(folder);
  // UCX would read it, and write that log at once.
  std::ofstream("ucx.conf") << "UCX_LOG_LEVEL=debug\nUCX_LOG_FILE=" << folder << "/log\n";
  setenv("UCX_HANDLE_ERRORS", "bt", 1);
  signal(SIGUSR1, [](int) {});
  const ProcessLook before;
  bool is_good = make_engine(EngineKind::kShared, 0) != nullptr;
  int found = differences(before, ProcessLook());
  for (const EngineKind kind : {EngineKind::kShared, EngineKind::kNetwork}) {
    is_good = is_good && exchange(kind);
    found |= differences(before, ProcessLook());
  }
  exit(is_good ? found : found | 1);
}

TEST(EngineLibraryDeathTest, Load_LeavesTheProcessAsItWas) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // another process, which begins anew
  const TempFolder folder;
  EXPECT_EXIT(load_and_compare(folder.path()), testing::ExitedWithCode(0), "");
}

/// In a forked child. Exit code 0: every call answers, and none does anything.
int use_in_child(Ends& ends) {
  alarm(20);
  Transfer sent;
  ends.send(0, 1, "h", {}, &sent);
  if (sent.status != BP_FORKED) return 1;
  if (ends[0].connect(7, "x").code() != BP_FORKED) return 2;
  if (ends[0].progress(ends.inboxes[0])) return 3;
  ends[0].wait(Clock::now() + seconds(30));
  ends[0].wake();
  ends[0].drop(1);
  if (make_library_engine(library_args(EngineKind::kShared)).status().code() != BP_FORKED) return 4;
  ends.engines.clear();
  return 0;
}

TEST(EngineLibrary, ForkedChild_IsToldSoAndLeaves) {
  Ends ends(2);
  for (uint32_t i = 0; i < 2; ++i) ends.engines[i] = make_engine(EngineKind::kShared, i);
  ends.connect_all();
  Transfer first;
  ends.send(0, 1, "first", {}, &first);
  ASSERT_TRUE(ends.await_arrivals(1, 1));
  const pid_t child = fork();
  if (child == 0) {
    const int answer = use_in_child(ends);
#if defined(__SANITIZE_ADDRESS__)
    _exit(answer);  // what the child may not touch is no leak
#else
    exit(answer);
#endif
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  Transfer second;
  ends.send(0, 1, "second", {}, &second);
  EXPECT_TRUE(ends.await_arrivals(1, 2)) << "the parent goes on";
}

// --- Which library is opened

LibraryEngineArgs args_of(const std::string& name, const std::string& folder) {
  LibraryEngineArgs args;
  args.name = name;
  args.search_path = {folder};
  return args;
}

TEST(EngineLibrary, MissingOne_NamesWhereItWasLookedFor) {
  const TempFolder folder;
  const Status status = make_library_engine(args_of("ucx", folder.path())).status();
  EXPECT_EQ(status.code(), BP_UNAVAILABLE);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("backplane_engine_ucx.so"), HasSubstr(folder.path()),
                    HasSubstr("BACKPLANE_PLUGIN_PATH")));
}

TEST(EngineLibrary, AnotherRelease_IsRefusedBeforeItIsCalled) {
  auto args = args_of("other_release", BP_OTHER_ENGINES);
  const Status status = make_library_engine(args).status();
  EXPECT_EQ(status.code(), BP_INCOMPATIBLE);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("has form " + std::to_string(BP_ENGINE_ABI + 1)),
                                      HasSubstr("has " + std::to_string(BP_ENGINE_ABI))));
}

TEST(EngineLibrary, WhatAnyoneCanWrite_IsNotOpened) {
  const TempFolder folder;
  const std::string path = folder.path() + "/backplane_engine_other_release.so";
  fs::copy_file(BP_OTHER_ENGINES "/backplane_engine_other_release.so", path);
  chmod(path.c_str(), 0666);
  const Status status = make_library_engine(args_of("other_release", folder.path())).status();
  EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("not trusted"), HasSubstr(path)));
}

TEST(EngineLibrary, WhatIsNoLibrary_IsAnErrorInWords) {
  const TempFolder folder;
  std::ofstream(folder.path() + "/backplane_engine_text.so") << "no library";
  const Status status = make_library_engine(args_of("text", folder.path())).status();
  EXPECT_EQ(status.code(), BP_UNAVAILABLE);
  EXPECT_THAT(status.message(), HasSubstr("backplane_engine_text.so"));
}

// --- Who proves itself

/// The log's lines while it lives.
class Lines {
 public:
  Lines() {
    set_log_sink([this](uint32_t, std::string_view line) { text_ += std::string(line) + "\n"; });
  }
  ~Lines() { set_log_sink({}); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

class Proving : public testing::TestWithParam<EngineKind> {
 protected:
  std::unique_ptr<Engine> make_raw() { return make_engine(GetParam(), 0); }
  std::unique_ptr<Engine> make_proven(uint32_t rank, std::shared_ptr<const Token> token,
                                      const std::string& job) {
    return make_proven_engine(make_raw(),
                              {.token = std::move(token), .job = job, .own_rank = rank});
  }
  /// What the proven end of rank 0 takes for the address of another.
  static std::string signed_address(const Engine& raw) {
    const Mac mac = job_token()->mac("address " + raw.address());
    return std::string(mac.begin(), mac.end()) + raw.address();
  }
  static void send(Engine& from, uint32_t to, const std::string& header, const Bytes& payload,
                   Transfer* transfer) {
    from.send(to, std::as_bytes(std::span(header)), payload.data(), payload.size(), transfer);
  }
};

TEST_P(Proving, AnotherToken_IsRefusedAsAnAddress) {
  const auto ours = make_proven(0, job_token(), "job");
  const auto theirs = make_proven(1, *Token::make(), "job");
  const Status status = ours->connect(1, theirs->address());
  EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(status.message(), HasSubstr("an address that a rank of this job has made"));
}

TEST_P(Proving, AnotherJob_LosesBothSidesAndDeliversNothing) {
  Ends ends(2);
  ends.engines[0] = make_proven(0, job_token(), "job 1");
  ends.engines[1] = make_proven(1, job_token(), "job 2");
  ASSERT_TRUE(ends[0].connect(1, ends[1].address()).ok());
  ASSERT_TRUE(ends[1].connect(0, ends[0].address()).ok());
  const Bytes payload = pattern(100'000, 1);
  std::deque<Transfer> transfers(2);
  ends.send(0, 1, "h", payload, &transfers[0]);
  ends.send(1, 0, "h", payload, &transfers[1]);
  for (const Transfer& transfer : transfers) {
    ASSERT_TRUE(ends.await(transfer));
    EXPECT_EQ(transfer.status, BP_UNAVAILABLE);
  }
  for (const uint32_t end : {0u, 1u}) {
    EXPECT_THAT(ends.inboxes[end].lost[1 - end], HasSubstr("did not prove that it is rank"));
    EXPECT_TRUE(ends.inboxes[end].arrived.empty());
  }
}

TEST_P(Proving, MessagesWithoutAProof_AreDroppedCountedAndTold) {
  const Lines lines;
  Ends ends(2);
  ends.engines[0] = make_proven(0, job_token(), "job");
  ends.engines[1] = make_raw();
  const std::string address = ends[0].address();
  ASSERT_TRUE(ends[0].connect(1, signed_address(ends[1])).ok());
  ASSERT_TRUE(ends[1].connect(0, address.substr(kMacBytes)).ok());
  constexpr size_t kCount = 3000;
  std::deque<Transfer> transfers(kCount);
  const Bytes payloads[] = {pattern(20'000, 1), {}};
  for (size_t i = 0; i < kCount; ++i) {
    std::string header(i % 130, '\1');  // of the kind that messages have
    if (i % 3 == 1) header = std::string(i % 130, static_cast<char>(i));
    if (i % 3 == 2) header.clear();
    send(ends[1], 0, header, payloads[i % 10 == 0 ? 0 : 1], &transfers[i]);
  }
  for (const Transfer& transfer : transfers) ASSERT_TRUE(ends.await(transfer));
  for (int i = 0; i < 100; ++i) ends.pass();
  EXPECT_TRUE(ends.inboxes[0].arrived.empty());
  EXPECT_THAT(lines.text(), HasSubstr("dropped a message of rank 1, which has not proved itself"));
}

TEST_P(Proving, GarbageForAHandshake_LosesThatPeerAlone) {
  Ends ends(3);
  ends.engines[0] = make_proven(0, job_token(), "job");
  ends.engines[1] = make_raw();
  ends.engines[2] = make_proven(2, job_token(), "job");
  ASSERT_TRUE(ends[0].connect(1, signed_address(ends[1])).ok());
  ASSERT_TRUE(ends[0].connect(2, ends[2].address()).ok());
  ASSERT_TRUE(ends[2].connect(0, ends[0].address()).ok());
  ASSERT_TRUE(ends[1].connect(0, ends[0].address().substr(kMacBytes)).ok());
  Transfer garbage;
  send(ends[1], 0, "\2no handshake at all, and long enough for one", {}, &garbage);
  Transfer fine;
  ends.send(2, 0, "fine", {}, &fine);
  ASSERT_TRUE(ends.drive_until([&] { return !ends.inboxes[0].lost.empty(); }));
  EXPECT_THAT(ends.inboxes[0].lost[1], HasSubstr("did not prove that it is rank 1"));
  ASSERT_TRUE(ends.await_arrivals(0, 1));
  EXPECT_EQ(ends.inboxes[0].arrived[0].peer, 2u);
  Transfer reply;
  ends.send(0, 1, "reply", {}, &reply);
  EXPECT_EQ(reply.status, BP_UNAVAILABLE);
}

INSTANTIATE_TEST_SUITE_P(All, Proving,
                         testing::Values(EngineKind::kLoop, EngineKind::kShared,
                                         EngineKind::kNetwork),
                         [](const auto& of) { return kind_name(of.param); });

}  // namespace
}  // namespace bp::ccl
