// SPDX-License-Identifier: Apache-2.0
#include "core/base/json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <stdexcept>
#include <utility>

namespace bp {
namespace {

using testing::EndsWith;
using testing::StartsWith;

/// What `use` throws.
template <class Use>
std::string words_of(Use use) {
  try {
    use();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "no error";
}

/// The most memory that the process had at any time, in MiB.
int64_t peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

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

TEST(Json, Place_OfCopiedAndMovedValues_IsStillNamed) {
  JsonValue root = parse_json(R"([1, {"a": [[], [{}, true, {"b": {}}]]}])", 1000);
  const JsonValue kept = root.values()[1].at("a").values()[1];
  root = JsonValue();
  const auto place_of = [](const JsonValue& value) {
    const std::string words = words_of([&] { static_cast<void>(value.string()); });
    return words.substr(0, words.find(':'));
  };
  EXPECT_EQ(place_of(kept), "/1/a/1");
  EXPECT_EQ(place_of(kept.values()[0]), "/1/a/1/0");
  EXPECT_EQ(place_of(kept.values()[1]), "/1/a/1/1");
  JsonValue inner = kept.values()[2];
  const JsonValue moved = std::move(inner);
  EXPECT_EQ(place_of(moved.at("b")), "/1/a/1/2/b");
  EXPECT_EQ(place_of(parse_json("7", 1)), "the text");
  EXPECT_EQ(place_of(parse_json("{}", 2)), "the text");
  EXPECT_TRUE(kept.keys().empty());
  EXPECT_TRUE(kept.values()[1].keys().empty());
}

TEST(Json, Words_NamesAreShortened) {
  const std::string key(30'000, 'k');
  const std::string part = key.substr(0, 256) + "...";
  const JsonValue root = parse_json("{\"" + key + "\": [\"" + key + "\", 5]}", 100'000);
  const std::vector<JsonValue>& values = root.at(key).values();
  EXPECT_EQ(words_of([&] { static_cast<void>(values[1].string()); }),
            "/" + part + "/1: expected a string, found number");
  EXPECT_EQ(values[0].quoted(), "\"" + part + "\"");
  EXPECT_EQ(values[0].text(), key);
  EXPECT_EQ(error_of("{\"" + key + "\": 1, \"" + key + "\": 2}", 100'000),
            "\"" + part + "\" stands twice in one object");
  EXPECT_LT(error_of("[\"" + key, 100'000).size(), 300u);
}

/// Each value's path in full would be 32 KiB long: half a GiB together.
TEST(Json, ParseJson_LongKeyAboveManyValues_TakesLittleMemory) {
  std::string text = "{\"" + std::string(32'000, 'k') + "\": [0";
  while (text.size() < 65'000) text += ",0";
  text += "]}";
  const int64_t before = peak_mib();
  const JsonValue root = parse_json(text, 65536);
  EXPECT_EQ(root.values()[0].values().size(), 16'498u);
  EXPECT_LT(peak_mib() - before, 200);
}

/// Minutes if every key were compared with all before it.
TEST(Json, ParseJson_ManyKeys_TakesLittleTime) {
  std::string text = "{";
  for (int i = 100'000; i < 500'000; ++i) text += "\"" + std::to_string(i) + "\":0,";
  text += "\"100000\":0}";
  EXPECT_EQ(error_of(text, text.size()), "\"100000\" stands twice in one object");
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
