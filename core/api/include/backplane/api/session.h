/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions: models made ready to run. Included by backplane.h, which has the rules.
 */
#ifndef BACKPLANE_API_SESSION_H
#define BACKPLANE_API_SESSION_H

#include "backplane/api/common.h"

#ifdef __cplusplus
extern "C" {
#endif

/* bpa_session_args.flags: two runs on the same devices with the same inputs give the same bits;
 * kernels that do not promise it are not used, and each says so in placement reasons and errors. */
#define BPA_SESSION_DETERMINISTIC_BIT 1u
/* bpa_session_load reads the model's files into memory, which counts for memory_limit_bytes, in
 * place of mapping them. Without it none of them may shrink while the session lives: reading past
 * the new end ends the process (SIGBUS). A model in memory has no files, and is taken as it is. */
#define BPA_SESSION_READ_WEIGHTS_BIT 2u

typedef struct bpa_session_args {
  uint32_t struct_size;
  uint32_t flags;               /* BPA_SESSION_*_BIT */
  bpa_device* device;           /* required, unless `devices` is given */
  const char* const* dim_names; /* symbolic dimensions fixed, each once; parallel arrays */
  const int64_t* dim_sizes;
  uint64_t dim_count;
  uint32_t max_contexts; /* runs at once; 0: 8 */
  uint32_t reserved;     /* 0 */
  /* Devices in order of preference, instead of `device`; each once. The model runs on the first;
   * an operator that it has no kernel for, not even decomposed, runs on the first of the others
   * that has one, with copies, whatever BACKPLANE_FALLBACK says, and on no other device. With one
   * device in the list, or by `device`, BACKPLANE_FALLBACK decides. */
  bpa_device* const* devices;
  uint64_t device_count;
  /* The most memory that the session may take for weights, activations, workspaces and the outputs
   * of runs in progress, over all its devices; 0: no limit. Weights that a device uses where they
   * lie in the model's file count too. OUT_OF_MEMORY names it. */
  uint64_t memory_limit_bytes;
  /* Symbolic dimensions that may have any size from min to max, ends included, each once and none
   * of dim_names; parallel arrays. max INT64_MAX: no upper end. A run with another size is refused
   * before anything is launched; a session is where an end contradicts the model. */
  const char* const* range_names;
  const int64_t* range_mins;
  const int64_t* range_maxes;
  uint64_t range_count;
} bpa_session_args;

/* Reads an ONNX file and makes it ready: where all sizes are known it is planned, and its weights
 * are on the device when this returns. Errors: INVALID_ARGUMENT or UNSUPPORTED naming the file and
 * the node, what was expected and what was found, or a file that shrinks while it is read;
 * OUT_OF_MEMORY; TIMEOUT; the device's. */
BPA_API bpa_status bpa_session_load(bpa_runtime* runtime, const char* path,
                                    const bpa_session_args* args, bpa_session** out_session);
/* The same for a model in memory: the bytes of an ONNX file, which cannot name files beside it.
 * deleter NULL: they are copied, and nothing reads `data` once this has returned. Else they are
 * used where they lie, and must not change: on success the library keeps them until the session,
 * its runs and what came of its weights are gone, then calls the deleter with `user`, exactly once,
 * on any thread; on an error it is not called. A forked child calls no deleter.
 * Errors: those of bpa_session_load. */
BPA_API bpa_status bpa_session_create(bpa_runtime* runtime, const void* data, uint64_t bytes,
                                      bpa_deleter deleter, void* user, const bpa_session_args* args,
                                      bpa_session** out_session);
/* The session lives on while runs do. NULL is legal. */
BPA_API void bpa_session_release(bpa_session* session);

BPA_API bpa_status bpa_session_input_count(bpa_session* session, uint64_t* out_count);
BPA_API bpa_status bpa_session_output_count(bpa_session* session, uint64_t* out_count);

/* Inputs that have a default in the model stand behind the others; a run may leave them out. The
 * first run that gives one prepares the model anew. Pointers: lifetime object (the session). */
typedef struct bpa_io_info {
  uint32_t struct_size;
  uint32_t flags; /* 0 */
  const char* name;
  uint32_t dtype;
  uint32_t rank;                /* 0 also if the rank is not known */
  const int64_t* sizes;         /* below 0: not known before the run */
  const char* const* dim_names; /* "" or the name of the symbol; as many as rank */
  uint32_t has_rank;            /* 0: the rank is not known */
  uint32_t has_default;         /* 1: a run may leave it out */
  /* What the sizes may be, as many as rank: by bpa_session_args.range_names; both the size where it
   * is known; 0 and INT64_MAX where nothing is said. */
  const int64_t* min_sizes;
  const int64_t* max_sizes;
} bpa_io_info;

BPA_API bpa_status bpa_session_get_input(bpa_session* session, uint64_t index,
                                         bpa_io_info* out_info);
BPA_API bpa_status bpa_session_get_output(bpa_session* session, uint64_t index,
                                          bpa_io_info* out_info);

/* Runs once. Inputs by name, in any order, from the host or any device, those with a default if
 * wanted; out_outputs: one per output
 * of the session. On queued devices it may return before the work is done: reading an output waits.
 * Errors: INVALID_ARGUMENT naming the input, what was expected and found; OUT_OF_MEMORY; the
 * device's, naming the node; of work on a queue, the operator. The session stays usable. */
BPA_API bpa_status bpa_session_run(bpa_session* session, const char* const* input_names,
                                   const bpa_tensor* const* inputs, uint64_t input_count,
                                   bpa_tensor** out_outputs, uint64_t output_count);

/* --- Runs with options --------------------------------------------------------------------- */

/* Tells runs to stop; one token serves any number of them. */
BPA_API bpa_status bpa_cancel_create(bpa_cancel** out_cancel);
/* Every run with this token ends with CANCELLED: those in progress between two operators, and those
 * that begin later, until bpa_cancel_reset. A run begins with its call, also an asynchronous one.
 * Any thread. */
BPA_API bpa_status bpa_cancel_request(bpa_cancel* cancel);
/* Takes the request back for runs that begin after this: the token is as new. Runs that began
 * before were told to stop, and end with CANCELLED even if they have not looked yet. Without a
 * request it does nothing. Any thread. Errors: OUT_OF_MEMORY, and the token stays requested. */
BPA_API bpa_status bpa_cancel_reset(bpa_cancel* cancel);
/* NULL is legal. Runs in progress keep the token. */
BPA_API void bpa_cancel_release(bpa_cancel* cancel);

/* Pointers: lifetime call. */
typedef struct bpa_run_args {
  uint32_t struct_size;
  uint32_t flags;                 /* 0 */
  const char* const* input_names; /* parallel arrays */
  const bpa_tensor* const* inputs;
  uint64_t input_count;
  /* Tensors that get the outputs: NULL for none, or one per output of the session, NULL for those
   * that the run is to allocate. One must have the output's dtype and sizes and be contiguous; it
   * may be on any device of the runtime or in host memory. The last operator writes straight into
   * it where it is on the producing device, aligned to 256 bytes and apart from all other memory
   * of the run; elsewhere the values are copied, counted by bpa_device_info.output_copy_count.
   * An output that is not bound may share the memory of an input or of another output that it is a
   * view of (a reshape, a transpose): it has other values once that memory is written, by a later
   * run that binds the other one too.
   * Until the run ends (for a callback: until it is called) no other run may bind it. After an
   * error its contents are undefined. */
  bpa_tensor* const* bound_outputs;
  uint64_t bound_output_count;
  uint64_t timeout_ns; /* from the call on; 0: none */
  bpa_cancel* cancel;  /* NULL: none */
  /* Of the session's first device: the run comes after the stream's work so far, and the stream's
   * later work after the run. NULL: only what tensors impose. */
  bpa_stream* stream;
} bpa_run_args;

/* bpa_session_run with options. A bound output is answered as itself, retained; out_outputs may be
 * NULL if all are bound. With a timeout or a token the run waits for its work, and stops between
 * two operators; on queued devices what is already in the queue still runs, and memory of the run
 * is kept until it has. Errors: those of bpa_session_run; TIMEOUT, CANCELLED; BUSY for a bound
 * tensor that another run has bound. The session stays usable. */
BPA_API bpa_status bpa_session_run_with(bpa_session* session, const bpa_run_args* args,
                                        bpa_tensor** out_outputs, uint64_t output_count);

/* The end of an asynchronous run, called once, on a thread of the Runtime. The outputs are done and
 * the callee's, to be released; NULL, each, on an error, whose words are `message` (lifetime call;
 * "" on success). On an error bpa_last_error and bpa_last_error_op tell of it, until a call of the
 * callee's own fails. It may call the API, but for bpa_runtime_close of its own runtime, and should
 * not wait long: others wait for its thread. */
typedef void (*bpa_run_callback)(void* user, bpa_status status, const char* message,
                                 bpa_tensor** outputs, uint64_t output_count);

/* Queues a run and returns. What args names is read or retained before it returns; timeout_ns
 * counts from the call. Runs begin in order, as many at once as BACKPLANE_WORKERS says.
 * Errors, without a callback: those of the arguments; GONE. All others go to the callback. */
BPA_API bpa_status bpa_session_run_async(bpa_session* session, const bpa_run_args* args,
                                         bpa_run_callback callback, void* user);

/* How the operators of the newest run were placed; before the first run, those that
 * bpa_session_load planned ahead. */
typedef struct bpa_placement_info {
  uint32_t struct_size;
  uint32_t flags; /* 0 */
  uint64_t native_count;
  uint64_t decomposed_count;
  uint64_t fallback_count;
  uint64_t view_count;
  uint64_t memory_used_bytes; /* what memory_limit_bytes is held against, now */
  uint64_t known_count;       /* worked out on the host while planning: arithmetic on sizes */
  uint64_t arena_bytes;       /* memory that one run at a time takes for values between operators */
  uint64_t live_bytes_peak;   /* of it, what lives at once: no plan would take less */
} bpa_placement_info;

BPA_API bpa_status bpa_session_get_placement(bpa_session* session, bpa_placement_info* out_info);

/* bpa_node_info.placement */
#define BPA_PLACEMENT_NATIVE 1u     /* one kernel of the session's first device */
#define BPA_PLACEMENT_DECOMPOSED 2u /* kernels for the simpler operators that it consists of */
#define BPA_PLACEMENT_FALLBACK 3u   /* kernels of another device, with copies */
#define BPA_PLACEMENT_VIEW 4u       /* none: the values lie where they lay */
#define BPA_PLACEMENT_KNOWN 5u      /* none: worked out on the host while planning */

/* How one node of the model was placed. Nodes are what is left of the model's when constants are
 * folded and operators merged. Texts: lifetime object (the session), whatever is planned meanwhile;
 * it keeps each different text that was asked for once. */
typedef struct bpa_node_info {
  uint32_t struct_size;
  uint32_t flags;      /* 0 */
  const char* name;    /* the model's; "Relu#3" for its node 3, a Relu, where it has none */
  const char* op;      /* the operator: "relu" */
  bpa_device* device;  /* whose kernels run it, the last of them; NULL: no kernel does */
  const char* kernels; /* their names in order, with ", " between; "" if there are none */
  const char* reason;  /* why it is not native; "" if it is, or needs no kernel */
  uint32_t placement;  /* BPA_PLACEMENT_* */
  uint32_t reserved;
} bpa_node_info;

/* The nodes that bpa_session_get_placement counts: of the newest run, or before the first those
 * planned ahead. They stand in the order in which they run, so that one keeps its index when a run
 * with other sizes is planned. Where another thread runs the session meanwhile, each call tells of
 * the run that is the newest then; there are fewer nodes only after a run that gives inputs which
 * have defaults, or after one that does not. */
BPA_API bpa_status bpa_session_node_count(bpa_session* session, uint64_t* out_count);
BPA_API bpa_status bpa_session_get_node(bpa_session* session, uint64_t index,
                                        bpa_node_info* out_info);

#ifdef __cplusplus
}
#endif

#endif
