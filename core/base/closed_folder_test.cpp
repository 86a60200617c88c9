// SPDX-License-Identifier: Apache-2.0
#include "core/base/closed_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "core/base/temp_folder_test.hpp"

namespace bp {
namespace {

using testing::HasSubstr;
using Walk = ClosedFolder::Walk;

/// Both ways of following a name refuse the same, in the same words.
class ClosedFolderTest : public testing::TestWithParam<Walk> {
 protected:
  ClosedFolderTest() {
    outer_.write("secret.bin", "secret");
    std::filesystem::create_directories(outer_.path("model/weights"));
    outer_.write("model/w.bin", "12345678");
    outer_.write("model/weights/v.bin", "abc");
  }
  std::string path(const std::string& name) const { return outer_.path("model/" + name); }
  Result<FileBytes> map(std::string_view name) const {
    auto folder = ClosedFolder::open(outer_.path("model"));
    if (!folder.ok()) return folder.status();
    return (*folder)->bytes(name, {}, GetParam());
  }
  std::string content(std::string_view name) const {
    const auto file = map(name);
    if (!file.ok()) return file.status().to_string();
    const auto bytes = file->bytes;
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::string refused(std::string_view name, bp_status code = BP_INVALID_ARGUMENT) const {
    const auto file = map(name);
    if (file.ok()) return "it was mapped";
    EXPECT_EQ(file.status().code(), code);
    return file.status().message();
  }

  TempFolder outer_;
};

TEST_P(ClosedFolderTest, FilesInIt_AreMapped) {
  EXPECT_EQ(content("w.bin"), "12345678");
  EXPECT_EQ(content("weights/v.bin"), "abc");
  EXPECT_EQ(content("./weights/./v.bin"), "abc");
  outer_.write("model/empty.bin", "");
  EXPECT_EQ(content("empty.bin"), "");
  outer_.write("model/..odd", "x");
  EXPECT_EQ(content("..odd"), "x");
}

TEST_P(ClosedFolderTest, NamesThatLeadOut_AreRefused) {
  EXPECT_EQ(refused("../secret.bin"),
            "'../secret.bin' has a part '..', expected a file in the folder");
  EXPECT_EQ(refused("weights/../w.bin"),
            "'weights/../w.bin' has a part '..', expected a file in the folder");
  EXPECT_EQ(refused("weights/.."), "'weights/..' has a part '..', expected a file in the folder");
  EXPECT_EQ(refused(outer_.path("secret.bin")),
            "'" + outer_.path("secret.bin") + "' is absolute, expected a file in the folder");
  EXPECT_EQ(refused("/proc/self/environ"),
            "'/proc/self/environ' is absolute, expected a file in the folder");
  EXPECT_EQ(refused("weights//v.bin"), "'weights//v.bin' has an empty part");
  EXPECT_EQ(refused("weights/"), "'weights/' has an empty part");
  EXPECT_EQ(refused(""), "'' is no file name");
  EXPECT_EQ(refused("."), "'.' is the folder itself");
}

TEST_P(ClosedFolderTest, SymbolicLinks_AreRefused) {
  std::filesystem::create_symlink("../secret.bin", path("out.bin"));
  std::filesystem::create_symlink("w.bin", path("same.bin"));
  std::filesystem::create_directory_symlink("weights", path("linked"));
  std::filesystem::create_directory_symlink("..", path("up"));
  std::filesystem::create_symlink("/proc/self/fd", path("magic"));
  for (const char* name : {"out.bin", "same.bin", "linked/v.bin", "up/secret.bin", "magic/0"}) {
    EXPECT_EQ(refused(name), "'" + std::string(name) + "' goes by a symbolic link, expected none");
  }
}

TEST_P(ClosedFolderTest, HardLinks_AreRefused) {
  ASSERT_EQ(::link(outer_.path("secret.bin").c_str(), path("hard.bin").c_str()), 0);
  EXPECT_EQ(refused("hard.bin"),
            "'hard.bin' has 2 hard links, expected 1: it may be another's file");
}

TEST_P(ClosedFolderTest, NoRegularFiles_AreRefusedAndDoNotWait) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(refused("pipe"), "'pipe' is a special file, expected a regular file");
  EXPECT_EQ(refused("weights"), "'weights' is a folder, expected a regular file");
}

TEST_P(ClosedFolderTest, MissingFiles_AreUnavailable) {
  EXPECT_EQ(refused("none.bin", BP_UNAVAILABLE),
            "'none.bin': cannot open the file: No such file or directory");
  EXPECT_EQ(refused("none/v.bin", BP_UNAVAILABLE),
            "'none/v.bin': cannot open the file: No such file or directory");
  EXPECT_EQ(refused("w.bin/v.bin", BP_UNAVAILABLE),
            "'w.bin/v.bin': cannot open the file: Not a directory");
}

/// A folder on the way becomes a link out and back, over and over.
TEST_P(ClosedFolderTest, SwappedMeanwhile_NeverLeadsOut) {
  outer_.write("v.bin", "secret");
  std::filesystem::create_directory_symlink("..", path("link"));
  std::atomic<bool> done{false};
  std::thread swapper([&] {
    while (!done) {
      ::rename(path("weights").c_str(), path("kept").c_str());
      ::rename(path("link").c_str(), path("weights").c_str());
      ::rename(path("weights").c_str(), path("link").c_str());
      ::rename(path("kept").c_str(), path("weights").c_str());
    }
  });
  for (int i = 0; i < 2000; ++i) {
    const auto file = map("weights/v.bin");
    if (file.ok()) EXPECT_EQ(content("w.bin"), "12345678");
    if (file.ok()) EXPECT_EQ(file->bytes.size(), 3u);
  }
  done = true;
  swapper.join();
}

INSTANTIATE_TEST_SUITE_P(Walks, ClosedFolderTest, testing::Values(Walk::kKernel, Walk::kSteps),
                         [](const auto& walk) {
                           return walk.param == Walk::kKernel ? "Kernel" : "Steps";
                         });

TEST(ClosedFolder, ThatIsNotThere_IsUnavailable) {
  const TempFolder folder;
  const auto none = ClosedFolder::open(folder.path("none"));
  EXPECT_EQ(none.status().code(), BP_UNAVAILABLE);
  EXPECT_THAT(none.status().message(), HasSubstr("/none: cannot open the folder: No such file"));
  EXPECT_THAT(ClosedFolder::open(folder.write("file", "x")).status().message(),
              HasSubstr("Not a directory"));
}

}  // namespace
}  // namespace bp
