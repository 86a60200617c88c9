// SPDX-License-Identifier: Apache-2.0
//
// Tokens that are used again: no request is lost, and none reaches a run that begins after the
// reset.
#include <array>
#include <atomic>
#include <future>
#include <thread>

#include "tests/api/api_fixture.hpp"

namespace bp {
namespace {

class CancelTest : public ApiTest {
 protected:
  NamedTensors square() { return {{"x", make({1, -2, 3, -4}, {2, 2})}}; }
  NamedTensors chain_input() { return {{"x", make(std::vector<float>(20'000, 1.0f), {20'000})}}; }
  static bpa_status end_of(std::future<NamedTensors>& run) {
    if (run.wait_for(kTestDeadline) != std::future_status::ready) return BP_PENDING;
    return status_of([&] { run.get(); });
  }
};

/// Keeps the one worker of a Runtime until it is let go: runs behind it have begun, and none has
/// looked at its token.
class HeldWorker {
 public:
  HeldWorker(const Session& session, const NamedTensors& inputs) {
    auto reached = reached_.get_future();
    session.run_async(inputs, {}, [this](std::exception_ptr, const NamedTensors&) {
      reached_.set_value();
      go_.get_future().wait();
      left_.set_value();
    });
    EXPECT_EQ(reached.wait_for(kTestDeadline), std::future_status::ready);
  }
  ~HeldWorker() { let_go(); }
  HeldWorker(const HeldWorker&) = delete;
  HeldWorker& operator=(const HeldWorker&) = delete;
  void let_go() {
    if (std::exchange(is_let_go_, true)) return;
    auto left = left_.get_future();
    go_.set_value();
    left.wait();
  }

 private:
  std::promise<void> reached_;
  std::promise<void> go_;
  std::promise<void> left_;
  bool is_let_go_ = false;
};

TEST_P(CancelTest, RequestedAndReset_TheTokenIsAsNew) {
  const Session session = load("relu");
  const NamedTensors x = square();
  const Cancel cancel = Cancel::create();
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(session.run(x, {.cancel = cancel}).size(), 1u) << round;
    cancel.request();
    cancel.request();
    for (int run = 0; run < 2; ++run) {
      EXPECT_EQ(status_of([&] { session.run(x, {.cancel = cancel}); }), BP_CANCELLED) << round;
    }
    cancel.reset();
  }
  EXPECT_EQ(session.run_async(x, {.cancel = cancel}).get().size(), 1u);
}

TEST_P(CancelTest, ResetWithoutARequest_DoesNothing) {
  open({{"BACKPLANE_FALLBACK", "allow"}, {"BACKPLANE_WORKERS", "1"}});
  const Session session = load("relu");
  const NamedTensors x = square();
  const Cancel cancel = Cancel::create();
  cancel.reset();
  HeldWorker worker(session, x);
  auto first = session.run_async(x, {.cancel = cancel});
  cancel.reset();
  auto second = session.run_async(x, {.cancel = cancel});
  cancel.request();  // both began before it
  worker.let_go();
  EXPECT_EQ(end_of(first), BP_CANCELLED);
  EXPECT_EQ(end_of(second), BP_CANCELLED);
}

TEST_P(CancelTest, RunsBehindOthers_EndWithoutWaitingForThem) {
  open({{"BACKPLANE_FALLBACK", "allow"}, {"BACKPLANE_WORKERS", "1"}});
  const Session session = load("relu");
  const NamedTensors x = square();
  const Cancel cancel = Cancel::create();
  HeldWorker worker(session, x);
  auto first = session.run_async(x, {.cancel = cancel});
  auto second = session.run_async(x, {.timeout = std::chrono::milliseconds(30)});
  auto third = session.run_async(x);
  EXPECT_EQ(end_of(second), BP_TIMEOUT) << "the worker is still held";
  cancel.request();
  EXPECT_EQ(end_of(first), BP_CANCELLED) << "the worker is still held";
  EXPECT_EQ(third.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  worker.let_go();
  EXPECT_EQ(end_of(third), BP_OK);
}

TEST_P(CancelTest, RunsThatBeganBeforeTheReset_AreCancelled) {
  open({{"BACKPLANE_FALLBACK", "allow"}, {"BACKPLANE_WORKERS", "1"}});
  const Session session = load("relu");
  const NamedTensors x = square();
  const Cancel cancel = Cancel::create();
  HeldWorker worker(session, x);
  auto before_request = session.run_async(x, {.cancel = cancel});
  cancel.request();
  auto before_reset = session.run_async(x, {.cancel = cancel});
  cancel.reset();
  auto after_reset = session.run_async(x, {.cancel = cancel});
  auto without = session.run_async(x);
  worker.let_go();
  EXPECT_EQ(end_of(before_request), BP_CANCELLED);
  EXPECT_EQ(end_of(before_reset), BP_CANCELLED);
  EXPECT_EQ(end_of(after_reset), BP_OK);
  EXPECT_EQ(end_of(without), BP_OK);
}

TEST_P(CancelTest, ManyRequestsAndResets_NoneIsLost) {
  open({{"BACKPLANE_FALLBACK", "allow"}, {"BACKPLANE_WORKERS", "1"}});
  const Session session = load("relu");
  const NamedTensors x = square();
  const Cancel cancel = Cancel::create();
  HeldWorker worker(session, x);
  std::vector<std::future<NamedTensors>> told;
  for (int i = 0; i < 1000; ++i) {
    told.push_back(session.run_async(x, {.cancel = cancel}));
    cancel.request();
    cancel.reset();
  }
  auto last = session.run_async(x, {.cancel = cancel});
  worker.let_go();
  for (auto& run : told) ASSERT_EQ(end_of(run), BP_CANCELLED);
  EXPECT_EQ(end_of(last), BP_OK);
}

TEST_P(CancelTest, RunInProgress_EndsAlthoughTheTokenIsResetAtOnce) {
  const Session session = load("chain");
  const NamedTensors x = chain_input();
  session.run(x);
  const Cancel cancel = Cancel::create();
  // A run may be over before the request comes; then the next one is tried.
  bpa_status status = BP_OK;
  for (int attempt = 0; attempt < 200 && status == BP_OK; ++attempt) {
    std::atomic<bool> begins{false};
    std::thread canceller([&] {
      while (!begins) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      cancel.request();
      cancel.reset();
    });
    begins = true;
    status = status_of([&] { session.run(x, {.cancel = cancel}); });
    canceller.join();
  }
  EXPECT_EQ(status, BP_CANCELLED);
  EXPECT_EQ(session.run(x, {.cancel = cancel}).at("y").to_vector<float>(),
            std::vector<float>(20'000, kChainNodes + 1.0f));
}

TEST_P(CancelTest, TokenReleased_RunsThatItToldStillEnd) {
  open({{"BACKPLANE_FALLBACK", "allow"}, {"BACKPLANE_WORKERS", "1"}});
  const Session session = load("relu");
  const NamedTensors x = square();
  HeldWorker worker(session, x);
  std::future<NamedTensors> told;
  std::future<NamedTensors> untold;
  {
    const Cancel cancel = Cancel::create();
    told = session.run_async(x, {.cancel = cancel});
    cancel.request();
    cancel.reset();
    untold = session.run_async(x, {.cancel = cancel});
  }
  worker.let_go();
  EXPECT_EQ(end_of(told), BP_CANCELLED);
  EXPECT_EQ(end_of(untold), BP_OK);
}

TEST_P(CancelTest, NoToken_IsRefusedByName) {
  EXPECT_EQ(bpa_cancel_reset(nullptr), BP_INVALID_ARGUMENT);
  EXPECT_NE(std::string(bpa_last_error()).find("argument cancel is NULL"), std::string::npos)
      << bpa_last_error();
  bpa_cancel* cancel = nullptr;
  ASSERT_EQ(bpa_cancel_create(&cancel), BP_OK);
  bpa_cancel_release(cancel);
  EXPECT_EQ(bpa_cancel_reset(cancel), BP_INVALID_ARGUMENT);
  EXPECT_NE(std::string(bpa_last_error()).find("argument cancel"), std::string::npos)
      << bpa_last_error();
}

TEST_P(CancelTest, Races_RunsAfterAResetAreWell_OthersAreWellOrCancelled) {
  const Session session = load("relu");
  const NamedTensors x = square();
  const Cancel cancel = Cancel::create();
  std::atomic<bool> over{false};
  std::array<std::atomic<uint64_t>, 3> ends{};  // OK, CANCELLED, others
  const auto run = [&] {
    while (!over) {
      const bpa_status status = status_of([&] { session.run(x, {.cancel = cancel}); });
      ++ends[status == BP_OK ? 0 : status == BP_CANCELLED ? 1 : 2];
    }
  };
  std::vector<std::thread> runners;
  for (int i = 0; i < 2; ++i) runners.emplace_back(run);
  uint64_t refused = 0;
  for (int round = 0; round < 1000; ++round) {
    cancel.request();
    if (status_of([&] { session.run(x, {.cancel = cancel}); }) != BP_CANCELLED) ++refused;
    cancel.reset();
    if (status_of([&] { session.run(x, {.cancel = cancel}); }) != BP_OK) ++refused;
  }
  over = true;
  for (std::thread& runner : runners) runner.join();
  EXPECT_EQ(refused, 0u);
  EXPECT_EQ(ends[2], 0u);
  EXPECT_GT(ends[0], 0u);
}

INSTANTIATE_TEST_SUITE_P(Devices, CancelTest, testing::ValuesIn(tests::device_names()),
                         device_name_of);

}  // namespace
}  // namespace bp
