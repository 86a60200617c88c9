// SPDX-License-Identifier: Apache-2.0
//
// The buffer protocol, as the Python part of numpy() uses it.
#ifndef BACKPLANE_PYTHON_BUFFERS_HPP
#define BACKPLANE_PYTHON_BUFFERS_HPP

#include <nanobind/nanobind.h>

namespace bp::python {

namespace nb = nanobind;

void bind_buffers(nb::module_& module);

}  // namespace bp::python

#endif
