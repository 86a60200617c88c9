// SPDX-License-Identifier: Apache-2.0
//
// Giving the GIL away, such that the end of the interpreter is quiet. Python ends threads that ask
// for the GIL too late by unwinding them, and that kills the process where it meets C++ (bpo-42969;
// Python 3.14 lets them hang). So threads that come back from the library while the interpreter
// ends stop here.
#ifndef BACKPLANE_PYTHON_GIL_HPP
#define BACKPLANE_PYTHON_GIL_HPP

#include <nanobind/nanobind.h>

#include <optional>

namespace bp::python {

/// While one lives, its thread does not hold the GIL.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

/// The interpreter ends, on this thread: others stop when they come back.
void begin_ending();
/// Lets those pass that were on their way back before. The GIL is held, and given away meanwhile.
void let_others_pass();

}  // namespace bp::python

#endif
