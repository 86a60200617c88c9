// SPDX-License-Identifier: Apache-2.0
//
// A plugin's library stays where it is in memory, whatever becomes of its instances: a call that
// returns late, a thread of the vendor's, or a text of the plugin's may lie there still.
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "backplane/ops.hpp"

namespace bp {
namespace {

/// The ranges of this process's memory that hold the library of a fake, with all that the system
/// says of them.
std::vector<std::string> ranges_of(const std::string& fake) {
  const std::string file = BP_FAKES_DIR "/" + fake + "/libbackplane_" + fake + ".so";
  std::vector<std::string> ranges;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.ends_with(file)) ranges.push_back(line);
  }
  return ranges;
}

Runtime make_runtime() {
  RuntimeOptions options;
  options.plugin_path = BP_FAKES_DIR "/sound:" BP_FAKES_DIR "/absent";
  options.install_dir = "";
  return Runtime::create(options);
}

void expect_working(const Runtime& runtime) {
  const Tensor x = Tensor::from_host<float>(runtime.device("sound:0"), {-1, 2}, {2});
  EXPECT_EQ(relu(x).to_vector<float>(), (std::vector<float>{0, 2}));
}

TEST(Mapping, LibraryOfAPlugin_AfterItsShutdown_StaysWhereItIs) {
  std::vector<std::string> ranges;
  {
    Runtime runtime = make_runtime();
    expect_working(runtime);
    ranges = ranges_of("sound");
    ASSERT_FALSE(ranges.empty());
    runtime.close();
    EXPECT_EQ(ranges_of("sound"), ranges);
  }
  EXPECT_EQ(ranges_of("sound"), ranges);
  // A new instance is one of that library, not of another copy.
  expect_working(make_runtime());
  EXPECT_EQ(ranges_of("sound"), ranges);
}

TEST(Mapping, LibraryOfAPluginWithoutItsHardware_StaysToo) {
  const Runtime runtime = make_runtime();
  EXPECT_FALSE(ranges_of("absent").empty());
}

}  // namespace
}  // namespace bp
