// SPDX-License-Identifier: Apache-2.0
//
// The dtypes of the package: one table, and the Python objects over its rows.
#ifndef BACKPLANE_PYTHON_DTYPES_HPP
#define BACKPLANE_PYTHON_DTYPES_HPP

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string_view>

#include "errors.hpp"

namespace bp::python {

enum class Kind : uint8_t { kBool, kInt, kUint, kFloat, kComplex };

/// How values of a dtype are spelled in other worlds.
struct Dtype {
  uint32_t code;           // BP_DTYPE_*
  const char* name;        // NumPy's and ml_dtypes' name
  const char* short_name;  // the library's, as its words have it
  uint32_t item_bytes;
  Kind kind;
  const char* format;   // of the buffer protocol; of an integer as wide where that has none
  bool has_format;      // whether `format` says what the values are
  uint8_t dlpack_code;  // DLDataTypeCode
};

/// NULL for a code without a row.
const Dtype* find_dtype(uint32_t code);
/// By either name, but the short ones that NumPy has for other dtypes: see parse_dtype.
const Dtype* find_dtype(std::string_view name);
const Dtype* find_dtype(Kind kind, uint32_t item_bytes);
/// Throws UNSUPPORTED for a code without a row.
const Dtype& dtype_row(uint32_t code);
const Dtype* find_dlpack_dtype(uint8_t code, uint8_t bits, uint16_t lanes);

/// From what users write: a Dtype, a name, a NumPy dtype or scalar type, bool, int, float, complex.
/// NULL for None. Throws TypeError, naming `function` and `argument`.
const Dtype* parse_dtype(nb::handle object, const char* function, const char* argument = "dtype");
/// The one Python object of a row.
nb::object dtype_object(const Dtype& dtype);

void bind_dtypes(nb::module_& module);

}  // namespace bp::python

#endif
