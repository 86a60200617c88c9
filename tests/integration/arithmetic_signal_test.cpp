// SPDX-License-Identifier: Apache-2.0
//
// No operator's data raises a signal, with the handlers that the application has. A driver may have
// one of its own for SIGFPE, as PoCL has for OpenCL kernels that divide by zero: the core puts the
// application's back, so no kernel of a plugin may lean on the driver's. A signal ends this
// program.
#include <csignal>
#include <limits>

#include "tests/integration/device_fixture.hpp"

namespace bp {
namespace {

using Handler = void (*)(int);

Handler handler_of_sigfpe() {
  struct sigaction action {};
  return sigaction(SIGFPE, nullptr, &action) == 0 ? action.sa_handler : SIG_ERR;
}

// Before any plugin: the default, or a sanitizer's. Both end the program.
const Handler handler_at_start = handler_of_sigfpe();

class ArithmeticSignalTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    ASSERT_EQ(handler_at_start, SIG_DFL);
#endif
    ASSERT_EQ(handler_of_sigfpe(), handler_at_start) << "a driver's handler would hide the signal";
  }

  Ref<Tensor> upload_as(uint32_t dtype, const Dims& sizes, const std::vector<double>& elements) {
    return upload(OracleTensor::from_f64(dtype, sizes, elements));
  }
  std::vector<double> divided(uint32_t dtype, const std::vector<double>& a,
                              const std::vector<double>& b) {
    const Dims sizes{static_cast<int64_t>(a.size())};
    return values(must_call("div", {upload_as(dtype, sizes, a), upload_as(dtype, sizes, b)}));
  }
};

TEST_P(ArithmeticSignalTest, IntegerDivision_ByZeroAndOfTheSmallest_IsNoSignal) {
  for (const auto& [dtype, smallest] :
       {std::pair{BP_DTYPE_I8, -0x1p7}, {BP_DTYPE_I32, -0x1p31}, {BP_DTYPE_I64, -0x1p63}}) {
    const std::vector<double> expected{0, smallest, -3, 0};
    EXPECT_EQ(divided(dtype, {7, smallest, 9, 0}, {0, -1, -3, 0}), expected) << dtype;
  }
}

TEST_P(ArithmeticSignalTest, EmptyTensors_HaveSizesOfZero_ThatNothingDividesBy) {
  const Ref<Tensor> none = upload_f32({2, 0}, {});
  EXPECT_TRUE(values(must_call("relu", {none})).empty());
  EXPECT_TRUE(values(must_call("add", {none, upload_f32({1}, {1})})).empty());
  EXPECT_TRUE(values(must_call("transpose", {none})).empty());
  EXPECT_TRUE(
      values(must_call("matmul", {upload_f32({0, 3}, {}), upload_f32({3, 2}, {1, 2, 3, 4, 5, 6})}))
          .empty());
  EXPECT_EQ(values(must_call("matmul", {none, upload_f32({0, 2}, {})})), std::vector<double>(4, 0));
  EXPECT_TRUE(values(must_call("gather", {upload_f32({2, 2}, {1, 2, 3, 4}),
                                          upload_as(BP_DTYPE_I64, {0}, {})}))
                  .empty());
  EXPECT_TRUE(values(must_call("non_zero", {none})).empty());
}

INSTANTIATE_TEST_SUITE_P(Devices, ArithmeticSignalTest, testing::ValuesIn(tests::device_names()),
                         device_test_name);

}  // namespace
}  // namespace bp
