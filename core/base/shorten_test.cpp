// SPDX-License-Identifier: Apache-2.0
#include "core/base/shorten.hpp"

#include <gtest/gtest.h>

#include "core/base/utf8.hpp"

namespace bp {
namespace {

TEST(Shortened, UpTo256Bytes_IsTheTextItself) {
  for (const size_t size : {0, 1, 255, 256}) {
    EXPECT_EQ(shortened(std::string(size, 'a')), std::string(size, 'a'));
  }
}

TEST(Shortened, LongerText_IsItsBeginning) {
  EXPECT_EQ(shortened(std::string(257, 'a')), std::string(256, 'a') + "...");
  EXPECT_EQ(shortened(std::string(1 << 20, 'a')), std::string(256, 'a') + "...");
}

TEST(Shortened, CharactersOfSeveralBytes_AreNotCut) {
  for (const std::string character : {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"}) {
    for (size_t offset = 0; offset < 4; ++offset) {
      std::string text(offset, 'a');
      while (text.size() < 300) text += character;
      const std::string part = shortened(text);
      EXPECT_TRUE(is_utf8(part)) << offset;
      EXPECT_GE(part.size(), 256u) << offset;
      EXPECT_LE(part.size(), 259u) << offset;
    }
  }
}

}  // namespace
}  // namespace bp
