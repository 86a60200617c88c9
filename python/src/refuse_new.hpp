// SPDX-License-Identifier: Apache-2.0
//
// For classes whose objects only functions make: the slot Py_tp_new. Without it
// Class.__new__(Class) answers an object in which nothing was constructed, and slots of types do
// not look for that.
#ifndef BACKPLANE_PYTHON_REFUSE_NEW_HPP
#define BACKPLANE_PYTHON_REFUSE_NEW_HPP

#include <nanobind/nanobind.h>

namespace bp::python {

inline PyObject* refuse_new(PyTypeObject* type, PyObject*, PyObject*) {
  PyErr_Format(PyExc_TypeError, "%R has no constructor: functions of backplane make its objects",
               reinterpret_cast<PyObject*>(type));
  return nullptr;
}

}  // namespace bp::python

#endif
