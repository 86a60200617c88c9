// SPDX-License-Identifier: Apache-2.0
//
// Well-formed and broken UTF-8, at the borders of each range.
#include "core/base/utf8.hpp"

#include <gtest/gtest.h>

#include <string>

namespace bp {
namespace {

TEST(IsUtf8, WellFormed_True) {
  for (const char* text :
       {"", "abc", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
        "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(is_utf8(text)) << text;
  }
  EXPECT_TRUE(is_utf8(std::string_view("a\0b", 3)));
}

TEST(IsUtf8, Broken_False) {
  for (const char* text :
       {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc2", "\xc2\x41", "\xe0\x9f\xbf", "\xe1\x80",
        "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff",
        "ab\xe2\x82", "\xe2\x82\x41"}) {
    EXPECT_FALSE(is_utf8(text)) << text;
  }
}

TEST(Utf8Prefix, Cut_IsBetweenCharacters) {
  EXPECT_EQ(utf8_prefix("abc", 3), "abc");
  EXPECT_EQ(utf8_prefix("abc", 2), "ab");
  EXPECT_EQ(utf8_prefix("abc", 0), "");
  const std::string_view euro = "a\xe2\x82\xac-";  // of three bytes
  for (size_t most : {1u, 2u, 3u}) EXPECT_EQ(utf8_prefix(euro, most), "a") << most;
  EXPECT_EQ(utf8_prefix(euro, 4), "a\xe2\x82\xac");
  EXPECT_EQ(utf8_prefix("\xf0\x90\x80\x80.", 3), "");
}

TEST(Utf8Prefix, NoText_IsCutAnywhere) {
  EXPECT_EQ(utf8_prefix("\x80\x80\x80\x80\x80\x80\x80", 6).size(), 6u);
  EXPECT_EQ(utf8_prefix("\x80\x80\x80", 2).size(), 2u);
}

}  // namespace
}  // namespace bp
