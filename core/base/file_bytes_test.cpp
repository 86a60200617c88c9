// SPDX-License-Identifier: Apache-2.0
//
// What is mapped and what is read, and files that shrink meanwhile.
#include "core/base/file_bytes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "core/base/temp_folder_test.hpp"

namespace bp {
namespace {

using testing::HasSubstr;

class FileBytesTest : public testing::Test {
 protected:
  Result<FileBytes> open(const FileAccess& access, uint64_t limit_bytes = kLarge) const {
    return open_file_bytes(path_, limit_bytes, access);
  }
  static std::string text(const FileBytes& file) {
    return {reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()};
  }

  static constexpr uint64_t kLarge = 100'000;  // of several pages
  TempFolder folder_;
  const std::string content_ = std::string(kLarge - 1, 'x') + "y";
  const std::string path_ = folder_.write("file", content_);
};

TEST_F(FileBytesTest, Mapped_OwnerIsTheMapping) {
  const auto file = open({});
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ(text(*file), content_);
  EXPECT_EQ(file->owner.get(), file->mapped);
  EXPECT_FALSE(keeps_read_bytes(file->owner));
}

TEST_F(FileBytesTest, Read_CutOffAfterwards_KeepsItsBytes) {
  const auto file = open({.read = true});
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  std::filesystem::resize_file(path_, 0);
  EXPECT_EQ(text(*file), content_);
  EXPECT_EQ(file->mapped, nullptr);
  EXPECT_TRUE(keeps_read_bytes(file->owner));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(file->bytes.data()) % 4096, 0u);
}

TEST_F(FileBytesTest, Read_ShrinksMeanwhile_IsAnErrorByName) {
  const auto shrinks = [&](uint64_t bytes) -> Result<std::shared_ptr<const void>> {
    EXPECT_EQ(bytes, kLarge);
    std::filesystem::resize_file(path_, 5000);
    return std::shared_ptr<const void>();
  };
  const auto file = open({.read = true, .reserve = shrinks});
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().code(), BP_INVALID_ARGUMENT);
  EXPECT_EQ(file.status().message(),
            path_ + ": the file shrank while it was read: expected 100000 bytes, found 5000");
}

TEST_F(FileBytesTest, Read_WhatIsReservedLivesAsLongAsTheBytes) {
  const auto reserved = std::make_shared<int>(0);
  const auto reserve = [&](uint64_t) -> Result<std::shared_ptr<const void>> {
    return std::shared_ptr<const void>(reserved);
  };
  auto file = open({.read = true, .reserve = reserve});
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(reserved.use_count(), 2);
  const std::weak_ptr<const void> watched = file->owner;
  file->owner = nullptr;
  EXPECT_EQ(reserved.use_count(), 1) << "although the owner is still watched";
}

TEST_F(FileBytesTest, Read_ReserveRefuses_NothingIsRead) {
  const auto refuse = [](uint64_t) -> Result<std::shared_ptr<const void>> {
    return Status(BP_OUT_OF_MEMORY, "no more");
  };
  const auto file = open({.read = true, .reserve = refuse});
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().code(), BP_OUT_OF_MEMORY);
  EXPECT_EQ(file.status().message(), path_ + ": no more");
}

TEST_F(FileBytesTest, Read_TheSystemRefuses_IsAnErrorInItsWords) {
  const auto reserved = std::make_shared<int>(0);
  const auto reserve = [&](uint64_t) -> Result<std::shared_ptr<const void>> {
    return std::shared_ptr<const void>(reserved);
  };
  constexpr int kNoDescriptor = -1;
  const auto file = file_bytes(kNoDescriptor, path_, 9, {.read = true, .reserve = reserve});
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().code(), BP_UNAVAILABLE);
  EXPECT_EQ(file.status().message(), path_ + ": cannot read the file: Bad file descriptor");
  EXPECT_EQ(reserved.use_count(), 1);
}

TEST_F(FileBytesTest, WhatIsRefused_IsTheSameEitherWay) {
  const std::string empty = folder_.write("empty", "");
  for (const bool read : {false, true}) {
    const FileAccess access = {.read = read};
    EXPECT_THAT(open(access, 99'999).status().message(), HasSubstr("too large"));
    EXPECT_THAT(open_file_bytes(empty, 9, access).status().message(), HasSubstr("is empty"));
    EXPECT_THAT(open_file_bytes(folder_.path(), 9, access).status().message(),
                HasSubstr("found a folder"));
    EXPECT_EQ(open_file_bytes(folder_.path("none"), 9, access).status().code(), BP_UNAVAILABLE);
  }
}

}  // namespace
}  // namespace bp
