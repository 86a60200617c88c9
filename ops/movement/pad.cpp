// SPDX-License-Identifier: Apache-2.0
//
// Inference and decomposition of pad; see pad.hpp.
#include "ops/movement/pad.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "backplane/ops/movement.h"
#include "core/base/checked.hpp"
#include "ops/decompose/builder.hpp"

namespace bp::ops {
namespace {

constexpr std::string_view kConstant = "constant";

std::string_view mode_of(const InferContext& context) {
  return text(attrs<bp_attrs_pad>(context.attributes).mode);
}

Status check_mode(std::string_view mode) {
  for (std::string_view known : {kConstant, std::string_view("edge"), std::string_view("reflect"),
                                 std::string_view("wrap")}) {
    if (mode == known) return {};
  }
  return attribute_error(
      "mode", expected_found("constant, edge, reflect or wrap", "'" + std::string(mode) + "'"));
}

Status check_value(const InferContext& context) {
  if (context.inputs.size() < 3 || context.inputs[2].dtype == BP_DTYPE_NONE) return {};
  const TensorType& value = context.inputs[2];
  const bool is_one =
      !value.has_rank || value.sizes.empty() ||
      (value.sizes.size() == 1 && (!is_known(value.sizes[0]) || value.sizes[0] == 1));
  return is_one ? Status() : input_error("value", expected_found("one element", value.sizes));
}

/// The size of a dimension with its pads. Errors: pads that take away more than there is, and those
/// that take from nothing.
Result<int64_t> padded_size(int64_t size, int64_t begin, int64_t end, bool is_constant) {
  if (!is_known(size)) return begin == 0 && end == 0 ? size : kUnknownDim;
  const auto less_begin = checked_add(size, std::min<int64_t>(begin, 0));
  const auto kept = less_begin ? checked_add(*less_begin, std::min<int64_t>(end, 0)) : std::nullopt;
  if (!kept || *kept < 0) {
    return input_error("pads", std::to_string(begin) + " and " + std::to_string(end) +
                                   " take away more than a dimension of size " +
                                   std::to_string(size) + " has");
  }
  if (*kept == 0 && !is_constant && (begin > 0 || end > 0)) {
    return input_error("pads", "a dimension without elements has none to repeat");
  }
  const auto more_begin = checked_add(*kept, std::max<int64_t>(begin, 0));
  const auto padded =
      more_begin ? checked_add(*more_begin, std::max<int64_t>(end, 0)) : std::nullopt;
  if (padded) return *padded;
  return input_error("pads", std::to_string(begin) + " and " + std::to_string(end) +
                                 " are more than can be counted");
}

}  // namespace

Result<PadPlan> read_pads(const InferContext& context, size_t rank) {
  BP_TRY(check_mode(mode_of(context)));
  BP_TRY(check_value(context));
  BP_TRY_ASSIGN(const HostList pads, host_list(context, 1, "pads", 2 * BP_MAX_RANK));
  BP_TRY_ASSIGN(const HostList axes, host_list(context, 3, "axes"));
  const int64_t count = axes.is_given ? axes.count : static_cast<int64_t>(rank);
  if (is_known(count) && is_known(pads.count) && pads.count != 2 * count) {
    return input_error("pads", expected_found(std::to_string(2 * count) + " values, two for each " +
                                                  (axes.is_given ? "of axes" : "dimension of x"),
                                              pads.count));
  }
  PadPlan plan;
  plan.begins.resize(rank, 0);
  plan.ends.resize(rank, 0);
  plan.has_axes = axes.is_known || !axes.is_given;
  if (!plan.has_axes) return plan;
  std::vector<int64_t> given(axes.values.begin(), axes.values.end());
  for (int64_t i = 0; !axes.is_given && i < count; ++i) given.push_back(i);
  BP_TRY_ASSIGN(plan.padded, resolve_axes_of_input("axes", given, rank));
  plan.is_known = pads.is_known;
  for (size_t i = 0; plan.is_known && i < given.size(); ++i) {
    const int64_t axis = given[i] < 0 ? given[i] + static_cast<int64_t>(rank) : given[i];
    plan.begins[static_cast<size_t>(axis)] = pads.values[i];
    plan.ends[static_cast<size_t>(axis)] = pads.values[given.size() + i];
  }
  return plan;
}

int64_t padded_place(std::string_view mode, int64_t place, int64_t size) {
  if (mode == "edge" || size == 1) return std::clamp<int64_t>(place, 0, size - 1);
  const int64_t period = mode == "wrap" ? size : 2 * (size - 1);
  const int64_t within = (place % period + period) % period;
  return within < size ? within : period - within;
}

Status infer_pad(const InferContext& context, std::span<TensorType> out_types) {
  const TensorType& x = context.inputs[0];
  if (!x.has_rank) {
    BP_TRY(check_mode(mode_of(context)));
    unknown_rank(&out_types[0]);
    return {};
  }
  BP_TRY_ASSIGN(const PadPlan plan, read_pads(context, x.sizes.size()));
  const bool is_constant = mode_of(context) == kConstant;
  for (size_t i = 0; i < x.sizes.size(); ++i) {
    int64_t size = x.sizes[i];
    if (plan.is_known) {
      BP_TRY_ASSIGN(size, padded_size(size, plan.begins[i], plan.ends[i], is_constant));
    } else if (!plan.has_axes || (plan.padded >> i & 1) != 0) {
      size = kUnknownDim;
    }
    out_types[0].sizes.push_back(size);
  }
  return {};
}

namespace {

/// The elements that negative pads leave; x itself where there are none.
ValueId cropped(Builder& builder, const PadPlan& plan, Dims* sizes) {
  std::vector<int64_t> starts;
  std::vector<int64_t> ends;
  bool is_cropped = false;
  for (size_t i = 0; i < sizes->size(); ++i) {
    const int64_t first = -std::min<int64_t>(plan.begins[i], 0);
    const int64_t last = (*sizes)[i] + std::min<int64_t>(plan.ends[i], 0);
    starts.push_back(first);
    ends.push_back(last);
    is_cropped = is_cropped || last - first != (*sizes)[i];
    (*sizes)[i] = last - first;
  }
  if (!is_cropped) return builder.input(0);
  return builder.op("slice", {builder.input(0), builder.list(starts), builder.list(ends)});
}

/// The value in as many places as `sizes` has; a view.
ValueId filled(Builder& builder, ValueId value, const Dims& sizes) {
  return builder.op("expand", {value, builder.list({sizes.data(), sizes.size()})});
}

/// x between what is added to one dimension at its begin and at its end.
ValueId between(Builder& builder, ValueId x, ValueId value, Dims sizes, size_t axis, int64_t begin,
                int64_t end) {
  Attributes along = builder.attributes("concat");
  builder.check(along.set_i64("axis", static_cast<int64_t>(axis)));
  sizes[axis] = begin;
  const ValueId before = begin > 0 ? filled(builder, value, sizes) : kNoValue;
  sizes[axis] = end;
  const ValueId behind = end > 0 ? filled(builder, value, sizes) : kNoValue;
  if (begin <= 0) return builder.op("concat", {x, behind}, std::move(along));
  if (end <= 0) return builder.op("concat", {before, x}, std::move(along));
  return builder.op("concat", {before, x, behind}, std::move(along));
}

/// One dimension whose new elements are others of it.
ValueId gathered(Builder& builder, ValueId x, std::string_view mode, int64_t size, size_t axis,
                 int64_t begin, int64_t padded) {
  std::vector<int64_t> places = builder.counted(padded);
  for (int64_t& place : places) place = padded_place(mode, place - begin, size);
  Attributes along = builder.attributes("gather");
  builder.check(along.set_i64("axis", static_cast<int64_t>(axis)));
  return builder.op("gather", {x, builder.list(places)}, std::move(along));
}

}  // namespace

/// Dimension by dimension, since each adds to what the one before it made.
Status decompose_pad(const InferContext& context, GraphBuilder* graph) {
  const TensorType& x = context.inputs[0];
  if (!x.has_rank || !all_known(x.sizes)) return {BP_UNSUPPORTED, "the sizes of x are not known"};
  BP_TRY_ASSIGN(const PadPlan plan, read_pads(context, x.sizes.size()));
  if (!plan.is_known) return {BP_UNSUPPORTED, "pads and axes are not known"};
  const std::string_view mode = mode_of(context);
  Builder builder(context, {"x", "pads", "value", "axes"}, graph);
  Dims sizes = x.sizes;
  ValueId y = cropped(builder, plan, &sizes);
  ValueId value = builder.input(2);
  if (value == kNoValue && mode == kConstant) value = builder.scalar(x.dtype, 0);
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    const int64_t begin = std::max<int64_t>(plan.begins[axis], 0);
    const int64_t end = std::max<int64_t>(plan.ends[axis], 0);
    const int64_t padded = sizes[axis] + begin + end;
    if (padded == sizes[axis]) continue;
    if (mode == kConstant) {
      y = between(builder, y, value, sizes, axis, begin, end);
    } else {
      y = gathered(builder, y, mode, sizes[axis], axis, begin, padded);
    }
    sizes[axis] = padded;
  }
  return builder.finish(y == builder.input(0) ? builder.op("identity", {y}) : y);
}

}  // namespace bp::ops
