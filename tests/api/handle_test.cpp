// SPDX-License-Identifier: Apache-2.0
//
// One thread releases what another one uses: each call is done with the object, or answers
// INVALID_ARGUMENT. Under a sanitizer also: nobody touches memory that is gone.
#include <array>
#include <atomic>
#include <span>
#include <thread>

#include "tests/api/api_fixture.hpp"
#include "tests/environment.hpp"

namespace bp {
namespace {

constexpr uint64_t kQuickRounds = 1500;

class HandleTest : public ApiTest {
 protected:
  bpa_tensor* raw_tensor() const {
    const int64_t size = 4;
    bpa_tensor* tensor = nullptr;
    EXPECT_EQ(
        bpa_tensor_from_host(device_.handle(), BP_DTYPE_F32, &size, 1, kValues.data(), 16, &tensor),
        BP_OK);
    return tensor;
  }
  static constexpr std::array<float, 4> kValues{1, 2, 3, 4};
};

uint64_t round_count() { return tests::number_from_environment("BP_HANDLE_ROUNDS", kQuickRounds); }

/// What the uses of handles that other threads release came to.
struct Outcomes {
  std::atomic<uint64_t> succeeded{0};
  std::atomic<uint64_t> gone{0};
  std::atomic<uint64_t> wrong{0};

  void count(bpa_status status, bool is_right = true) {
    const bool is_known = status == BP_OK || status == BP_INVALID_ARGUMENT;
    ++(!is_known || !is_right ? wrong : status == BP_OK ? succeeded : gone);
  }
  bool has_raced() const { return succeeded > 0 && gone > 0; }
};

TEST_P(HandleTest, MakerReleases_OtherThreadsUse) {
  std::atomic<bpa_tensor*> shared{nullptr};
  std::atomic<bool> go{true};
  Outcomes outcomes;
  const auto use = [&] {
    while (go) {
      bpa_tensor* tensor = shared;
      if (tensor == nullptr) continue;
      std::array<float, 4> read{};
      const bpa_status status = bpa_tensor_to_host(tensor, read.data(), sizeof(read));
      outcomes.count(status, status != BP_OK || read == kValues);
      bpa_tensor* sum = nullptr;
      const bpa_tensor* inputs[] = {tensor, tensor};
      outcomes.count(bpa_op_call(runtime_->handle(), BP_OP_ADD, inputs, 2, nullptr, 0, &sum, 1));
      bpa_tensor_release(sum);
      if (status != BP_OK) std::this_thread::yield();  // the maker has to go on
    }
  };
  std::thread first(use);
  std::thread second(use);
  // The other threads may get no processor for a while.
  const uint64_t rounds = round_count();
  for (uint64_t i = 0; i < rounds || (!outcomes.has_raced() && i < 1000 * rounds); ++i) {
    bpa_tensor* tensor = raw_tensor();
    shared = tensor;
    std::this_thread::yield();
    bpa_tensor_release(tensor);
  }
  go = false;
  first.join();
  second.join();
  EXPECT_EQ(outcomes.wrong, 0u);
  EXPECT_GT(outcomes.succeeded, 0u);
  EXPECT_GT(outcomes.gone, 0u);
}

TEST_P(HandleTest, OtherThreadReleases_MakerUses) {
  std::atomic<bpa_tensor*> shared{nullptr};
  std::atomic<bool> go{true};
  std::thread releaser([&] {
    while (go) {
      bpa_tensor* taken = shared.exchange(nullptr);
      bpa_tensor_release(taken);
      if (taken == nullptr) std::this_thread::yield();
    }
  });
  Outcomes outcomes;
  const uint64_t rounds = round_count();
  uint64_t made = 0;
  for (; made < rounds || (!outcomes.has_raced() && made < 1000 * rounds); ++made) {
    bpa_tensor* tensor = raw_tensor();
    shared = tensor;
    bpa_status status = BP_OK;
    while (status == BP_OK) {
      bpa_tensor* sum = nullptr;
      const bpa_tensor* inputs[] = {tensor, tensor};
      status = bpa_op_call(nullptr, BP_OP_ADD, inputs, 2, nullptr, 0, &sum, 1);
      outcomes.count(status);
      bpa_tensor_release(sum);
      std::this_thread::yield();
    }
  }
  go = false;
  releaser.join();
  EXPECT_EQ(outcomes.wrong, 0u);
  EXPECT_GT(outcomes.succeeded, 0u);
  EXPECT_EQ(outcomes.gone, made) << "each round ends by the release";
}

TEST_P(HandleTest, RuntimeReleased_WhileItsDeviceIsUsed) {
  for (int round = 0; round < 3; ++round) {
    bpa_device* const handle = device_.handle();
    std::atomic<int> wrong{0};
    std::atomic<bool> started{false};
    std::thread user([&] {
      bpa_status status = BP_OK;
      for (int i = 0; status == BP_OK; ++i) {
        uint64_t count = 0;
        const int64_t size = 4;
        bpa_tensor* tensor = nullptr;
        status = i % 2 == 0 ? bpa_device_feature_count(handle, &count)
                            : bpa_tensor_from_host(handle, BP_DTYPE_F32, &size, 1, kValues.data(),
                                                   16, &tensor);
        bpa_tensor_release(tensor);
        started = i > 10;
      }
      wrong += status != BP_INVALID_ARGUMENT;
    });
    while (!started) std::this_thread::yield();
    device_ = Device();
    runtime_.reset();
    user.join();
    EXPECT_EQ(wrong, 0);
    open({});
  }
}

/// Bools of the caller's; `sizes` stay the caller's too.
bpa_wrap_args wrap_bools(std::span<const uint8_t> bytes, std::span<const int64_t> sizes) {
  bpa_wrap_args args{};
  args.struct_size = sizeof(args);
  args.memory = {reinterpret_cast<uint64_t>(bytes.data()), 0};
  args.bytes = bytes.size();
  args.dtype = BP_DTYPE_BOOL;
  args.rank = static_cast<uint32_t>(sizes.size());
  args.sizes = sizes.data();
  return args;
}

TEST_P(HandleTest, BoolOfAnotherByte_IsRefusedByIndex) {
  const std::array<uint8_t, 4> bytes{0, 1, 2, 255};
  const int64_t size = 4;
  for (bpa_device* device : {device_.handle(), static_cast<bpa_device*>(nullptr)}) {
    bpa_tensor* tensor = nullptr;
    EXPECT_EQ(bpa_tensor_from_host(device, BP_DTYPE_BOOL, &size, 1, bytes.data(), 4, &tensor),
              BP_INVALID_ARGUMENT);
    EXPECT_EQ(tensor, nullptr);
    EXPECT_STREQ(bpa_last_error(),
                 "argument data: element 2 of dtype bool: expected 0 or 1, found 2");
  }
  bpa_wrap_args args = wrap_bools(bytes, {&size, 1});
  bpa_tensor* wrapped = nullptr;
  bpa_tensor* moved = nullptr;
  ASSERT_EQ(bpa_tensor_wrap(nullptr, &args, &wrapped), BP_OK);
  EXPECT_EQ(bpa_tensor_to_device(wrapped, device_.handle(), &moved), BP_INVALID_ARGUMENT);
  bpa_tensor_release(wrapped);
  const int64_t half = 2;  // backwards from the second one, so without the 2
  const int64_t stride = -1;
  args.sizes = &half;
  args.strides = &stride;
  args.memory.offset_bytes = 1;
  ASSERT_EQ(bpa_tensor_wrap(nullptr, &args, &wrapped), BP_OK);
  EXPECT_EQ(bpa_tensor_to_device(wrapped, device_.handle(), &moved), BP_OK) << bpa_last_error();
  bpa_tensor_release(wrapped);
  bpa_tensor_release(moved);
}

TEST_P(HandleTest, BoolsOfRowsWithGaps_AreLookedAtRowByRow) {
  constexpr int64_t kRows = 3;
  constexpr int64_t kColumns = 5000;
  std::vector<uint8_t> bytes(kRows * (kColumns + 1), 1);
  for (int64_t row = 0; row < kRows; ++row) bytes[row * (kColumns + 1) + kColumns] = 7;  // gaps
  const int64_t sizes[] = {kRows, kColumns};
  const int64_t strides[] = {kColumns + 1, 1};
  bpa_wrap_args args = wrap_bools(bytes, sizes);
  args.strides = strides;
  bpa_tensor* wrapped = nullptr;
  bpa_tensor* moved = nullptr;
  ASSERT_EQ(bpa_tensor_wrap(nullptr, &args, &wrapped), BP_OK);
  EXPECT_EQ(bpa_tensor_to_device(wrapped, device_.handle(), &moved), BP_OK) << bpa_last_error();
  bpa_tensor_release(moved);
  bytes[2 * (kColumns + 1) + 4998] = 3;
  EXPECT_EQ(bpa_tensor_to_device(wrapped, device_.handle(), &moved), BP_INVALID_ARGUMENT);
  EXPECT_THAT(bpa_last_error(),
              testing::HasSubstr("element 14998 of dtype bool: expected 0 or 1, found 3"));
  bpa_tensor_release(wrapped);
}

INSTANTIATE_TEST_SUITE_P(Devices, HandleTest, testing::ValuesIn(tests::device_names()),
                         device_name_of);

}  // namespace
}  // namespace bp
