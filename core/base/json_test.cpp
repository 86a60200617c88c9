// SPDX-License-Identifier: Apache-2.0
#include "core/base/json.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace bp {
namespace {

std::string error_of(std::string_view text, size_t max_bytes = 1000) {
  try {
    parse_json(text, max_bytes);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Json, ParseJson_EveryKind_HasItsTextAndPlace) {
  const JsonValue root = parse_json(
      R"({"a": [null, true, -7, 18446744073709551615, 1.50, "x\n"], "b": {"c": {}}})", 1000);
  ASSERT_EQ(root.keys(), (std::vector<std::string>{"a", "b"}));
  const std::vector<JsonValue>& a = root.at("a").values();
  ASSERT_EQ(a.size(), 6u);
  const char* texts[] = {"null", "true", "-7", "18446744073709551615", "1.50", "x\n"};
  const char* quoted[] = {"null", "true", "-7", "18446744073709551615", "1.50", "\"x\\n\""};
  const char* kinds[] = {"null", "boolean", "number", "number", "number", "string"};
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].text(), texts[i]);
    EXPECT_EQ(a[i].quoted(), quoted[i]);
    EXPECT_EQ(a[i].kind_name(), kinds[i]);
  }
  EXPECT_EQ(root.at("b").at("c").kind(), JsonValue::Kind::kObject);
  EXPECT_EQ(root.find("c"), nullptr);
}

TEST(Json, IsIntegerFrom_Bounds_AreMet) {
  const JsonValue root = parse_json("[0, 1, -1, 18446744073709551615, 1.0, \"1\"]", 1000);
  const bool from_0[] = {true, true, false, true, false, false};
  const bool from_1[] = {false, true, false, true, false, false};
  const bool from_minus_1[] = {true, true, true, true, false, false};
  for (size_t i = 0; i < root.values().size(); ++i) {
    EXPECT_EQ(root.values()[i].is_integer_from(0), from_0[i]) << i;
    EXPECT_EQ(root.values()[i].is_integer_from(1), from_1[i]) << i;
    EXPECT_EQ(root.values()[i].is_integer_from(-1), from_minus_1[i]) << i;
  }
}

TEST(Json, WrongKind_ErrorNamesPlaceExpectedAndFound) {
  const JsonValue root = parse_json(R"({"a": [{"b": 5}]})", 1000);
  const JsonValue& inner = root.at("a").values()[0];
  EXPECT_THROW(
      {
        try {
          static_cast<void>(inner.at("b").string());
        } catch (const std::runtime_error& error) {
          EXPECT_STREQ(error.what(), "/a/0/b: expected a string, found number");
          throw;
        }
      },
      std::runtime_error);
  EXPECT_THROW(static_cast<void>(inner.at("c")), std::runtime_error);
  EXPECT_THROW(static_cast<void>(root.at("a").find("c")), std::runtime_error);
}

TEST(Json, ParseJson_BadTexts_AreRefusedWithWords) {
  EXPECT_EQ(error_of("[1]", 2), "more than 2 bytes");
  EXPECT_EQ(error_of("\"\xff\""), "the text is not UTF-8");
  EXPECT_EQ(error_of(std::string_view("[1]\0", 4)), "there is a zero byte in the text");
  EXPECT_EQ(error_of(R"({"x": 1, "x": 2})"), "\"x\" stands twice in one object");
  EXPECT_EQ(error_of(std::string(16, '[') + std::string(16, ']')), "no error");
  EXPECT_EQ(error_of(std::string(17, '[') + std::string(17, ']')), "nested deeper than 16 levels");
  for (const char* text : {"", "{", "[1,]", "{\"a\" 1}", "[1] 2", "nul", "1e999"}) {
    EXPECT_NE(error_of(text), "no error") << text;
    EXPECT_NE(error_of(text).substr(0, 1), "[") << text;
  }
}

}  // namespace
}  // namespace bp
