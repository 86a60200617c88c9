// SPDX-License-Identifier: Apache-2.0
//
// What every kernel file needs: how a launch is taken over. A kernel is a body, which does the
// mathematics on a Launch, and a descriptor that offers it. The
// body runs when the stream gets there, long after the core's arguments are gone; so a launch first
// copies all that the body will look at.
#ifndef BACKPLANE_PLUGINS_NPU_KERNELS_LAUNCH_HPP
#define BACKPLANE_PLUGINS_NPU_KERNELS_LAUNCH_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "backplane/kernel.h"
#include "device.hpp"

namespace bp::npu {

using Dims = std::array<int64_t, BP_MAX_RANK>;

/// A bp_tensor with its sizes and strides (in elements).
struct Tensor {
  uint32_t dtype = BP_DTYPE_NONE;  // NONE: an optional input that is absent
  uint32_t rank = 0;
  Dims sizes{};
  Dims strides{};
  bp_mem mem{};
  uint64_t storage_bytes = 0;
  bool on_host = false;       // an argument of which the launch keeps a copy
  std::byte* data = nullptr;  // of element [0, 0, ...], once resolved; nullptr: no elements

  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
  int64_t element_count() const;
};

/// One launch, owning everything that its body needs.
class Launch {
 public:
  explicit Launch(const bp_launch_args& args);

  /// Finds all memory in the arena. Throws Failure BP_INVALID_ARGUMENT for what isn't there.
  void resolve();

  size_t input_count() const { return input_count_; }
  const Tensor& input(size_t index) const { return tensors_[index]; }
  bool has_input(size_t index) const {
    return index < input_count_ && tensors_[index].dtype != BP_DTYPE_NONE;
  }
  const Tensor& output(size_t index = 0) const { return tensors_[input_count_ + index]; }

  /// Reports that input `input` held an index that is not below `extent`. The first one wins.
  void report_index(uint32_t input, int64_t index, int64_t extent) const;
  /// Where the real sizes of an output go, one int64_t per dimension.
  int64_t* out_extents(size_t output = 0) const;

 private:
  DeviceMemory& memory_;
  uint64_t op_seq_;
  size_t input_count_;
  std::vector<Tensor> tensors_;
  std::vector<std::vector<std::byte>> host_copies_;
  bp_mem fault_mem_;
  bp_mem out_extents_mem_;
  bp_fault_word* fault_ = nullptr;
  int64_t* out_extents_ = nullptr;
};

using KernelBody = std::function<void(const Launch&)>;
/// Refers to a function that reads attributes and plan, which live only until the launch slot
/// returns, and answers a body that owns what it needs of them.
class PrepareKernel {
 public:
  template <class Function>
  explicit PrepareKernel(const Function& function)
      : function_(&function), call_([](const void* called, const bp_launch_args& args) {
          return KernelBody((*static_cast<const Function*>(called))(args));
        }) {}

  KernelBody operator()(const bp_launch_args& args) const { return call_(function_, args); }

 private:
  const void* function_;
  KernelBody (*call_)(const void*, const bp_launch_args&);
};

/// The launch slot of all kernels: runs the body now, or hands it to the stream.
bp_status launch_kernel(const bp_launch_args* args, PrepareKernel prepare) noexcept;

/// For bp_kernel.launch: launch<prepare>, or launch<body> for a kernel without attributes.
template <KernelBody (*prepare)(const bp_launch_args&)>
bp_status launch(const bp_launch_args* args) noexcept {
  return launch_kernel(args,
                       PrepareKernel([](const bp_launch_args& wanted) { return prepare(wanted); }));
}
template <void (*body)(const Launch&)>
bp_status launch(const bp_launch_args* args) noexcept {
  return launch_kernel(args, PrepareKernel([](const bp_launch_args&) { return body; }));
}

/// A descriptor of a kernel that launch_kernel() launches: what it hands to a stream owns all that
/// it needs beside plan and memory, so that the stream may run it again.
constexpr bp_kernel describe(sdk::KernelTraits traits) {
  traits.flags |= BP_KERNEL_CAPTURABLE_BIT;
  return sdk::describe(traits);
}

using sdk::read_attributes;

/// For an input that a launch reads at a host address.
inline constexpr bp_arg_rule kHostAtLaunchRule{.struct_size = sizeof(bp_arg_rule),
                                               .flags = BP_ARG_HOST_AT_LAUNCH_BIT,
                                               .strides = BP_STRIDES_CONTIGUOUS,
                                               .alignment_bytes = 0};

/// For kernels that only move elements: all dtypes that fill whole bytes.
inline constexpr uint64_t kWholeByteDtypes =
    sdk::dtypes({BP_DTYPE_BOOL, BP_DTYPE_I8, BP_DTYPE_I16, BP_DTYPE_I32, BP_DTYPE_I64, BP_DTYPE_U8,
                 BP_DTYPE_U16, BP_DTYPE_U32, BP_DTYPE_U64, BP_DTYPE_F16, BP_DTYPE_BF16,
                 BP_DTYPE_F32, BP_DTYPE_F64, BP_DTYPE_C64, BP_DTYPE_C128, BP_DTYPE_F8E4M3FN,
                 BP_DTYPE_F8E5M2, BP_DTYPE_F8E4M3FNUZ, BP_DTYPE_F8E5M2FNUZ});

}  // namespace bp::npu

/// The ABI's opaque type: what plans of kernels derive from.
struct bp_kernel_plan {
  virtual ~bp_kernel_plan() = default;
};

#endif
