/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives: devices exchange data with others of their kind. A communicator is one rank of a
 * group, on one device.
 *
 * Rules: nothing here waits for another rank. Joining is polled, operations are put into the order
 * of a stream, and comm_abort concerns the caller's own ranks only: the core carries ids between
 * ranks, keeps the deadlines and tells every rank that a group has failed. A group that failed
 * stays failed: its communicators are destroyed and another group is made, with another id. The
 * table is used on devices that have BP_DEVICE_CONCURRENT_BIT and BP_FEATURE_ASYNC_BIT, and
 * communicators of a device are destroyed before it is closed.
 */
#ifndef BACKPLANE_COLLECTIVE_H
#define BACKPLANE_COLLECTIVE_H

#include "backplane/host.h"
#include "backplane/status.h"
#include "backplane/types.h"

typedef struct bp_comm bp_comm; /* made by comm_init */

/* bp_collective_op.kind. Rules: beside each kind. A block is `count` elements; block r of a buffer
 * is that of rank r. A device has at least the first six. */
#define BP_COLLECTIVE_ALL_REDUCE 0u     /* send: count; recv: count, of all ranks together */
#define BP_COLLECTIVE_ALL_GATHER 1u     /* send: a block; recv: a block of each rank */
#define BP_COLLECTIVE_REDUCE_SCATTER 2u /* send: a block for each rank; recv: a block */
#define BP_COLLECTIVE_BROADCAST 3u      /* send: count, at `peer` only; recv: count */
#define BP_COLLECTIVE_SEND 4u           /* send: count, to `peer` */
#define BP_COLLECTIVE_RECV 5u           /* recv: count, from `peer` */
#define BP_COLLECTIVE_REDUCE 6u         /* send: count; recv: count, at `peer` only */
#define BP_COLLECTIVE_GATHER 7u     /* send: a block; recv: a block of each rank, at `peer` only */
#define BP_COLLECTIVE_SCATTER 8u    /* send: a block for each rank, at `peer` only; recv: a block */
#define BP_COLLECTIVE_ALL_TO_ALL 9u /* send: a block for each rank; recv: a block of each rank */

/* bp_collective_op.reduction. Rules: beside each reduction. Integers wrap. f16, bf16 and the f8
 * kinds are combined in f32 and rounded once for each hop between ranks. Every rank gets the same
 * bits. */
#define BP_REDUCTION_SUM 0u
#define BP_REDUCTION_PROD 1u
#define BP_REDUCTION_MIN 2u /* of NaN: see BP_CAPS_NAN_BIT */
#define BP_REDUCTION_MAX 3u /* as BP_REDUCTION_MIN */
#define BP_REDUCTION_AVG 4u /* the sum, divided by rank_count at the end; floats only */

#define BP_REDUCTION_BIT(reduction) ((uint64_t)1 << (reduction))

/* bp_collective_row.flags */
#define BP_ROW_DETERMINISTIC_BIT 1u /* Rules: BP_OPERATION_DETERMINISTIC_BIT works for these */

/* Operations that a device has: of one kind, every one of the reductions with every one of the
 * dtypes. Static data of the plugin. Required: all. Rules: beside each member. */
typedef struct bp_collective_row {
  uint32_t struct_size;
  uint32_t flags;    /* BP_ROW_*_BIT */
  uint32_t kind;     /* BP_COLLECTIVE_*; a row of a kind that the core does not know is left out */
  uint32_t reserved; /* 0 */
  uint64_t reductions; /* bits, BP_REDUCTION_BIT; 0 where the kind does not reduce */
  uint64_t dtypes;     /* bits, BP_DTYPE_BIT */
} bp_collective_row;

/* bp_collective_caps.flags
 *
 * Rules: SHARED_DEVICE: two ranks of a group may be on one device.
 * CONCURRENT: operations of several communicators of a device may wait in several streams at once;
 *   without it the core lets one communicator's operations begin when those of the others that it
 *   enqueued before are done.
 * CAPTURE: a graph of the device may record operations.
 * NAN: a minimum or maximum with NaN among its values is NaN; without it, it may be another value.
 */
#define BP_CAPS_SHARED_DEVICE_BIT 1u
#define BP_CAPS_CONCURRENT_BIT 2u
#define BP_CAPS_CAPTURE_BIT 4u
#define BP_CAPS_NAN_BIT 8u

#define BP_UID_BYTES_MAX 8192u

/* What a device can do with others of its kind. Allocated and zeroed by the core. Required: all.
 * Rules: beside each member. The answer never changes while the device is open. */
typedef struct bp_collective_caps {
  uint32_t struct_size;
  uint32_t flags;          /* BP_CAPS_*_BIT */
  const void* domain;      /* devices with equal bytes can be in one group: the library with its
                              version, and what links them; length: domain_bytes; lifetime: object
                              (the device) */
  uint64_t domain_bytes;   /* 1 to 4,096 */
  uint64_t uid_bytes;      /* of an id: 1 to BP_UID_BYTES_MAX */
  uint32_t uid_count_max;  /* how many ids a group may have, made by as many ranks; 0: 1 */
  uint32_t rank_count_max; /* 0: no limit */
  const bp_collective_row* rows; /* length: row_count; stride: row_stride_bytes; lifetime: object
                                    (the device) */
  uint32_t row_count;            /* at most 1,024 */
  uint32_t row_stride_bytes;     /* from one bp_collective_row to the next */
} bp_collective_caps;

/* Where an id is to be written. Allocated and zeroed by the core. Required: all.
 * Rules: beside each member. */
typedef struct bp_uid_space {
  uint32_t struct_size;
  uint32_t flags;
  void* data;     /* given by the core; length: bytes; lifetime: call */
  uint64_t bytes; /* given by the core: uid_bytes of the caps, all of which are written */
} bp_uid_space;

/* A rank that joins. Allocated by the core, read during the call. Required: all.
 * Rules: beside each member. */
typedef struct bp_comm_args {
  uint32_t struct_size;
  uint32_t flags;
  const void* uids;         /* one behind the other, the same on all ranks; length: uid_count times
                               uid_bytes; lifetime: call */
  uint64_t uid_bytes;       /* of each */
  uint32_t uid_count;       /* 1 to uid_count_max */
  uint32_t rank;            /* 0 to rank_count - 1 */
  uint32_t rank_count;      /* at least 1 */
  uint32_t reserved;        /* 0 */
  uint64_t timeout_hint_ns; /* how long the core will wait for joining and for an operation, before
                               it aborts; 0: not told. No deadline of the plugin's ends sooner */
  bp_str name;              /* of the group, for people; lifetime: call */
} bp_comm_args;

/* bp_comm_state.state. Rules: beside each state. */
#define BP_COMM_JOINING 0u /* ask again */
#define BP_COMM_READY 1u
#define BP_COMM_FAILED 2u /* for good: status says why */

/* How a communicator fares. Allocated and zeroed by the core. Required: all.
 * Rules: beside each member. */
typedef struct bp_comm_state {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t state;             /* BP_COMM_*; unknown: failed */
  bp_status status;           /* FAILED: BP_CANCELLED (aborted), BP_UNAVAILABLE (a rank is gone),
                                 BP_INVALID_ARGUMENT (ranks disagree), others; the words are
                                 reported */
  uint64_t enqueued_sequence; /* the last collective that is in its stream's order on this rank, and
                                 has left the plugin's own hands; 0: none */
  uint32_t culprit;           /* 1 + the rank that is gone or disagrees; 0: not known */
  uint32_t reserved;          /* 0 */
} bp_comm_state;

/* Several communicators at once, since ending one may take another's end. Allocated by the core,
 * read during the call. Required: all. Rules: beside each member. */
typedef struct bp_comm_abort_args {
  uint32_t struct_size;
  uint32_t flags;
  bp_comm* const* comms; /* of one instance; length: comm_count; lifetime: call */
  uint64_t comm_count;
} bp_comm_abort_args;

/* bp_collective_op.flags */
#define BP_OPERATION_DETERMINISTIC_BIT \
  1u /* Rules: values are combined in the order of ranks, so that reruns are bitwise equal */

/* One operation. Allocated by the core, read during the call. Required: all.
 *
 * Rules: beside each member. Buffers do not overlap, but for two ways to work in place: recv is
 * send (all_reduce, broadcast, reduce), or the smaller buffer is this rank's own block of the
 * larger one (all_gather, reduce_scatter, gather, scatter). */
typedef struct bp_collective_op {
  uint32_t struct_size;
  uint32_t flags; /* BP_OPERATION_*_BIT */
  uint32_t kind;  /* BP_COLLECTIVE_* */
  uint32_t dtype;
  uint32_t reduction; /* BP_REDUCTION_* where the kind reduces, else 0 */
  uint32_t peer;      /* the root, or the other rank, which may be this one; else 0 */
  uint64_t count;     /* elements; 0 is legal and takes part */
  bp_mem send;        /* handle 0 where this rank sends nothing, and where count is 0 */
  bp_mem recv;        /* handle 0 where this rank receives nothing, and where count is 0 */
} bp_collective_op;

/* What one communicator does. Allocated by the core, read during the call. Required: all.
 * Rules: beside each member. */
typedef struct bp_collective_batch {
  uint32_t struct_size;
  uint32_t flags;
  bp_comm* comm;
  bp_stream* stream;                  /* of the communicator's device, and no inline one */
  const bp_collective_op* operations; /* length: operation_count; stride: operation_stride_bytes;
                                         lifetime: call */
  uint32_t operation_count;
  uint32_t operation_stride_bytes; /* from one bp_collective_op to the next */
  uint64_t sequence; /* of the first operation that is no send and no recv, the same on all ranks: a
                        communicator's collectives count from 1. Sends and recvs count by
                        themselves, for each peer and direction */
  uint64_t op_seq;   /* names operation 0 in reports; operation i is op_seq + i */
} bp_collective_batch;

/* Operations that go together. Allocated by the core, read during the call. Required: all.
 *
 * Rules: beside each member. Operations of all batches may run in any order and at once, so that
 * none waits for another of the array, but for the collectives of one communicator, which keep
 * theirs. */
typedef struct bp_collective_args {
  uint32_t struct_size;
  uint32_t flags;
  const bp_collective_batch* batches; /* length: batch_count; stride: batch_stride_bytes; lifetime:
                                         call */
  uint32_t batch_count;               /* at least 1; a communicator has one batch at most */
  uint32_t batch_stride_bytes;        /* from one bp_collective_batch to the next */
} bp_collective_args;

typedef struct bp_collective_api {
  uint32_t struct_size;
  uint32_t flags;

  /* collective_caps: what this device can do with others of its kind.
   * Errors: BP_UNSUPPORTED: this device has no collectives. Threads: any-thread. Blocks: no.
   * Absent: the table is refused. */
  bp_status (*collective_caps)(bp_device* device, bp_collective_caps* out_caps);

  /* uid_create: an id for a new group. Rules: no two are equal, on whatever machines they were
   * made. The core carries it to the other ranks.
   * Errors: BP_INVALID_ARGUMENT for another size than the caps'. Threads: any-thread. Blocks: it
   * may, but for no rank. Absent: the table is refused. */
  bp_status (*uid_create)(bp_device* device, bp_uid_space* out_uid);

  /* comm_init: begins to join a group. Rules: comm_poll tells how it goes.
   * Errors: BP_INVALID_ARGUMENT for a rank out of range or, where that can be seen here, taken, for
   *   another rank_count than the group's, and for an id that is none.
   * Ownership: comm_destroy. Threads: any-thread. Blocks: no. Absent: the table is refused. */
  bp_status (*comm_init)(bp_device* device, const bp_comm_args* args, bp_comm** out_comm);

  /* comm_poll: joining, ready, or failed and why.
   * Threads: any-thread. Blocks: no. Absent: the table is refused. */
  bp_status (*comm_poll)(bp_comm* comm, bp_comm_state* out_state);

  /* comm_abort: ends these communicators on this side.
   * Rules: their pending operations and later ones fail with BP_CANCELLED, and with them their
   * streams, within a second. No peer is waited for, and none is told. Legal in any state, while
   * other calls on the communicators are in progress, and again. `device` is that of the first.
   * Threads: any-thread. Blocks: at most a second. Absent: the table is refused. */
  bp_status (*comm_abort)(bp_device* device, const bp_comm_abort_args* args);

  /* comm_destroy: ends a communicator. Rules: after comm_abort, and once it has failed, it waits
   * for no rank and no stream, whose work may still be on its way out. Errors: BP_BUSY while
   * operations are pending in a healthy group, with no effect. Threads: object-exclusive. Blocks:
   * briefly. Absent: the table is refused. */
  bp_status (*comm_destroy)(bp_comm* comm);

  /* collective_enqueue: puts operations into the order of their streams.
   * Rules: BP_OK means that each batch has its place in the order of its stream: what is enqueued
   * later there comes after it. All ranks of a group enqueue collectives with the same sequences
   * that fit together, sends and recvs in the order of their peers'; where a plugin sees that they
   * do not, the group fails with BP_INVALID_ARGUMENT. `device` is that of the first batch; all are
   * of one instance.
   * Errors: the call had no effect, on no batch. BP_PENDING while a communicator joins; the failure
   *   of a group; BP_UNSUPPORTED for what no row has; BP_INVALID_ARGUMENT; BP_POISONED.
   * Threads: stream-ordered; object-exclusive on the communicators. Blocks: no.
   * Absent: the table is refused. */
  bp_status (*collective_enqueue)(bp_device* device, const bp_collective_args* args);
} bp_collective_api;

#endif
