// SPDX-License-Identifier: Apache-2.0
#include "indexing.hpp"

#include <string>

#include "arithmetic.hpp"
#include "asarray.hpp"
#include "operands.hpp"
#include "scalars.hpp"
#include "tensors.hpp"

namespace bp::python {
namespace {

/// A view as it is worked out, axis by axis.
struct Selection {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t offset = 0;
};

class Selector {
 public:
  explicit Selector(const TensorObject& tensor) : tensor_(tensor) {}

  Selection select(nb::handle key) {
    std::vector<nb::object> parts;
    if (nb::isinstance<nb::tuple>(key)) {
      for (nb::handle part : nb::borrow<nb::tuple>(key)) parts.push_back(nb::borrow(part));
    } else {
      parts.push_back(nb::borrow(key));
    }
    const size_t skipped = count_skipped(parts);
    bool is_expanded = false;
    for (const nb::object& part : parts) {
      if (part.ptr() == Py_Ellipsis) {
        keep_axes(skipped);
        is_expanded = true;
      } else {
        select_one(part);
      }
    }
    if (!is_expanded) keep_axes(skipped);
    return std::move(selection_);
  }

 private:
  /// The axes that the key does not name, where an Ellipsis stands or at the end.
  size_t count_skipped(const std::vector<nb::object>& parts) const {
    size_t named = 0;
    size_t ellipses = 0;
    for (const nb::object& part : parts) {
      if (part.ptr() == Py_Ellipsis) {
        ++ellipses;
      } else if (!part.is_none()) {
        ++named;
      }
    }
    if (ellipses > 1) fail(PyExc_IndexError, "index: more than one '...'");
    const size_t rank = tensor_.sizes().size();
    if (named > rank) {
      fail(PyExc_IndexError, "index: " + std::to_string(named) + " indices for a tensor of " +
                                 std::to_string(rank) + " dimensions");
    }
    return rank - named;
  }

  void keep_axes(size_t count) {
    for (size_t i = 0; i < count; ++i, ++axis_) {
      keep(tensor_.sizes()[axis_], tensor_.strides()[axis_]);
    }
  }

  void keep(int64_t size, int64_t stride) {
    selection_.sizes.push_back(size);
    selection_.strides.push_back(stride);
  }

  void select_one(nb::handle part) {
    if (part.is_none()) return keep(1, 0);
    if (PySlice_Check(part.ptr())) return select_slice(part);
    const bool is_advanced = PyBool_Check(part.ptr()) || nb::isinstance<nb::list>(part) ||
                             nb::isinstance<nb::tuple>(part) || has_axes(part) ||
                             is_bool_tensor(part);
    if (is_advanced) {
      fail(PyExc_NotImplementedError,
           "index: indexing by booleans, lists and tensors of integers is not there yet; found " +
               name_of_type(part));
    }
    if (!PyIndex_Check(part.ptr())) {
      fail(PyExc_IndexError,
           "index: expected integers, slices, '...' and None, found " + name_of_type(part));
    }
    select_integer(part);
  }

  /// Tensors and arrays of at least one dimension.
  static bool has_axes(nb::handle part) {
    if (PyLong_Check(part.ptr())) return false;
    nb::object shape = nb::getattr(part, "shape", nb::none());
    return nb::isinstance<nb::tuple>(shape) && nb::len(shape) != 0;
  }
  static bool is_bool_tensor(nb::handle part) {
    return is_tensor(part.ptr()) && tensor_of(part).dtype().kind == Kind::kBool;
  }

  void select_integer(nb::handle part) {
    const Py_ssize_t index = PyNumber_AsSsize_t(part.ptr(), PyExc_IndexError);
    if (index == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    const int64_t size = tensor_.sizes()[axis_];
    if (index < -size || index >= size) {
      fail(PyExc_IndexError, "index " + std::to_string(index) + " is out of range for axis " +
                                 std::to_string(axis_) + " of size " + std::to_string(size));
    }
    selection_.offset += (index < 0 ? index + size : index) * tensor_.strides()[axis_];
    ++axis_;
  }

  void select_slice(nb::handle part) {
    Py_ssize_t start = 0;
    Py_ssize_t stop = 0;
    Py_ssize_t step = 0;
    if (PySlice_Unpack(part.ptr(), &start, &stop, &step) != 0) throw nb::python_error();
    const auto size = static_cast<Py_ssize_t>(tensor_.sizes()[axis_]);
    const Py_ssize_t count = PySlice_AdjustIndices(size, &start, &stop, step);
    const int64_t stride = tensor_.strides()[axis_];
    if (count > 0) selection_.offset += start * stride;
    keep(count, count > 1 ? step * stride : stride);
    ++axis_;
  }

  const TensorObject& tensor_;
  Selection selection_;
  size_t axis_ = 0;
};

nb::object select_view(const TensorObject& tensor, nb::handle key) {
  Selection selection = Selector(tensor).select(key);
  for (const int64_t size : selection.sizes) {
    if (size == 0) selection.offset = 0;  // no element lies anywhere
  }
  return view_of(tensor, selection.sizes, selection.strides, selection.offset);
}

PyObject* subscript(PyObject* self, PyObject* key) {
  return guarded([&] { return select_view(tensor_of(self), key).release().ptr(); });
}

PyObject* element(PyObject* self, Py_ssize_t index) {
  return guarded([&] { return select_view(tensor_of(self), nb::int_(index)).release().ptr(); });
}

/// What is assigned, as something that the library takes: a tensor of the target's device, or of
/// the host.
void assign_object(const TensorObject& target, nb::handle value) {
  Kind kind{};
  if (number_kind(value, kind)) {
    const bp::Tensor scalar = scalar_for(target.device(), value, target.dtype());
    return check(bpa_tensor_assign(nullptr, target.handle(), scalar.handle()));
  }
  if (is_tensor(value.ptr())) {
    if (tensor_of(value).device().device.handle() == target.device().device.handle()) {
      return assign_values(target, value);
    }
    fail_invalid("assignment: the tensor is on " + target.device().name + ", the values are on " +
                 tensor_of(value).device().name + "; move them with to_device()");
  }
  AsarrayArgs args;
  args.function = "assignment";
  args.device = nb::borrow(target.device_object());
  if (is_plain_nested(value)) args.dtype = &target.dtype();
  assign_values(target, as_tensor(value, args));
}

int assign_subscript(PyObject* self, PyObject* key, PyObject* value) {
  return guarded_number([&]() -> int {
    if (value == nullptr) fail(PyExc_TypeError, "a tensor's elements cannot be deleted");
    const TensorObject& tensor = tensor_of(self);
    tensor.device().check_open();
    const nb::object view = select_view(tensor, key);
    assign_object(tensor_of(view), value);
    return 0;
  });
}

Py_ssize_t length(PyObject* self) {
  return guarded_number([&]() -> Py_ssize_t {
    const TensorObject& tensor = tensor_of(self);
    if (tensor.sizes().empty()) fail(PyExc_TypeError, "a 0-d tensor has no len()");
    return static_cast<Py_ssize_t>(tensor.sizes()[0]);
  });
}

PyObject* iterate(PyObject* self) {
  return guarded([&]() -> PyObject* {
    if (tensor_of(self).sizes().empty()) fail(PyExc_TypeError, "a 0-d tensor cannot be iterated");
    return PySeqIter_New(self);
  });
}

}  // namespace

void append_indexing_slots(std::vector<PyType_Slot>& slots) {
  slots.push_back({Py_mp_subscript, reinterpret_cast<void*>(subscript)});
  slots.push_back({Py_mp_ass_subscript, reinterpret_cast<void*>(assign_subscript)});
  slots.push_back({Py_mp_length, reinterpret_cast<void*>(length)});
  slots.push_back({Py_sq_length, reinterpret_cast<void*>(length)});
  slots.push_back({Py_sq_item, reinterpret_cast<void*>(element)});
  slots.push_back({Py_tp_iter, reinterpret_cast<void*>(iterate)});
}

}  // namespace bp::python
