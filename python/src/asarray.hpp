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
  nb::object device;                 // a Device, or empty: where tensors are, else the default one
  Copy copy = Copy::kIfNeeded;
  const Dtype* number_dtype = nullptr;  // of Python numbers alone; NULL: the default of their kind
  bool moves_tensors = true;            // within lists, to `device`; else one of elsewhere is an
                                        // error
};

/// Arrays, tensors and NumPy scalars within lists have a say in the dtype, as between operands
/// (operands.hpp), and tensors in the device.
nb::object as_tensor(nb::handle object, const AsarrayArgs& args);

/// Lists, tuples and ranges.
bool is_plain_nested(nb::handle object);

/// Of objects with the buffer protocol, and of arrays whose dtype that cannot say. False where the
/// object has neither.
bool memory_from_buffer(nb::handle object, const char* function, HostMemory& out_memory);

}  // namespace bp::python

#endif
