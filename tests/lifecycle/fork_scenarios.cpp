// SPDX-License-Identifier: Apache-2.0
//
// fork(): before anything it simply works; after plugins were loaded the child can do nothing but
// let go and leave, at once and without a hang, whatever the parent's threads were doing, and the
// parent does not notice.
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <optional>
#include <thread>

#include "tests/lifecycle/api_calls.hpp"

namespace bp::life {
namespace {

/// For the child to end, as the parent wants it to; a hang is ended here and fails.
void expect_exit(pid_t child, int exit_code) {
  LIFE_CHECK(child > 0);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      kill(child, SIGKILL);
      LIFE_CHECK(false && "the child hung");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  LIFE_CHECK(WIFEXITED(status));
  LIFE_CHECK(WEXITSTATUS(status) == exit_code);
}

void use_once() {
  const Runtime runtime = Runtime::create(runtime_options());
  check_ones(pending_work(runtime.device(arguments().device)));
}

bpa_status create_status() {
  bpa_runtime* runtime = nullptr;
  const bpa_status status = bpa_runtime_create(nullptr, &runtime);
  bpa_runtime_release(runtime);
  return status;
}

/// All that an application may own, with what the table of calls needs.
struct Owned {
  Owned()
      : runtime(Runtime::create(runtime_options())),
        device(runtime.device(arguments().device)),
        pending(pending_work(device)),
        host(Tensor::from_host<float>(Device(), {1.0f}, {1})),
        session(Session::load(runtime, arguments().model, {.device = arguments().device})) {}
  ApiObjects objects() const {
    ApiObjects all{};
    all.runtime = runtime.handle();
    all.device = device.handle();
    all.tensor = pending.handle();
    all.host_tensor = host.handle();
    all.session = session.handle();
    all.cancel = cancel.get();
    all.stream = stream.handle();
    ccl.give(&all);
    return all;
  }
  Runtime runtime;
  Device device;
  Stream stream = Stream::default_of(device);
  Tensor pending;
  Tensor host;
  Session session;
  std::shared_ptr<bpa_cancel> cancel = make_cancel();
  CclRig ccl{device};
};

void before_anything() {
  const pid_t child = fork();
  use_once();  // parent and child alike
  if (child == 0) exit(kExitWanted);
  expect_exit(child, kExitWanted);
}

/// The child of a process that forked before it used anything may fork again.
void before_anything_twice() {
  const pid_t child = fork();
  if (child == 0) {
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      use_once();
      exit(kExitWanted);
    }
    expect_exit(grandchild, kExitWanted);
    use_once();
    exit(kExitWanted);
  }
  expect_exit(child, kExitWanted);
}

void with_pending_work() {
  Owned owned;
  const auto outputs = owned.session.run(model_inputs(owned.device));
  owned.pending = pending_work(owned.device);
  const pid_t child = fork();
  if (child == 0) {
    check_api_calls(owned.objects(), ApiState::kForked);
    owned.pending = Tensor();
    _exit(kExitWanted);
  }
  expect_exit(child, kExitWanted);
  check_ones(owned.pending);
  for (const auto& [name, tensor] : owned.session.run(model_inputs(owned.device))) {
    LIFE_CHECK(tensor.to_vector<float>() == outputs.at(name).to_vector<float>());
  }
}

/// Locals of the scenario and statics both die in the child, the latter inside exit().
void child_releases_everything_and_exits() {
  static std::optional<Owned> owned;
  owned.emplace();
  std::optional<Owned> local(std::in_place);
  const pid_t child = fork();
  if (child == 0) {
    local.reset();
    exit(kExitWanted);
  }
  expect_exit(child, kExitWanted);
  check_ones(local->pending);
  check_ones(owned->pending);
}

// AddressSanitizer of gcc 12 does not take the locks of its heap before a fork: where another
// thread holds one, the child's first allocation waits for ever. Under it, threads stand still for
// a fork.
#ifdef __SANITIZE_ADDRESS__
constexpr bool kForksAnywhere = false;
#else
constexpr bool kForksAnywhere = true;
#endif

/// Threads hold the core's and the plugins' locks at the moment of the fork.
void while_threads_work() {
  Owned owned;
  constexpr int kThreads = 3;
  constexpr int kForks = 20;
  std::barrier meeting(kThreads + 1);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      while (!stop) {
        check_ones(pending_work(owned.device, 5));
        owned.session.run(model_inputs(owned.device));
        if (kForksAnywhere) continue;
        meeting.arrive_and_wait();
        meeting.arrive_and_wait();  // between the two, the fork
      }
    });
  }
  for (int i = 0; i < kForks; ++i) {
    if (!kForksAnywhere) meeting.arrive_and_wait();
    const pid_t child = fork();
    if (child == 0) {
      check_api_calls(owned.objects(), ApiState::kForked);
      bpa_tensor_release(owned.pending.handle());
      bpa_session_release(owned.session.handle());
      bpa_runtime_release(owned.runtime.handle());
      _exit(kExitWanted);
    }
    stop = i + 1 == kForks;  // before the threads can begin again
    if (!kForksAnywhere) meeting.arrive_and_wait();
    expect_exit(child, kExitWanted);
  }
  for (std::thread& thread : threads) thread.join();
  check_ones(owned.pending);
}

void from_another_thread() {
  Owned owned;
  std::thread([&] {
    const pid_t child = fork();
    if (child == 0) {
      check_api_calls(owned.objects(), ApiState::kForked);
      exit(kExitWanted);
    }
    expect_exit(child, kExitWanted);
  }).join();
  check_ones(owned.pending);
}

/// The child returns from the callback into a call that was about to return, or that has more lines
/// to tell: these are the parent's.
void in_log_sink() {
  static pid_t child = -1;
  const Owned owned;
  bpa_log_set_sink(
      [](void*, uint32_t, const char*, uint64_t) {
        if (child < 0) child = fork();
      },
      nullptr);
  RuntimeOptions options = runtime_options();
  options.options["BACKPLANE_LOG"] = "debug";
  bool failed = false;
  try {
    const Runtime runtime = Runtime::create(options);
    check_ones(pending_work(runtime.device(arguments().device)));
  } catch (const Error&) {
    failed = true;
  }
  if (child == 0) {
    LIFE_CHECK(failed);
    exit(kExitWanted);
  }
  LIFE_CHECK(!failed);
  bpa_log_set_sink(nullptr, nullptr);
  // A line of a plugin's init comes from the loader's thread: then that thread alone is the child,
  // and with its end the child ends too, with 0.
  LIFE_CHECK(child > 0);
  int status = 0;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (waitpid(child, &status, WNOHANG) == 0) {
    LIFE_CHECK(std::chrono::steady_clock::now() < deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  LIFE_CHECK(WIFEXITED(status));
  LIFE_CHECK(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == kExitWanted);
  check_ones(owned.pending);
}

/// The child returns from the callback into the worker that called it, alone: it ends there.
void in_run_callback() {
  Owned owned;
  static std::atomic<pid_t> child{-1};
  const auto fork_once = [](void*, bpa_status status, const char*, bpa_tensor** outputs,
                            uint64_t output_count) {
    LIFE_CHECK(status == BP_OK);
    for (uint64_t i = 0; i < output_count; ++i) bpa_tensor_release(outputs[i]);
    const pid_t forked = fork();
    if (forked == 0) {
      LIFE_CHECK(create_status() == BP_FORKED);
      return;
    }
    child = forked;
  };
  LIFE_CHECK(run_async(owned.session, model_inputs(owned.device), fork_once, nullptr) == BP_OK);
  for (int i = 0; i < 60'000 && child < 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  expect_exit(child, 0);
  check_ones(owned.pending);
  owned.session.run(model_inputs(owned.device));
}

void grandchild_is_forked_too() {
  const Owned owned;
  const pid_t child = fork();
  if (child == 0) {
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      LIFE_CHECK(create_status() == BP_FORKED);
      _exit(kExitWanted);
    }
    expect_exit(grandchild, kExitWanted);
    _exit(kExitWanted);
  }
  expect_exit(child, kExitWanted);
}

/// Plugins stay mapped, with what they keep for the process, so also this is too late.
void after_everything_was_released() {
  use_once();
  const pid_t child = fork();
  if (child == 0) {
    LIFE_CHECK(create_status() == BP_FORKED);
    exit(kExitWanted);
  }
  expect_exit(child, kExitWanted);
  use_once();
}

/// A program that the process starts is not the process.
void exec_after_use() {
  const Owned owned;
  const pid_t child = fork();
  if (child == 0) {
    const Arguments& a = arguments();
    execl("/proc/self/exe", "lifecycle_scenario", "fork_before_anything", a.device.c_str(),
          a.device_folder.c_str(), a.host_folder.c_str(), a.model.c_str(), nullptr);
    _exit(kExitFailed);
  }
  expect_exit(child, 0);
  LIFE_CHECK(system("exit 3") != -1);
  LIFE_CHECK(create_status() == BP_OK);
  check_ones(owned.pending);
}

struct Scenario {
  const char* name;
  void (*run)();
};
constexpr Scenario kScenarios[] = {
    {"before_anything", before_anything},
    {"before_anything_twice", before_anything_twice},
    {"with_pending_work", with_pending_work},
    {"child_exits", child_releases_everything_and_exits},
    {"while_threads_work", while_threads_work},
    {"from_another_thread", from_another_thread},
    {"in_log_sink", in_log_sink},
    {"in_run_callback", in_run_callback},
    {"grandchild", grandchild_is_forked_too},
    {"after_release", after_everything_was_released},
    {"exec", exec_after_use},
};

}  // namespace

bool run_fork_scenario(const std::string& name) {
  for (const Scenario& scenario : kScenarios) {
    if (name != std::string("fork_") + scenario.name) continue;
    scenario.run();
    return true;
  }
  return false;
}

}  // namespace bp::life
