// SPDX-License-Identifier: Apache-2.0
//
// The kernels of an open device, as the core may use them.
#ifndef BACKPLANE_CORE_DEVICE_KERNEL_LIST_HPP
#define BACKPLANE_CORE_DEVICE_KERNEL_LIST_HPP

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "backplane/device_api.h"
#include "core/base/status.hpp"
#include "core/device/device_table.hpp"

namespace bp {

class LoadedPlugin;

/// One usable kernel of a device: a masked copy of the plugin's descriptor, zeros where the plugin
/// is older than the core. It only moves, since kernel.dtype_masks points into it.
struct KernelRecord {
  KernelRecord() = default;
  KernelRecord(KernelRecord&&) = default;
  KernelRecord& operator=(KernelRecord&&) = default;

  const bp_kernel* original = nullptr;  // what queries and launches carry; the plugin's memory
  bp_kernel kernel{};                   // arg_rules is null here
  std::vector<uint64_t> dtype_masks;
  std::vector<bp_arg_rule> arg_rules;  // inputs beyond take the last one; empty: all zero rules
  std::string name;                    // for people: kernel.name, bounded and cleaned
  std::string_view op;                 // kernel.op
};

struct KernelList {
  std::vector<KernelRecord> kernels;  // in the plugin's preference order
  /// One for each kind of refusal: "kernel 3 (conv_f32) and 16 more: launch is missing". Each is
  /// logged too.
  std::vector<std::string> refused;
  /// Of the first operators that a refused kernel was for: its line.
  std::map<std::string, std::string, std::less<>> refused_by_op;
};

/// Asks an open device for its kernels and checks every descriptor; a bad one is left out, by name.
/// Errors: the plugin's own; INTERNAL for a list that cannot be read. Any thread.
Result<KernelList> list_kernels(const LoadedPlugin& plugin, const DeviceTable& device);
/// The check behind list_kernels, for lists that come from elsewhere. `owner`: "npu:0".
Result<KernelList> validate_kernels(std::string_view owner, const bp_kernel_list& list);

}  // namespace bp

#endif
