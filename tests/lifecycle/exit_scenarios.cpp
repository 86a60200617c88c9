// SPDX-License-Identifier: Apache-2.0
//
// Ways to leave a process that uses Backplane, always with work in the queue: from each kind of
// thread and callback, with objects that live in statics or are never released. Whatever the way,
// the process must end with its own exit code: no crash in a destructor, no wait without end.
#include <stdlib.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "tests/lifecycle/rig.hpp"

namespace bp::life {
namespace {

/// All that an application may own, in one object.
struct Owned {
  Owned()
      : runtime(Runtime::create(runtime_options())),
        device(runtime.device(arguments().device)),
        pending(pending_work(device)) {}
  void add_session() {
    session.emplace(Session::load(runtime, arguments().model, {.device = arguments().device}));
    outputs = session->run(model_inputs(device));
  }
  Runtime runtime;
  Device device;
  Tensor pending;
  std::optional<Session> session{};
  std::map<std::string, Tensor> outputs{};
};

Owned* leaked = nullptr;  // never released

[[noreturn]] void sleep_for_ever() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

void leave_from_main() {
  leaked = new Owned;
  leaked->add_session();
  exit(kExitWanted);
}

void leave_from_main_after_everything_is_released() {
  { const Owned owned; }
  exit(kExitWanted);
}

void leave_from_worker_while_main_works() {
  leaked = new Owned;
  std::thread([] {
    const Tensor mine = pending_work(leaked->device, 10);
    exit(kExitWanted);
  }).detach();
  for (;;) leaked->pending = pending_work(leaked->device, 10);
}

void leave_from_worker_while_main_waits() {
  leaked = new Owned;
  std::thread([] { exit(kExitWanted); }).detach();
  for (;;) {
    leaked->device.sync();
    leaked->pending = relu(leaked->pending);
  }
}

void leave_while_threads_create_and_close() {
  for (int i = 0; i < 2; ++i) {
    std::thread([] {
      try {
        for (;;) const Owned owned;
      } catch (const Error& error) {  // as drivers end, they may have no device any more
        if (error.status() != BP_UNAVAILABLE) std::fprintf(stderr, "%s\n", error.what());
        sleep_for_ever();
      }
    }).detach();
  }
  const Owned once;  // so that the threads are under way
  leaked = new Owned;
  exit(kExitWanted);
}

// --- Callbacks: the log sink runs on whichever thread has something to say. ---

struct SinkTarget {
  std::string text;  // the first line with this ends the process
};

void leaving_sink(void* user, uint32_t, const char* line, uint64_t bytes) {
  const auto* target = static_cast<const SinkTarget*>(user);
  if (std::string(line, bytes).find(target->text) != std::string::npos) exit(kExitWanted);
}

Owned& owned_by_static() {
  static Owned owned;
  return owned;
}

RuntimeOptions talkative() {
  RuntimeOptions options = runtime_options();
  options.options["BACKPLANE_LOG"] = "debug";
  options.options["BACKPLANE_FALLBACK"] = "warn";
  options.options["BACKPLANE_HOST_OPS"] = "max_pool";
  return options;
}

/// A static Runtime is alive, so that its destructor runs inside the sink, on the sink's thread.
void leave_from_sink(const char* text) {
  owned_by_static();
  static SinkTarget target;
  target.text = text;
  bpa_log_set_sink(leaving_sink, &target);
  Runtime runtime = Runtime::create(talkative());
  const Device device = runtime.device(arguments().device);
  const Tensor x = Tensor::from_host<float>(device, std::vector<float>(9, 1.0f), {1, 1, 3, 3});
  max_pool(x, {2, 2});
  runtime.close();
  LIFE_CHECK(false && "no line had the text");
}

void leave_from_sink_in_create() { leave_from_sink("devices"); }  // "plugin P (FILE): N devices"
void leave_from_sink_in_plugin_call() { leave_from_sink("init with fault"); }
void leave_from_sink_in_call() { leave_from_sink("does not run"); }
void leave_from_sink_in_close() { leave_from_sink("fallback: "); }

struct LogsFromItsThread {
  ~LogsFromItsThread() {
    if (!active) return;
    std::thread([] { Runtime::create(talkative()); }).join();
  }
  bool active = false;
};

/// The thread that leaves is inside the sink, and a static destructor waits for a thread that logs.
void leave_from_sink_while_others_log() {
  static LogsFromItsThread logs;
  logs.active = true;
  leave_from_sink("devices");
}

/// The C library's exit() stands one thread only.
void leave_on_run_end(void*, bpa_status, const char*, bpa_tensor**, uint64_t) {
  static std::atomic<bool> leaving{false};
  if (leaving.exchange(true)) sleep_for_ever();
  exit(kExitWanted);
}

void leave_from_run_callback() {
  leaked = new Owned;
  leaked->add_session();
  for (int i = 0; i < 4; ++i) {
    LIFE_CHECK(run_async(*leaked->session, model_inputs(leaked->device), leave_on_run_end,
                         nullptr) == BP_OK);
  }
  sleep_for_ever();
}

/// The static's destructor runs on the thread of the Runtime that it owns.
void leave_from_run_callback_with_statics() {
  owned_by_static().add_session();
  LIFE_CHECK(run_async(*owned_by_static().session, model_inputs(owned_by_static().device),
                       leave_on_run_end, nullptr) == BP_OK);
  sleep_for_ever();
}

void leave_from_main_with_runs_queued() {
  static std::optional<Owned> owned(std::in_place);
  owned->add_session();
  for (int i = 0; i < 20; ++i) {
    const auto ignore = [](void*, bpa_status, const char*, bpa_tensor** outputs, uint64_t count) {
      for (uint64_t output = 0; output < count; ++output) bpa_tensor_release(outputs[output]);
    };
    LIFE_CHECK(run_async(*owned->session, model_inputs(owned->device), ignore, nullptr) == BP_OK);
  }
  exit(kExitWanted);
}

// --- Destructors and handlers that run inside exit(). ---

struct StaticUser {
  ~StaticUser() {
    if (!tensor) return;
    check_ones(tensor);  // the device still works here
    tensor = relu(tensor);
  }
  Tensor tensor;
};

/// Statics die in reverse: first the Runtime, its objects after it.
void leave_by_statics_runtime_first() {
  static StaticUser user;
  static std::map<std::string, Tensor> outputs;
  static std::optional<Session> session;
  static std::optional<Runtime> runtime;
  runtime.emplace(Runtime::create(runtime_options()));
  const Device device = runtime->device(arguments().device);
  session.emplace(Session::load(*runtime, arguments().model, {.device = arguments().device}));
  outputs = session->run(model_inputs(device));
  user.tensor = pending_work(device);
  exit(kExitWanted);
}

void leave_by_statics_runtime_last() {
  static Owned& owned = owned_by_static();
  owned.add_session();
  static StaticUser user;
  user.tensor = owned.pending;
  exit(kExitWanted);
}

struct StaticCloser {
  ~StaticCloser() {
    if (leaked == nullptr) return;
    leaked->runtime.close();
    bpa_status status = BP_OK;
    try {
      leaked->device.sync();
    } catch (const Error& error) {
      status = error.status();
    }
    LIFE_CHECK(status == BP_GONE);
  }
};

void leave_by_static_that_closes() {
  static const StaticCloser closer;
  leaked = new Owned;
  leaked->add_session();
  exit(kExitWanted);
}

void leave_by_atexit_handler_made_first() {
  atexit([] {
    check_ones(leaked->pending);
    delete leaked;
  });
  leaked = new Owned;
  leaked->add_session();
  exit(kExitWanted);
}

void leave_by_atexit_handler_made_last() {
  leaked = new Owned;
  leaked->add_session();
  atexit([] {
    check_ones(leaked->pending);
    leaked->outputs = leaked->session->run(model_inputs(leaked->device));
    delete leaked;
  });
  exit(kExitWanted);
}

void leave_by_atexit_handler_that_creates() {
  atexit([] {
    const Owned late;
    check_ones(late.pending);
  });
  exit(kExitWanted);
}

void leave_quickly() {
  leaked = new Owned;
  leaked->add_session();
  at_quick_exit([] { check_ones(leaked->pending); });
  quick_exit(kExitWanted);
}

std::optional<Owned>& owned_by_this_thread() {
  static thread_local std::optional<Owned> owned;
  return owned;
}

void leave_with_thread_local_objects() {
  owned_by_this_thread().emplace();
  std::thread([] { owned_by_this_thread().emplace(); }).join();
  exit(kExitWanted);
}

void leave_while_an_init_hangs() {
  RuntimeOptions options = runtime_options();
  const std::string id = arguments().device.substr(0, arguments().device.find(':'));
  options.options[id + ".fault"] = "init_hangs";
  options.options[id + ".signal_file"] = "/nonexistent/signal";
  options.options["BACKPLANE_LOG"] = "info";
  static std::mutex mutex;
  static std::condition_variable changed;
  static bool hanging = false;
  bpa_log_set_sink(
      [](void*, uint32_t, const char* line, uint64_t bytes) {
        if (std::string(line, bytes).find("init_hangs") == std::string::npos) return;
        const std::lock_guard lock(mutex);
        hanging = true;
        changed.notify_all();
      },
      nullptr);
  std::thread([options] {
    Runtime::create(options);
    sleep_for_ever();
  }).detach();
  std::unique_lock lock(mutex);
  LIFE_CHECK(changed.wait_for(lock, std::chrono::seconds(60), [] { return hanging; }));
  exit(kExitWanted);
}

struct Scenario {
  const char* name;
  void (*run)();
};
constexpr Scenario kScenarios[] = {
    {"main", leave_from_main},
    {"all_released", leave_from_main_after_everything_is_released},
    {"worker_while_main_works", leave_from_worker_while_main_works},
    {"worker_while_main_waits", leave_from_worker_while_main_waits},
    {"threads_create_and_close", leave_while_threads_create_and_close},
    {"run_callback", leave_from_run_callback},
    {"run_callback_with_statics", leave_from_run_callback_with_statics},
    {"runs_queued", leave_from_main_with_runs_queued},
    {"sink_in_create", leave_from_sink_in_create},
    {"sink_in_plugin_call", leave_from_sink_in_plugin_call},
    {"sink_in_call", leave_from_sink_in_call},
    {"sink_in_close", leave_from_sink_in_close},
    {"sink_while_others_log", leave_from_sink_while_others_log},
    {"statics_runtime_first", leave_by_statics_runtime_first},
    {"statics_runtime_last", leave_by_statics_runtime_last},
    {"static_that_closes", leave_by_static_that_closes},
    {"atexit_made_first", leave_by_atexit_handler_made_first},
    {"atexit_made_last", leave_by_atexit_handler_made_last},
    {"atexit_creates", leave_by_atexit_handler_that_creates},
    {"quick_exit", leave_quickly},
    {"thread_locals", leave_with_thread_local_objects},
    {"init_hangs", leave_while_an_init_hangs},
};

}  // namespace

bool run_exit_scenario(const std::string& name) {
  for (const Scenario& scenario : kScenarios) {
    if (name != std::string("exit_") + scenario.name) continue;
    scenario.run();
    return true;
  }
  return false;
}

}  // namespace bp::life
