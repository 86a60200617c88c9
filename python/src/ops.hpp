// SPDX-License-Identifier: Apache-2.0
//
// The one generic operator call of the extension; backplane/ops.py, which is generated, has a
// function for each operator over it.
#ifndef BACKPLANE_PYTHON_OPS_HPP
#define BACKPLANE_PYTHON_OPS_HPP

#include <nanobind/nanobind.h>

namespace bp::python {

namespace nb = nanobind;

void bind_operators(nb::module_& module);

}  // namespace bp::python

#endif
