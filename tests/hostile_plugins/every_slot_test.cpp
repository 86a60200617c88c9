// SPDX-License-Identifier: Apache-2.0
//
// Every function that the headers ask of a plugin has a row here: it throws, and a control call has
// one more, where it never returns. Which functions there are is not written here: the build's
// description of the headers (abi.json) says it, so a slot that is added to them fails by name
// until it has its rows. What else a plugin may do is in hostile_plugins_test.cpp.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <ostream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "backplane/ops.hpp"
#include "core/base/json.hpp"
#include "tests/hostile_plugins/core_calls.hpp"
#include "tests/hostile_plugins/other_device.hpp"

namespace bp {
namespace {

constexpr unsigned kSecondsToEnd = 60;
constexpr auto kPause = std::chrono::milliseconds(10);
// The deadline that is waited for, and one that no call comes near to, also on a busy machine.
constexpr std::chrono::seconds kMeasured(1);
constexpr std::chrono::seconds kNotMeasured(30);

/// Who gets into the slot: an application, by the C++ API, or, where no function of that leads
/// there, the core's typed calls.
enum class Caller { kApplication, kCore };

struct Row {
  const char* slot;       // as the headers call it
  const char* told;       // an extended regular expression
  const char* also = "";  // further wishes of the fake
  Caller caller = Caller::kApplication;
  uint32_t devices = 1;
  bool is_late = false;  // behind a call that was abandoned
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.slot << " with " << row.also; }

constexpr const char* kAllBands = "bands=all,faults=can";
// A wait that is over is not asked for, nor one of a device that takes one call at a time.
constexpr const char* kStreamMustWait = "stream_query=pending,device=concurrent";
constexpr const char* kEventMustWait = "bands=all,event_query=pending,device=concurrent";
// These end the process, if anybody calls them when a device is abandoned.
constexpr const char* kNothingMore = ",device_close=end,root_shutdown=end";

constexpr Row kThrows[] = {
    {"bp_plugin_entry", "log: .*plugin hostile: bp_plugin_entry threw: thrown  .31m on purpose"},
    {"init", "log: .*plugin hostile: init threw: thrown  .31m on purpose"},
    {"shutdown", "log: INTERNAL: plugin hostile: shutdown threw: thrown  .31m on purpose"},
    {"device_count", "log: .*plugin hostile: device_count threw: thrown  .31m on purpose"},
    {"device_open", "told: INTERNAL: .*hostile:0: device_open threw: thrown  .31m on purpose"},
    {"device_close", "log: INTERNAL: hostile:0: device_close threw: thrown  .31m on purpose"},
    {"device_props", "told: INTERNAL: .*hostile:0: device_props threw: thrown  .31m on purpose"},
    {"mem_alloc", "told: INTERNAL: .*hostile:0: mem_alloc threw: thrown  .31m on purpose"},
    {"mem_free", "log: INTERNAL: hostile:0: mem_free threw: thrown  .31m on purpose"},
    {"mem_copy", "told: INTERNAL: hostile:0: mem_copy threw: thrown  .31m on purpose"},
    {"mem_fill", "told: INTERNAL: .*hostile:0: mem_fill threw: thrown  .31m on purpose", kAllBands},
    {"host_alloc",
     "log: INTERNAL: hostile:0: host_alloc threw: thrown  .31m on purpose .*; the core goes on "
     "without, and tells this once.*done",
     kAllBands},
    {"host_free", "log: INTERNAL: hostile:0: host_free threw: thrown  .31m on purpose", kAllBands},
    {"mem_map", "told: INTERNAL: hostile:0: mem_map threw: thrown  .31m on purpose", kAllBands,
     Caller::kCore},
    {"mem_unmap", "told: INTERNAL: hostile:0: mem_unmap threw: thrown  .31m on purpose", kAllBands,
     Caller::kCore},
    {"stream_create", "told: INTERNAL: .*hostile:0: stream_create threw: thrown  .31m on purpose"},
    {"stream_destroy", "log: INTERNAL: hostile:0: stream_destroy threw: thrown  .31m on purpose"},
    {"stream_sync", "told: INTERNAL: hostile:0: stream_sync .*threw: thrown  .31m on purpose",
     kStreamMustWait},
    {"stream_query", "told: INTERNAL: .*hostile:0: stream_query threw: thrown  .31m on purpose"},
    {"event_create", "told: INTERNAL: add: hostile:0: event_create threw: thrown  .31m on purpose"},
    {"event_destroy", "log: INTERNAL: hostile:0: event_destroy threw: thrown  .31m on purpose"},
    {"event_record", "told: INTERNAL: add: hostile:0: event_record threw: thrown  .31m on purpose"},
    {"event_wait", "told: INTERNAL: add: hostile:0: event_wait threw: thrown  .31m on purpose"},
    {"event_sync", "told: INTERNAL: hostile:0: event_sync threw: thrown  .31m on purpose",
     kEventMustWait, Caller::kCore},
    {"event_query", "told: INTERNAL: hostile:0: event_query threw: thrown  .31m on purpose", "",
     Caller::kCore},
    {"mem_copy_async", "told: INTERNAL: hostile:0: mem_copy_async .*threw: thrown  .31m on purpose",
     kAllBands},
    // Where the device cannot fill, the core does, and lets go of the pattern by such a call.
    {"stream_host_call",
     "log: INTERNAL: hostile:0: stream_host_call threw: thrown  .31m on purpose", "faults=can"},
    {"event_elapsed", "told: INTERNAL: hostile:0: event_elapsed threw: thrown  .31m on purpose",
     kAllBands, Caller::kCore},
    {"stream_native_handle",
     "told: INTERNAL: hostile:0: stream_native_handle threw: thrown  .31m on purpose"},
    {"stream_wrap", "told: INTERNAL: hostile:0: stream_wrap threw: thrown  .31m on purpose"},
    {"kernel_list", "told: .*hostile:0: kernel_list threw: thrown  .31m on purpose"},
    {"supports",
     "log: INTERNAL: hostile:0: supports of kernel relu_plain threw: thrown  .31m on purpose"},
    {"plan",
     "told: INTERNAL: relu: hostile:0: plan of kernel relu_plain threw: thrown  .31m on purpose"},
    {"plan_free",
     "log: INTERNAL: hostile:0: plan_free of kernel relu_plain threw: thrown  .31m on purpose"},
    {"launch",
     "told: INTERNAL: .*hostile:0: launch of kernel relu_plain .operator relu. failed: "
     "threw: thrown  .31m on purpose"},
    {"state_create",
     "told: INTERNAL: relu: hostile:0: state_create of kernel relu_plain threw: thrown  .31m on "
     "purpose"},
    {"state_destroy",
     "log: INTERNAL: hostile:0: state_destroy of kernel relu_plain threw: thrown  .31m on "
     "purpose"},
    {"prepack_query", "told: INTERNAL: hostile:0: prepack_query.* threw: thrown  .31m on purpose",
     "", Caller::kCore},
    {"prepack", "told: INTERNAL: hostile:0: prepack.* threw: thrown  .31m on purpose", "",
     Caller::kCore},
    {"collective_caps", "told: INTERNAL: hostile:0: collective_caps threw: thrown  .31m on purpose",
     "", Caller::kCore},
    {"uid_create", "told: INTERNAL: hostile:0: uid_create threw: thrown  .31m on purpose", "",
     Caller::kCore},
    {"comm_init", "told: INTERNAL: hostile:0: comm_init threw: thrown  .31m on purpose", "",
     Caller::kCore},
    {"comm_poll", "told: INTERNAL: hostile:0: comm_poll threw: thrown  .31m on purpose", "",
     Caller::kCore},
    {"comm_abort", "told: INTERNAL: hostile:0: comm_abort threw: thrown  .31m on purpose", "",
     Caller::kCore},
    {"comm_destroy", "told: INTERNAL: hostile:0: comm_destroy threw: thrown  .31m on purpose", "",
     Caller::kCore},
    {"collective_enqueue",
     "told: INTERNAL: hostile:0: collective_enqueue threw: thrown  .31m on purpose", "",
     Caller::kCore},
};

// Calls that nobody waits for, or that the core has another way for.
constexpr Row kThrowsElsewhere[] = {
    {"device_close", "log: INTERNAL: hostile:0: device_close threw: thrown  .31m on purpose",
     "device_props=throw"},
    // It ends the instance of an init that returns when nobody waits for it any more.
    {.slot = "shutdown",
     .told = "log: plugin hostile: shutdown threw: thrown  .31m on purpose",
     .also = "root_init=stall",
     .is_late = true},
    // For want of a vendor's host device the first of these is one, unless the second has more.
    {.slot = "kernel_list",
     .told = "log: INTERNAL: hostile:0: kernel_list threw: thrown  .31m on purpose",
     .also = "execution=inline",
     .devices = 2},
    // For a tensor's values; the row above is for fault words, which come before.
    {"host_alloc",
     "done.*log: INTERNAL: hostile:0: host_alloc threw: .*; the core goes on without, and tells "
     "this once",
     "bands=all"},
    // Of a tensor's values, and before them of fault words.
    {"mem_copy_async",
     "done.*log: INTERNAL: hostile:0: mem_copy_async failed: threw: .*; the core goes on without, "
     "and tells this once",
     ""},
    {"mem_copy_async",
     "log: INTERNAL: hostile:0: mem_copy_async failed: threw: .*; the core goes on without, and "
     "tells this once.*done",
     kAllBands},
    // Where the device cannot fill, fault words are zeroed by copies.
    {"mem_copy_async", "told: INTERNAL: relu: hostile:0: mem_fill: hostile:0: mem_copy_async threw",
     "faults=can"},
    // On the worker of a stream that is the core's: whoever comes to it next is told.
    {"launch",
     "(told|log): .*hostile:0: launch of kernel relu_plain .operator relu. failed: threw: thrown",
     "streams=emulated,device=concurrent"},
    {"mem_copy", "told: INTERNAL: .*hostile:0: mem_copy .*threw: thrown  .31m on purpose",
     "streams=emulated"},
};

#define BP_ENDED " is abandoned: "
#define BP_LATE " did not return within 1000 ms; nothing calls it any more, other devices go on"
// Who uses the device from then on is told why it is not there.
#define BP_LOST(slot) \
  BP_LATE ".*told: DEVICE_LOST: .*hostile:0 is abandoned: " slot " did not return"

constexpr Row kHangs[] = {
    {"bp_plugin_entry", "log: plugin hostile" BP_ENDED "bp_plugin_entry" BP_LATE},
    {"init", "log: plugin hostile" BP_ENDED "init" BP_LATE},
    {"shutdown", "log: plugin hostile" BP_ENDED "shutdown" BP_LATE},
    {"device_count", "log: plugin hostile" BP_ENDED "device_count" BP_LATE},
    {"device_open", "log: hostile:0" BP_ENDED "device_open" BP_LOST("device_open")},
    {"device_close", "log: hostile:0" BP_ENDED "device_close" BP_LATE},
    {"device_close", "log: hostile:0" BP_ENDED "device_close" BP_LATE, "device_props=throw"},
    {"device_props", "log: hostile:0" BP_ENDED "device_props" BP_LOST("device_props")},
    {"kernel_list", "log: hostile:0" BP_ENDED "kernel_list" BP_LOST("kernel_list")},
    {"stream_destroy", "log: hostile:0" BP_ENDED "stream_destroy" BP_LOST("stream_destroy")},
    {"stream_sync",
     "log: hostile:0" BP_ENDED "stream_sync did not return within 2000 ms; nothing "
     "calls it any more.*told: DEVICE_LOST: .*hostile:0 is abandoned: stream_sync",
     kStreamMustWait},
    {"event_destroy", "log: hostile:0" BP_ENDED "event_destroy" BP_LATE},
    {"event_sync",
     "log: hostile:0" BP_ENDED "event_sync did not return within 2000 ms; nothing "
     "calls it any more.*told: DEVICE_LOST: .*hostile:0 is abandoned: event_sync",
     kEventMustWait, Caller::kCore},
    {"collective_caps", "log: hostile:0" BP_ENDED "collective_caps" BP_LOST("collective_caps"), "",
     Caller::kCore},
    {"uid_create", "log: hostile:0" BP_ENDED "uid_create" BP_LOST("uid_create"), "", Caller::kCore},
    {"comm_init", "log: hostile:0" BP_ENDED "comm_init" BP_LOST("comm_init"), "", Caller::kCore},
    {"comm_poll", "log: hostile:0" BP_ENDED "comm_poll" BP_LOST("comm_poll"), "", Caller::kCore},
    {"comm_abort", "log: hostile:0" BP_ENDED "comm_abort" BP_LOST("comm_abort"), "", Caller::kCore},
    {"comm_destroy", "log: hostile:0" BP_ENDED "comm_destroy" BP_LOST("comm_destroy"), "",
     Caller::kCore},
};

// --- which slots there are ---

/// By name: whether it is a control call, and so has a deadline.
std::map<std::string, bool> slots_of_headers() {
  constexpr size_t kMostBytes = 1 << 20;
  std::ifstream file(BP_ABI_JSON);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const JsonValue described = parse_json(text, kMostBytes);
  std::map<std::string, bool> slots;
  for (const JsonValue& table : described.at("structs").values()) {
    if (table.at("name").string() == "bp_host_api") continue;  // the core's own
    for (const JsonValue& member : table.at("members").values()) {
      const JsonValue* const slot = member.find("slot");
      if (slot == nullptr) continue;
      slots[member.at("name").string()] = slot->at("is_control").text() == "true";
    }
  }
  // What a library exports is called as an instance is made: against the same deadline.
  for (const std::string& name : described.at("functions").keys()) slots[name] = true;
  return slots;
}

bool has_row(std::span<const Row> rows, const std::string& slot) {
  return std::any_of(rows.begin(), rows.end(), [&](const Row& row) { return row.slot == slot; });
}

TEST(EverySlot, OfTheHeaders_HasItsRows) {
  const std::map<std::string, bool> slots = slots_of_headers();
  for (const auto& [slot, is_control] : slots) {
    EXPECT_TRUE(has_row(kThrows, slot)) << slot << " has no row where it throws";
    EXPECT_EQ(has_row(kHangs, slot), is_control)
        << slot << ": a control call, and no other, has a row where it hangs";
  }
  for (const Row& row : kThrows) EXPECT_TRUE(slots.contains(row.slot)) << row.slot << " is no slot";
}

// --- one process for each row ---

std::atomic<int> count_of_abandoned = 0;
std::atomic<int> count_of_detours = 0;
std::atomic<int> count_of_throws = 0;

/// Lines of the log come one at a time.
void note_line(void*, uint32_t, const char* text, uint64_t length) {
  const std::string line(text, length);
  if (line.find("nothing calls it any more") != std::string::npos) ++count_of_abandoned;
  if (line.find("the core goes on without") != std::string::npos) ++count_of_detours;
  std::fprintf(stderr, "log: %s\n", line.c_str());
  if (line.find(" threw: ") != std::string::npos) ++count_of_throws;
}

/// Prints what the application is told, and goes on.
void attempt(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    std::fprintf(stderr, "told: %s\n", error.what());
  }
}

void compute(const Device& device) {
  constexpr int64_t kCount = 1 << 15;  // too many for a staged copy
  const Tensor x = Tensor::from_host<float>(device, std::vector<float>(kCount, -1), {kCount});
  const Tensor y = relu(x);
  const Stream other = Stream::create(device);
  const Tensor z = add(y, y, other);  // behind an event
  Stream::default_of(device).sync();
  std::fprintf(stderr, "done: %d\n", static_cast<int>(other.done()));
  other.sync();
  std::fprintf(stderr, "%g\n", static_cast<double>(z.to_vector<float>()[0]));
}

void copy_little(const Device& device) {
  attempt([&] { relu(Tensor::create(device, BP_DTYPE_F32, {2})).to_vector<float>(); });
  const Tensor x = Tensor::from_host<float>(device, {-1, 2}, {2});
  std::fprintf(stderr, "%g\n", static_cast<double>(x.to_vector<float>()[0]));
}

void share_a_queue(const Device& device) {
  const Stream own = Stream::create(device);
  const NativeStream queue = own.native();
  Stream::wrap(device, queue.kind, queue.handle).sync();
}

void use(Runtime& runtime) {
  attempt([&] {
    const Device device = runtime.device("hostile:0");
    attempt([&] { compute(device); });
    attempt([&] { share_a_queue(device); });
    attempt([&] { copy_little(device); });
  });
}

/// The fake's names of what the tables call otherwise.
std::string name_in_fake(const std::string& slot) {
  if (slot == "init" || slot == "shutdown") return "root_" + slot;
  return slot == "launch" ? "launch_relu" : slot;
}

[[noreturn]] void run(const Row& row, const std::string& wishes, int abandoned_count) {
  alarm(kSecondsToEnd);           // a hang is a failure
  std::signal(SIGUSR1, SIG_IGN);  // by which the fake says that a call has returned late
  setenv("FAKE_HOSTILE", wishes.c_str(), 1);
  bpa_log_set_sink(note_line, nullptr);
  {
    RuntimeOptions options;
    options.plugin_path = BP_FAKES_DIR "/sound";
    options.install_dir = "";
    if (row.caller == Caller::kApplication) {
      options.plugin_path += ":" BP_FAKES_DIR "/hostile";
      options.options["hostile.devices"] = std::to_string(row.devices);
    }
    const auto timeout = abandoned_count > 0 ? kMeasured : kNotMeasured;
    options.options["BACKPLANE_TIMEOUT"] = std::to_string(timeout.count());
    Runtime runtime = Runtime::create(options);
    check_other(runtime);
    if (row.caller == Caller::kApplication) use(runtime);
    if (row.caller == Caller::kCore) use_from_core(BP_FAKES_DIR "/hostile", timeout);
    check_other(runtime);
  }
  while (row.is_late && count_of_throws == 0) std::this_thread::sleep_for(kPause);
  if (count_of_abandoned != abandoned_count || count_of_detours > 1) std::_Exit(kNotToldOnce);
  std::exit(kGood);
}

/// With a number, since some slots have several rows.
std::string name_of(const testing::TestParamInfo<Row>& info) {
  return info.param.slot + ("_" + std::to_string(info.index));
}

class ThrowingSlot : public testing::TestWithParam<Row> {};

TEST_P(ThrowingSlot, OfOneVendor_IsNamedAndHarmsNobodyElse) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Row& row = GetParam();
  const std::string wishes = name_in_fake(row.slot) + "=throw," + row.also;
  EXPECT_EXIT(run(row, wishes, row.is_late ? 1 : 0), testing::ExitedWithCode(kGood), row.told);
}

INSTANTIATE_TEST_SUITE_P(EverySlot, ThrowingSlot, testing::ValuesIn(kThrows), name_of);
INSTANTIATE_TEST_SUITE_P(Elsewhere, ThrowingSlot, testing::ValuesIn(kThrowsElsewhere), name_of);

class HangingControlCall : public testing::TestWithParam<Row> {};

TEST_P(HangingControlCall, OfOneVendor_IsAbandonedAndToldOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Row& row = GetParam();
  std::string wishes = name_in_fake(row.slot) + "=hang," + row.also;
  if (row.slot != std::string("shutdown")) wishes += kNothingMore;  // which comes behind a close
  EXPECT_EXIT(run(row, wishes, 1), testing::ExitedWithCode(kGood), row.told);
}

INSTANTIATE_TEST_SUITE_P(EveryControlCall, HangingControlCall, testing::ValuesIn(kHangs), name_of);

}  // namespace
}  // namespace bp
