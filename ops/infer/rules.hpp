// SPDX-License-Identifier: Apache-2.0
//
// The inference rules that rows of ops/defs name; the generated schemas call them. Each fills the
// sizes of the one output.
#ifndef BACKPLANE_OPS_INFER_RULES_HPP
#define BACKPLANE_OPS_INFER_RULES_HPP

#include <cstddef>
#include <string_view>

#include "ops/infer/common.hpp"

namespace bp::ops {

/// `infer: broadcast`: all inputs by NumPy's rule. `what` names them in the error.
Status broadcast_inputs(const InferContext& context, std::string_view what, TensorType* out_type);

/// `like: <input>`: the sizes of that input.
Status like_input(const InferContext& context, size_t index, TensorType* out_type);

/// `infer: reduce`: the first input without the dimensions in `axes` (empty: all), or with size 1
/// there.
Status reduce_input(const InferContext& context, bp_i64_span axes, bool keep_dims,
                    TensorType* out_type);

}  // namespace bp::ops

#endif
