// SPDX-License-Identifier: Apache-2.0
//
// The generated calls of an operator whose number of outputs is an attribute.
#include "backplane/ops.h"

#include <array>
#include <string>
#include <vector>

#include "tests/api/api_fixture.hpp"

namespace bp {
namespace {

class OpsTest : public ApiTest {
 protected:
  Tensor matrix() const {
    return Tensor::from_host<float>(device_, std::array<float, 6>{0, 1, 2, 3, 4, 5},
                                    std::array<int64_t, 2>{2, 3});
  }
};

TEST_P(OpsTest, Split_GivesAsManyTensorsAsItIsAskedFor) {
  const std::vector<Tensor> rows = split(matrix(), 2);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1].to_vector<float>(), (std::vector<float>{3, 4, 5}));
  const std::vector<Tensor> columns = split(matrix(), 2, {.axis = -1, .sizes = {1, 2}});
  ASSERT_EQ(columns.size(), 2u);
  EXPECT_EQ(columns[0].to_vector<float>(), (std::vector<float>{0, 3}));
  EXPECT_EQ(columns[1].to_vector<float>(), (std::vector<float>{1, 2, 4, 5}));
}

TEST_P(OpsTest, Split_WrongNumbers_AreNamed) {
  for (const int64_t count : {int64_t{0}, int64_t{-1}, int64_t{65536}, INT64_MAX}) {
    try {
      split(matrix(), count);
      ADD_FAILURE() << count;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what())
                    .find("split: attribute 'num_outputs': expected 1 to 65535 outputs, found " +
                          std::to_string(count)),
                std::string::npos)
          << error.what();
    }
  }
}

TEST_P(OpsTest, Split_OfC_WantsRoomForAllOutputs) {
  const Tensor x = matrix();
  bp_attrs_split attributes = bp_attrs_split_defaults();
  attributes.num_outputs = 2;
  std::array<bpa_tensor*, 3> outputs{};
  EXPECT_EQ(bpa_split(runtime_->handle(), x.handle(), &attributes, outputs.data(), 3),
            BP_INVALID_ARGUMENT);
  EXPECT_NE(std::string(bpa_last_error()).find("expected room for 2 outputs, found 3"),
            std::string::npos);
  EXPECT_EQ(outputs[0], nullptr);
  ASSERT_EQ(bpa_split(runtime_->handle(), x.handle(), &attributes, outputs.data(), 2), BP_OK)
      << bpa_last_error();
  const Tensor first = Tensor::adopt(outputs[0]);
  const Tensor second = Tensor::adopt(outputs[1]);
  EXPECT_EQ(second.to_vector<float>(), (std::vector<float>{3, 4, 5}));
}

INSTANTIATE_TEST_SUITE_P(Devices, OpsTest, testing::ValuesIn(tests::device_names()),
                         device_name_of);

}  // namespace
}  // namespace bp
