// SPDX-License-Identifier: Apache-2.0
//
// What every kernel file needs besides the SDK: sets of dtypes, reading a launch, the base of plans
// and states. To add a kernel, write its file and give it a line in KERNELS (CMakeLists.txt), whose
// order is the order of preference among equal priorities.
#ifndef BACKPLANE_PLUGINS_CPU_KERNEL_SUPPORT_HPP
#define BACKPLANE_PLUGINS_CPU_KERNEL_SUPPORT_HPP

#include <cstddef>
#include <cstdint>
#include <span>

#include "backplane/device_api.h"
#include "backplane/sdk/sdk.hpp"
#include "device.hpp"

/// The opaque plan and state of the ABI: each kernel derives its own.
struct bp_kernel_plan {
  virtual ~bp_kernel_plan() = default;
};
struct bp_kernel_state {
  virtual ~bp_kernel_state() = default;
};

namespace bp::cpu {

// ---- dtype sets, named as the groups of the operator source ----

inline constexpr uint64_t kFloatTypes =
    sdk::dtypes({BP_DTYPE_F16, BP_DTYPE_BF16, BP_DTYPE_F32, BP_DTYPE_F64});
inline constexpr uint64_t kSignedIntTypes =
    sdk::dtypes({BP_DTYPE_I8, BP_DTYPE_I16, BP_DTYPE_I32, BP_DTYPE_I64});
inline constexpr uint64_t kIntTypes =
    kSignedIntTypes | sdk::dtypes({BP_DTYPE_U8, BP_DTYPE_U16, BP_DTYPE_U32, BP_DTYPE_U64});
inline constexpr uint64_t kNumberTypes = kFloatTypes | kIntTypes;
inline constexpr uint64_t kAnyTypes = kNumberTypes | sdk::dtypes({BP_DTYPE_BOOL});
inline constexpr uint64_t kIndexTypes = sdk::dtypes({BP_DTYPE_I32, BP_DTYPE_I64});

// ---- a launch ----

/// Address of element [0, 0, ...]: a handle of this plugin is an address.
template <class T = std::byte>
T* address_of(const bp_tensor& tensor) {
  return reinterpret_cast<T*>(tensor.handle + tensor.offset_bytes);
}
template <class T = std::byte>
T* address_of(const bp_mem& mem) {
  return reinterpret_cast<T*>(mem.handle + mem.offset_bytes);
}

inline const bp_tensor& input_of(const bp_launch_args& args, uint32_t index) {
  return args.tensors[index];
}
inline const bp_tensor& output_of(const bp_launch_args& args) {
  return args.tensors[args.input_count];
}

/// Row-major without gaps; dimensions of size 1 do not matter.
inline bool is_contiguous(const bp_tensor& tensor) {
  int64_t expected = 1;
  for (uint32_t i = tensor.rank; i-- > 0;) {
    if (tensor.sizes[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.sizes[i];
  }
  return true;
}

/// This device has no streams, so that a stream can only be a foreign pointer.
template <bp_status (*Launch)(const bp_launch_args&)>
bp_status on_default_stream(const bp_launch_args& args) {
  if (args.stream != nullptr) sdk::refuse("launch: this device has no streams of its own");
  return Launch(args);
}
/// For KernelTraits::launch.
template <bp_status (*Launch)(const bp_launch_args&)>
inline constexpr auto launch_slot = sdk::launch_slot<on_default_stream<Launch>>;
/// What plan_slot gives. Kernels that differ in their plan alone are described by a function of it:
/// in a template of it clang 14 forgets to make the slots that all of them share.
using PlanSlot = decltype(bp_kernel::plan);

// ---- a query ----

using sdk::arg_info;
using sdk::has_input;
using sdk::output_info;
using sdk::plan_slot;
using sdk::read_attributes;
using sdk::Refusal;
using sdk::supports_slot;

inline std::span<const int64_t> sizes_of(const bp_arg_info& info) {
  return {info.sizes, info.rank};
}

inline std::span<const int64_t> values_of(const bp_i64_span& span) {
  return {span.ptr, static_cast<size_t>(span.count)};
}

}  // namespace bp::cpu

#endif
