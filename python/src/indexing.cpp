// SPDX-License-Identifier: Apache-2.0
#include "indexing.hpp"

#include <vector>

#include "asarray.hpp"
#include "indexing_key.hpp"
#include "indexing_values.hpp"
#include "operands.hpp"
#include "scalars.hpp"
#include "streams.hpp"
#include "tensors.hpp"

namespace bp::python {
namespace {

nb::object view_of(const TensorObject& tensor, Selection& selection) {
  for (const int64_t size : selection.sizes) {
    if (size == 0) selection.offset = 0;  // no element lies anywhere
  }
  return view_of(tensor, selection.sizes, selection.strides, selection.offset);
}

nb::object chosen_by(const TensorObject& tensor, nb::handle key) {
  Selection selection = select(tensor, key);
  return selection.chosen.empty() ? view_of(tensor, selection) : take_values(tensor, selection);
}

PyObject* subscript(PyObject* self, PyObject* key) {
  return guarded([&] { return chosen_by(tensor_of(self), key).release().ptr(); });
}

PyObject* element(PyObject* self, Py_ssize_t index) {
  return guarded([&] { return chosen_by(tensor_of(self), nb::int_(index)).release().ptr(); });
}

/// What is assigned, as a tensor of the target's device, or of the host for a number, and of the
/// target's dtype.
struct Values {
  nb::object owner;  // let go of last: it knows that this may wait
  bp::Tensor tensor;
};

Values values_for(const TensorObject& target, nb::handle value) {
  Kind kind{};
  if (number_kind(value, kind)) {
    return {{}, scalar_for(target.device(), value, target.dtype(), "assignment: ")};
  }
  nb::object given;
  if (is_tensor(value.ptr())) {
    if (tensor_of(value).device().device.handle() != target.device().device.handle()) {
      fail_invalid("assignment: the tensor is on " + target.device().name + ", the values are on " +
                   tensor_of(value).device().name + "; move them with to_device()");
    }
    given = nb::borrow(value);
  } else {
    AsarrayArgs args;
    args.function = "assignment";
    args.device = nb::borrow(target.device_object());
    args.moves_tensors = false;
    if (is_plain_nested(value)) args.dtype = &target.dtype();
    given = as_tensor(value, args);
  }
  Values values{cast_to(given, target.dtype()), {}};
  bpa_tensor* handle = tensor_of(values.owner).handle();
  bpa_tensor_retain(handle);
  values.tensor = bp::Tensor::adopt(handle);
  return values;
}

void assign_to_view(const TensorObject& view, nb::handle value) {
  const Values given = values_for(view, value);
  const bp::Tensor values = with_rank_at_most(given.tensor, view.sizes().size());
  const Work work(view.device(), view.is_large());
  check(bpa_tensor_assign(current_stream_of(view.device()), view.handle(), values.handle()));
}

int assign_subscript(PyObject* self, PyObject* key, PyObject* value) {
  return guarded_number([&]() -> int {
    if (value == nullptr) fail(PyExc_TypeError, "a tensor's elements cannot be deleted");
    const TensorObject& tensor = tensor_of(self);
    tensor.device().check_open();
    Selection selection = select(tensor, key);
    if (selection.chosen.empty()) {
      const nb::object view = view_of(tensor, selection);
      assign_to_view(tensor_of(view), value);
    } else {
      const Values values = values_for(tensor, value);
      put_values(tensor, selection, values.tensor);
    }
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
