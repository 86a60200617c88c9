/* SPDX-License-Identifier: Apache-2.0
 *
 * The C application API of Backplane: devices, tensors, operators, sessions. Devices come from
 * plugins found at run time; nothing here names one.
 *
 * Objects are opaque. What a call answers in an out_ argument is the caller's, to be released with
 * the object's own release function, unless it says otherwise; on an error out_ arguments are NULL
 * or 0. Structs are versioned: set struct_size to sizeof, the rest to 0 for defaults. Every
 * function may be called from any thread. A status is one of backplane/status.h's; bpa_last_error
 * has its words.
 */
#ifndef BACKPLANE_BACKPLANE_H
#define BACKPLANE_BACKPLANE_H

#include <stdint.h>

#include "backplane/status.h"
#include "backplane/types.h"

#if defined(_WIN32)
#define BPA_API __declspec(dllimport)
#elif defined(BPA_BUILDING)
#define BPA_API __attribute__((visibility("default")))
#else
#define BPA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef bp_status bpa_status;
typedef struct bpa_runtime bpa_runtime;
typedef struct bpa_device bpa_device; /* owned by its runtime; never released */
typedef struct bpa_tensor bpa_tensor;
typedef struct bpa_session bpa_session;

/* "0.1.0". Lifetime: process. */
BPA_API const char* bpa_version(void);

/* The words of the newest error on the calling thread, "" if there was none. Lifetime: until this
 * thread's next failing call. */
BPA_API const char* bpa_last_error(void);

/* "OUT_OF_MEMORY" for BP_OUT_OF_MEMORY; unknown codes are "INTERNAL". Lifetime: process. */
BPA_API const char* bpa_status_name(bpa_status status);

/* --- Log ----------------------------------------------------------------------------------- */

/* level: 1 error, 2 warning, 3 info, 4 debug. `line` is not terminated. */
typedef void (*bpa_log_sink)(void* user, uint32_t level, const char* line, uint64_t line_bytes);

/* Sends the log of the whole process to `sink`; NULL: back to standard error. */
BPA_API void bpa_log_set_sink(bpa_log_sink sink, void* user);

/* --- Runtime ------------------------------------------------------------------------------- */

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
 * for defaults. Errors: INVALID_ARGUMENT for an option, naming it. */
BPA_API bpa_status bpa_runtime_create(const bpa_runtime_args* args, bpa_runtime** out_runtime);

/* Closes all devices; later use of anything below answers GONE. No other call may be in progress.
 */
BPA_API bpa_status bpa_runtime_close(bpa_runtime* runtime);

/* The runtime lives on while tensors or sessions do. NULL is legal. */
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
} bpa_device_info;

BPA_API bpa_status bpa_device_get_info(bpa_device* device, bpa_device_info* out_info);

/* Waits for all work of the device. Errors: that work's first failure; TIMEOUT. */
BPA_API bpa_status bpa_device_sync(bpa_device* device);

/* --- Tensors ------------------------------------------------------------------------------- */

/* Uninitialised, contiguous. sizes: rank values. */
BPA_API bpa_status bpa_tensor_create(bpa_device* device, uint32_t dtype, const int64_t* sizes,
                                     uint32_t rank, bpa_tensor** out_tensor);

/* Copies contiguous host values; `bytes` must be their exact size. device NULL: stays in host
 * memory, and moves where it is used. */
BPA_API bpa_status bpa_tensor_from_host(bpa_device* device, uint32_t dtype, const int64_t* sizes,
                                        uint32_t rank, const void* data, uint64_t bytes,
                                        bpa_tensor** out_tensor);

/* Copies the values out, contiguous; `bytes` must be their exact size. Waits; an asynchronous error
 * of the work that made them surfaces here. */
BPA_API bpa_status bpa_tensor_to_host(bpa_tensor* tensor, void* out_data, uint64_t bytes);

/* The same values on another device; the tensor itself (retained) if it is there already. */
BPA_API bpa_status bpa_tensor_to_device(bpa_tensor* tensor, bpa_device* device,
                                        bpa_tensor** out_tensor);

/* Pointers: lifetime object (the tensor). */
typedef struct bpa_tensor_info {
  uint32_t struct_size;
  uint32_t flags; /* 0 */
  uint32_t dtype;
  uint32_t rank;
  const int64_t* sizes;
  const int64_t* strides; /* elements */
  bpa_device* device;     /* NULL: host memory */
  uint64_t bytes;         /* of the values, contiguous */
} bpa_tensor_info;

BPA_API bpa_status bpa_tensor_get_info(bpa_tensor* tensor, bpa_tensor_info* out_info);
BPA_API void bpa_tensor_retain(bpa_tensor* tensor);
/* NULL is legal. */
BPA_API void bpa_tensor_release(bpa_tensor* tensor);

/* --- Operators ----------------------------------------------------------------------------- */

/* Runs one operator on the device of its inputs; <backplane/ops.h> has one function for each.
 * op_id: BP_OP_*. inputs: NULL for an absent optional one. attributes: the operator's bp_attrs_
 * struct, or NULL for defaults. runtime: NULL if an input is on a device. flags: 0. output_count:
 * as many as the operator has. Errors: INVALID_ARGUMENT naming operator and argument; UNSUPPORTED
 * with the reason of every kernel; OUT_OF_MEMORY. */
BPA_API bpa_status bpa_op_call(bpa_runtime* runtime, uint32_t op_id,
                               const bpa_tensor* const* inputs, uint32_t input_count,
                               const void* attributes, uint64_t flags, bpa_tensor** out_outputs,
                               uint32_t output_count);

/* --- Sessions ------------------------------------------------------------------------------ */

typedef struct bpa_session_args {
  uint32_t struct_size;
  uint32_t flags;               /* 0 */
  bpa_device* device;           /* required */
  const char* const* dim_names; /* symbolic dimensions fixed for the session; parallel arrays */
  const int64_t* dim_sizes;
  uint64_t dim_count;
  uint32_t max_contexts; /* runs at once; 0: 8 */
  uint32_t reserved;     /* 0 */
} bpa_session_args;

/* Reads an ONNX file and makes it ready. Errors: INVALID_ARGUMENT or UNSUPPORTED naming the file
 * and the node, what was expected and what was found. */
BPA_API bpa_status bpa_session_load(bpa_runtime* runtime, const char* path,
                                    const bpa_session_args* args, bpa_session** out_session);
/* NULL is legal. */
BPA_API void bpa_session_release(bpa_session* session);

BPA_API bpa_status bpa_session_input_count(bpa_session* session, uint64_t* out_count);
BPA_API bpa_status bpa_session_output_count(bpa_session* session, uint64_t* out_count);

/* Pointers: lifetime object (the session). */
typedef struct bpa_io_info {
  uint32_t struct_size;
  uint32_t flags; /* 0 */
  const char* name;
  uint32_t dtype;
  uint32_t rank;                /* 0 also if the rank is not known */
  const int64_t* sizes;         /* below 0: not known before the run */
  const char* const* dim_names; /* "" or the name of the symbol; as many as rank */
} bpa_io_info;

BPA_API bpa_status bpa_session_get_input(bpa_session* session, uint64_t index,
                                         bpa_io_info* out_info);
BPA_API bpa_status bpa_session_get_output(bpa_session* session, uint64_t index,
                                          bpa_io_info* out_info);

/* Runs once. Inputs by name, in any order, from the host or any device; out_outputs: one per output
 * of the session. Errors: INVALID_ARGUMENT naming the input, what was expected and found;
 * OUT_OF_MEMORY; the device's, naming the node. The session stays usable. */
BPA_API bpa_status bpa_session_run(bpa_session* session, const char* const* input_names,
                                   const bpa_tensor* const* inputs, uint64_t input_count,
                                   bpa_tensor** out_outputs, uint64_t output_count);

/* How the newest run's operators were placed. */
typedef struct bpa_placement_info {
  uint32_t struct_size;
  uint32_t flags; /* 0 */
  uint64_t native_count;
  uint64_t decomposed_count;
  uint64_t fallback_count;
  uint64_t view_count;
} bpa_placement_info;

BPA_API bpa_status bpa_session_get_placement(bpa_session* session, bpa_placement_info* out_info);

#ifdef __cplusplus
}
#endif

#endif
