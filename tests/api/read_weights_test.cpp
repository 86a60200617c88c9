// SPDX-License-Identifier: Apache-2.0
//
// Models whose files are read in place of mapped: they may be cut off afterwards, and their memory
// counts.
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/base/temp_folder_test.hpp"
#include "tests/api/api_fixture.hpp"

namespace bp {
namespace {

class ReadWeightsTest : public ApiTest {
 protected:
  /// w is of zeros, and x has one row: y is x once for each row of w.
  static constexpr uint64_t kWeightBytes = uint64_t{1024} * 64 * sizeof(float);

  void SetUp() override {
    ApiTest::SetUp();
    std::filesystem::copy_file(model_path("large_weight"), path_);
  }
  Session load_copy(uint64_t memory_limit_bytes = 0, bool read_weights = true) {
    return Session::load(*runtime_, path_,
                         {.device = GetParam(),
                          .memory_limit_bytes = memory_limit_bytes,
                          .read_weights = read_weights});
  }
  std::vector<float> run(const Session& session) {
    return session.run({{"x", make(std::vector<float>(64, 3), {1, 64})}})
        .at("y")
        .to_vector<float>();
  }

  TempFolder folder_;
  const std::string path_ = folder_.path("m.onnx");
};

TEST_P(ReadWeightsTest, FileCutOffAfterLoading_ChangesNothing) {
  const Session session = load_copy();
  std::filesystem::resize_file(path_, 0);
  EXPECT_EQ(run(session), std::vector<float>(64 * 1024, 3));
  EXPECT_EQ(run(session), std::vector<float>(64 * 1024, 3)) << "nor once it is on the device";
}

TEST_P(ReadWeightsTest, WhatIsRead_CountsFromLoadingOn) {
  const uint64_t file_bytes = std::filesystem::file_size(path_);
  EXPECT_EQ(load_copy(0, false).placement().memory_used_bytes, 0u);
  const Session session = load_copy();
  EXPECT_EQ(session.placement().memory_used_bytes, file_bytes);
  std::string words;
  EXPECT_EQ(status_of([&] { load_copy(file_bytes - 1); }, &words), BP_OUT_OF_MEMORY);
  EXPECT_NE(words.find("m.onnx: "), std::string::npos) << words;
  EXPECT_NE(words.find("the bytes of the file, which is read"), std::string::npos) << words;
  load_copy(file_bytes);
}

TEST_P(ReadWeightsTest, WhatIsReadAndUsedWhereItLies_CountsOnce) {
  if (GetParam() != "cpu:0") GTEST_SKIP() << "weights are copied";
  // The file, of a weight and little more; the weight once more would not fit beside the output.
  const Session session = load_copy(kWeightBytes * 5 / 2);
  EXPECT_EQ(run(session), std::vector<float>(64 * 1024, 3));
}

TEST_P(ReadWeightsTest, ModelInMemory_IsTakenAsItIs) {
  std::vector<std::byte> bytes(std::filesystem::file_size(path_));
  std::ifstream(path_, std::ios::binary)
      .read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  const Session session =
      Session::create(*runtime_, bytes, {.device = GetParam(), .read_weights = true});
  EXPECT_EQ(run(session), std::vector<float>(64 * 1024, 3));
}

INSTANTIATE_TEST_SUITE_P(Devices, ReadWeightsTest, testing::ValuesIn(tests::device_names()),
                         device_name_of);

}  // namespace
}  // namespace bp
