/* SPDX-License-Identifier: Apache-2.0
 *
 * Parallel training over collectives: meshes of ranks, tensors that lie on them, and gradients that
 * are averaged while others are still computed. Included by backplane.h, which has the rules;
 * docs/collectives.md tells it from the beginning.
 *
 * Every function that takes a mesh or data parallel object and communicates is called by all its
 * ranks, in the same order, as the operations of ccl.h are. What ranks that share a device have to
 * mind is there, too: here each rank has best a device of its own.
 */
#ifndef BACKPLANE_API_CCL_DIST_H
#define BACKPLANE_API_CCL_DIST_H

#include "backplane/api/ccl.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bpa_ccl_mesh bpa_ccl_mesh;
typedef struct bpa_ccl_data_parallel bpa_ccl_data_parallel;

/* --- Meshes -------------------------------------------------------------------------------- */

/* Ranks on named axes: of data 2 and model 3, six ranks. Pointers: lifetime call. */
typedef struct bpa_ccl_mesh_args {
  uint32_t struct_size;
  uint32_t flags;                /* 0 */
  bpa_ccl_store* store;          /* the same on all ranks */
  const char* name;              /* 1 to 128 bytes, the same on all ranks; NULL: "mesh". A name is
                                    good for one mesh of a store. Names of groups that begin with it
                                    and a slash are the mesh's */
  uint32_t rank;                 /* of this caller, from 0; each once */
  uint32_t rank_count;           /* the product of axis_sizes */
  uint32_t axis_count;           /* 1 to 16 */
  uint32_t reserved;             /* 0 */
  const char* const* axis_names; /* axis_count of 1 to 64 bytes, no two alike */
  const uint32_t* axis_sizes;    /* axis_count, each at least 1 */
  const uint32_t* ranks;         /* NULL, or rank_count: the rank at each place, in row-major order
                                    (the last axis is the fastest). NULL: 0, 1, 2, ... */
  uint64_t timeout_ns;           /* how long other ranks are waited for, in joining and in each
                                    operation; 0: BACKPLANE_CCL_TIMEOUT. At most
                                    BACKPLANE_TIMEOUT */
} bpa_ccl_mesh_args;

/* Joins, and waits until all ranks have: each axis has a group, of the ranks that differ in their
 * place on it alone. It is made on all ranks or on none.
 * Errors: INVALID_ARGUMENT, also for a rank that is there already and for ranks that were told of
 * different meshes, naming both; those of bpa_ccl_group_create. */
BPA_API bpa_status bpa_ccl_mesh_create(bpa_device* device, const bpa_ccl_mesh_args* args,
                                       bpa_ccl_mesh** out_mesh);

/* Its groups end as bpa_ccl_group_release says, once nobody else has them. NULL is legal. */
BPA_API void bpa_ccl_mesh_release(bpa_ccl_mesh* mesh);

/* The group of this rank on an axis, to be released. Its rank there is its place on the axis.
 * Errors: INVALID_ARGUMENT for a name that no axis has, listing them. */
BPA_API bpa_status bpa_ccl_mesh_get_group(bpa_ccl_mesh* mesh, const char* axis,
                                          bpa_ccl_group** out_group);

/* How a tensor lies on an axis of a mesh: one of these, for each axis. */
#define BPA_CCL_REPLICATE 0u /* every rank has all of it */
/* Each rank has a chunk of dimension `dim`: ceil(size / ranks) of it, but for the last ranks, which
 * have what is left, perhaps nothing. Axes that split the same dimension do so one after the other,
 * the first one the whole, the next one its chunks. */
#define BPA_CCL_SHARD(dim) (256u + (uint32_t)(dim))
/* The values are the reduction (BPA_CCL_SUM, ...) of those of all ranks, still to be made. */
#define BPA_CCL_PARTIAL(reduction) (512u + (uint32_t)(reduction))

/* Which part of a tensor this rank has. sizes: `rank` values, of the whole; placements: one for
 * each axis of the mesh; out_sizes, out_offsets: `rank` values, of the part and where it begins. No
 * other rank is asked. */
BPA_API bpa_status bpa_ccl_mesh_get_shard(bpa_ccl_mesh* mesh, const int64_t* sizes, uint32_t rank,
                                          const uint32_t* placements, uint32_t placement_count,
                                          int64_t* out_sizes, int64_t* out_offsets);

/* Pointers: lifetime call. */
typedef struct bpa_ccl_redistribute_args {
  uint32_t struct_size;
  uint32_t flags;           /* BPA_CCL_DETERMINISTIC_BIT */
  const bpa_tensor* tensor; /* this rank's part, on the mesh's device; may be strided */
  const int64_t* sizes;     /* `rank` values, of the whole */
  uint32_t rank;
  uint32_t placement_count; /* as many as the mesh has axes */
  const uint32_t* from;     /* how the tensor lies: BPA_CCL_REPLICATE, ... */
  const uint32_t* to;       /* how it is to lie */
  bpa_stream* stream;       /* of the mesh's device, for copies on it; NULL: the default stream */
  uint64_t timeout_ns;      /* of each operation; 0: the mesh's. At most BACKPLANE_TIMEOUT */
} bpa_ccl_redistribute_args;

/* The same tensor as it lies otherwise: *out_tensor is this rank's part, contiguous, or the tensor
 * itself (retained) where nothing moves. Waits for the other ranks where anything is sent. On each
 * axis
 *   shard to replicate is an all_gather, replicate to shard a copy, partial to replicate an
 *   all_reduce, partial to shard a reduce_scatter, shard to shard of another dimension an
 *   all_to_all; what a later axis has of the same dimension is gathered before, and cut after.
 *
 * Errors: INVALID_ARGUMENT, also for a tensor that is not the part that `from` says; UNSUPPORTED
 * for what is to become partial, and for partials on several axes whose order counts (a sum and a
 * maximum); a group's failure; OUT_OF_MEMORY; the device's. */
BPA_API bpa_status bpa_ccl_redistribute(bpa_ccl_mesh* mesh, const bpa_ccl_redistribute_args* args,
                                        bpa_tensor** out_tensor);

/* --- Data parallel ------------------------------------------------------------------------- */

/* Each rank computes the gradients of its own share of a batch, and all go on with their average:
 *
 *   bpa_ccl_data_parallel_create(group, &args, &parallel);
 *   bpa_ccl_data_parallel_broadcast_parameters(parallel, parameters, count, 0);
 *   each step:
 *     bpa_ccl_data_parallel_ready(parallel, i, gradient, NULL);     for each, as they are computed
 *     bpa_ccl_data_parallel_finish(parallel, NULL);
 *     ...with the averages, bpa_ccl_data_parallel_get_gradient(parallel, i, &average)
 *
 * Gradients lie in few large buckets; one that has all of its gradients is averaged at once, beside
 * the work that computes others. Buckets begin in the same order on all ranks, in whatever order
 * gradients come. A batch whose shares differ in size wants gradients weighted before.
 *
 * Once the group has failed, all of these answer its failure: bpa_ccl_group_get_error. */

/* A gradient that is not ready at a step's end counts as zero. */
#define BPA_CCL_ALLOW_UNUSED_BIT 2u

/* Pointers: lifetime call. */
typedef struct bpa_ccl_data_parallel_args {
  uint32_t struct_size;
  uint32_t flags;                      /* BPA_CCL_DETERMINISTIC_BIT, BPA_CCL_ALLOW_UNUSED_BIT */
  const bpa_tensor* const* parameters; /* in the order of the forward pass, of floating-point
                                          numbers, on the group's device: gradients have their sizes
                                          and dtypes. The same on all ranks */
  uint64_t parameter_count;            /* 1 to 1,048,576 */
  uint64_t bucket_bytes;               /* at most, but for a gradient that is larger; 0: 25 MiB */
  uint64_t first_bucket_bytes;         /* of that which is full first; 0: 1 MiB */
  uint64_t timeout_ns; /* of each reduction; 0: the group's. At most BACKPLANE_TIMEOUT */
} bpa_ccl_data_parallel_args;

/* Makes the buckets, and waits until all ranks have. The group is to serve nothing else during a
 * step, unless in the same order on all ranks.
 * Errors: INVALID_ARGUMENT, also for ranks that differ, naming one; UNAVAILABLE for a rank that
 * could not; OUT_OF_MEMORY; the group's failure. */
BPA_API bpa_status bpa_ccl_data_parallel_create(bpa_ccl_group* group,
                                                const bpa_ccl_data_parallel_args* args,
                                                bpa_ccl_data_parallel** out_parallel);

/* Keeps the group until then. As bpa_ccl_group_release, where it is the group's last user. NULL is
 * legal. */
BPA_API void bpa_ccl_data_parallel_release(bpa_ccl_data_parallel* parallel);

/* The values of rank `root` into the tensors of all ranks: tensor_count of them, as many as
 * parameters, of their sizes and dtypes, contiguous, on the group's device. Waits. */
BPA_API bpa_status bpa_ccl_data_parallel_broadcast_parameters(bpa_ccl_data_parallel* parallel,
                                                              bpa_tensor* const* tensors,
                                                              uint64_t tensor_count, uint32_t root);

/* Where gradient `index` lies: a view into its bucket, which begins on a 256-byte boundary. Until
 * it is ready the caller may write it, say as a bound output of a run; from finish on it is the
 * average, until the next step writes it. */
BPA_API bpa_status bpa_ccl_data_parallel_get_gradient(bpa_ccl_data_parallel* parallel,
                                                      uint64_t index, bpa_tensor** out_gradient);

/* Adds to gradient `index`, which counts as zero when a step begins: for batches that come in
 * several parts, which communicate once. gradient: of the parameter's sizes and dtype, on the
 * group's device; it may be strided. stream: of that device, for the copy; NULL: the default
 * stream. Errors: INVALID_ARGUMENT, also for a gradient that is ready. */
BPA_API bpa_status bpa_ccl_data_parallel_accumulate(bpa_ccl_data_parallel* parallel, uint64_t index,
                                                    const bpa_tensor* gradient, bpa_stream* stream);

/* Gradient `index` is complete: after `gradient` was added, as bpa_ccl_data_parallel_accumulate
 * does; NULL: as it is. Never waits for other ranks, but where `stream` is no queue and a gradient
 * of the step before is still in use. Errors: as above. Where its bucket cannot begin
 * (OUT_OF_MEMORY), the gradient is ready all the same, and the next call tries again. */
BPA_API bpa_status bpa_ccl_data_parallel_ready(bpa_ccl_data_parallel* parallel, uint64_t index,
                                               const bpa_tensor* gradient, bpa_stream* stream);

/* Ends the step: what is enqueued on `stream` from now on (NULL: the default stream) comes after
 * all reductions. The host waits where it is no queue, else for nothing: a failure surfaces then
 * where results are read. Errors: INVALID_ARGUMENT naming gradients that are not ready, or were
 * accumulated and are not ready, and the step goes on. */
BPA_API bpa_status bpa_ccl_data_parallel_finish(bpa_ccl_data_parallel* parallel,
                                                bpa_stream* stream);

typedef struct bpa_ccl_data_parallel_info {
  uint32_t struct_size;
  uint32_t flags; /* 0 */
  uint64_t parameter_count;
  uint64_t bucket_count;
  uint64_t begun_count;  /* buckets whose reduction has begun in this step */
  uint64_t bucket_bytes; /* of all buckets together */
} bpa_ccl_data_parallel_info;

BPA_API bpa_status bpa_ccl_data_parallel_get_info(bpa_ccl_data_parallel* parallel,
                                                  bpa_ccl_data_parallel_info* out_info);

#ifdef __cplusplus
}
#endif

#endif
