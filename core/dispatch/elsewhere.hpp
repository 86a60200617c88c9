// SPDX-License-Identifier: Apache-2.0
//
// What eager calls and plans do alike where a device has no kernel: which other device takes the
// operator, and how a strided value becomes contiguous by way of the host device.
#ifndef BACKPLANE_CORE_DISPATCH_ELSEWHERE_HPP
#define BACKPLANE_CORE_DISPATCH_ELSEWHERE_HPP

#include <functional>
#include <memory>
#include <span>

#include "core/dispatch/dispatcher.hpp"
#include "core/runtime/runtime.hpp"

namespace bp {

/// An operator that a device has no way to run.
struct RefusedCall {
  std::string_view op;
  Device& device;
  std::string_view reason;
  /// Where else it may go, in order of preference; `device` is passed over.
  std::span<Device* const> others;
  /// The user listed `others`, so BACKPLANE_FALLBACK is not asked.
  bool is_chosen = false;
};

/// The operator's route on others[index].
using ResolveOn = std::function<Result<std::shared_ptr<const Route>>(size_t index)>;

struct Elsewhere {
  size_t index = 0;
  std::shared_ptr<const Route> route;
};

/// The first other device that has a way. Errors: UNSUPPORTED with the reason of each device;
/// those of `resolve`.
Result<Elsewhere> route_elsewhere(const RefusedCall& call, const ResolveOn& resolve);

/// The value contiguous on `device`, where it lies. Way::by_kernel(value) copies it there by a
/// kernel, UNSUPPORTED without one; then it goes through the host device by Way::to_host(),
/// Way::is_dense() and Way::from_host().
template <class Value, class Way>
Result<Value> make_contiguous_by(const Way& way, Device& device, const Value& value) {
  Result<Value> dense = way.by_kernel(value);
  Device* const host = device.runtime().host_device();
  const bool host_helps =
      !dense.ok() && dense.status().code() == BP_UNSUPPORTED && host != nullptr && host != &device;
  if (!host_helps) return dense;
  BP_TRY_ASSIGN(Value there, way.to_host(value, dense.status()));
  if (!way.is_dense(there)) {
    BP_TRY_ASSIGN(there, way.by_kernel(there));
  }
  return way.from_host(there);
}

}  // namespace bp

#endif
