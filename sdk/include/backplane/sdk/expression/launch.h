/* SPDX-License-Identifier: Apache-2.0
 *
 * The launch of emitted C kernels on a device whose memory this process reaches at handle + offset,
 * and which runs a launch before it returns. Other plugins bring their own header with these two
 * functions: bp_expression_kernels(... HEADER file).
 */
#ifndef BACKPLANE_SDK_EXPRESSION_LAUNCH_H
#define BACKPLANE_SDK_EXPRESSION_LAUNCH_H

#include "backplane/sdk/expression/loops.h"

static inline void* bp_expression_address(const bp_tensor* tensor) {
  return (void*)(uintptr_t)(tensor->handle + tensor->offset_bytes);
}

static inline bp_status bp_expression_launch(const bp_launch_args* args,
                                             const bp_expression* expression) {
  if (args == NULL || args->tensors == NULL) return BP_INVALID_ARGUMENT;
  const bp_tensor* y = &args->tensors[args->input_count];
  const uint32_t dtype = args->tensors[args->input_count - 1].dtype;
  const void* inputs[BP_LAYOUT_MAX_INPUTS] = {0};
  bp_expression_layout layout;
  bp_expression_layout_begin(&layout, expression, dtype, args->attributes, y->rank, y->sizes);
  for (uint32_t i = 0; i < expression->input_count; ++i) {
    const bp_tensor* x = &args->tensors[i];
    if (!bp_expression_layout_add(&layout, i, x->rank, x->sizes, x->strides)) {
      return BP_INVALID_ARGUMENT;
    }
    inputs[i] = bp_expression_address(x);
  }
  bp_expression_layout_end(&layout);
  bp_expression_run(expression, dtype, &layout, inputs, bp_expression_address(y), 0,
                    layout.item_count);
  return BP_OK;
}

static inline bp_status bp_reduction_launch(const bp_launch_args* args,
                                            const bp_reduction* reduction, bp_i64_span axes) {
  if (args == NULL || args->tensors == NULL) return BP_INVALID_ARGUMENT;
  const bp_tensor* x = &args->tensors[0];
  const bp_tensor* y = &args->tensors[1];
  bp_reduction_layout layout;
  if (!bp_reduction_layout_fill(&layout, x->rank, x->sizes, x->strides, axes)) {
    return BP_INVALID_ARGUMENT;
  }
  bp_reduction_run(reduction, x->dtype, &layout, bp_expression_address(x), bp_expression_address(y),
                   0, layout.output_count);
  return BP_OK;
}

#endif
