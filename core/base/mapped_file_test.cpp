// SPDX-License-Identifier: Apache-2.0
//
// What is mapped, and which files are refused with which words.
#include "core/base/mapped_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "core/base/temp_folder_test.hpp"

namespace bp {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class MappedFileTest : public testing::Test {
 protected:
  TempFolder folder_;
};

TEST_F(MappedFileTest, Content_Mapped) {
  const std::string path = folder_.write("content", "abc");
  const auto file = MappedFile::open(path, 3);
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  const auto bytes = (*file)->bytes();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), "abc");
  EXPECT_EQ((*file)->path(), path);
}

TEST_F(MappedFileTest, Replaced_KeepsOldContent) {
  const std::string path = folder_.write("replaced", "old");
  const auto file = MappedFile::open(path, 100);
  ASSERT_TRUE(file.ok());
  std::filesystem::rename(folder_.write("new", "NEW!"), path);
  EXPECT_EQ(static_cast<char>((*file)->bytes()[0]), 'o');
}

TEST_F(MappedFileTest, Empty_InvalidArgument) {
  const auto file = MappedFile::open(folder_.write("empty", ""), 100);
  EXPECT_EQ(file.status().code(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(file.status().message(), EndsWith("empty: the file is empty (0 bytes)"));
}

TEST_F(MappedFileTest, OverLimit_NamesBothSizes) {
  const auto file = MappedFile::open(folder_.write("large", "abcd"), 3);
  EXPECT_EQ(file.status().code(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(file.status().message(),
              EndsWith("the file is too large: expected at most 3 bytes, found 4"));
}

TEST_F(MappedFileTest, Missing_UnavailableNamesPath) {
  const auto file = MappedFile::open("/nowhere/model", 100);
  EXPECT_EQ(file.status().code(), BP_UNAVAILABLE);
  EXPECT_THAT(file.status().message(),
              StartsWith("/nowhere/model: cannot open the file: No such file"));
}

TEST_F(MappedFileTest, Folder_InvalidArgument) {
  const auto file = MappedFile::open(folder_.path(), 1 << 20);
  EXPECT_EQ(file.status().code(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(file.status().message(), HasSubstr("expected a regular file, found a folder"));
}

TEST_F(MappedFileTest, PipeWithoutWriter_RefusedAtOnce) {
  const std::string path = folder_.path("pipe");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const auto file = MappedFile::open(path, 100);
  EXPECT_EQ(file.status().code(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(file.status().message(), HasSubstr("found a special file"));
}

}  // namespace
}  // namespace bp
