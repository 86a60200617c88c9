// SPDX-License-Identifier: Apache-2.0
//
// Slots that hang: the kit goes on, names them, and fails. And a plugin that cannot be left behind.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "sdk/conform/runner.hpp"

namespace bp::conform {
namespace {

constexpr double kDeadline = 4;

/// The slot of the hostile fake that hangs while this lives; children see the environment.
class Hanging {
 public:
  explicit Hanging(const std::string& slot) { setenv("FAKE_HOSTILE", (slot + "=hang").c_str(), 1); }
  ~Hanging() { unsetenv("FAKE_HOSTILE"); }
  Hanging(const Hanging&) = delete;
  Hanging& operator=(const Hanging&) = delete;
};

Result<DeviceRows> run(const std::string& fake, const std::vector<std::string>& filters,
                       const std::vector<OptionSetting>& options = {}) {
  const auto target = find_target(BP_FAKES_DIR "/" + fake, 0, options);
  if (!target.ok()) return target.status();
  RunOptions how;
  how.deadline_s = kDeadline;
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

TEST(AbandonCases, SoundFake_MayBeLeftBehind) {
  const auto device = run("sound", {"L0.abandon"});
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
