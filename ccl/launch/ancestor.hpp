// SPDX-License-Identifier: Apache-2.0
//
// Linux: /proc. Which process started the ranks of this host, for launchers that give a job no
// name: MPICH's mpiexec.
#ifndef BACKPLANE_CCL_LAUNCH_ANCESTOR_HPP
#define BACKPLANE_CCL_LAUNCH_ANCESTOR_HPP

#include <string>
#include <string_view>

#include "core/base/status.hpp"

namespace bp::ccl {

/// The nearest ancestor that was not started with the variable in its environment, as ranks and the
/// shells round them are: "1234-5678", its number and when it began. Errors: UNAVAILABLE where this
/// cannot be told.
Result<std::string> nearest_ancestor_without(std::string_view variable);

}  // namespace bp::ccl

#endif
