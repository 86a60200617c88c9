/* SPDX-License-Identifier: Apache-2.0
 *
 * SKETCH, not released: the executable table. A plugin compiles a part of a graph and runs it as
 * one unit. It travels as the extension "bp.sketch.executable", version BP_SKETCH_EXECUTABLE.
 *
 * The graph crosses as an *image*: one block of bytes without pointers, so that it can be mapped
 * from a file, hashed as a cache key and fuzzed. It begins with a bp_image; sections follow, each
 * aligned to 8 bytes. Rows are versioned and a section tells their stride, so a reader of any age
 * walks it. Weights are not in the image: they come beside it and are never copied to be described.
 */
#ifndef BACKPLANE_SKETCH_EXECUTABLE_H
#define BACKPLANE_SKETCH_EXECUTABLE_H

#include "backplane/host.h"
#include "backplane/status.h"
#include "backplane/types.h"

#define BP_SKETCH_EXECUTABLE 1u

#define BP_FEATURE_SERIALIZE_BIT ((uint64_t)1 << 8) /* executable table: the last three */

typedef struct bp_executable bp_executable;                 /* made by executable_compile */
typedef struct bp_executable_context bp_executable_context; /* by executable_context_create */

/* bp_image_section.kind. A reader skips kinds that it does not know. */
#define BP_IMAGE_VALUES 1u     /* bp_image_value */
#define BP_IMAGE_NODES 2u      /* bp_image_node, in an order in which they can run */
#define BP_IMAGE_ATTRIBUTES 3u /* bp_image_attribute */
#define BP_IMAGE_SYMBOLS 4u    /* bp_image_symbol */
#define BP_IMAGE_VALUE_IDS 5u  /* uint32_t: rows of VALUES; BP_IMAGE_NO_VALUE: absent */
#define BP_IMAGE_INTEGERS 6u   /* int64_t */
#define BP_IMAGE_TEXT 7u       /* UTF-8 bytes */
#define BP_IMAGE_INPUTS 8u     /* uint32_t: rows of VALUES */
#define BP_IMAGE_OUTPUTS 9u    /* uint32_t: rows of VALUES */

#define BP_IMAGE_NO_VALUE 0xFFFFFFFFu

/* The head of an image. Allocated by the core, read during the call. Required: all. */
typedef struct bp_image {
  uint32_t struct_size;
  uint32_t flags;
  uint64_t image_bytes;          /* of the whole image */
  uint64_t sections_offset;      /* of the first bp_image_section */
  uint32_t section_count;        /* one section for each kind at most */
  uint32_t section_stride_bytes; /* from one bp_image_section to the next */
} bp_image;

/* Allocated by the core, read during the call. Required: all. */
typedef struct bp_image_section {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t kind;         /* BP_IMAGE_* */
  uint32_t stride_bytes; /* from one row to the next */
  uint64_t offset;       /* of the first row, from the image's beginning */
  uint64_t row_count;
} bp_image_section;

/* A size in sizes_first is a number, or a symbol: -2 - the symbol's row. -1: not known.
 * Allocated by the core, read during the call. Required: all. */
typedef struct bp_image_value {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t dtype;
  uint32_t rank;
  uint64_t sizes_first;    /* rank rows of INTEGERS */
  uint64_t constant_index; /* 1 + index into bp_compile_args.constants; 0: no constant */
} bp_image_value;

/* Allocated by the core, read during the call. Required: all. */
typedef struct bp_image_node {
  uint32_t struct_size;
  uint32_t flags;
  uint64_t op_offset; /* into TEXT: the operator, as in bp_kernel.op */
  uint64_t name_offset;
  uint32_t op_bytes;
  uint32_t name_bytes;
  uint32_t op_version;
  uint32_t attribute_count;
  uint64_t attributes_first; /* attribute_count rows of ATTRIBUTES */
  uint64_t values_first;     /* input_count, then output_count rows of VALUE_IDS */
  uint32_t input_count;
  uint32_t output_count;
} bp_image_node;

/* bp_image_attribute.kind */
#define BP_IMAGE_ATTRIBUTE_I64 0u
#define BP_IMAGE_ATTRIBUTE_F64 1u
#define BP_IMAGE_ATTRIBUTE_I64S 2u
#define BP_IMAGE_ATTRIBUTE_TEXT 3u

/* One attribute that is not at its default. A node with an attribute that the plugin does not know
 * is one that it does not claim. Allocated by the core, read during the call. Required: all. */
typedef struct bp_image_attribute {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t id;   /* as in the operator's source: never reused */
  uint32_t kind; /* BP_IMAGE_ATTRIBUTE_* */
  int64_t i64;
  double f64;
  uint64_t first; /* I64S: rows of INTEGERS; TEXT: of TEXT */
  uint64_t count;
} bp_image_attribute;

/* Allocated by the core, read during the call. Required: all. */
typedef struct bp_image_symbol {
  uint32_t struct_size;
  uint32_t flags;
  uint64_t name_offset; /* into TEXT */
  uint64_t name_bytes;
  int64_t min;
  int64_t max; /* INT64_MAX: no bound is known */
} bp_image_symbol;

/* Which nodes a plugin takes. Allocated and zeroed by the core. Required: all. */
typedef struct bp_claim {
  uint32_t struct_size;
  uint32_t flags;
  uint64_t node_count; /* filled by the core: rows of NODES */
  uint32_t* groups;    /* per node: 0 not taken; nodes with the same number are to be compiled
                          together. length: node_count; lifetime: call */
  bp_str reason;       /* why the first untaken node is not, one phrase; lifetime: plugin */
} bp_claim;

/* A weight in host memory. Frozen. Lifetime: call. */
typedef struct bp_constant {
  const void* data; /* contiguous; length: bytes */
  uint64_t bytes;
} bp_constant;

/* Allocated by the core, read during the call: the plugin copies what it keeps. Required: all. */
typedef struct bp_compile_args {
  uint32_t struct_size;
  uint32_t flags;
  const void* image; /* aligned to 8 bytes; all nodes are to be compiled; lifetime: call */
  uint64_t image_bytes;
  const bp_constant* constants; /* lifetime: call */
  uint64_t constant_count;
} bp_compile_args;

/* Allocated and zeroed by the core. Required: weight_bytes. */
typedef struct bp_compile_info {
  uint32_t struct_size;
  uint32_t flags;
  uint64_t weight_bytes; /* device memory that the executable holds until it is freed: the core
                            charges it to the session's limit */
  bp_str reason;         /* with BP_UNSUPPORTED: why; lifetime: plugin */
} bp_compile_info;

/* What a run with these sizes looks like. Allocated by the core, read during the call.
 * Required: all. */
typedef struct bp_io_query {
  uint32_t struct_size;
  uint32_t flags;
  const int64_t* symbols; /* the value of each symbol, in the image's order; lifetime: call */
  uint64_t symbol_count;
} bp_io_query;

/* bp_io_info.flags */
#define BP_IO_CAN_FAULT_BIT 1u /* a run may write the fault word */

/* Allocated and zeroed by the core. Required: workspace_alignment_bytes. */
typedef struct bp_io_info {
  uint32_t struct_size;
  uint32_t flags;        /* BP_IO_*_BIT */
  int64_t* output_sizes; /* given by the core, [output_count][BP_MAX_RANK]; length: output_count *
                            BP_MAX_RANK; lifetime: call */
  uint64_t output_count; /* given by the core */
  uint64_t workspace_bytes; /* activations included: the core's arena holds them */
  uint64_t workspace_alignment_bytes;
} bp_io_info;

/* One run. Built by the core on its stack; the plugin copies what it needs later, before it
 * returns. Required: all. */
typedef struct bp_run_args {
  uint32_t struct_size;
  uint32_t flags;
  bp_executable_context* context;
  bp_stream* stream;        /* NULL: run now, on this thread */
  const bp_tensor* tensors; /* the image's inputs, then its outputs, contiguous; length:
                               input_count + output_count; lifetime: call */
  uint32_t input_count;
  uint32_t output_count;
  bp_mem workspace; /* handle 0: none */
  uint64_t op_seq;  /* names node 0 in reports and in the fault word; node i is op_seq + i. The
                       core has reserved one number for each node of the image. */
  bp_mem fault;     /* a bp_fault_word in device memory; handle 0: no run can fault */
} bp_run_args;

/* A serialised executable. Allocated by the core, read during the call. Required: all. */
typedef struct bp_blob {
  uint32_t struct_size;
  uint32_t flags;
  const void* data; /* length: bytes; lifetime: call */
  uint64_t bytes;
} bp_blob;

/* Where a blob is to be written. Allocated and zeroed by the core. Required: all. */
typedef struct bp_blob_space {
  uint32_t struct_size;
  uint32_t flags;
  void* data; /* given by the core; NULL: only the size is asked. length: capacity_bytes; lifetime:
                 call */
  uint64_t capacity_bytes;
  uint64_t bytes; /* what the blob needs; nothing is written if this is more than the capacity */
} bp_blob_space;

/* bp_compat.verdict */
#define BP_COMPAT_NO 0u        /* compile anew */
#define BP_COMPAT_YES 1u       /* deserialize will do */
#define BP_COMPAT_RECOMPILE 2u /* deserialize will do, and compiling anew would run faster */

/* Allocated and zeroed by the core. Required: verdict. */
typedef struct bp_compat {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t verdict;  /* BP_COMPAT_*; unknown: no */
  uint32_t reserved; /* 0 */
  bp_str reason;     /* why not, one phrase; lifetime: plugin */
} bp_compat;

typedef struct bp_executable_api {
  uint32_t struct_size;
  uint32_t flags; /* bands: BP_FEATURE_SERIALIZE_BIT */

  /* executable_claim: which nodes of an image the plugin would compile, and how they go together.
   * image: image_bytes bytes. Pure and cheap; it touches no device.
   * Errors: BP_INVALID_ARGUMENT for an image that is not one. Threads: any-thread. Blocks: no.
   * Absent: the table is refused. */
  bp_status (*executable_claim)(bp_device* device, const void* image, uint64_t image_bytes,
                                bp_claim* out_claim);

  /* executable_compile: makes an executable of a whole image. It is immutable and used by any
   * number of threads.
   * Errors: BP_UNSUPPORTED with a reason: the core runs the nodes one by one;
   *   BP_INVALID_ARGUMENT for an image that is not one; BP_OUT_OF_MEMORY.
   * Ownership: executable_free. Threads: any-thread. Blocks: it may. Absent: the table is refused.
   */
  bp_status (*executable_compile)(bp_device* device, const bp_compile_args* args,
                                  bp_compile_info* out_info, bp_executable** out_executable);

  /* executable_free: ends an executable that no context uses any more.
   * Threads: object-exclusive. Blocks: it may. Absent: the table is refused. */
  bp_status (*executable_free)(bp_executable* executable);

  /* executable_io_info: output sizes and workspace for given symbols. The answer never changes.
   * Errors: BP_INVALID_ARGUMENT for a symbol outside its range; BP_UNSUPPORTED for sizes that this
   *   executable cannot run. Threads: any-thread. Blocks: no. Absent: the table is refused. */
  bp_status (*executable_io_info)(bp_executable* executable, const bp_io_query* query,
                                  bp_io_info* out_info);

  /* executable_context_create: what runs change and no two runs at once may share. One per run
   * context. Errors: BP_OUT_OF_MEMORY. Ownership: executable_context_destroy.
   * Threads: any-thread. Blocks: it may. Absent: the table is refused. */
  bp_status (*executable_context_create)(bp_executable* executable,
                                         bp_executable_context** out_context);

  /* executable_context_destroy: ends a context before its executable; no run uses it any more.
   * Threads: object-exclusive. Blocks: no. Absent: the table is refused. */
  bp_status (*executable_context_destroy)(bp_executable_context* context);

  /* executable_run: runs once, or enqueues a run on args->stream. Like launch (kernel.h): it
   * consumes its arguments, allocates no device memory and never waits for a device. Runs of one
   * context follow each other: on one stream, or ordered by events.
   * Errors: the call had no effect. BP_POISONED. A failure later on breaks the stream and reports
   *   the op_seq of the node. Threads: stream-ordered; object-exclusive on the context.
   * Blocks: only with stream NULL, for as long as it computes. Absent: the table is refused. */
  bp_status (*executable_run)(const bp_run_args* args);

  /* executable_serialize (band SERIALIZE): the executable as bytes, weights included.
   * Errors: BP_OUT_OF_MEMORY. Threads: any-thread. Blocks: it may. Absent: compiled at each start.
   */
  bp_status (*executable_serialize)(bp_executable* executable, bp_blob_space* out_blob);

  /* executable_deserialize (band SERIALIZE): as executable_compile, from bytes. Not one of them is
   * trusted. Errors: BP_INCOMPATIBLE for bytes that are not this plugin's, or damaged;
   *   BP_OUT_OF_MEMORY. Ownership: executable_free. Threads: any-thread. Blocks: it may. */
  bp_status (*executable_deserialize)(bp_device* device, const bp_blob* blob,
                                      bp_compile_info* out_info, bp_executable** out_executable);

  /* executable_compat (band SERIALIZE): whether deserialize would do, at the price of reading the
   * head. Threads: any-thread. Blocks: no. */
  bp_status (*executable_compat)(bp_device* device, const bp_blob* blob, bp_compat* out_compat);
} bp_executable_api;

#endif
