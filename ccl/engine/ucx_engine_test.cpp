// SPDX-License-Identifier: Apache-2.0
//
// The UCX engine in moments without memory. This program's operator new is the engine's, too.
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <new>
#include <utility>

#include "ccl/engine/abi/engine_abi.h"
#include "ccl/engine/engine_harness_test.hpp"
#include "ccl/engine/load_library.hpp"

namespace {

/// How many allocations of this thread are to succeed before one fails; -1: all do.
thread_local int t_before_failure = -1;

void* allocate(size_t bytes) {
  if (t_before_failure == 0) {
    t_before_failure = -1;
    throw std::bad_alloc();
  }
  if (t_before_failure > 0) --t_before_failure;
  if (void* const memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(size_t bytes) { return allocate(bytes); }
void* operator new[](size_t bytes) { return allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace bp::ccl {
namespace {

/// An end behind the library's table alone, so that what fails is the engine's own.
struct BareEnd {
  explicit BareEnd(EngineKind kind = EngineKind::kShared) {
    const auto library = library_args(kind);
    const auto found = load_engine_library(library);
    EXPECT_TRUE(found.ok()) << found.status().to_string();
    api = *found;
    const bp_engine_args args{library.interface_name.c_str(), library.uses_shared_memory ? 1u : 0u};
    bp_engine_words words{};
    EXPECT_EQ(api->create(&args, &engine, &words), BP_OK) << words.text;
  }
  ~BareEnd() { close(); }
  void close() {
    if (engine != nullptr) api->destroy(std::exchange(engine, nullptr));
  }
  void connect(const BareEnd& other, uint32_t number = 0) {
    const void* address = nullptr;
    uint64_t size = 0;
    api->address(other.engine, &address, &size);
    bp_engine_words words{};
    EXPECT_EQ(api->connect(engine, number, address, size, &words), BP_OK) << words.text;
  }
  /// The `failing`-th allocation fails, and `failing` is -1 then; -1: none does.
  void progress(int* failing) {
    bp_engine_inbox inbox{this, message_arrived, peer_lost, [](void*, void*, int32_t) {}};
    t_before_failure = *failing;
    api->progress(engine, &inbox);
    if (t_before_failure < 0) *failing = -1;
    t_before_failure = -1;
  }
  static void message_arrived(void* self, uint32_t, const void*, uint64_t, uint64_t,
                              uint64_t token) {
    const int before = std::exchange(t_before_failure, -1);
    static_cast<BareEnd*>(self)->tokens.push_back(token);
    t_before_failure = before;
  }
  static void peer_lost(void* self, uint32_t, int32_t, const char*) {
    ++static_cast<BareEnd*>(self)->lost_count;
  }
  const bp_engine_api* api = nullptr;
  bp_engine* engine = nullptr;
  std::vector<uint64_t> tokens;
  int lost_count = 0;
};

/// ... and lets them say all that they have to say.
void connect_both(BareEnd* a, BareEnd* b) {
  a->connect(*b);
  b->connect(*a);
  int none = -1;
  for (int i = 0; i < 50; ++i) {
    a->progress(&none);
    b->progress(&none);
  }
}

/// False: not in time. `failing` is BareEnd::progress()'s.
bool progress_until(BareEnd* end, int* failing, const std::function<bool()>& is_so) {
  const auto until = Clock::now() + std::chrono::seconds(20);
  while (!is_so() && Clock::now() < until) end->progress(failing);
  return is_so();
}

size_t descriptor_count() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

constexpr int kMostAllocations = 12;  // more than a progress() has here

TEST(UcxEngine, NoMemoryWhereAPeerIsLost_IsToldOfItAllTheSame) {
  for (int at = 0; at < kMostAllocations; ++at) {
    BareEnd stays;
    BareEnd leaves;
    connect_both(&stays, &leaves);
    leaves.close();
    int failing = at;
    EXPECT_TRUE(progress_until(&stays, &failing, [&] { return stays.lost_count > 0; }))
        << "allocation " << at;
    EXPECT_LE(stays.lost_count, 1);
  }
}

TEST(UcxEngine, NoMemoryWhereAnEndIsMade_LeavesNoDescriptor) {
  const BareEnd first;  // which loads the library
  const bp_engine_args args{"", 1};
  const size_t before = descriptor_count();
  bool has_failed = true;
  for (int at = 0; has_failed; ++at) {
    bp_engine* made = nullptr;
    bp_engine_words words{};
    errno = EAGAIN;  // its words do not fit into a string without an allocation
    t_before_failure = at;
    first.api->create(&args, &made, &words);
    has_failed = std::exchange(t_before_failure, -1) < 0;
    if (made != nullptr) first.api->destroy(made);
    EXPECT_EQ(descriptor_count(), before) << "allocation " << at;
  }
}

TEST(UcxEngine, NoMemoryWhereAnEndGoes_IsToldToItsPeerAllTheSame) {
  for (int at = 0; at < kMostAllocations; ++at) {
    BareEnd stays;
    BareEnd leaves;
    connect_both(&stays, &leaves);
    int none = -1;
    t_before_failure = at;
    leaves.close();
    t_before_failure = -1;
    EXPECT_TRUE(progress_until(&stays, &none, [&] { return stays.lost_count > 0; }))
        << "allocation " << at;
  }
}

// A message is missing then, and its sender has to hear that nothing comes of it.
TEST(UcxEngine, NoMemoryForAMessage_IsToldOnBothSides) {
  bool has_lost = false;
  for (int at = 0; at < kMostAllocations; ++at) {
    BareEnd from;
    BareEnd to;
    connect_both(&from, &to);
    int none = -1;
    const Bytes payload = pattern(100, 1);
    from.api->send(from.engine, 0, "h", 1, payload.data(), payload.size(), nullptr);
    int failing = at;
    const auto is_over = [&] { return !to.tokens.empty() || to.lost_count > 0; };
    ASSERT_TRUE(progress_until(&to, &failing, is_over)) << "allocation " << at;
    if (to.lost_count == 0) continue;
    has_lost = true;
    EXPECT_TRUE(progress_until(&from, &none, [&] { return from.lost_count > 0; })) << at;
  }
  EXPECT_TRUE(has_lost);
}

/// Two ends over a network that have not met, and a third one whose message finds no memory.
void lose_a_peer_before_they_meet(int at, bool* has_lost) {
  BareEnd end(EngineKind::kNetwork);
  BareEnd apart(EngineKind::kNetwork);
  BareEnd sender(EngineKind::kNetwork);
  int none = -1;
  const Bytes payload = pattern(3000, 1);
  const auto send = [&] {
    sender.api->send(sender.engine, 0, "h", 1, payload.data(), payload.size(), nullptr);
  };
  end.connect(sender, 1);
  sender.connect(end);
  send();
  const auto both_until = [&](BareEnd* other, const std::function<bool()>& is_so) {
    return progress_until(&end, &none, [&] {
      other->progress(&none);
      return is_so();
    });
  };
  ASSERT_TRUE(both_until(&sender, [&] { return !end.tokens.empty(); }));
  end.connect(apart, 0);
  apart.connect(end);
  for (int i = 0; i < 20; ++i) send();
  int failing = at;
  ASSERT_TRUE(progress_until(&end, &failing,
                             [&] {
                               sender.progress(&none);
                               return end.tokens.size() == 21 || end.lost_count == 2;
                             }))
      << "allocation " << at;
  if (end.lost_count == 0) return;
  *has_lost = true;
  EXPECT_TRUE(both_until(&apart, [&] { return apart.lost_count > 0; })) << "allocation " << at;
}

TEST(UcxEngine, NoMemoryBeforeTwoEndsHaveMet_IsToldOnBothSides) {
  bool has_lost = false;
  for (int at = 0; at < kMostAllocations; ++at) lose_a_peer_before_they_meet(at, &has_lost);
  EXPECT_TRUE(has_lost);
}

// They wait for the connection, and are taken one after the other.
TEST(UcxEngine, NoMemoryWhereMessagesAreTaken_LosesAndSwapsNone) {
  constexpr unsigned kCount = 12;
  for (int at = 0; at < 3 * kMostAllocations; ++at) {
    BareEnd from;
    BareEnd to;
    from.connect(to);
    int failing = -1;
    for (unsigned i = 0; i < kCount; ++i) {
      const Bytes payload = pattern(5000, i);
      EXPECT_EQ(from.api->send(from.engine, 0, "h", 1, payload.data(), payload.size(), nullptr),
                BP_OK);
    }
    for (int i = 0; i < 50; ++i) {
      from.progress(&failing);
      to.progress(&failing);
    }
    to.connect(from);
    failing = at;
    // One that comes only now, and finds no memory, ends the connection with words.
    const auto is_over = [&] {
      int none = -1;
      from.progress(&none);  // what had not left it yet
      return to.tokens.size() >= kCount || to.lost_count > 0;
    };
    ASSERT_TRUE(progress_until(&to, &failing, is_over)) << "allocation " << at;
    for (unsigned i = 0; i < to.tokens.size(); ++i) {
      Bytes got(5000);
      EXPECT_EQ(to.api->receive(to.engine, to.tokens[i], got.data(), nullptr), BP_OK);
      EXPECT_EQ(got, pattern(5000, i)) << "allocation " << at << ", message " << i;
    }
  }
}

}  // namespace
}  // namespace bp::ccl
