// SPDX-License-Identifier: Apache-2.0
//
// Indexing by values: arrays of integers and masks, through operators of the tensor's device.
#ifndef BACKPLANE_PYTHON_INDEXING_VALUES_HPP
#define BACKPLANE_PYTHON_INDEXING_VALUES_HPP

#include <nanobind/nanobind.h>

#include "indexing_key.hpp"
#include "tensors.hpp"

namespace bp::python {

/// The chosen elements, in memory of their own. `selection` has at least one index by values.
nb::object take_values(const TensorObject& tensor, const Selection& selection);

/// Writes over the chosen elements; `values` has the tensor's dtype. Where one is chosen more than
/// once, the last value stays.
void put_values(const TensorObject& tensor, const Selection& selection, const bp::Tensor& values);

/// Without sizes of 1 in front that a target of this rank does not have.
bp::Tensor with_rank_at_most(const bp::Tensor& source, size_t rank);

}  // namespace bp::python

#endif
