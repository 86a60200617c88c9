// SPDX-License-Identifier: Apache-2.0
//
// A library whose init waits until the test lets it go, with an abort and without.
#include "backplane/sdk/comm_init.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/living_threads.hpp"

namespace bp::sdk {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr seconds kDeadline{30};  // for what hangs

bool comes_true(const std::function<bool()>& is_true) {
  const auto end = steady_clock::now() + kDeadline;
  while (!is_true()) {
    if (steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// What the other ranks do, and what became of the library's objects.
struct World {
  void release() {
    const std::lock_guard lock(mutex);
    is_released = true;
    changed.notify_all();
  }
  void abort() {
    const std::lock_guard lock(mutex);
    is_aborted = true;
    changed.notify_all();
  }
  /// False: aborted.
  bool wait_for_ranks() {
    std::unique_lock lock(mutex);
    is_waiting = true;
    changed.wait(lock, [this] { return is_released || is_aborted; });
    return !is_aborted;
  }

  std::mutex mutex;
  std::condition_variable changed;
  bool is_released = false;
  bool is_aborted = false;
  std::atomic<bool> is_waiting{false};
  std::function<void()> at_the_end;  // of init, where it may throw
  std::chrono::milliseconds lag{0};  // of the library, once it is aborted
  std::atomic<int> libraries{0};
  std::atomic<int> comms{0};
  std::atomic<int> comms_made{0};
  std::atomic<int> orphans{0};  // comms that ended after their library
};

class FakeComm {
 public:
  explicit FakeComm(World* world) : world_(world) {
    ++world->comms;
    ++world->comms_made;
  }
  FakeComm(FakeComm&& other) noexcept : world_(std::exchange(other.world_, nullptr)) {}
  FakeComm& operator=(FakeComm&&) = delete;
  ~FakeComm() {
    if (world_ == nullptr) return;
    if (world_->libraries == 0) ++world_->orphans;
    --world_->comms;
  }
  World* world() const { return world_; }

 private:
  World* world_;
};

struct Blocking {
  explicit Blocking(World* its) : world(its) { ++world->libraries; }
  ~Blocking() { --world->libraries; }
  Blocking(const Blocking&) = delete;
  Blocking& operator=(const Blocking&) = delete;

  FakeComm init() {
    if (!world->wait_for_ranks()) {
      std::this_thread::sleep_for(world->lag);
      fail(BP_UNAVAILABLE, "the library was aborted");
    }
    if (world->at_the_end) world->at_the_end();
    return FakeComm(world);
  }
  World* world;
};

struct Abortable : Blocking {
  using Blocking::Blocking;
  void abort() { world->abort(); }
};

struct Stubborn : Blocking {
  using Blocking::Blocking;
  void abort() { throw std::runtime_error("no such communicator"); }
};

/// Reports and log lines, as a core would get them.
struct Heard {
  Heard() {
    api.struct_size = sizeof(api);
    api.report = [](void* heard, const bp_report_info* info) {
      static_cast<Heard*>(heard)->reports.emplace_back(view(info->message));
      static_cast<Heard*>(heard)->vendor_code = info->vendor_code;
    };
    api.log = [](void* heard, uint32_t level, bp_str words) {
      static_cast<Heard*>(heard)->log.push_back(std::to_string(level) + " " +
                                                std::string(view(words)));
    };
  }
  Host host() { return Host(&api, this); }
  bp_host_api api{};
  std::vector<std::string> reports, log;
  int64_t vendor_code = 0;
};

/// ThreadSanitizer begins one of its own with the first of the process.
std::set<std::string> threads_before() {
  std::thread([] {}).join();
  return tests::living_threads();
}

/// Why there is no Comm to enqueue on.
template <class Library>
Failure refusal_of(const CommInit<Library>& init) {
  try {
    init.require_ready();
  } catch (const Failure& why) {
    return why;
  }
  return {BP_OK, "it is ready"};
}

class CommInitTest : public testing::Test {
 protected:
  void TearDown() override {
    world_.release();
    EXPECT_TRUE(comes_true([this] { return world_.libraries == 0; }));
    EXPECT_EQ(world_.comms, 0);
    EXPECT_EQ(world_.orphans, 0);
    EXPECT_TRUE(comes_true([this] { return tests::living_threads() == threads_; }))
        << "a thread is left";
  }

  template <class Library>
  std::unique_ptr<CommInit<Library>> begin() {
    return std::make_unique<CommInit<Library>>(std::make_unique<Library>(&world_));
  }
  template <class Library>
  std::unique_ptr<CommInit<Library>> begin_and_wait() {
    auto begun = begin<Library>();
    EXPECT_TRUE(comes_true([this] { return world_.is_waiting.load(); }));
    return begun;
  }
  /// Once it has left JOINING.
  template <class Library>
  bp_comm_state settled(const CommInit<Library>& init) {
    EXPECT_TRUE(comes_true([&] { return init.poll(Host()).state != BP_COMM_JOINING; }));
    return init.poll(heard_.host());
  }

  const std::set<std::string> threads_ = threads_before();
  World world_;
  Heard heard_;
};

TEST_F(CommInitTest, Init_WhileRanksAreMissing_IsJoiningAndThenReady) {
  const auto init = begin_and_wait<Blocking>();
  EXPECT_EQ(init->poll(heard_.host()).state, BP_COMM_JOINING);
  EXPECT_EQ(init->poll(heard_.host()).status, BP_OK);
  EXPECT_EQ(refusal_of(*init).status, BP_PENDING);
  world_.release();
  const bp_comm_state state = settled(*init);
  EXPECT_EQ(state.struct_size, sizeof(state));
  EXPECT_EQ(state.state, BP_COMM_READY);
  EXPECT_EQ(state.status, BP_OK);
  EXPECT_EQ(init->require_ready().world(), &world_);
  EXPECT_EQ(world_.comms, 1);
  EXPECT_EQ(heard_.reports, std::vector<std::string>());
}

TEST_F(CommInitTest, Destroy_OfWhatIsReady_EndsAllBeforeItReturns) {
  auto init = begin<Blocking>();
  world_.release();
  EXPECT_EQ(settled(*init).state, BP_COMM_READY);
  init.reset();
  EXPECT_EQ(world_.comms, 0);
  EXPECT_EQ(world_.libraries, 0);
  EXPECT_EQ(tests::living_threads(), threads_);
}

TEST_F(CommInitTest, Failure_KeepsStatusWordsAndCodeForEachPoll) {
  world_.at_the_end = [] { throw Failure{BP_INVALID_ARGUMENT, "rank 3 is taken", 42}; };
  const auto init = begin<Blocking>();
  world_.release();
  EXPECT_EQ(settled(*init).state, BP_COMM_FAILED);
  EXPECT_EQ(init->poll(heard_.host()).status, BP_INVALID_ARGUMENT);
  EXPECT_EQ(heard_.reports, std::vector<std::string>(2, "rank 3 is taken"));
  EXPECT_EQ(heard_.vendor_code, 42);
  EXPECT_EQ(init->abort(heard_.host()), nullptr);
  EXPECT_EQ(init->poll(heard_.host()).status, BP_INVALID_ARGUMENT) << "the first cause stays";
  EXPECT_EQ(refusal_of(*init).status, BP_INVALID_ARGUMENT);
  EXPECT_EQ(refusal_of(*init).message, "rank 3 is taken");
}

TEST_F(CommInitTest, LibraryThatThrows_IsInternalWithItsWords) {
  world_.at_the_end = [] { throw std::runtime_error("oneCCL: kvs is gone"); };
  const auto init = begin<Blocking>();
  world_.release();
  EXPECT_EQ(settled(*init).status, BP_INTERNAL);
  EXPECT_EQ(heard_.reports, std::vector<std::string>(1, "oneCCL: kvs is gone"));
}

TEST_F(CommInitTest, LibraryThatThrowsWhatIsNoException_IsInternal) {
  world_.at_the_end = [] { throw 7; };
  const auto init = begin<Blocking>();
  world_.release();
  EXPECT_EQ(settled(*init).status, BP_INTERNAL);
  EXPECT_EQ(heard_.reports, std::vector<std::string>(1, "unknown exception inside the plugin"));
}

TEST_F(CommInitTest, Abort_WhileItJoins_MakesTheLibraryReturn) {
  auto init = begin_and_wait<Abortable>();
  EXPECT_EQ(init->abort(heard_.host()), nullptr);
  EXPECT_EQ(init->poll(heard_.host()).state, BP_COMM_FAILED);
  EXPECT_EQ(init->poll(heard_.host()).status, BP_CANCELLED);
  EXPECT_EQ(heard_.reports, std::vector<std::string>(2, "the communicator was aborted"));
  EXPECT_EQ(init->abort(heard_.host()), nullptr);
  EXPECT_TRUE(comes_true([this] { return tests::living_threads() == threads_; }));
  EXPECT_EQ(init->poll(heard_.host()).status, BP_CANCELLED) << "what the library said is later";
  EXPECT_EQ(world_.comms_made, 0);
}

TEST_F(CommInitTest, Abort_OfALibraryWithout_FailsAtOnceAndEndsWhatComesLate) {
  auto init = begin_and_wait<Blocking>();
  EXPECT_EQ(init->abort(heard_.host()), nullptr);
  EXPECT_EQ(init->poll(heard_.host()).status, BP_CANCELLED);
  world_.release();
  EXPECT_TRUE(comes_true([this] { return world_.comms_made == 1 && world_.comms == 0; }));
  EXPECT_EQ(init->poll(heard_.host()).state, BP_COMM_FAILED);
  EXPECT_EQ(world_.libraries, 1) << "it ends with the communicator";
}

TEST_F(CommInitTest, Abort_OfWhatIsReady_AnswersTheCommOnce) {
  const auto init = begin<Abortable>();
  world_.release();
  EXPECT_EQ(settled(*init).state, BP_COMM_READY);
  FakeComm* const comm = init->abort(heard_.host());
  ASSERT_NE(comm, nullptr);
  EXPECT_EQ(comm->world(), &world_);
  EXPECT_EQ(init->abort(heard_.host()), nullptr);
  EXPECT_EQ(init->poll(heard_.host()).status, BP_CANCELLED);
  EXPECT_EQ(world_.comms, 1) << "it ends with the communicator";
  EXPECT_FALSE(world_.is_aborted) << "abort() is for an init in progress";
}

TEST_F(CommInitTest, Abort_ThatThrows_IsAWarning) {
  const auto init = begin_and_wait<Stubborn>();
  EXPECT_EQ(init->abort(heard_.host()), nullptr);
  EXPECT_EQ(heard_.log, std::vector<std::string>(1, "2 no such communicator"));
  EXPECT_EQ(heard_.reports, std::vector<std::string>());
  EXPECT_EQ(init->poll(heard_.host()).status, BP_CANCELLED);
}

TEST_F(CommInitTest, Destroy_WhileItJoins_AbortsAndJoinsTheThread) {
  world_.lag = std::chrono::milliseconds(50);
  begin_and_wait<Abortable>().reset();
  EXPECT_TRUE(world_.is_aborted);
  EXPECT_EQ(world_.libraries, 0);
  EXPECT_EQ(tests::living_threads(), threads_);
}

TEST_F(CommInitTest, Destroy_BeforeTheThreadHasBegun_HangsNowhere) {
  for (int i = 0; i < 100; ++i) begin<Abortable>().reset();
  EXPECT_EQ(world_.libraries, 0);
  EXPECT_EQ(world_.comms_made, 0);
  EXPECT_EQ(tests::living_threads(), threads_);
}

TEST_F(CommInitTest, Destroy_WithoutAbort_LeavesAThreadThatEndsWhatComesLate) {
  auto init = begin_and_wait<Blocking>();
  const auto before = steady_clock::now();
  init.reset();
  EXPECT_LT(steady_clock::now() - before, seconds(10));
  EXPECT_EQ(world_.libraries, 1) << "the thread uses it";
  EXPECT_EQ(tests::living_threads().size(), threads_.size() + 1);
  world_.release();
  EXPECT_TRUE(comes_true([this] { return world_.libraries == 0; }));
  EXPECT_EQ(world_.comms_made, 1);
  EXPECT_EQ(world_.comms, 0);
}

TEST_F(CommInitTest, Destroy_WithAnAbortThatDoesNotHelp_LeavesTheThreadToo) {
  auto init = begin_and_wait<Stubborn>();
  const auto before = steady_clock::now();
  init.reset();
  EXPECT_LT(steady_clock::now() - before, seconds(10));
  EXPECT_EQ(world_.libraries, 1);
}

/// A Comm whose end is seen from within abort would be one that abort still uses.
struct SlowAbort : Blocking {
  using Blocking::Blocking;
  void abort() {
    world->release();  // init returns, with a Comm
    EXPECT_TRUE(comes_true([this] { return world->comms_made == 1; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    comms_during_abort = world->comms;
  }
  ~SlowAbort() { EXPECT_EQ(comms_during_abort, 1); }
  int comms_during_abort = 0;
};

TEST_F(CommInitTest, CommThatComesLate_DoesNotEndWhileAbortIsInProgress) {
  begin_and_wait<SlowAbort>().reset();
  EXPECT_EQ(world_.comms, 0);
  EXPECT_EQ(world_.libraries, 0);
}

TEST_F(CommInitTest, AbortAndRelease_AtOnce_LeaveOneAnswer) {
  for (int i = 0; i < 200; ++i) {
    World world;
    CommInit<Blocking> init(std::make_unique<Blocking>(&world));
    std::thread other([&world] { world.release(); });
    FakeComm* const ready = init.abort(Host());
    EXPECT_EQ(init.poll(Host()).status, BP_CANCELLED);
    EXPECT_TRUE(ready == nullptr || ready->world() == &world);
    other.join();
    // The world outlives what the thread still has of it.
    EXPECT_TRUE(comes_true([&] { return world.comms == (ready != nullptr ? 1 : 0); }));
    EXPECT_TRUE(comes_true([this] { return tests::living_threads() == threads_; }));
  }
}

}  // namespace
}  // namespace bp::sdk
