// SPDX-License-Identifier: Apache-2.0
//
// The files that the plugins of this build were made of, beside what the library writes now.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "ops/expr/emit_files.hpp"

namespace bp::expr {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void expect_same(const fs::path& folder, const std::vector<File>& files) {
  EXPECT_FALSE(files.empty());
  for (const File& file : files) {
    // The texts are long: where they first differ says more than both of them.
    const std::string built = read(folder / file.name);
    const auto [ours, theirs] =
        std::mismatch(file.text.begin(), file.text.end(), built.begin(), built.end());
    EXPECT_EQ(std::string(ours, ours + std::min<ptrdiff_t>(80, file.text.end() - ours)),
              std::string(theirs, theirs + std::min<ptrdiff_t>(80, built.end() - theirs)))
        << file.name;
  }
}

TEST(EmittedFiles, OfTheCpu_AreWhatTheBuildMade) {
  std::vector<File> files;
  ASSERT_EQ(emit_cpu_files(8, &files), "");
  EXPECT_EQ(files.size(), 9u);
  expect_same(BP_PLUGIN_BUILD_DIR "/cpu", files);
}

TEST(EmittedFiles, OfC_AreWhatTheBuildMade) {
  std::vector<File> files;
  ASSERT_EQ(emit_c_files(2, "cpp", "kernels/expressions.hpp", &files), "");
  EXPECT_EQ(files.size(), 3u);
  expect_same(BP_PLUGIN_BUILD_DIR "/npu/expressions", files);
}

TEST(EmittedFiles, OfDevicePrograms_AreWhatTheBuildMade) {
  if (!BP_HAS_XPU) GTEST_SKIP() << "this build has no plugin of that language";
  const fs::path folder = BP_SKELETON_DIR;
  const Skeletons skeletons{.layout = read(folder / "layout.h"),
                            .words = read(folder / "words.h"),
                            .memory = read(folder / "memory.cl"),
                            .elementwise = read(folder / "elementwise.cl"),
                            .reduction = read(folder / "reduction.cl")};
  std::vector<File> files;
  ASSERT_EQ(emit_opencl_files(skeletons, "cpp", "kernels/expressions.hpp", &files), "");
  EXPECT_EQ(files.size(), 1u);
  expect_same(BP_PLUGIN_BUILD_DIR "/xpu/expressions", files);
}

}  // namespace
}  // namespace bp::expr
