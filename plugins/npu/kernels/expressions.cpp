// SPDX-License-Identifier: Apache-2.0
//
// Bodies around the loops of emitted kernels. See expressions.hpp.
#include "kernels/expressions.hpp"

#include <algorithm>

#include "backplane/sdk/expression/loops.h"
#include "kernels/launch.hpp"

namespace bp::npu {
namespace {

template <class Loops>
void require_loop(const char* op, const Loops& loops, uint32_t dtype) {
  if (dtype >= BP_EXPRESSION_DTYPES || loops[dtype] == nullptr) refuse(op, ": dtype ", dtype);
}

KernelBody prepare(const bp_launch_args& args, const bp_expression& expression) {
  const bp_tensor& y = args.tensors[args.input_count];
  const uint32_t dtype = args.tensors[args.input_count - 1].dtype;
  require_loop(expression.op, expression.loops, dtype);
  bp_expression_layout layout;
  bp_expression_layout_begin(&layout, &expression, dtype, args.attributes, y.rank, y.sizes);
  for (uint32_t i = 0; i < expression.input_count; ++i) {
    const bp_tensor& x = args.tensors[i];
    if (!bp_expression_layout_add(&layout, i, x.rank, x.sizes, x.strides)) {
      refuse(expression.op, ": input ", i, " does not broadcast to the output");
    }
  }
  bp_expression_layout_end(&layout);
  return [layout, dtype, &expression](const Launch& launch) {
    const void* inputs[BP_LAYOUT_MAX_INPUTS] = {};
    for (uint32_t i = 0; i < expression.input_count; ++i) inputs[i] = launch.input(i).data;
    bp_expression_run(&expression, dtype, &layout, inputs, launch.output().data, 0,
                      layout.item_count);
  };
}

KernelBody prepare(const bp_launch_args& args, const bp_reduction& reduction, bp_i64_span axes) {
  const bp_tensor& x = args.tensors[0];
  require_loop(reduction.op, reduction.loops, x.dtype);
  bp_reduction_layout layout;
  if (!bp_reduction_layout_fill(&layout, x.rank, x.sizes, x.strides, axes)) {
    refuse(reduction.op, ": an axis of a tensor of rank ", x.rank);
  }
  return [layout, dtype = x.dtype, &reduction](const Launch& launch) {
    bp_reduction_layout own = layout;
    // Nothing is read of an input without elements, which has no memory to step through.
    if (launch.input(0).data == nullptr) std::fill_n(own.strides, BP_LAYOUT_MAX_RANK, 0);
    bp_reduction_run(&reduction, dtype, &own, launch.input(0).data, launch.output().data, 0,
                     own.output_count);
  };
}

}  // namespace
}  // namespace bp::npu

bp_status bp_expression_launch(const bp_launch_args* args,
                               const bp_expression* expression) noexcept {
  const auto prepare = [expression](const bp_launch_args& wanted) {
    return bp::npu::prepare(wanted, *expression);
  };
  return bp::npu::launch_kernel(args, bp::npu::PrepareKernel(prepare));
}

bp_status bp_reduction_launch(const bp_launch_args* args, const bp_reduction* reduction,
                              bp_i64_span axes) noexcept {
  const auto prepare = [reduction, axes](const bp_launch_args& wanted) {
    return bp::npu::prepare(wanted, *reduction, axes);
  };
  return bp::npu::launch_kernel(args, bp::npu::PrepareKernel(prepare));
}
