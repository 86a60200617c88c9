// SPDX-License-Identifier: Apache-2.0
//
// Python's operators on tensors: slots of the class Tensor.
#ifndef BACKPLANE_PYTHON_ARITHMETIC_HPP
#define BACKPLANE_PYTHON_ARITHMETIC_HPP

#include <nanobind/nanobind.h>

#include <vector>

#include "tensors.hpp"

namespace bp::python {

void append_arithmetic_slots(std::vector<PyType_Slot>& slots);

/// Writes the values of `source` over those of `target`, brought to its dtype. Repeats sizes of 1.
void assign_values(const TensorObject& target, nb::handle source);

}  // namespace bp::python

#endif
