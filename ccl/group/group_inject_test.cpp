// SPDX-License-Identifier: Apache-2.0
//
// Each call of the vendor's driver fails once while ranks join, communicate and leave: every rank
// gets an answer in time, and the next group is as good as new.
#include "backplane/sdk/test_inject.h"
#include "ccl/group/group_harness_test.hpp"

namespace bp::ccl {
namespace {

using std::chrono::seconds;

class GroupInject : public GroupTest {
 protected:
  /// Driver call `nth` from now on fails, of any device of npu; 0: none does.
  void arm(uint64_t nth) {
    const Device& npu = device("npu:0");
    for (const PluginExtension& extension : npu.plugin().tables().extensions) {
      if (extension.name != BP_TEST_INJECT_NAME) continue;
      const auto& table = *static_cast<const bp_test_inject_api*>(extension.table);
      const uint32_t kind = nth != 0 ? BP_INJECT_FAIL_CALL : BP_INJECT_NONE;
      const bp_inject_args args{sizeof(args), 0, kind, BP_INTERNAL, std::max<uint64_t>(nth, 1)};
      ASSERT_EQ(table.inject_arm(npu.plugin().instance(), &args), BP_OK);
      return;
    }
    FAIL() << "npu has no extension " << BP_TEST_INJECT_NAME;
  }

  /// Whether all ranks joined and got their sums. No rank takes long.
  bool run_once(const Devices& devices) {
    store_ = make_memory_store();
    timeout_ = seconds(10);  // no call ends by it, also on a busy machine
    std::atomic<uint32_t> good = 0;
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < devices.size(); ++rank) {
      threads.emplace_back([&, rank] { good += run_rank(devices, rank) ? 1 : 0; });
    }
    for (std::thread& thread : threads) thread.join();
    return good == devices.size();
  }
  bool run_rank(const Devices& devices, uint32_t rank) {
    const auto begin = Clock::now();
    auto group = ProcessGroup::create(group_args(devices, rank));
    EXPECT_LT(Clock::now() - begin, seconds(30));
    if (!group.ok()) {
      EXPECT_FALSE(group.status().message().empty());
      return false;
    }
    Device& on = (*group)->device();
    const std::vector<float> ones(count_, 1);
    const Dims sizes{static_cast<int64_t>(count_)};
    auto send =
        copy_from_host(on.default_stream(), BP_DTYPE_F32, sizes, ones.data(), MemoryTag::kIo);
    auto recv =
        copy_from_host(on.default_stream(), BP_DTYPE_F32, sizes, ones.data(), MemoryTag::kIo);
    if (!send.ok() || !recv.ok()) {
      (*group)->abort((send.ok() ? recv : send).status().to_string());
      return false;
    }
    const auto work =
        (*group)->enqueue(Call{.reduction = reduction_, .send = *send, .recv = *recv});
    if (!work.ok()) {
      (*group)->abort(work.status().to_string());
      return false;
    }
    const Status over = (*work)->wait(Clock::now() + seconds(20));
    // On all ranks: that its stream failed is not why.
    if (!over.ok()) {
      EXPECT_THAT(over.message(), testing::HasSubstr("injected"));
      return false;
    }
    std::vector<float> values(count_);
    const Status read = copy_to_host(*recv, values.data(), count_ * sizeof(float));
    if (!read.ok()) return false;
    const auto sum = static_cast<float>(devices.size());
    EXPECT_EQ(values, std::vector<float>(count_, reduction_ == Reduction::kAvg ? 1 : sum));
    return true;
  }
  /// How many calls failed the group.
  uint64_t sweep(const Devices& devices) {
    constexpr uint64_t kMostCalls = 300;
    uint64_t failed = 0;
    uint64_t nth = 1;
    for (; nth <= kMostCalls; ++nth) {
      arm(nth);
      const bool is_good = run_once(devices);
      arm(0);
      for (const std::string& name : devices) {
        EXPECT_TRUE(device(name).default_stream().reset().ok()) << "after call " << nth;
      }
      EXPECT_TRUE(run_once(devices)) << "the group after call " << nth << " had failed";
      if (HasFailure()) return failed;
      if (!is_good) {
        ++failed;
      } else if (nth > 60) {
        break;
      }
    }
    EXPECT_LE(nth, kMostCalls) << "some call failed each time";
    EXPECT_GT(failed, 3u) << "the calls of joining and enqueueing were not met";
    return failed;
  }

  size_t count_ = 3;
  Reduction reduction_ = Reduction::kSum;
};

TEST_F(GroupInject, EachDriverCall_NativeGroup) { sweep({"npu:0", "npu:1"}); }
TEST_F(GroupInject, EachDriverCall_NativeGroupThatDividesItsSums) {
  make_runtime({{"npu.collective_averages", "false"}});
  reduction_ = Reduction::kAvg;
  sweep({"npu:0", "npu:1"});
}
TEST_F(GroupInject, EachDriverCall_MixedGroup) { sweep({"npu:0", "cpu:0"}); }
TEST_F(GroupInject, EachDriverCall_GroupWithAnIsland) { sweep({"npu:0", "npu:1", "cpu:0"}); }
TEST_F(GroupInject, EachDriverCall_ChunksOfAMixedGroup) {
  make_runtime({}, {{"BACKPLANE_CCL_CHUNK", "256"}});
  count_ = 64 * 5 + 3;
  EXPECT_GT(sweep({"npu:0", "cpu:0"}), 24u) << "the copies of some chunks were not met";
}

}  // namespace
}  // namespace bp::ccl
