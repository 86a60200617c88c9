// SPDX-License-Identifier: Apache-2.0
//
// Emulated launches: everything that a launch reads is its own by the time the call returns.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include "core/emulation/fake_device.hpp"
#include "core/emulation/host_buffer.hpp"

namespace bp::testing {
namespace {

/// A kernel's view of one tensor, copied out while the launch runs.
struct SeenTensor {
  bp_tensor tensor{};
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
};

class EmulatedLaunchTest : public ::testing::Test {
 protected:
  EmulatedLaunchTest() {
    device_.fake.on_launch = [this](const bp_launch_args& args) {
      seen_stream_ = args.stream;
      for (uint32_t i = 0; i < args.input_count + args.output_count; ++i) {
        const bp_tensor& tensor = args.tensors[i];
        SeenTensor seen{tensor, {}, {}};
        if (tensor.sizes != nullptr) {
          seen.sizes.assign(tensor.sizes, tensor.sizes + tensor.rank);
          seen.strides.assign(tensor.strides, tensor.strides + tensor.rank);
        }
        seen_.push_back(seen);
      }
      if (inspect_) inspect_(args);
      return BP_OK;
    };
  }
  void TearDown() override {
    gate_.open();
    device_.destroy(stream_);
  }

  void hold() {
    device_.host_call(stream_, [this](bp_status) { gate_.wait(); });
  }
  bp_status launch(const std::vector<bp_tensor>& tensors, uint32_t input_count) {
    bp_launch_args args = device_.launch_args(9);
    args.stream = stream_;  // the worker's launch must not see it
    args.tensors = tensors.data();
    args.input_count = input_count;
    args.output_count = static_cast<uint32_t>(tensors.size()) - input_count;
    return device_.launch(stream_, args);
  }
  bp_status run() {
    gate_.open();
    return device_.sync(stream_);
  }
  bool refused_with(const std::string& words) {
    const std::vector<Reported> reports = device_.fake.reports();
    return reports.size() == 1 && reports[0].op_seq == 9 &&
           reports[0].message.find(words) != std::string::npos;
  }

  struct Device : Opened {
    using Opened::launch;
    bp_status launch(bp_stream* stream, const bp_launch_args& args) {
      return call_launch(table, stream, args, nullptr);
    }
  };
  Device device_;
  Gate gate_;
  bp_stream* stream_ = device_.stream();
  std::vector<SeenTensor> seen_;
  bp_stream* seen_stream_ = stream_;
  std::function<void(const bp_launch_args&)> inspect_;
};

/// Some bytes after element [0, 0, ...] of a host argument.
template <class T>
const T* at(const bp_tensor& tensor, int64_t bytes) {
  return reinterpret_cast<const T*>(host_address(tensor.handle) +
                                    static_cast<int64_t>(tensor.offset_bytes) + bytes);
}

template <class T>
bp_tensor host_tensor(const T* data, uint64_t bytes, uint32_t dtype,
                      const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                      uint64_t offset_bytes = 0) {
  return {reinterpret_cast<uint64_t>(data),
          offset_bytes,
          bytes,
          dtype,
          static_cast<uint32_t>(sizes.size()),
          sizes.data(),
          strides.data(),
          0,
          BP_TENSOR_HOST_BIT,
          0};
}

TEST_F(EmulatedLaunchTest, CallersArraysOverwritten_LaunchSeesTheirOldValues) {
  std::vector<int64_t> sizes{2, 3};
  std::vector<int64_t> strides{3, 1};
  std::vector<bp_tensor> tensors{
      {77, 16, 64, BP_DTYPE_F32, 2, sizes.data(), strides.data(), 0, 0, 0},
      {0, 0, 0, BP_DTYPE_NONE, 0, nullptr, nullptr, 0, 0, 0},
      {88, 0, 24, BP_DTYPE_F32, 2, sizes.data(), strides.data(), 0, 0, 0}};
  hold();
  ASSERT_EQ(launch(tensors, 2), BP_OK);
  sizes.assign(2, -99);
  strides.assign(2, -99);
  std::memset(static_cast<void*>(tensors.data()), 0xEE, tensors.size() * sizeof(bp_tensor));
  ASSERT_EQ(run(), BP_OK);
  ASSERT_EQ(seen_.size(), 3u);
  EXPECT_EQ(seen_[0].tensor.handle, 77u);
  EXPECT_EQ(seen_[0].tensor.offset_bytes, 16u);
  EXPECT_EQ(seen_[0].tensor.storage_bytes, 64u);
  EXPECT_EQ(seen_[0].sizes, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(seen_[0].strides, (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(seen_[1].tensor.dtype, BP_DTYPE_NONE);
  EXPECT_EQ(seen_[2].tensor.handle, 88u);
  EXPECT_EQ(seen_stream_, nullptr);
}

TEST_F(EmulatedLaunchTest, HostArgument_IsCopied) {
  std::array<int64_t, 4> axes{0, 2, 1, 3};
  const std::vector<int64_t> sizes{3};
  const std::vector<int64_t> strides{1};
  std::vector<int64_t> got;
  inspect_ = [&](const bp_launch_args& args) {
    const bp_tensor& tensor = args.tensors[0];
    const auto* data = at<int64_t>(tensor, 0);
    got.assign(data, data + 3);
    EXPECT_LE(tensor.offset_bytes + 24, tensor.storage_bytes);
    EXPECT_EQ(tensor.flags, BP_TENSOR_HOST_BIT);
  };
  hold();
  ASSERT_EQ(launch({host_tensor(axes.data(), 32, BP_DTYPE_I64, sizes, strides, 8)}, 1), BP_OK);
  axes.fill(-1);
  ASSERT_EQ(run(), BP_OK);
  EXPECT_EQ(got, (std::vector<int64_t>{2, 1, 3}));
}

TEST_F(EmulatedLaunchTest, HostArgument_KeepsItsAlignment) {
  alignas(64) std::array<std::byte, 128> bytes{};
  bytes[36] = std::byte{7};
  const std::vector<int64_t> none;
  uint64_t phase = 99;
  std::byte value{0};
  inspect_ = [&](const bp_launch_args& args) {
    const uint64_t address = args.tensors[0].handle + args.tensors[0].offset_bytes;
    phase = address % 64;
    value = *at<std::byte>(args.tensors[0], 0);
  };
  ASSERT_EQ(launch({host_tensor(bytes.data(), 128, BP_DTYPE_U8, none, none, 36)}, 1), BP_OK);
  ASSERT_EQ(run(), BP_OK);
  EXPECT_EQ(phase, 36u);
  EXPECT_EQ(value, std::byte{7});
}

TEST_F(EmulatedLaunchTest, HostArgumentWithNegativeAndZeroStrides_IsCopiedWhole) {
  std::array<int32_t, 6> data{10, 11, 12, 13, 14, 15};
  const std::vector<int64_t> sizes{2, 3};
  const std::vector<int64_t> strides{0, -2};
  std::vector<int32_t> got;
  inspect_ = [&](const bp_launch_args& args) {
    const bp_tensor& tensor = args.tensors[0];
    for (int64_t i = 0; i < 3; ++i) {
      got.push_back(*at<int32_t>(tensor, -8 * i));
    }
    EXPECT_GE(tensor.offset_bytes, 16u);
  };
  hold();
  ASSERT_EQ(launch({host_tensor(data.data(), 24, BP_DTYPE_I32, sizes, strides, 20)}, 1), BP_OK);
  data.fill(0);
  ASSERT_EQ(run(), BP_OK);
  EXPECT_EQ(got, (std::vector<int32_t>{15, 13, 11}));
}

TEST_F(EmulatedLaunchTest, HostArgumentsOfEverySize_ShareNoBytes) {
  const std::array<uint8_t, 3> first{1, 2, 3};
  const std::array<uint8_t, 2> packed{0x21, 0x03};  // three 4-bit elements
  const std::vector<int64_t> three{3};
  const std::vector<int64_t> empty{0};
  const std::vector<int64_t> dense{1};
  std::vector<uint8_t> got;
  inspect_ = [&](const bp_launch_args& args) {
    for (const uint32_t i : {0u, 2u}) {
      const auto* data = at<uint8_t>(args.tensors[i], 0);
      got.insert(got.end(), data, data + (i == 0 ? 3 : 2));
    }
    EXPECT_NE(args.tensors[1].handle, 0u);
  };
  ASSERT_EQ(launch({host_tensor(first.data(), 3, BP_DTYPE_U8, three, dense),
                    host_tensor(first.data(), 3, BP_DTYPE_F64, empty, dense),
                    host_tensor(packed.data(), 2, BP_DTYPE_U4, three, dense)},
                   3),
            BP_OK);
  ASSERT_EQ(run(), BP_OK);
  EXPECT_EQ(got, (std::vector<uint8_t>{1, 2, 3, 0x21, 0x03}));
}

TEST_F(EmulatedLaunchTest, HostArgumentOutsideItsStorage_IsRefused) {
  const std::array<int32_t, 4> data{};
  const std::vector<int64_t> five{5};
  const std::vector<int64_t> two{2};
  const std::vector<int64_t> dense{1};
  const std::vector<int64_t> back{-1};
  const std::vector<int64_t> huge{int64_t{1} << 62};
  EXPECT_EQ(launch({host_tensor(data.data(), 16, BP_DTYPE_I32, five, dense)}, 1),
            BP_INVALID_ARGUMENT);
  EXPECT_TRUE(refused_with("outside its 16 bytes"));
  EXPECT_EQ(launch({host_tensor(data.data(), 16, BP_DTYPE_I32, two, back)}, 1),
            BP_INVALID_ARGUMENT);
  EXPECT_EQ(launch({host_tensor(data.data(), 16, BP_DTYPE_I32, huge, huge)}, 1),
            BP_INVALID_ARGUMENT);
  EXPECT_EQ(launch({host_tensor(data.data(), 16, BP_DTYPE_I32, two, dense, 17)}, 1),
            BP_INVALID_ARGUMENT);
  EXPECT_EQ(run(), BP_OK);
  EXPECT_TRUE(seen_.empty());
}

TEST_F(EmulatedLaunchTest, HostArgumentsTooLargeTogether_AreOutOfMemory) {
  const std::array<uint8_t, 16> data{};
  const std::vector<int64_t> half{INT64_MAX / 8};
  const std::vector<int64_t> dense{1};
  const bp_tensor argument =
      host_tensor(data.data(), uint64_t{INT64_MAX}, BP_DTYPE_U8, half, dense);
  // 32 of 2^60 bytes make 2^65; a sum of 64 bits has forgotten them all.
  EXPECT_EQ(launch(std::vector<bp_tensor>(32, argument), 32), BP_OUT_OF_MEMORY);
  EXPECT_TRUE(refused_with("tensor 0: there is no host memory"));
  EXPECT_EQ(run(), BP_OK);
  EXPECT_TRUE(seen_.empty());
}

TEST_F(EmulatedLaunchTest, HostArgumentOfUnknownDtype_IsRefused) {
  const std::array<int32_t, 4> data{};
  const std::vector<int64_t> two{2};
  EXPECT_EQ(launch({host_tensor(data.data(), 16, 60, two, two)}, 1), BP_UNSUPPORTED);
  EXPECT_TRUE(refused_with("unknown dtype 60"));
}

TEST_F(EmulatedLaunchTest, HostArgumentWithoutStrides_IsRefused) {
  const std::array<int32_t, 4> data{};
  const std::vector<int64_t> two{2};
  bp_tensor tensor = host_tensor(data.data(), 16, BP_DTYPE_I32, two, two);
  tensor.strides = nullptr;
  EXPECT_EQ(launch({tensor}, 1), BP_INVALID_ARGUMENT);
  EXPECT_TRUE(refused_with("tensor 0: host argument without sizes or strides"));
}

TEST_F(EmulatedLaunchTest, HostOutput_IsRefused) {
  const std::array<int32_t, 4> data{};
  const std::vector<int64_t> two{2};
  EXPECT_EQ(launch({host_tensor(data.data(), 16, BP_DTYPE_I32, two, two)}, 0), BP_INVALID_ARGUMENT);
  EXPECT_TRUE(refused_with("an output cannot be a host argument"));
}

TEST_F(EmulatedLaunchTest, RankTooHigh_IsRefused) {
  const std::vector<int64_t> ones(17, 1);
  const bp_tensor tensor{1, 0, 4, BP_DTYPE_F32, 17, ones.data(), ones.data(), 0, 0, 0};
  EXPECT_EQ(launch({tensor}, 1), BP_INVALID_ARGUMENT);
  EXPECT_TRUE(refused_with("rank 17"));
}

TEST_F(EmulatedLaunchTest, KeepAlive_IsHeldUntilDoneAndLetGoBeforeSyncReturns) {
  std::atomic<bool> alive_in_launch{false};
  auto plan = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = plan;
  inspect_ = [&](const bp_launch_args&) { alive_in_launch = !watch.expired(); };
  hold();
  ASSERT_EQ(device_.Opened::launch(stream_, 1, std::move(plan)), BP_OK);
  EXPECT_FALSE(watch.expired());
  ASSERT_EQ(run(), BP_OK);
  EXPECT_TRUE(alive_in_launch);
  EXPECT_TRUE(watch.expired());
}

TEST_F(EmulatedLaunchTest, KeepAliveDeleter_MayUseTheStreamAndRunsBeforeTheLaunchCountsAsDone) {
  std::atomic<bp_status> seen{BP_OK};
  std::shared_ptr<const void> plan(
      nullptr, [&](const void*) { seen = device_.table.stream_query(stream_); });
  ASSERT_EQ(device_.Opened::launch(stream_, 1, std::move(plan)), BP_OK);
  ASSERT_EQ(run(), BP_OK);
  EXPECT_EQ(seen, BP_PENDING);
}

TEST_F(EmulatedLaunchTest, KeepAlive_IsLetGoWhenSkippedAndWhenRefused) {
  device_.fake.on_launch = [](const bp_launch_args&) { return BP_INTERNAL; };
  auto skipped = std::make_shared<int>(1);
  auto refused = std::make_shared<int>(2);
  const std::weak_ptr<int> watch_skipped = skipped;
  const std::weak_ptr<int> watch_refused = refused;
  hold();
  device_.Opened::launch(stream_, 1);
  device_.Opened::launch(stream_, 2, std::move(skipped));
  ASSERT_EQ(run(), BP_INTERNAL);
  EXPECT_TRUE(watch_skipped.expired());
  EXPECT_EQ(device_.Opened::launch(stream_, 3, std::move(refused)), BP_POISONED);
  EXPECT_TRUE(watch_refused.expired());
}

TEST_F(EmulatedLaunchTest, KeepAliveDeleterThatCallsTheDevice_DoesNotDeadlock) {
  Opened serialised(0, 0);
  bp_stream* stream = serialised.stream();
  const uint64_t handle = serialised.alloc(16);
  std::shared_ptr<const void> plan(nullptr,
                                   [&](const void*) { serialised.table.mem_free(handle); });
  EXPECT_EQ(serialised.launch(stream, 1, std::move(plan)), BP_OK);
  EXPECT_EQ(serialised.sync(stream), BP_OK);
  EXPECT_EQ(serialised.fake.allocation_count(), 0u);
  serialised.destroy(stream);
}

}  // namespace
}  // namespace bp::testing
