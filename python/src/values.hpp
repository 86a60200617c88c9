// SPDX-License-Identifier: Apache-2.0
//
// A tensor's values as Python numbers.
#ifndef BACKPLANE_PYTHON_VALUES_HPP
#define BACKPLANE_PYTHON_VALUES_HPP

#include <nanobind/nanobind.h>

#include <vector>

#include "tensors.hpp"

namespace bp::python {

/// bool(), int(), float() and use as an index.
void append_value_slots(std::vector<PyType_Slot>& slots);

nb::object item_of(const TensorObject& tensor);
nb::object list_of(const TensorObject& tensor);
/// What format() answers: of a 0-d tensor its number's.
nb::object formatted(nb::handle_t<TensorObject> self, nb::handle spec);

}  // namespace bp::python

#endif
