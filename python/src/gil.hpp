// SPDX-License-Identifier: Apache-2.0
//
// Giving the GIL away, and threads at the end of the interpreter.
//
// Python before 3.14 ends a thread that asks for the GIL after finalization began by unwinding it
// (pthread_exit, bpo-42969). Through C++ that unwinding ends the process: a function that is
// noexcept calls std::terminate, and a catch (...) that returns aborts. Python asks for the GIL in
// WithoutGil and wherever C++ calls Python code. So such a thread is stopped where its unwinding
// would end the process: in each catch (...), and in std::terminate.
#ifndef BACKPLANE_PYTHON_GIL_HPP
#define BACKPLANE_PYTHON_GIL_HPP

#include <nanobind/nanobind.h>

#include <optional>

namespace bp::python {

namespace nb = nanobind;

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

/// The interpreter ends, on this thread. Others stop when they take the GIL again once finalization
/// began. Before that they are held up for a while, since the library is closed.
void begin_ending();

/// In a catch (...): does not return where Python unwinds this thread. Needs no GIL.
void stop_if_unwound();

/// Calls `body`, which runs Python code. A thread that is unwound meanwhile stops in here, before
/// destructors let go of objects without the GIL.
template <class Body>
auto stopping_if_unwound(Body body) {
  try {
    return body();
  } catch (...) {
    stop_if_unwound();
    throw;
  }
}

/// Calls Python code from C++, as `stopping_if_unwound` does.
nb::object call_python_with(nb::handle function, nb::tuple arguments, nb::handle keywords = {});
template <class... Args>
nb::object call_python(nb::handle function, const Args&... arguments) {
  return call_python_with(function, nb::make_tuple(arguments...));
}

/// Holds this thread up if the interpreter ends on another one: what it would tell about the closed
/// library is nobody's concern. The GIL is held, and given away meanwhile.
void wait_while_ending();

}  // namespace bp::python

#endif
