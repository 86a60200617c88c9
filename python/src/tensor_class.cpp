// SPDX-License-Identifier: Apache-2.0
//
// The Python class Tensor: its slots and methods, put together.
#include <algorithm>
#include <string>
#include <vector>

#include "arithmetic.hpp"
#include "asarray.hpp"
#include "dlpack.hpp"
#include "gil.hpp"
#include "indexing.hpp"
#include "refuse_new.hpp"
#include "tensors.hpp"
#include "values.hpp"

namespace bp::python {

PyTypeObject* g_tensor_type = nullptr;

namespace {

nb::object transposed(const TensorObject& tensor) {
  std::vector<int64_t> sizes(tensor.sizes().rbegin(), tensor.sizes().rend());
  std::vector<int64_t> strides(tensor.strides().rbegin(), tensor.strides().rend());
  return view_of(tensor, sizes, strides, 0);
}

nb::object matrix_transposed(const TensorObject& tensor) {
  std::vector<int64_t> sizes(tensor.sizes().begin(), tensor.sizes().end());
  std::vector<int64_t> strides(tensor.strides().begin(), tensor.strides().end());
  const size_t rank = sizes.size();
  if (rank < 2) {
    fail_invalid("mT: expected at least 2 dimensions, found shape " + shape_text(tensor.sizes()));
  }
  std::swap(sizes[rank - 1], sizes[rank - 2]);
  std::swap(strides[rank - 1], strides[rank - 2]);
  return view_of(tensor, sizes, strides, 0);
}

nb::object dlpack_method(const TensorObject& tensor, nb::handle stream, nb::handle max_version,
                         nb::handle dl_device, nb::handle copy) {
  return dlpack_capsule(tensor, {stream, max_version, dl_device, parse_copy(copy, "__dlpack__")});
}

nb::object reduce(const TensorObject& tensor) {
  nb::object values =
      nb::steal(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(tensor.info().bytes)));
  if (!values.is_valid()) throw nb::python_error();
  read_values(tensor, PyBytes_AsString(values.ptr()), tensor.info().bytes);
  return nb::make_tuple(nb::module_::import_("backplane._pickle").attr("tensor"),
                        nb::make_tuple(values, tensor.dtype().name, tuple_of(tensor.sizes()),
                                       nb::str(tensor.device().name.c_str())));
}

using TensorClass = nb::class_<TensorObject>;

void bind_properties(TensorClass& bound) {
  bound
      .def_prop_ro(
          "shape", [](const TensorObject& self) { return tuple_of(self.sizes()); },
          "The size of each dimension.")
      .def_prop_ro(
          "strides", [](const TensorObject& self) { return tuple_of(self.strides()); },
          "Steps between elements, counted in elements (NumPy counts bytes).")
      .def_prop_ro(
          "ndim", [](const TensorObject& self) { return self.sizes().size(); },
          "The number of dimensions.")
      .def_prop_ro("size", &TensorObject::element_count, "The number of elements.")
      .def_prop_ro(
          "nbytes", [](const TensorObject& self) { return self.info().bytes; },
          "Bytes of the elements, whatever lies between them in memory.")
      .def_prop_ro(
          "dtype", [](const TensorObject& self) { return dtype_object(self.dtype()); },
          "The Dtype of the elements.")
      .def_prop_ro(
          "device", [](const TensorObject& self) { return nb::borrow(self.device_object()); },
          "The Device whose memory it is in.")
      .def_prop_ro("is_read_only", &TensorObject::is_read_only,
                   "Whether assignments are refused, as of memory that was lent for reading.")
      .def_prop_ro("T", &transposed, "A view with the axes in reverse.")
      .def_prop_ro("mT", &matrix_transposed, "A view with the last two axes swapped.");
}

void bind_methods(TensorClass& bound) {
  bound
      .def("item", &item_of, nb::sig("def item(self) -> bool | int | float | complex"),
           "The value of a tensor of one element.")
      .def("tolist", &list_of, nb::sig("def tolist(self) -> Any"),
           "The values as nested lists of Python numbers; of a 0-d tensor its number.")
      .def("copy", &copy_of, nb::sig("def copy(self) -> Tensor"),
           "The same values in memory of their own.")
      .def(
          "astype",
          [](nb::handle_t<TensorObject> self, nb::handle dtype, nb::handle copy) {
            if (dtype.is_none()) {
              fail(PyExc_TypeError, "astype: argument 'dtype': expected a dtype, found NoneType");
            }
            AsarrayArgs args{"astype", parse_dtype(dtype, "astype"), {}, Copy::kIfNeeded};
            if (nb::cast<bool>(copy)) args.copy = Copy::kAlways;
            return as_tensor(self, args);
          },
          nb::arg("dtype").none(), nb::kw_only(), nb::arg("copy") = true,
          nb::sig("def astype(self, dtype: Dtype | str | type, *, copy: bool = True) -> Tensor"),
          "The values converted to another dtype, in memory of their own. copy=False: this very "
          "tensor where it has that dtype.")
      .def(
          "to_device",
          [](nb::handle_t<TensorObject> self, nb::handle device, nb::handle stream) {
            if (!stream.is_none()) {
              throw Error(BP_UNSUPPORTED,
                          "to_device: argument 'stream': expected None: values "
                          "move in the order of the tensor's own work");
            }
            return moved_to(self, parse_device(device, "to_device"));
          },
          nb::arg("device").none(), nb::kw_only(), nb::arg("stream") = nb::none(),
          nb::sig("def to_device(self, device: Device | str | None, *, stream: None = None) -> "
                  "Tensor"),
          "The same values on another device; this very tensor where it is there. device: None is "
          "the default one. stream: only None, for values move in the order of the tensor's work.")
      .def(
          "numpy",
          [](nb::handle_t<TensorObject> self, nb::handle copy) {
            parse_copy(copy, "numpy");
            return call_python(nb::module_::import_("backplane._numpy").attr("to_numpy"), self,
                               copy);
          },
          nb::kw_only(), nb::arg("copy") = nb::none(),
          nb::sig("def numpy(self, *, copy: bool | None = None) -> numpy.ndarray"),
          "A NumPy array: of the same memory where the host reads it, which stays alive and shows "
          "later writes, else of a copy. copy: True always copies; False raises ValueError "
          "where sharing cannot be. Waits for the tensor's values.")
      .def("__format__", &formatted, nb::arg("spec").none(),
           "A 0-d tensor is formatted as its number; of others the spec is empty.")
      .def("__repr__", [](nb::handle_t<TensorObject> self) {
        return call_python(nb::module_::import_("backplane._format").attr("describe"), self);
      });
}

void bind_protocols(TensorClass& bound) {
  bound
      .def(
          "__array__",
          [](nb::handle_t<TensorObject> self, nb::handle dtype, nb::handle copy) {
            parse_copy(copy, "__array__");
            return call_python(nb::module_::import_("backplane._numpy").attr("to_array"), self,
                               dtype, copy);
          },
          nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none())
      .def("__dlpack__", &dlpack_method, nb::kw_only(), nb::arg("stream") = nb::none(),
           nb::arg("max_version") = nb::none(), nb::arg("dl_device") = nb::none(),
           nb::arg("copy") = nb::none())
      .def("__dlpack_device__", &dlpack_device)
      .def(
          "__array_namespace__",
          [](nb::handle_t<TensorObject>, nb::handle api_version) {
            return nb::module_::import_("backplane.array_api").attr("_namespace")(api_version);
          },
          nb::kw_only(), nb::arg("api_version") = nb::none())
      .def("__complex__",
           [](const TensorObject& self) {
             const nb::object value = item_of(self);
             return nb::handle(reinterpret_cast<PyObject*>(&PyComplex_Type))(value);
           })
      .def("__reduce__", &reduce)
      .def("__copy__", &copy_of)
      .def("__deepcopy__", [](const TensorObject& self, nb::handle) { return copy_of(self); });
  bound.attr("__array_ufunc__") = nb::none();  // NumPy leaves mixed operators to us
}

}  // namespace

void bind_tensors(nb::module_& module) {
  std::vector<PyType_Slot> slots;
  append_arithmetic_slots(slots);
  append_indexing_slots(slots);
  append_value_slots(slots);
  slots.push_back({Py_tp_new, reinterpret_cast<void*>(refuse_new)});
  slots.push_back({0, nullptr});
  TensorClass bound(module, "Tensor", nb::type_slots(slots.data()), nb::is_final(),
                    nb::is_weak_referenceable(),
                    "A strided view of values on a device. asarray() and the like make one.");
  g_tensor_type = reinterpret_cast<PyTypeObject*>(bound.ptr());
  Py_INCREF(bound.ptr());  // for the life of the process
  bind_properties(bound);
  bind_methods(bound);
  bind_protocols(bound);
}

}  // namespace bp::python
