// SPDX-License-Identifier: Apache-2.0
#include "ops_attributes.hpp"

#include <cstring>
#include <string>

#include "dtypes.hpp"
#include "errors.hpp"
#include "scalars.hpp"

namespace bp::python {
namespace {

/// Where a value stands, for words.
struct Place {
  const OperatorRow& op;
  const AttributeRow& attribute;

  std::string text() const {
    return std::string(op.name) + ": argument '" + attribute.name + "': ";
  }
  [[noreturn]] void refuse(const char* expected, nb::handle found) const {
    fail(PyExc_TypeError, text() + "expected " + expected + ", found " + name_of_type(found));
  }
};

/// Bools are numbers to Python, and here a slip.
bool is_integer(nb::handle value) {
  return PyIndex_Check(value.ptr()) != 0 && !PyBool_Check(value.ptr());
}

int64_t read_i64(const Place& place, nb::handle value, const char* expected) {
  if (!is_integer(value)) place.refuse(expected, value);
  const nb::object number = nb::steal(PyNumber_Index(value.ptr()));
  if (!number.is_valid()) {  // arrays have an index only where they are one integer
    if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw nb::python_error();
    PyErr_Clear();
    place.refuse(expected, value);
  }
  int overflow = 0;
  const int64_t found = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow != 0) {
    fail(PyExc_OverflowError,
         place.text() + nb::cast<std::string>(nb::str(number)) + " is out of the range of int64");
  }
  return found;
}

double read_f64(const Place& place, nb::handle value) {
  const bool is_real = PyFloat_Check(value.ptr()) || is_integer(value) ||
                       (nb::hasattr(value, "__float__") && !PyBool_Check(value.ptr()));
  if (!is_real) place.refuse("a float", value);
  const double found = PyFloat_AsDouble(value.ptr());
  if (found == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return found;
}

int64_t read_bool(const Place& place, nb::handle value) {
  if (value.ptr() == Py_True) return 1;
  if (value.ptr() == Py_False) return 0;
  const std::string type = name_of_type(value);
  if (type != "numpy.bool" && type != "numpy.bool_") place.refuse("a bool", value);
  const int truth = PyObject_IsTrue(value.ptr());
  if (truth < 0) throw nb::python_error();
  return truth;
}

bp_str read_str(const Place& place, nb::handle value) {
  if (!PyUnicode_Check(value.ptr())) place.refuse("a str", value);
  Py_ssize_t length = 0;
  const char* text = PyUnicode_AsUTF8AndSize(value.ptr(), &length);
  if (text == nullptr) throw nb::python_error();
  return {text, static_cast<uint64_t>(length)};
}

int64_t read_dtype(const Place& place, nb::handle value) {
  if (value.is_none()) place.refuse("a dtype", value);
  return parse_dtype(value, place.op.name, place.attribute.name)->code;
}

std::vector<int64_t> read_i64s(const Place& place, nb::handle value) {
  constexpr const char* kExpected = "integers";
  if (is_integer(value)) return {read_i64(place, value, kExpected)};
  if (PyUnicode_Check(value.ptr()) || !PySequence_Check(value.ptr())) {
    place.refuse(kExpected, value);
  }
  const nb::object items = nb::steal(PySequence_Tuple(value.ptr()));
  if (!items.is_valid()) throw nb::python_error();
  std::vector<int64_t> found;
  for (nb::handle item : nb::borrow<nb::tuple>(items)) {
    found.push_back(read_i64(place, item, kExpected));
  }
  return found;
}

}  // namespace

AttributeValues::AttributeValues(const OperatorRow& row) : row_(row) {
  if (row.attributes_bytes > kMostBytes) {
    throw Error(BP_INTERNAL, std::string(row.name) + ": its attributes are larger than expected");
  }
  if (!row.attributes.empty()) row.write_defaults(bytes_);
}

template <class T>
void AttributeValues::write(const AttributeRow& attribute, const T& value) {
  std::memcpy(bytes_ + attribute.offset, &value, sizeof(value));
}

void AttributeValues::store(const AttributeRow& attribute, nb::handle value) {
  const Place place{row_, attribute};
  switch (attribute.kind) {
    case AttributeKind::kI64:
      return write(attribute, read_i64(place, value, "an int"));
    case AttributeKind::kF64:
      return write(attribute, read_f64(place, value));
    case AttributeKind::kBool:
      return write(attribute, read_bool(place, value));
    case AttributeKind::kDtype:
      return write(attribute, read_dtype(place, value));
    case AttributeKind::kStr:
      return write(attribute, read_str(place, value));
    case AttributeKind::kI64s: {
      lists_.push_back(read_i64s(place, value));
      const std::vector<int64_t>& list = lists_.back();
      return write(attribute, bp_i64_span{list.data(), list.size()});
    }
  }
}

bool AttributeValues::set(std::string_view name, nb::handle value) {
  const size_t count = row_.attributes.size();
  for (size_t i = 0; i < count; ++i) {
    const size_t index = (next_ + i) % count;
    if (name != row_.attributes[index].name) continue;
    store(row_.attributes[index], value);
    given_ |= uint64_t{1} << index;
    next_ = index + 1;
    return true;
  }
  return false;
}

void AttributeValues::check_complete() const {
  for (size_t i = 0; i < row_.attributes.size(); ++i) {
    if (!row_.attributes[i].is_required || (given_ >> i & 1) != 0) continue;
    fail(PyExc_TypeError,
         std::string(row_.name) + ": argument '" + row_.attributes[i].name + "' is missing");
  }
}

int64_t AttributeValues::i64(size_t index) const {
  int64_t value = 0;
  std::memcpy(&value, bytes_ + row_.attributes[index].offset, sizeof(value));
  return value;
}

}  // namespace bp::python
