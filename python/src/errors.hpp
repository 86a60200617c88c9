// SPDX-License-Identifier: Apache-2.0
//
// Errors across the boundary: what the library answers becomes a Python exception in its words.
// Slots of types, which nanobind does not guard, run inside `guarded`.
#ifndef BACKPLANE_PYTHON_ERRORS_HPP
#define BACKPLANE_PYTHON_ERRORS_HPP

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>  // in every file: a cast without it means another type

#include <string>

#include "backplane/backplane.hpp"

namespace bp::python {

namespace nb = nanobind;

/// Throws what the newest failing call on this thread said.
inline void check(bpa_status status) {
  if (status != BP_OK) throw Error(status, bpa_last_error(), bpa_last_error_op());
}

/// The words of an error without its status, which what() begins with.
std::string words_of(const Error& error);

/// Throws a Python exception of a builtin type.
[[noreturn]] void fail(PyObject* type, const std::string& words);
/// Throws INVALID_ARGUMENT, as the library would.
[[noreturn]] void fail_invalid(const std::string& words);

/// Sets the Python error from the exception in progress. The GIL is held.
void set_python_error() noexcept;

template <class Body>
PyObject* guarded(Body body) noexcept {
  try {
    return body();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

/// The same for slots that answer a number, -1 for an error.
template <class Body>
auto guarded_number(Body body) noexcept -> decltype(body()) {
  try {
    return body();
  } catch (...) {
    set_python_error();
    return -1;
  }
}

/// "float", "numpy.ndarray": how words name the type of an argument.
std::string name_of_type(nb::handle object);

/// Throws INVALID_ARGUMENT, naming `argument`: a C string would end at the first NUL.
void refuse_nul(const std::string& text, const std::string& argument);
/// A str that goes on as a C string. Throws INVALID_ARGUMENT, naming `argument`, where it cannot.
std::string c_text(nb::handle text, const std::string& argument);

void bind_errors(nb::module_& module);

}  // namespace bp::python

#endif
