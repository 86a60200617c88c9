// SPDX-License-Identifier: Apache-2.0
//
// Selection: which kernels of a device can run an operator with these dtypes, ranks and attributes,
// in order of preference, and for each other one why not.
#include <algorithm>
#include <new>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/base/float_environment.hpp"
#include "core/base/foreign_text.hpp"
#include "core/base/log.hpp"
#include "core/device/kernel_list.hpp"
#include "core/dispatch/query.hpp"

namespace bp {
namespace {

bool inner_dense(const ArgType& input) {
  for (size_t i = 0; i < input.sizes.size(); ++i) {
    if (input.sizes[i] <= 1) continue;
    if (input.strides[i] < 0) return false;
    if (i + 1 == input.sizes.size() && input.strides[i] != 1) return false;
  }
  return true;
}

bool strides_fit(uint32_t stride_class, const ArgType& input) {
  switch (stride_class) {
    case BP_STRIDES_ANY:
      return true;
    case BP_STRIDES_NON_NEGATIVE:
      for (size_t i = 0; i < input.sizes.size(); ++i) {
        if (input.sizes[i] > 1 && input.strides[i] < 0) return false;
      }
      return true;
    case BP_STRIDES_INNER_DENSE:
      return inner_dense(input);
    case BP_STRIDES_DENSE:
      return is_contiguous(input.sizes, input.strides) ||
             (element_count(input.sizes) > 0 && is_dense(input.sizes, input.strides));
    default:
      return is_contiguous(input.sizes, input.strides);
  }
}

uint32_t needed_since(const CallQuery& call) {
  std::vector<uint32_t> dtypes;
  for (const ArgType& input : call.inputs) dtypes.push_back(input.dtype);
  return needed_since(call.schema, dtypes, call.attributes);
}

uint32_t dtype_of_var(const CallQuery& call, size_t var) {
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (call.schema.input(i).type_var == static_cast<int32_t>(var) &&
        call.inputs[i].dtype != BP_DTYPE_NONE) {
      return call.inputs[i].dtype;
    }
  }
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    if (call.schema.output(i).type_var == static_cast<int32_t>(var)) return call.outputs[i].dtype;
  }
  return BP_DTYPE_NONE;
}

std::string selection_key(const CallQuery& call) {
  std::string key;
  key.reserve(256);
  const auto put = [&key](uint64_t value) {
    key.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  put(uint64_t{call.op} << 2 | (call.mode.out_strides.empty() ? 0 : 2) |
      (call.mode.deterministic ? 1 : 0));
  for (const ArgType& input : call.inputs) put(input.dtype << 8 | input.sizes.size());
  for (const TensorType& output : call.outputs) put(output.dtype << 8 | output.sizes.size());
  return key + call.attributes.to_string();
}

}  // namespace

bp_arg_rule arg_rule(const KernelRecord& record, size_t index) {
  if (record.arg_rules.empty()) return {};
  return record.arg_rules[std::min(index, record.arg_rules.size() - 1)];
}

KernelQuery::KernelQuery(const KernelRecord& record, const CallQuery& call, uint32_t depends_on,
                         const InputSet& contiguous) {
  const size_t count = call.inputs.size() + call.outputs.size();
  args_.resize(count);
  dims_.resize(2 * count);
  for (size_t i = 0; i < count; ++i) {
    const bool is_input = i < call.inputs.size();
    const TensorType* output = is_input ? nullptr : &call.outputs[i - call.inputs.size()];
    const Dims& sizes = is_input ? call.inputs[i].sizes : output->sizes;
    bp_arg_info& info = args_[i];
    info.struct_size = sizeof(info);
    info.dtype = is_input ? call.inputs[i].dtype : output->dtype;
    info.rank = static_cast<uint32_t>(sizes.size());
    Dims& shown_sizes = dims_[2 * i];
    shown_sizes.resize(sizes.size(), kUnknownDim);
    if ((depends_on & BP_DEPENDS_SIZES_BIT) != 0) shown_sizes = sizes;
    info.sizes = shown_sizes.data();
    if ((depends_on & BP_DEPENDS_STRIDES_BIT) != 0) {
      const bool is_view = i == call.inputs.size() && !call.mode.out_strides.empty();
      const bool dense = !is_input || contiguous.contains(i);
      dims_[2 * i + 1] = is_view ? Dims(call.mode.out_strides)
                         : dense ? contiguous_strides(sizes)
                                 : call.inputs[i].strides;
      info.strides = dims_[2 * i + 1].data();
    }
    if (is_input && call.inputs[i].is_constant && record.kernel.prepack != nullptr) {
      info.flags |= BP_INFO_CONSTANT_BIT;
    }
    if (!is_input && depends_on != 0 && chooses_order(record, call, i - call.inputs.size())) {
      info.flags |= BP_INFO_ANY_ORDER_BIT;
    }
    if (is_input && (arg_rule(record, i).flags & BP_ARG_HOST_AT_PLAN_BIT) != 0) {
      info.host_data = call.inputs[i].host_data;
    }
  }
  query_.struct_size = sizeof(query_);
  query_.kernel = record.original;
  query_.op_version = std::min(call.schema.version, record.kernel.version_max);
  query_.input_count = static_cast<uint32_t>(call.inputs.size());
  query_.output_count = static_cast<uint32_t>(call.outputs.size());
  query_.arg_stride_bytes = sizeof(bp_arg_info);
  query_.args = args_.data();
  query_.attributes = call.attributes.data();
  query_.attributes_bytes = call.schema.attrs_bytes;
}

std::string refuse_by_descriptor(const KernelRecord& record, const CallQuery& call) {
  const bp_kernel& kernel = record.kernel;
  if (call.mode.deterministic && (kernel.flags & BP_KERNEL_DETERMINISTIC_BIT) == 0) {
    return "does not promise equal bits on a rerun, and the call is deterministic";
  }
  if (!call.mode.out_strides.empty() && (kernel.flags & BP_KERNEL_STRIDED_OUTPUTS_BIT) == 0) {
    return "writes contiguous outputs only";
  }
  // A version only adds: a call without what is new is one of the versions before.
  const uint32_t since = needed_since(call);
  if (call.schema.version < kernel.version_min || since > kernel.version_max) {
    return "computes versions " + std::to_string(kernel.version_min) + " to " +
           std::to_string(kernel.version_max) + ", not " + std::to_string(since);
  }
  if (kernel.op_since < since) {
    return "was built before an argument or attribute of version " + std::to_string(since);
  }
  if (kernel.dtype_mask_count != call.schema.type_vars.size()) {
    return "has " + std::to_string(kernel.dtype_mask_count) + " dtype sets, the operator has " +
           std::to_string(call.schema.type_vars.size());
  }
  for (size_t var = 0; var < call.schema.type_vars.size(); ++var) {
    const uint32_t dtype = dtype_of_var(call, var);
    if (dtype == BP_DTYPE_NONE || (kernel.dtype_masks[var] & BP_DTYPE_BIT(dtype)) != 0) continue;
    return std::string(call.schema.type_vars[var].name) + " is " + std::string(dtype_name(dtype)) +
           ", takes " + dtype_set_name(kernel.dtype_masks[var]);
  }
  return {};
}

CallSizes::CallSizes(const CallQuery& call) {
  for (const ArgType& input : call.inputs) {
    sizes_.push_back(input.dtype == BP_DTYPE_NONE ? nullptr : &input.sizes);
  }
  for (const TensorType& output : call.outputs) sizes_.push_back(&output.sizes);
}

std::string refuse_by_kernel(Device& device, const KernelRecord& record, const CallQuery& call,
                             SizeRanges* out_ranges) {
  if (record.kernel.supports == nullptr) return {};
  const KernelQuery query(record, call, 0, {});
  bp_support support{};
  support.struct_size = sizeof(support);
  bp_status code = BP_OK;
  {
    const KeepFloatEnvironment arithmetic;
    code = device.table().supports(record.kernel, *query.get(), &support);
  }
  if (code != BP_OK) {
    const Status failure = device.failure(code, Slot::kSupports, &record.kernel);
    // No memory to look is no answer: kept, it would rule the kernel out for good.
    if (failure.code() == BP_OUT_OF_MEMORY) throw NoMemory(failure);
    if (!device.table().gate->is_abandoned()) {
      log(BP_LOG_WARNING, failure.to_string() + "; that counts as no");
    }
    return failure.to_string();
  }
  if (support.answer == BP_SUPPORT_YES || support.answer == BP_SUPPORT_DEPENDS) {
    auto ranges = read_size_ranges(support, CallSizes(call));
    if (ranges.ok()) {
      *out_ranges = std::move(*ranges);
      return {};
    }
    const Status failure = ranges.status().with_prefix(
        device.table().gate->call_name(Slot::kSupports, &record.kernel));
    log(BP_LOG_WARNING, failure.to_string() + "; that counts as no");
    return failure.to_string();
  }
  std::string reason = foreign_text(support.reason);
  return reason.empty() ? "says no without a reason" : reason;
}

bool chooses_order(const KernelRecord& record, const CallQuery& call, size_t index) {
  const bp_kernel& kernel = record.kernel;
  return index < 32 && ((call.mode.any_order_outputs >> index) & 1) != 0 &&
         (kernel.flags & BP_KERNEL_CHOOSES_ORDER_BIT) != 0 &&
         (kernel.depends_on & BP_DEPENDS_SIZES_BIT) != 0 &&
         dtype_bits(call.outputs[index].dtype) >= 8 && element_count(call.outputs[index].sizes) > 0;
}

InputSet inputs_to_make_contiguous(const KernelRecord& record, const CallQuery& call) {
  InputSet found;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const ArgType& input = call.inputs[i];
    if (input.dtype == BP_DTYPE_NONE) continue;
    const bp_arg_rule rule = arg_rule(record, i);
    if ((rule.flags & kHostArgBits) != 0) continue;
    const uint64_t alignment = std::max<uint64_t>(rule.alignment_bytes, 1);
    if (!strides_fit(rule.strides, input) || input.offset_bytes % alignment != 0) found.add(i);
  }
  return found;
}

bool Dispatcher::has_kernel(OpId op, std::span<const TensorType> inputs,
                            std::span<const TensorType> outputs, const Attributes& attributes,
                            CallMode mode, const DimRangeFn& range_of) {
  std::vector<ArgType> args(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dtype == BP_DTYPE_NONE) continue;
    if (!inputs[i].has_rank) return false;
    args[i].dtype = inputs[i].dtype;
    args[i].sizes = inputs[i].sizes;
  }
  const CallQuery call{registry_.schema(op), op, args, outputs, attributes, mode};
  const Selection selection = select(call);
  const CallSizes sizes(call);
  return std::ranges::any_of(selection.candidates, [&](const Candidate& candidate) {
    return may_be_inside(candidate.ranges, sizes, range_of);
  });
}

Dispatcher::Selection Dispatcher::select(const CallQuery& call) {
  const std::string key = selection_key(call);
  {
    std::lock_guard lock(mutex_);
    if (const auto found = selections_.find(key); found != selections_.end()) {
      return *found->second;
    }
  }
  // supports() is foreign code: it is asked without the lock, and the first answer stored wins.
  auto selection = std::make_unique<Selection>();
  size_t refused = 0;
  for (const KernelRecord* record : kernels_by_op_[call.op]) {
    SizeRanges ranges;
    std::string reason = refuse_by_descriptor(*record, call);
    if (reason.empty()) reason = refuse_by_kernel(device_, *record, call, &ranges);
    if (reason.empty()) {
      selection->candidates.push_back({record, std::move(ranges)});
      continue;
    }
    if (++refused > kMostReasons) continue;
    if (!selection->reasons.empty()) selection->reasons += "; ";
    selection->reasons += std::string(record->name) + " " + reason;
  }
  if (refused > kMostReasons) {
    selection->reasons += "; and " + std::to_string(refused - kMostReasons) + " kernels more";
  }
  if (kernels_by_op_[call.op].empty()) {
    selection->reasons = "no kernel for this operator";
    const auto left_out = kernels_.refused_by_op.find(call.schema.name);
    if (left_out != kernels_.refused_by_op.end()) {
      selection->reasons += "; left out: " + left_out->second;
    }
    if (!list_failure_.empty()) selection->reasons += "; " + list_failure_;
  }
  std::lock_guard lock(mutex_);
  // Attributes are part of the key, and some programs never run out of new ones.
  if (selections_.size() >= kSelectionLimit) selections_.clear();
  return *selections_.emplace(key, std::move(selection)).first->second;
}

}  // namespace bp
