// SPDX-License-Identifier: Apache-2.0
//
// x[key] and x[key] = value. Integers, slices, Ellipsis and None answer views; arrays of integers
// and masks answer copies.
#ifndef BACKPLANE_PYTHON_INDEXING_HPP
#define BACKPLANE_PYTHON_INDEXING_HPP

#include <nanobind/nanobind.h>

#include <vector>

namespace bp::python {

void append_indexing_slots(std::vector<PyType_Slot>& slots);

}  // namespace bp::python

#endif
