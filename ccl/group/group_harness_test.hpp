// SPDX-License-Identifier: Apache-2.0
//
// Groups whose ranks are threads of this process, each with a device of one Runtime: what a rank
// puts in, what must come out, and what each rank's body does.
#ifndef BACKPLANE_CCL_GROUP_GROUP_HARNESS_TEST_HPP
#define BACKPLANE_CCL_GROUP_GROUP_HARNESS_TEST_HPP

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ccl/group/group.hpp"
#include "core/base/dtype.hpp"
#include "core/dispatch/call.hpp"
#include "core/op/scalar.hpp"
#include "ops/register.hpp"

namespace bp::ccl {

using Devices = std::vector<std::string>;

/// Deadlines of tests are later than this: what ends before did not wait for its deadline.
inline constexpr std::chrono::seconds kBeforeDeadline{10};

/// How late the ends of several ranks came, each called by where it was and what happened there. A
/// machine that is busy delays any of them by seconds: of each the quickest one shows whether a
/// promise can be kept, and none may take until its deadline.
class Delays {
 public:
  void note_since(Clock::time_point begin, const std::string& whose) {
    note(Clock::now() - begin, whose);
  }
  void note(Clock::duration delay, const std::string& whose) {
    EXPECT_LT(delay, kBeforeDeadline) << whose;
    const std::lock_guard lock(mutex_);
    const auto [found, is_new] = least_.emplace(whose, delay);
    if (!is_new) found->second = std::min(found->second, delay);
  }
  bool are_within(Clock::duration promised) const {
    return std::all_of(least_.begin(), least_.end(),
                       [&](const auto& each) { return each.second < promised; });
  }
  void expect_within(Clock::duration promised) const {
    EXPECT_FALSE(least_.empty());
    for (const auto& [whose, delay] : least_) EXPECT_LT(delay, promised) << whose;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Clock::duration> least_;
};

/// Each end comes within `promised` in one of a few tries at least.
inline void expect_within(Clock::duration promised, const std::function<void(Delays&)>& body) {
  Delays delays;
  body(delays);
  for (int more = 0; more < 2 && !delays.are_within(promised); ++more) body(delays);
  delays.expect_within(promised);
}

/// Waits until it is so. Not for ever: where another rank has failed before, the test is to end.
template <class Condition>
bool await_that(Condition is_so) {
  const auto end = Clock::now() + std::chrono::seconds(20);
  bool is_now = is_so();
  for (; !is_now && Clock::now() < end; is_now = is_so()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return is_now;
}

/// Waits until all ranks of a test have come here.
inline void meet(std::atomic<int>* come, int all) {
  ++*come;
  await_that([&] { return *come >= all; });
}

/// The failure that is told to a rank which may wait for nothing: that of its peers reaches it.
inline Failure await_failure(ProcessGroup& group) {
  const auto end = Clock::now() + kBeforeDeadline;
  while (group.failure().ok() && Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return group.failure();
}

/// Waits until the collective has begun on this rank: then others are told that it is in it.
inline void await_started(const ProcessGroup& group, uint64_t sequence) {
  await_that([&] { return group.status().last.started >= sequence || !group.failure().ok(); });
}

/// Enqueues a collective that one rank's deadline alone is to end. All that call it meet in here,
/// that rank before its call: the others have begun it by then, however late they came.
inline Result<Ref<Work>> enqueue_for_one_deadline(ProcessGroup& group, const Call& call,
                                                  bool has_deadline, std::atomic<int>* come,
                                                  int all) {
  if (has_deadline) {
    meet(come, all);
    return group.enqueue(call, {.timeout = std::chrono::seconds(1)});
  }
  auto work = group.enqueue(call, {.timeout = std::chrono::seconds(20)});
  if (work.ok()) await_started(group, (*work)->sequence());
  meet(come, all);
  return work;
}

class GroupTest : public testing::Test {
 protected:
  GroupTest() { make_runtime(); }

  void make_runtime(const std::vector<OptionSetting>& more = {},
                    const std::vector<OptionSetting>& options = {}) {
    RuntimeArgs args;
    args.register_ops = register_ops;
    args.plugin_path = {BP_PLUGIN_DIR};
    args.install_directory = "";
    args.options = {{"BACKPLANE_TIMEOUT", "60"}, {"BACKPLANE_FALLBACK", "deny"}};
    args.options.insert(args.options.end(), options.begin(), options.end());
    args.options.insert(args.options.end(), core_options_.begin(), core_options_.end());
    args.plugin_options = {{"npu.devices", "4"}, {"npu.memory", "16777216"}};
    args.plugin_options.insert(args.plugin_options.end(), more.begin(), more.end());
    auto runtime = Runtime::create(args);
    EXPECT_TRUE(runtime.ok()) << runtime.status().to_string();
    runtime_ = *runtime;
  }

  Device& device(const std::string& name) {
    auto found = runtime_->find_device(name);
    EXPECT_TRUE(found.ok()) << found.status().to_string();
    return **found;
  }

  GroupArgs group_args(const Devices& devices, uint32_t rank) {
    GroupArgs args;
    args.store = store_;
    args.name = "test";
    args.place = {rank, static_cast<uint32_t>(devices.size())};
    args.device = &device(devices[rank]);
    args.timeout = timeout_;
    return args;
  }

  /// A thread for each rank, with its group; all have joined before any body begins.
  void run(const Devices& devices, const std::function<void(uint32_t, ProcessGroup&)>& body) {
    store_ = make_memory_store();
    // A stream that waited for work which failed has failed with it.
    for (const std::string& name : devices) {
      EXPECT_TRUE(device(name).default_stream().reset().ok());
    }
    std::atomic<int> come = 0;
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < devices.size(); ++rank) {
      threads.emplace_back([&, rank] {
        auto group = ProcessGroup::create(group_args(devices, rank));
        // One may be at its last look into the store yet, which a body may close.
        meet(&come, static_cast<int>(devices.size()));
        ASSERT_TRUE(group.ok()) << group.status().to_string();
        body(rank, **group);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  static Ref<Tensor> upload(Device& device, uint32_t dtype, const std::vector<double>& values) {
    const uint64_t element = dtype_bits(dtype) / 8;
    std::vector<std::byte> bytes(values.size() * element + 1);
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_TRUE(write_scalar(dtype, values[i], bytes.data() + i * element).ok());
    }
    auto tensor =
        copy_from_host(device.default_stream(), dtype, {static_cast<int64_t>(values.size())},
                       bytes.data(), MemoryTag::kIo);
    EXPECT_TRUE(tensor.ok()) << tensor.status().to_string();
    return *tensor;
  }
  static Ref<Tensor> room(Device& device, uint32_t dtype, uint64_t count) {
    return upload(device, dtype, std::vector<double>(count, 99));
  }
  /// The bytes of the tensor's elements.
  static std::vector<std::byte> bytes_of(const Ref<Tensor>& tensor) {
    std::vector<std::byte> bytes(dtype_storage_bytes(tensor->dtype(), tensor->element_count()));
    const Status status = copy_to_host(tensor, bytes.data(), bytes.size());
    EXPECT_TRUE(status.ok()) << status.to_string();
    return bytes;
  }
  static std::vector<std::byte> bytes_of(uint32_t dtype, const std::vector<double>& values) {
    const uint64_t element = dtype_bits(dtype) / 8;
    std::vector<std::byte> bytes(values.size() * element);
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_TRUE(write_scalar(dtype, values[i], bytes.data() + i * element).ok());
    }
    return bytes;
  }
  static std::vector<float> floats(const Ref<Tensor>& tensor) {
    std::vector<float> values(static_cast<size_t>(tensor->element_count()));
    const Status status = copy_to_host(tensor, values.data(), values.size() * sizeof(float));
    EXPECT_TRUE(status.ok()) << status.to_string();
    return values;
  }
  static Status read_status(const Ref<Tensor>& tensor) {
    std::vector<float> values(static_cast<size_t>(tensor->element_count()));
    return copy_to_host(tensor, values.data(), values.size() * sizeof(float));
  }

  std::chrono::nanoseconds timeout_ = std::chrono::seconds(30);
  std::vector<OptionSetting> core_options_;  // of the next Runtime
  std::shared_ptr<Store> store_;
  Ref<Runtime> runtime_;
};

/// What rank `rank` has at element `index`: small whole numbers, which every dtype and every order
/// of sums has exactly.
inline double value_at(uint32_t rank, uint64_t index) {
  return static_cast<double>((index * 7 + rank * 5 + 3) % 4);
}

/// A case of one kind: what each rank puts in and must get out.
struct KindCase {
  Kind kind = Kind::kAllReduce;
  uint32_t dtype = BP_DTYPE_F32;
  Reduction reduction = Reduction::kSum;
  uint32_t root = 0;
  uint64_t count = 3;
  bool is_in_place = false;
  bool is_deterministic = false;

  Operation operation() const {
    return {.kind = kind,
            .dtype = dtype,
            .reduction = kind_info(kind).reduces ? reduction : Reduction::kSum,
            .root = root,
            .count = count,
            .is_deterministic = is_deterministic};
  }
  std::vector<double> input(uint32_t rank, uint32_t rank_count) const {
    std::vector<double> values(send_count(operation(), {rank, rank_count}));
    for (size_t i = 0; i < values.size(); ++i) values[i] = value_at(rank, i);
    return values;
  }
  double combined(uint64_t index, uint32_t rank_count) const {
    double result = value_at(0, index);
    for (uint32_t rank = 1; rank < rank_count; ++rank) {
      const double value = value_at(rank, index);
      switch (reduction) {
        case Reduction::kProd:
          result *= value;
          break;
        case Reduction::kMin:
          result = std::min(result, value);
          break;
        case Reduction::kMax:
          result = std::max(result, value);
          break;
        case Reduction::kSum:
        case Reduction::kAvg:
          result += value;
          break;
      }
    }
    return reduction == Reduction::kAvg ? result / rank_count : result;
  }
  std::vector<double> output(uint32_t rank, uint32_t rank_count) const {
    std::vector<double> values(recv_count(operation(), {rank, rank_count}));
    for (size_t i = 0; i < values.size(); ++i) values[i] = output_at(rank, rank_count, i);
    return values;
  }
  double output_at(uint32_t rank, uint32_t rank_count, uint64_t i) const {
    switch (kind) {
      case Kind::kAllReduce:
      case Kind::kReduce:
        return combined(i, rank_count);
      case Kind::kReduceScatter:
        return combined(rank * count + i, rank_count);
      case Kind::kAllGather:
      case Kind::kGather:
        return value_at(static_cast<uint32_t>(i / count), i % count);
      case Kind::kBroadcast:
        return value_at(root, i);
      case Kind::kScatter:
        return value_at(root, rank * count + i);
      case Kind::kAllToAll:
        return value_at(static_cast<uint32_t>(i / count), rank * count + i % count);
      default:
        return 0;
    }
  }
  std::string words() const { return describe(operation()) + (is_in_place ? " in place" : ""); }
};

}  // namespace bp::ccl

#endif
