// SPDX-License-Identifier: Apache-2.0
//
// Kernels: descriptors, the list of them, and the launch slot. A kernel is one file: a function, a
// constexpr bp_kernel array made with describe(), and BP_SDK_KERNELS (kernels.h).
#ifndef BACKPLANE_SDK_KERNEL_HPP
#define BACKPLANE_SDK_KERNEL_HPP

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "backplane/kernel.h"
#include "backplane/sdk/kernels.h"
#include "backplane/sdk/slot.hpp"
#include "backplane/types.h"

namespace bp::sdk {

/// A set of dtypes for bp_kernel.dtype_masks.
constexpr uint64_t dtypes(std::initializer_list<uint32_t> codes) {
  uint64_t mask = 0;
  for (uint32_t code : codes) mask |= BP_DTYPE_BIT(code);
  return mask;
}

/// Bytes of one element; 0 for sub-byte and unknown dtypes.
constexpr uint64_t dtype_bytes(uint32_t dtype) {
  switch (dtype) {
    case BP_DTYPE_BOOL:
    case BP_DTYPE_I8:
    case BP_DTYPE_U8:
    case BP_DTYPE_F8E4M3FN:
    case BP_DTYPE_F8E5M2:
    case BP_DTYPE_F8E4M3FNUZ:
    case BP_DTYPE_F8E5M2FNUZ:
    case BP_DTYPE_F8E8M0:
      return 1;
    case BP_DTYPE_I16:
    case BP_DTYPE_U16:
    case BP_DTYPE_F16:
    case BP_DTYPE_BF16:
      return 2;
    case BP_DTYPE_I32:
    case BP_DTYPE_U32:
    case BP_DTYPE_F32:
      return 4;
    case BP_DTYPE_I64:
    case BP_DTYPE_U64:
    case BP_DTYPE_F64:
    case BP_DTYPE_C64:
      return 8;
    case BP_DTYPE_C128:
      return 16;
    default:
      return 0;
  }
}

inline int64_t element_count(const bp_tensor& tensor) {
  int64_t count = 1;
  for (uint32_t i = 0; i < tensor.rank; ++i) count *= tensor.sizes[i];
  return count;
}

/// The product of factors from 0; INT64_MAX where it does not fit. For costs that multiply sizes of
/// several tensors or of attributes: beside a 0 a model may claim any, and the core checks only the
/// product of the sizes of one tensor.
constexpr int64_t saturating_product(std::initializer_list<int64_t> factors) {
  int64_t product = 1;
  for (const int64_t factor : factors) {
    product = factor != 0 && product > INT64_MAX / factor ? INT64_MAX : product * factor;
  }
  return product;
}

inline constexpr bp_arg_rule kAnyStridesRule{.struct_size = sizeof(bp_arg_rule),
                                             .flags = 0,
                                             .strides = BP_STRIDES_ANY,
                                             .alignment_bytes = 0};
/// For KernelTraits::arg_rules: every argument with any strides.
inline constexpr const bp_arg_rule* kAnyStrides[] = {&kAnyStridesRule};

/// What differs from kernel to kernel; bp_kernel says what each means. All that it points to lives
/// as long as the plugin.
struct KernelTraits {
  std::string_view name;
  std::string_view op;
  std::span<const uint64_t> dtypes;                    // one set per type variable
  std::span<const bp_arg_rule* const> arg_rules = {};  // none: contiguous inputs
  uint32_t flags = BP_KERNEL_DETERMINISTIC_BIT;
  int32_t priority = 0;
  uint32_t depends_on = 0;
  uint32_t version_min = 1;  // of the operator
  uint32_t version_max = 1;
  uint32_t op_since = 1;  // of the newest argument or attribute that the kernel knows
  decltype(bp_kernel::supports) supports = nullptr;
  decltype(bp_kernel::plan) plan = nullptr;
  decltype(bp_kernel::plan_free) plan_free = nullptr;
  decltype(bp_kernel::launch) launch = nullptr;
  decltype(bp_kernel::state_create) state_create = nullptr;
  decltype(bp_kernel::state_destroy) state_destroy = nullptr;
  decltype(bp_kernel::prepack_query) prepack_query = nullptr;
  decltype(bp_kernel::prepack) prepack = nullptr;
  uint64_t in_place_inputs = 0;
};

/// A descriptor of this ABI.
constexpr bp_kernel describe(const KernelTraits& traits) {
  bp_kernel kernel{};
  kernel.struct_size = sizeof(bp_kernel);
  kernel.flags = traits.flags;
  kernel.name = str(traits.name);
  kernel.op = str(traits.op);
  kernel.version_min = traits.version_min;
  kernel.version_max = traits.version_max;
  kernel.op_since = traits.op_since;
  kernel.priority = traits.priority;
  kernel.dtype_masks = traits.dtypes.data();
  kernel.dtype_mask_count = static_cast<uint32_t>(traits.dtypes.size());
  kernel.arg_rule_count = static_cast<uint32_t>(traits.arg_rules.size());
  kernel.arg_rules = traits.arg_rules.data();
  kernel.depends_on = traits.depends_on;
  kernel.supports = traits.supports;
  kernel.plan = traits.plan;
  kernel.plan_free = traits.plan_free;
  kernel.launch = traits.launch;
  kernel.state_create = traits.state_create;
  kernel.state_destroy = traits.state_destroy;
  kernel.prepack_query = traits.prepack_query;
  kernel.prepack = traits.prepack;
  kernel.in_place_inputs = traits.in_place_inputs;
  return kernel;
}

/// Every kernel of the plugin's KERNELS, in their order.
inline std::vector<const bp_kernel*> all_kernels() {
  std::vector<const bp_kernel*> kernels(bp_sdk_kernel_count());
  bp_sdk_list_kernels(kernels.data());
  return kernels;
}

/// The kernel table of a plugin whose bp_device, complete where this is used, has a function
/// kernels() that gives the vector which the device keeps; a template since that type is not known
/// here.
template <class Device>
struct KernelSlots {
  static bp_status kernel_list(bp_device* device, bp_kernel_list* out_list) {
    return slot("kernel_list", static_cast<const Device*>(device), {out_list}, [&] {
      const std::vector<const bp_kernel*>& kernels = static_cast<Device*>(device)->kernels();
      bp_kernel_list list{};
      list.kernels = kernels.data();
      list.kernel_count = kernels.size();
      write_out(out_list, list);
    });
  }
  static constexpr bp_kernel_api kTable{sizeof(bp_kernel_api), 0, kernel_list};
};

/// bp_kernel.launch around a function that takes a reference to whole arguments: all members up to
/// out_extents are of the oldest ABI that plugins of this SDK serve.
template <bp_status (*Launch)(const bp_launch_args&)>
bp_status launch_slot(const bp_launch_args* args) {
  if (args == nullptr || !BP_SDK_HAS(args, out_extents)) [[unlikely]]
    return BP_INVALID_ARGUMENT;
  return slot("launch", args->device, {args->tensors}, [args] { return Launch(*args); });
}

}  // namespace bp::sdk

#endif
