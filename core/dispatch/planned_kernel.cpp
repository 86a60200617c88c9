// SPDX-License-Identifier: Apache-2.0
//
// Plans: asking a selected kernel to work out everything that depends on shapes, and the life of
// what it answers with.

#include <algorithm>
#include <bit>

#include "core/base/checked.hpp"
#include "core/base/dtype.hpp"
#include "core/base/float_environment.hpp"
#include "core/base/foreign_text.hpp"
#include "core/device/kernel_list.hpp"
#include "core/dispatch/query.hpp"
#include "core/plugin/foreign.hpp"
#include "core/runtime/runtime.hpp"

namespace bp {
namespace {

/// Of what a plan asks for; 0: as aligned as memory is.
bool is_alignment(uint64_t bytes) { return std::popcount(bytes) <= 1 && bytes <= 256; }

}  // namespace

PlannedKernel::PlannedKernel(Device& device, OpId op, const KernelRecord& record,
                             Attributes attributes)
    : device_(device), op_(op), record_(record), attributes_(std::move(attributes)) {
  device_.track(this);
}

PlannedKernel::~PlannedKernel() {
  if (device_.closed()) return;
  device_.untrack(this);
  release_plugin_objects();
}

void PlannedKernel::retire(PlannedKernel* kernel) noexcept {
  std::unique_ptr<PlannedKernel> ended(kernel);
  Device& device = kernel->device_;
  const bool is_free = kernel->plan_ == nullptr && kernel->state_count_ == 0;
  if (is_free || device.closed() || !kernel->was_queued_.load(std::memory_order_relaxed)) return;
  const Status kept = contain([&] {
    std::vector<Mark> work = device.work_so_far();
    device.deferred_free().keep({.owner = std::move(ended), .last_write = {}, .last_reads = work});
  });
  // Without memory to note the work, what it may use is never let go before the device closes.
  if (!kept.ok()) [[maybe_unused]]
    const PlannedKernel* left = ended.release();
}

void PlannedKernel::release_plugin_objects() {
  for (bp_kernel_state* state : idle_states_) destroy_state(state);
  for (const auto& [stream, state] : stream_states_) destroy_state(state);
  idle_states_.clear();
  stream_states_.clear();
  if (plan_ == nullptr) return;
  const bp_status code = device_.table().plan_free(record_.kernel, plan_);
  device_.warn(code, Slot::kPlanFree, &record_.kernel);
  plan_ = nullptr;
}

std::string_view PlannedKernel::op_name() const {
  return device_.runtime().registry().schema(op_).name;
}

std::string PlannedKernel::title() const { return record_.name + " on " + device_.name(); }

Result<bp_kernel_state*> PlannedKernel::create_state() const {
  bp_kernel_state* state = nullptr;
  const DeviceTable& table = device_.table();
  bp_status code = table.state_create(record_.kernel, record_.original, plan_, &state);
  if (code == BP_OK && state == nullptr) {
    code = table.gate->bad_answer(Slot::kStateCreate, "answered OK and NULL", &record_.kernel);
  }
  if (code != BP_OK) {
    return device_.failure(code, Slot::kStateCreate, &record_.kernel).with_op(op_name());
  }
  return state;
}

void PlannedKernel::destroy_state(bp_kernel_state* state) const {
  const bp_status code = device_.table().state_destroy(record_.kernel, state);
  device_.warn(code, Slot::kStateDestroy, &record_.kernel);
}

Result<bp_kernel_state*> PlannedKernel::borrow_state(Stream& stream) {
  if (!stateful()) return nullptr;
  std::unique_lock lock(states_mutex_);
  if (stream.is_inline() && !idle_states_.empty()) {
    bp_kernel_state* state = idle_states_.back();
    idle_states_.pop_back();
    return state;
  }
  for (const auto& [owner, state] : stream_states_) {
    if (owner == &stream) return state;
  }
  lock.unlock();
  BP_TRY_ASSIGN(bp_kernel_state * made, create_state());
  lock.lock();
  const Status kept = contain([&] {
    idle_states_.reserve(++state_count_);  // all may be given back
    if (!stream.is_inline()) stream_states_.emplace_back(&stream, made);
  });
  if (kept.ok()) return made;
  lock.unlock();
  destroy_state(made);
  return kept;
}

void PlannedKernel::return_state(Stream& stream, bp_kernel_state* state) {
  if (state == nullptr || !stream.is_inline()) return;
  std::lock_guard lock(states_mutex_);
  idle_states_.push_back(state);
}

Status PlannedKernel::pack(const PackedInput& input, const bp_tensor& constant,
                           bp_mem packed) const {
  const KeepFloatEnvironment arithmetic;
  bp_prepack_args args{};
  args.struct_size = sizeof(args);
  args.kernel = record_.original;
  args.plan = plan_;
  args.input = &constant;
  args.input_index = input.index;
  args.packed = packed;
  args.packed_bytes = input.bytes;
  const bp_status code = device_.table().prepack(record_.kernel, args);
  return code == BP_OK ? Status() : device_.failure(code, Slot::kPrepack, &record_.kernel);
}

/// What the plan's packed inputs take. Errors: UNSUPPORTED for an answer that cannot be kept.
Status PlannedKernel::query_packed(uint64_t inputs, std::span<const ArgType> types) {
  const auto refuse = [this](size_t input, const std::string& words) {
    return Status(BP_UNSUPPORTED, std::string(record_.name) + " wants input " +
                                      std::to_string(input) + " packed" + words);
  };
  for (uint32_t i = 0; i < 64; ++i) {
    if ((inputs >> i & 1) == 0) continue;
    if (i >= types.size() || !types[i].is_constant || record_.kernel.prepack == nullptr) {
      return refuse(i, ", which is not shown as a constant");
    }
    bp_prepack_info info{};
    info.struct_size = sizeof(info);
    bp_status code = BP_OK;
    {
      const KeepFloatEnvironment arithmetic;
      code = device_.table().prepack_query(record_.kernel, plan_, i, &info);
    }
    if (code != BP_OK) {
      const Status failure = device_.failure(code, Slot::kPrepackQuery, &record_.kernel);
      return refuse(i, ": " + failure.to_string());
    }
    constexpr uint64_t kMostLayoutBytes = 4096;
    const bool is_layout =
        info.layout.ptr != nullptr && info.layout.len > 0 && info.layout.len <= kMostLayoutBytes;
    const uint64_t align_bytes = info.alignment_bytes;
    if (info.bytes == 0 || info.bytes > kMostBytes || !is_alignment(align_bytes) || !is_layout) {
      return refuse(i, " into " + std::to_string(info.bytes) + " bytes aligned to " +
                           std::to_string(align_bytes) + ", in a layout with a name of " +
                           std::to_string(info.layout.len) +
                           " bytes; expected at least 1 byte, a power of two up to 256, and 1 to "
                           "4096");
    }
    const uint64_t element_bytes = std::max<uint64_t>(dtype_bits(types[i].dtype) / 8, 1);
    const uint64_t alignment =
        std::max<uint64_t>(arg_rule(record_, i).alignment_bytes, element_bytes);
    packed_inputs_.push_back(
        {i, info.bytes, std::string(info.layout.ptr, info.layout.len), alignment});
  }
  return {};
}

Status PlannedKernel::take_out_strides(const int64_t* strides, const CallQuery& call) {
  if (strides == nullptr) return {};
  const std::string& name = record_.name;
  if (!is_aligned(strides)) {
    return Status(BP_UNSUPPORTED,
                  name + " lays its outputs by strides at an address that is not aligned");
  }
  bool is_plain = true;
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    const Dims& sizes = call.outputs[i].sizes;
    const std::span<const int64_t> given(strides, sizes.size());
    strides += sizes.size();
    const bool is_view = i == 0 && !call.mode.out_strides.empty();
    const Dims shown = is_view ? Dims(call.mode.out_strides) : contiguous_strides(sizes);
    const bool is_free = chooses_order(record_, call, i);
    const int64_t count = element_count(sizes);
    const auto is_sane = [&](int64_t stride) { return stride >= 1 && stride <= count; };
    const bool fits = is_free ? is_dense(sizes, given) && std::ranges::all_of(given, is_sane)
                              : std::ranges::equal(given, shown);
    if (!fits) {
      return Status(BP_UNSUPPORTED,
                    name + " lays output " + std::to_string(i) + " of sizes " + to_string(sizes) +
                        " by strides " + numbers_text(given) + ", expected " +
                        numbers_text({shown.begin(), shown.end()}) +
                        (is_free ? " or those of another order of the dimensions" : ""));
    }
    is_plain = is_plain && std::ranges::equal(given, shown);
    out_strides_.emplace_back(given);
  }
  if (is_plain) out_strides_.clear();
  return {};
}

namespace {

/// Of each output what no values change, for PlannedKernel::sure_sizes().
Result<std::vector<Dims>> sure_sizes_of(const CallQuery& call) {
  std::vector<TensorType> inputs;
  for (const ArgType& input : call.inputs) {
    inputs.push_back({.dtype = input.dtype, .has_rank = true, .sizes = input.sizes});
  }
  std::vector<TensorType> outputs;
  BP_TRY(infer_sure_types(call.schema, {inputs, {}, call.attributes.data()}, &outputs));
  std::vector<Dims> sizes;
  for (const TensorType& output : outputs) sizes.push_back(output.sizes);
  return sizes;
}

/// Why the plugin answered that it has no plan.
std::string plan_refusal(HostContext& host, const bp_plan_info& info) {
  const auto report = host.take_report();
  std::string reason = foreign_text(info.reason);
  if (reason.empty() && report) reason = report->message;
  return reason.empty() ? "is refused by its plan without a reason" : reason;
}

}  // namespace

Result<std::shared_ptr<PlannedKernel>> Dispatcher::make_plan(const KernelRecord& record,
                                                             const CallQuery& call) {
  InputSet host_inputs;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const bool is_there = call.inputs[i].dtype != BP_DTYPE_NONE;
    if (!is_there || (arg_rule(record, i).flags & kHostArgBits) == 0) continue;
    if (call.inputs[i].host_data == nullptr) {
      return Status(BP_UNSUPPORTED, std::string(record.name) + " needs input " + std::to_string(i) +
                                        " on the host");
    }
    host_inputs.add(i);
  }
  const std::shared_ptr<PlannedKernel> planned(
      new PlannedKernel(device_, call.op, record, call.attributes), &PlannedKernel::retire);
  planned->contiguous_inputs_ = inputs_to_make_contiguous(record, call);
  planned->host_inputs_ = std::move(host_inputs);
  planned->extents_ = call.schema.extents;
  if (planned->extents_) {
    BP_TRY_ASSIGN(planned->sure_sizes_, sure_sizes_of(call));
  }
  if (record.kernel.plan == nullptr) return planned;
  // The attributes of the plan are the planned kernel's own copy: the ABI promises them to the
  // plugin until plan_free.
  const CallQuery own{call.schema,          call.op,  call.inputs, call.outputs,
                      planned->attributes_, call.mode};
  const KernelQuery query(record, own, record.kernel.depends_on, planned->contiguous_inputs_);
  bp_plan_info info{};
  info.struct_size = sizeof(info);
  bp_kernel_plan* plan = nullptr;
  bp_status code = BP_OK;
  {
    const KeepFloatEnvironment arithmetic;
    code = device_.table().plan(record.kernel, *query.get(), &info, &plan);
  }
  if (code == BP_UNSUPPORTED) {
    return Status(code, record.name + " " + plan_refusal(device_.plugin().host(), info));
  }
  if (code != BP_OK) return device_.failure(code, Slot::kPlan, &record.kernel);
  planned->plan_ = plan;
  planned->can_fault_ = (info.flags & BP_PLAN_CAN_FAULT_BIT) != 0;
  planned->workspace_bytes_ = info.workspace_bytes;
  if (info.workspace_bytes > kMostBytes) {
    return Status(BP_UNSUPPORTED, std::string(record.name) + " wants a workspace of " +
                                      std::to_string(info.workspace_bytes) +
                                      " bytes, expected at most " + std::to_string(kMostBytes));
  }
  const uint64_t alignment = info.workspace_alignment_bytes;
  if (!is_alignment(alignment)) {
    return Status(BP_UNSUPPORTED,
                  std::string(record.name) + " wants its workspace aligned to " +
                      (alignment > 256 ? "more than 256" : std::to_string(alignment)) +
                      " bytes, expected a power of two up to 256");
  }
  BP_TRY(planned->query_packed(info.packed_inputs, call.inputs));
  BP_TRY(planned->take_out_strides(info.out_strides, call));
  return planned;
}

Result<std::shared_ptr<PlannedKernel>> Dispatcher::plan_kernel(OpId op,
                                                               std::span<const ArgType> inputs,
                                                               std::span<const TensorType> outputs,
                                                               const void* attributes,
                                                               CallMode mode) {
  const OpSchema& schema = registry_.schema(op);
  BP_TRY_ASSIGN(const Attributes owned, Attributes::copy_from(schema, attributes));
  const CallQuery call{schema, op, inputs, outputs, owned, mode};
  const Selection& selection = select(call);
  std::string reasons = selection.reasons;
  size_t refused = 0;
  const CallSizes sizes(call);
  const auto refuse = [&](const std::string& reason) {
    if (++refused > kMostReasons) return;
    reasons += (reasons.empty() ? "" : "; ") + reason;
  };
  for (const Candidate& candidate : selection.candidates) {
    const std::string outside = outside_words(candidate.ranges, sizes, inputs.size());
    if (!outside.empty()) {
      refuse(candidate.record->name + " " + outside);
      continue;
    }
    auto planned = make_plan(*candidate.record, call);
    if (planned.ok() || planned.status().code() != BP_UNSUPPORTED) return planned;
    refuse(planned.status().message());
  }
  if (refused > kMostReasons) {
    reasons += "; and " + std::to_string(refused - kMostReasons) + " kernels more";
  }
  return Status(BP_UNSUPPORTED, reasons);
}

}  // namespace bp
