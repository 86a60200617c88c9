// SPDX-License-Identifier: Apache-2.0
//
// Inside core/passes: epilogues. Where one call can do the work of an operator and of the one
// reader of its output, it does so (OpSchema::absorb), if the device has a kernel for that call.
#ifndef BACKPLANE_CORE_PASSES_ABSORB_READERS_HPP
#define BACKPLANE_CORE_PASSES_ABSORB_READERS_HPP

#include "core/passes/passes.hpp"

namespace bp {

/// Drops what is absorbed. Nothing where `has_kernel` is empty. Errors: what inference finds.
Status absorb_readers(Graph* graph, const HasKernelFn& has_kernel);

}  // namespace bp

#endif
