// SPDX-License-Identifier: Apache-2.0
//
// The caching allocator over a device that only counts: reuse, merging, limits, and what an
// out-of-memory error says.
#include "core/memory/allocator.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <thread>

namespace bp {
namespace {

// A device without memory: handles are numbers, sizes are kept.
struct CountingDevice {
  std::mutex mutex;
  std::map<uint64_t, uint64_t> live;
  uint64_t next_handle = 0x1000;
  uint64_t capacity_bytes = uint64_t{1} << 30;
  uint64_t used_bytes = 0;
  int alloc_calls = 0;

  static CountingDevice* of(bp_device* device) { return reinterpret_cast<CountingDevice*>(device); }
  static bp_status alloc(bp_device* device, const bp_alloc_args* args, uint64_t* out_handle) {
    CountingDevice& self = *of(device);
    std::lock_guard lock(self.mutex);
    ++self.alloc_calls;
    if (self.used_bytes + args->bytes > self.capacity_bytes) return BP_OUT_OF_MEMORY;
    self.used_bytes += args->bytes;
    *out_handle = self.next_handle;
    self.next_handle += args->bytes;
    self.live[*out_handle] = args->bytes;
    return BP_OK;
  }
  static bp_status free(bp_device* device, uint64_t handle) {
    CountingDevice& self = *of(device);
    std::lock_guard lock(self.mutex);
    const auto found = self.live.find(handle);
    if (found == self.live.end()) return BP_INVALID_ARGUMENT;
    self.used_bytes -= found->second;
    self.live.erase(found);
    return BP_OK;
  }
};

class AllocatorTest : public testing::Test {
 protected:
  AllocatorTest() {
    table_.memory.mem_alloc = CountingDevice::alloc;
    table_.memory.mem_free = CountingDevice::free;
    table_.device = reinterpret_cast<bp_device*>(&device_);
    allocator_ = std::make_unique<Allocator>(
        table_, "fake:0",
        [this](Allocator::Need need) {
          needs_.push_back(need);
          ++quiesce_calls_;
          return while_waiting_ ? while_waiting_() : Status();
        },
        [this](bp_status code, std::string_view what) {
          ++explain_calls_;
          return Status(code, std::string(what) + ": its words");
        });
  }
  Block* must(uint64_t bytes, MemoryTag tag = MemoryTag::kActivations, const void* key = nullptr) {
    auto block = allocator_->allocate(bytes, tag, allocator_->pool(key));
    EXPECT_TRUE(block.ok()) << block.status().to_string();
    return block.ok() ? *block : nullptr;
  }

  CountingDevice device_;
  DeviceTable table_;
  int quiesce_calls_ = 0;
  std::vector<Allocator::Need> needs_;
  int explain_calls_ = 0;
  std::function<Status()> while_waiting_;
  std::unique_ptr<Allocator> allocator_;
};

TEST_F(AllocatorTest, Allocate_SlotFails_IsExplainedByTheDevice) {
  table_.memory.mem_alloc = [](bp_device*, const bp_alloc_args*, uint64_t*) -> bp_status {
    return BP_DEVICE_LOST;
  };
  const auto block = allocator_->allocate(1, MemoryTag::kIo, allocator_->pool(nullptr));
  ASSERT_FALSE(block.ok());
  EXPECT_EQ(block.status().code(), BP_DEVICE_LOST);
  EXPECT_EQ(block.status().message(), "mem_alloc of 256 bytes: its words");
  EXPECT_EQ(allocator_->stats().reserved_bytes, 0u);
}

/// Or the plugin's words would be those of the thread's next failure that comes without any.
TEST_F(AllocatorTest, Allocate_OutOfMemory_ThePluginsWordsAreTaken) {
  device_.capacity_bytes = 0;
  const auto block = allocator_->allocate(1, MemoryTag::kIo, allocator_->pool(nullptr));
  EXPECT_EQ(block.status().code(), BP_OUT_OF_MEMORY);
  EXPECT_GT(device_.alloc_calls, 0);
  EXPECT_EQ(explain_calls_, device_.alloc_calls);
}

TEST_F(AllocatorTest, Allocate_OnASmallDevice_LeavesRoomForOtherStreams) {
  device_.capacity_bytes = table_.props.memory_bytes = uint64_t{2} << 20;
  const int streams[4] = {};
  for (const int& stream : streams) {
    must(256, MemoryTag::kIo, &stream);
    must(uint64_t{200} << 10, MemoryTag::kWeights, &stream);
  }
  EXPECT_LE(allocator_->stats().reserved_bytes, uint64_t{2} << 20);
}

TEST_F(AllocatorTest, Allocate_SameSizeAfterFree_ReusesWithoutTheDevice) {
  Block* first = must(1000);
  const uint64_t place = first->handle + first->offset_bytes;
  allocator_->free(first);
  Block* second = must(1000);
  EXPECT_EQ(second->handle + second->offset_bytes, place);
  EXPECT_EQ(device_.alloc_calls, 1);
  EXPECT_EQ(second->bytes, 1024u);
  allocator_->free(second);
}

TEST_F(AllocatorTest, Allocate_ZeroBytes_GivesADistinctPlace) {
  Block* a = must(0);
  Block* b = must(0);
  EXPECT_NE(a->handle + a->offset_bytes, b->handle + b->offset_bytes);
  allocator_->free(a);
  allocator_->free(b);
}

TEST_F(AllocatorTest, Free_Neighbours_MergeIntoOneBlock) {
  Block* a = must(512 << 10);
  Block* b = must(512 << 10);
  Block* c = must(512 << 10);
  Block* d = must(512 << 10);
  EXPECT_EQ(device_.alloc_calls, 1);
  allocator_->free(b);
  allocator_->free(c);
  Block* wide = must(1 << 20);
  EXPECT_EQ(device_.alloc_calls, 1) << "b and c together hold it";
  allocator_->free(a);
  allocator_->free(d);
  allocator_->free(wide);
  EXPECT_TRUE(allocator_->trim().ok());
  EXPECT_EQ(device_.live.size(), 0u);
}

TEST_F(AllocatorTest, Allocate_OtherStream_DoesNotTakeTheFirstOnesBlock) {
  const int stream_a = 0;
  const int stream_b = 0;
  Block* a = must(4096, MemoryTag::kActivations, &stream_a);
  const uint64_t place = a->handle + a->offset_bytes;
  allocator_->free(a);
  Block* b = must(4096, MemoryTag::kActivations, &stream_b);
  EXPECT_NE(b->handle + b->offset_bytes, place);
  Block* again = must(4096, MemoryTag::kActivations, &stream_a);
  EXPECT_EQ(again->handle + again->offset_bytes, place);
  allocator_->free(b);
  allocator_->free(again);
}

TEST_F(AllocatorTest, Allocate_DeviceFull_TrimsAndRetriesOnce) {
  device_.capacity_bytes = 8 << 20;
  int another_stream = 0;
  Block* big = must(6 << 20, MemoryTag::kActivations, &another_stream);
  allocator_->free(big);
  Block* other = must(7 << 20);
  EXPECT_EQ(needs_, std::vector{Allocator::Need::kRoom});
  EXPECT_EQ(other->bytes, uint64_t{7} << 20);
  EXPECT_EQ(allocator_->stats().trim_count, 1u);
  allocator_->free(other);
}

TEST_F(AllocatorTest, Allocate_UnusedSegmentsTooSmall_GoBackBeforeThePoolGrows) {
  Block* small = must(4 << 20);
  Block* live = must(6 << 20);
  allocator_->free(small);
  Block* large = must(9 << 20);
  EXPECT_EQ(needs_, std::vector{Allocator::Need::kTidiness});
  EXPECT_EQ(allocator_->stats().reserved_bytes, uint64_t{6 + 9} << 20);
  EXPECT_EQ(device_.live.size(), 2u) << "what is in use stays";
  allocator_->free(large);
  Block* again = must(8 << 20);
  EXPECT_EQ(device_.alloc_calls, 3) << "what is large enough is used again";
  allocator_->free(again);
  allocator_->free(live);
}

TEST_F(AllocatorTest, Allocate_DeviceMayNotBeWaitedFor_UnusedSegmentsStay) {
  while_waiting_ = [] { return Status(BP_PENDING, "other ranks"); };
  Block* small = must(4 << 20);
  allocator_->free(small);
  Block* large = must(9 << 20);
  EXPECT_EQ(needs_, std::vector{Allocator::Need::kTidiness});
  EXPECT_EQ(device_.live.size(), 2u);
  Block* again = must(4 << 20);
  EXPECT_EQ(device_.alloc_calls, 2) << "it is used again";
  allocator_->free(again);
  allocator_->free(large);
}

TEST_F(AllocatorTest, LargeSegments_LeaveLessThanAnEighthIdle) {
  for (const uint64_t bytes : {(uint64_t{1} << 20) + 1, uint64_t{1'523'712}, uint64_t{4} << 20,
                               (uint64_t{4} << 20) + 1, uint64_t{11'111'111}}) {
    const uint64_t before = allocator_->stats().reserved_bytes;
    must(bytes);
    const uint64_t segment_bytes = allocator_->stats().reserved_bytes - before;
    EXPECT_GE(segment_bytes, bytes);
    EXPECT_LT(segment_bytes - bytes, bytes / 8) << bytes;
  }
  // A block that is a little larger still fits.
  Block* block = must(uint64_t{20'000'000});
  allocator_->free(block);
  const int calls = device_.alloc_calls;
  must(uint64_t{20'900'000});
  EXPECT_EQ(device_.alloc_calls, calls);
}

TEST_F(AllocatorTest, Trim_SegmentUsedDuringTheWait_IsNotTakenFromThatWork) {
  allocator_->free(must(4 << 20));
  uint64_t used_meanwhile = 0;
  while_waiting_ = [&] {
    Block* block = must(4 << 20);
    used_meanwhile = block->handle;
    allocator_->free(block);
    return Status();
  };
  EXPECT_TRUE(allocator_->trim().ok());
  EXPECT_EQ(device_.live.count(used_meanwhile), 1u);
  EXPECT_EQ(device_.live.size(), 1u) << "the unused one went back";
  while_waiting_ = nullptr;
  EXPECT_TRUE(allocator_->trim().ok());
  EXPECT_EQ(device_.live.size(), 0u);
}

TEST_F(AllocatorTest, Allocate_SegmentUsedDuringTheWaitToMakeWay_IsNotTakenFromThatWork) {
  allocator_->free(must(4 << 20));
  uint64_t used_meanwhile = 0;
  while_waiting_ = [&] {
    while_waiting_ = nullptr;
    Block* block = must(4 << 20);
    used_meanwhile = block->handle;
    allocator_->free(block);
    return Status();
  };
  Block* large = must(9 << 20);
  EXPECT_EQ(device_.live.count(used_meanwhile), 1u);
  EXPECT_EQ(device_.live.size(), 2u);
  allocator_->free(large);
}

TEST_F(AllocatorTest, Trim_WaitFails_SegmentsServeOn) {
  Block* block = must(4 << 20);
  const uint64_t handle = block->handle;
  allocator_->free(block);
  while_waiting_ = [] { return Status(BP_TIMEOUT, "still at work"); };
  EXPECT_EQ(allocator_->trim().code(), BP_TIMEOUT);
  Block* again = must(4 << 20);
  EXPECT_EQ(again->handle, handle);
  EXPECT_EQ(device_.alloc_calls, 1);
  allocator_->free(again);
}

// Small blocks keep out of large segments, unless there is nothing else.
TEST_F(AllocatorTest, Allocate_OnlyALargeSegmentHasRoom_SmallBlocksAreServedFromIt) {
  allocator_->set_limit_bytes(64 << 20);
  allocator_->free(must(64 << 20));
  Block* half = must(32 << 20);
  Block* small = must(1024);
  ASSERT_NE(small, nullptr);
  EXPECT_EQ(device_.alloc_calls, 1);
  allocator_->free(small);
  allocator_->free(half);
}

TEST_F(AllocatorTest, Allocate_LittleMemory_IsToldInBytes) {
  allocator_->set_limit_bytes(64 << 10);
  const auto refused =
      allocator_->allocate(100 << 10, MemoryTag::kWeights, allocator_->pool(nullptr));
  EXPECT_EQ(refused.status().code(), BP_OUT_OF_MEMORY);
  EXPECT_NE(refused.status().message().find("for 102400 bytes of weights"), std::string::npos);
  EXPECT_NE(refused.status().message().find("limit 65536 bytes"), std::string::npos);
}

TEST_F(AllocatorTest, Allocate_NothingToTrim_ErrorListsLargestTags) {
  device_.capacity_bytes = 16 << 20;
  Block* weights = must(9 << 20, MemoryTag::kWeights);
  Block* workspace = must(3 << 20, MemoryTag::kWorkspace);
  const auto refused =
      allocator_->allocate(8 << 20, MemoryTag::kActivations, allocator_->pool(nullptr));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), BP_OUT_OF_MEMORY);
  const std::string& words = refused.status().message();
  EXPECT_NE(words.find("fake:0: out of memory for 8.0 MiB of activations"), std::string::npos)
      << words;
  EXPECT_LT(words.find("weights 9.0 MiB"), words.find("workspace 3.0 MiB")) << words;
  allocator_->free(weights);
  allocator_->free(workspace);
  Block* fits = must(8 << 20);
  allocator_->free(fits);
}

TEST_F(AllocatorTest, Allocate_AbsurdSize_IsRefusedWithoutTheDevice) {
  const auto refused = allocator_->allocate(UINT64_MAX, MemoryTag::kIo, allocator_->pool(nullptr));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), BP_OUT_OF_MEMORY);
  EXPECT_EQ(device_.alloc_calls, 0);
}

TEST_F(AllocatorTest, SetLimit_ExactlyReached_IsGranted) {
  allocator_->set_limit_bytes(4 << 20);
  Block* all = must(4 << 20);
  EXPECT_EQ(allocator_->stats().reserved_bytes, uint64_t{4} << 20);
  allocator_->free(all);
}

TEST_F(AllocatorTest, SetLimit_Reached_IsOutOfMemoryBelowTheDevicesOwn) {
  allocator_->set_limit_bytes(4 << 20);
  Block* a = must(3 << 20);
  const auto refused =
      allocator_->allocate(3 << 20, MemoryTag::kActivations, allocator_->pool(nullptr));
  EXPECT_EQ(refused.status().code(), BP_OUT_OF_MEMORY);
  EXPECT_NE(refused.status().message().find("limit 4.0 MiB"), std::string::npos);
  allocator_->free(a);
}

TEST_F(AllocatorTest, Allocate_LargerThanOneAllocMayBe_IsOutOfMemory) {
  table_.props.max_alloc_bytes = 1 << 20;
  const Status refused =
      allocator_->allocate(2 << 20, MemoryTag::kIo, allocator_->pool(nullptr)).status();
  EXPECT_EQ(refused.code(), BP_OUT_OF_MEMORY);
  EXPECT_NE(refused.message().find(", at most 1.0 MiB at once"), std::string::npos)
      << refused.message();
  Block* fits = must(1 << 20);
  allocator_->free(fits);
}

TEST_F(AllocatorTest, Stats_LiveBlocks_AreCountedByTag) {
  Block* a = must(1000, MemoryTag::kWeights);
  Block* b = must(300, MemoryTag::kIo);
  MemoryStats stats = allocator_->stats();
  EXPECT_EQ(stats.tag_bytes[static_cast<size_t>(MemoryTag::kWeights)], 1024u);
  EXPECT_EQ(stats.tag_bytes[static_cast<size_t>(MemoryTag::kIo)], 512u);
  EXPECT_EQ(stats.allocated_bytes, 1536u);
  allocator_->free(a);
  allocator_->free(b);
  stats = allocator_->stats();
  EXPECT_EQ(stats.allocated_bytes, 0u);
  EXPECT_EQ(stats.peak_allocated_bytes, 1536u);
}

TEST_F(AllocatorTest, RandomUse_LiveBlocks_NeverOverlapAndAllComesBack) {
  std::mt19937 random(7);
  std::map<Block*, std::pair<uint64_t, uint64_t>> live;
  for (int step = 0; step < 20000; ++step) {
    if (live.size() < 40 || random() % 2 == 0) {
      const uint64_t bytes = uint64_t{1} << (random() % 23);
      auto block = allocator_->allocate(bytes + random() % 999, MemoryTag::kActivations,
                                        allocator_->pool(nullptr));
      if (!block.ok()) continue;
      const uint64_t start = (*block)->handle + (*block)->offset_bytes;
      for (const auto& [other, range] : live) {
        ASSERT_TRUE(start + (*block)->bytes <= range.first || range.second <= start);
      }
      live[*block] = {start, start + (*block)->bytes};
    } else {
      auto victim = live.begin();
      std::advance(victim, random() % live.size());
      allocator_->free(victim->first);
      live.erase(victim);
    }
  }
  for (const auto& [block, range] : live) allocator_->free(block);
  EXPECT_TRUE(allocator_->trim().ok());
  EXPECT_EQ(device_.live.size(), 0u);
  EXPECT_EQ(allocator_->stats().reserved_bytes, 0u);
}

TEST_F(AllocatorTest, Free_ByAnotherThread_IsCountedAndReused) {
  for (int round = 0; round < 1000; ++round) {
    std::vector<Block*> blocks;
    for (int i = 0; i < 40; ++i) blocks.push_back(must(4096));
    EXPECT_EQ(allocator_->stats().allocated_bytes, 40u * 4096);
    std::thread consumer([&] {
      for (Block* block : blocks) allocator_->free(block);
    });
    consumer.join();
    const MemoryStats stats = allocator_->stats();
    ASSERT_EQ(stats.allocated_bytes, 0u);
    ASSERT_EQ(stats.alloc_count, 40u * static_cast<unsigned>(round + 1));
    ASSERT_EQ(stats.reserved_bytes, uint64_t{2} << 20) << "round " << round;
  }
}

TEST_F(AllocatorTest, Free_ManySmallBlocks_MergeAgain) {
  std::vector<Block*> blocks;
  for (int i = 0; i < 8192; ++i) blocks.push_back(must(256));  // the whole of a segment
  EXPECT_EQ(device_.alloc_calls, 1);
  for (Block* block : blocks) allocator_->free(block);
  Block* wide = must(1 << 20);
  EXPECT_EQ(device_.alloc_calls, 1);
  EXPECT_EQ(allocator_->stats().peak_allocated_bytes, uint64_t{2} << 20);
  allocator_->free(wide);
}

TEST_F(AllocatorTest, TwoThreads_OneDevice_KeepTheirBlocks) {
  const auto work = [this](const void* key) {
    for (int i = 0; i < 5000; ++i) {
      auto block = allocator_->allocate(static_cast<uint64_t>(i % 4096), MemoryTag::kIo,
                                        allocator_->pool(key));
      ASSERT_TRUE(block.ok());
      allocator_->free(*block);
    }
  };
  const int key_a = 0;
  const int key_b = 0;
  std::thread other(work, &key_a);
  work(&key_b);
  other.join();
  EXPECT_EQ(allocator_->stats().allocated_bytes, 0u);
  EXPECT_EQ(allocator_->stats().alloc_count, 10000u);
}

}  // namespace
}  // namespace bp
