/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of a plugin, in C and C++. Each file of bp_add_plugin(KERNELS ...) ends with
 * BP_SDK_KERNELS; the build makes the list of files, in their order, which is the order of
 * preference. Nothing else names a kernel.
 */
#ifndef BACKPLANE_SDK_KERNELS_H
#define BACKPLANE_SDK_KERNELS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "backplane/kernel.h"

#ifdef __cplusplus
#define BP_SDK_EXTERN extern "C"
#else
#define BP_SDK_EXTERN extern
#endif

/* The descriptors of one file. */
typedef struct bp_sdk_kernel_set {
  const bp_kernel* kernels;
  size_t kernel_count;
} bp_sdk_kernel_set;

/* The descriptors of this file: BP_SDK_KERNELS(relu, kKernels); in relu.cpp, with an array of
 * bp_kernel. The name is the file's. */
#define BP_SDK_KERNELS(file, array)                               \
  BP_SDK_EXTERN const bp_sdk_kernel_set bp_sdk_kernels_of_##file; \
  const bp_sdk_kernel_set bp_sdk_kernels_of_##file = {array, sizeof(array) / sizeof((array)[0])}

/* Made by bp_add_plugin: the sets of all files, NULL at the end. */
BP_SDK_EXTERN const bp_sdk_kernel_set* const bp_sdk_kernel_sets[];

/* How many kernels there are in all. */
static inline size_t bp_sdk_kernel_count(void) {
  size_t count = 0;
  for (const bp_sdk_kernel_set* const* set = bp_sdk_kernel_sets; *set != NULL; ++set) {
    count += (*set)->kernel_count;
  }
  return count;
}

/* Writes bp_sdk_kernel_count() pointers, for bp_kernel_list.kernels. */
static inline void bp_sdk_list_kernels(const bp_kernel** out_kernels) {
  for (const bp_sdk_kernel_set* const* set = bp_sdk_kernel_sets; *set != NULL; ++set) {
    for (size_t i = 0; i < (*set)->kernel_count; ++i) *out_kernels++ = &(*set)->kernels[i];
  }
}

/* Reads an operator's attributes over their defaults, with which *out comes: members that the
 * writer's struct lacks keep them. A read that zeroes what is missing is wrong for attributes:
 * bp_attrs_conv attrs = bp_attrs_conv_defaults();
 * bp_sdk_read_attributes(&attrs, sizeof attrs, args->attributes); */
static inline void bp_sdk_read_attributes(void* out, uint32_t out_bytes, const void* attributes) {
  if (attributes == NULL) return;
  uint32_t bytes = 0; /* every versioned struct begins with its size */
  memcpy(&bytes, attributes, sizeof bytes);
  bytes -= bytes % 8; /* half a pointer is not read */
  memcpy(out, attributes, bytes < out_bytes ? bytes : out_bytes);
  memcpy(out, &out_bytes, sizeof out_bytes);
}

#endif
