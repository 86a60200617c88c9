// SPDX-License-Identifier: Apache-2.0
//
// Sweeps the calls of the application API on one target with one kind of fault:
//   fault_sweep TARGET KIND FIRST_CALL FIRST_POINT sampled|every
// For each call the fault comes at point 1, 2, ... until the call no longer meets it. After each,
// the error, the state, a second try and (where the runtime is thrown away) leaks are looked at.
// Its parent (fault_injection_test.cpp) reads a line for each step, and so knows where it died or
// hung.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "core/api/handles.hpp"
#include "tests/fault_injection/calls/calls.hpp"
#include "tests/fault_injection/interposer.hpp"
#include "tests/fault_injection/world.hpp"

namespace bp::faults {
namespace {

struct Outcome {
  World::Counts counts;
  bpa_status status = BP_OK;
  std::string words = {};  // of the status
  bool stream_failed = false;
  std::string wrong = {};  // empty: all as it should be
};

struct Sweep {
  const Target& target;
  const FaultKind& kind;
  const Call& call;

  bool lost() const { return kind.fault == Fault::kLost; }
};

void say(const char* word, const std::string& rest) {
  std::printf("%s %s\n", word, rest.c_str());
  std::fflush(stdout);
}

// What an unfaulted call may leave behind: fault words, warm pools.
struct Allowance {
  uint64_t device_bytes = 0;
  uint64_t host_bytes = 0;
};

std::unique_ptr<World> make_world(const Sweep& sweep) {
  auto world = std::make_unique<World>(sweep.target);
  if (sweep.call.name == "runtime_create") return world;
  World::must(world->open(), "runtime_create");
  world->find_injection();
  sweep.call.prepare(*world);
  if (sweep.call.is_cold) return world;
  for (int i = 0; i < 2; ++i) {
    World::must(sweep.call.act(*world), sweep.call.name.data());
    sweep.call.drop(*world);
  }
  return world;
}

Allowance measure_allowance(const Sweep& sweep) {
  if (sweep.call.is_last || sweep.call.name == "runtime_create") return {};
  const std::unique_ptr<World> world = make_world(sweep);
  const Snapshot before = snapshot(*world);
  World::must(sweep.call.act(*world), sweep.call.name.data());
  const char* wrong = sweep.call.check(*world);
  World::must(wrong == nullptr ? BP_OK : BP_INTERNAL, sweep.call.name.data());
  sweep.call.drop(*world);
  const Snapshot after = snapshot(*world);
  const auto growth = [](uint64_t from, uint64_t to) { return to > from ? to - from : 0; };
  return {growth(before.device_bytes, after.device_bytes),
          growth(before.host_bytes, after.host_bytes)};
}

std::string named(bpa_status status) {
  return std::string(bpa_status_name(status)) + " (" + bpa_last_error() + ")";
}

// --- what must hold after a failure ---

std::string check_error(const Sweep& sweep, const Outcome& outcome) {
  const bpa_status status = outcome.status;
  const bool creating = sweep.call.name == "runtime_create";
  bool fits = false;
  switch (sweep.kind.fault) {
    case Fault::kAlloc:
    case Fault::kAllocFrom:
    case Fault::kThread:
      fits = status == BP_OUT_OF_MEMORY;
      break;
    case Fault::kCall:
    case Fault::kCallFrom:
      fits = status == BP_INTERNAL;
      break;
    case Fault::kOutOfMemory:
      fits = status == BP_OUT_OF_MEMORY || (creating && status == BP_INTERNAL);  // by options
      break;
    case Fault::kLost:
      fits = status == BP_DEVICE_LOST;
      break;
  }
  // A plugin that failed to load is left out, and looking for its device tells.
  if (creating && status == BP_UNAVAILABLE) fits = true;
  // What is enqueued behind work that has just failed is told so.
  if (status == BP_POISONED && sweep.target.is_queued) fits = true;
  const std::string said = std::string(bpa_status_name(status)) + " (" + outcome.words + ")";
  if (!fits) return "the error is " + said;
  if (outcome.words.empty()) return "an error without words: " + said;
  const bool tells = outcome.words.find("injected") != std::string::npos ||
                     outcome.words.find("lost") != std::string::npos;
  if (!sweep.kind.is_host && sweep.kind.fault != Fault::kOutOfMemory && !tells) {
    return "the words do not name the cause: " + said;
  }
  return {};
}

std::string check_state(const World& world, const Snapshot& before, const Allowance& allowance) {
  const Snapshot after = snapshot(world);
  if (after.device_bytes > before.device_bytes + allowance.device_bytes) {
    return "memory in use grew from " + std::to_string(before.device_bytes) + " to " +
           std::to_string(after.device_bytes) + " bytes";
  }
  if (after.host_bytes > before.host_bytes + allowance.host_bytes) {
    return "host device memory in use grew from " + std::to_string(before.host_bytes) + " to " +
           std::to_string(after.host_bytes) + " bytes";
  }
  return {};
}

std::string check_retry(const Sweep& sweep, World& world) {
  const bpa_status status = sweep.call.act(world);
  std::string wrong;
  if (status != BP_OK) {
    wrong = "the second try answers " + named(status);
  } else if (const char* words = sweep.call.check(world)) {
    wrong = std::string("after the second try ") + words;
  }
  sweep.call.drop(world);
  return wrong;
}

std::string check_host_device(World& world) {
  const int64_t sizes[] = {2};
  const float values[] = {1, 2};
  float found[] = {0, 0};
  bpa_tensor* tensor = nullptr;
  bpa_status status =
      bpa_tensor_from_host(world.host, BP_DTYPE_F32, sizes, 1, values, sizeof(values), &tensor);
  if (status == BP_OK) status = bpa_tensor_to_host(tensor, found, sizeof(found));
  bpa_tensor_release(tensor);
  if (status != BP_OK) return "the host device answers " + named(status);
  return found[0] == 1 && found[1] == 2 ? "" : "the host device gives wrong values";
}

/// Nothing works any more but ending, and all of it answers.
std::string check_lost(const Sweep& sweep, World& world) {
  for (int i = 0; i < 2; ++i) {
    const bpa_status status = sweep.call.act(world);
    sweep.call.drop(world);
    if (status != BP_DEVICE_LOST && !(sweep.call.works_when_lost && status == BP_OK)) {
      return "on the lost device the call answers " + named(status);
    }
  }
  const bpa_status status = bpa_device_sync(world.device);
  if (status != BP_DEVICE_LOST) return "on the lost device device_sync answers " + named(status);
  return check_host_device(world);
}

/// A stream that failed keeps saying so at once, until it is reset. Which one failed, the call
/// does not tell: the default one, or the one that the world has made.
std::string check_failed_stream(const Sweep& sweep, World& world) {
  const bpa_status again = bpa_device_sync(world.device);
  if (again == BP_OK) return "a failed stream is healthy again by itself";
  bpa_stream* stream = nullptr;
  bpa_status reset = bpa_stream_get_default(world.device, &stream);
  if (reset == BP_OK) reset = bpa_stream_reset(stream);
  bpa_stream_release(stream);
  if (reset == BP_OK && world.stream != nullptr) reset = bpa_stream_reset(world.stream);
  if (reset != BP_OK) return "resetting the failed stream answers " + named(reset);
  return check_retry(sweep, world);
}

std::string check_after(const Sweep& sweep, World& world, Outcome* outcome, const Snapshot& before,
                        const Allowance& allowance) {
  if (outcome->status != BP_OK) {
    std::string wrong = check_error(sweep, *outcome);
    if (!wrong.empty()) return wrong;
  } else if (const char* words = sweep.call.check(world)) {
    return std::string("no error, but ") + words;
  }
  sweep.call.drop(world);
  if (world.misuse != nullptr) return world.misuse;
  if (sweep.call.is_last) return {};
  if (sweep.lost()) return check_lost(sweep, world);
  // What was in use when memory was short goes at the next wait.
  outcome->stream_failed = bpa_device_sync(world.device) != BP_OK;
  std::string wrong = check_state(world, before, allowance);
  if (!wrong.empty()) return wrong;
  wrong = outcome->stream_failed ? check_failed_stream(sweep, world) : check_retry(sweep, world);
  return wrong.empty() ? check_state(world, before, allowance) : wrong;
}

// --- one point ---

Outcome run_point(const Sweep& sweep, World& world, uint64_t nth, const Allowance& allowance) {
  const Snapshot before = snapshot(world);
  Outcome outcome;
  outcome.words.reserve(4096);  // so that the sweep itself asks for nothing while armed
  world.words.fill(0);
  world.arm(sweep.kind, nth);
  outcome.status = sweep.call.act(world);
  outcome.words = world.words[0] != 0 ? world.words.data() : bpa_last_error();
  // Work that the call queued may meet the fault only now.
  if (sweep.target.is_queued && !sweep.call.is_last) {
    const bpa_status status = bpa_device_sync(world.device);
    if (outcome.status == BP_OK) {
      outcome.status = status;
      outcome.words = bpa_last_error();
    }
  }
  outcome.counts = world.disarm(sweep.kind);
  const bool unmet = outcome.counts.hits == 0 && !world.injection_is_gone;
  if (unmet) {
    if (outcome.status != BP_OK)
      outcome.wrong = "without a fault it answers " + named(outcome.status);
    sweep.call.drop(world);
    return outcome;
  }
  outcome.wrong = check_after(sweep, world, &outcome, before, allowance);
  return outcome;
}

/// Making the runtime: host faults as ever, driver faults by the plugin's options.
Outcome run_creation(const Sweep& sweep, World& world, uint64_t nth) {
  Outcome outcome;
  if (sweep.kind.is_host) {
    world.arm(sweep.kind, nth);
    outcome.status = sweep.call.act(world);
    outcome.counts = world.disarm(sweep.kind);
  } else {
    const char* kind = sweep.lost()                           ? "lose_device"
                       : sweep.kind.fault == Fault::kCallFrom ? "fail_from"
                                                              : "fail_call";
    outcome.status = world.open(kind, std::to_string(nth).c_str());
    if (outcome.status == BP_OK) world.find_injection();
    outcome.counts = outcome.status == BP_OK ? world.disarm(sweep.kind)
                                             : World::Counts{.points = nth, .hits = 1};
  }
  if (outcome.status == BP_OK) {
    if (const char* words = sweep.call.check(world)) outcome.wrong = words;
    return outcome;
  }
  outcome.words = bpa_last_error();
  outcome.wrong = check_error(sweep, outcome);
  sweep.call.drop(world);
  if (outcome.wrong.empty() && world.open() != BP_OK) {
    outcome.wrong = "the second try answers " + named(BP_INTERNAL);
  }
  return outcome;
}

Outcome run_fresh(const Sweep& sweep, uint64_t nth, const Allowance& allowance) {
  const std::unique_ptr<World> world = make_world(sweep);
  return sweep.call.name == "runtime_create" ? run_creation(sweep, *world, nth)
                                             : run_point(sweep, *world, nth, allowance);
}

/// A thread keeps some of the tensors that it frees for later ones. What a run's worker made and
/// this thread freed would look like a leak until that list is full: it is, whenever it is counted.
void fill_recycling_list() {
  std::array<bpa_tensor*, 300> tensors{};
  for (bpa_tensor*& tensor : tensors) {
    World::must(
        bpa_tensor_from_host(nullptr, BP_DTYPE_F32, nullptr, 0, &tensors, sizeof(float), &tensor),
        "from_host");
  }
  for (bpa_tensor* tensor : tensors) bpa_tensor_release(tensor);
}

Holdings settled_holdings(const Holdings& expected) {
  fill_recycling_list();
  Holdings now = holdings();
  // A joined thread may stay in the list for a moment, and one that has made its last call may
  // still be letting go: until nothing has changed for a while.
  constexpr int kStill = 10;
  int still = 0;
  for (int i = 0; i < 400 && now.exceeds(expected); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const Holdings then = std::exchange(now, holdings());
    still = now.exceeds(then) || then.exceeds(now) ? 0 : still + 1;
    if (still >= kStill && now.threads <= expected.threads) break;
  }
  return now;
}

/// Caches fill up and then stay; a leak grows with each repetition.
std::string check_leak(const Sweep& sweep, uint64_t nth, const Allowance& allowance,
                       Holdings* last) {
  constexpr int kRepetitions = 4;
  Holdings before = *last;
  for (int i = 0; i < kRepetitions; ++i) {
    const Holdings now = settled_holdings(before);
    *last = now;
    if (!now.exceeds(before)) return {};
    if (i + 1 == kRepetitions) {
      return "each time " + std::to_string(now.blocks - before.blocks) + " pieces of memory, " +
             std::to_string(now.threads - before.threads) + " threads and " +
             std::to_string(now.files - before.files) + " files are left";
    }
    before = now;
    const Outcome again = run_fresh(sweep, nth, allowance);
  }
  return {};
}

// --- a whole sweep ---

// Sanitized builds take several times as long for each point.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t kDensity = 1;
#else
constexpr uint64_t kDensity = 16;
#endif

uint64_t next_point(uint64_t nth, bool every) { return every ? nth + 1 : nth + 1 + nth / kDensity; }

void end_point(uint64_t nth, const Outcome& outcome, const std::string& wrong) {
  const char* verdict = !wrong.empty()             ? "wrong"
                        : outcome.counts.hits == 0 ? "unmet"
                        : outcome.status == BP_OK  ? "absorbed"
                        : outcome.stream_failed    ? "stream"
                                                   : "error";
  std::string line =
      std::to_string(nth) + " " + verdict + " " + bpa_status_name(outcome.status) + " " + wrong;
  std::replace(line.begin(), line.end(), '\n', ' ');
  say("end", line);
}

void sweep_call(const Sweep& sweep, uint64_t first, bool every) {
  // The first rounds fill the process's own caches.
  const Allowance allowance = measure_allowance(sweep);
  const bool fresh = sweep.call.is_cold || sweep.lost();
  std::unique_ptr<World> world;
  if (fresh) static_cast<void>(run_fresh(sweep, UINT64_MAX, allowance));
  fill_recycling_list();
  Holdings last = holdings();
  constexpr uint64_t kBlindPoints = 4;  // where nothing tells how many there were
  for (uint64_t nth = first;; nth = next_point(nth, every)) {
    say("begin", std::to_string(nth));
    if (!fresh && world == nullptr) world = make_world(sweep);
    Outcome outcome =
        fresh ? run_fresh(sweep, nth, allowance) : run_point(sweep, *world, nth, allowance);
    std::string wrong = outcome.wrong;
    if (fresh && wrong.empty()) wrong = check_leak(sweep, nth, allowance, &last);
    if (!wrong.empty()) world = nullptr;  // the next point must not suffer
    const bool blind = sweep.call.is_last && !sweep.kind.is_host;
    if (blind) outcome.counts.hits = nth <= kBlindPoints ? 1 : 0;
    end_point(nth, outcome, wrong);
    if (outcome.counts.hits == 0) break;
  }
}

int run(char** argv) {
  const auto all_targets = targets();
  const auto target = std::find_if(all_targets.begin(), all_targets.end(),
                                   [&](const Target& t) { return t.name == argv[1]; });
  const auto kind = std::find_if(fault_kinds().begin(), fault_kinds().end(),
                                 [&](const FaultKind& k) { return k.name == argv[2]; });
  if (target == all_targets.end() || kind == fault_kinds().end()) return 2;
  if (!kind->is_host && !target->injects) return 2;
  uint64_t first_point = std::strtoull(argv[4], nullptr, 10);
  const bool every = std::strcmp(argv[5], "every") == 0;
  for (size_t i = std::strtoull(argv[3], nullptr, 10); i < calls().size(); ++i) {
    if (calls()[i].needs_native_streams && !target->has_native_streams) continue;
    if (calls()[i].trains && !target->trains) continue;
    if (calls()[i].needs_progress && !target->has_progress) continue;
    say("call", std::to_string(i) + " " + std::string(calls()[i].name));
    sweep_call({*target, *kind, calls()[i]}, first_point, every);
    first_point = 1;
  }
  say("finished", "");
  return 0;
}

}  // namespace
}  // namespace bp::faults

int main(int argc, char** argv) {
  if (argc == 6) return bp::faults::run(argv);
  std::fprintf(stderr, "usage: fault_sweep TARGET KIND FIRST_CALL FIRST_POINT sampled|every\n");
  return 2;
}
