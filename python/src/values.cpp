// SPDX-License-Identifier: Apache-2.0
#include "values.hpp"

#include <string>

#include "scalars.hpp"

namespace bp::python {
namespace {

nb::object list_from(const Dtype& dtype, std::span<const int64_t> sizes, const char*& values) {
  if (sizes.empty()) {
    nb::object number = decode_number(dtype, values);
    values += dtype.item_bytes;
    return number;
  }
  nb::list list;
  for (int64_t i = 0; i < sizes[0]; ++i) list.append(list_from(dtype, sizes.subspan(1), values));
  return list;
}

int truth(PyObject* self) {
  return guarded_number([&]() -> int {
    const TensorObject& tensor = tensor_of(self);
    if (tensor.element_count() != 1) {
      fail_invalid("the truth value of a tensor of shape " + shape_text(tensor.sizes()) +
                   " is ambiguous");
    }
    const nb::object value = item_of(tensor);
    return PyObject_IsTrue(value.ptr());
  });
}

PyObject* as_int(PyObject* self) {
  return guarded([&]() -> PyObject* {
    const nb::object value = item_of(tensor_of(self));
    return PyNumber_Long(value.ptr());
  });
}

PyObject* as_float(PyObject* self) {
  return guarded([&]() -> PyObject* {
    const nb::object value = item_of(tensor_of(self));
    return PyNumber_Float(value.ptr());
  });
}

PyObject* as_index(PyObject* self) {
  return guarded([&]() -> PyObject* {
    const TensorObject& tensor = tensor_of(self);
    const Kind kind = tensor.dtype().kind;
    if (!tensor.sizes().empty() || (kind != Kind::kInt && kind != Kind::kUint)) {
      fail(PyExc_TypeError, std::string("only a 0-d tensor of integers is an index, found ") +
                                tensor.dtype().name + " of shape " + shape_text(tensor.sizes()));
    }
    return item_of(tensor).release().ptr();
  });
}

Py_hash_t hash(PyObject* self) {  // by identity: values change
  const auto bits = reinterpret_cast<uintptr_t>(self);
  return static_cast<Py_hash_t>((bits >> 4) | (bits << (8 * sizeof(bits) - 5) >> 1));
}

}  // namespace

nb::object item_of(const TensorObject& tensor) {
  if (tensor.element_count() != 1) {
    fail_invalid("item: expected a tensor of one element, found shape " +
                 shape_text(tensor.sizes()));
  }
  alignas(16) char bytes[16] = {};
  read_values(tensor, bytes, tensor.dtype().item_bytes);
  return decode_number(tensor.dtype(), bytes);
}

nb::object list_of(const TensorObject& tensor) {
  const std::unique_ptr<char[]> values = read_values(tensor);
  const char* next = values.get();
  return list_from(tensor.dtype(), tensor.sizes(), next);
}

nb::object formatted(nb::handle_t<TensorObject> self, nb::handle spec) {
  if (!PyUnicode_Check(spec.ptr())) {
    fail(PyExc_TypeError, "format: argument 'spec': expected a str, found " + name_of_type(spec));
  }
  const TensorObject& tensor = tensor_of(self);
  if (tensor.sizes().empty()) {
    const nb::object number = item_of(tensor);
    const nb::object text = nb::steal(PyObject_Format(number.ptr(), spec.ptr()));
    if (!text.is_valid()) throw nb::python_error();
    return text;
  }
  if (nb::len(spec) == 0) return nb::str(self);
  fail(PyExc_TypeError, "format: " + nb::cast<std::string>(nb::repr(spec)) +
                            " formats one number, and the tensor has the shape " +
                            shape_text(tensor.sizes()));
}

void append_value_slots(std::vector<PyType_Slot>& slots) {
  slots.push_back({Py_nb_bool, reinterpret_cast<void*>(truth)});
  slots.push_back({Py_nb_int, reinterpret_cast<void*>(as_int)});
  slots.push_back({Py_nb_float, reinterpret_cast<void*>(as_float)});
  slots.push_back({Py_nb_index, reinterpret_cast<void*>(as_index)});
  slots.push_back({Py_tp_hash, reinterpret_cast<void*>(hash)});
}

}  // namespace bp::python
