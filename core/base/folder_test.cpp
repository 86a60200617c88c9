// SPDX-License-Identifier: Apache-2.0
#include "core/base/folder.hpp"

#include <gmock/gmock.h>

#include <filesystem>

#include "core/base/temp_folder_test.hpp"

namespace bp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(NamesInFolder, Entries_AreSortedWithoutDots) {
  const TempFolder folder;
  folder.write("b", "file");
  std::filesystem::create_directory(folder.path("a"));
  folder.write(".hidden", "file");
  const auto names = names_in_folder(folder.path());
  ASSERT_TRUE(names.ok()) << names.status().to_string();
  EXPECT_THAT(*names, ElementsAre(".hidden", "a", "b"));
  EXPECT_THAT(*names_in_folder(folder.path("a")), IsEmpty());
}

TEST(NamesInFolder, NoFolder_IsUnavailableNamingItAndWhy) {
  const TempFolder folder;
  const std::string path = folder.path("missing");
  const auto names = names_in_folder(path);
  ASSERT_FALSE(names.ok());
  EXPECT_EQ(names.status().code(), BP_UNAVAILABLE);
  EXPECT_THAT(names.status().message(), HasSubstr(path + ": No such file"));
  EXPECT_FALSE(names_in_folder(folder.write("file", "no folder")).ok());
}

}  // namespace
}  // namespace bp
