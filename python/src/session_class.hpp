// SPDX-License-Identifier: Apache-2.0
//
// The Python classes Session and _Run, and `load`.
#ifndef BACKPLANE_PYTHON_SESSION_CLASS_HPP
#define BACKPLANE_PYTHON_SESSION_CLASS_HPP

#include <nanobind/nanobind.h>

namespace bp::python {

void bind_sessions(nanobind::module_& module);

}  // namespace bp::python

#endif
