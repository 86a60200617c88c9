// SPDX-License-Identifier: Apache-2.0
//
// What people see of foreign text: bounded, of one line, in reading order, UTF-8.
#include "core/base/foreign_text.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/log.hpp"
#include "core/base/quoted.hpp"
#include "core/base/status.hpp"
#include "core/base/utf8.hpp"

namespace bp {
namespace {

std::string shown(std::string_view text) { return foreign_text(text); }

TEST(ForeignText, UpTo256Bytes_IsTheTextItself) {
  for (const size_t size : {0u, 1u, 255u, 256u}) {
    EXPECT_EQ(shown(std::string(size, 'a')), std::string(size, 'a'));
  }
}

TEST(ForeignText, LongerText_IsItsBeginning) {
  EXPECT_EQ(shown(std::string(257, 'a')), std::string(256, 'a') + "...");
  EXPECT_EQ(shown(std::string(1 << 20, 'a')), std::string(256, 'a') + "...");
}

TEST(ForeignText, CharactersOfSeveralBytes_AreNotCut) {
  for (const std::string character : {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"}) {
    for (size_t offset = 0; offset < 4; ++offset) {
      std::string text(offset, 'a');
      while (text.size() < 300) text += character;
      const std::string part = shown(text);
      EXPECT_TRUE(is_utf8(part)) << offset;
      EXPECT_GE(part.size(), 256u) << offset;
      EXPECT_LE(part.size(), 259u) << offset;
    }
  }
}

TEST(ForeignText, WhatForgesOrTurnsLines_IsReplaced) {
  EXPECT_EQ(shown("a\nb\x7f"
                  "c \x1b[31m"),
            "a b c  [31m");
  EXPECT_EQ(shown("caf\xc3\xa9"), "caf\xc3\xa9");
  EXPECT_EQ(shown("caf\xe9 au lait"), "caf\xef\xbf\xbd au lait") << "no UTF-8";
  for (const char* harmful : {"\xc2\x85", "\xc2\x9b", "\xd8\x9c", "\xe2\x80\x8f", "\xe2\x80\xa8",
                              "\xe2\x80\xae", "\xe2\x81\xa6", "\xe2\x81\xa9"}) {
    EXPECT_EQ(shown(std::string("a") + harmful + "b"),
              "a\xef\xbf\xbd"
              "b");
  }
  EXPECT_EQ(shown("\xc2\xa0\xe2\x80\x90\xe2\x81\xa4"), "\xc2\xa0\xe2\x80\x90\xe2\x81\xa4");
}

TEST(ForeignText, OfTheAbi_ReadsNoMoreThanItShows) {
  EXPECT_EQ(foreign_text(bp_str{nullptr, 5}), "");
  EXPECT_EQ(foreign_text(bp_str{"abc", 3}), "abc");
  EXPECT_EQ(foreign_text(bp_str{"abc", uint64_t{1} << 32}),
            "(a text that claims 4294967296 bytes)");
}

TEST(Quoted, ForeignName_CannotForgeALineOrTurnTheText) {
  EXPECT_EQ(bp::quoted("y\x1b[31m\nbackplane error: forged \u202e"),
            "'y [31m backplane error: forged \ufffd'");
  EXPECT_LT(bp::quoted(std::string(1000000, 'q')).size(), 300u);
}

TEST(OneLine, LongText_IsCleanedAndNotCut) {
  EXPECT_EQ(one_line("a\nb\u202ec"), "a b\ufffdc");
  EXPECT_EQ(one_line(std::string(1000, 'q')).size(), 1000u);
}

using std::string_literals::operator""s;
const std::string kForged = "device 'x\x1b[2J\nbackplane error: \0\xff'"s;
const std::string kCleaned = "device 'x [2J backplane error:  \ufffd'";

TEST(Status, WordsWithAnyName_AreOneCleanLine) {
  const Status status(BP_INVALID_ARGUMENT, kForged);
  EXPECT_EQ(status.message(), kCleaned);
  EXPECT_EQ(status.with_prefix("m\x1b.onnx").message(), "m .onnx: " + kCleaned);
}

TEST(Log, LineWithAnyName_IsOneCleanLine) {
  std::vector<std::string> lines;
  set_log_sink([&](uint32_t, std::string_view line) { lines.emplace_back(line); });
  log(BP_LOG_WARNING, kForged);
  {
    const LogScope kept;
    log(BP_LOG_WARNING, kForged);
  }
  set_log_sink({});
  EXPECT_EQ(lines, (std::vector<std::string>{kCleaned, kCleaned}));
}

}  // namespace
}  // namespace bp
