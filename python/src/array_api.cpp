// SPDX-License-Identifier: Apache-2.0
#include "array_api.hpp"

#include <string>
#include <vector>

#include "scalars.hpp"
#include "tensors.hpp"

namespace bp::python {
namespace {

std::vector<int64_t> integers_of(nb::handle tuple) {
  std::vector<int64_t> values;
  for (nb::handle value : tuple) {
    const int64_t number = PyLong_AsLongLong(value.ptr());
    if (number == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    values.push_back(number);
  }
  return values;
}

nb::object strided_view(nb::handle_t<TensorObject> x, nb::tuple shape, nb::tuple strides,
                        int64_t offset) {
  const std::vector<int64_t> sizes = integers_of(shape);
  const std::vector<int64_t> steps = integers_of(strides);
  if (sizes.size() != steps.size()) {
    fail_invalid("view: " + std::to_string(sizes.size()) + " sizes, and " +
                 std::to_string(steps.size()) + " strides");
  }
  return view_of(tensor_of(x), sizes, steps, offset);
}

nb::object view_as(const TensorObject& tensor, uint32_t dtype) {
  tensor.device().check_open();
  bpa_tensor* made = nullptr;
  check(bpa_tensor_view_as(tensor.handle(), dtype, &made));
  return make_tensor(made, tensor.device_object());
}

/// Complex numbers as pairs of their parts along a further, last axis.
nb::object pairs_of(nb::handle_t<TensorObject> x) {
  const TensorObject& tensor = tensor_of(x);
  const Dtype& dtype = tensor.dtype();
  if (dtype.kind != Kind::kComplex) {
    fail_invalid(std::string("pairs: expected a complex dtype, found ") + dtype.name);
  }
  return view_as(tensor, find_dtype(Kind::kFloat, dtype.item_bytes / 2)->code);
}

/// The inverse.
nb::object complex_of_pairs(nb::handle_t<TensorObject> x) {
  const TensorObject& tensor = tensor_of(x);
  const Dtype& dtype = tensor.dtype();
  if (dtype.code != BP_DTYPE_F32 && dtype.code != BP_DTYPE_F64) {
    fail_invalid(std::string("pairs: expected float32 or float64, found ") + dtype.name);
  }
  return view_as(tensor, find_dtype(Kind::kComplex, dtype.item_bytes * 2)->code);
}

/// Throws where the dtype has no such number; `place` begins the words.
void check_number(const std::string& place, nb::handle number, nb::handle dtype) {
  alignas(16) char bytes[16] = {};
  encode_number(number, *parse_dtype(dtype, place.c_str()), bytes, place.c_str());
}

nb::object complex_module() { return nb::module_::import_("backplane.array_api._complex"); }

}  // namespace

nb::object complex_function(const char* name, nb::object a, nb::object b) {
  if (!b.is_valid()) return complex_module().attr("one")(name, a);
  return complex_module().attr("two")(name, a, b);
}

nb::object complex_cast(nb::handle tensor, const Dtype& dtype) {
  return complex_module().attr("cast")(tensor, dtype_object(dtype));
}

void bind_array_api(nb::module_& module) {
  module.def("_view", &strided_view, nb::arg("x"), nb::arg("shape"), nb::arg("strides"),
             nb::arg("offset") = 0,
             "A view of the same memory; strides and offset count elements.");
  module.def("_check_number", &check_number, nb::arg("place"), nb::arg("number"), nb::arg("dtype"),
             "Raises where the dtype has no such number; the words begin with the place.");
  module.def("_pairs", &pairs_of, nb::arg("x"),
             "Complex numbers as pairs of floats in the same memory.");
  module.def("_complex_of_pairs", &complex_of_pairs, nb::arg("x"),
             "Pairs of floats as complex numbers in the same memory.");
}

}  // namespace bp::python
