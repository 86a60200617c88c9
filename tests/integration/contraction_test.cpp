// SPDX-License-Identifier: Apache-2.0
//
// No kernel from an expression makes one rounding of a product and a sum, which a compiler would
// like to: the same model would give other results on each device.
#include "tests/integration/device_fixture.hpp"

namespace bp {
namespace {

class ContractionTest : public DeviceTest {
 protected:
  /// alpha * x - (alpha * x, rounded), by a kernel: 0, or what the rounding was if it was left out.
  template <class T>
  void expect_two_roundings(uint32_t dtype) {
    const T alpha = static_cast<T>(0.1);
    size_t telling = 0;
    for (int i = 1; i <= 40; ++i) {
      const T x = static_cast<T>(1) / static_cast<T>(2 * i + 1);
      const volatile T product = alpha * x;
      // Below 0 the operator's bound would hide it.
      if (std::fma(alpha, x, -product) <= 0) continue;
      ++telling;
      Attributes form = attributes("hard_sigmoid");
      ASSERT_TRUE(form.set_f64("alpha", static_cast<double>(alpha)).ok());
      ASSERT_TRUE(form.set_f64("beta", -static_cast<double>(product)).ok());
      // A whole row, so that vector code runs.
      const std::vector<double> row(64, static_cast<double>(x));
      const auto found = values(
          must_call("hard_sigmoid", {upload(OracleTensor::from_f64(dtype, {64}, row))}, form));
      EXPECT_EQ(found, std::vector<double>(64, 0.0)) << "x = " << static_cast<double>(x);
    }
    EXPECT_GT(telling, 10u);
  }
};

TEST_P(ContractionTest, ProductAndSum_AreRoundedEach) {
  expect_two_roundings<float>(BP_DTYPE_F32);
  expect_two_roundings<double>(BP_DTYPE_F64);
}

INSTANTIATE_TEST_SUITE_P(Devices, ContractionTest, testing::ValuesIn(tests::device_names()),
                         device_test_name);

}  // namespace
}  // namespace bp
