// SPDX-License-Identifier: Apache-2.0
//
// What backplane.array_api needs of tensors and cannot say in Python; and the way from the class
// Tensor to what it alone says: complex arithmetic, in the words of real operators.
#ifndef BACKPLANE_PYTHON_ARRAY_API_HPP
#define BACKPLANE_PYTHON_ARRAY_API_HPP

#include <nanobind/nanobind.h>

#include "dtypes.hpp"

namespace bp::python {

namespace nb = nanobind;

inline bool is_complex(uint32_t code) { return code == BP_DTYPE_C64 || code == BP_DTYPE_C128; }

/// The elementwise function of that name, of complex tensors of one dtype.
nb::object complex_function(const char* name, nb::object a, nb::object b = {});
/// The same values as another dtype, one of the two complex.
nb::object complex_cast(nb::handle tensor, const Dtype& dtype);

void bind_array_api(nb::module_& module);

}  // namespace bp::python

#endif
