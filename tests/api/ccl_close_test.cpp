// SPDX-License-Identifier: Apache-2.0
//
// The ends of groups, work and Runtimes in any order, while ranks wait and others call.
#include <gmock/gmock.h>

#include <array>
#include <future>

#include "tests/api/ccl_fixture.hpp"
#include "tests/environment.hpp"

namespace bp {
namespace {

using ccl::Group;
using testing::HasSubstr;

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kSoon{
    20};  // far less than the timeout of 60, also on a busy machine

class CclClose : public CclTest, public testing::WithParamInterface<DeviceNames> {
 protected:
  void SetUp() override {
    timeout_ = std::chrono::seconds(60);
    if (!has_all(GetParam())) GTEST_SKIP() << "a device is not on this machine";
  }

  /// A call that comes when the Runtime is closed already, on a busy machine, proves nothing, and
  /// there is another try. What the last one answered.
  bpa_status until_in_time(const std::function<bpa_status()>& attempt) {
    constexpr int kTries = 5;
    bpa_status status = attempt();
    for (int i = 1; i < kTries && status == BP_GONE && !HasFailure(); ++i) {
      open({});
      status = attempt();
    }
    return status;
  }
  void close_under(const std::function<void(const Group&, const Tensor&)>& wait) {
    EXPECT_EQ(until_in_time([&] { return try_close_under(wait); }), BP_CANCELLED);
  }
  /// Rank 1 calls and waits for rank 0, which never comes; then the Runtime is closed. What the
  /// call answers.
  bpa_status try_close_under(const std::function<void(const Group&, const Tensor&)>& wait) {
    std::promise<void> waits;
    bpa_status answer = BP_OK;
    std::promise<void> closed;
    auto may_end = closed.get_future();
    std::thread closer([&] {
      waits.get_future().wait();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      const auto begin = Clock::now();
      EXPECT_EQ(bpa_runtime_close(runtime_->handle()), BP_OK) << bpa_last_error();
      EXPECT_LT(Clock::now() - begin, kSoon);
      closed.set_value();
    });
    run(GetParam(), [&](const Group& group, Device device) {
      if (group.rank() == 0) return may_end.wait();
      if (group.rank() == 1) {
        const Tensor x = upload(device, {1, 2});
        waits.set_value();
        answer = status_of([&] { wait(group, x); });
      }
      may_end.wait();
      EXPECT_EQ(status_of([&] { group.barrier(); }), BP_GONE);
      EXPECT_EQ(group.failure().code, BP_CANCELLED);
      EXPECT_THAT(group.failure().words, HasSubstr("Runtime"));
      EXPECT_EQ(group.rank_count(), GetParam().size());
      EXPECT_FALSE(group.trace().empty());
      group.abort("too late");
    });
    closer.join();
    return answer;
  }
  /// What rank 0 is told that waits for another one when the Runtime is closed.
  bpa_status try_close_under_create() {
    bpa_status status = BP_OK;
    std::string words;
    std::thread joining([&] {
      status = status_of(
          [&] {
            Group::create(
                runtime_->device(GetParam()[0]),
                {.store = ccl::Store::memory(), .rank = 0, .rank_count = 2, .timeout = timeout_});
          },
          &words);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const auto begin = Clock::now();
    runtime_->close();
    EXPECT_LT(Clock::now() - begin, kSoon);
    joining.join();
    if (status != BP_GONE) {
      EXPECT_THAT(words, HasSubstr("the Runtime was closed while ranks joined"));
    }
    return status;
  }
};

TEST_P(CclClose, Closed_UnderACallThatWaits_ItIsCancelled) {
  close_under([](const Group& group, const Tensor& x) { group.all_reduce(x); });
}
TEST_P(CclClose, Closed_UnderAWaitForWork_ItIsCancelled) {
  close_under([](const Group& group, const Tensor& x) { group.async().all_reduce(x).wait(); });
}
TEST_P(CclClose, Closed_UnderABarrier_ItIsCancelled) {
  close_under([](const Group& group, const Tensor&) { group.barrier(); });
}
TEST_P(CclClose, Closed_UnderARecv_ItIsCancelled) {
  close_under([](const Group& group, const Tensor& x) { group.recv(x, 0); });
}

TEST_P(CclClose, Closed_UnderACreate_ItIsCancelled) {
  EXPECT_EQ(until_in_time([&] { return try_close_under_create(); }), BP_CANCELLED);
}

TEST_P(CclClose, Released_WhileItsOperationGoesOn_WaitsForTheOthers) {
  std::atomic<bool> has_come{false};
  std::atomic<uint32_t> begun{0};
  run(GetParam(), [&](const Group& group, Device device) {
    if (group.rank() != 0) {
      const Tensor x = upload(device, {1});
      {
        const Group mine = group;
        mine.async().all_reduce(x);
      }
      EXPECT_FALSE(has_come);  // others hold the group
      meet(&begun, group.rank_count());
      EXPECT_EQ(x.to_vector<float>(), Floats{static_cast<float>(group.rank_count())});
      return;
    }
    meet(&begun, group.rank_count());
    has_come = true;
    group.all_reduce(upload(device, {1}));
  });
  // The last owner of each is gone at once.
  has_come = false;
  std::atomic<uint32_t> released{0};
  run_owners(GetParam(), [&](Group group, Device device) {
    if (group.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      EXPECT_EQ(released, 0u);
      has_come = true;
    }
    group.async().all_reduce(upload(device, {1}));
    group = Group();
    EXPECT_TRUE(has_come);
    ++released;
  });
}

TEST_P(CclClose, Work_OutlivesItsGroupAndItsRuntime) {
  std::vector<ccl::Work> works(GetParam().size());
  run(GetParam(), [&](const Group& group, Device device) {
    works[group.rank()] = group.async().all_reduce(upload(device, {1, 2, 3}));
  });
  for (const ccl::Work& work : works) {
    EXPECT_TRUE(work.done());
    work.wait();
  }
  runtime_->close();
  for (const ccl::Work& work : works) {
    EXPECT_EQ(status_of([&] { work.done(); }), BP_GONE);
    EXPECT_EQ(status_of([&] { work.wait(); }), BP_GONE);
    EXPECT_FALSE(work.failure());
  }
  runtime_.reset();
  EXPECT_FALSE(works[0].failure());
}

TEST_P(CclClose, RuntimeReleasedFirst_GroupsGoOn) {
  std::vector<Device> devices;
  for (const std::string& name : GetParam()) devices.push_back(runtime_->device(name));
  std::optional<Runtime> last = std::move(runtime_);
  store_ = ccl::Store::memory();
  std::vector<std::thread> threads;
  std::vector<Group> groups(devices.size());
  for (uint32_t rank = 0; rank < devices.size(); ++rank) {
    threads.emplace_back([&, rank] {
      groups[rank] =
          Group::create(devices[rank], group_options(rank, static_cast<uint32_t>(devices.size())));
    });
  }
  for (std::thread& thread : threads) thread.join();
  last.reset();
  threads.clear();
  for (uint32_t rank = 0; rank < devices.size(); ++rank) {
    threads.emplace_back([&, rank] {
      const Tensor x = upload(devices[rank], {1});
      groups[rank].all_reduce(x);
      EXPECT_EQ(x.to_vector<float>(), Floats{static_cast<float>(devices.size())});
      groups[rank] = Group();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(CclClose, Released_WhileTheRuntimeCloses_BothEnd) {
  const uint64_t rounds = tests::number_from_environment("BP_CCL_ROUNDS", 10);
  for (uint64_t round = 0; round < rounds && !HasFailure(); ++round) {
    open({});
    std::atomic<uint32_t> begun{0};
    std::thread closer([&] {
      while (begun < GetParam().size()) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::microseconds(100 * round));
      EXPECT_EQ(bpa_runtime_close(runtime_->handle()), BP_OK) << bpa_last_error();
    });
    const auto begin = Clock::now();
    run_owners(GetParam(), [&](Group group, Device device) {
      ccl::Work work;
      // Rank 0 never comes, and may have left before; or the Runtime may be closed.
      status_of([&] {
        const Tensor x = upload(device, {1, 2});
        if (group.rank() != 0) work = group.async().all_reduce(x);
      });
      ++begun;
      std::this_thread::sleep_for(std::chrono::microseconds(100 * (rounds - round)));
      group = Group();
      work = ccl::Work();
    });
    closer.join();
    EXPECT_LT(Clock::now() - begin, kSoon);
  }
}

INSTANTIATE_TEST_SUITE_P(Groups, CclClose, testing::ValuesIn(pairs_and_all()), name_of_group);

class CclThreads : public CclTest {};

/// Eight threads: of two groups, one on linked devices, each rank has one for its collectives and
/// one for sends and recvs on a stream of its own, with looks at the group between.
TEST_F(CclThreads, EightOnTwoGroups_GetTheirOwnResults) {
  const uint64_t rounds = tests::number_from_environment("BP_CCL_ROUNDS", 200);
  const std::array<DeviceNames, 2> devices = {DeviceNames{"cpu:0", "npu:0"},
                                              DeviceNames{"npu:0", "npu:1"}};
  const ccl::Store store = ccl::Store::memory();
  std::vector<std::thread> threads;
  std::atomic<uint64_t> wrong{0};
  const auto collectives = [&](const Group& group, Device device) {
    for (uint64_t i = 0; i < rounds; ++i) {
      const auto own = static_cast<float>(i + group.rank());
      const Tensor x = upload(device, Floats(1 + i % 50, own));
      if (i % 3 == 0) {
        group.async().all_reduce(x);
      } else {
        group.all_reduce(x);
      }
      if (x.to_vector<float>()[i % 50] != static_cast<float>(2 * i + 1)) ++wrong;
    }
  };
  const auto pairs = [&](const Group& group, Device device) {
    const Stream stream = Stream::create(device);
    for (uint64_t i = 0; i < rounds; ++i) {
      const auto sent = static_cast<float>(i + 10 * group.rank());
      const Tensor received = room(device, 3);
      group.batch({{.kind = ccl::Kind::send,
                    .root = 1 - group.rank(),
                    .send = upload(device, Floats(3, sent))},
                   {.kind = ccl::Kind::recv, .root = 1 - group.rank(), .recv = received}},
                  {.stream = stream});
      if (received.to_vector<float>()[2] != static_cast<float>(i + 10 * (1 - group.rank())))
        ++wrong;
      if (group.failure() || group.info().rank_count != 2) ++wrong;
      if (i % 20 == 0 && group.trace().empty()) ++wrong;
    }
  };
  for (size_t number = 0; number < devices.size(); ++number) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, number, rank] {
        const Device device = runtime_->device(devices[number][rank]);
        const Group group = Group::create(device, {.store = store,
                                                   .name = std::to_string(number),
                                                   .rank = rank,
                                                   .rank_count = 2,
                                                   .timeout = timeout_});
        std::thread other([&] { EXPECT_NO_THROW(pairs(group, device)); });
        EXPECT_NO_THROW(collectives(group, device));
        other.join();
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
}

/// The line that tells of the failure comes on the thread that the group's end would wait for.
TEST_F(CclThreads, GroupReleasedInALogSink_EndsOnAnotherThread) {
  static std::atomic<bpa_ccl_group*> group{nullptr};
  static std::atomic<int> released{0};
  bpa_log_set_sink(
      [](void*, uint32_t, const char*, uint64_t) {
        bpa_ccl_group* const last = group.exchange(nullptr);
        if (last == nullptr) return;
        bpa_ccl_group_release(last);
        ++released;
      },
      nullptr);
  const ccl::Store store = ccl::Store::memory();
  std::array<std::thread, 2> threads;
  std::atomic<bool> is_over{false};
  for (uint32_t rank = 0; rank < 2; ++rank) {
    threads[rank] = std::thread([&, rank] {
      const Device device = runtime_->device("npu:0");
      bpa_ccl_group_args args{};
      args.struct_size = sizeof(args);
      args.store = store.handle();
      args.rank = rank;
      args.rank_count = 2;
      bpa_ccl_group* made = nullptr;
      ASSERT_EQ(bpa_ccl_group_create(device.handle(), &args, &made), BP_OK) << bpa_last_error();
      if (rank == 0) {
        group = made;
        EXPECT_EQ(bpa_ccl_group_abort(made, "to be told"), BP_OK);
        const auto deadline = Clock::now() + kTestDeadline;
        while (released == 0 && Clock::now() < deadline) std::this_thread::yield();
        is_over = true;
      } else {
        while (!is_over) std::this_thread::yield();
        bpa_ccl_group_release(made);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  bpa_log_set_sink(nullptr, nullptr);
  EXPECT_EQ(released, 1);
  runtime_->close();
}

}  // namespace
}  // namespace bp
