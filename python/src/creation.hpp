// SPDX-License-Identifier: Apache-2.0
//
// Functions of the package that make tensors.
#ifndef BACKPLANE_PYTHON_CREATION_HPP
#define BACKPLANE_PYTHON_CREATION_HPP

#include <nanobind/nanobind.h>

namespace bp::python {

namespace nb = nanobind;

void bind_creation(nb::module_& module);

}  // namespace bp::python

#endif
