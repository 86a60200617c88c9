// SPDX-License-Identifier: Apache-2.0
//
// What is mapped or read, and which files are refused with which words.
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

TEST_F(MappedFileTest, ReleasedPages_AreReadAgain) {
  const std::string content(100'000, 'x');
  const auto file = MappedFile::open(folder_.write("large", content), 1 << 20);
  ASSERT_TRUE(file.ok());
  const auto text = [&] {
    const auto bytes = (*file)->bytes();
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  EXPECT_EQ(text(), content);
  (*file)->release((*file)->bytes().data() + 5'001, 60'000);
  EXPECT_EQ(text(), content);
  (*file)->release((*file)->bytes().data() + 99'999, 1 << 20);  // beyond the end: up to it
  EXPECT_EQ(text(), content);
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

TEST_F(MappedFileTest, ReadFile_Content_Copied) {
  for (const size_t size : {0u, 1u, 16384u, 16385u, 100000u}) {
    const std::string content(size, 'x');
    const auto read = read_file(folder_.write("content", content), 100000);
    ASSERT_TRUE(read.ok()) << read.status().to_string();
    EXPECT_EQ(*read, content);
  }
  EXPECT_EQ(read_file(folder_.write("zero", std::string_view("a\0b", 3)), 3)->size(), 3u);
  EXPECT_GT(read_file("/proc/self/stat", 10000)->size(), 0u) << "claims to be empty";
}

TEST_F(MappedFileTest, ReadFile_OverLimit_NamesIt) {
  for (const size_t size : {4u, 100000u}) {
    const auto read = read_file(folder_.write("large", std::string(size, 'x')), 3);
    EXPECT_EQ(read.status().code(), BP_INVALID_ARGUMENT);
    EXPECT_THAT(read.status().message(),
                EndsWith("large: the file is too large: it has more than 3 bytes"));
  }
}

TEST_F(MappedFileTest, ReadFile_Missing_UnavailableNamesPath) {
  const auto read = read_file("/nowhere/text", 100);
  EXPECT_EQ(read.status().code(), BP_UNAVAILABLE);
  EXPECT_THAT(read.status().message(), StartsWith("/nowhere/text: cannot open the file: No such"));
}

TEST_F(MappedFileTest, ReadFile_NoRegularFile_RefusedAtOnce) {
  const std::string pipe = folder_.path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, std::string("/dev/zero"), folder_.path()}) {
    const auto read = read_file(path, 100);
    EXPECT_EQ(read.status().code(), BP_INVALID_ARGUMENT);
    EXPECT_THAT(read.status().message(), StartsWith(path + ": expected a regular file, found a "));
  }
}

}  // namespace
}  // namespace bp
