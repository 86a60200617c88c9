// SPDX-License-Identifier: Apache-2.0
//
// When constants come to a device. A weight that every kernel takes packed is read once, where the
// model's file is mapped, and takes no other memory.
#include "core/plan/planner.hpp"

namespace bp {

bool is_used_in_place(const HostTensor& constant) {
  constexpr uintptr_t kInPlaceAlignment = 64;
  return constant.bytes > 0 && reinterpret_cast<uintptr_t>(constant.data) % kInPlaceAlignment == 0;
}

Result<PlanValue> constant_value(const PlanRequest& request,
                                 const std::shared_ptr<const HostTensor>& known, PlanDevice where) {
  PlanValue planned;
  planned.kind = PlanValueKind::kConstant;
  planned.device = where;
  planned.dtype = known->dtype;
  planned.sizes = known->sizes;
  planned.strides = contiguous_strides(known->sizes);
  if (request.devices[where]->has_host_memory()) {
    // As it will lie once it is brought: in place, or in memory of its own.
    const auto address = reinterpret_cast<uintptr_t>(known->data);
    planned.offset_bytes = is_used_in_place(*known) ? static_cast<int64_t>(address % 256) : 0;
    planned.source = known;
    return planned;
  }
  BP_TRY_ASSIGN(planned.constant, request.constant(known, *request.devices[where]));
  planned.offset_bytes = static_cast<int64_t>(planned.constant->offset_bytes() % 256);
  return planned;
}

Status bring_constants(const PlanRequest& request, Segment* segment) {
  const auto bring = [&](PlanValueId id) -> Status {
    if (id == kNoPlanValue) return {};
    PlanValue* base = &segment->values[id];
    if (base->kind == PlanValueKind::kView) base = &segment->values[base->base];
    if (base->source == nullptr || base->constant != nullptr) return {};
    BP_TRY_ASSIGN(base->constant, request.constant(base->source, *request.devices[base->device]));
    return {};
  };
  for (const Step& step : segment->steps) {
    for (const PlanValueId id : step.args) BP_TRY(bring(id));
  }
  for (const LiveOut& out : segment->live_outs) BP_TRY(bring(out.plan_value));
  return {};
}

}  // namespace bp
