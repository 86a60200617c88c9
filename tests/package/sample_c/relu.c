/* SPDX-License-Identifier: Apache-2.0
 *
 * Two descriptors in one file: the list keeps the order of files, and of each file. */
#include "backplane/sdk/kernels.h"

static bp_status launch_relu(const bp_launch_args* args) {
  const bp_tensor* x = &args->tensors[0];
  const bp_tensor* y = &args->tensors[1];
  int64_t count = 1;
  for (uint32_t d = 0; d < x->rank; ++d) count *= x->sizes[d];
  const float* in = (const float*)(uintptr_t)(x->handle + x->offset_bytes);
  float* out = (float*)(uintptr_t)(y->handle + y->offset_bytes);
  for (int64_t i = 0; i < count; ++i) out[i] = in[i] < 0 ? 0 : in[i];
  return BP_OK;
}

static const uint64_t kMasks[] = {BP_DTYPE_BIT(BP_DTYPE_F32)};
#define RELU(NAME, BYTES, RANK)                                                                   \
  {                                                                                               \
    .struct_size = sizeof(bp_kernel), .name = {NAME, BYTES}, .op = {"relu", 4}, .version_min = 1, \
    .version_max = 1, .op_since = 1, .priority = RANK, .dtype_masks = kMasks,                     \
    .dtype_mask_count = 1, .launch = launch_relu                                                  \
  }
static const bp_kernel kKernels[] = {RELU("relu_in_c", 9, 0), RELU("relu_again", 10, 0)};
BP_SDK_KERNELS(relu, kKernels);
