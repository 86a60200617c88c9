// SPDX-License-Identifier: Apache-2.0
//
// Closing: what each function answers afterwards, a second life in the same process, and a thousand
// lives that leave nothing behind.
#include <malloc.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/lifecycle/api_calls.hpp"
#include "tests/living_threads.hpp"

namespace bp::life {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

void every_call_after_close() {
  Runtime runtime = Runtime::create(runtime_options());
  const Device device = runtime.device(arguments().device);
  const Session session = Session::load(runtime, arguments().model, {.device = arguments().device});
  const auto outputs = session.run(model_inputs(device));
  const Tensor pending = pending_work(device);
  const Tensor host = Tensor::from_host<float>(Device(), {1.0f}, {1});
  const auto cancel = make_cancel();
  const Stream stream = Stream::default_of(device);
  const CclRig ccl(device);
  ApiObjects objects{};
  objects.runtime = runtime.handle();
  objects.device = device.handle();
  objects.tensor = pending.handle();
  objects.host_tensor = host.handle();
  objects.session = session.handle();
  objects.cancel = cancel.get();
  objects.stream = stream.handle();
  ccl.give(&objects);
  runtime.close();
  check_api_calls(objects, ApiState::kClosed);
}

/// On the fake whose relu fails, or loses the device, as its option says.
void every_call_on_broken(const char* fault, ApiState state, bpa_status first) {
  RuntimeOptions options = runtime_options();
  options.options["good.device_fault"] = fault;
  const Runtime runtime = Runtime::create(options);
  const Device device = runtime.device(arguments().device);
  const Session session = Session::load(runtime, arguments().model, {.device = arguments().device});
  const std::vector<float> ones(kPendingSize, 1.0f);
  const Tensor old = Tensor::from_host<float>(device, ones, {kPendingSize});
  const Tensor host = Tensor::from_host<float>(Device(), {1.0f}, {1});
  const CclRig ccl(device);
  const Tensor broken = relu(old);
  const auto cancel = make_cancel();
  const Stream stream = Stream::default_of(device);
  ApiObjects objects{};
  objects.runtime = runtime.handle();
  objects.device = device.handle();
  objects.tensor = old.handle();
  objects.host_tensor = host.handle();
  objects.session = session.handle();
  objects.cancel = cancel.get();
  objects.stream = stream.handle();
  ccl.give(&objects);
  std::vector<float> values(kPendingSize);
  for (int i = 0; i < 2; ++i) {  // whoever reads it is told, again and again
    LIFE_CHECK(bpa_tensor_to_host(broken.handle(), values.data(), values.size() * sizeof(float)) ==
               first);
  }
  check_api_calls(objects, state);
  // The host device goes on, and so does a new Runtime in the same process.
  check_ones(pending_work(runtime.device("cpu:0")));
  const Runtime other = Runtime::create(runtime_options());
  check_ones(pending_work(other.device(arguments().device)));
}

void every_call_poisoned() { every_call_on_broken("relu_fails", ApiState::kPoisoned, BP_INTERNAL); }
void every_call_lost() { every_call_on_broken("relu_loses", ApiState::kLost, BP_DEVICE_LOST); }

void print_functions() {
  for (const ApiCall& row : api_calls()) std::printf("function %s\n", row.function);
}

/// Tensors and sessions of a closed Runtime are still there while the next one works.
void create_after_close() {
  for (int i = 0; i < 3; ++i) {
    Runtime first = Runtime::create(runtime_options());
    const Tensor old = pending_work(first.device(arguments().device));
    first.close();
    const Runtime second = Runtime::create(runtime_options());
    check_ones(pending_work(second.device(arguments().device)));
    bool gone = false;
    try {
      old.to_vector<float>();
    } catch (const Error& error) {
      gone = error.status() == BP_GONE;
    }
    LIFE_CHECK(gone);
  }
}

void two_at_once() {
  const Runtime first = Runtime::create(runtime_options());
  Tensor of_second;
  {
    const Runtime second = Runtime::create(runtime_options());
    of_second = pending_work(second.device(arguments().device));
    std::thread other([&] { check_ones(pending_work(first.device(arguments().device))); });
    check_ones(pending_work(second.device(arguments().device)));
    other.join();
  }
  check_ones(of_second);  // it keeps its Runtime
  check_ones(pending_work(first.device(arguments().device)));
}

void created_and_closed_by_threads() {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 3; ++i) {
        Runtime runtime = Runtime::create(runtime_options());
        check_ones(pending_work(runtime.device(arguments().device), 5));
        runtime.close();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// The last owner of everything is let go inside the callback of a run, on the Runtime's own
/// thread; and runs that nobody waits for are still in the queue when everything is let go.
void released_in_callback() {
  struct Everything {
    Runtime runtime = Runtime::create(runtime_options());
    Device device = runtime.device(arguments().device);
    Session session = Session::load(runtime, arguments().model, {.device = arguments().device});
  };
  static std::atomic<int> called{0};
  const auto let_go = [](void* user, bpa_status, const char*, bpa_tensor** outputs,
                         uint64_t output_count) {
    for (uint64_t i = 0; i < output_count; ++i) bpa_tensor_release(outputs[i]);
    delete static_cast<Everything*>(user);
    ++called;
  };
  const auto count = [](void*, bpa_status, const char*, bpa_tensor** outputs,
                        uint64_t output_count) {
    for (uint64_t i = 0; i < output_count; ++i) bpa_tensor_release(outputs[i]);
    ++called;
  };
  constexpr int kRounds = 5;
  for (int i = 0; i < kRounds; ++i) {
    auto* everything = new Everything;
    LIFE_CHECK(run_async(everything->session, model_inputs(everything->device), let_go,
                         everything) == BP_OK);
    const Everything abandoned;
    for (int run = 0; run < 4; ++run) {
      LIFE_CHECK(run_async(abandoned.session, model_inputs(abandoned.device), count, nullptr) ==
                 BP_OK);
    }
  }
  for (int i = 0; i < 60'000 && called < kRounds * 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  LIFE_CHECK(called == kRounds * 5);
}

// --- Many lives ---

struct Held {
  uint64_t heap_bytes = 0;
  uint64_t resident_bytes = 0;
  uint64_t fds = 0;
  uint64_t threads = 0;
  uint64_t mappings = 0;
};

uint64_t entries(const char* folder) {
  uint64_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

Held held() {
  Held now;
  malloc_trim(0);
  now.heap_bytes = mallinfo2().uordblks;
  uint64_t pages = 0;
  uint64_t resident_pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident_pages;
  now.resident_bytes = resident_pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  now.fds = entries("/proc/self/fd");
  now.threads = tests::living_threads().size();
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) ++now.mappings;
  return now;
}

void print(int cycle, const Held& now) {
  std::printf(
      "cycle %d: heap %llu, resident %llu, fds %llu, threads %llu, mappings %llu\n", cycle,
      static_cast<unsigned long long>(now.heap_bytes),
      static_cast<unsigned long long>(now.resident_bytes), static_cast<unsigned long long>(now.fds),
      static_cast<unsigned long long>(now.threads), static_cast<unsigned long long>(now.mappings));
}

void one_life() {
  Runtime runtime = Runtime::create(runtime_options());
  const Device device = runtime.device(arguments().device);
  const Session session = Session::load(runtime, arguments().model, {.device = arguments().device});
  const auto outputs = session.run(model_inputs(device));
  const Tensor pending = pending_work(device, 4);
  std::thread([&] { check_ones(pending_work(device, 4)); }).join();
  const CclRig ccl(device);
  ccl.group.all_reduce(ccl.tensor);
  const auto work = ccl.group.async().all_reduce(ccl.other_tensor);
  ccl.parallel.ready(0, ccl.tensor);
  ccl.parallel.finish();
}

/// The first fifth warms up: caches, arenas of the C library, what drivers keep per process.
void many_lives() {
  const int count = arguments().count;
  const int warm = std::max(count / 5, 10);
  Held begin;
  for (int cycle = 0; cycle < warm + count; ++cycle) {
    if (cycle == warm) begin = held();
    if (cycle == warm) print(cycle, begin);
    one_life();
  }
  const Held end = held();
  print(warm + count, end);
  LIFE_CHECK(end.fds == begin.fds);
  LIFE_CHECK(end.threads == begin.threads);
  if (kSanitized) return;  // freed memory is kept in quarantine
  // The C library keeps some stacks of ended threads; a mapping per life would be `count` more.
  LIFE_CHECK(end.mappings <= begin.mappings + 8);
  const auto lives = static_cast<uint64_t>(count);
  LIFE_CHECK(end.heap_bytes <= begin.heap_bytes + lives * 64 + 65'536);
  LIFE_CHECK(end.resident_bytes <= begin.resident_bytes + lives * 512 + (uint64_t{4} << 20));
}

struct Scenario {
  const char* name;
  void (*run)();
};
constexpr Scenario kScenarios[] = {
    {"every_call", every_call_after_close},
    {"every_call_poisoned", every_call_poisoned},
    {"every_call_lost", every_call_lost},
    {"functions", print_functions},
    {"create_again", create_after_close},
    {"two_at_once", two_at_once},
    {"by_threads", created_and_closed_by_threads},
    {"released_in_callback", released_in_callback},
    {"many_lives", many_lives},
};

}  // namespace

bool run_close_scenario(const std::string& name) {
  for (const Scenario& scenario : kScenarios) {
    if (name != std::string("close_") + scenario.name) continue;
    scenario.run();
    return true;
  }
  return false;
}

}  // namespace bp::life
