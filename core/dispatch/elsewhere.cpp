// SPDX-License-Identifier: Apache-2.0
//
// The order of the devices that are asked, and the words for those that refuse.
#include "core/dispatch/elsewhere.hpp"

#include "core/runtime/runtime.hpp"

namespace bp {

Result<Elsewhere> route_elsewhere(const RefusedCall& call, const ResolveOn& resolve) {
  Runtime& runtime = call.device.runtime();
  std::string words = "operator " + std::string(call.op) + " does not run on " +
                      call.device.name() + " (" + std::string(call.reason) + ")";
  for (size_t i = 0; i < call.others.size(); ++i) {
    if (call.others[i] == &call.device) continue;
    if (!call.is_chosen && runtime.fallback_mode() == FallbackMode::kDeny) {
      return Status(BP_UNSUPPORTED, words + " and BACKPLANE_FALLBACK is deny").with_op(call.op);
    }
    BP_TRY_ASSIGN(std::shared_ptr<const Route> route, resolve(i));
    if (route->kind != RouteKind::kFallback) return Elsewhere{i, std::move(route)};
    words += ", nor on " + call.others[i]->name() + " (" + route->reason + ")";
  }
  if (runtime.host_device() == nullptr) words += " and no host device is loaded";
  return Status(BP_UNSUPPORTED, words).with_op(call.op);
}

}  // namespace bp
