// SPDX-License-Identifier: Apache-2.0
#include "errors.hpp"

#include <new>

#include "gil.hpp"

namespace bp::python {
namespace {

// Of backplane._errors, for the life of the process.
PyObject* g_error = nullptr;      // Error
PyObject* g_by_status = nullptr;  // BY_STATUS

/// Sets an attribute to a text; false: the Python error is set.
bool set_text(PyObject* object, const char* attribute, const std::string& text) {
  PyObject* made = PyUnicode_FromString(text.c_str());
  const bool is_set = made != nullptr && PyObject_SetAttrString(object, attribute, made) == 0;
  Py_XDECREF(made);
  return is_set;
}

void raise_library_error(const Error& error) {
  wait_while_ending();
  const std::string status = bpa_status_name(error.status());
  const std::string words = words_of(error);
  PyObject* found = PyDict_GetItemString(g_by_status, status.c_str());
  PyObject* made = PyObject_CallFunction(found == nullptr ? g_error : found, "s", words.c_str());
  if (made == nullptr) return;  // that failure is the error now
  if (set_text(made, "status", status) &&
      (error.op().empty() || set_text(made, "op", error.op()))) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made)), made);
  }
  Py_DECREF(made);
}

PyObject* builtin_type(nb::exception_type kind) {
  switch (kind) {
    case nb::exception_type::stop_iteration:
      return PyExc_StopIteration;
    case nb::exception_type::index_error:
      return PyExc_IndexError;
    case nb::exception_type::key_error:
      return PyExc_KeyError;
    case nb::exception_type::value_error:
      return PyExc_ValueError;
    case nb::exception_type::type_error:
      return PyExc_TypeError;
    case nb::exception_type::buffer_error:
      return PyExc_BufferError;
    case nb::exception_type::import_error:
      return PyExc_ImportError;
    case nb::exception_type::attribute_error:
      return PyExc_AttributeError;
    default:
      return PyExc_RuntimeError;
  }
}

}  // namespace

std::string words_of(const Error& error) {
  const std::string status = std::string(bpa_status_name(error.status())) + ": ";
  const std::string words = error.what();
  return words.starts_with(status) ? words.substr(status.size()) : words;
}

void fail(PyObject* type, const std::string& words) {
  PyErr_SetString(type, words.c_str());
  throw nb::python_error();
}

void fail_invalid(const std::string& words) { throw Error(BP_INVALID_ARGUMENT, words); }

void set_python_error() noexcept {
  stop_if_unwound();
  try {
    throw;
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const Error& error) {
    raise_library_error(error);
  } catch (const nb::builtin_exception& error) {
    PyErr_SetString(builtin_type(error.type()), error.what());
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "an exception that is no std::exception");
  }
}

std::string name_of_type(nb::handle object) {
  nb::handle type(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())));
  const auto name = nb::cast<std::string>(nb::str(type.attr("__qualname__")));
  const auto module = nb::cast<std::string>(nb::str(type.attr("__module__")));
  return module == "builtins" ? name : module + "." + name;
}

void refuse_nul(const std::string& text, const std::string& argument) {
  if (text.find('\0') == std::string::npos) return;
  fail_invalid(argument + ": expected no NUL character, found one in '" + text.c_str() + "...'");
}

std::string c_text(nb::handle text, const std::string& argument) {
  Py_ssize_t length = 0;
  const char* characters = PyUnicode_AsUTF8AndSize(text.ptr(), &length);
  if (characters == nullptr) {
    PyErr_Clear();
    fail_invalid(argument + ": expected text that UTF-8 has a form of, found " +
                 nb::cast<std::string>(nb::repr(text)));
  }
  std::string made(characters, static_cast<size_t>(length));
  refuse_nul(made, argument);
  return made;
}

void bind_errors(nb::module_& module) {
  nb::object errors = nb::module_::import_("backplane._errors");
  g_error = nb::object(errors.attr("Error")).release().ptr();
  g_by_status = nb::object(errors.attr("BY_STATUS")).release().ptr();
  nb::register_exception_translator([](const std::exception_ptr& error, void*) {
    stop_if_unwound();
    try {
      std::rethrow_exception(error);
    } catch (const Error& found) {
      raise_library_error(found);
    }
  });
  module.attr("__doc__") = "The extension behind the package backplane.";
}

}  // namespace bp::python
