// SPDX-License-Identifier: Apache-2.0
//
// Plans of emitted kernels: where the operands lie, and which of a program's functions that suits.
#include "kernels/expressions.hpp"

#include <cstdlib>
#include <string_view>

#include "device.hpp"
#include "kernels/dtypes.hpp"

namespace bp::xpu {
namespace {

// Work items that fold one output together, and the elements from which on that pays: with fewer,
// each would have next to nothing to do before the group waits for it.
constexpr uint32_t kFoldingGroup = 256;
constexpr uint64_t kFoldedTogether = 128;
// ... where outputs are neighbours in memory, so that one work item for each reads in its order.
constexpr uint64_t kFoldedTogetherAcross = 4096;

ProgramSource source_of(const char* op, const char* prelude, const char* source,
                        const char* skeleton, uint32_t dtype) {
  if (source == nullptr) sdk::refuse("plan: ", op, " of dtype code ", dtype);
  return {op, {prelude, source, skeleton}, define("BP_DTYPE", dtype_name(dtype))};
}

Plan plan_expression(const bp_kernel_query& query, const bp_expression& expression) {
  expect_inputs(query, expression.input_count);
  const bp_arg_info& y = argument(query, expression.input_count);
  const uint32_t dtype = argument(query, expression.input_count - 1).dtype;
  element_count(y);  // in range
  bp_expression_layout layout;
  bp_expression_layout_begin(&layout, &expression, dtype, query.attributes, y.rank, y.sizes);
  for (uint32_t i = 0; i < expression.input_count; ++i) {
    broadcast_strides(argument(query, i), y.sizes, y.rank, layout.strides[i]);
  }
  bp_expression_layout_end(&layout);
  bool dense = layout.rank <= 1;
  for (uint32_t i = 0; dense && i < expression.input_count; ++i) {
    dense = layout.rank == 0 || layout.strides[i][0] == 1;
  }
  const ProgramSource source =
      source_of(expression.op, expression.prelude,
                dtype < BP_EXPRESSION_DTYPES ? expression.sources[dtype] : nullptr,
                expression.skeleton, dtype);
  Step step(source, dense ? expression.dense : expression.strided, layout);
  return {.steps = {step.items(layout.item_count)}};
}

/// Whether a group folds each output, or a work item.
bool folds_together(const bp_reduction_layout& layout) {
  const uint64_t rank = layout.kept_rank + layout.reduced_rank;
  if (layout.reduced_rank == 0) return false;
  const int64_t across = layout.kept_rank == 0 ? INT64_MAX : layout.strides[layout.kept_rank - 1];
  const bool is_inner = std::abs(layout.strides[rank - 1]) <= std::abs(across);
  return layout.reduced_count >= (is_inner ? kFoldedTogether : kFoldedTogetherAcross);
}

Plan plan_reduction(const Device& device, const bp_kernel_query& query,
                    const bp_reduction& reduction, bp_i64_span axes) {
  expect_inputs(query, 1);
  const bp_arg_info& x = argument(query, 0);
  element_count(x);  // in range
  bp_reduction_layout layout;
  if (!bp_reduction_layout_fill(&layout, x.rank, x.sizes, x.strides, axes)) {
    sdk::refuse("plan: ", reduction.op, ": an axis that x of rank ", x.rank, " does not have");
  }
  const char* const text = x.dtype < BP_EXPRESSION_DTYPES ? reduction.sources[x.dtype] : nullptr;
  ProgramSource source =
      source_of(reduction.op, reduction.prelude, text, reduction.skeleton, x.dtype);
  const bool needs_f64 = std::string_view(text).find("double") != std::string_view::npos;
  if (needs_f64 && !device.info().has_f64) {
    throw sdk::Refusal{"the device does not compute in f64, as this reduction of integers does"};
  }
  source.options += define("BP_GROUP_SIZE", kFoldingGroup);
  if (folds_together(layout)) {
    Step step(source, reduction.by_groups, layout);
    return {.steps = {step.groups(layout.output_count, kFoldingGroup)}};
  }
  Step step(source, reduction.one_by_one, layout);
  return {.steps = {step.items(layout.output_count)}};
}

/// sdk::plan_slot for a function that knows its operator.
template <class Make>
bp_status plan_in_slot(bp_device* device, const bp_kernel_query* query, bp_plan_info* out_info,
                       bp_kernel_plan** out_plan, const Make& make) {
  return sdk::slot("plan", device, {query, out_info, out_plan}, [&]() -> bp_status {
    sdk::require_whole("plan", query);
    bp_plan_info info{};
    bp_status status = BP_OK;
    try {
      *out_plan = programs_for(make(), device, &info).release();
    } catch (const sdk::Refusal& refusal) {
      info = {};
      info.reason = sdk::str(refusal.reason);
      status = BP_UNSUPPORTED;
    }
    sdk::write_out(out_info, info);
    return status;
  });
}

}  // namespace
}  // namespace bp::xpu

bp_status bp_expression_plan(bp_device* device, const bp_kernel_query* query,
                             bp_plan_info* out_info, bp_kernel_plan** out_plan,
                             const bp_expression* expression) {
  return bp::xpu::plan_in_slot(device, query, out_info, out_plan,
                               [&] { return bp::xpu::plan_expression(*query, *expression); });
}

bp_status bp_reduction_plan(bp_device* device, const bp_kernel_query* query, bp_plan_info* out_info,
                            bp_kernel_plan** out_plan, const bp_reduction* reduction,
                            bp_i64_span axes) {
  return bp::xpu::plan_in_slot(device, query, out_info, out_plan, [&] {
    return bp::xpu::plan_reduction(*device, *query, *reduction, axes);
  });
}
