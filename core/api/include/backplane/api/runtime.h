/* SPDX-License-Identifier: Apache-2.0
 *
 * Runtimes and their devices. Included by backplane.h, which has the rules.
 */
#ifndef BACKPLANE_API_RUNTIME_H
#define BACKPLANE_API_RUNTIME_H

#include "backplane/api/common.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Names and values are parallel arrays. */
typedef struct bpa_runtime_args {
  uint32_t struct_size;
  uint32_t flags;          /* 0 */
  const char* plugin_path; /* colon-separated folders searched first; NULL: none */
  const char* install_dir; /* replaces the installed plugin folder; NULL: the installed one */
  const char* const* option_names; /* "npu.memory" (plugin), "BACKPLANE_FALLBACK" (option) */
  const char* const* option_values;
  uint64_t option_count;
} bpa_runtime_args;

/* Finds and loads plugins and opens their devices. That none is found is not an error. args: NULL
 * for defaults. Errors: INVALID_ARGUMENT for an option, naming it, and for a folder of plugin_path
 * or install_dir that is not there, is none, or is relative ("" as install_dir: no folder); of
 * BACKPLANE_PLUGIN_PATH the log tells it. */
BPA_API bpa_status bpa_runtime_create(const bpa_runtime_args* args, bpa_runtime** out_runtime);

/* Closes all devices; later use of anything below answers GONE, but for what an object knows of
 * itself (sizes of a tensor, inputs and outputs of a session). Asynchronous runs that have not
 * begun end with CANCELLED, and those in progress are told to stop between two operators, which
 * ends them with CANCELLED too.
 * Threads: any, whatever others are calling. Calls in progress end as they would have, or with
 * GONE; calls that begin once close has begun answer GONE at once. Releases stay legal; what they
 * let go of may end on the closing thread. Where several threads close, one does, the others wait
 * for it, and all answer OK. From inside a callback of a close: OK, without effect.
 * Blocks: until runs and other calls are over, each at most BACKPLANE_TIMEOUT, and while devices
 * are closed.
 * Errors: TIMEOUT, naming a call that a plugin did not return from in time: nothing is closed or
 * freed, calls go on answering GONE, and close may be tried again; BUSY inside a run's callback,
 * inside a log sink on a thread that works for a device, and inside a deleter that another call on
 * this runtime runs (a release is not one). */
BPA_API bpa_status bpa_runtime_close(bpa_runtime* runtime);

/* The runtime lives on while tensors, sessions or runs do. NULL is legal. */
BPA_API void bpa_runtime_release(bpa_runtime* runtime);

BPA_API bpa_status bpa_runtime_device_count(bpa_runtime* runtime, uint64_t* out_count);
BPA_API bpa_status bpa_runtime_device(bpa_runtime* runtime, uint64_t index,
                                      bpa_device** out_device);

/* name: "npu:0" or an alias. Errors: UNAVAILABLE, listing what there is. */
BPA_API bpa_status bpa_runtime_find_device(bpa_runtime* runtime, const char* name,
                                           bpa_device** out_device);

/* Texts: lifetime object (the runtime). */
typedef struct bpa_device_info {
  uint32_t struct_size;
  uint32_t flags; /* 0 */
  bp_str name;    /* "npu:0" */
  bp_str full_name;
  bp_str vendor;
  bp_str driver;
  uint64_t memory_bytes;
  uint64_t memory_used_bytes;     /* in live tensors and plans */
  uint64_t memory_reserved_bytes; /* taken from the device */
  uint64_t features;              /* BP_FEATURE_*_BIT of backplane/device.h that are native */
  uint64_t launch_count;
  uint64_t decomposed_count; /* eager operators run as several */
  uint64_t fallback_count;   /* eager operators run on the host device */
  uint64_t copy_in_count;
  uint64_t copy_out_count;
  uint64_t materialise_count; /* strided inputs made contiguous */
  uint64_t emulated_features; /* BP_FEATURE_*_BIT that the core emulates */
  uint64_t device_flags;      /* BP_DEVICE_*_BIT of backplane/device.h */
  uint32_t execution;         /* BP_EXECUTION_* of backplane/device.h */
  uint32_t compute_unit_count;
  uint64_t alignment_bytes;
  uint64_t output_copy_count; /* outputs of runs copied into the tensor they were bound to */
  uint32_t dlpack_device_type; /* the DLDeviceType by which DLPack knows the device; 0: none */
  int32_t dlpack_device_id;
} bpa_device_info;

BPA_API bpa_status bpa_device_get_info(bpa_device* device, bpa_device_info* out_info);

/* bpa_feature_info.state */
#define BPA_FEATURE_ABSENT 0u   /* uses of it are refused */
#define BPA_FEATURE_EMULATED 1u /* the core does it */
#define BPA_FEATURE_NATIVE 2u   /* the plugin does it */

/* name: lifetime process. */
typedef struct bpa_feature_info {
  uint32_t struct_size;
  uint32_t flags;   /* 0 */
  const char* name; /* "async" */
  uint64_t bit;     /* BP_FEATURE_*_BIT of backplane/device.h */
  uint32_t state;   /* BPA_FEATURE_* */
  uint32_t reserved;
} bpa_feature_info;

/* Every group of optional functions that the core knows, in the same order on each device. */
BPA_API bpa_status bpa_device_feature_count(bpa_device* device, uint64_t* out_count);
BPA_API bpa_status bpa_device_get_feature(bpa_device* device, uint64_t index,
                                          bpa_feature_info* out_info);

/* Waits for all work of the device. Errors: that work's first failure; TIMEOUT. */
BPA_API bpa_status bpa_device_sync(bpa_device* device);

#ifdef __cplusplus
}
#endif

#endif
