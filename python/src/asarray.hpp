// SPDX-License-Identifier: Apache-2.0
//
// Tensors of whatever Python objects hold numbers.
#ifndef BACKPLANE_PYTHON_ASARRAY_HPP
#define BACKPLANE_PYTHON_ASARRAY_HPP

#include <nanobind/nanobind.h>

#include "host_memory.hpp"
#include "tensors.hpp"

namespace bp::python {

struct AsarrayArgs {
  const char* function = "asarray";  // for words
  const Dtype* dtype = nullptr;      // NULL: what the object has
  nb::object device;                 // a Device, or empty: where a tensor is, else the default one
  Copy copy = Copy::kIfNeeded;
};

nb::object as_tensor(nb::handle object, const AsarrayArgs& args);

/// Lists, tuples and ranges: their numbers have no dtype yet.
bool is_plain_nested(nb::handle object);

/// Of objects with the buffer protocol, and of arrays whose dtype that cannot say. False where the
/// object has neither.
bool memory_from_buffer(nb::handle object, const char* function, HostMemory& out_memory);

}  // namespace bp::python

#endif
