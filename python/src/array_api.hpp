// SPDX-License-Identifier: Apache-2.0
//
// What backplane.array_api needs of tensors and cannot say in Python.
#ifndef BACKPLANE_PYTHON_ARRAY_API_HPP
#define BACKPLANE_PYTHON_ARRAY_API_HPP

#include <nanobind/nanobind.h>

namespace bp::python {

namespace nb = nanobind;

void bind_array_api(nb::module_& module);

}  // namespace bp::python

#endif
