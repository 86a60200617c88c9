// SPDX-License-Identifier: Apache-2.0
//
// oneDNN as a plan sees it. A DnnlProgram is the immutable part (primitives, layouts, places of
// intermediate results in the launch's workspace); a DnnlRun holds the memory objects of one user.
// A launch then only sets addresses and executes. Intermediate results and scratchpads live in the
// core's workspace, so that no launch allocates device memory.
//
// The C interface is used because its execute takes an array where the C++ one builds a hash map
// per call.
#ifndef BACKPLANE_PLUGINS_CPU_ONEDNN_HPP
#define BACKPLANE_PLUGINS_CPU_ONEDNN_HPP

#include <oneapi/dnnl/dnnl.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "activation.hpp"
#include "device.hpp"
#include "kernel_support.hpp"
#include "thread_choice.hpp"

namespace bp::cpu {

template <auto Destroy>
struct DnnlDelete {
  template <class T>
  void operator()(T* object) const {
    Destroy(object);
  }
};
using DnnlDesc = std::unique_ptr<dnnl_memory_desc, DnnlDelete<dnnl_memory_desc_destroy>>;
using DnnlAttr = std::unique_ptr<dnnl_primitive_attr, DnnlDelete<dnnl_primitive_attr_destroy>>;
using DnnlPrimitiveDesc =
    std::unique_ptr<dnnl_primitive_desc, DnnlDelete<dnnl_primitive_desc_destroy>>;
using DnnlPrimitive = std::unique_ptr<dnnl_primitive, DnnlDelete<dnnl_primitive_destroy>>;
using DnnlMemory = std::unique_ptr<dnnl_memory, DnnlDelete<dnnl_memory_destroy>>;
using DnnlStream = std::unique_ptr<dnnl_stream, DnnlDelete<dnnl_stream_destroy>>;

/// Throws on a failed status: memory exhaustion and errors as Failure, "unimplemented" and
/// "invalid arguments" (a shape that oneDNN does not take) as Refusal, for plans.
void check_dnnl(dnnl_status_t status, const char* call);

DnnlEngine make_dnnl_engine();

/// "oneDNN 3.2.0".
std::string dnnl_version_text();

/// Of a dimension, and from one row of a matrix to the next.
constexpr int64_t kMostDnnlElements = int64_t{1} << 28;

/// f32 with the given strides in elements; without strides, the layout that oneDNN likes best.
/// Refuses a dimension of more than kMostDnnlElements.
DnnlDesc make_f32_desc(std::span<const int64_t> sizes, std::span<const int64_t> strides);
DnnlDesc make_f32_desc_of_any_layout(std::span<const int64_t> sizes);

/// Whether both lie the same way in memory. Sides of 1 may have any strides.
bool lie_alike(const_dnnl_memory_desc_t a, const_dnnl_memory_desc_t b);

/// "brgconv:avx512_core"
std::string implementation_of(const dnnl_primitive_desc* descriptor);

/// What a primitive does to its result: adds a tensor, then applies an activation.
struct DnnlPostOps {
  const_dnnl_memory_desc_t addend = nullptr;
  std::optional<DnnlEltwise> activation = {};
};

/// Scratchpads by the user; f32 computed as f32 whatever the environment asks for.
DnnlAttr make_dnnl_attr(const DnnlPostOps& post_ops = {});

/// The argument that a primitive takes its addend as.
inline constexpr int kDnnlAddend = DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1;
/// The layout of it. Owned by the descriptor.
const_dnnl_memory_desc_t addend_desc_of(const dnnl_primitive_desc* descriptor);

/// Where an argument of a primitive lies: in a tensor of the launch, or in its workspace.
struct DnnlPlace {
  int tensor = -1;  // index into the launch's tensors; -1: the workspace
  uint64_t offset_bytes = 0;
};

class DnnlProgram {
 public:
  struct Arg {
    int id;                         // DNNL_ARG_*
    const_dnnl_memory_desc_t desc;  // belongs to the step's primitive descriptor
    DnnlPlace place;
  };
  struct Step {
    DnnlPrimitiveDesc descriptor;
    DnnlPrimitive primitive;
    std::vector<Arg> args;
  };

  /// The layout of an argument that a primitive descriptor chose. Owned by the descriptor.
  static const_dnnl_memory_desc_t desc_of(const dnnl_primitive_desc* descriptor,
                                          dnnl_query_t which);

  /// Reserves workspace for a tensor of that layout.
  DnnlPlace reserve(const_dnnl_memory_desc_t desc);

  /// Appends a primitive; its scratchpad gets a place by itself.
  void add_step(DnnlPrimitiveDesc descriptor, std::vector<Arg> args);

  /// Appends a copy from one layout to another.
  void add_reorder(dnnl_engine* engine, const_dnnl_memory_desc_t from_desc, DnnlPlace from,
                   const_dnnl_memory_desc_t to_desc, DnnlPlace to);

  const std::vector<Step>& steps() const { return steps_; }
  /// As what a step reads the launch's tensor. Throws sdk::Failure where none reads it.
  const Arg& arg_of(int tensor) const;
  uint64_t workspace_bytes() const { return workspace_bytes_; }

 private:
  std::vector<Step> steps_;
  uint64_t workspace_bytes_ = 0;
};

/// The memory objects of one user of one program. Not for two threads at once.
class DnnlRun {
 public:
  DnnlRun(dnnl_engine* engine, const DnnlProgram& program);

  /// addresses: of the launch's tensors. Computes before it returns.
  dnnl_status_t execute(dnnl_stream* stream, void* const* addresses, std::byte* workspace);

 private:
  struct Binding {
    DnnlMemory memory;
    DnnlPlace place;
  };
  struct Step {
    const_dnnl_primitive_t primitive;
    std::vector<dnnl_exec_arg_t> args;
  };
  std::vector<Binding> bindings_;
  std::vector<Step> steps_;
  bool has_run_ = false;
};

/// A constant input that launches take in the layouts that oneDNN likes best.
struct PackedWeights {
  struct Part {
    DnnlDesc layout;
    uint64_t offset_bytes;
  };
  uint32_t input = 0;
  DnnlDesc plain;
  std::vector<Part> parts;
  uint64_t bytes = 0;
  std::string layout;  // equal where the plain weights and all parts lie alike
};

/// The weights of a program that may be packed. `packed`: the layout that another program of the
/// plan has settled; nullptr: oneDNN chooses.
struct WeightsChoice {
  bool is_constant = false;
  const_dnnl_memory_desc_t packed = nullptr;
  uint64_t offset_bytes = 0;  // where they begin in the input

  /// What to ask oneDNN for, where `any` leaves it the choice.
  const_dnnl_memory_desc_t wanted(const_dnnl_memory_desc_t any) const {
    return packed != nullptr ? packed : any;
  }
  DnnlPlace place(int tensor) const { return {.tensor = tensor, .offset_bytes = offset_bytes}; }
};

/// Whether the input's values never change, so that it may be packed.
inline bool is_constant(const bp_arg_info& info) {
  return (info.flags & BP_INFO_CONSTANT_BIT) != 0;
}

/// A plan whose work is oneDNN's. oneDNN fixes its work split when a primitive is made, so there is
/// a program for one thread and, where the work pays, one for all threads of the device.
struct DnnlPlan : bp_kernel_plan {
  DnnlProgram serial;
  std::optional<DnnlProgram> parallel;
  std::optional<PackedWeights> packed;
};

struct DnnlState : bp_kernel_state {
  DnnlState(bp_device* device, const DnnlPlan& plan);

  DnnlStream stream;
  DnnlRun serial;
  std::optional<DnnlRun> parallel;
  ThreadChoice threads;  // which of the two is quicker
};

/// Fills both programs of a plan by calling `build` once for each, with the thread count set.
/// multiply_add_count: of the whole operation. `weights`: their input and plain layout, if they are
/// constant: both programs then take them packed, in one layout where both can.
struct PlainWeights {
  uint32_t input = 0;
  DnnlDesc plain;
};
void build_dnnl_programs(bp_device* device, double multiply_add_count,
                         const std::function<DnnlProgram(const WeightsChoice&)>& build,
                         std::optional<PlainWeights> weights, DnnlPlan* plan, bp_plan_info* info);

/// bp_kernel.prepack_query and prepack of kernels whose plan is a DnnlPlan.
bp_status query_packed_weights(bp_device* device, const bp_kernel_plan* plan, uint32_t input_index,
                               bp_prepack_info* out_info);
bp_status pack_weights(bp_device* device, const bp_prepack_args* args);

/// bp_kernel.state_create of kernels whose plan is a DnnlPlan.
bp_status create_dnnl_state(bp_device* device, const bp_kernel* kernel, const bp_kernel_plan* plan,
                            bp_kernel_state** out_state);

/// Runs the plan's program on the launch's tensors: in parallel where that is quicker and no other
/// caller does.
bp_status launch_dnnl(const bp_launch_args& args);

}  // namespace bp::cpu

#endif
