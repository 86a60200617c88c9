// SPDX-License-Identifier: Apache-2.0
//
// one_hot compares indices with the positions of the new dimension, which are listed.
#include "backplane/ops/indexing.h"
#include "ops/decompose/builder.hpp"
#include "ops/infer/common.hpp"

namespace bp::ops {

Status decompose_one_hot(const InferContext& context, GraphBuilder* graph) {
  const TensorType& indices = context.inputs[0];
  const auto* const depth = static_cast<const int64_t*>(context.host_data[1]);
  if (!indices.has_rank || depth == nullptr) {
    return {BP_UNSUPPORTED, "the rank of indices or the depth is not known"};
  }
  const size_t rank = indices.sizes.size() + 1;
  BP_TRY_ASSIGN(const size_t axis,
                resolve_axis("axis", attrs<bp_attrs_one_hot>(context.attributes).axis, rank));
  Builder builder(context, {"indices", "depth", "values"}, graph);
  Dims sizes;
  sizes.resize(rank - axis, 1);
  sizes[0] = *depth;
  const ValueId places = builder.integers(sizes, builder.counted(*depth));

  const int64_t axes[] = {static_cast<int64_t>(axis)};
  const ValueId given = builder.cast(builder.input(0), BP_DTYPE_I64);
  const ValueId index = builder.op("unsqueeze", {given, builder.list(axes)});
  const ValueId from_end = builder.op("add", {index, builder.integer(*depth)});
  const ValueId is_negative = builder.op("less", {index, builder.integer(0)});
  const ValueId place = builder.op("where", {is_negative, from_end, index});
  const ValueId is_on = builder.op("equal", {place, places});
  const ValueId off = builder.op("gather", {builder.input(2), builder.integer(0)});
  const ValueId on = builder.op("gather", {builder.input(2), builder.integer(1)});
  return builder.finish(builder.op("where", {is_on, on, off}));
}

}  // namespace bp::ops
