// SPDX-License-Identifier: Apache-2.0
//
// Memory of xpu: places inside buffers at offsets that no sub-buffer could begin at, fills, pinned
// memory, mappings, and ranges that do not fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <set>

#include "xpu_test_support.hpp"

namespace bp::xpu_test {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<uint8_t>;

constexpr uint64_t kOddOffsets[] = {1, 3, 4, 8, 64, 100, 132};

class XpuMemoryTest : public XpuTest {
 protected:
  /// 1, 2, 3, … and never 0.
  static Bytes numbers(size_t count) {
    Bytes bytes(count);
    for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>(1 + i % 255);
    return bytes;
  }

  bp_status allocate(uint64_t bytes, uint64_t alignment_bytes, uint64_t* out_handle) {
    const bp_alloc_args args{.struct_size = sizeof(bp_alloc_args),
                             .flags = 0,
                             .bytes = bytes,
                             .alignment_bytes = alignment_bytes,
                             .usage = BP_USAGE_WEIGHTS,
                             .reserved = 0};
    return plugin_.memory->mem_alloc(device_, &args, out_handle);
  }

  bp_status map(bp_mem mem, uint64_t bytes, uint32_t access, void** out_ptr) {
    const bp_map_args args{.struct_size = sizeof(bp_map_args),
                           .flags = 0,
                           .mem = mem,
                           .bytes = bytes,
                           .access = access,
                           .reserved = 0};
    return plugin_.memory->mem_map(device_, &args, out_ptr);
  }
};

TEST_F(XpuMemoryTest, Copy_AtOddOffsets_TouchesOnlyItsRange) {
  const Bytes source = numbers(77);
  const uint64_t first = alloc(512);
  const uint64_t second = alloc(512);
  for (const uint64_t offset : kOddOffsets) {
    ASSERT_EQ(fill({first, 0}, 512, 0, 1), BP_OK);
    ASSERT_EQ(fill({second, 0}, 512, 0, 1), BP_OK);
    ASSERT_EQ(upload({first, offset}, source.data(), source.size()), BP_OK);
    ASSERT_EQ(copy(BP_COPY_DEVICE_TO_DEVICE, {second, offset + 3}, {first, offset}, source.size()),
              BP_OK);
    Bytes expected(512, 0);
    std::copy(source.begin(), source.end(), expected.begin() + static_cast<long>(offset));
    EXPECT_EQ(read_bytes(first, 512), expected) << "offset " << offset;
    expected.insert(expected.begin(), 3, 0);
    expected.resize(512);
    EXPECT_EQ(read_bytes(second, 512), expected) << "offset " << offset;
    Bytes back(source.size());
    EXPECT_EQ(download(back.data(), {second, offset + 3}, back.size()), BP_OK);
    EXPECT_EQ(back, source) << "offset " << offset;
  }
  free(first);
  free(second);
}

TEST_F(XpuMemoryTest, Copy_WithinOneBuffer_MovesRangesApart) {
  const Bytes source = numbers(100);
  const uint64_t handle = alloc(200);
  ASSERT_EQ(upload({handle, 0}, source.data(), 100), BP_OK);
  ASSERT_EQ(copy(BP_COPY_DEVICE_TO_DEVICE, {handle, 100}, {handle, 0}, 100), BP_OK);
  Bytes expected = source;
  expected.insert(expected.end(), source.begin(), source.end());
  EXPECT_EQ(read_bytes(handle, 200), expected);
  EXPECT_EQ(copy(BP_COPY_DEVICE_TO_DEVICE, {handle, 99}, {handle, 0}, 100), BP_INVALID_ARGUMENT);
  EXPECT_THAT(services().last_message(), HasSubstr("100 bytes from offset 0 to offset 99"));
  free(handle);
}

TEST_F(XpuMemoryTest, Copy_OfNothing_IsDoneWithoutLookingAtMemory) {
  EXPECT_EQ(upload({0, 0}, nullptr, 0), BP_OK);
  EXPECT_EQ(copy(BP_COPY_DEVICE_TO_DEVICE, {0, 0}, {0, 0}, 0), BP_OK);
  EXPECT_EQ(fill({0, 0}, 0, 1, 4), BP_OK);
  EXPECT_TRUE(services().reports().empty());
}

TEST_F(XpuMemoryTest, Copy_BadRange_IsRefusedWithItsNumbers) {
  const uint64_t handle = alloc(128);
  Bytes host(256);
  EXPECT_EQ(upload({handle, 120}, host.data(), 16), BP_INVALID_ARGUMENT);
  EXPECT_THAT(services().last_message(),
              HasSubstr("16 bytes at offset 120 reach beyond the 128 bytes"));
  EXPECT_EQ(services().last_report().status, BP_INVALID_ARGUMENT);
  EXPECT_EQ(download(host.data(), {handle, 129}, 1), BP_INVALID_ARGUMENT);
  EXPECT_EQ(download(host.data(), {handle, UINT64_MAX}, 2), BP_INVALID_ARGUMENT);
  EXPECT_EQ(download(host.data(), {handle, 2}, UINT64_MAX), BP_INVALID_ARGUMENT);
  EXPECT_EQ(copy(BP_COPY_DEVICE_TO_DEVICE, {handle, 64}, {handle, 0}, 65), BP_INVALID_ARGUMENT);
  EXPECT_EQ(fill({handle, 100}, 32, 0, 4), BP_INVALID_ARGUMENT);
  EXPECT_EQ(upload({handle + 8, 0}, host.data(), 1), BP_INVALID_ARGUMENT);
  EXPECT_THAT(services().last_message(), HasSubstr("is not an allocation of this device"));
  EXPECT_EQ(upload({handle, 0}, nullptr, 1), BP_INVALID_ARGUMENT);
  EXPECT_THAT(services().last_message(), HasSubstr("host address of the source is NULL"));
  EXPECT_EQ(copy(3, {handle, 0}, {handle, 64}, 1), BP_UNSUPPORTED);
  EXPECT_EQ(services().last_message(), "mem_copy: unknown kind 3");
  free(handle);
}

TEST_F(XpuMemoryTest, Fill_AnyPatternAtAnyOffset_RepeatsFromTheStart) {
  constexpr uint64_t kPattern = 0x8877665544332211;
  const uint64_t handle = alloc(256);
  for (const uint32_t pattern_bytes : {1u, 2u, 4u, 8u}) {
    for (uint64_t offset = 0; offset < 17; ++offset) {
      for (const uint64_t count : {1u, 2u, 5u, 11u}) {
        ASSERT_EQ(fill({handle, 0}, 256, 0, 1), BP_OK);
        ASSERT_EQ(fill({handle, offset}, count * pattern_bytes, kPattern, pattern_bytes), BP_OK);
        Bytes expected(256, 0);
        for (uint64_t i = 0; i < count * pattern_bytes; ++i) {
          expected[offset + i] = static_cast<uint8_t>(0x11 * (1 + i % pattern_bytes));
        }
        ASSERT_EQ(read_bytes(handle, 256), expected)
            << pattern_bytes << " byte pattern at offset " << offset;
      }
    }
  }
  free(handle);
}

TEST_F(XpuMemoryTest, Fill_BadPattern_IsRefused) {
  const uint64_t handle = alloc(64);
  EXPECT_EQ(fill({handle, 0}, 6, 0, 3), BP_INVALID_ARGUMENT);
  EXPECT_EQ(services().last_message(), "mem_fill: a pattern of 3 bytes; expected 1, 2, 4 or 8");
  EXPECT_EQ(fill({handle, 0}, 32, 0, 16), BP_INVALID_ARGUMENT);
  EXPECT_EQ(fill({handle, 0}, 4, 0, 0), BP_INVALID_ARGUMENT);
  EXPECT_EQ(fill({handle, 0}, 6, 0, 4), BP_INVALID_ARGUMENT);
  EXPECT_EQ(services().last_message(), "mem_fill: 6 bytes are no multiple of the pattern's 4");
  free(handle);
}

TEST_F(XpuMemoryTest, Alloc_BadSizeOrAlignment_IsRefused) {
  uint64_t handle = 0;
  EXPECT_EQ(allocate(0, 0, &handle), BP_INVALID_ARGUMENT);
  EXPECT_EQ(allocate(64, 48, &handle), BP_INVALID_ARGUMENT);
  EXPECT_EQ(services().last_message(), "mem_alloc: an alignment of 48 bytes is not a power of two");
  EXPECT_EQ(handle, 0u);
}

TEST_F(XpuMemoryTest, Alloc_TooMuch_IsOutOfMemoryAndTheDeviceGoesOn) {
  bp_device_props props{};
  props.struct_size = sizeof(props);
  ASSERT_EQ(plugin_.device->device_props(device_, &props), BP_OK);
  uint64_t handle = 0;
  EXPECT_EQ(allocate(props.max_alloc_bytes + 1, 0, &handle), BP_OUT_OF_MEMORY);
  EXPECT_THAT(services().last_message(), HasSubstr("is " + std::to_string(props.max_alloc_bytes)));
  EXPECT_EQ(allocate(UINT64_MAX, 0, &handle), BP_OUT_OF_MEMORY);
  EXPECT_EQ(handle, 0u);
  const uint64_t small = alloc(256);
  EXPECT_EQ(fill({small, 0}, 256, 3, 1), BP_OK);
  free(small);
}

TEST_F(XpuMemoryTest, Free_TwiceOrForeign_IsRefused) {
  const uint64_t handle = alloc(32);
  free(handle);
  EXPECT_EQ(plugin_.memory->mem_free(device_, handle), BP_INVALID_ARGUMENT);
  EXPECT_THAT(services().last_message(), HasSubstr("is not an allocation of this device"));
  EXPECT_EQ(plugin_.memory->mem_free(device_, 0), BP_INVALID_ARGUMENT);
}

TEST_F(XpuMemoryTest, Pinned_IsAlignedWritableAndCopies) {
  std::set<void*> pointers;
  const uint64_t handle = alloc(1000);
  for (const uint64_t bytes : {1u, 63u, 64u, 1000u}) {
    void* ptr = nullptr;
    ASSERT_EQ(host_alloc(bytes, &ptr), BP_OK);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(ptr) % 64, 0u);
    EXPECT_TRUE(pointers.insert(ptr).second);
    std::memset(ptr, 0x5A, bytes);
    EXPECT_EQ(upload({handle, 0}, ptr, bytes), BP_OK);
    std::memset(ptr, 0, bytes);
    EXPECT_EQ(download(ptr, {handle, 0}, bytes), BP_OK);
    EXPECT_EQ(Bytes(static_cast<uint8_t*>(ptr), static_cast<uint8_t*>(ptr) + bytes),
              Bytes(bytes, 0x5A));
  }
  for (void* ptr : pointers) EXPECT_EQ(plugin_.memory->host_free(device_, ptr), BP_OK);
  EXPECT_EQ(plugin_.memory->host_free(device_, *pointers.begin()), BP_INVALID_ARGUMENT);
  EXPECT_THAT(services().last_message(), HasSubstr("is not from host_alloc"));
  free(handle);
}

TEST_F(XpuMemoryTest, Pinned_BadSize_IsRefused) {
  void* ptr = nullptr;
  EXPECT_EQ(host_alloc(0, &ptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(host_alloc(UINT64_MAX, &ptr), BP_OUT_OF_MEMORY);
  EXPECT_EQ(host_alloc(UINT64_MAX / 2, &ptr), BP_OUT_OF_MEMORY);
  EXPECT_EQ(ptr, nullptr);
}

TEST_F(XpuMemoryTest, Map_AtOddOffsets_ReadsAndWritesTheDevice) {
  const Bytes source = numbers(300);
  const uint64_t handle = alloc(300);
  ASSERT_EQ(upload({handle, 0}, source.data(), 300), BP_OK);
  Bytes expected = source;
  for (const uint64_t offset : kOddOffsets) {
    void* ptr = nullptr;
    ASSERT_EQ(map({handle, offset}, 20, BP_MAP_READ_BIT | BP_MAP_WRITE_BIT, &ptr), BP_OK);
    auto* bytes = static_cast<uint8_t*>(ptr);
    EXPECT_EQ(Bytes(bytes, bytes + 20), Bytes(&expected[offset], &expected[offset] + 20));
    bytes[0] = 0;
    expected[offset] = 0;
    EXPECT_EQ(plugin_.memory->mem_unmap(device_, ptr), BP_OK);
  }
  EXPECT_EQ(read_bytes(handle, 300), expected);
  free(handle);
}

TEST_F(XpuMemoryTest, Map_WriteOnly_KeepsWhatIsNotWritten) {
  const Bytes source = numbers(64);
  const uint64_t handle = alloc(64);
  ASSERT_EQ(upload({handle, 0}, source.data(), 64), BP_OK);
  void* ptr = nullptr;
  ASSERT_EQ(map({handle, 0}, 64, BP_MAP_WRITE_BIT, &ptr), BP_OK);
  static_cast<uint8_t*>(ptr)[10] = 0;
  ASSERT_EQ(plugin_.memory->mem_unmap(device_, ptr), BP_OK);
  Bytes expected = source;
  expected[10] = 0;
  EXPECT_EQ(read_bytes(handle, 64), expected);
  free(handle);
}

TEST_F(XpuMemoryTest, Map_Twice_IsUnmappedTwice) {
  const uint64_t handle = alloc(64);
  void* first = nullptr;
  void* second = nullptr;
  ASSERT_EQ(map({handle, 4}, 16, BP_MAP_READ_BIT, &first), BP_OK);
  ASSERT_EQ(map({handle, 4}, 16, BP_MAP_READ_BIT, &second), BP_OK);
  EXPECT_EQ(plugin_.memory->mem_free(device_, handle), BP_INVALID_ARGUMENT);
  EXPECT_THAT(services().last_message(), HasSubstr("is still mapped 2 times"));
  EXPECT_EQ(plugin_.memory->mem_unmap(device_, first), BP_OK);
  EXPECT_EQ(plugin_.memory->mem_unmap(device_, second), BP_OK);
  EXPECT_EQ(plugin_.memory->mem_unmap(device_, second), BP_INVALID_ARGUMENT);
  EXPECT_THAT(services().last_message(), HasSubstr("is not mapped"));
  free(handle);
}

TEST_F(XpuMemoryTest, Map_BadRangeOrAccess_IsRefused) {
  const uint64_t handle = alloc(64);
  void* ptr = nullptr;
  EXPECT_EQ(map({handle, 60}, 8, BP_MAP_READ_BIT, &ptr), BP_INVALID_ARGUMENT);
  EXPECT_THAT(services().last_message(), HasSubstr("8 bytes at offset 60 reach beyond"));
  EXPECT_EQ(map({handle, 0}, 0, BP_MAP_READ_BIT, &ptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(map({handle, 0}, 8, 0, &ptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(map({handle, 0}, 8, 4, &ptr), BP_UNSUPPORTED);
  EXPECT_EQ(ptr, nullptr);
  free(handle);
}

}  // namespace
}  // namespace bp::xpu_test
