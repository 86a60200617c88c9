// SPDX-License-Identifier: Apache-2.0
//
// Short ways to write oracle calls in tests.
#ifndef BACKPLANE_OPS_ORACLE_ORACLE_TEST_SUPPORT_HPP
#define BACKPLANE_OPS_ORACLE_ORACLE_TEST_SUPPORT_HPP

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "ops/infer/infer_test_support.hpp"
#include "ops/oracle/oracle.hpp"

namespace bp::ops {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

inline OracleTensor tensor(uint32_t dtype, Dims sizes, const std::vector<double>& values) {
  EXPECT_EQ(
      static_cast<size_t>(element_count(std::span<const int64_t>(sizes.data(), sizes.size()))),
      values.size());
  return OracleTensor::from_f64(dtype, sizes, values);
}
inline OracleTensor floats(Dims sizes, const std::vector<double>& values) {
  return tensor(BP_DTYPE_F32, sizes, values);
}
inline OracleTensor doubles(Dims sizes, const std::vector<double>& values) {
  return tensor(BP_DTYPE_F64, sizes, values);
}
inline OracleTensor longs(Dims sizes, const std::vector<int64_t>& values) {
  return OracleTensor::from_i64(BP_DTYPE_I64, sizes, values);
}

/// The first output; an empty tensor and a test failure on an error.
inline OracleTensor evaluated(std::string_view op, const std::vector<OracleTensor>& inputs,
                              const void* attributes = nullptr) {
  std::vector<OracleTensor> outputs;
  const Status status = evaluate(schema_of(op), inputs, attributes, &outputs);
  EXPECT_TRUE(status.ok()) << status.to_string();
  return status.ok() ? outputs[0] : OracleTensor();
}

/// The error's words; a test failure without one.
inline std::string refused(std::string_view op, const std::vector<OracleTensor>& inputs,
                           const void* attributes = nullptr) {
  std::vector<OracleTensor> outputs;
  const Status status = evaluate(schema_of(op), inputs, attributes, &outputs);
  EXPECT_FALSE(status.ok()) << op;
  return status.message();
}

inline std::vector<double> values_of(const OracleTensor& result) { return result.to_f64(); }

}  // namespace bp::ops

#endif
