// SPDX-License-Identifier: Apache-2.0
//
// Single values between Python numbers and the bytes of a dtype.
#ifndef BACKPLANE_PYTHON_SCALARS_HPP
#define BACKPLANE_PYTHON_SCALARS_HPP

#include <nanobind/nanobind.h>

#include "dtypes.hpp"

namespace bp::python {

/// The kind of a Python number (bool, int, float, complex and their subclasses), or false.
bool number_kind(nb::handle object, Kind& out_kind);

/// What a Python number of this kind becomes where nothing else decides.
const Dtype& default_dtype(Kind kind);

/// Writes a Python number as the dtype says; into integers floats are cut towards zero. Throws
/// OverflowError for what an integer dtype cannot hold, INVALID_ARGUMENT for NaN into one, and
/// TypeError for a complex number into a real dtype. `place` begins their words.
void encode_number(nb::handle number, const Dtype& dtype, void* out_bytes, const char* place = "");

/// Where a Python int lies: -1 below what an integer dtype holds, 0 among it, 1 above.
int side_of(nb::handle number, const Dtype& dtype);

/// The Python number that the bytes stand for.
nb::object decode_number(const Dtype& dtype, const void* bytes);

}  // namespace bp::python

#endif
