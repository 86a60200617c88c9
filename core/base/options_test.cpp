// SPDX-License-Identifier: Apache-2.0
//
// What counts as a slip, and that names from files cannot make the search for one long.
#include "core/base/options.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "core/base/log.hpp"

namespace bp {
namespace {

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  return nearest_match(word, candidates).value_or("none");
}

TEST(NearestMatch, Slips_FindTheNearest) {
  EXPECT_EQ(nearest("relx", {"exp", "relu", "real"}), "relu");
  EXPECT_EQ(nearest("ad", {"add"}), "add");
  EXPECT_EQ(nearest("a", {"add"}), "add") << "two letters are missing";
  EXPECT_EQ(nearest("a", {"adds"}), "none") << "three are";
  EXPECT_EQ(nearest("concatenate", {"concat"}), "none") << "a third of its letters may differ";
  EXPECT_EQ(nearest("concatena", {"concat"}), "concat");
  EXPECT_EQ(nearest("concat", {}), "none");
}

TEST(NearestMatch, LongNames_AreNotCompared) {
  const std::string at_limit(256, 'a');
  const std::string beyond(257, 'a');
  EXPECT_EQ(nearest(std::string(255, 'a'), {beyond, at_limit}), at_limit);
  EXPECT_EQ(nearest(at_limit, {beyond}), "none");
  EXPECT_EQ(nearest(beyond, {at_limit, beyond}), "none");
}

/// Compared in full they take hours.
TEST(NearestMatch, VeryLongNames_TakeNoTime) {
  const std::vector<std::string> names(20, std::string(300'000, 'a'));
  EXPECT_EQ(nearest(std::string(300'000, 'b'), names), "none");
  EXPECT_EQ(nearest("b", names), "none");
}

TEST(NearestMatch, TooMuchToCompare_IsGivenUp) {
  std::vector<std::string> names(500, std::string(256, 'a'));
  const std::string word(256, 'b');
  names.push_back(word);
  EXPECT_EQ(nearest(word, names), word);
  names.insert(names.begin(), 100'000, std::string(256, 'a'));
  EXPECT_EQ(nearest(word, names), "none");
}

TEST(NearestMatch, ManyNamesOfModels_AreAllCompared) {
  std::vector<std::string> names;
  for (int i = 100'000; i < 200'000; ++i) names.push_back("weight." + std::to_string(i));
  EXPECT_EQ(nearest("weight.199999", names), "weight.199999");
}

TEST(Options, ForeignNamesAndValues_AreShownCleanAndShort) {
  std::vector<std::string> lines;
  set_log_sink([&](uint32_t, std::string_view line) { lines.emplace_back(line); });
  const std::string name = "BACKPLANE_A\x1b[2J\n\xff" + std::string(1000, 'B');
  ASSERT_EQ(setenv(name.c_str(), "1", 1), 0);
  auto options = Options::from_environment(false);
  unsetenv(name.c_str());
  set_log_sink({});
  ASSERT_TRUE(options.ok());
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(lines[0].starts_with("environment variable BACKPLANE_A [2J \ufffdBBB")) << lines[0];
  EXPECT_TRUE(lines[0].ends_with("B... is not an option; ignored")) << lines[0];
  EXPECT_LT(lines[0].size(), 400u);
  EXPECT_EQ(options->set("BACKPLANE_SYNC", "\x1b[2J\xff").message(),
            "BACKPLANE_SYNC: expected 0 or 1, found ' [2J\ufffd'");
}

TEST(Options, BadSetting_SaysWhatIsExpected) {
  auto options = Options::from_environment(true);
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->set("BACKPLANE_TIMEOUT", "2147483648").message(),
            "BACKPLANE_TIMEOUT: expected a whole number of seconds from 1 to 2147483647, found "
            "'2147483648'");
  EXPECT_EQ(options->set("BACKPLANE_TIMEOT", "1").message(),
            "unknown option BACKPLANE_TIMEOT (did you mean BACKPLANE_TIMEOUT?)");
}

}  // namespace
}  // namespace bp
