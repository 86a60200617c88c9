// SPDX-License-Identifier: Apache-2.0
//
// Exceptions excuse what they name, for one driver and for a time, and nothing else.
#include "sdk/conform/exceptions.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "core/base/temp_folder_test.hpp"

namespace bp::conform {
namespace {

/// A file that lives as long as the object.
class TextFile {
 public:
  explicit TextFile(const std::string& text) : path_(folder_.write("exceptions.json", text)) {}
  const std::string& path() const { return path_; }

 private:
  TempFolder folder_;
  std::string path_;
};

std::string entry(const std::string& expires, const std::string& reason,
                  const std::string& more = "") {
  return R"({"exceptions": [{"case": "L1.a.*", "driver": "toy *", "reason": ")" + reason +
         R"(", "expires": ")" + expires + "\"" + more + "}]}";
}

const std::string kReason = "the driver does so, and cannot be told not to";

TEST(Exceptions_File, WellFormed_IsRead) {
  const TextFile file(entry("2027-03-31", kReason));
  const auto exceptions = read_exceptions(file.path());
  ASSERT_TRUE(exceptions.ok()) << exceptions.status().to_string();
  ASSERT_EQ(exceptions->size(), 1u);
  EXPECT_EQ(exceptions->front().pattern, "L1.a.*");
  EXPECT_EQ(exceptions->front().expires, "2027-03-31");
}

TEST(Exceptions_File, ThatOfXpu_IsWellFormed) {
  const auto exceptions = read_exceptions(BP_XPU_EXCEPTIONS);
  ASSERT_TRUE(exceptions.ok()) << exceptions.status().to_string();
}

TEST(Exceptions_File, ThatOfThePage_IsWellFormed) {
  std::ifstream page(BP_SDK_PAGE);
  const std::string text(std::istreambuf_iterator<char>(page), {});
  const std::string fence = "```json\n";
  const size_t begin = text.find(fence);
  ASSERT_NE(begin, std::string::npos);
  const size_t first = begin + fence.size();
  const TextFile file(text.substr(first, text.find("```", first) - first));
  const auto exceptions = read_exceptions(file.path());
  ASSERT_TRUE(exceptions.ok()) << exceptions.status().to_string();
  EXPECT_EQ(exceptions->at(0).pattern, "L2.fill.*");
}

TEST(Exceptions_File, BadOnes_AreRefused) {
  const std::string bad[] = {"",
                             "[]",
                             "{\"exceptions\": {}}",
                             "{\"exceptions\": [17]}",
                             "{\"exceptions\": [{}]}",
                             "{\"exceptions\": [], \"more\": 1}",
                             entry("2027-03-31", "because"),
                             entry("next year", kReason),
                             entry("2027-03-31", kReason, ", \"also\": \"this\""),
                             entry("2027-03-31", kReason) + "x"};
  for (const std::string& text : bad) {
    const TextFile file(text);
    EXPECT_EQ(read_exceptions(file.path()).status().code(), BP_INVALID_ARGUMENT) << text;
  }
  EXPECT_EQ(read_exceptions("/no/such/file").status().code(), BP_INVALID_ARGUMENT);
}

class ExceptionsTest : public testing::Test {
 protected:
  ExceptionsTest() {
    for (const char* id : {"L1.a.fails", "L1.a.passes", "L1.a.lacks", "L1.b.fails"}) {
      cases_.push_back({.id = id, .proves = "planted"});
    }
    device_.driver = "toy 1.0";
    const Verdict verdicts[] = {Verdict::kCrash, Verdict::kPass, Verdict::kUnsupported,
                                Verdict::kFail};
    for (size_t i = 0; i < cases_.size(); ++i) {
      device_.rows.push_back({&cases_[i], 0, false, {verdicts[i], "words"}});
    }
  }
  Status apply(const std::string& today, const std::string& pattern = "L1.a.*") {
    const Exception exception{pattern, "toy *", kReason, "2027-03-31"};
    return apply_exceptions({&exception, 1}, cases_, today, &device_);
  }
  Verdict verdict(size_t row) const { return device_.rows[row].outcome.verdict; }

  std::vector<Case> cases_;
  DeviceRows device_;
};

TEST_F(ExceptionsTest, InTime_FailuresAreExpectedAndPassesAreNot) {
  ASSERT_TRUE(apply("2027-03-31").ok());
  EXPECT_EQ(verdict(0), Verdict::kExpectedFail);
  EXPECT_EQ(verdict(1), Verdict::kUnexpectedPass);
  EXPECT_EQ(verdict(2), Verdict::kUnsupported);
  EXPECT_EQ(verdict(3), Verdict::kFail);
  EXPECT_EQ(device_.failed_count(), 2u);
}

TEST_F(ExceptionsTest, Expired_ExcusesNothing) {
  ASSERT_TRUE(apply("2027-04-01").ok());
  EXPECT_EQ(verdict(0), Verdict::kCrash);
  EXPECT_NE(device_.rows[0].outcome.words.find("ended on 2027-03-31"), std::string::npos);
  EXPECT_EQ(verdict(1), Verdict::kPass);
}

TEST_F(ExceptionsTest, OtherDriver_HasNoExcuse) {
  device_.driver = "grown up 2.0";
  ASSERT_TRUE(apply("2027-03-31").ok());
  EXPECT_EQ(verdict(0), Verdict::kCrash);
  EXPECT_EQ(verdict(1), Verdict::kPass);
}

TEST_F(ExceptionsTest, ForNoCase_IsRefused) {
  EXPECT_EQ(apply("2027-03-31", "L1.c.*").code(), BP_INVALID_ARGUMENT);
}

TEST(Exceptions_Today, IsADay) {
  const std::string day = today();
  ASSERT_EQ(day.size(), 10u);
  EXPECT_GT(day, "2026-01-01");
  EXPECT_LT(day, "2100-01-01");
}

}  // namespace
}  // namespace bp::conform
