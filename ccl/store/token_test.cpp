// SPDX-License-Identifier: Apache-2.0
#include "ccl/store/token.hpp"

#include <sys/stat.h>

#include "ccl/store/store_harness_test.hpp"
#include "core/base/temp_folder_test.hpp"

namespace bp::ccl {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kDigits = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

std::string hex(const Mac& mac) {
  std::string text;
  for (const unsigned char byte : mac) {
    text += "0123456789abcdef"[byte / 16];
    text += "0123456789abcdef"[byte % 16];
  }
  return text;
}

class TokenFileTest : public testing::Test {
 protected:
  std::string write(std::string_view content, mode_t mode) const {
    const std::string path = folder_.write("token", content);
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }
  TempFolder folder_;
};

TEST(TokenTest, Make_TwoTokens_Differ) {
  const std::string a = new_token()->text();
  const std::string b = new_token()->text();
  EXPECT_EQ(a.size(), Token::kTextDigits);
  EXPECT_EQ(a.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(a, b);
}

TEST(TokenTest, FromText_Text_GoesRound) {
  EXPECT_EQ(value_of(Token::from_text(kDigits, "X"))->text(), kDigits);
  std::string upper = kDigits;
  for (char& digit : upper) digit = static_cast<char>(std::toupper(digit));
  EXPECT_EQ(value_of(Token::from_text(upper, "X"))->text(), kDigits);
}

TEST(TokenTest, FromText_WhatIsNoToken_IsRefusedWithoutItsDigits) {
  const std::string other_letter = kDigits.substr(0, 63) + "g";
  const std::string middle = kDigits.substr(0, 30) + ":" + kDigits.substr(31);
  for (const std::string& text :
       {std::string(), kDigits.substr(1), kDigits + "0", other_letter, middle, kDigits + "\n"}) {
    const auto token = Token::from_text(text, "BACKPLANE_CCL_TOKEN");
    ASSERT_FALSE(token.ok()) << text;
    EXPECT_EQ(token.status().code(), BP_INVALID_ARGUMENT);
    EXPECT_THAT(words_of(token), HasSubstr("BACKPLANE_CCL_TOKEN: a token has 64 hexadecimal"));
    EXPECT_THAT(words_of(token), Not(HasSubstr("44556677")));
  }
  EXPECT_THAT(words_of(Token::from_text("abc", "X")), HasSubstr("found 3 characters"));
  EXPECT_THAT(words_of(Token::from_text(other_letter, "X")), HasSubstr("found another character"));
}

// RFC 4231, test case 2 has the key "Jefe"; here the key is padded with zeros, which HMAC does too.
TEST(TokenTest, Mac_IsHmacSha256) {
  const std::string key = "4a656665" + std::string(56, '0');
  const auto token = value_of(Token::from_text(key, "X"));
  EXPECT_EQ(hex(token->mac("what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(TokenTest, IsSameMac_OneBitOrLength_Differs) {
  const auto token = new_token();
  Mac mac = token->mac("a");
  std::string text(reinterpret_cast<const char*>(mac.data()), mac.size());
  EXPECT_TRUE(is_same_mac(text, mac));
  EXPECT_FALSE(is_same_mac(text.substr(1), mac));
  EXPECT_FALSE(is_same_mac(text + "x", mac));
  EXPECT_FALSE(is_same_mac("", mac));
  for (size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string wrong = text;
    wrong[bit / 8] = static_cast<char>(wrong[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(is_same_mac(wrong, mac)) << bit;
  }
}

TEST(TokenTest, Wipe_LeavesNothing) {
  std::string text = kDigits;
  text.resize(10);  // the digits behind are still in its memory
  const char* const memory = text.data();
  wipe(&text);
  EXPECT_EQ(text, "");
  EXPECT_EQ(text.data(), memory);
  EXPECT_EQ(std::string(memory, text.capacity()), std::string(text.capacity(), '\0'));
}

TEST_F(TokenFileTest, WrittenFile_IsPrivateAndReadAgain) {
  const auto token = new_token();
  const std::string path = folder_.path("made");
  umask(0);
  ASSERT_TRUE(token->write_file(path).ok());
  umask(022);
  struct stat info = {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
  EXPECT_EQ(value_of(Token::from_file(path))->text(), token->text());
  const Status again = token->write_file(path);
  EXPECT_EQ(again.code(), BP_UNAVAILABLE);
  EXPECT_THAT(again.message(), HasSubstr(path + ": cannot create the file: File exists"));
}

TEST_F(TokenFileTest, LineEnds_AreTaken) {
  for (const char* end : {"", "\n", "\r\n"}) {
    EXPECT_EQ(value_of(Token::from_file(write(kDigits + end, 0600)))->text(), kDigits);
  }
  EXPECT_EQ(value_of(Token::from_file(write(kDigits, 0400)))->text(), kDigits);
}

TEST_F(TokenFileTest, ModesThatOthersRead_AreRefusedWithPathAndMode) {
  for (const auto& [mode, text] : {std::pair<mode_t, std::string>{0640, "0640"},
                                   {0604, "0604"},
                                   {0644, "0644"},
                                   {0620, "0620"},
                                   {0601, "0601"},
                                   {0777, "0777"}}) {
    const std::string path = write(kDigits, mode);
    const auto token = Token::from_file(path);
    ASSERT_FALSE(token.ok()) << text;
    EXPECT_EQ(token.status().code(), BP_INVALID_ARGUMENT);
    EXPECT_EQ(token.status().message(),
              path +
                  ": expected a file that only its user may read, such as mode 0600, found "
                  "mode " +
                  text);
  }
}

TEST_F(TokenFileTest, AnothersFile_IsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  const std::string path = write(kDigits, 0600);
  ASSERT_EQ(chown(path.c_str(), 4711, 0), 0);
  EXPECT_EQ(Token::from_file(path).status().message(),
            path + ": expected a file of user 0, found one of user 4711");
}

TEST_F(TokenFileTest, WhatIsNoTokenFile_IsRefused) {
  EXPECT_THAT(
      words_of(Token::from_file(folder_.path("none"))),
      HasSubstr("UNAVAILABLE: " + folder_.path("none") + ": cannot open the file: No such"));
  EXPECT_THAT(words_of(Token::from_file(folder_.path())),
              HasSubstr("INVALID_ARGUMENT: " + folder_.path() +
                        ": expected a regular file, found a "
                        "folder"));
  const std::string pipe = folder_.path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(words_of(Token::from_file(pipe)), HasSubstr("found a special file"));
  EXPECT_THAT(words_of(Token::from_file(write(kDigits + kDigits, 0600))),
              HasSubstr("expected a file of at most 66 bytes, found more"));
  EXPECT_THAT(words_of(Token::from_file(write("", 0600))), HasSubstr("found 0 characters"));
}

}  // namespace
}  // namespace bp::ccl
