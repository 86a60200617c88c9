// SPDX-License-Identifier: Apache-2.0
//
// User options against declarations: each type's good and bad values, and unknown names.
#include <gmock/gmock.h>

#include "core/plugin/manifest.hpp"

namespace bp {
namespace {

using testing::HasSubstr;

OptionDecl decl_of(OptionType type) {
  OptionDecl decl;
  decl.name = "value";
  decl.type = type;
  return decl;
}

std::string parse(const OptionDecl& decl, std::string_view text) {
  const auto value = parse_option_value(decl, text);
  return value.ok() ? *value : "refused: " + value.status().message();
}

TEST(OptionValues, ParseOptionValue_I64_TakesWholeNumbersOnly) {
  const OptionDecl decl = decl_of(OptionType::kI64);
  EXPECT_EQ(parse(decl, "0"), "0");
  EXPECT_EQ(parse(decl, "-5"), "-5");
  EXPECT_EQ(parse(decl, "007"), "7");
  EXPECT_EQ(parse(decl, "-9223372036854775808"), "-9223372036854775808");
  EXPECT_EQ(parse(decl, "9223372036854775807"), "9223372036854775807");
  for (const char* text : {"", " 1", "1 ", "+1", "1.0", "1e3", "0x10", "one", "--1", "4KiB"}) {
    EXPECT_THAT(parse(decl, text),
                HasSubstr("expected a whole number, found '" + std::string(text) + "'"));
  }
  EXPECT_THAT(parse(decl, "9223372036854775808"), HasSubstr("expected -2^63 to 2^63 - 1"));
}

TEST(OptionValues, ParseOptionValue_Bytes_MultipliesUnits) {
  const OptionDecl decl = decl_of(OptionType::kBytes);
  EXPECT_EQ(parse(decl, "4096"), "4096");
  EXPECT_EQ(parse(decl, "3KiB"), "3072");
  EXPECT_EQ(parse(decl, "256MiB"), "268435456");
  EXPECT_EQ(parse(decl, "2GiB"), "2147483648");
  EXPECT_EQ(parse(decl, "8589934591GiB"), "9223372035781033984");
  for (const char* text : {"", "MiB", "1MB", "1mib", "1 MiB", "1.5GiB", "1KiB2", "1TiB"}) {
    EXPECT_THAT(parse(decl, text), HasSubstr("one with KiB, MiB or GiB, found")) << text;
  }
  EXPECT_THAT(parse(decl, "-1"), HasSubstr("expected 0 to 2^63 - 1"));
  EXPECT_THAT(parse(decl, "8589934592GiB"), HasSubstr("expected 0 to 2^63 - 1"));
  EXPECT_THAT(parse(decl, "-9223372036854775808KiB"), HasSubstr("expected 0 to 2^63 - 1"));
}

TEST(OptionValues, ParseOptionValue_Limits_AreKeptAfterUnits) {
  OptionDecl decl = decl_of(OptionType::kBytes);
  decl.min = 2048;
  decl.max = 4096;
  EXPECT_EQ(parse(decl, "2KiB"), "2048");
  EXPECT_EQ(parse(decl, "4KiB"), "4096");
  EXPECT_THAT(parse(decl, "2047"), HasSubstr("expected at least 2048, found '2047'"));
  EXPECT_THAT(parse(decl, "5KiB"), HasSubstr("expected at most 4096, found '5KiB'"));
}

TEST(OptionValues, ParseOptionValue_Bool_IsMadeUniform) {
  const OptionDecl decl = decl_of(OptionType::kBool);
  EXPECT_EQ(parse(decl, "true"), "true");
  EXPECT_EQ(parse(decl, "1"), "true");
  EXPECT_EQ(parse(decl, "false"), "false");
  EXPECT_EQ(parse(decl, "0"), "false");
  for (const char* text : {"", "TRUE", "yes", "2"}) {
    EXPECT_THAT(parse(decl, text), HasSubstr("expected true, false, 1 or 0")) << text;
  }
}

TEST(OptionValues, ParseOptionValue_Str_TakesChoicesOnly) {
  OptionDecl decl = decl_of(OptionType::kStr);
  EXPECT_EQ(parse(decl, "anything at all"), "anything at all");
  EXPECT_EQ(parse(decl, ""), "");
  decl.choices = {"fast", "exact"};
  EXPECT_EQ(parse(decl, "exact"), "exact");
  EXPECT_THAT(parse(decl, "slow"), HasSubstr("expected one of fast, exact, found 'slow'"));
}

class CheckOptions : public testing::Test {
 protected:
  CheckOptions() {
    manifest_.id = "npu";
    manifest_.options = {decl_of(OptionType::kBytes), decl_of(OptionType::kI64)};
    manifest_.options[0].name = "memory";
    manifest_.options[0].scope = OptionScope::kDevice;
    manifest_.options[1].name = "devices";
  }
  std::string error(OptionScope scope, const std::vector<OptionSetting>& settings) {
    return check_options(manifest_, scope, settings).status().message();
  }
  Manifest manifest_;
};

TEST_F(CheckOptions, CheckOptions_SameNameTwice_LastWins) {
  const auto checked =
      check_options(manifest_, OptionScope::kDevice, {{"memory", "1KiB"}, {"memory", "2KiB"}});
  ASSERT_TRUE(checked.ok());
  ASSERT_EQ(checked->size(), 1u);
  EXPECT_EQ(checked->front().name, "memory");
  EXPECT_EQ(checked->front().value, "2048");
}

TEST_F(CheckOptions, CheckOptions_UnknownName_SuggestsTheNearest) {
  EXPECT_EQ(error(OptionScope::kDevice, {{"memmory", "1"}}),
            "plugin npu has no option 'memmory' (did you mean 'memory'?)");
  EXPECT_EQ(error(OptionScope::kDevice, {{"xyzzy", "1"}}),
            "plugin npu has no option 'xyzzy' (it has: memory, devices)");
}

TEST_F(CheckOptions, CheckOptions_OtherScope_IsRefused) {
  EXPECT_EQ(error(OptionScope::kDevice, {{"devices", "1"}}),
            "option 'npu.devices' is for the plugin");
  EXPECT_EQ(error(OptionScope::kInstance, {{"memory", "1"}}), "option 'npu.memory' is for devices");
}

TEST_F(CheckOptions, CheckOptions_SettingWithASource_EveryErrorBeginsWithIt) {
  EXPECT_EQ(error(OptionScope::kInstance, {{"devices", "two", "BACKPLANE_PLUGIN_OPTIONS"}}),
            "BACKPLANE_PLUGIN_OPTIONS: option 'npu.devices': expected a whole number, found 'two'");
  EXPECT_EQ(error(OptionScope::kDevice, {{"devices", "1", "--option"}}),
            "--option: option 'npu.devices' is for the plugin");
  EXPECT_THAT(error(OptionScope::kDevice, {{"memmory", "1", "configuration file c.json"}}),
              HasSubstr("configuration file c.json: plugin npu has no option 'memmory'"));
}

TEST_F(CheckOptions, CheckOptions_BadValue_NamesTheOption) {
  EXPECT_THAT(error(OptionScope::kInstance, {{"devices", "two"}}),
              HasSubstr("option 'npu.devices': expected a whole number, found 'two'"));
}

}  // namespace
}  // namespace bp
