/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory table. The core pools: plugins see few, large mem_alloc calls and need no cache.
 */
#ifndef BACKPLANE_MEMORY_H
#define BACKPLANE_MEMORY_H

#include "backplane/host.h"
#include "backplane/status.h"
#include "backplane/types.h"

/* bp_alloc_args.usage. Rules: a hint. */
#define BP_USAGE_ACTIVATIONS 0u
#define BP_USAGE_WEIGHTS 1u
#define BP_USAGE_IO 2u
#define BP_USAGE_COMM 3u

/* Allocated by the core, read during the call. Required: alignment_bytes.
 * Rules: beside each member. */
typedef struct bp_alloc_args {
  uint32_t struct_size;
  uint32_t flags;
  uint64_t bytes;           /* > 0 */
  uint64_t alignment_bytes; /* power of two; 0: the device's own */
  uint32_t usage;           /* BP_USAGE_*; unknown values are treated as 0 */
  uint32_t reserved;        /* 0 */
} bp_alloc_args;

/* bp_copy_args.kind */
#define BP_COPY_HOST_TO_DEVICE 0u
#define BP_COPY_DEVICE_TO_HOST 1u
#define BP_COPY_DEVICE_TO_DEVICE 2u /* Rules: within one device; the ranges do not overlap */

/* Allocated by the core, read during the call. Required: all. Rules: beside each member. */
typedef struct bp_copy_args {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t kind;     /* BP_COPY_*; unknown: BP_UNSUPPORTED */
  uint32_t reserved; /* 0 */
  bp_mem dst;
  bp_mem src;
  uint64_t bytes; /* 0 is legal and does nothing */
} bp_copy_args;

/* Allocated by the core, read during the call. Required: all. Rules: beside each member. */
typedef struct bp_fill_args {
  uint32_t struct_size;
  uint32_t flags;
  bp_mem dst;
  uint64_t bytes;         /* a multiple of pattern_bytes; 0 does nothing */
  uint64_t pattern;       /* the low pattern_bytes bytes, in memory order of the host */
  uint32_t pattern_bytes; /* 1, 2, 4 or 8 */
  uint32_t reserved;      /* 0 */
  bp_stream* stream;      /* in this stream's order; NULL: done when mem_fill returns */
} bp_fill_args;

/* Allocated by the core, read during the call. Required: all. Rules: beside each member. */
typedef struct bp_host_alloc_args {
  uint32_t struct_size;
  uint32_t flags;
  uint64_t bytes; /* > 0 */
} bp_host_alloc_args;

/* bp_map_args.access */
#define BP_MAP_READ_BIT 1u
#define BP_MAP_WRITE_BIT 2u

/* Allocated by the core, read during the call. Required: all. Rules: beside each member. */
typedef struct bp_map_args {
  uint32_t struct_size;
  uint32_t flags;
  bp_mem mem;
  uint64_t bytes;    /* > 0 */
  uint32_t access;   /* BP_MAP_*_BIT */
  uint32_t reserved; /* 0 */
} bp_map_args;

typedef struct bp_memory_api {
  uint32_t struct_size;
  uint32_t flags; /* bands: BP_FEATURE_FILL_BIT, BP_FEATURE_PINNED_BIT, BP_FEATURE_MAP_BIT */

  /* mem_alloc: device memory.
   * Rules: its content is undefined. Where a handle is no address, alignment is between the plugin
   * and its kernels: any power of two is taken.
   * Errors: BP_OUT_OF_MEMORY for any size too large (the core trims and retries once);
   * BP_INVALID_ARGUMENT for 0 bytes.
   * Ownership: mem_free, same handle.
   * Threads: any-thread. Blocks: it may. Absent: the plugin is refused. */
  bp_status (*mem_alloc)(bp_device* device, const bp_alloc_args* args, uint64_t* out_handle);

  /* mem_free: gives memory back.
   * Rules: the core calls it only when no work uses the memory any more.
   * Errors: BP_INVALID_ARGUMENT for a handle that is not allocated.
   * Threads: any-thread. Blocks: it may. Absent: the plugin is refused. */
  bp_status (*mem_free)(bp_device* device, uint64_t handle);

  /* mem_copy: copies now.
   * Rules: done when it returns. It is not ordered with streams: the core waits for work that uses
   * either end before it calls.
   * Errors: BP_INVALID_ARGUMENT for a range outside its memory, or for ranges within the device
   * that overlap.
   * Threads: any-thread. Blocks: yes. Absent: the plugin is refused. */
  bp_status (*mem_copy)(bp_device* device, const bp_copy_args* args);

  /* mem_fill (band FILL): repeats a pattern.
   * Rules: args->stream NULL: now, like mem_copy; otherwise in the stream's order, like
   * mem_copy_async.
   * Errors: as mem_copy; BP_POISONED with a stream.
   * Threads: any-thread; stream-ordered with a stream. Blocks: without stream.
   * Absent: copies from a staged pattern. */
  bp_status (*mem_fill)(bp_device* device, const bp_fill_args* args);

  /* host_alloc (band PINNED): host memory that copies with this device fastest.
   * Rules: aligned to 64 bytes at least.
   * Errors: BP_OUT_OF_MEMORY; BP_INVALID_ARGUMENT for 0 bytes. Ownership: host_free.
   * Threads: any-thread. Blocks: it may. Absent: aligned host allocation. */
  bp_status (*host_alloc)(bp_device* device, const bp_host_alloc_args* args, void** out_ptr);

  /* host_free (band PINNED): ends memory of host_alloc. Threads: any-thread. Blocks: it may. */
  bp_status (*host_free)(bp_device* device, void* ptr);

  /* mem_map (band MAP): device memory for the host.
   * Rules: the host may read or write it at *out_ptr until mem_unmap. The core waits for work on
   * that memory before it calls, and starts none until mem_unmap.
   * Errors: BP_INVALID_ARGUMENT for a range outside its memory; BP_UNSUPPORTED.
   * Ownership: mem_unmap with the same pointer.
   * Threads: any-thread. Blocks: it may.
   * Absent: a staged copy in, and back out at mem_unmap if BP_MAP_WRITE_BIT. */
  bp_status (*mem_map)(bp_device* device, const bp_map_args* args, void** out_ptr);

  /* mem_unmap (band MAP): ends a mapping. Rules: writes through it are then in device memory.
   * Errors: BP_INVALID_ARGUMENT for a pointer that is not mapped.
   * Threads: any-thread. Blocks: it may. */
  bp_status (*mem_unmap)(bp_device* device, void* ptr);
} bp_memory_api;

#endif
