// SPDX-License-Identifier: Apache-2.0
//
// Threads: that regions really run on several, that only one is open at a time, that callers at
// once compute right, that the user's OpenMP settings survive, and that the process has one OpenMP
// runtime after our loops and oneDNN have both run in parallel.
#include <dirent.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "backplane/ops/attributes.h"
#include "plugins/cpu/cpu_test_support.hpp"
#include "plugins/cpu/parallel.hpp"
#include "plugins/cpu/thread_choice.hpp"

extern "C" {
int omp_get_max_threads();
void omp_set_num_threads(int thread_count);
// NOLINTNEXTLINE(readability-identifier-naming): the runtime's name
void GOMP_parallel(void (*function)(void*), void* data, unsigned thread_count, unsigned flags);
}

namespace bp::cpu_test {
namespace {

using cpu::RegionLease;
using cpu::RegionPause;
using cpu::ThreadChoice;
using cpu::ThreadCountSetting;
using cpu::ThreadUse;
using cpu::Workers;

constexpr int64_t kLargeCost = cpu::kRegionCost;
constexpr auto kPatience = std::chrono::seconds(20);

int core_count() {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

// The threads that took part in a region of `items` ranges in which each waits for the other.
size_t meeting_thread_count(Workers& workers, int64_t items, int64_t cost) {
  std::mutex mutex;
  std::set<std::thread::id> seen;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  workers.for_ranges(items, cost, [&](int64_t, int64_t) noexcept {
    for (;;) {
      {
        const std::lock_guard lock(mutex);
        seen.insert(std::this_thread::get_id());
        if (seen.size() > 1 || workers.thread_count() == 1) return;
      }
      if (std::chrono::steady_clock::now() > deadline || !workers.pays(items, cost)) return;
      std::this_thread::yield();
    }
  });
  return seen.size();
}

TEST(CpuWorkers, ARegion_RunsOnTwoThreads) {
  if (core_count() < 2) GTEST_SKIP() << "one core only";
  Workers workers(2);
  EXPECT_EQ(meeting_thread_count(workers, 100, kLargeCost), 2u);
}

// Each thread's first range in a region of two, in which all are at their first for a moment.
std::map<std::thread::id, int64_t> first_begins(int64_t items) {
  Workers workers(2);  // one that has waited for its threads pauses
  std::mutex mutex;
  std::map<std::thread::id, int64_t> begins;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  workers.for_ranges(items, kLargeCost, [&](int64_t begin, int64_t) noexcept {
    for (;;) {
      {
        const std::lock_guard lock(mutex);
        begins.emplace(std::this_thread::get_id(), begin);
        if (begins.size() == static_cast<size_t>(workers.thread_count())) return;
      }
      if (std::chrono::steady_clock::now() > deadline) return;
      std::this_thread::yield();
    }
  });
  return begins;
}

TEST(CpuWorkers, AThread_BeginsWithItsOwnItemsEachTime) {
  const auto begins = first_begins(1000);
  ASSERT_EQ(begins.size(), 2u);
  EXPECT_EQ(begins.at(std::this_thread::get_id()), 0);
  EXPECT_EQ(begins.begin()->second + std::next(begins.begin())->second, 500);
  for (int round = 0; round < 3; ++round) EXPECT_EQ(first_begins(1000), begins);
}

// One thread is held at its first range until the other has done all that is left.
TEST(CpuWorkers, AThreadThatIsHeldUp_LosesItsItemsToTheOthers) {
  Workers workers(2);
  std::atomic<int64_t> done{0};
  int64_t held_items = 0;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  workers.for_ranges(1000, kLargeCost, [&](int64_t begin, int64_t end) noexcept {
    if (begin == 0) {
      held_items = end;
      while (done.load() < 1000 - held_items && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::yield();
      }
    }
    done += end - begin;
  });
  EXPECT_EQ(done.load(), 1000);
  EXPECT_EQ(held_items, 125);
  EXPECT_LT(std::chrono::steady_clock::now(), deadline);
}

TEST(CpuWorkers, SmallWork_OpensNoRegion) {
  Workers workers(2);
  EXPECT_EQ(meeting_thread_count(workers, 100, 1), 1u);
  EXPECT_EQ(meeting_thread_count(workers, 1, kLargeCost * 10), 1u);
  Workers single(1);
  EXPECT_EQ(meeting_thread_count(single, 100, kLargeCost), 1u);
  EXPECT_FALSE(workers.pays(cpu::kRegionCost, 1));
  EXPECT_TRUE(workers.pays(cpu::kRegionCost + 1, 1));
}

TEST(CpuWorkers, Ranges_CoverEachItemOnce) {
  Workers workers(3);
  for (const int64_t count : {0, 1, 2, 11, 12, 13, 1000}) {
    std::vector<std::atomic<int>> visits(static_cast<size_t>(count));
    workers.for_ranges(count, kLargeCost, [&](int64_t begin, int64_t end) noexcept {
      for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
    });
    for (const auto& visit : visits) EXPECT_EQ(visit.load(), 1);
  }
}

TEST(CpuWorkers, SecondCaller_RunsSerial) {
  Workers workers(2);
  const RegionLease first(workers, true);
  EXPECT_TRUE(first.granted());
  EXPECT_FALSE(RegionLease(workers, true).granted());
  EXPECT_FALSE(RegionLease(workers, false).granted());
  std::set<std::thread::id> seen;
  workers.for_ranges(100, kLargeCost,
                     [&](int64_t, int64_t) noexcept { seen.insert(std::this_thread::get_id()); });
  EXPECT_EQ(seen, (std::set<std::thread::id>{std::this_thread::get_id()}));
}

TEST(CpuWorkers, LeaseThatEnded_CanBeTakenAgain) {
  Workers workers(2);
  for (int round = 0; round < 3; ++round) EXPECT_TRUE(RegionLease(workers, true).granted());
}

TEST(CpuWorkers, InsideARegionOfTheUser_RunsSerial) {
  Workers workers(2);
  struct Context {
    Workers& workers;
    std::atomic<int> granted{0};
    // These show ThreadSanitizer the order that libgomp keeps.
    std::atomic<bool> entry{false};
    std::atomic<int> left{0};
  } context{.workers = workers};
  context.entry.store(true, std::memory_order_release);
  GOMP_parallel(
      [](void* data) {
        auto& own = *static_cast<Context*>(data);
        if (own.entry.load(std::memory_order_acquire) && RegionLease(own.workers, true).granted()) {
          ++own.granted;
        }
        own.left.fetch_add(1, std::memory_order_release);
      },
      &context, 2, 0);
  EXPECT_EQ(context.left.load(std::memory_order_acquire), 2);
  EXPECT_EQ(context.granted.load(), 0);
}

TEST(CpuWorkers, ThreadCountSetting_IsRestored) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(5);
  {
    const ThreadCountSetting setting(3);
    EXPECT_EQ(omp_get_max_threads(), 3);
  }
  EXPECT_EQ(omp_get_max_threads(), 5);
  omp_set_num_threads(before);
}

std::set<std::string> tasks() {
  std::set<std::string> names;
  DIR* const folder = opendir("/proc/self/task");
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_name[0] != '.') names.insert(entry->d_name);
  }
  closedir(folder);
  return names;
}

// Threads that run now and did not then. Counting would be wrong: threads that an earlier test has
// joined may still be listed for a while.
size_t new_task_count(const std::set<std::string>& before) {
  const std::set<std::string> now = tasks();
  return static_cast<size_t>(std::count_if(
      now.begin(), now.end(), [&](const std::string& name) { return !before.contains(name); }));
}

// Files mapped into this process whose path contains `part`.
std::set<std::string> mapped_files(const std::string& part) {
  std::set<std::string> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t slash = line.find('/');
    if (slash != std::string::npos && line.find(part, slash) != std::string::npos) {
      found.insert(line.substr(slash));
    }
  }
  return found;
}

Call large_matmul() {
  return {"matmul",
          {make_random(BP_DTYPE_F32, {160, 160}, 1), make_random(BP_DTYPE_F32, {160, 160}, 2)},
          make_output(BP_DTYPE_F32, {160, 160})};
}

Call large_exp() {
  return {"exp", {make_random(BP_DTYPE_F32, {400, 400}, 3)}, make_output(BP_DTYPE_F32, {400, 400})};
}

// In a thread of its own, since libgomp keeps a pool per thread that opened a region.
TEST(CpuThreads, OurLoopsAndOnednn_ShareOnePoolOfOneRuntime) {
  std::thread caller([] {
    Device device("3");
    const std::set<std::string> before = tasks();
    EXPECT_EQ(run(device, large_exp()).status, BP_OK);
    EXPECT_EQ(new_task_count(before), 2u) << "the loop should have run on 3 threads";
    const Outcome outcome = run(device, large_matmul());
    EXPECT_EQ(outcome.status, BP_OK);
    EXPECT_EQ(outcome.kernel, "matmul_f32_onednn");
    EXPECT_EQ(new_task_count(before), 2u) << "oneDNN should use the same threads";
  });
  caller.join();
  EXPECT_EQ(mapped_files("libgomp").size(), 1u);
  EXPECT_TRUE(mapped_files("libomp").empty());
  EXPECT_TRUE(mapped_files("libiomp").empty());
  EXPECT_EQ(mapped_files("libbackplane_dnnl.so.3").size(), 1u);
  EXPECT_TRUE(mapped_files("libdnnl").empty());
}

TEST(CpuThreads, OneThread_StartsNone) {
  std::thread caller([] {
    Device device("1");
    const std::set<std::string> before = tasks();
    EXPECT_EQ(run(device, large_exp()).status, BP_OK);
    EXPECT_EQ(run(device, large_matmul()).status, BP_OK);
    EXPECT_EQ(new_task_count(before), 0u);
  });
  caller.join();
}

TEST(CpuThreads, OpenMpSettingOfTheCaller_Survives) {
  Device device("2");
  const int before = omp_get_max_threads();
  omp_set_num_threads(7);
  EXPECT_EQ(run(device, large_matmul()).status, BP_OK);
  EXPECT_EQ(omp_get_max_threads(), 7);
  omp_set_num_threads(before);
}

// One plan, a state each, launched from several host threads at once.
void launch_from_threads(Device& device, const std::string& kernel, const Call& call,
                         const Values& expected) {
  const Planned planned(device, device.kernel(kernel), call);
  ASSERT_EQ(planned.plan_status(), BP_OK);
  const Call packed = planned.packed(call);
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      Call own = packed;
      own.output = make_output(call.output.dtype, call.output.sizes);
      std::vector<std::byte> workspace(planned.info().workspace_bytes + 64);
      bp_kernel_state* const state = planned.make_state();
      Outcome outcome;
      for (int round = 0; round < 20; ++round) {
        EXPECT_EQ(planned.launch(own, state, workspace.data(), &outcome), BP_OK);
      }
      planned.free_state(state);
      const Values found = own.output.values();
      for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-4);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(CpuThreads, CallersAtOnce_ComputeRight) {
  Device device("2");
  const Call product = large_matmul();
  ASSERT_EQ(run(device, product).status, BP_OK);
  launch_from_threads(device, "matmul_f32_onednn", product, product.output.values());
  const Call powers = large_exp();
  ASSERT_EQ(run(device, powers).status, BP_OK);
  launch_from_threads(device, "exp_loop", powers, powers.output.values());
}

// oneDNN's code for one thread does not take the layout that its code for two likes best; of 1,000
// channels both layouts are padded, and a copy from one to the other takes a hundred times as long
// as the convolution.
TEST(CpuThreads, PackedWeightsOfAConvolution_ServeOneThreadAndAll) {
  Device device("2");
  const bp_attrs_conv attrs = bp_attrs_conv_defaults();
  struct Case {
    int64_t in_channels, out_channels, side;
  };
  for (const Case& c : {Case{1024, 512, 14}, Case{512, 1000, 5}}) {
    Call call{"conv",
              {make_random(BP_DTYPE_F32, {1, c.in_channels, c.side, c.side}, 41, -0.1, 0.1),
               make_random(BP_DTYPE_F32, {c.out_channels, c.in_channels, 1, 1}, 42, -0.1, 0.1),
               {}},
              make_output(BP_DTYPE_F32, {1, c.out_channels, c.side, c.side}),
              &attrs,
              "conv_f32_onednn"};
    ASSERT_EQ(run(device, call).status, BP_OK);
    const Values expected = call.output.values();
    call.constant_inputs = 2;
    Outcome outcome = run(device, call);
    ASSERT_EQ(outcome.status, BP_OK) << outcome.refusals["conv_f32_onednn"];
    launch_from_threads(device, "conv_f32_onednn", call, expected);
    // No launch has room for a copy of the weights.
    const Planned planned(device, device.kernel("conv_f32_onednn"), call);
    const auto weight_bytes = static_cast<uint64_t>(c.in_channels * c.out_channels) * sizeof(float);
    EXPECT_LT(planned.info().workspace_bytes, weight_bytes);
  }
}

// What a machine takes for one launch, on all threads and on one.
struct LaunchTimes {
  int64_t all_ns;
  int64_t one_ns;
};

// How often of `count` launches one thread was used.
int launches_on_one(ThreadChoice* choice, int count, const LaunchTimes& times) {
  int on_one = 0;
  for (int i = 0; i < count; ++i) {
    const bool is_one = choice->next() == ThreadUse::kOne;
    on_one += is_one ? 1 : 0;
    choice->launched(is_one ? times.one_ns : times.all_ns);
  }
  return on_one;
}

TEST(ThreadChoice, TakesTheQuickerWayAfterTryingBothThreeTimes) {
  ThreadChoice slow_threads;
  EXPECT_EQ(launches_on_one(&slow_threads, 6, {.all_ns = 900, .one_ns = 500}), 3);
  EXPECT_EQ(launches_on_one(&slow_threads, 100, {.all_ns = 900, .one_ns = 500}), 100);
  ThreadChoice quick_threads;
  EXPECT_EQ(launches_on_one(&quick_threads, 6, {.all_ns = 500, .one_ns = 900}), 3);
  EXPECT_EQ(launches_on_one(&quick_threads, 100, {.all_ns = 500, .one_ns = 900}), 0);
}

TEST(ThreadChoice, KeepsAllThreadsWhereOneIsHardlyQuicker) {
  ThreadChoice choice;
  EXPECT_EQ(launches_on_one(&choice, 106, {.all_ns = 1000, .one_ns = 960}), 3);
}

TEST(ThreadChoice, OneSlowLaunchDecidesNothing) {
  ThreadChoice choice;
  EXPECT_EQ(choice.next(), ThreadUse::kOne);
  choice.launched(900);
  EXPECT_EQ(choice.one_ns(), 900);
  EXPECT_EQ(choice.next(), ThreadUse::kAll);
  choice.launched(1'000'000);  // another program had the core
  EXPECT_EQ(launches_on_one(&choice, 104, {.all_ns = 500, .one_ns = 900}), 2);
}

TEST(ThreadChoice, TriesAgainWhenTheMachineHasChanged) {
  ThreadChoice choice;
  launches_on_one(&choice, 6, {.all_ns = 900, .one_ns = 500});
  EXPECT_EQ(choice.next(), ThreadUse::kOne);
  int launches = 0;
  while (choice.next() == ThreadUse::kOne || choice.is_trying()) {
    ASSERT_LT(++launches, 1000) << "one thread is kept for good";
    launches_on_one(&choice, 1, {.all_ns = 500, .one_ns = 900});
  }
  EXPECT_GT(launches, 100) << "it tries all the time";
  EXPECT_EQ(launches_on_one(&choice, 200, {.all_ns = 500, .one_ns = 900}), 0);
}

TEST(ThreadChoice, LaunchesThatRanOtherwiseAreTriedAgain) {
  ThreadChoice choice;
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(choice.next(), ThreadUse::kOne);
    choice.launched(-1);  // another caller had the threads
  }
  EXPECT_TRUE(choice.is_trying());
  EXPECT_EQ(launches_on_one(&choice, 106, {.all_ns = 900, .one_ns = 500}), 103);
}

TEST(RegionPause, ACallerThatWaitsMoreThanItWorksGetsNoRegionForAWhile) {
  constexpr int64_t kMs = 1'000'000;
  RegionPause pause;
  EXPECT_TRUE(pause.is_over(0));
  pause.note(100 * kMs, kMs, 4 * kMs);
  EXPECT_FALSE(pause.is_over(100 * kMs));
  EXPECT_FALSE(pause.is_over(109 * kMs));
  EXPECT_TRUE(pause.is_over(110 * kMs));
  pause.note(110 * kMs, kMs, 4 * kMs);  // again: twice as long
  EXPECT_FALSE(pause.is_over(129 * kMs));
  EXPECT_TRUE(pause.is_over(130 * kMs));
  int64_t now = 130 * kMs;
  for (int i = 0; i < 20; ++i) pause.note(now, kMs, 4 * kMs);
  EXPECT_FALSE(pause.is_over(now + 600 * kMs));
  EXPECT_TRUE(pause.is_over(now + 640 * kMs)) << "never for longer";
  now += 640 * kMs;
  for (int i = 0; i < 20; ++i) pause.note(now, kMs, 0);  // the machine is quiet again
  EXPECT_TRUE(pause.is_over(now));
  pause.note(now, kMs, 4 * kMs);
  EXPECT_TRUE(pause.is_over(now + 10 * kMs));
}

TEST(RegionPause, ShortWaitsAndWaitsOfLongWorkAreUsual) {
  RegionPause pause;
  pause.note(5'000'000, 1'000, 150'000);         // threads had to be woken up
  pause.note(5'000'000, 50'000'000, 4'000'000);  // little beside the work
  EXPECT_TRUE(pause.is_over(5'000'000));
}

TEST(RegionPause, ARegionThatTookLongIsWatched) {
  RegionPause pause;
  EXPECT_FALSE(pause.is_watching());
  pause.note(0, 2'000'000, 0);
  EXPECT_TRUE(pause.is_watching());
  pause.note(0, 100'000, 0);
  EXPECT_FALSE(pause.is_watching());
}

TEST(RegionPause, WhileItLastsWorkRunsOnTheCaller) {
  Workers workers(2);
  workers.pause().note(cpu::now_ns(), 1, int64_t{1} << 40);
  std::mutex mutex;
  std::set<std::thread::id> seen;
  std::vector<int> visits(1000);
  workers.for_ranges(1000, kLargeCost, [&](int64_t begin, int64_t end) noexcept {
    const std::lock_guard lock(mutex);
    seen.insert(std::this_thread::get_id());
    for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
  });
  EXPECT_EQ(seen, std::set<std::thread::id>{std::this_thread::get_id()});
  EXPECT_EQ(visits, std::vector<int>(1000, 1));
}

}  // namespace
}  // namespace bp::cpu_test
