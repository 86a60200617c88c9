// SPDX-License-Identifier: Apache-2.0
//
// A warm group takes no more memory, however often the same tensors are summed. This program's
// operator new is that of the library, the plugins and the engine, too.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <new>
#include <thread>

#include "tests/api/ccl_fixture.hpp"

namespace {

std::atomic<int64_t> g_live_blocks{0};

/// nullptr: there is none.
void* allocate(size_t bytes) noexcept {
  void* const memory = std::malloc(bytes > 0 ? bytes : 1);
  if (memory != nullptr) ++g_live_blocks;
  return memory;
}

void* allocate_or_throw(size_t bytes) {
  void* const memory = allocate(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void release(void* memory) {
  if (memory != nullptr) --g_live_blocks;
  std::free(memory);
}

}  // namespace

void* operator new(size_t bytes) { return allocate_or_throw(bytes); }
void* operator new[](size_t bytes) { return allocate_or_throw(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, size_t) noexcept { release(memory); }
void operator delete[](void* memory, size_t) noexcept { release(memory); }

namespace bp {
namespace {

constexpr int kWarmUp = 300;
constexpr int kSums = 3000;
// Blocks of what is done and not away yet, which comes and goes: less than one for each sum.
constexpr int64_t kInProgress = 1000;

struct Taken {
  int64_t blocks = 0;
  uint64_t of_device = 0;
  uint64_t ring = 0;
};

struct Pair {
  DeviceNames devices;
  const char* engine;
};

class CclMemory : public CclTest, public testing::WithParamInterface<Pair> {
 protected:
  /// Once both ranks are here; neither goes on before.
  Taken look(const ccl::Group& group, Device device) {
    meet(&come_, 2 * ++looks_of_[group.rank()]);
    let_go();
    const Taken taken{g_live_blocks, device.info().memory_reserved_bytes, group.info().ring_bytes};
    meet(&gone_, 2 * looks_of_[group.rank()]);
    return taken;
  }

 private:
  /// What is done is taken away by other threads, on a busy machine much later.
  static void let_go() {
    int64_t least = g_live_blocks;
    for (int same = 0; same < 10; ++same) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      if (g_live_blocks < least) same = 0;
      least = std::min<int64_t>(least, g_live_blocks);
    }
  }

  std::atomic<uint32_t> come_{0};
  std::atomic<uint32_t> gone_{0};
  uint32_t looks_of_[2] = {};
};

TEST_P(CclMemory, AllReduce_OfTheSameTensors_TakesNoMore) {
  const auto& [devices, engine] = GetParam();
  open({{"BACKPLANE_CCL_ENGINE", engine}, {"BACKPLANE_CCL_CHUNK", "4096"}});
  if (!has_all(devices)) GTEST_SKIP() << "a device is not on this machine";
  run(devices, [&](const ccl::Group& group, Device device) {
    for (const size_t count : {size_t{16}, size_t{5000}}) {  // a message, and several chunks
      const Tensor send = upload(device, Floats(count, 1));
      const Tensor recv = room(device, count);
      const auto sum = [&](int times) {
        for (int i = 0; i < times; ++i) group.all_reduce(send, recv);
      };
      sum(kWarmUp);
      const Taken before = look(group, device);
      sum(kSums);
      const Taken after = look(group, device);
      EXPECT_EQ(recv.to_vector<float>(), Floats(count, 2));
      EXPECT_LT(after.blocks - before.blocks, kInProgress) << count << " elements";
      EXPECT_EQ(after.of_device, before.of_device) << count << " elements";
      EXPECT_EQ(after.ring, before.ring) << count << " elements";
    }
  });
}

// One of each path: messages by either engine, staged ones, and a device's own collectives.
INSTANTIATE_TEST_SUITE_P(Pairs, CclMemory,
                         testing::Values(Pair{{"cpu:0", "cpu:0"}, "loop"},
                                         Pair{{"cpu:0", "cpu:0"}, "ucx"},
                                         Pair{{"npu:0", "cpu:0"}, "loop"},
                                         Pair{{"npu:0", "npu:1"}, "loop"},
                                         Pair{{"xpu:0", "cpu:0"}, "loop"}),
                         [](const auto& info) {
                           const Pair& pair = info.param;
                           return name_of_group({pair.devices, 0}) + "_" + pair.engine;
                         });

}  // namespace
}  // namespace bp
