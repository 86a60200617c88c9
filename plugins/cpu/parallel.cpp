// SPDX-License-Identifier: Apache-2.0
//
// The only file that talks to the OpenMP runtime. It calls libgomp's entry point by hand instead of
// using -fopenmp: with clang that flag brings a second runtime (libomp), and -fopenmp=libgomp
// compiles but silently runs one thread. The region function is what gcc would generate.
#include "parallel.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>

extern "C" {
// NOLINTNEXTLINE(readability-identifier-naming): the runtime's name
void GOMP_parallel(void (*function)(void*), void* data, unsigned thread_count, unsigned flags);
int omp_in_parallel();
int omp_get_thread_num();
int omp_get_max_threads();
void omp_set_num_threads(int thread_count);
int omp_get_dynamic();
void omp_set_dynamic(int is_dynamic);
int omp_get_thread_limit();
}

namespace bp::cpu {
namespace {

// More ranges than one in a thread's share, so that a thread which the machine holds up does not
// hold up the rest.
constexpr int64_t kRangesPerShare = 4;

// Of the thread: stands still while another program has its core.
int64_t own_ns() noexcept {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

struct Workers::Region {
  RangeFunction function;
  const void* body;
  Share* shares;
  int share_count;
  int64_t range_items;
  // ThreadSanitizer does not see libgomp's own synchronisation. These two tell it that the workers
  // start after the caller's writes and that the caller goes on after theirs.
  std::atomic<int> entry{0};
  std::atomic<int> exit{0};
  int64_t (*clock)() noexcept;  // on which the caller's work is taken
  int64_t caller_done_ns = 0;
};

// The runtime may give a region fewer threads than it has shares; the rest is done all the same.
void Workers::work(void* data) noexcept {
  auto& region = *static_cast<Region*>(data);
  region.entry.load(std::memory_order_acquire);
  const int thread = omp_get_thread_num();
  for (int i = 0; i < region.share_count; ++i) {
    Share& share = region.shares[(thread + i) % region.share_count];
    // Looked at before it is written: the line of a share that is done stays where it is.
    while (share.next.load(std::memory_order_relaxed) < share.end) {
      const int64_t begin = share.next.fetch_add(region.range_items, std::memory_order_relaxed);
      if (begin >= share.end) break;
      region.function(region.body, begin, std::min(begin + region.range_items, share.end));
    }
  }
  if (thread == 0) region.caller_done_ns = region.clock();
  region.exit.fetch_add(1, std::memory_order_release);
}

void Workers::run(int64_t item_count, RangeFunction function, const void* body) noexcept {
  const RegionLease lease(*this, true);
  if (!lease.granted()) {
    function(body, 0, item_count);
    return;
  }
  const int64_t share_items = (item_count - 1) / thread_count_ + 1;
  for (int i = 0; i < thread_count_; ++i) {
    const int64_t begin = std::min(i * share_items, item_count);
    shares_[i].next.store(begin, std::memory_order_relaxed);
    shares_[i].end = std::min(begin + share_items, item_count);
  }
  Region region{.function = function,
                .body = body,
                .shares = shares_.get(),
                .share_count = thread_count_,
                .range_items = (share_items - 1) / kRangesPerShare + 1,
                .clock = pause_.is_watching() ? &own_ns : &now_ns};
  region.entry.store(1, std::memory_order_release);
  const int64_t begin_ns = now_ns();
  const int64_t work_begin_ns = region.clock();
  GOMP_parallel(&work, &region, static_cast<unsigned>(thread_count_), 0);
  region.exit.load(std::memory_order_acquire);
  const int64_t end_ns = now_ns();
  const int64_t work_ns = region.caller_done_ns - work_begin_ns;
  pause_.note(end_ns, work_ns, end_ns - begin_ns - work_ns);
}

int64_t now_ns() noexcept {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

RegionLease::RegionLease(Workers& workers, bool wanted) noexcept
    : workers_(workers),
      granted_(wanted && workers.pause_.is_over(now_ns()) && !is_inside_region() &&
               !workers.region_taken_.exchange(true, std::memory_order_acquire)) {}

RegionLease::~RegionLease() {
  if (granted_) workers_.region_taken_.store(false, std::memory_order_release);
}

// Dynamic adjustment would give a library fewer threads than the count it planned its work for.
ThreadCountSetting::ThreadCountSetting(int thread_count) noexcept
    : previous_thread_count_(omp_get_max_threads()), previous_dynamic_(omp_get_dynamic()) {
  omp_set_dynamic(0);
  omp_set_num_threads(thread_count);
}

ThreadCountSetting::~ThreadCountSetting() {
  omp_set_num_threads(previous_thread_count_);
  omp_set_dynamic(previous_dynamic_);
}

bool is_inside_region() noexcept { return omp_in_parallel() != 0; }

int runtime_thread_limit() noexcept { return omp_get_thread_limit(); }

}  // namespace bp::cpu
