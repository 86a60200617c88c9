// SPDX-License-Identifier: Apache-2.0
//
// Where the planner gets a node's values from: constants, packed constants, copies between devices
// and contiguous copies. See segment_planner.hpp.
#include "core/base/dtype.hpp"
#include "core/dispatch/call.hpp"
#include "core/dispatch/elsewhere.hpp"
#include "core/plan/segment_planner.hpp"
#include "core/runtime/runtime.hpp"

namespace bp {

bool Planner::stays_constant(const Scope& scope, ValueId value, const PlanValue& planned,
                             PlanDevice where) const {
  const PlanValue& base =
      planned.kind == PlanValueKind::kView ? segment_->values[planned.base] : planned;
  // What is made elsewhere of a constant comes by a copy, at each run.
  const bool comes = planned.device == where || scope.graph.value(value).constant != nullptr;
  return base.kind == PlanValueKind::kConstant && comes && request_.packed;
}

Result<PlanValueId> Planner::pack(const PlannedKernel& kernel, const PackedInput& input,
                                  PlanValueId constant) {
  PlanValue packed = segment_->values[constant];
  const PlanValue& base = segment_->values[base_of(constant)];
  BP_TRY_ASSIGN(packed.constant,
                request_.packed({kernel, input, base.source, base.constant, packed.dtype,
                                 packed.sizes, packed.strides,
                                 packed.kind == PlanValueKind::kView ? packed.offset_bytes : 0}));
  if (kernel.contiguous_inputs().contains(input.index)) {
    packed.strides = contiguous_strides(packed.sizes);
  }
  packed.kind = PlanValueKind::kConstant;
  packed.source = nullptr;
  packed.base = kNoPlanValue;
  packed.offset_bytes = 0;
  return new_value(std::move(packed));
}

Result<PlanValueId> Planner::value_on(Scope& scope, ValueId value, PlanDevice where) {
  const PlanValueIds places = scope.places(value);
  if (places[where] != kNoPlanValue) return places[where];
  const PlanValueId elsewhere = places[place_near(places, where)];
  const auto known = elsewhere == kNoPlanValue || scope.graph.value(value).constant != nullptr
                         ? host_value(scope, value)
                         : nullptr;
  if (known != nullptr) {
    BP_TRY_ASSIGN(PlanValue planned, constant_value(request_, known, where));
    return places[where] = new_value(std::move(planned));
  }
  if (elsewhere == kNoPlanValue) {
    return Status(BP_INTERNAL, "value '" + scope.graph.value(value).name + "' has no memory");
  }
  BP_TRY_ASSIGN(const PlanValueId brought, bring_value(elsewhere, where));
  return places[where] = brought;
}

/// What lies in the model's own memory is no memory of the device, whose copies need not take it:
/// the other device gets the constant itself.
Result<PlanValueId> Planner::bring_value(PlanValueId from, PlanDevice where) {
  const auto constant = segment_->values[base_of(from)].source;
  if (constant == nullptr) return copy_value(from, where);
  BP_TRY_ASSIGN(PlanValue base, constant_value(request_, constant, where));
  const PlanValueId base_id = new_value(std::move(base));
  if (segment_->values[from].kind != PlanValueKind::kView) return base_id;
  PlanValue view = segment_->values[from];
  view.device = where;
  view.base = base_id;
  return new_value(std::move(view));
}

Result<PlanValueId> Planner::copy_value(PlanValueId from, PlanDevice where) {
  const PlanValue source = segment_->values[from];
  if (!device(source.device).is_host_like() && !device(where).is_host_like()) {
    if (request_.host == kNoPlanDevice) {
      return Status(BP_UNSUPPORTED, "no host device is loaded to copy through between " +
                                        device(source.device).name() + " and " +
                                        device(where).name());
    }
    BP_TRY_ASSIGN(const PlanValueId through, copy_value(from, request_.host));
    return copy_value(through, where);
  }
  const bool whole =
      source.kind != PlanValueKind::kView && is_contiguous(source.sizes, source.strides);
  if (!whole) return copy_range(from, where);
  return add_copy(from, new_memory(where, source.dtype, source.sizes));
}

// A view, or a strided tensor from outside, takes along all bytes that its base lies in, as copies
// of tensors do. So strides and alignment stay those that its users were planned for.
Result<PlanValueId> Planner::copy_range(PlanValueId from, PlanDevice where) {
  const PlanValueId base_id = base_of(from);
  const PlanValue base = segment_->values[base_id];
  const auto bits = static_cast<int64_t>(dtype_bits(base.dtype));
  const ElementRange range = element_range(base.sizes, base.strides);
  PlanValue source;
  source.kind = PlanValueKind::kView;
  source.device = base.device;
  source.dtype = base.dtype;
  source.sizes = {range.count};
  source.strides = {1};
  source.bytes = dtype_storage_bytes(base.dtype, range.count);
  source.base = base_id;
  source.offset_bytes = range.lowest * bits / 8;
  const auto lead = static_cast<int64_t>(alignment_of(source)) * 8 / bits;
  PlanValue target = source;
  target.device = where;
  target.base = new_memory(where, base.dtype, {lead + range.count});
  target.offset_bytes = lead * bits / 8;
  PlanValue copy = segment_->values[from];
  copy.offset_bytes = (copy.kind == PlanValueKind::kView ? copy.offset_bytes : 0) +
                      target.offset_bytes - source.offset_bytes;
  copy.kind = PlanValueKind::kView;
  copy.device = where;
  copy.base = target.base;
  copy.live_in = kNoValue;
  const PlanValueId source_id = new_value(std::move(source));
  add_copy(source_id, new_value(std::move(target)));
  return new_value(std::move(copy));
}

PlanValueId Planner::add_copy(PlanValueId from, PlanValueId to) {
  Step step;
  step.kind = StepKind::kCopy;
  step.node = node_;
  step.device = segment_->values[to].device;
  step.args = {from, to};
  segment_->steps.push_back(std::move(step));
  return to;
}

/// Into contiguous memory of the same device. Errors: UNSUPPORTED.
Result<PlanValueId> Planner::copy_by_kernel(PlanValueId from) {
  const PlanValue source = segment_->values[from];
  Device& on = device(source.device);
  auto planned = plan_copy(on, {.dtype = source.dtype,
                                .sizes = source.sizes,
                                .strides = source.strides,
                                .offset_bytes = alignment_of(source),
                                .host_data = nullptr});
  if (planned.status().code() == BP_UNSUPPORTED) {
    return Status(BP_UNSUPPORTED, on.name() + " has no kernel that makes " +
                                      to_string(source.sizes) + " contiguous");
  }
  BP_TRY(planned);
  Step step;
  step.node = node_;
  step.device = source.device;
  step.kernel = std::move(*planned);
  step.input_count = 1;
  const PlanValueId dense = new_memory(source.device, source.dtype, source.sizes);
  step.args = {from, dense};
  segment_->steps.push_back(std::move(step));
  return dense;
}

Result<PlanValueId> Planner::make_contiguous(PlanValueId from) {
  // How make_contiguous_by() goes about plan values.
  struct Way {
    Planner& planner;
    PlanDevice where;
    bool is_dense(PlanValueId id) const {
      const PlanValue& planned = planner.segment_->values[id];
      return planned.kind != PlanValueKind::kView && is_contiguous(planned.sizes, planned.strides);
    }
    Result<PlanValueId> by_kernel(PlanValueId id) const { return planner.copy_by_kernel(id); }
    Result<PlanValueId> to_host(PlanValueId id, const Status&) const {
      return planner.bring_value(id, planner.request_.host);
    }
    Result<PlanValueId> from_host(PlanValueId id) const { return planner.copy_value(id, where); }
  };
  const PlanDevice where = segment_->values[from].device;
  return make_contiguous_by(Way{*this, where}, device(where), from);
}

/// Of the same values; made once for all who want it.
Result<PlanValueId> Planner::contiguous(PlanValueId from) {
  if (const auto found = contiguous_of_.find(from); found != contiguous_of_.end()) {
    return found->second;
  }
  BP_TRY_ASSIGN(const PlanValueId made, make_contiguous(from));
  contiguous_of_.emplace(from, made);
  return made;
}

// What a run answers is its user's, who may write it: constants' memory is for the session alone.
Result<PlanValueId> Planner::copy_constant(ValueId value, PlanValueId from) {
  const PlanValue source = segment_->values[from];
  const PlanDevice where = source.device;
  if (device(where).is_host_like() && is_contiguous(source.sizes, source.strides)) {
    return add_copy(from, new_memory(where, source.dtype, source.sizes));
  }
  auto copy = copy_by_kernel(from);
  if (copy.ok() || copy.status().code() != BP_UNSUPPORTED) return copy;
  const bool on_host = known_.find(value) != nullptr && request_.host != kNoPlanDevice;
  if (!on_host) return make_contiguous(from);
  BP_TRY_ASSIGN(const PlanValueId original, value_on(top_, value, request_.host));
  return copy_value(original, where);
}

PlanValueId Planner::new_value(PlanValue planned) {
  segment_->values.push_back(std::move(planned));
  return static_cast<PlanValueId>(segment_->values.size() - 1);
}

PlanValueId Planner::new_host_value(PlanDevice where, Ref<Tensor> tensor) {
  PlanValue planned;
  planned.kind = PlanValueKind::kHost;
  planned.device = where;
  planned.dtype = tensor->dtype();
  planned.sizes = tensor->sizes();
  planned.strides = tensor->strides();
  planned.offset_bytes = static_cast<int64_t>(tensor->offset_bytes() % 256);
  planned.constant = std::move(tensor);
  return new_value(std::move(planned));
}

PlanValueId Planner::new_memory(PlanDevice where, uint32_t dtype, const Dims& sizes) {
  PlanValue planned;
  planned.device = where;
  planned.dtype = dtype;
  planned.sizes = sizes;
  planned.strides = contiguous_strides(sizes);
  planned.bytes = dtype_storage_bytes(dtype, element_count(sizes));
  return new_value(std::move(planned));
}

PlanValueId Planner::base_of(PlanValueId id) const {
  return segment_->values[id].kind == PlanValueKind::kView ? segment_->values[id].base : id;
}

// How far element [0, ...] is from a 256-byte boundary: all that kernels' alignment rules need.
uint64_t Planner::alignment_of(const PlanValue& planned) const {
  int64_t offset = planned.offset_bytes;
  if (planned.kind == PlanValueKind::kView) offset += segment_->values[planned.base].offset_bytes;
  return static_cast<uint64_t>(offset) % 256;
}

}  // namespace bp
