// SPDX-License-Identifier: Apache-2.0
//
// resize. Along each axis an output mixes a few elements of x, which the plan's tables name; an
// output of the whole is the sum over the products of their weights, in double. Sizes, scales and
// the region are read on the host, when the plan is made.
#include "backplane/sdk/resize.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "kernels/elements.hpp"
#include "kernels/loops.hpp"

namespace bp::npu {
namespace {

struct ResizePlan : bp_kernel_plan {
  sdk::ResizeMode mode = sdk::ResizeMode::kNearest;
  double extrapolation_value = 0;
  std::vector<sdk::ResizeTable> tables;  // one per dimension of x
};

template <class T>
T rounded(double value) {
  if constexpr (kIsFloat<T>) {
    return store_double<T>(value);
  } else if constexpr (std::is_same_v<T, bool>) {
    return std::nearbyint(value) != 0;
  } else {
    using Limits = std::numeric_limits<T>;
    const double whole = std::nearbyint(value);
    if (std::isnan(whole)) return 0;
    if (whole <= static_cast<double>(Limits::min())) return Limits::min();
    return whole >= static_cast<double>(Limits::max()) ? Limits::max() : static_cast<T>(whole);
  }
}

/// The position of an output.
using Place = std::array<int64_t, BP_MAX_RANK>;

template <class T>
double mixture(const ResizePlan& plan, const Tensor& x, const Place& place, uint32_t axis,
               int64_t offset) {
  if (axis == x.rank) return static_cast<double>(load(x.as<T>()[offset]));
  const sdk::ResizeTable& table = plan.tables[axis];
  double sum = 0;
  for (int64_t k = place[axis] * table.taps; k < (place[axis] + 1) * table.taps; ++k) {
    const auto entry = static_cast<size_t>(k);
    const int64_t next = offset + table.index[entry] * x.strides[axis];
    sum += table.weight[entry] * mixture<T>(plan, x, place, axis + 1, next);
  }
  return sum;
}

/// In mode nearest the element itself, whatever its type.
template <class T>
T value_at(const ResizePlan& plan, const Tensor& x, const Place& place) {
  int64_t nearest = 0;
  for (uint32_t d = 0; d < x.rank; ++d) {
    const sdk::ResizeTable& table = plan.tables[d];
    const auto at = static_cast<size_t>(place[d]);
    if (!table.outside.empty() && table.outside[at] != 0) {
      return rounded<T>(plan.extrapolation_value);
    }
    if (table.taps == 1) nearest += table.index[at] * x.strides[d];
  }
  if (plan.mode != sdk::ResizeMode::kNearest) return rounded<T>(mixture<T>(plan, x, place, 0, 0));
  return x.as<T>()[nearest];
}

void resize(const ResizePlan& plan, const Launch& launch) {
  const Tensor& x = launch.input(0);
  const Tensor& y = launch.output();
  Elements::with_type(x.dtype, [&]<class T>(T) {
    for (int64_t i = 0; i < y.element_count(); ++i) {
      Place place{};
      int64_t rest = i;
      for (uint32_t d = x.rank; d-- > 0; rest /= y.sizes[d]) place[d] = rest % y.sizes[d];
      y.as<T>()[i] = value_at<T>(plan, x, place);
    }
  });
}

std::unique_ptr<ResizePlan> make_plan(bp_device*, const bp_kernel_query& query, bp_plan_info*) {
  const auto attributes = read_attributes(query.attributes, bp_attrs_resize_defaults());
  const sdk::ResizeRules rules = sdk::read_resize_rules(attributes);
  auto plan = std::make_unique<ResizePlan>();
  plan->mode = rules.mode;
  plan->extrapolation_value = attributes.extrapolation_value;
  const bp_arg_info& y = sdk::output_info(query);
  const std::span out(y.sizes, y.rank);
  if (std::find(out.begin(), out.end(), 0) != out.end()) return plan;
  for (const sdk::ResizeAxis& axis : sdk::read_resize_axes(query, attributes)) {
    plan->tables.push_back(sdk::make_resize_table(rules, axis));
  }
  return plan;
}

KernelBody prepare(const bp_launch_args& args) {
  if (args.plan == nullptr) refuse("resize: a launch without a plan");
  const auto& plan = *static_cast<const ResizePlan*>(args.plan);
  return [&plan](const Launch& launch) { resize(plan, launch); };
}

constexpr bp_arg_rule kHostAtPlanRule{.struct_size = sizeof(bp_arg_rule),
                                      .flags = BP_ARG_HOST_AT_PLAN_BIT,
                                      .strides = BP_STRIDES_CONTIGUOUS,
                                      .alignment_bytes = 0};
constexpr const bp_arg_rule* kRules[] = {&sdk::kAnyStridesRule, &kHostAtPlanRule};

constexpr bp_kernel kKernels[] = {
    describe({.name = "resize_any",
              .op = "resize",
              .dtypes = Elements::kDtypes,
              .arg_rules = kRules,
              .depends_on = BP_DEPENDS_SIZES_BIT | BP_DEPENDS_HOST_DATA_BIT,
              .plan = sdk::plan_slot<ResizePlan, make_plan>,
              .plan_free = sdk::delete_plan<bp_kernel_plan>,
              .launch = launch<prepare>})};

}  // namespace

BP_SDK_KERNELS(resize, kKernels);

}  // namespace bp::npu
