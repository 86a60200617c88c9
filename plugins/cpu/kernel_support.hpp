// SPDX-License-Identifier: Apache-2.0
//
// What every kernel file needs: reading a query and a launch, attributes that may be shorter than
// ours, the base of plans and states, and a builder for descriptors. A kernel is a constant
// bp_kernel made by described_kernel(); kernels/kernel_list.cpp names them all.
#ifndef BACKPLANE_PLUGINS_CPU_KERNEL_SUPPORT_HPP
#define BACKPLANE_PLUGINS_CPU_KERNEL_SUPPORT_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
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

/// bp_kernel.launch around a function that takes a reference. This device has no streams, so that a
/// stream can only be a foreign pointer.
template <bp_status (*Launch)(const bp_launch_args&)>
bp_status launch_slot(const bp_launch_args* args) {
  // All members up to this one are of the oldest ABI that this plugin serves.
  if (args == nullptr || !BP_SDK_HAS(args, out_extents)) [[unlikely]]
    return BP_INVALID_ARGUMENT;
  return sdk::slot("launch", args->device, {}, [args] {
    if (args->stream != nullptr) sdk::refuse("launch: this device has no streams of its own");
    if (args->tensors == nullptr) sdk::refuse("launch: the tensors are NULL");
    return Launch(*args);
  });
}

// ---- a query ----

/// The members that all kernels read without looking at sizes again are there: those of the oldest
/// ABI that this plugin serves.
inline bool is_whole(const bp_kernel_query* query) {
  constexpr size_t kArgBytes = offsetof(bp_arg_info, strides) + sizeof(bp_arg_info::strides);
  return query != nullptr && BP_SDK_HAS(query, attributes_bytes) && query->args != nullptr &&
         query->arg_stride_bytes >= kArgBytes;
}
inline const bp_arg_info& arg_info(const bp_kernel_query& query, uint32_t index) {
  return *reinterpret_cast<const bp_arg_info*>(reinterpret_cast<const std::byte*>(query.args) +
                                               size_t{query.arg_stride_bytes} * index);
}
inline const bp_arg_info& input_info(const bp_kernel_query& query, uint32_t index) {
  return arg_info(query, index);
}
inline const bp_arg_info& output_info(const bp_kernel_query& query) {
  return arg_info(query, query.input_count);
}
inline bool has_input(const bp_kernel_query& query, uint32_t index) {
  return index < query.input_count && input_info(query, index).dtype != BP_DTYPE_NONE;
}
inline std::span<const int64_t> sizes_of(const bp_arg_info& info) {
  return {info.sizes, info.rank};
}

/// The attributes of a query or a launch: members that the sender's struct lacks keep their
/// defaults, members that we do not know are the core's to guard (bp_kernel.op_since).
template <class Attrs>
Attrs read_attributes(const void* attributes, const Attrs& defaults) {
  Attrs result = defaults;
  if (attributes == nullptr) return result;
  uint32_t bytes = 0;
  std::memcpy(&bytes, attributes, sizeof(bytes));
  std::memcpy(&result, attributes, std::min<size_t>(bytes, sizeof(Attrs)));
  result.struct_size = sizeof(Attrs);
  return result;
}

inline std::span<const int64_t> values_of(const bp_i64_span& span) {
  return {span.ptr, static_cast<size_t>(span.count)};
}

/// bp_kernel.supports around a function that tells why not; nullptr: yes.
template <const char* (*Reason)(const bp_kernel_query&)>
bp_status supports_slot(bp_device*, const bp_kernel_query* query, bp_support* out_support) {
  if (!is_whole(query) || out_support == nullptr) return BP_INVALID_ARGUMENT;
  const char* const reason = Reason(*query);
  bp_support support{};
  support.answer = reason == nullptr ? BP_SUPPORT_YES : BP_SUPPORT_NO;
  if (reason != nullptr) support.reason = sdk::str(reason);
  sdk::write_out(out_support, support);
  return BP_OK;
}

/// Thrown while planning: a correct call that this kernel leaves to the next one.
struct Refusal {
  const char* reason;  // a literal: it must live as long as the plugin
};

/// bp_kernel.plan around a function that makes the plan object and fills the info.
template <class Plan,
          std::unique_ptr<Plan> (*Make)(bp_device*, const bp_kernel_query&, bp_plan_info*)>
bp_status plan_slot(bp_device* device, const bp_kernel_query* query, bp_plan_info* out_info,
                    bp_kernel_plan** out_plan) {
  return sdk::slot("plan", device, {query, out_info, out_plan}, [&]() -> bp_status {
    if (!is_whole(query)) sdk::refuse("plan: the query or its arguments are cut short");
    bp_plan_info info{};
    try {
      *out_plan = Make(device, *query, &info).release();
    } catch (const Refusal& refusal) {
      info = {};
      info.reason = sdk::str(refusal.reason);
      sdk::write_out(out_info, info);
      return BP_UNSUPPORTED;
    }
    sdk::write_out(out_info, info);
    return BP_OK;
  });
}

inline void free_plan(bp_device*, bp_kernel_plan* plan) { delete plan; }
inline void destroy_state(bp_device*, bp_kernel_state* state) { delete state; }

// ---- descriptors ----

inline constexpr bp_arg_rule kAnyStrides{.struct_size = sizeof(bp_arg_rule),
                                         .flags = 0,
                                         .strides = BP_STRIDES_ANY,
                                         .alignment_bytes = 0};
inline constexpr const bp_arg_rule* kAnyStridesRules[] = {&kAnyStrides};

/// A descriptor with what all kernels of this plugin share. Without further rules its inputs are
/// contiguous. masks: an array that lives as long as the plugin.
template <size_t MaskCount>
constexpr bp_kernel described_kernel(std::string_view name, std::string_view op,
                                     const uint64_t (&masks)[MaskCount]) {
  bp_kernel kernel{};
  kernel.struct_size = sizeof(bp_kernel);
  kernel.name = sdk::str(name);
  kernel.op = sdk::str(op);
  kernel.version_min = 1;
  kernel.version_max = 1;
  kernel.op_since = 1;
  kernel.dtype_masks = masks;
  kernel.dtype_mask_count = MaskCount;
  return kernel;
}

/// Its inputs may have any strides.
constexpr void take_any_strides(bp_kernel* kernel) {
  kernel->arg_rules = kAnyStridesRules;
  kernel->arg_rule_count = 1;
}

}  // namespace bp::cpu

#endif
