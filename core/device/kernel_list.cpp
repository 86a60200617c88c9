// SPDX-License-Identifier: Apache-2.0
//
// Kernel descriptors become the core's: masked copies, zeros where the plugin is older. A bad one
// is left out by name, since the operator still runs some other way.
#include "core/device/kernel_list.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <set>
#include <span>

#include "core/base/dtype.hpp"
#include "core/base/foreign_text.hpp"
#include "core/base/log.hpp"
#include "core/plugin/foreign.hpp"
#include "core/plugin/loader.hpp"

namespace bp {
namespace {

constexpr uint64_t kMaxKernelCount = 65536;
constexpr uint32_t kMaxArrayCount = 256;
constexpr size_t kMostRefusedOps = 256;
constexpr uint32_t kMaxAlignment = 256;  // no more is known of tensors, and given to copies

// What is wrong with it in itself; nullptr: nothing.
const char* defect_of(const bp_kernel& kernel) {
  if (view(kernel.name).empty() || view(kernel.op).empty()) return "name or op is empty or no text";
  if (kernel.version_min > kernel.version_max) return "version_min is above version_max";
  if (kernel.dtype_mask_count > kMaxArrayCount) return "dtype_mask_count is above 256";
  if (kernel.arg_rule_count > kMaxArrayCount) return "arg_rule_count is above 256";
  if (!kernel.dtype_masks && kernel.dtype_mask_count != 0) return "dtype_masks is null";
  if (!kernel.arg_rules && kernel.arg_rule_count != 0) return "arg_rules is null";
  if (!is_aligned(kernel.dtype_masks)) return "dtype_masks is not aligned";
  if (!is_aligned(kernel.arg_rules)) return "arg_rules is not aligned";
  if (!kernel.launch) return "launch is missing";
  if (!kernel.plan != !kernel.plan_free) return "plan and plan_free do not come together";
  if (!kernel.state_create != !kernel.state_destroy) {
    return "state_create and state_destroy do not come together";
  }
  if (!kernel.prepack_query != !kernel.prepack) {
    return "prepack_query and prepack do not come together";
  }
  return nullptr;
}

Status read_kernel(const bp_kernel* theirs, KernelRecord* out) {
  // The functions behind launch are optional, though newer headers rely on them.
  constexpr size_t kRequired = offsetof(bp_kernel, launch) + sizeof(bp_kernel::launch);
  bp_kernel& kernel = out->kernel;
  BP_TRY(copy_versioned("bp_kernel", theirs, kRequired, &kernel));
  out->original = theirs;
  out->name = foreign_text(view(kernel.name));
  out->op = view(kernel.op);
  if (const char* defect = defect_of(kernel)) return fail(BP_INCOMPATIBLE, "{}", defect);
  for (const bp_arg_rule* their_rule : std::span(kernel.arg_rules, kernel.arg_rule_count)) {
    bp_arg_rule& rule = out->arg_rules.emplace_back();
    const std::string what = fmt::format("arg_rules[{}]", out->arg_rules.size() - 1);
    // A rule is optional to its last member: what an older plugin leaves out is zero.
    BP_TRY(copy_versioned(what, their_rule, kRequiredBytes<bp_arg_rule>, &rule));
    rule.flags &= BP_ARG_HOST_AT_PLAN_BIT | BP_ARG_HOST_AT_LAUNCH_BIT;
    const uint32_t strides = rule.strides;
    const uint32_t alignment_bytes = rule.alignment_bytes;
    if (strides > BP_STRIDES_DENSE || std::popcount(alignment_bytes) > 1 ||
        alignment_bytes > kMaxAlignment) {
      return fail(BP_INCOMPATIBLE,
                  "{}: strides {} is unknown, or alignment_bytes {} no power of two up to {}", what,
                  strides, alignment_bytes, kMaxAlignment);
    }
  }
  for (const uint64_t mask : std::span(kernel.dtype_masks, kernel.dtype_mask_count)) {
    out->dtype_masks.push_back(mask & kKnownDtypes);
  }
  kernel.flags &= BP_KERNEL_DETERMINISTIC_BIT | BP_KERNEL_CHOOSES_ORDER_BIT |
                  BP_KERNEL_CAPTURABLE_BIT | BP_KERNEL_STRIDED_OUTPUTS_BIT;
  kernel.depends_on &= BP_DEPENDS_SIZES_BIT | BP_DEPENDS_STRIDES_BIT | BP_DEPENDS_HOST_DATA_BIT;
  kernel.dtype_masks = out->dtype_masks.data();
  kernel.arg_rules = nullptr;
  return {};
}

/// What is refused, by kind: a plugin may list 65,536 kernels and have no good one.
class Refusals {
 public:
  void add(uint64_t index, std::string_view kernel, const std::string& reason) {
    const auto at = std::find_if(kinds_.begin(), kinds_.end(),
                                 [&](const Kind& kind) { return kind.reason == reason; });
    if (at != kinds_.end()) {
      ++at->count;
    } else if (kinds_.size() < kMostKinds) {
      kinds_.push_back({reason, fmt::format("{} ({})", index, kernel), 1});
    } else {
      ++others_;
    }
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    for (const Kind& kind : kinds_) {
      const std::string more = kind.count > 1 ? fmt::format(" and {} more", kind.count - 1) : "";
      lines.push_back(fmt::format("kernel {}{}: {}", kind.first, more, kind.reason));
    }
    if (others_ != 0) lines.push_back(fmt::format("the rest ({} kernels, other reasons)", others_));
    return lines;
  }

 private:
  static constexpr size_t kMostKinds = 16;
  struct Kind {
    std::string reason;
    std::string first;
    uint64_t count;
  };
  std::vector<Kind> kinds_;
  uint64_t others_ = 0;
};

}  // namespace

Result<KernelList> validate_kernels(std::string_view owner, const bp_kernel_list& list) {
  if (list.kernel_count > kMaxKernelCount || (!list.kernels && list.kernel_count != 0)) {
    return fail(BP_INTERNAL, "kernel_list: expected an array of at most {}, found {} at {}",
                kMaxKernelCount, list.kernel_count, fmt::ptr(list.kernels));
  }
  if (!is_aligned(list.kernels)) {
    return fail(BP_INTERNAL, "{}: kernel_list: the array at {} is not aligned", owner,
                fmt::ptr(list.kernels));
  }
  KernelList result;
  Refusals refusals;
  std::set<std::string_view> names;
  for (uint64_t i = 0; i < list.kernel_count; ++i) {
    KernelRecord record;
    Status status = read_kernel(list.kernels[i], &record);
    if (status.ok() && !names.insert(view(record.kernel.name)).second) {
      status = fail(BP_INCOMPATIBLE, "another kernel has that name");
    }
    if (status.ok()) {
      result.kernels.push_back(std::move(record));
      continue;
    }
    refusals.add(i, record.name, status.message());
    if (result.refused_by_op.size() < kMostRefusedOps) {
      result.refused_by_op.try_emplace(
          foreign_text(record.op),
          fmt::format("kernel {} ({}): {}", i, record.name, status.message()));
    }
  }
  result.refused = refusals.lines();
  for (const std::string& line : result.refused) {
    log(BP_LOG_WARNING, fmt::format("{}: left out: {}", owner, line));
  }
  return result;
}

Result<KernelList> list_kernels(const LoadedPlugin& plugin, const DeviceTable& device) {
  bp_kernel_list list{};
  list.struct_size = sizeof(list);
  const bp_status code = device.kernel_list(&list);
  if (code != BP_OK) {
    return plugin.host().to_status(code, device.gate->call_name(Slot::kKernelList));
  }
  return validate_kernels(device.gate->name(), list);
}

}  // namespace bp
