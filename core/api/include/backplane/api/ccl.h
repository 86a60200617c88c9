/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives: the ranks of a group exchange tensors, each with its own device, of whatever vendor.
 * Included by backplane.h, which has the rules. docs/collectives.md tells it from the beginning.
 *
 *   bpa_ccl_group_create(device, &args, &group);          on every rank; returns when all are there
 *   bpa_ccl_all_reduce(group, x, x, BPA_CCL_SUM, NULL, NULL);   on every rank: x is the sum of all
 *
 * All ranks of a group call the same operations, with the same sizes, in the same order. A send and
 * its recv are an operation of these two ranks alone, in their own order.
 *
 * An operation takes its place in the order of a stream, and tensors carry marks of it: who uses
 * recv afterwards comes after the operation, and the operation comes after who used send before. So
 * a caller who only computes on with the results waits for nothing. Tensors may be
 * released at any time.
 *
 * While an operation waits for other ranks it holds its stream: two that may wait for different
 * ranks need a stream each. Ranks that share a device wait for their operations before they do
 * anything else there, since its default stream and its memory are one for all of them.
 *
 * A group fails as a whole: where a rank is lost, disagrees or comes too late, every operation in
 * progress and every later one ends with the same error on all ranks that can be reached, and
 * reading results of these answers it too. There is no way back: the ranks that are left make
 * another group (bpa_ccl_group_rebuild).
 */
#ifndef BACKPLANE_API_CCL_H
#define BACKPLANE_API_CCL_H

#include "backplane/api/common.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bpa_ccl_store bpa_ccl_store;
typedef struct bpa_ccl_group bpa_ccl_group;
typedef struct bpa_ccl_work bpa_ccl_work;

/* --- Stores -------------------------------------------------------------------------------- */

/* A place where ranks meet: in the memory of this process, for ranks that are its threads. All of
 * them give the same store. */
BPA_API bpa_status bpa_ccl_store_create_memory(bpa_ccl_store** out_store);
/* NULL is legal. Groups keep the store, for those that are made from them. */
BPA_API void bpa_ccl_store_release(bpa_ccl_store* store);

/* --- Groups -------------------------------------------------------------------------------- */

/* Pointers: lifetime call. */
typedef struct bpa_ccl_group_args {
  uint32_t struct_size;
  uint32_t flags;       /* 0 */
  bpa_ccl_store* store; /* the same on all ranks */
  const char* name;     /* 1 to 256 bytes, the same on all ranks; NULL: "default". A name is good
                           for one group of a store, also after that has ended or was not made */
  uint32_t rank;        /* of this caller, from 0; each once */
  uint32_t rank_count;  /* 1 to 65,536, the same on all ranks */
  uint64_t timeout_ns;  /* how long other ranks are waited for, in joining and in each operation; 0:
                           BACKPLANE_CCL_TIMEOUT. At most BACKPLANE_TIMEOUT */
} bpa_ccl_group_args;

/* Joins, and waits until all ranks have. Every rank is a caller of its own, on a thread of its own;
 * several may be on one device.
 * Errors: INVALID_ARGUMENT, also for a rank that is there already and for ranks that disagree,
 * naming both; TIMEOUT naming the ranks that did not come; UNAVAILABLE for a rank that cannot join,
 * with its words; CANCELLED where the Runtime is closed meanwhile; OUT_OF_MEMORY; the device's. */
BPA_API bpa_status bpa_ccl_group_create(bpa_device* device, const bpa_ccl_group_args* args,
                                        bpa_ccl_group** out_group);

/* Pointers: lifetime call. */
typedef struct bpa_ccl_rebuild_args {
  uint32_t struct_size;
  uint32_t flags;          /* 0 */
  uint64_t epoch;          /* above the group's, and those of earlier tries: 1, 2, ... */
  const uint32_t* members; /* ranks of the group that go on: their places are the new ranks */
  uint64_t member_count;   /* 1 to the group's rank_count; this rank is among them */
  uint64_t timeout_ns;     /* how long they are waited for, and the new group's; 0: the group's */
} bpa_ccl_rebuild_args;

/* Another group, of those ranks that are left when some were lost, in the same processes: called by
 * all members with the same epoch and members, and waits for them. It has the group's name and
 * device, and meets in its store. The group itself stays as it is, failed or not; it may be
 * released before, or after. A default stream that waited for lost work needs a reset first.
 * Errors: INVALID_ARGUMENT, also naming ranks that were told of other members or another epoch, and
 * both sides; TIMEOUT naming the members that did not come; UNAVAILABLE where a member cannot go
 * on, with its words, and where the store was lost; those of bpa_ccl_group_create. After an error
 * the epoch is used up. */
BPA_API bpa_status bpa_ccl_group_rebuild(bpa_ccl_group* group, const bpa_ccl_rebuild_args* args,
                                         bpa_ccl_group** out_group);

#define BPA_CCL_NO_COLOR (-1)

/* Pointers: lifetime call. */
typedef struct bpa_ccl_split_args {
  uint32_t struct_size;
  uint32_t flags;      /* 0 */
  int64_t color;       /* from 0: ranks of one color make a group. BPA_CCL_NO_COLOR: none */
  int64_t key;         /* their order there; of equal keys that of the ranks */
  uint64_t timeout_ns; /* how long others are waited for, and the new group's; 0: the group's */
} bpa_ccl_split_args;

/* Groups out of this one, which goes on as it is: called by all its ranks, and waits for them.
 * *out_group: that of this rank's color, called "NAME/N.COLOR" after this one and how often that
 * was split; NULL for BPA_CCL_NO_COLOR. Errors: INVALID_ARGUMENT, also for a name of more than 215
 * bytes, and then the others wait; the group's failure, which it is, too, where a rank does not
 * come; those of bpa_ccl_group_create. */
BPA_API bpa_status bpa_ccl_group_split(bpa_ccl_group* group, const bpa_ccl_split_args* args,
                                       bpa_ccl_group** out_group);

/* Waits for operations in progress, whose other ranks rely on this one: until the deadline of each
 * at most. bpa_ccl_group_abort comes before it where they are to be given up. On a thread that the
 * Runtime waits for (a log sink on a thread that works for a device) it does not wait, and the
 * group ends on another one. NULL is legal. */
BPA_API void bpa_ccl_group_release(bpa_ccl_group* group);

/* Ends the group on all ranks that can be reached, within a second: operations in progress and
 * later ones answer CANCELLED with these words, here and there. Waits until the others are told, a
 * second at most. A group that has failed stays as it is. words: NULL for none. */
BPA_API bpa_status bpa_ccl_group_abort(bpa_ccl_group* group, const char* words);

/* Counters: since the group was made, of this rank. Where some ranks are linked and others are not,
 * one operation may be native pieces and messages, and counts as each. Pointers: lifetime object
 * (the group). */
typedef struct bpa_ccl_group_info {
  uint32_t struct_size;
  uint32_t flags; /* 0 */
  uint32_t rank;
  uint32_t rank_count;
  uint32_t is_native; /* 1: by the devices' own collectives where these have the operation */
  uint32_t reserved;
  const char* why_not_native; /* for people; "" where is_native */
  uint64_t timeout_ns;
  uint64_t native_operations; /* by the device's own collectives */
  uint64_t host_operations;   /* by messages between ranks, from memory that the host has */
  uint64_t staged_operations; /* by messages, through copies in host memory */
  uint64_t staged_bytes;      /* copied between device and host for these */
  uint64_t contiguous_copies; /* strided inputs made contiguous */
  uint64_t epoch;             /* 0, unless it was rebuilt, or split from one that was */
  /* rank_count of them: the ranks in the group from which this one descends by rebuilding and
   * splitting; 0, 1, 2, ... of one that does not. */
  const uint32_t* job_ranks;
  /* Host memory taken for the chunks of staged operations. Collectives share it, and it stays as
   * long as the group; what a send or recv takes goes with that. */
  uint64_t ring_bytes;
} bpa_ccl_group_info;

BPA_API bpa_status bpa_ccl_group_get_info(bpa_ccl_group* group, bpa_ccl_group_info* out_info);

/* What this rank has recorded of its latest operations, as JSON: what `backplane ccl trace` reads.
 * bytes: the room at out_text; 0 with out_text NULL asks for the size alone. *out_bytes: the size
 * of the text with its terminator. It may have grown at the next call.
 * Errors: INVALID_ARGUMENT for a room that is too small; nothing is written then. */
BPA_API bpa_status bpa_ccl_group_get_trace(bpa_ccl_group* group, char* out_text, uint64_t bytes,
                                           uint64_t* out_bytes);

/* Why a group or work failed. Work that ends with a group which waited for nothing, as one that was
 * aborted, tells of itself. Pointers: lifetime object (the group or work that was asked). */
typedef struct bpa_ccl_error {
  uint32_t struct_size;
  uint32_t flags;           /* 0 */
  bpa_status code;          /* BP_OK: it has not failed, and the rest is 0, "" and NULL */
  uint32_t is_retryable;    /* 1: another group of the same ranks may work */
  uint64_t sequence;        /* of what was waited for, from 1: among the collectives, or the sends
                               or recvs of two ranks; 0: a group that waited for nothing */
  const uint32_t* culprits; /* the ranks that are the cause, as far as they are known */
  uint64_t culprit_count;
  const char* operation; /* what was waited for: "all_reduce sum f32 3"; "": nothing */
  const char* words;     /* for people */
} bpa_ccl_error;

/* OK with code BP_OK: the group has not failed. */
BPA_API bpa_status bpa_ccl_group_get_error(bpa_ccl_group* group, bpa_ccl_error* out_error);

/* --- Operations ---------------------------------------------------------------------------- */

/* How values of ranks become one. Integers wrap. */
#define BPA_CCL_SUM 0u
#define BPA_CCL_PROD 1u
#define BPA_CCL_MIN 2u /* of real numbers, as BPA_CCL_MAX */
#define BPA_CCL_MAX 3u
#define BPA_CCL_AVG 4u /* the sum divided by rank_count; of floating-point numbers */

/* flags of options and calls: reruns with the same inputs on the same ranks give the same bits. */
#define BPA_CCL_DETERMINISTIC_BIT 1u

/* Pointers: lifetime call. */
typedef struct bpa_ccl_options {
  uint32_t struct_size;
  uint32_t flags;      /* BPA_CCL_DETERMINISTIC_BIT */
  bpa_stream* stream;  /* of the group's device; the operation comes after its work so far, and its
                          later work after the operation. NULL, or the default stream of an inline
                          device: one of the group's own, beside other work */
  uint64_t timeout_ns; /* how long other ranks are waited for, once the operation's turn has come;
                          0: the group's. At most BACKPLANE_TIMEOUT */
} bpa_ccl_options;

/* For all operations:
 *
 * group: as one of its ranks. Operations of one rank begin in the order of their calls; several
 *   threads that call have to see to that order themselves.
 * send, recv: tensors on the group's device, of one dtype that has whole bytes. Only the number of
 *   elements counts, not the shape. send may be strided; recv is contiguous. They lie apart, but
 * for the in-place forms below: then both are the same tensor, or a view of its elements. options:
 * NULL for defaults. out_work: NULL: the call waits until the operation is over, and answers how it
 * ended. Else it returns as soon as the operation is on its way, and *out_work is the caller's.
 *
 * Errors, of nothing that has begun: INVALID_ARGUMENT naming the operation and the tensor;
 * UNSUPPORTED; OUT_OF_MEMORY; the group's failure. Of one that was waited for: the group's failure,
 * as bpa_ccl_group_get_error tells it: TIMEOUT naming the ranks that did not come, UNAVAILABLE for
 * a rank that is lost, INVALID_ARGUMENT for ranks that called different operations, CANCELLED after
 * an abort or when a rank's Runtime is closed; those of the device. recv is undefined then.
 *
 * n below is the number of elements of one block; a buffer of blocks has rank_count of them, block
 * r is that of rank r. */

/* send: n elements; recv: n, each the reduction (BPA_CCL_SUM, ...) of those of all ranks. In place:
 * both the same. */
BPA_API bpa_status bpa_ccl_all_reduce(bpa_ccl_group* group, const bpa_tensor* send,
                                      bpa_tensor* recv, uint32_t reduction,
                                      const bpa_ccl_options* options, bpa_ccl_work** out_work);

/* send: a block; recv: the blocks of all ranks. In place: send is this rank's block of recv. */
BPA_API bpa_status bpa_ccl_all_gather(bpa_ccl_group* group, const bpa_tensor* send,
                                      bpa_tensor* recv, const bpa_ccl_options* options,
                                      bpa_ccl_work** out_work);

/* send: a block for each rank; recv: the reduction of the blocks for this rank. In place: recv is
 * this rank's block of send. */
BPA_API bpa_status bpa_ccl_reduce_scatter(bpa_ccl_group* group, const bpa_tensor* send,
                                          bpa_tensor* recv, uint32_t reduction,
                                          const bpa_ccl_options* options, bpa_ccl_work** out_work);

/* send: n elements, at root only, or NULL: then recv has them there; recv: n, those of root. */
BPA_API bpa_status bpa_ccl_broadcast(bpa_ccl_group* group, const bpa_tensor* send, bpa_tensor* recv,
                                     uint32_t root, const bpa_ccl_options* options,
                                     bpa_ccl_work** out_work);

/* send: n elements; recv: n, their reduction, at root only, NULL or send elsewhere. In place: both
 * the same. */
BPA_API bpa_status bpa_ccl_reduce(bpa_ccl_group* group, const bpa_tensor* send, bpa_tensor* recv,
                                  uint32_t reduction, uint32_t root, const bpa_ccl_options* options,
                                  bpa_ccl_work** out_work);

/* send: a block; recv: the blocks of all ranks, at root only, NULL elsewhere. In place: send is
 * root's block of recv. */
BPA_API bpa_status bpa_ccl_gather(bpa_ccl_group* group, const bpa_tensor* send, bpa_tensor* recv,
                                  uint32_t root, const bpa_ccl_options* options,
                                  bpa_ccl_work** out_work);

/* send: a block for each rank, at root only, NULL elsewhere; recv: the block for this rank. In
 * place: recv is root's block of send. */
BPA_API bpa_status bpa_ccl_scatter(bpa_ccl_group* group, const bpa_tensor* send, bpa_tensor* recv,
                                   uint32_t root, const bpa_ccl_options* options,
                                   bpa_ccl_work** out_work);

/* send: a block for each rank; recv: the blocks from all ranks for this one. Never in place. */
BPA_API bpa_status bpa_ccl_all_to_all(bpa_ccl_group* group, const bpa_tensor* send,
                                      bpa_tensor* recv, const bpa_ccl_options* options,
                                      bpa_ccl_work** out_work);

/* The same where blocks differ in size. counts: rank_count of them, the elements of each rank's
 * block, 0 among them; blocks lie one behind the other by rank. All ranks give the same counts, and
 * where these are all equal it is the operation above. Where they are not, it goes by messages.
 * Ranks that give others fail as ranks that call other operations do. Errors, beside those above:
 * INVALID_ARGUMENT naming the tensor whose elements the counts do not tell. */

/* send: this rank's block; recv: the blocks of all ranks. In place: send is this rank's block of
 * recv. */
BPA_API bpa_status bpa_ccl_all_gather_v(bpa_ccl_group* group, const bpa_tensor* send,
                                        bpa_tensor* recv, const uint64_t* counts,
                                        const bpa_ccl_options* options, bpa_ccl_work** out_work);

/* send: a block for each rank; recv: the reduction of the blocks for this rank. In place: recv is
 * this rank's block of send. */
BPA_API bpa_status bpa_ccl_reduce_scatter_v(bpa_ccl_group* group, const bpa_tensor* send,
                                            bpa_tensor* recv, const uint64_t* counts,
                                            uint32_t reduction, const bpa_ccl_options* options,
                                            bpa_ccl_work** out_work);

/* send: this rank's block; recv: the blocks of all ranks, at root only, NULL elsewhere. In place:
 * send is root's block of recv. */
BPA_API bpa_status bpa_ccl_gather_v(bpa_ccl_group* group, const bpa_tensor* send, bpa_tensor* recv,
                                    const uint64_t* counts, uint32_t root,
                                    const bpa_ccl_options* options, bpa_ccl_work** out_work);

/* send: a block for each rank, at root only, NULL elsewhere; recv: the block for this rank. In
 * place: recv is root's block of send. */
BPA_API bpa_status bpa_ccl_scatter_v(bpa_ccl_group* group, const bpa_tensor* send, bpa_tensor* recv,
                                     const uint64_t* counts, uint32_t root,
                                     const bpa_ccl_options* options, bpa_ccl_work** out_work);

/* send: a block for each rank, of send_counts elements; recv: the blocks from all ranks for this
 * one, of recv_counts elements. These are this rank's own: what it receives from another one is
 * what that sends it. Never in place, and always by messages. */
BPA_API bpa_status bpa_ccl_all_to_all_v(bpa_ccl_group* group, const bpa_tensor* send,
                                        const uint64_t* send_counts, bpa_tensor* recv,
                                        const uint64_t* recv_counts, const bpa_ccl_options* options,
                                        bpa_ccl_work** out_work);

/* n elements to rank `peer`, which calls bpa_ccl_recv with as many. Two ranks that send to each
 * other and wait may do so until the deadline: bpa_ccl_batch makes one call of a send and a recv.
 * So may a rank that sends to itself. */
BPA_API bpa_status bpa_ccl_send(bpa_ccl_group* group, const bpa_tensor* tensor, uint32_t peer,
                                const bpa_ccl_options* options, bpa_ccl_work** out_work);
BPA_API bpa_status bpa_ccl_recv(bpa_ccl_group* group, bpa_tensor* tensor, uint32_t peer,
                                const bpa_ccl_options* options, bpa_ccl_work** out_work);

/* Over when all ranks have called it, and what came before it in the stream is done on each. */
BPA_API bpa_status bpa_ccl_barrier(bpa_ccl_group* group, const bpa_ccl_options* options,
                                   bpa_ccl_work** out_work);

/* bpa_ccl_call.kind */
#define BPA_CCL_ALL_REDUCE 0u
#define BPA_CCL_ALL_GATHER 1u
#define BPA_CCL_REDUCE_SCATTER 2u
#define BPA_CCL_BROADCAST 3u
#define BPA_CCL_SEND 4u
#define BPA_CCL_RECV 5u
#define BPA_CCL_REDUCE 6u
#define BPA_CCL_GATHER 7u
#define BPA_CCL_SCATTER 8u
#define BPA_CCL_ALL_TO_ALL 9u
#define BPA_CCL_BARRIER 10u

/* One operation of a batch, as its own function takes it. Pointers: lifetime call. */
typedef struct bpa_ccl_call {
  uint32_t struct_size;
  uint32_t flags;         /* BPA_CCL_DETERMINISTIC_BIT; that of the options is meant too */
  uint32_t kind;          /* BPA_CCL_ALL_REDUCE, ... */
  uint32_t reduction;     /* BPA_CCL_SUM, ..., where the kind reduces; else 0 */
  uint32_t root;          /* or the other rank of a send or recv; else 0 */
  uint32_t reserved;      /* 0 */
  const bpa_tensor* send; /* NULL where the kind sends nothing on this rank */
  bpa_tensor* recv;       /* NULL where it receives nothing */
  /* Where blocks differ in size: rank_count counts, as the _v function of the kind takes them; of
   * ALL_TO_ALL recv_counts. NULL: they do not. */
  const uint64_t* counts;
  const uint64_t* send_counts; /* of ALL_TO_ALL, beside counts; else NULL */
} bpa_ccl_call;

/* Operations that go together: none waits for another, but for the collectives among them, which
 * keep their order. All of them have begun when this returns, or none has.
 * calls: call_count of them, 1 to 1,024, each stride_bytes (sizeof(bpa_ccl_call)) behind the one
 * before. Where the device's own collectives run only some of them, or parts of them as among
 * linked ranks of a group that has others too, each begins when the one before it is done; and so
 * does one that sends a strided view of what one before it gives. Errors,
 * beside those above: UNSUPPORTED for sends and recvs beside such ones, and where one behind an
 * average that those collectives lack uses its result. */
BPA_API bpa_status bpa_ccl_batch(bpa_ccl_group* group, const bpa_ccl_call* calls,
                                 uint64_t call_count, uint64_t stride_bytes,
                                 const bpa_ccl_options* options, bpa_ccl_work** out_work);

/* --- Work ---------------------------------------------------------------------------------- */

/* Operations in progress. Work outlives its group, and may be released at any time: operations go
 * on. After the Runtime's close the first three answer GONE. */

/* *out_done: 1 once it is over, well or not. Never waits. */
BPA_API bpa_status bpa_ccl_work_test(bpa_ccl_work* work, uint32_t* out_done);

/* Waits until it is over. timeout_ns: how long; 0, or more than BACKPLANE_TIMEOUT: that, and up to
 * two seconds more for the words of a group whose own timeout is as long.
 * Errors: why it failed; TIMEOUT while bpa_ccl_work_get_error still tells BP_OK: it goes on. */
BPA_API bpa_status bpa_ccl_work_wait(bpa_ccl_work* work, uint64_t timeout_ns);

/* What is enqueued on the stream from now on comes after the work: for what tensors do not tell,
 * such as a barrier. Between devices, and on a stream that is no queue, the host waits.
 * Errors: INVALID_ARGUMENT for a stream of another Runtime; those of the waits. */
BPA_API bpa_status bpa_ccl_work_order_before(bpa_ccl_work* work, bpa_stream* stream);

/* OK with code BP_OK: it has not failed, or is not over. */
BPA_API bpa_status bpa_ccl_work_get_error(bpa_ccl_work* work, bpa_ccl_error* out_error);

/* Never waits for other ranks. NULL is legal. */
BPA_API void bpa_ccl_work_release(bpa_ccl_work* work);

#ifdef __cplusplus
}
#endif

#endif
