// SPDX-License-Identifier: Apache-2.0
//
// Emulated fill, pinned memory and mappings.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/emulation/fake_device.hpp"

namespace bp::testing {
namespace {

constexpr uint64_t kPattern = 0x8877665544332211;

/// What memory of `size` zero bytes holds after a fill.
std::vector<std::byte> filled(size_t size, size_t offset, size_t bytes, size_t pattern_bytes) {
  std::vector<std::byte> expected(size);
  for (size_t i = 0; i < bytes; ++i) {
    expected[offset + i] = static_cast<std::byte>(kPattern >> (8 * (i % pattern_bytes)));
  }
  return expected;
}

/// Both ways to order a fill: now, and on an emulated stream.
class EmulatedFillTest : public ::testing::TestWithParam<bool> {
 protected:
  void TearDown() override {
    if (stream_ != nullptr) device_.destroy(stream_);
  }
  bp_status fill(bp_mem dst, uint64_t bytes, uint32_t pattern_bytes) {
    const bp_status status = device_.fill(stream_, dst, bytes, kPattern, pattern_bytes);
    return status == BP_OK && stream_ != nullptr ? device_.sync(stream_) : status;
  }

  Opened device_;
  bp_stream* stream_ = GetParam() ? device_.stream() : nullptr;
};

INSTANTIATE_TEST_SUITE_P(Order, EmulatedFillTest, ::testing::Bool(), [](const auto& on_stream) {
  return on_stream.param ? "OnStream" : "Now";
});

TEST_P(EmulatedFillTest, EveryPatternAtOddOffsets_WritesExactlyTheRange) {
  for (const uint32_t pattern_bytes : {1u, 2u, 4u, 8u}) {
    for (const uint64_t offset : {0u, 1u, 3u, 7u, 13u}) {
      const uint64_t handle = device_.alloc(100);
      ASSERT_EQ(fill({handle, offset}, 48, pattern_bytes), BP_OK);
      EXPECT_EQ(device_.bytes_of(handle), filled(100, offset, 48, pattern_bytes))
          << pattern_bytes << " bytes at " << offset;
    }
  }
}

TEST_P(EmulatedFillTest, LargerThanOneChunk_IsFilledToItsEnd) {
  const uint64_t bytes = (uint64_t{2} << 20) + 24;
  const uint64_t handle = device_.alloc(bytes + 11);
  ASSERT_EQ(fill({handle, 5}, bytes, 8), BP_OK);
  EXPECT_EQ(device_.bytes_of(handle), filled(bytes + 11, 5, bytes, 8));
  EXPECT_EQ(device_.fake.copy_count, 3);
}

TEST_P(EmulatedFillTest, NoBytes_DoesNothing) {
  const uint64_t handle = device_.alloc(4);
  EXPECT_EQ(fill({handle, 4}, 0, 4), BP_OK);
  EXPECT_EQ(device_.bytes_of(handle), std::vector<std::byte>(4));
  EXPECT_EQ(device_.fake.copy_count, 0);
}

TEST_P(EmulatedFillTest, BadArguments_AreRefusedByName) {
  const uint64_t handle = device_.alloc(16);
  EXPECT_EQ(fill({handle, 0}, 6, 3), BP_INVALID_ARGUMENT);
  EXPECT_EQ(fill({handle, 0}, 6, 4), BP_INVALID_ARGUMENT);
  EXPECT_EQ(fill({handle, UINT64_MAX - 1}, 4, 4), BP_INVALID_ARGUMENT);
  const std::vector<Reported> reports = device_.fake.reports();
  ASSERT_EQ(reports.size(), 3u);
  EXPECT_NE(reports[0].message.find("pattern_bytes is 3"), std::string::npos);
  EXPECT_NE(reports[1].message.find("6 bytes are no multiple"), std::string::npos);
  EXPECT_NE(reports[2].message.find("overflows"), std::string::npos);
  EXPECT_EQ(fill({handle, 0}, 16, 4), BP_OK);  // and the stream, if any, is healthy
}

TEST_P(EmulatedFillTest, RangeOutsideMemory_IsThePluginsError) {
  const uint64_t handle = device_.alloc(16);
  EXPECT_EQ(fill({handle, 8}, 16, 1), BP_INVALID_ARGUMENT);
  EXPECT_EQ(device_.bytes_of(handle), std::vector<std::byte>(16));
}

TEST_P(EmulatedFillTest, LastChunkOutsideMemory_LeavesTheOthersUnwritten) {
  const uint64_t bytes = (uint64_t{2} << 20) + 8;
  const uint64_t handle = device_.alloc(bytes);
  EXPECT_EQ(fill({handle, 8}, bytes, 8), BP_INVALID_ARGUMENT);
  EXPECT_EQ(device_.bytes_of(handle), std::vector<std::byte>(bytes));
}

TEST(EmulatedFill, NativeFillOnEmulatedStream_IsCalledByTheWorkerWithoutStream) {
  Opened device(BP_FEATURE_FILL_BIT);
  bp_stream* stream = device.stream();
  const uint64_t handle = device.alloc(64);
  ASSERT_EQ(device.fill(stream, {handle, 0}, 64, kPattern, 8), BP_OK);
  ASSERT_EQ(device.sync(stream), BP_OK);
  ASSERT_EQ(device.fill(nullptr, {handle, 0}, 8, kPattern, 1), BP_OK);
  EXPECT_EQ(device.fake.native_fill_count, 2);
  EXPECT_EQ(device.fake.copy_count, 0);
  EXPECT_TRUE(device.table.has_native(BP_FEATURE_FILL_BIT));
  device.destroy(stream);
}

TEST(EmulatedPinned, Memory_IsAlignedWritableAndEachItsOwn) {
  Opened device;
  std::vector<void*> blocks;
  for (const uint64_t bytes : {1u, 63u, 64u, 65u, 100'000u}) {
    void* ptr = nullptr;
    ASSERT_EQ(device.host_alloc(bytes, &ptr), BP_OK);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(ptr) % 64, 0u);
    std::memset(ptr, 0x5A, bytes);
    blocks.push_back(ptr);
  }
  std::sort(blocks.begin(), blocks.end());
  EXPECT_EQ(std::adjacent_find(blocks.begin(), blocks.end()), blocks.end());
  for (void* ptr : blocks) {
    EXPECT_EQ(device.table.host_free(ptr), BP_OK);
  }
  EXPECT_EQ(device.fake.call_count, 0);
}

TEST(EmulatedPinned, NoBytesAndNull_AreRefused) {
  Opened device;
  void* ptr = nullptr;
  EXPECT_EQ(device.host_alloc(0, &ptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(ptr, nullptr);
  EXPECT_EQ(device.table.host_free(nullptr), BP_INVALID_ARGUMENT);
}

TEST(EmulatedPinned, AbsurdSize_IsOutOfMemory) {
  Opened device;
  void* ptr = nullptr;
  EXPECT_EQ(device.host_alloc(UINT64_MAX, &ptr), BP_OUT_OF_MEMORY);
  EXPECT_EQ(ptr, nullptr);
  EXPECT_EQ(device.fake.reports().size(), 1u);
}

class EmulatedMapTest : public ::testing::Test {
 protected:
  EmulatedMapTest() { std::memset(device_.fake.memory.at(handle_).data(), 7, 8); }

  bp_status map(uint64_t offset, uint64_t bytes, uint32_t access) {
    const bp_map_args args{sizeof(bp_map_args), 0, {handle_, offset}, bytes, access, 0};
    return device_.table.mem_map(args, &ptr_);
  }
  bp_status unmap() { return device_.table.mem_unmap(ptr_); }

  Opened device_;
  const uint64_t handle_ = device_.alloc(8);
  void* ptr_ = nullptr;
};

TEST_F(EmulatedMapTest, Read_SeesMemoryAndWritesNothingBack) {
  ASSERT_EQ(map(2, 4, BP_MAP_READ_BIT), BP_OK);
  EXPECT_EQ(std::memcmp(ptr_, "\7\7\7\7", 4), 0);
  std::memset(ptr_, 1, 4);
  EXPECT_EQ(unmap(), BP_OK);
  EXPECT_EQ(device_.bytes_of(handle_), std::vector<std::byte>(8, std::byte{7}));
}

TEST_F(EmulatedMapTest, Write_ReachesTheDeviceAtUnmapAndKeepsTheRest) {
  ASSERT_EQ(map(2, 4, BP_MAP_WRITE_BIT), BP_OK);
  static_cast<std::byte*>(ptr_)[1] = std::byte{9};
  EXPECT_EQ(device_.bytes_of(handle_), std::vector<std::byte>(8, std::byte{7}));
  EXPECT_EQ(unmap(), BP_OK);
  std::vector<std::byte> expected(8, std::byte{7});
  expected[3] = std::byte{9};
  EXPECT_EQ(device_.bytes_of(handle_), expected);
}

TEST_F(EmulatedMapTest, MappedTwice_EachPointerIsItsOwnMapping) {
  ASSERT_EQ(map(0, 8, BP_MAP_READ_BIT), BP_OK);
  void* first = ptr_;
  ASSERT_EQ(map(0, 8, BP_MAP_READ_BIT | BP_MAP_WRITE_BIT), BP_OK);
  EXPECT_NE(first, ptr_);
  EXPECT_EQ(unmap(), BP_OK);
  EXPECT_EQ(unmap(), BP_INVALID_ARGUMENT);
  ptr_ = first;
  EXPECT_EQ(unmap(), BP_OK);
}

TEST_F(EmulatedMapTest, BadArguments_AreRefused) {
  EXPECT_EQ(map(0, 8, 0), BP_INVALID_ARGUMENT);
  EXPECT_EQ(map(0, 0, BP_MAP_READ_BIT), BP_INVALID_ARGUMENT);
  EXPECT_EQ(map(0, 8, 8), BP_UNSUPPORTED);
  EXPECT_EQ(map(0, UINT64_MAX, BP_MAP_READ_BIT), BP_INVALID_ARGUMENT);  // outside its memory
  EXPECT_EQ(map(4, UINT64_MAX, BP_MAP_READ_BIT), BP_INVALID_ARGUMENT);
  EXPECT_EQ(map(4, 8, BP_MAP_READ_BIT), BP_INVALID_ARGUMENT);  // the plugin's mem_copy says so
  EXPECT_EQ(unmap(), BP_INVALID_ARGUMENT);
  EXPECT_EQ(ptr_, nullptr);
}

TEST_F(EmulatedMapTest, WriteBackFails_IsAnErrorAndEndsTheMapping) {
  ASSERT_EQ(map(0, 8, BP_MAP_WRITE_BIT), BP_OK);
  device_.fake.copy_status = BP_DEVICE_LOST;
  EXPECT_EQ(unmap(), BP_DEVICE_LOST);
  EXPECT_EQ(unmap(), BP_INVALID_ARGUMENT);
}

TEST_F(EmulatedMapTest, LeftMapped_IsFreedWithTheEmulation) {
  ASSERT_EQ(map(0, 8, BP_MAP_WRITE_BIT), BP_OK);
  device_.emulation.reset();
  EXPECT_EQ(device_.bytes_of(handle_), std::vector<std::byte>(8, std::byte{7}));
}

}  // namespace
}  // namespace bp::testing
