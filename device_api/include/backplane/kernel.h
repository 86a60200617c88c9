/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels: how a plugin offers operators. A kernel is a static descriptor plus functions.
 *
 * Rules: the core chooses among the descriptors of a device (supports), asks the winner for a plan
 * of each set of shapes (plan) and then only calls launch.
 */
#ifndef BACKPLANE_KERNEL_H
#define BACKPLANE_KERNEL_H

#include "backplane/host.h"
#include "backplane/status.h"
#include "backplane/types.h"

typedef struct bp_kernel bp_kernel;
typedef struct bp_kernel_plan bp_kernel_plan;   /* the plugin's, made by plan */
typedef struct bp_kernel_state bp_kernel_state; /* the plugin's, made by state_create */

/* bp_arg_rule.strides: which strides a kernel takes for an input. Rules: beside each value. The
 * core materialises (and counts) what a kernel cannot take; outputs are always contiguous. */
#define BP_STRIDES_CONTIGUOUS 0u /* row-major without gaps */
#define BP_STRIDES_INNER_DENSE                                                                     \
  1u                               /* the last dimension has stride 1, the others are free but not \
                                      negative */
#define BP_STRIDES_NON_NEGATIVE 2u /* anything but negative strides; 0 repeats */
#define BP_STRIDES_ANY 3u
#define BP_STRIDES_DENSE 4u /* contiguous once the dimensions are put into some order */

/* bp_arg_rule.flags. Rules: beside each bit. A host argument's bytes are given at a host address
 * (BP_TENSOR_HOST_BIT). */
#define BP_ARG_HOST_AT_PLAN_BIT 1u   /* read by plan (bp_arg_info.host_data), and again at launch */
#define BP_ARG_HOST_AT_LAUNCH_BIT 2u /* read by launch */

/* What a kernel demands of one input. Static data of the plugin. Required: none.
 *
 * Rules: beside each member. All zero: contiguous, aligned to its element, in device memory. A
 * kernel with a rule that the core cannot keep (strides that it does not know, an alignment above
 * 256) is left out. */
typedef struct bp_arg_rule {
  uint32_t struct_size;
  uint32_t flags;           /* BP_ARG_*_BIT */
  uint32_t strides;         /* BP_STRIDES_* */
  uint32_t alignment_bytes; /* of element 0; power of two, at most 256; 0: the element's size */
} bp_arg_rule;

/* bp_arg_info.flags */
#define BP_INFO_CONSTANT_BIT                                                                      \
  1u /* Rules: plan: the input has the same values in every launch of this plan, so that the plan \
        may ask for it packed */
#define BP_INFO_ANY_ORDER_BIT                                                                   \
  2u /* Rules: plan: the output, which has elements, may lie in any order of its dimensions, as \
        bp_plan_info.out_strides says. Shown to kernels with BP_KERNEL_CHOOSES_ORDER_BIT and    \
        BP_DEPENDS_SIZES_BIT */

/* One argument, input or output, as supports and plan see it. Allocated by the core.
 * Required: strides. Rules: beside each member. */
typedef struct bp_arg_info {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t dtype; /* BP_DTYPE_NONE: absent optional argument */
  uint32_t rank;
  const int64_t* sizes;   /* -1: not shown. supports: always -1; plan: -1 without
                             BP_DEPENDS_SIZES_BIT; lifetime: call */
  const int64_t* strides; /* elements; NULL: not shown. supports: always NULL; plan: NULL without
                             BP_DEPENDS_STRIDES_BIT; lifetime: call */
  const void* host_data;  /* plan: contiguous bytes of an input with BP_ARG_HOST_AT_PLAN_BIT, NULL
                             for other arguments and absent ones. supports must not use it;
                             length: as the sizes say; lifetime: call */
} bp_arg_info;

/* What is to be computed. Allocated by the core, read during the call. Required: all.
 *
 * Rules: beside each member. A member of the attributes that is behind their struct_size has its
 * default, which attributes.h tells, and not zero. */
typedef struct bp_kernel_query {
  uint32_t struct_size;
  uint32_t flags;
  const bp_kernel* kernel; /* the descriptor that is asked; lifetime: plugin */
  uint32_t op_version;     /* within [version_min, version_max] */
  uint32_t input_count;    /* with absent ones, but for those at the end that came after the
                              first version; variadic inputs counted out */
  uint32_t output_count;
  uint32_t arg_stride_bytes; /* from one bp_arg_info to the next */
  const bp_arg_info* args;   /* input_count inputs, then output_count outputs; length: input_count +
                                output_count; stride: arg_stride_bytes; lifetime: call */
  const void* attributes;    /* bp_attrs_<op> of <backplane/ops/attributes.h>, a versioned struct;
                                NULL: the operator has none; lifetime: call for supports; for plan,
                                until plan_free */
  uint64_t attributes_bytes; /* its struct_size */
} bp_kernel_query;

/* bp_support.answer */
#define BP_SUPPORT_NO 0u
#define BP_SUPPORT_YES 1u
#define BP_SUPPORT_DEPENDS 2u /* Rules: on sizes not known yet: plan will tell */

/* bp_size_range.dim */
#define BP_RANGE_ELEMENTS INT32_MAX /* Rules: no dimension, but the number of elements */

/* The sizes from min to max, of one dimension. Frozen. Rules: beside each member. */
typedef struct bp_size_range {
  uint32_t argument; /* which of bp_kernel_query.args: inputs, then outputs */
  int32_t dim;       /* from 0, the first one; or from -1, the last one; or BP_RANGE_ELEMENTS */
  int64_t min;       /* at least 0 */
  int64_t max;       /* at least min */
} bp_size_range;

/* The answer of supports. Allocated and zeroed by the core. Required: answer.
 * Rules: beside each member. */
typedef struct bp_support {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t answer;             /* BP_SUPPORT_*; unknown: no */
  uint32_t reserved;           /* 0 */
  bp_str reason;               /* why not, one phrase; lifetime: plugin */
  const bp_size_range* ranges; /* NULL: the answer is for all sizes. Else it is for calls whose
                                  sizes lie in every range, and for others it is no: the core need
                                  not ask plan, which must refuse them too, since an older core
                                  does. With BP_SUPPORT_YES plan refuses no sizes within. A range of
                                  an absent input says nothing; one of an argument or a dimension
                                  that is not there, or without a size, makes the answer no; length:
                                  range_count; lifetime: plugin */
  uint64_t range_count;        /* at most 256: with more the answer is no */
} bp_support;

/* bp_plan_info.flags */
#define BP_PLAN_CAN_FAULT_BIT 1u /* Rules: a launch may write the fault word */

/* What a plan needs. Allocated and zeroed by the core. Required: workspace_alignment_bytes.
 * Rules: beside each member. */
typedef struct bp_plan_info {
  uint32_t struct_size;
  uint32_t flags; /* BP_PLAN_*_BIT */
  uint64_t workspace_bytes;
  uint64_t workspace_alignment_bytes; /* power of two, at most 256: with more the core asks
                                         the next kernel; 0: 256 */
  bp_str reason;                      /* with BP_UNSUPPORTED: why; lifetime: plugin */
  uint64_t packed_inputs; /* bit i: launches take input i, which BP_INFO_CONSTANT_BIT was shown for,
                             as prepack made it; a core that does not show the bit packs nothing */
  const int64_t* out_strides; /* elements; of output 0, then of output 1, and so on; NULL: all
                                 outputs are contiguous. An output without BP_INFO_ANY_ORDER_BIT
                                 is contiguous there, and one with it at least once its dimensions
                                 are put into another order, where one of size 1 has any stride
                                 from 1 to the number of elements: else the core asks the next
                                 kernel. Launches get outputs with these strides; length: the
                                 ranks of all outputs; lifetime: object (the plan) */
} bp_plan_info;

/* The fault word. Frozen. Layout of the 32 bytes behind bp_launch_args.fault.
 *
 * Rules: beside each member. A kernel reports bad data there without stopping the stream. One per
 * launch whose plan can fault, in device memory, all zero when there is no fault. A kernel that
 * meets an index out of range clamps it, and the winner of a 32-bit compare-exchange of code (0 to
 * BP_FAULT_INDEX) writes the rest. */
typedef struct bp_fault_word {
  uint32_t code;   /* BP_FAULT_* */
  uint32_t input;  /* which input held the bad value */
  uint64_t op_seq; /* bp_launch_args.op_seq */
  int64_t index;   /* the bad value */
  int64_t extent;  /* what it must be below (negative values: at least -extent) */
} bp_fault_word;

#define BP_FAULT_NONE 0u
#define BP_FAULT_INDEX 1u

/* One launch. Built by the core on its stack; the plugin copies what it needs later, before it
 * returns. Required: all.
 *
 * Rules: beside each member. An input that broadcasts is not expanded: it comes with its own rank
 * and sizes (fewer dimensions than the output, or sizes of 1), and the kernel repeats it, as with
 * strides of 0. */
typedef struct bp_launch_args {
  uint32_t struct_size;
  uint32_t flags;
  bp_device* device;
  const bp_kernel* kernel;    /* lifetime: plugin */
  const bp_kernel_plan* plan; /* what plan made; NULL for a kernel without a plan function */
  bp_kernel_state* state;     /* what state_create made; NULL for a kernel without one */
  bp_stream* stream;          /* NULL: run now, on this thread */
  const bp_tensor* tensors;   /* input_count inputs, then output_count outputs; absent optional
                                 inputs have dtype BP_DTYPE_NONE; length: input_count +
                                 output_count; lifetime: call */
  uint32_t input_count;
  uint32_t output_count;
  const void* attributes; /* as in the query; length: its struct_size; lifetime: object (the
                             plan) */
  bp_mem workspace;       /* workspace_bytes of the plan; handle 0 if none */
  uint64_t op_seq;        /* names this launch in reports */
  bp_mem fault;           /* a bp_fault_word in device memory; handle 0: the plan cannot fault */
  bp_mem out_extents;     /* int64[output_count][BP_MAX_RANK] in device memory, for operators
                             with data-dependent shapes: real sizes; else handle 0 */
} bp_launch_args;

/* The packed form of a constant input. Allocated and zeroed by the core. Required: all.
 * Rules: beside each member. */
typedef struct bp_prepack_info {
  uint32_t struct_size;
  uint32_t flags;
  uint64_t bytes;           /* at least 1 */
  uint64_t alignment_bytes; /* power of two, at most 256; 0: 256 */
  bp_str layout; /* names the form, at most 4,096 bytes: kernels of the plugin with equal texts make
                    equal bytes of one constant, so that plans share them; lifetime: call */
} bp_prepack_info;

/* One packing. Allocated by the core. Required: all. Rules: beside each member. */
typedef struct bp_prepack_args {
  uint32_t struct_size;
  uint32_t flags;
  const bp_kernel* kernel;    /* lifetime: plugin */
  const bp_kernel_plan* plan; /* lifetime: call */
  const bp_tensor* input;     /* the constant, with the sizes and strides that the plan was made
                                 for; its values are there; length: 1;
                                 lifetime: call */
  uint32_t input_index;
  uint32_t reserved;     /* 0 */
  bp_mem packed;         /* memory of the device that is aligned as prepack_query said */
  uint64_t packed_bytes; /* what prepack_query said */
} bp_prepack_args;

/* bp_kernel.flags */
#define BP_KERNEL_DETERMINISTIC_BIT 1u /* Rules: bitwise equal reruns */
#define BP_KERNEL_CHOOSES_ORDER_BIT 2u /* Rules: plan reads BP_INFO_ANY_ORDER_BIT */
#define BP_KERNEL_CAPTURABLE_BIT                                                                 \
  4u /* Rules: a graph of the device may record what a launch enqueues, and run it again, while  \
        plan and state live, on what the same memory holds then. A launch chooses by no value in \
        that memory what it enqueues, and has no function of the host called; host arguments and \
        op_seq stay those of the recorded launch */

#define BP_KERNEL_STRIDED_OUTPUTS_BIT                                                          \
  8u /* Rules: in spite of BP_STRIDES_* launches may get outputs of any strides that make no   \
        two elements share a byte, aligned to an element, and leave the memory between the     \
        elements as it is. With BP_DEPENDS_STRIDES_BIT plan is shown the strides */

/* bp_kernel.depends_on. Rules: what of the query plan may depend on, beside dtypes, ranks and
 * attributes, and is shown: without SIZES all sizes are -1, without STRIDES all strides are NULL.
 * HOST_DATA goes with BP_ARG_HOST_AT_PLAN_BIT, which shows the bytes. The core may call plan again
 * for any shape, also for one that it asked about before; a later core may use one plan for all
 * calls that differ only in what no bit names. */
#define BP_DEPENDS_SIZES_BIT 1u
#define BP_DEPENDS_STRIDES_BIT 2u
#define BP_DEPENDS_HOST_DATA_BIT 4u

/* A kernel descriptor. Static data of the plugin, and so is all that it points to (lifetime:
 * plugin). An installed SDK lists the operators in share/doc/backplane: operators.md, and ops.json
 * for programs. Rules: beside each member. */
struct bp_kernel {
  uint32_t struct_size;
  uint32_t flags;       /* BP_KERNEL_*_BIT */
  bp_str name;          /* unique in the plugin, for people: "conv_f32_direct" */
  bp_str op;            /* the operator's name: "conv". A name with a dot, "vendor.op", is a
                           vendor's own operator. A kernel for an operator that the core does not
                           know is logged and never used. */
  uint32_t version_min; /* operator versions this kernel computes */
  uint32_t version_max;
  uint32_t op_since;           /* the highest `since` of an argument or attribute it knows */
  int32_t priority;            /* higher is asked first; equal: list order */
  const uint64_t* dtype_masks; /* one set of dtypes per type variable of the schema, in its order */
  uint32_t dtype_mask_count;
  uint32_t arg_rule_count;             /* inputs beyond take the last rule; 0: all zero rules */
  const bp_arg_rule* const* arg_rules; /* array of pointers, inputs in schema order */
  uint32_t depends_on;                 /* BP_DEPENDS_*_BIT */
  uint32_t reserved;                   /* 0 */

  /* supports: can this kernel compute that?
   * Rules: pure and cheap; it touches no device. The core may keep the answer for all calls with
   * these dtypes, ranks and attributes.
   * Errors: none; a failure counts as no.
   * Threads: any-thread. Blocks: no. Absent: yes to everything the descriptor admits. */
  bp_status (*supports)(bp_device* device, const bp_kernel_query* query, bp_support* out_support);

  /* plan: everything that can be worked out before the data is there.
   * Rules: the plan is immutable, holds no tensor data and is used by any number of threads.
   * Errors: BP_UNSUPPORTED with a reason: the core asks the next kernel; BP_OUT_OF_MEMORY.
   * Ownership: plan_free.
   * Threads: any-thread. Blocks: it may.
   * Absent (with plan_free): the plan is NULL, no workspace, no faults. */
  bp_status (*plan)(bp_device* device, const bp_kernel_query* query, bp_plan_info* out_info,
                    bp_kernel_plan** out_plan);

  /* plan_free: ends a plan.
   * Rules: work that is queued on a stream counts as use, so the core calls it only when every
   * launch with the plan has finished on its device.
   * Ownership: plan and what it holds are gone. Threads: object-exclusive. Blocks: no. */
  void (*plan_free)(bp_device* device, bp_kernel_plan* plan);

  /* launch: runs the kernel, or enqueues it on args->stream.
   * Rules: it consumes every descriptor, attribute and host argument before it returns, allocates
   * no device memory and never waits for a device.
   * Errors: the call had no effect.
   * Threads: stream-ordered; object-exclusive on state.
   * Blocks: only with stream NULL, for as long as it computes. Absent: the kernel is refused. */
  bp_status (*launch)(const bp_launch_args* args);

  /* state_create: makes a state.
   * Rules: what a launch changes and no two launches at once may share (vendor handles, memory
   * objects). One for each launch of a run context; eager calls with one plan have one per stream
   * on a queued device, and one per call in progress on an inline one.
   * Errors: BP_OUT_OF_MEMORY. Ownership: state_destroy.
   * Threads: any-thread. Blocks: it may. Absent (with state_destroy): launch gets NULL. A core
   * calls it where it is there (required since 0.1). */
  bp_status (*state_create)(bp_device* device, const bp_kernel* kernel, const bp_kernel_plan* plan,
                            bp_kernel_state** out_state);

  /* state_destroy: ends a state. Rules: before its plan.
   * Threads: object-exclusive. Blocks: no. */
  void (*state_destroy)(bp_device* device, bp_kernel_state* state);

  /* prepack_query: what a plan's packed input takes.
   * Rules: asked for each input of bp_plan_info.packed_inputs. The memory is the core's, which
   * keeps it for as long as anything uses it. Errors: the plan is not used, and the core asks the
   * next kernel. Threads: any-thread. Blocks: no. Absent (with prepack): a plan that names packed
   * inputs is not used. */
  bp_status (*prepack_query)(bp_device* device, const bp_kernel_plan* plan, uint32_t input_index,
                             bp_prepack_info* out_info);

  /* prepack: packs a constant into the core's memory.
   * Rules: the memory is written when it returns, and not changed by anybody afterwards. Launches
   * get it as the input's tensor: handle, offset_bytes and storage_bytes are those of the packed
   * memory, sizes and strides stay the constant's. Errors: any; what needs the plan fails with
   * them. Threads: any-thread. Blocks: it may. */
  bp_status (*prepack)(bp_device* device, const bp_prepack_args* args);

  uint64_t in_place_inputs; /* bit i: a launch may find output 0 in the memory of input i, with the
                               same dtype, sizes and strides, and then writes it over that input. A
                               core does so in plans only, where nothing else reads the input; an
                               input without its bit never shares memory with an output */
};

/* Allocated and zeroed by the core. Required: all. Rules: beside each member. */
typedef struct bp_kernel_list {
  uint32_t struct_size;
  uint32_t flags;
  const bp_kernel* const* kernels; /* array of pointers, in preference order. Lifetime:
                                        the array object (the device), descriptors plugin */
  uint64_t kernel_count;
} bp_kernel_list;

typedef struct bp_kernel_api {
  uint32_t struct_size;
  uint32_t flags;

  /* kernel_list: lists kernels. Rules: those that work on this device.
   * Threads: any-thread. Blocks: no. Absent: the table is refused. */
  bp_status (*kernel_list)(bp_device* device, bp_kernel_list* out_list);
} bp_kernel_api;

#endif
