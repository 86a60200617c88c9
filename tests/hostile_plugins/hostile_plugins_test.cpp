// SPDX-License-Identifier: Apache-2.0
//
// Each row: what a plugin does at one slot, and what people are told. The other vendor's device
// works before and after, one line tells of an abandoned device, and the process ends by itself.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cfenv>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backplane/ops.hpp"
#include "tests/hostile_plugins/other_device.hpp"

namespace bp {
namespace {

constexpr int kOutputSpoilt = 4;
constexpr int kFolderChanged = 5;
constexpr int kArithmeticChanged = 6;
constexpr int kHandlersChanged = 7;
constexpr int kLocaleChanged = 8;
constexpr int kFileMaskChanged = 9;
constexpr int kLineForged = 11;
constexpr int kEndedBySlot = 42;  // the fake's
constexpr unsigned kSecondsToEnd = 90;
// A deadline that no call comes near to, also on a busy machine.
constexpr const char* kNotMeasured = "30";

struct Row {
  const char* slot;
  const char* action;
  const char* told;       // an extended regular expression
  const char* also = "";  // further wishes of the fake
  int abandoned_lines = 0;
  int stuck_lines = 0;
  uint32_t devices = 1;
  int late_calls = 0;  // that return after all, and which the process waits for
  bool checks_arithmetic = true;
  // An operator on so few ends within the deadline in builds that are ten times slower too.
  int64_t elements = 1 << 17;
};

/// Whether the row waits until a deadline, which is short then.
bool waits(const Row& row) {
  const std::string action = row.action;
  const std::string wishes = std::string(row.slot) + "=" + action + "," + row.also;
  return action == "hang" || action == "stall" ||
         wishes.find("stream_query=pending") != std::string::npos;
}

// A tensor of so many, 1.5 MiB, shares no segment of memory with another.
constexpr int64_t kOwnSegment = 3 << 17;

std::atomic<int> count_of_abandoned = 0;
std::atomic<int> count_of_stuck = 0;
std::atomic<int> count_of_late = 0;

/// Control characters of ASCII and C1, marks of direction, separators of lines.
bool has_harmful_characters(const std::string& line) {
  for (const char c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return true;
  }
  for (const char* harmful : {"\xc2\x85", "\xe2\x80\xae", "\xe2\x80\xa8"}) {
    if (line.find(harmful) != std::string::npos) return true;
  }
  return false;
}

/// Lines of the log come one at a time.
void note_line(void*, uint32_t, const char* text, uint64_t length) {
  const std::string line(text, length);
  if (has_harmful_characters(line)) std::_Exit(kLineForged);
  if (line.find("abandoned") != std::string::npos) ++count_of_abandoned;
  if (line.find("has not returned for") != std::string::npos) ++count_of_stuck;
  std::fprintf(stderr, "log: %s\n", line.c_str());
}

std::string name_of(const testing::TestParamInfo<Row>& info) {
  return std::string(info.param.slot) + "_" + info.param.action;
}

/// Uses the hostile device as an application would, and prints what it is told.
void use(Runtime& runtime, int64_t elements) {
  try {
    const Device device = runtime.device("hostile:0");
    const std::vector<float> values(static_cast<size_t>(elements), -1);
    const Tensor x = Tensor::from_host<float>(device, values, {elements});
    const Tensor y = relu(x);
    const Stream other = Stream::create(device);
    const Tensor z = add(y, y, other);  // behind an event
    other.sync();
    std::fprintf(stderr, "%g\n", static_cast<double>(y.to_vector<float>()[0]));
  } catch (const Error& error) {
    std::fprintf(stderr, "told: %s\n", error.what());
  }
}

/// A product that is no normal number, which some settings make zero.
float tiny_product() {
  volatile float factor = 1e-30f;
  return factor * 1e-10f;
}

void handle_crash(int) { std::_Exit(1); }  // the application's own

constexpr mode_t kFileMask = 027;

void check_process(const std::filesystem::path& folder) {
  std::fflush(stdout);
  struct stat output {};
  if (fstat(STDOUT_FILENO, &output) != 0 || output.st_size != 0) std::_Exit(kOutputSpoilt);
  if (std::filesystem::current_path() != folder) std::_Exit(kFolderChanged);
  if (tiny_product() == 0 || std::fegetround() != FE_TONEAREST) std::_Exit(kArithmeticChanged);
  struct sigaction handler {};
  sigaction(SIGSEGV, nullptr, &handler);
  if (handler.sa_handler != handle_crash) std::_Exit(kHandlersChanged);
  sigaction(SIGINT, nullptr, &handler);
  if (handler.sa_handler != SIG_DFL) std::_Exit(kHandlersChanged);
  if (std::setlocale(LC_ALL, nullptr) != std::string("C")) std::_Exit(kLocaleChanged);
  if (umask(kFileMask) != kFileMask) std::_Exit(kFileMaskChanged);
}

[[noreturn]] void run(const Row& row) {
  alarm(kSecondsToEnd);  // a hang is a failure
  const std::string wishes = std::string(row.slot) + "=" + row.action + "," + row.also;
  setenv("FAKE_HOSTILE", wishes.c_str(), 1);
  std::signal(SIGSEGV, handle_crash);
  std::signal(SIGUSR1, [](int) { ++count_of_late; });
  umask(kFileMask);
  if (row.action == std::string("handlers")) setenv("BACKPLANE_LOG", "info", 1);
  bpa_log_set_sink(note_line, nullptr);
  const auto folder = std::filesystem::current_path();
  const auto output =
      std::filesystem::temp_directory_path() / ("hostile_" + std::to_string(getpid()) + ".txt");
  if (std::freopen(output.c_str(), "w", stdout) == nullptr) std::_Exit(kOutputSpoilt);
  std::filesystem::remove(output);  // however the process ends, nothing stays
  {
    RuntimeOptions options;
    options.plugin_path = BP_FAKES_DIR "/hostile:" BP_FAKES_DIR "/sound:" BP_FAKES_DIR "/fast";
    options.install_dir = "";
    options.options["BACKPLANE_TIMEOUT"] = waits(row) ? "1" : kNotMeasured;
    options.options["BACKPLANE_FALLBACK"] = "allow";
    options.options["BACKPLANE_CHECK_ARITHMETIC"] = row.checks_arithmetic ? "1" : "0";
    options.options["BACKPLANE_PLUGIN_OPTIONS"] = "hostile.devices=" + std::to_string(row.devices);
    Runtime runtime = Runtime::create(options);
    check_other(runtime);
    check_process(folder);
    use(runtime, row.elements);
    use(runtime, row.elements);
    check_other(runtime);
  }
  while (count_of_late < row.late_calls) std::this_thread::yield();
  check_process(folder);
  if (count_of_abandoned != row.abandoned_lines) std::_Exit(kNotToldOnce);
  if (count_of_stuck != row.stuck_lines) std::_Exit(kNotToldOnce);
  std::exit(kGood);
}

class HostileSlot : public testing::TestWithParam<Row> {};

TEST_P(HostileSlot, OfOneVendor_LeavesTheOthersAndTheProcessAlone) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(run(GetParam()), testing::ExitedWithCode(kGood), GetParam().told);
}

// Where a device is abandoned its instance gets no shutdown, which would end the process here.
constexpr const char* kNoShutdown = "root_shutdown=end";
// A wait that is over is not asked for, nor one of a device that takes one call at a time.
constexpr const char* kNeverDone = "stream_query=pending,device=concurrent";
constexpr const char* kMustWait = "stream_query=pending,device=concurrent,root_shutdown=end";

TEST(HostileShutdown, ThatEndsTheProcess_IsCalledWhereNothingIsAbandoned) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(run({"root_shutdown", "end", ""}), testing::ExitedWithCode(kEndedBySlot), "");
}

INSTANTIATE_TEST_SUITE_P(
    Hangs, HostileSlot,
    testing::Values(
        Row{"bp_plugin_entry", "hang",
            "log: plugin hostile is abandoned: bp_plugin_entry did not return within 1000 ms; "
            "nothing calls it any more, other devices go on",
            "", 1},
        Row{"root_init", "hang", "plugin hostile is abandoned: init did not return", "", 1},
        Row{"device_count", "hang", "plugin hostile is abandoned: device_count did not return", "",
            1},
        Row{"device_open", "hang", "hostile:0 is abandoned: device_open did not return",
            kNoShutdown, 1},
        Row{"device_props", "hang", "hostile:0 is abandoned: device_props did not return",
            kNoShutdown, 1},
        Row{"kernel_list", "hang", "hostile:0 is abandoned: kernel_list did not return",
            kNoShutdown, 1},
        Row{"stream_query", "pending", "told: TIMEOUT: hostile:0: .*BACKPLANE_TIMEOUT"},
        Row{"stream_sync", "hang", "hostile:0 is abandoned: stream_sync did not return", kMustWait,
            1},
        Row{"stream_destroy", "hang", "hostile:0 is abandoned: stream_destroy did not return",
            kNoShutdown, 1},
        Row{"device_close", "hang", "hostile:0 is abandoned: device_close did not return",
            kNoShutdown, 1},
        Row{"root_shutdown", "hang", "plugin hostile is abandoned: shutdown did not return", "",
            1}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    SeveralDevices, HostileSlot,
    testing::Values(
        // One deadline, not three.
        Row{.slot = "device_open",
            .action = "hang",
            .told = "log: device hostile:2 is left out: DEVICE_LOST: hostile:0 did not open in "
                    "time, so this one is not tried",
            .abandoned_lines = 1,
            .devices = 3},
        Row{.slot = "device_open",
            .action = "same",
            .told = "log: device hostile:1 is left out: INTERNAL: hostile:1: device_open answered "
                    "an object that it gave before",
            .devices = 2}),
    name_of);

// They return when nobody waits any more, and write what they answer.
INSTANTIATE_TEST_SUITE_P(
    Late, HostileSlot,
    testing::Values(Row{.slot = "device_open",
                        .action = "stall",
                        .told = "hostile:0 is abandoned: device_open did not return",
                        .abandoned_lines = 1,
                        .late_calls = 1},
                    Row{.slot = "device_props",
                        .action = "stall",
                        .told = "hostile:0 is abandoned: device_props did not return",
                        .abandoned_lines = 1,
                        .late_calls = 1},
                    Row{.slot = "kernel_list",
                        .action = "stall",
                        .told = "hostile:0 is abandoned: kernel_list did not return",
                        .abandoned_lines = 1,
                        .late_calls = 1}),
    name_of);

// By pthread_exit.
INSTANTIATE_TEST_SUITE_P(
    EndsItsThread, HostileSlot,
    testing::Values(Row{"bp_plugin_entry", "leave",
                        "plugin hostile: bp_plugin_entry ended its thr"},
                    Row{"root_init", "leave", "plugin hostile: init ended its thread"},
                    Row{"device_open", "leave", "hostile:0: device_open ended its thread"},
                    Row{"kernel_list", "leave", "hostile:0: kernel_list ended its thread"},
                    Row{"stream_destroy", "leave", "hostile:0: stream_destroy ended its thread"},
                    Row{"root_shutdown", "leave", "plugin hostile: shutdown ended its thread"}),
    name_of);

TEST(HostileLaunch, ThatEndsTheCallersThread_IsNamedBeforeTheProcessEnds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      run({"launch_relu", "leave", ""}), testing::KilledBySignal(SIGABRT),
      "backplane error: hostile:0: launch of kernel relu_plain ends its thread, which is not");
}

// Nothing can end these calls, so they are named, once each.
INSTANTIATE_TEST_SUITE_P(
    Stuck, HostileSlot,
    testing::Values(
        Row{"launch_relu", "stall",
            "log: hostile:0: launch of kernel relu_plain has not returned for 1[0-9]* ms; such a "
            "call cannot be ended, its thread waits for it",
            "execution=inline,device=concurrent", 0, 2},  // a launch in each use
        Row{.slot = "mem_alloc",
            .action = "stall",
            .told = "log: hostile:0: mem_alloc has not returned for",
            .stuck_lines = 3,
            .elements = kOwnSegment},
        // The device's own stream, and one that is used twice.
        Row{"stream_create", "stall", "log: hostile:0: stream_create has not returned for", "", 0,
            2},
        Row{.slot = "mem_free",
            .action = "stall",
            .told = "log: hostile:0: mem_free has not returned for",
            .stuck_lines = 3,
            .elements = kOwnSegment},
        Row{"constructor", "stall", "log: plugin hostile: opening its library has not returned", "",
            0, 1},
        // The worker of an emulated stream holds up no end of the stream, the device or the
        // process.
        Row{"launch_relu", "hang", "hostile:0 is abandoned: stream_destroy did not return",
            "streams=emulated,device=concurrent", 1, 1}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Throws, HostileSlot,
    testing::Values(
        Row{"root_init", "throw", "init threw"}, Row{"root_init", "throw_int", "init threw"},
        Row{"device_count", "throw", "device_count threw"},
        Row{"device_count", "throw_int", "device_count threw"},
        Row{"device_open", "throw", "hostile:0: device_open threw"},
        Row{"device_open", "throw_int", "hostile:0: device_open threw"},
        Row{"device_props", "throw", "hostile:0: device_props threw"},
        Row{"device_props", "throw_int", "hostile:0: device_props threw"},
        Row{"kernel_list", "throw", "hostile:0: kernel_list threw"},
        Row{"kernel_list", "throw_int", "hostile:0: kernel_list threw"},
        Row{"mem_alloc", "throw", "hostile:0: mem_alloc threw: thrown  .31m on purpose"},
        Row{"mem_alloc", "throw_int", "hostile:0: mem_alloc threw"},
        Row{"mem_copy", "throw", "hostile:0: mem_copy threw"},
        Row{"mem_copy", "throw_int", "hostile:0: mem_copy threw"},
        Row{"launch_relu", "throw",
            "hostile:0: launch of kernel relu_plain .operator relu. failed: threw: "},
        Row{"launch_relu", "throw_int",
            "hostile:0: launch of kernel relu_plain .operator relu. failed: threw: "},
        Row{"stream_create", "throw", "hostile:0: stream_create threw"},
        Row{"stream_create", "throw_int", "hostile:0: stream_create threw"},
        Row{"stream_query", "throw_int", "hostile:0: stream_query threw"},
        Row{"supports", "throw",
            "log: INTERNAL: hostile:0: supports of kernel relu_plain threw: thrown  "
            ".31m on purpose .INTERNAL, status 14.; that counts as no"},
        Row{"plan", "throw",
            "told: INTERNAL: relu: hostile:0: plan of kernel relu_plain threw: thrown"},
        Row{"plan", "throw_int",
            "told: INTERNAL: relu: hostile:0: plan of kernel relu_plain threw: unknow"},
        Row{"state_create", "throw",
            "told: INTERNAL: relu: hostile:0: state_create of kernel relu_plain threw"},
        Row{"event_create", "throw",
            "told: INTERNAL: add: hostile:0: event_create threw: thrown  .31m on"},
        Row{"event_record", "throw",
            "told: INTERNAL: add: hostile:0: event_record threw: thrown  .31m on"},
        Row{"event_wait", "throw",
            "told: INTERNAL: add: hostile:0: event_wait threw: thrown  .31m on"},
        Row{"event_destroy", "throw",
            "log: INTERNAL: hostile:0: event_destroy threw: thrown  .31m on purpose"},
        Row{"mem_free", "throw",
            "log: INTERNAL: hostile:0: mem_free threw: thrown  .31m on purpose"},
        Row{"mem_free", "throw_int", "log: INTERNAL: hostile:0: mem_free threw: unknown error"},
        Row{"stream_destroy", "throw", "stream_destroy threw"},
        Row{"stream_destroy", "throw_int", "stream_destroy threw"},
        Row{"device_close", "throw", "hostile:0: device_close threw"},
        Row{"device_close", "throw_int", "hostile:0: device_close threw"},
        Row{"root_shutdown", "throw", "shutdown threw"},
        Row{"root_shutdown", "throw_int", "shutdown threw"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Spoils, HostileSlot,
    testing::Values(
        Row{"root_init", "print", ""}, Row{"root_init", "chdir", ""},
        Row{"device_count", "print", ""}, Row{"device_open", "print", ""},
        Row{"device_open", "chdir", ""}, Row{"device_props", "print", ""},
        Row{"constructor", "handlers",
            "log: plugins changed the handlers of signals .*SEGV.*; that is put back"},
        Row{"root_init", "handlers", "log: plugins changed the handlers of signals .*SEGV"},
        Row{"device_open", "handlers", "log: plugins changed the handlers of signals .*SEGV"},
        Row{"constructor", "locale", "log: plugins changed the locale; .*that is put back"},
        Row{"device_open", "locale", "log: plugins changed the locale"},
        Row{"root_init", "flush", ""}, Row{"device_open", "flush", ""},
        Row{.slot = "plan", .action = "flush", .told = "", .checks_arithmetic = false},
        Row{.slot = "supports", .action = "flush", .told = "", .checks_arithmetic = false},
        Row{"root_init", "umask", "log: plugins changed the mask of new files .umask.; .*that"},
        Row{"launch_relu", "flush",
            "told: INTERNAL: relu: hostile:0: launch of kernel relu_plain .operator relu. failed: "
            "changed how its thread calculates .rounding, traps or tiny numbers.; it is as before "
            "again .INTERNAL, status 14.",
            "execution=inline,device=concurrent"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Lies, HostileSlot,
    testing::Values(
        // What `backplane devices` makes of such names is in tests/cli.
        Row{"names", "forged", "log: plugin hostile: chip  ERROR forged  .31m"},
        Row{"mem_alloc", "null", "hostile:0: mem_alloc answered OK and NULL"},
        Row{"mem_alloc", "odd", "hostile:0: mem_alloc answered an address that is not aligned"},
        Row{"mem_alloc", "same", "hostile:0: mem_alloc answered an object that it gave before"},
        Row{"mem_alloc", "inside", "hostile:0: mem_alloc answered [0-9]+ bytes that overlap with"},
        Row{"mem_alloc", "unknown",
            "told: INTERNAL: .*: hostile:0: mem_alloc answered status 4711, which is new to this "
            "core .INTERNAL, status 4711."},
        Row{"stream_create", "null", "hostile:0: stream_create answered OK and NULL"},
        Row{"stream_create", "same", "stream_create answered an object that it gave before"},
        Row{"stream_create", "unknown",
            "told: INTERNAL: device hostile:0 is not usable: hostile:0: stream_create answered "
            "status 4711, which is new to this core .INTERNAL, status 4711."},
        Row{"device_open", "null", "hostile:0: device_open answered OK and NULL"},
        Row{"state_create", "null",
            "told: INTERNAL: relu: hostile:0: state_create of kernel relu_plain answered OK and "
            "NU"},
        Row{"event_create", "null",
            "told: INTERNAL: add: hostile:0: event_create answered OK and NULL"},
        Row{"launch_relu", "pending",
            "told: INTERNAL: relu: hostile:0: launch of kernel relu_plain .operator relu. failed: "
            "answered PENDING, which no launch can mean .INTERNAL, status 14."},
        Row{"launch_relu", "forked", "failed: answered FORKED, which no launch can mean"},
        Row{"launch_relu", "cancelled", "failed: answered CANCELLED, which no launch can mean"},
        Row{"device_open", "pending", "answered PENDING, which no device_open can mean"},
        Row{"mem_alloc", "timeout", "answered TIMEOUT, which no mem_alloc can mean"},
        Row{"stream_sync", "pending", "answered PENDING, which no stream_sync can mean",
            kNeverDone},
        Row{"stream_sync", "timeout", "failed: answered TIMEOUT after [0-9]* of 1000 ms",
            kNeverDone},
        Row{"mem_alloc", "cancelled", "answered CANCELLED, which no mem_alloc can mean"},
        Row{"launch_relu", "unknown",
            "told: INTERNAL: relu: hostile:0: launch of kernel relu_plain .operator relu. failed: "
            "answered status 4711, which is new to this core .INTERNAL, status 4711."}),
    name_of);

// The worker of an emulated stream comes upon it, and whoever waits or reads next is told.
INSTANTIATE_TEST_SUITE_P(
    FailsLater, HostileSlot,
    testing::Values(Row{
        "launch_relu", "unknown",
        "told: INTERNAL: .*hostile:0: launch of kernel relu_plain .operator relu. failed: "
        "answered status 4711, which is new to this core .INTERNAL, status 4711.",
        "streams=emulated,device=concurrent"}),
    name_of);

// --- what others of the same device can still do ---

RuntimeOptions hostile_options() {
  RuntimeOptions options;
  options.plugin_path = BP_FAKES_DIR "/hostile";
  options.install_dir = "";
  options.options["BACKPLANE_TIMEOUT"] = "1";
  return options;
}

[[noreturn]] void use_while_a_stream_is_made() {
  alarm(kSecondsToEnd);
  setenv("FAKE_HOSTILE", "device=concurrent", 1);
  bpa_log_set_sink(note_line, nullptr);
  Runtime runtime = Runtime::create(hostile_options());
  const Device device = runtime.device("hostile:0");
  setenv("FAKE_HOSTILE", "device=concurrent,stream_create=hang", 1);
  std::thread([&] { Stream::create(device); }).detach();
  while (count_of_stuck == 0) std::this_thread::yield();
  device.sync();  // looks through all streams
  const Tensor x = Tensor::from_host<float>(device, {-1, 2}, {2});
  std::_Exit(x.to_vector<float>() == std::vector<float>{-1, 2} ? kGood : kOtherDeviceBroken);
}

TEST(HostileStreams, OneThatIsNeverMade_HoldsUpItsOwnThreadOnly) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(use_while_a_stream_is_made(), testing::ExitedWithCode(kGood),
              "hostile:0: stream_create has not returned for");
}

bpa_status status_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    std::fprintf(stderr, "told: %s\n", error.what());
    return error.status();
  }
  return BP_OK;
}

/// A device of which other threads' calls hang from hang_in() on: those that get into `slot`.
struct StuckDevice {
  StuckDevice() {
    alarm(kSecondsToEnd);
    setenv("FAKE_HOSTILE", "device=concurrent", 1);
    bpa_log_set_sink(note_line, nullptr);
    runtime = Runtime::create(hostile_options());
    device = runtime->device("hostile:0");
    stream = Stream::default_of(device);
    x = Tensor::from_host<float>(device, {-1, 2}, {2});
    expect(relu(x).to_vector<float>() == std::vector<float>{0, 2});
  }
  void hang_in(const std::string& slot, std::function<void()> call) {
    setenv("FAKE_HOSTILE", ("device=concurrent," + slot + "=hang").c_str(), 1);
    std::thread(std::move(call)).detach();
    while (count_of_stuck == 0) std::this_thread::yield();
    setenv("FAKE_HOSTILE", "device=concurrent", 1);
  }
  static void expect(bool is_so) {
    if (!is_so) std::_Exit(kOtherDeviceBroken);
  }
  [[noreturn]] static void end() { std::_Exit(kGood); }

  std::optional<Runtime> runtime;
  Device device;
  Stream stream;
  Tensor x;
};

[[noreturn]] void use_a_stream_that_a_launch_holds() {
  StuckDevice stuck;
  const Tensor& x = stuck.x;
  stuck.hang_in("launch_relu", [&] { relu(x, stuck.stream); });
  // Who waits for that stream is told so in time.
  StuckDevice::expect(!stuck.stream.done());
  const std::function<void()> waits[] = {
      [&] { stuck.stream.sync(); },
      [&] { stuck.device.sync(); },
      [&] { add(x, x, stuck.stream); },
      [&] { static_cast<void>(Tensor::from_host<float>(stuck.device, {1}, {1})); },
  };
  for (const auto& wait : waits) StuckDevice::expect(status_of(wait) == BP_TIMEOUT);
  // Another one goes on.
  const Stream own = Stream::create(stuck.device);
  own.sync();
  StuckDevice::expect(own.done());
  StuckDevice::end();
}

TEST(HostileStreams, ALaunchThatNeverReturns_IsToldToWhoWaitsForItsStream) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(use_a_stream_that_a_launch_holds(), testing::ExitedWithCode(kGood),
              "told: TIMEOUT: hostile:0: a call on the stream by another thread has not returned "
              "after 1 s .BACKPLANE_TIMEOUT.");
}

[[noreturn]] void allocate_while_an_allocation_hangs() {
  StuckDevice stuck;
  constexpr int64_t kMany = 2 << 20;
  const auto make_large = [&] { return Tensor::create(stuck.device, BP_DTYPE_F32, {kMany}); };
  stuck.hang_in("mem_alloc", [&] { static_cast<void>(make_large()); });
  const Tensor large = make_large();
  const Tensor y = relu(stuck.x, stuck.stream);
  StuckDevice::expect(y.to_vector<float>() == std::vector<float>{0, 2});
  StuckDevice::end();
}

TEST(HostileStreams, AnAllocationThatNeverReturns_HoldsUpItsOwnThreadOnly) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(allocate_while_an_allocation_hangs(), testing::ExitedWithCode(kGood),
              "hostile:0: mem_alloc has not returned for");
}

}  // namespace
}  // namespace bp
