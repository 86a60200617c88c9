// SPDX-License-Identifier: Apache-2.0
//
// Level 4 on npu with a device for each rank; conform_cases has ranks that share devices. This is
// what must notice the defects of npu's collectives in tests/mutation.
#include <gtest/gtest.h>

#include <regex>

#include "sdk/conform/case.hpp"
#include "sdk/conform/runner.hpp"

namespace bp::conform {
namespace {

std::vector<Case> collective_cases() {
  std::vector<Case> chosen;
  const CaseList list = all_cases();
  for (const Case& tested : list.cases()) {
    if (tested.level() == 4) chosen.push_back(tested);
  }
  return chosen;
}

DeviceRows run(const std::vector<Case>& cases, const std::string& folder,
               const std::vector<OptionSetting>& settings) {
  RunOptions options;
  options.deadline_s = 40;
  options.jobs = 2;
  options.fail_fast = true;
  const auto target = find_target(folder, 0, settings);
  EXPECT_TRUE(target.ok()) << target.status().to_string();
  auto device = run_cases(cases, *target, options);
  EXPECT_TRUE(device.ok()) << device.status().to_string();
  return *device;
}

TEST(Collectives_OfNpu, PassEveryCase) {
  constexpr size_t kFewest = 600;
  const std::vector<Case> cases = collective_cases();
  const DeviceRows device = run(cases, BP_NPU_DIR, {{"npu.devices", "5"}});
  for (const Row& row : device.rows) {
    const Verdict verdict = row.outcome.verdict;
    if (verdict == Verdict::kNotRun && row.outcome.words.empty()) continue;
    EXPECT_TRUE(verdict == Verdict::kPass || verdict == Verdict::kUnsupported)
        << row.tested->id << ": " << verdict_name(verdict) << ": " << row.outcome.words;
  }
  EXPECT_GE(device.count(Verdict::kPass), kFewest);
}

// Whose devices have one communicator at work at a time: order, arrays and ends, without the
// values.
TEST(Collectives_OfNpuWithOneAtATime, PassEveryCase) {
  std::vector<Case> cases = collective_cases();
  std::erase_if(cases, [](const Case& tested) {
    return !std::regex_search(tested.id,
                              std::regex("L4\\.(abort|array|destroy|join|numbers|order)"));
  });
  const DeviceRows device =
      run(cases, BP_NPU_DIR, {{"npu.devices", "3"}, {"npu.communicators_at_once", "false"}});
  for (const Row& row : device.rows) {
    const Verdict verdict = row.outcome.verdict;
    EXPECT_TRUE(verdict == Verdict::kPass || verdict == Verdict::kUnsupported)
        << row.tested->id << ": " << verdict_name(verdict) << ": " << row.outcome.words;
  }
  EXPECT_GE(device.count(Verdict::kPass), 50u);
}

// ... and whose groups may have two ids, which no other device here has.
TEST(Collectives_OfNpuWithTwoIds, MakeOneGroup) {
  std::vector<Case> cases = collective_cases();
  std::erase_if(cases, [](const Case& tested) { return !tested.id.starts_with("L4.join."); });
  const DeviceRows device =
      run(cases, BP_NPU_DIR, {{"npu.devices", "3"}, {"npu.collective_ids", "2"}});
  bool has_several = false;
  for (const Row& row : device.rows) {
    const Verdict verdict = row.outcome.verdict;
    EXPECT_TRUE(verdict == Verdict::kPass || verdict == Verdict::kUnsupported)
        << row.tested->id << ": " << verdict_name(verdict) << ": " << row.outcome.words;
    has_several |= row.tested->id == "L4.join.several_ids" && verdict == Verdict::kPass;
  }
  EXPECT_TRUE(has_several);
}

TEST(Collectives_OfADeviceWithoutAny, AreNotOffered) {
  const std::vector<Case> cases = collective_cases();
  const DeviceRows device = run(cases, BP_FAKES_DIR "/sound", {});
  EXPECT_EQ(device.count(Verdict::kUnsupported), cases.size());
  EXPECT_EQ(device.rows.at(0).outcome.words, "no collectives");
}

}  // namespace
}  // namespace bp::conform
