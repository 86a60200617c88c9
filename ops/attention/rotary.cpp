// SPDX-License-Identifier: Apache-2.0
//
// Rotary embedding: pairs of elements are turned by angles whose cosines and sines are given.
#include <array>

#include "backplane/ops/attention.h"
#include "ops/decompose/builder.hpp"
#include "ops/infer/common.hpp"

namespace bp::ops {
namespace {

constexpr size_t kPositions = 3;
constexpr size_t kLast = 3;  // dimension of x

/// How many elements of the last dimension are turned; unknown where that depends on its size.
/// Errors name the attribute or x.
Result<int64_t> turned_count(const bp_attrs_rotary_embedding& attributes, const Dims& x) {
  const int64_t dim = x[kLast];
  const int64_t given = attributes.rotary_dim;
  if (given == 0) {
    if (!is_known(dim) || dim % 2 == 0) return dim;
    return input_error("x", expected_found("an even last size", x));
  }
  if (given > 0 && given % 2 == 0 && (!is_known(dim) || given <= dim)) return given;
  return attribute_error("rotary_dim", expected_found("an even number from 2 to the last size of " +
                                                          to_string(x) + ", or 0",
                                                      given));
}

/// cos or sin: [positions, pairs] beside positions, else [B, S, pairs].
Status check_table(const InferContext& context, size_t index, std::string_view name, int64_t pairs,
                   Dims* sizes) {
  BP_TRY_ASSIGN(const Dims found, sizes_of_rank(name, context.inputs[index], sizes->size()));
  bool fits = !is_known(pairs) || !is_known(found.back()) || found.back() == pairs;
  for (size_t i = 0; fits && i < found.size(); ++i) fits = unify(found[i], &(*sizes)[i]);
  if (fits) return {};
  return input_error(name, expected_found("sizes " + to_string(*sizes), found));
}

bool has_positions(const InferContext& context) {
  return context.inputs.size() > kPositions && context.inputs[kPositions].dtype != BP_DTYPE_NONE;
}

}  // namespace

Status infer_rotary_embedding(const InferContext& context, std::span<TensorType> out_types) {
  const auto& attributes = attrs<bp_attrs_rotary_embedding>(context.attributes);
  BP_TRY_ASSIGN(const Dims x, sizes_of_rank("x", context.inputs[0], 4));
  BP_TRY_ASSIGN(const int64_t turned, turned_count(attributes, x));
  const int64_t pairs = is_known(turned) ? turned / 2 : kUnknownDim;
  Dims table{kUnknownDim, pairs};
  if (has_positions(context)) {
    BP_TRY_ASSIGN(const Dims positions, sizes_of_rank("positions", context.inputs[kPositions], 2));
    int64_t batch = x[0];
    int64_t length = x[2];
    if (!unify(positions[0], &batch) || !unify(positions[1], &length)) {
      return input_error("positions", expected_found("sizes " + to_string(Dims{x[0], x[2]}) +
                                                         ", as dimensions 0 and 2 of x",
                                                     positions));
    }
  } else {
    table = Dims{x[0], x[2], pairs};
  }
  BP_TRY(check_table(context, 1, "cos", pairs, &table));
  BP_TRY(check_table(context, 2, "sin", pairs, &table));
  out_types[0].sizes = x;
  return {};
}

namespace {

class RotaryBuilder {
 public:
  RotaryBuilder(Builder& builder, uint32_t work, int64_t turned, bool interleaved)
      : builder_(builder), work_(work), turned_(turned), interleaved_(interleaved) {}

  ValueId run(bool is_partial) {
    const ValueId cos = table(1);
    const ValueId sin = table(2);
    const ValueId x = builder_.cast(builder_.input(0), work_);
    const int64_t half = turned_ / 2;
    const ValueId first = interleaved_ ? part(x, 0, turned_, 2) : part(x, 0, half, 1);
    const ValueId second = interleaved_ ? part(x, 1, turned_, 2) : part(x, half, turned_, 1);
    const ValueId real = builder_.op("sub", {product(cos, first), product(sin, second)});
    const ValueId imaginary = builder_.op("add", {product(sin, first), product(cos, second)});
    const ValueId y = interleaved_ ? merged(real, imaginary) : joined(real, imaginary);
    return is_partial ? joined(y, part(x, turned_, INT64_MAX, 1)) : y;
  }

 private:
  /// Of each position, as [B, 1, S, pairs].
  ValueId table(size_t index) {
    ValueId values = builder_.cast(builder_.input(index), work_);
    if (builder_.input(kPositions) != kNoValue) {
      values = builder_.op("gather", {values, builder_.input(kPositions)});
    }
    return builder_.op("unsqueeze", {values, builder_.list(std::array<int64_t, 1>{1})});
  }

  /// Every step-th element of the last dimension from `begin` to before `end`.
  ValueId part(ValueId x, int64_t begin, int64_t end, int64_t step) {
    const auto list = [&](int64_t value) { return builder_.list(std::array<int64_t, 1>{value}); };
    return builder_.op("slice", {x, list(begin), list(end), list(-1), list(step)});
  }

  ValueId product(ValueId a, ValueId b) { return builder_.op("mul", {a, b}); }

  ValueId joined(ValueId a, ValueId b) {
    Attributes last = builder_.attributes("concat");
    builder_.check(last.set_i64("axis", -1));
    return builder_.op("concat", {a, b}, std::move(last));
  }

  /// An element of the one, then one of the other.
  ValueId merged(ValueId a, ValueId b) {
    const ValueId behind = builder_.list(std::array<int64_t, 1>{-1});
    const ValueId pairs =
        joined(builder_.op("unsqueeze", {a, behind}), builder_.op("unsqueeze", {b, behind}));
    return builder_.reshape(pairs, std::array<int64_t, 4>{0, 0, 0, turned_});
  }

  Builder& builder_;
  const uint32_t work_;
  const int64_t turned_;
  const bool interleaved_;
};

}  // namespace

Status decompose_rotary_embedding(const InferContext& context, GraphBuilder* graph) {
  const auto& attributes = attrs<bp_attrs_rotary_embedding>(context.attributes);
  BP_TRY_ASSIGN(const Dims x, sizes_of_rank("x", context.inputs[0], 4));
  BP_TRY_ASSIGN(const int64_t turned, turned_count(attributes, x));
  if (!is_known(turned)) return {BP_UNSUPPORTED, "the last size of x is not known"};
  Builder builder(context, {"x", "cos", "sin", "positions"}, graph);
  const uint32_t dtype = context.inputs[0].dtype;
  RotaryBuilder rotary(builder, working_dtype(dtype), turned, attributes.interleaved != 0);
  return builder.finish(builder.cast(rotary.run(turned != x[kLast]), dtype));
}

}  // namespace bp::ops
