// SPDX-License-Identifier: Apache-2.0
//
// Writing into memory that a tensor has already: what a view of it gets, its base shows.
#ifndef BACKPLANE_CORE_DISPATCH_ASSIGN_HPP
#define BACKPLANE_CORE_DISPATCH_ASSIGN_HPP

#include "core/base/status.hpp"
#include "core/runtime/tensor.hpp"

namespace bp {

/// Writes the values of `source` into `target`, whatever its strides: a source with fewer
/// dimensions or sizes of 1 is repeated, as operators do. `stream` is of the target's device. A
/// source that shares memory with the target is read before that is written. Waits if the source
/// lies elsewhere, or if no kernel of the device writes into views: then the host device does,
/// which is counted as a fallback, and writes the memory between the elements anew with what was
/// there. Errors: INVALID_ARGUMENT for another dtype, sizes that do not fit, a target that is
/// read-only or whose elements share memory; UNSUPPORTED; those of the work that made either one.
/// After an error of the device the target's values are undefined.
Status assign(const Ref<Tensor>& source, const Ref<Tensor>& target, Stream& stream);

}  // namespace bp

#endif
