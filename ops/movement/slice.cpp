// SPDX-License-Identifier: Apache-2.0
//
// Inference and view of slice; see slice.hpp.
#include "ops/movement/slice.hpp"

#include <algorithm>
#include <limits>

namespace bp::ops {
namespace {

// No dimension has that many elements: check_sizes() sees to it.
constexpr int64_t kBeyondAnySize = std::numeric_limits<int64_t>::max() / 16;

/// The number of steps from the first element that fit before the last place, both included.
int64_t steps_within(int64_t distance, uint64_t step) {
  return static_cast<int64_t>(static_cast<uint64_t>(distance) / step) + 1;
}

/// Whether all elements of a dimension of any size are taken, forwards or backwards.
bool takes_all(const Range& range) {
  if (range.step == 1) return range.start == 0 && range.end > kBeyondAnySize;
  return range.step == -1 && (range.start == -1 || range.start > kBeyondAnySize) &&
         range.end < -kBeyondAnySize;
}

int64_t sliced_size(const Range& range, int64_t size) {
  if (is_known(size)) return cut(range, size).size;
  return takes_all(range) ? size : kUnknownDim;
}

/// The dimension of each value of the lists. Errors: a number of axes that is not `count`.
Status place_axes(const HostList& axes, int64_t count, size_t rank, std::vector<size_t>* out_dims,
                  uint32_t* out_mask) {
  if (axes.is_given && axes.count != count) {
    return input_error("axes",
                       expected_found(std::to_string(count) + " values, as in starts", axes.count));
  }
  if (!axes.is_given && count > static_cast<int64_t>(rank)) {
    return input_error("starts", expected_found("up to " + std::to_string(rank) +
                                                    " values, one for each "
                                                    "dimension of x",
                                                count));
  }
  std::vector<int64_t> given(axes.values.begin(), axes.values.end());
  for (int64_t i = 0; !axes.is_given && i < count; ++i) given.push_back(i);
  BP_TRY_ASSIGN(*out_mask, resolve_axes_of_input("axes", given, rank));
  for (int64_t axis : given) {
    out_dims->push_back(static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis));
  }
  return {};
}

Status check_count(std::string_view input, const HostList& list, int64_t count) {
  const bool fits =
      !list.is_given || !is_known(list.count) || !is_known(count) || list.count == count;
  if (fits) return {};
  return input_error(input,
                     expected_found(std::to_string(count) + " values, as in starts", list.count));
}

}  // namespace

Cut cut(const Range& range, int64_t size) {
  if (size == 0) return {.start = 0, .size = 0};
  const bool forwards = range.step > 0;
  const int64_t highest = forwards ? size : size - 1;
  const auto placed = [&](int64_t place, int64_t lowest) {
    return std::clamp(place < 0 ? place + size : place, lowest, highest);
  };
  // Backwards it may end before the first element, but not begin there.
  const int64_t start = placed(range.start, 0);
  const int64_t end = placed(range.end, forwards ? 0 : -1);
  if (forwards ? start >= end : start <= end) return {.start = 0, .size = 0};
  const auto step = static_cast<uint64_t>(range.step);
  const int64_t distance = forwards ? end - 1 - start : start - end - 1;
  return {.start = start, .size = steps_within(distance, forwards ? step : 0 - step)};
}

Result<SlicePlan> read_slice(const InferContext& context, size_t rank) {
  BP_TRY_ASSIGN(const HostList starts, host_list(context, 1, "starts"));
  BP_TRY_ASSIGN(const HostList ends, host_list(context, 2, "ends"));
  BP_TRY_ASSIGN(const HostList axes, host_list(context, 3, "axes"));
  BP_TRY_ASSIGN(const HostList steps, host_list(context, 4, "steps"));
  BP_TRY(check_count("ends", ends, starts.count));
  BP_TRY(check_count("axes", axes, starts.count));
  BP_TRY(check_count("steps", steps, starts.count));
  for (int64_t step : steps.values) {
    if (step == 0) return input_error("steps", "expected steps other than 0, found 0");
  }
  SlicePlan plan;
  plan.has_axes = is_known(starts.count) && (axes.is_known || !axes.is_given);
  if (!plan.has_axes) return plan;
  std::vector<size_t> dims;
  BP_TRY(place_axes(axes, starts.count, rank, &dims, &plan.sliced));
  plan.is_known = starts.is_known && ends.is_known && (steps.is_known || !steps.is_given);
  for (size_t i = 0; plan.is_known && i < dims.size(); ++i) {
    plan.ranges[dims[i]] = {.start = starts.values[i],
                            .end = ends.values[i],
                            .step = steps.is_given ? steps.values[i] : 1};
  }
  return plan;
}

Status infer_slice(const InferContext& context, std::span<TensorType> out_types) {
  const TensorType& x = context.inputs[0];
  if (!x.has_rank) {
    unknown_rank(&out_types[0]);
    return {};
  }
  BP_TRY_ASSIGN(const SlicePlan plan, read_slice(context, x.sizes.size()));
  for (size_t i = 0; i < x.sizes.size(); ++i) {
    const bool is_sliced = !plan.has_axes || (plan.sliced >> i & 1) != 0;
    const int64_t size = plan.is_known ? sliced_size(plan.ranges[i], x.sizes[i]) : kUnknownDim;
    out_types[0].sizes.push_back(is_sliced ? size : x.sizes[i]);
  }
  return {};
}

ViewResult view_slice(const InferContext& call, const Dims& x_strides, const Dims& out_sizes) {
  const Dims& x_sizes = call.inputs[0].sizes;
  const auto plan = read_slice(call, x_sizes.size());
  if (!plan.ok() || !plan->is_known) return {};
  ViewResult view{.possible = true, .strides = x_strides, .offset = 0};
  const bool empty = std::find(out_sizes.begin(), out_sizes.end(), 0) != out_sizes.end();
  for (size_t i = 0; i < x_sizes.size() && !empty; ++i) {
    const Range& range = plan->ranges[i];
    const Cut found = cut(range, x_sizes[i]);
    view.offset += found.start * x_strides[i];
    // The step of a single element leads nowhere, and may be of any size.
    if (found.size > 1) view.strides[i] *= range.step;
  }
  return view;
}

}  // namespace bp::ops
