/* SPDX-License-Identifier: Apache-2.0
 *
 * SKETCH, not released: the collective table. It travels as the extension "bp.sketch.collective",
 * version BP_SKETCH_COLLECTIVE.
 *
 * A communicator is one rank of a group, on one device. Nothing here blocks: joining is polled,
 * work is enqueued in a stream's order. Ranks that do not do the same thing all get an error, and
 * so do all ranks when one does not come in time; nobody hangs. A group that failed stays failed:
 * its communicators are destroyed, the streams reset, and a new group is made with a new id.
 */
#ifndef BACKPLANE_SKETCH_COLLECTIVE_H
#define BACKPLANE_SKETCH_COLLECTIVE_H

#include "backplane/host.h"
#include "backplane/status.h"
#include "backplane/types.h"

#define BP_SKETCH_COLLECTIVE 1u

typedef struct bp_comm bp_comm; /* made by comm_init */

/* bp_collective.kind, and the bits of bp_collective_caps.kinds: 1 << kind */
#define BP_COLLECTIVE_ALL_REDUCE 0u
#define BP_COLLECTIVE_BROADCAST 1u /* count elements from send of peer to recv of all */
#define BP_COLLECTIVE_ALL_GATHER                                                            \
  2u                          /* count elements of each rank; recv takes rank_count * count \
                               */
#define BP_COLLECTIVE_SEND 3u /* to peer */
#define BP_COLLECTIVE_RECV 4u /* from peer */

/* bp_collective.reduction */
#define BP_REDUCTION_SUM 0u
#define BP_REDUCTION_MAX 1u

/* bp_comm_state.state */
#define BP_COMM_JOINING 0u /* poll again */
#define BP_COMM_READY 1u
#define BP_COMM_FAILED 2u /* status says why */

/* What a device's collectives can do. Allocated and zeroed by the core. Required: uid_bytes. */
typedef struct bp_collective_caps {
  uint32_t struct_size;
  uint32_t flags;
  uint64_t kinds;  /* one bit each: 1 << BP_COLLECTIVE_* */
  uint64_t dtypes; /* one bit each: 1 << BP_DTYPE_* */
  uint32_t rank_count_max;
  uint32_t reserved;  /* 0 */
  uint64_t uid_bytes; /* of a group's id; at most 8192 */
} bp_collective_caps;

/* Where a group's id is to be written. Allocated and zeroed by the core. Required: all. */
typedef struct bp_uid_space {
  uint32_t struct_size;
  uint32_t flags;
  void* data; /* given by the core; length: capacity_bytes; lifetime: call */
  uint64_t capacity_bytes;
} bp_uid_space;

/* Allocated by the core, read during the call. Required: all. */
typedef struct bp_comm_args {
  uint32_t struct_size;
  uint32_t flags;
  const void* uid; /* the same bytes on all ranks; lifetime: call */
  uint64_t uid_bytes;
  uint32_t rank; /* 0 to rank_count - 1 */
  uint32_t rank_count;
  uint64_t timeout_ns; /* of joining, and of each enqueued array from when its stream reaches it;
                          0: the plugin's own. Never without end. */
} bp_comm_args;

/* Allocated and zeroed by the core. Required: all. */
typedef struct bp_comm_state {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t state;   /* BP_COMM_* */
  bp_status status; /* FAILED: BP_UNAVAILABLE (a rank is missing), BP_CANCELLED (aborted),
                       BP_INVALID_ARGUMENT (ranks disagree), others; the words are reported */
} bp_comm_state;

/* Several communicators at once, since one of them may wait for another. Allocated by the core,
 * read during the call. Required: all. */
typedef struct bp_comm_abort_args {
  uint32_t struct_size;
  uint32_t flags;
  bp_comm* const* comms; /* length: comm_count; lifetime: call */
  uint64_t comm_count;
} bp_comm_abort_args;

/* One operation. Allocated by the core, read during the call. Required: all. */
typedef struct bp_collective {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t kind; /* BP_COLLECTIVE_*; unknown: BP_UNSUPPORTED */
  uint32_t dtype;
  uint32_t reduction; /* BP_REDUCTION_*, of those that reduce */
  uint32_t peer;      /* the root, or the other side; else 0 */
  uint64_t count;     /* elements; 0 is legal and takes part */
  bp_mem send;        /* handle 0 where nothing is sent */
  bp_mem recv;        /* handle 0 where nothing is received; equal to send: in place */
} bp_collective;

/* Operations that go together: those of an array may run in any order or at once, so sends and
 * receives of one array cannot wait for each other. Built by the core on its stack. Required: all.
 */
typedef struct bp_enqueue_args {
  uint32_t struct_size;
  uint32_t flags;
  bp_comm* comm;
  bp_stream* stream;
  const bp_collective* operations; /* length: operation_count; stride: stride_bytes; lifetime:
                                      call */
  uint32_t operation_count;
  uint32_t stride_bytes; /* from one bp_collective to the next */
  uint64_t sequence;     /* of this array in the group, the same on all ranks: 1, 2, ... */
  uint64_t op_seq;       /* names operation 0 in reports; operation i is op_seq + i */
} bp_enqueue_args;

typedef struct bp_collective_api {
  uint32_t struct_size;
  uint32_t flags;

  /* collective_caps: what this device can do with others of its kind. Threads: any-thread.
   * Blocks: no. Absent: the table is refused. */
  bp_status (*collective_caps)(bp_device* device, bp_collective_caps* out_caps);

  /* uid_create: an id for a new group; the core carries it to the other ranks.
   * Errors: BP_INVALID_ARGUMENT for too small a space. Threads: any-thread. Blocks: no.
   * Absent: the table is refused. */
  bp_status (*uid_create)(bp_device* device, bp_uid_space* out_uid);

  /* comm_init: begins to join a group; comm_poll tells how it goes.
   * Errors: BP_INVALID_ARGUMENT for a rank out of range or taken, for another rank_count than the
   *   group's, and for an id that is none. Ownership: comm_destroy. Threads: any-thread. Blocks:
   * no. Absent: the table is refused. */
  bp_status (*comm_init)(bp_device* device, const bp_comm_args* args, bp_comm** out_comm);

  /* comm_poll: joining, ready, or failed and why. Threads: any-thread. Blocks: no.
   * Absent: the table is refused. */
  bp_status (*comm_poll)(bp_comm* comm, bp_comm_state* out_state);

  /* comm_abort: ends the groups of these communicators on every rank that can be reached: pending
   * and later work fails with BP_CANCELLED. Legal while joining and from any thread.
   * Threads: any-thread. Blocks: at most a second. Absent: the table is refused. */
  bp_status (*comm_abort)(const bp_comm_abort_args* args);

  /* comm_destroy: ends a communicator whose work is done, or whose group has failed.
   * Errors: BP_BUSY while work is pending in a healthy group, with no effect.
   * Threads: object-exclusive. Blocks: no. Absent: the table is refused. */
  bp_status (*comm_destroy)(bp_comm* comm);

  /* collective_enqueue: puts an array into the stream's order. All ranks enqueue arrays with the
   * same sequences, in the same order, and with operations that fit together; where they do not,
   * the streams of all ranks fail with BP_INVALID_ARGUMENT and the words say who did what.
   * Errors: the call had no effect. BP_PENDING while joining; the group's failure; BP_UNSUPPORTED
   *   for a kind or dtype; BP_POISONED. Threads: stream-ordered; object-exclusive on the
   *   communicator. Blocks: no. Absent: the table is refused. */
  bp_status (*collective_enqueue)(const bp_enqueue_args* args);
} bp_collective_api;

#endif
