// SPDX-License-Identifier: Apache-2.0
//
// The list of cases itself, and that every case which other suites led us to is here or was dropped
// for a reason.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "sdk/conform/case.hpp"
#include "sdk/conform/collectives/subjects.hpp"
#include "sdk/conform/runner.hpp"

namespace bp::conform {
namespace {

constexpr size_t kFewestCases = 300;
constexpr size_t kShortestReason = 40;

TEST(CaseList_Ids, AreUniqueAndWellFormed) {
  const CaseList list = all_cases();
  const std::regex form("L[0-4](\\.[a-z0-9_]+)+");
  std::set<std::string> ids;
  for (const Case& tested : list.cases()) {
    EXPECT_TRUE(std::regex_match(tested.id, form)) << tested.id;
    EXPECT_TRUE(ids.insert(tested.id).second) << tested.id << " is there twice";
  }
}

TEST(CaseList_Cases, SayWhatTheyProveAndRunOneWay) {
  const CaseList list = all_cases();
  EXPECT_GE(list.cases().size(), kFewestCases);
  for (const Case& tested : list.cases()) {
    EXPECT_FALSE(tested.proves.empty()) << tested.id;
    EXPECT_EQ(static_cast<bool>(tested.abi), tested.level() == 0) << tested.id;
    EXPECT_NE(static_cast<bool>(tested.abi), static_cast<bool>(tested.run)) << tested.id;
  }
}

TEST(CaseList_Levels, AreAllThere) {
  size_t counts[kHighestLevel + 1] = {};
  const CaseList list = all_cases();
  for (const Case& tested : list.cases()) ++counts[tested.level()];
  for (const size_t count : counts) EXPECT_GE(count, 100u);
  EXPECT_GE(counts[4], 400u);
}

/// What level 4 leaves out of all combinations: each kind and reduction, and each dtype, is tried
/// on groups of every size all the same.
TEST(CaseList_Collectives, MeetAllSizesOfGroups) {
  std::set<std::pair<std::string, uint32_t>> of_kinds, of_dtypes;
  size_t kinds = 0, dtypes = 0;
  for (const Subject& subject : all_subjects()) {
    const std::string kind = words(subject.shape->name, subject.reduction);
    of_kinds.insert({kind, subject.rank_count});
    of_dtypes.insert({words(subject.dtype), subject.rank_count});
  }
  std::set<std::string> seen;
  for (const auto& [kind, size] : of_kinds) kinds += seen.insert(kind).second ? 1 : 0;
  for (const auto& [dtype, size] : of_dtypes) dtypes += seen.insert(dtype).second ? 1 : 0;
  EXPECT_EQ(kinds, 3 * 5 + 6u);
  EXPECT_EQ(dtypes, std::size(kMovedDtypes));
  EXPECT_EQ(of_kinds.size(), kinds * kMostRanks);
  EXPECT_EQ(of_dtypes.size(), dtypes * kMostRanks);
}

nlohmann::json dropped() {
  std::ifstream file(BP_DROPPED_FILE);
  EXPECT_TRUE(file.good()) << BP_DROPPED_FILE;
  return nlohmann::json::parse(file);
}

bool fits_a_case(const CaseList& list, const std::string& pattern) {
  for (const Case& tested : list.cases()) {
    if (matches(pattern, tested.id)) return true;
  }
  return false;
}

TEST(DroppedList, EachEntry_IsACaseOrHasAReason) {
  const CaseList list = all_cases();
  const nlohmann::json document = dropped();
  std::set<std::string> names;
  for (const char* section : {"3.2", "3.3", "3.4", "3.6"}) {
    ASSERT_TRUE(document.contains(section)) << section;
    for (const nlohmann::json& entry : document[section]) {
      const std::string name = entry.at("name");
      EXPECT_TRUE(names.insert(name).second) << name << " is there twice";
      ASSERT_NE(entry.contains("cases"), entry.contains("dropped")) << name;
      if (entry.contains("dropped")) {
        EXPECT_GE(entry["dropped"].get<std::string>().size(), kShortestReason) << name;
        continue;
      }
      EXPECT_FALSE(entry["cases"].empty()) << name;
      for (const std::string pattern : entry["cases"]) {
        EXPECT_TRUE(fits_a_case(list, pattern)) << name << ": no case is called " << pattern;
      }
    }
  }
}

/// The list is as long as what it was made from: nothing is dropped by being forgotten.
TEST(DroppedList, Sections_HaveEveryName) {
  const nlohmann::json document = dropped();
  EXPECT_EQ(document["3.2"].size(), 26u);
  EXPECT_EQ(document["3.3"].size(), 46u);
  EXPECT_EQ(document["3.4"].size(), 43u);
  EXPECT_EQ(document["3.6"].size(), 26u);
}

}  // namespace
}  // namespace bp::conform
