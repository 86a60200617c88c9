// SPDX-License-Identifier: Apache-2.0
//
// The entry of the extension, before nanobind's. A second module in the process, in another
// interpreter or after the first was taken out of sys.modules, would take the place of nanobind's
// types and of ours, and leave the first with objects of no type.
#include <nanobind/nanobind.h>

extern "C" PyObject* PyInit_bound_core();  // NB_MODULE's, in module.cpp

extern "C" NB_EXPORT PyObject* PyInit__core() {
  constexpr int64_t kMainInterpreter = 0;
  static bool is_first = true;
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != kMainInterpreter || !is_first) {
    PyErr_SetString(PyExc_ImportError,
                    "a process imports backplane once, and in its main interpreter");
    return nullptr;
  }
  is_first = false;
  return PyInit_bound_core();
}
