// SPDX-License-Identifier: Apache-2.0
//
// The one door from the core to the operators: an explicit call, so that a Runtime knows exactly
// the operators that its maker gave it.
#ifndef BACKPLANE_OPS_REGISTER_HPP
#define BACKPLANE_OPS_REGISTER_HPP

#include <span>

#include "core/base/status.hpp"
#include "core/op/schema.hpp"

namespace bp {

/// Every operator of ops/defs, by id. Static data (generated).
std::span<const OpSchema> all_schemas();

/// Adds them all. Errors: INVALID_ARGUMENT if a name or id is there already; the operators before
/// it stay added.
Status register_ops(OpRegistry* registry);

}  // namespace bp

#endif
