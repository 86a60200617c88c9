/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernel whose attributes are required to keep their defaults: sums over all axes unless told. */
#include "backplane/ops/reduction.h"
#include "backplane/sdk/kernels.h"

static bp_status launch_sum(const bp_launch_args* args) {
  bp_attrs_reduce_sum attributes = bp_attrs_reduce_sum_defaults();
  bp_sdk_read_attributes(&attributes, sizeof attributes, args->attributes);
  if (attributes.axes.count != 0) return BP_UNSUPPORTED;
  const bp_tensor* x = &args->tensors[0];
  const bp_tensor* y = &args->tensors[1];
  int64_t count = 1;
  for (uint32_t d = 0; d < x->rank; ++d) count *= x->sizes[d];
  const float* in = (const float*)(uintptr_t)(x->handle + x->offset_bytes);
  float sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += in[i];
  *(float*)(uintptr_t)(y->handle + y->offset_bytes) = sum;
  return BP_OK;
}

static const uint64_t kMasks[] = {BP_DTYPE_BIT(BP_DTYPE_F32)};
static const bp_kernel kKernels[] = {{.struct_size = sizeof(bp_kernel),
                                      .name = {"sum_in_c", 8},
                                      .op = {"reduce_sum", 10},
                                      .version_min = 1,
                                      .version_max = 1,
                                      .op_since = 1,
                                      .dtype_masks = kMasks,
                                      .dtype_mask_count = 1,
                                      .launch = launch_sum}};
BP_SDK_KERNELS(sum, kKernels);
