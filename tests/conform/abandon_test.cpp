// SPDX-License-Identifier: Apache-2.0
//
// Slots that hang: the kit goes on, names them, and fails. And a plugin that cannot be left behind.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "sdk/conform/runner.hpp"
#include "sdk/conform/step.hpp"

namespace bp::conform {
namespace {

// Waited for where a slot hangs, and one that no case comes near to, also on a busy machine.
constexpr double kDeadline = 4;
constexpr double kNotMeasured = 60;

/// What a slot of the hostile fake does while this lives; children see the environment.
class Misbehaving {
 public:
  explicit Misbehaving(const std::string& slot_and_action) {
    setenv("FAKE_HOSTILE", slot_and_action.c_str(), 1);
  }
  ~Misbehaving() { unsetenv("FAKE_HOSTILE"); }
  Misbehaving(const Misbehaving&) = delete;
  Misbehaving& operator=(const Misbehaving&) = delete;
};

class Hanging : public Misbehaving {
 public:
  explicit Hanging(const std::string& slot) : Misbehaving(slot + "=hang") {}
};

Result<DeviceRows> run(const std::string& fake, const std::vector<std::string>& filters,
                       const std::vector<OptionSetting>& options = {},
                       double deadline_s = kDeadline) {
  const auto target = find_target(BP_FAKES_DIR "/" + fake, 0, options);
  if (!target.ok()) return target.status();
  RunOptions how;
  how.deadline_s = deadline_s;
  how.emulated = false;
  how.filters = filters;
  static const CaseList list = all_cases();  // rows point into it
  return run_cases(list.cases(), *target, how);
}

/// The slot, a case that calls it, one that does not, and what is said of the slot.
class HangingSlot : public testing::TestWithParam<std::array<const char*, 4>> {};

TEST_P(HangingSlot, IsNamedAndTheOthersGoOn) {
  const auto& [slot, caller, other, said] = GetParam();
  const Hanging hanging(slot);
  const auto device = run("hostile", {caller, other});
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  ASSERT_EQ(device->rows.size(), 2u);
  for (const Row& row : device->rows) {
    const bool calls_it = row.tested->id == caller;
    EXPECT_EQ(row.outcome.verdict, calls_it ? Verdict::kTimeout : Verdict::kPass)
        << row.tested->id << ": " << row.outcome.words;
    if (!calls_it) continue;
    const std::string words = std::string(slot) + said;
    EXPECT_NE(row.outcome.words.find(words), std::string::npos) << row.outcome.words;
  }
  EXPECT_EQ(device->failed_count(), 1u);
}

INSTANTIATE_TEST_SUITE_P(
    Slots, HangingSlot,
    testing::Values(std::array{"stream_create", "L1.event.recorded_once_waited_twice",
                               "L2.alloc.no_bytes", " has not returned for "},
                    std::array{"stream_destroy", "L1.event.recorded_once_waited_twice",
                               "L2.alloc.no_bytes", " did not return within "},
                    std::array{"event_create", "L1.event.recorded_once_waited_twice",
                               "L2.alloc.no_bytes", " has not returned for "}),
    [](const auto& slot) { return std::string(slot.param[0]); });

TEST(HangingDevice, ThatCannotBeOpened_IsAnErrorThatNamesTheSlot) {
  const Hanging hanging("device_open");
  const auto device = run("hostile", {"L2.alloc.no_bytes"});
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.status().code(), BP_INTERNAL);
  EXPECT_NE(device.status().message().find("device_open did not return within "), std::string::npos)
      << device.status().to_string();
}

Outcome outcome_of(const std::string& slot_and_action, const std::string& id,
                   double deadline_s = kNotMeasured) {
  const Misbehaving misbehaving(slot_and_action);
  const auto device = run("hostile", {id}, {}, deadline_s);
  EXPECT_TRUE(device.ok()) << device.status().to_string();
  return device.ok() ? device->rows.at(0).outcome : Outcome();
}

TEST(SlotOnTheWayOfData, ThatHangs_IsNamed) {
  const Outcome outcome =
      outcome_of("mem_alloc=hang", "L2.copy.to_device.size.64.offset.0", kDeadline);
  EXPECT_EQ(outcome.verdict, Verdict::kTimeout);
  EXPECT_TRUE(outcome.words.starts_with("still busy after 4 s in mem_alloc;")) << outcome.words;
}

TEST(SlotOnTheWayOfData, ThatCrashesOnNull_IsNamedWithWhatWasExpected) {
  const Outcome outcome = outcome_of("mem_free=crash", "L0.null.mem_free.handle");
  EXPECT_EQ(outcome.verdict, Verdict::kCrash);
  EXPECT_EQ(outcome.words,
            "signal 6 (Aborted) in mem_free at mem_free.handle NULL, expected INVALID_ARGUMENT");
}

TEST(SlotOnTheWayOfData, ThatThrows_IsNamedWithItsWords) {
  const Outcome raw = outcome_of("mem_copy=throw_int", "L0.null.mem_free.handle");
  EXPECT_EQ(raw.verdict, Verdict::kFail);
  EXPECT_TRUE(raw.words.starts_with("mem_copy threw: ")) << raw.words;
  const Outcome gated = outcome_of("mem_copy=throw", "L2.copy.to_device.size.64.offset.0");
  EXPECT_TRUE(
      gated.words.starts_with("mem_copy to the device: expected OK, found INTERNAL; the "
                              "plugin says: hostile:0: mem_copy threw: thrown"))
      << gated.words;
}

TEST(SlotOnTheWayOfData, ThatAnswersAnUnknownStatus_IsNamedWithIt) {
  const Outcome outcome = outcome_of("mem_alloc=unknown", "L2.copy.to_device.size.64.offset.0");
  EXPECT_NE(outcome.words.find("; the plugin says: hostile:0: mem_alloc answered status 4711"),
            std::string::npos)
      << outcome.words;
}

template <class Table>
void expect_all_named() {
  std::array<void*, (sizeof(Table) - 8) / sizeof(void*)> before;
  std::array<void*, before.size()> after;
  before.fill(reinterpret_cast<void*>(expect_all_named<Table>));
  Table table{};
  auto* const slots = reinterpret_cast<std::byte*>(&table) + 8;
  std::memcpy(slots, before.data(), sizeof(before));
  name_slots(&table);
  std::memcpy(after.data(), slots, sizeof(after));
  for (size_t i = 0; i < after.size(); ++i) EXPECT_NE(after[i], before[i]) << "slot " << i;
}

TEST(NamedSlots, AreAllThatTheTablesHave) {
  expect_all_named<bp_root_api>();
  expect_all_named<bp_device_api>();
  expect_all_named<bp_memory_api>();
  expect_all_named<bp_stream_api>();
  expect_all_named<bp_kernel_api>();
  expect_all_named<bp_collective_api>();
}

TEST(AbandonCases, SoundFake_MayBeLeftBehind) {
  const auto device = run("sound", {"L0.abandon"}, {}, kNotMeasured);
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  EXPECT_EQ(device->count(Verdict::kPass), 1u);
  EXPECT_EQ(device->failed_count(), 0u);
}

TEST(AbandonCases, PluginThatWaitsAtExit_IsFound) {
  const auto device = run("sound", {"L0.abandon.exit_while_open"}, {{"sound.fault", "exit_waits"}});
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  EXPECT_EQ(device->rows.at(0).outcome.verdict, Verdict::kTimeout);
  EXPECT_NE(device->rows.at(0).outcome.words.find("after the case"), std::string::npos)
      << device->rows.at(0).outcome.words;
}

}  // namespace
}  // namespace bp::conform
