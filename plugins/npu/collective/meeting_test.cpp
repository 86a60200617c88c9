// SPDX-License-Identifier: Apache-2.0
//
// The memory in which ranks meet: what is refused in its place, other processes, and a process that
// has no room for it.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "plugins/npu/collective/harness_test.hpp"

namespace bp::npu_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// An id, as the plugin writes it.
struct Id {
  uint64_t tag = 0;
  int32_t process = 0;
  uint32_t reserved = 0;
  uint64_t nonce[2] = {};

  explicit Id(const Uid& uid) { std::memcpy(static_cast<void*>(this), uid.data(), sizeof(Id)); }
  Uid uid() const {
    Uid uid{};
    std::memcpy(uid.data(), this, sizeof(Id));
    return uid;
  }
  /// Of its memory.
  std::string name() const {
    std::ostringstream name;
    name << "backplane.npu." << std::hex << nonce[0] << '.' << nonce[1];
    return name.str();
  }
};

size_t descriptor_count() {
  return static_cast<size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

uint64_t file_bytes(int file) { return static_cast<uint64_t>(lseek(file, 0, SEEK_END)); }

/// A process that has nothing to say.
class Child {
 public:
  Child() : process_(fork()) {
    if (process_ == 0) {
      pause();
      _exit(0);
    }
  }
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  int32_t number() const { return number_; }
  void end() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    process_ = 0;
  }

 private:
  pid_t process_;
  const int32_t number_ = process_;
};

/// A file of this process in the place of a group's memory, which ends with it.
class FalseMemory {
 public:
  FalseMemory(const Id& id, uint64_t bytes, int seals) {
    file_ = memfd_create(id.name().c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
    EXPECT_GE(file_, 0);
    EXPECT_EQ(ftruncate(file_, static_cast<off_t>(bytes)), 0);
    const uint64_t begin[3] = {id.tag, id.nonce[0], id.nonce[1]};
    EXPECT_EQ(pwrite(file_, begin, sizeof(begin), 0), static_cast<ssize_t>(sizeof(begin)));
    if (seals != 0) EXPECT_EQ(fcntl(file_, F_ADD_SEALS, seals), 0);
  }
  ~FalseMemory() { close(file_); }
  FalseMemory(const FalseMemory&) = delete;
  FalseMemory& operator=(const FalseMemory&) = delete;
  int file() const { return file_; }

 private:
  int file_ = -1;
};

class NpuMeeting : public testing::Test {
 protected:
  void expect_refused(const Uid& uid, bp_status status, const char* words) {
    const size_t before = descriptor_count();
    bp_comm* none = nullptr;
    EXPECT_EQ(ranks_.init(0, uid, 0, 2, &none), status);
    EXPECT_THAT(ranks_.host().last_message(), HasSubstr(words));
    EXPECT_EQ(none, nullptr);
    EXPECT_EQ(descriptor_count(), before);
  }
  bp_comm_state poll(bp_comm* comm) {
    bp_comm_state state{};
    state.struct_size = sizeof(state);
    EXPECT_EQ(collective().comm_poll(comm, &state), BP_OK);
    return state;
  }
  /// As large as the plugin makes it.
  uint64_t memory_bytes() {
    const Id id(ranks_.new_uid());
    bp_comm* comm = nullptr;
    EXPECT_EQ(ranks_.init(0, id.uid(), 0, 2, &comm), BP_OK);
    uint64_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      const auto target = std::filesystem::read_symlink(entry, gone).string();
      if (target.find(id.name()) == std::string::npos) continue;
      bytes = file_bytes(std::stoi(entry.path().filename()));
    }
    EXPECT_EQ(collective().comm_destroy(comm), BP_OK);
    return bytes;
  }

  Ranks ranks_{2};
};

TEST_F(NpuMeeting, Id_TakesNothing) {
  const size_t before = descriptor_count();
  const Uid first = ranks_.new_uid();
  EXPECT_NE(first, ranks_.new_uid());
  EXPECT_EQ(descriptor_count(), before);
}

TEST_F(NpuMeeting, Descriptor_IsThereUntilAllHaveJoined) {
  const size_t before = descriptor_count();
  const Uid uid = ranks_.new_uid();
  bp_comm* comms[2] = {};
  ASSERT_EQ(ranks_.init(0, uid, 0, 2, &comms[0]), BP_OK);
  EXPECT_GT(descriptor_count(), before);
  ASSERT_EQ(ranks_.init(0, uid, 1, 2, &comms[1]), BP_OK);
  for (bp_comm* const comm : comms) EXPECT_EQ(poll(comm).state, BP_COMM_READY);
  EXPECT_EQ(descriptor_count(), before);
  for (bp_comm* const comm : comms) EXPECT_EQ(collective().comm_destroy(comm), BP_OK);
}

TEST_F(NpuMeeting, GarbageIds_AreRefused) {
  const Id good(ranks_.new_uid());
  Uid garbage{};
  garbage.fill(std::byte{0xa5});
  expect_refused(garbage, BP_INVALID_ARGUMENT, "none of the NPUs'");
  Id id = good;
  id.tag += 1;  // of another layout
  expect_refused(id.uid(), BP_INVALID_ARGUMENT, "none of the NPUs'");
  id = good;
  id.process = -1;
  expect_refused(id.uid(), BP_INVALID_ARGUMENT, "none of the NPUs'");
  id = good;
  id.reserved = 1;
  expect_refused(id.uid(), BP_INVALID_ARGUMENT, "none of the NPUs'");
}

TEST_F(NpuMeeting, MemoryThatIsNoGroups_IsRefused) {
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  const uint64_t bytes = memory_bytes();
  ASSERT_GT(bytes, 4096u);
  const Id id(ranks_.new_uid());
  {
    const FalseMemory small(id, 4096, kSeals);
    expect_refused(id.uid(), BP_INVALID_ARGUMENT, "has 4096 bytes, expected");
  }
  {
    const FalseMemory loose(id, bytes, 0);
    expect_refused(id.uid(), BP_INVALID_ARGUMENT, "not sealed against shrinking");
  }
  {
    const FalseMemory other(id, bytes, kSeals);
    const uint64_t nonce = id.nonce[0] + 1;
    ASSERT_EQ(pwrite(other.file(), &nonce, sizeof(nonce), sizeof(id.tag)),
              static_cast<ssize_t>(sizeof(nonce)));
    expect_refused(id.uid(), BP_INVALID_ARGUMENT, "is another's");
  }
}

// As another process may see it.
TEST_F(NpuMeeting, MemoryThatIsNotFinished_IsWaitedFor) {
  const uint64_t bytes = memory_bytes();
  const Id id(ranks_.new_uid());
  const FalseMemory memory(id, bytes, F_SEAL_SHRINK);
  const uint64_t nothing = 0;
  ASSERT_EQ(pwrite(memory.file(), &nothing, sizeof(nothing), 0),
            static_cast<ssize_t>(sizeof(nothing)));
  bp_comm* comm = nullptr;
  ASSERT_EQ(ranks_.init(0, id.uid(), 0, 1, &comm), BP_OK);
  EXPECT_EQ(poll(comm).state, BP_COMM_JOINING);
  ASSERT_EQ(pwrite(memory.file(), &id.tag, sizeof(id.tag), 0),
            static_cast<ssize_t>(sizeof(id.tag)));
  EXPECT_EQ(poll(comm).state, BP_COMM_READY);
  EXPECT_EQ(collective().comm_destroy(comm), BP_OK);
}

TEST_F(NpuMeeting, ProcessThatHasEnded_IsNamed) {
  Child child;
  Id id(ranks_.new_uid());
  id.process = child.number();
  bp_comm* comm = nullptr;
  ASSERT_EQ(ranks_.init(0, id.uid(), 0, 2, &comm), BP_OK) << "it may make the memory yet";
  EXPECT_EQ(poll(comm).state, BP_COMM_JOINING);
  child.end();
  const bp_comm_state state = poll(comm);
  EXPECT_EQ(state.state, BP_COMM_FAILED);
  EXPECT_EQ(state.status, BP_UNAVAILABLE);
  const std::string who = "process " + std::to_string(id.process);
  EXPECT_THAT(ranks_.host().last_message(), AllOf(HasSubstr(who), HasSubstr("has ended")));
  EXPECT_EQ(collective().comm_destroy(comm), BP_OK);
  expect_refused(id.uid(), BP_UNAVAILABLE, "has ended");
}

TEST_F(NpuMeeting, JoiningIsGivenUp_WithoutMemory) {
  const Child child;
  Id id(ranks_.new_uid());
  id.process = child.number();
  bp_comm* comm = nullptr;
  ASSERT_EQ(ranks_.init(0, id.uid(), 0, 2, &comm), BP_OK);
  EXPECT_EQ(ranks_.abort({comm}), BP_OK);
  EXPECT_EQ(poll(comm).status, BP_CANCELLED);
  EXPECT_EQ(collective().comm_destroy(comm), BP_OK);
}

/// While it lives a limit of this process is another.
class Limit {
 public:
  Limit(int which, rlim_t most) : which_(which) {
    EXPECT_EQ(getrlimit(which_, &before_), 0);
    const rlimit now{most, before_.rlim_max};
    EXPECT_EQ(setrlimit(which_, &now), 0);
  }
  ~Limit() { EXPECT_EQ(setrlimit(which_, &before_), 0); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  const int which_;
  rlimit before_{};
};

TEST_F(NpuMeeting, WithoutDescriptors_JoiningIsRefusedAndTheNextOneWorks) {
  const Uid uid = ranks_.new_uid();
  const int highest = dup(0);
  ASSERT_GE(highest, 0);
  close(highest);
  for (int left = 0; left < 3; ++left) {
    bp_comm* comm = nullptr;
    bp_status status = BP_OK;
    {
      const Limit limit(RLIMIT_NOFILE, static_cast<rlim_t>(highest + left));
      status = ranks_.init(0, uid, 0, 2, &comm);
    }
    if (status == BP_OK) {
      EXPECT_GT(left, 0);
      EXPECT_EQ(collective().comm_destroy(comm), BP_OK);
      continue;
    }
    EXPECT_EQ(status, BP_UNAVAILABLE) << left;
    EXPECT_THAT(ranks_.host().last_message(), HasSubstr("Too many open files"));
  }
  bp_comm* comm = nullptr;
  EXPECT_EQ(ranks_.init(0, uid, 0, 2, &comm), BP_OK);
  EXPECT_EQ(collective().comm_destroy(comm), BP_OK);
}

TEST_F(NpuMeeting, WhereFilesAreSmall_JoiningIsRefused) {
  const Uid uid = ranks_.new_uid();
  const Limit limit(RLIMIT_FSIZE, 1 << 20);
  expect_refused(uid, BP_UNAVAILABLE, "at most 1048576 bytes");
}

}  // namespace
}  // namespace bp::npu_test
