// SPDX-License-Identifier: Apache-2.0
//
// Golden points (ops/truth): inputs of elementwise operators and reductions, and what functions
// that others wrote say of them. With them a kernel is compared with more than our own oracle.
#ifndef BACKPLANE_SDK_CONFORM_KERNELS_GOLDEN_HPP
#define BACKPLANE_SDK_CONFORM_KERNELS_GOLDEN_HPP

#include <span>
#include <string>
#include <string_view>

#include "sdk/conform/kernels/call.hpp"

namespace bp::conform {

/// A line of ops/truth/golden, unread.
struct GoldenLine {
  std::string_view op;
  std::string_view dtypes;  // of the inputs and of the output: "bool,f32,f32>f32"
  std::string_view sizes;   // of every input: "24" or "8x5"; a reduction is over the last one
  std::string_view values;  // bits in hexadecimal, those of the output last; tabs between arguments
};
/// Static data, generated.
std::span<const GoldenLine> golden_lines();

struct GoldenCall {
  Call call;
  OracleTensor output;
};
/// nullptr where the registry has no such operator.
const OpSchema* golden_schema(const GoldenLine& line);
DtypeChoice golden_dtypes(const OpSchema& schema, const GoldenLine& line);
/// Errors: INVALID_ARGUMENT for a line that is not of this form, and what inference says.
Result<GoldenCall> golden_call(const OpSchema& schema, const Recipe& recipe,
                               const GoldenLine& line);

}  // namespace bp::conform

#endif
