// SPDX-License-Identifier: Apache-2.0
#include "creation.hpp"

#include <string>
#include <vector>

#include "asarray.hpp"
#include "dlpack.hpp"
#include "host_memory.hpp"
#include "operands.hpp"
#include "scalars.hpp"
#include "streams.hpp"

namespace bp::python {
namespace {

std::vector<int64_t> parse_shape(nb::handle shape, const char* function) {
  const auto one = [&](nb::handle size) {
    if (!PyIndex_Check(size.ptr())) {
      fail(PyExc_TypeError, std::string(function) +
                                ": argument 'shape': expected integers, found " +
                                name_of_type(size));
    }
    const auto value = static_cast<int64_t>(PyNumber_AsSsize_t(size.ptr(), PyExc_OverflowError));
    if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    if (value < 0) {
      fail_invalid(std::string(function) + ": argument 'shape': a size is " +
                   std::to_string(value) + ", expected 0 or more");
    }
    return value;
  };
  if (!is_plain_nested(shape)) return {one(shape)};
  std::vector<int64_t> sizes;
  for (nb::handle size : shape) sizes.push_back(one(size));
  return sizes;
}

nb::object empty(std::span<const int64_t> sizes, const Dtype& dtype, nb::handle device) {
  const auto& target = nb::cast<const DeviceObject&>(device);
  target.check_open();
  bpa_tensor* made = nullptr;
  {
    const Work work(target, false);
    check(bpa_tensor_create(target.device.handle(), dtype.code, sizes.data(),
                            static_cast<uint32_t>(sizes.size()), &made));
  }
  return make_tensor(made, device);
}

/// One value, repeated by the assignment that fills the tensor.
nb::object filled(std::span<const int64_t> sizes, nb::handle value, const Dtype& dtype,
                  nb::handle device, const char* place = "") {
  nb::object made = empty(sizes, dtype, device);
  const TensorObject& tensor = tensor_of(made);
  const bp::Tensor scalar = scalar_for(tensor.device(), value, dtype, place);
  {
    const Work work(tensor.device(), tensor.is_large());
    check(bpa_tensor_assign(current_stream_of(tensor.device()), tensor.handle(), scalar.handle()));
  }
  return made;
}

const Dtype& dtype_or_float(nb::handle dtype, const char* function) {
  const Dtype* row = parse_dtype(dtype, function);
  return row == nullptr ? default_dtype(Kind::kFloat) : *row;
}

/// Of the *_like functions: what is not given is the tensor's.
struct Like {
  Like(nb::handle x, nb::handle dtype_given, nb::handle device_given, const char* function) {
    if (!is_tensor(x.ptr())) {
      fail(PyExc_TypeError,
           std::string(function) + ": argument 'x': expected a Tensor, found " + name_of_type(x));
    }
    const TensorObject& tensor = tensor_of(x);
    dtype = parse_dtype(dtype_given, function);
    if (dtype == nullptr) dtype = &tensor.dtype();
    device = device_given.is_none() ? nb::borrow(tensor.device_object())
                                    : parse_device(device_given, function);
    sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  }
  const Dtype* dtype;
  nb::object device;
  std::vector<int64_t> sizes;
};

/// Python's number, of NumPy's scalars too.
nb::object number_of_fill(nb::handle value, const char* function, Kind& out_kind) {
  nb::object number;
  if (!take_number(value.ptr(), number, out_kind)) {
    fail(PyExc_TypeError, std::string(function) +
                              ": argument 'fill_value': expected a number, found " +
                              name_of_type(value));
  }
  return number;
}

constexpr const char* kOptions =
    "*, dtype: Dtype | str | type | None = None, device: Device | str | None = None) -> Tensor";

/// For help(): the arguments before those that all have.
std::string signature_of(const char* name, const char* first) {
  return "def " + std::string(name) + "(" + first + ", " + kOptions;
}
std::string shape_signature(const char* name) {
  return signature_of(name, "shape: int | Sequence[int]");
}

template <int Value>
void bind_constant(nb::module_& module, const char* name, const char* like_name, const char* doc,
                   const char* like_doc) {
  module.def(
      name,
      [name](nb::handle shape, nb::handle dtype, nb::handle device) {
        return filled(parse_shape(shape, name), nb::int_(Value), dtype_or_float(dtype, name),
                      parse_device(device, name));
      },
      nb::arg("shape").none(), nb::kw_only(), nb::arg("dtype") = nb::none(),
      nb::arg("device") = nb::none(), nb::sig(shape_signature(name).c_str()), doc);
  module.def(
      like_name,
      [like_name](nb::handle x, nb::handle dtype, nb::handle device) {
        const Like like(x, dtype, device, like_name);
        return filled(like.sizes, nb::int_(Value), *like.dtype, like.device);
      },
      nb::arg("x").none(), nb::kw_only(), nb::arg("dtype") = nb::none(),
      nb::arg("device") = nb::none(), nb::sig(signature_of(like_name, "x: Tensor").c_str()),
      like_doc);
}

void bind_full(nb::module_& module) {
  module.def(
      "full",
      [](nb::handle shape, nb::handle value, nb::handle dtype, nb::handle device) {
        const Dtype* row = parse_dtype(dtype, "full");
        Kind kind{};
        const nb::object number = number_of_fill(value, "full", kind);
        return filled(parse_shape(shape, "full"), number,
                      row == nullptr ? default_dtype(kind) : *row, parse_device(device, "full"),
                      "full: argument 'fill_value': ");
      },
      nb::arg("shape").none(), nb::arg("fill_value").none(), nb::kw_only(),
      nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
      nb::sig(signature_of("full",
                           "shape: int | Sequence[int], fill_value: bool | int | float | "
                           "complex")
                  .c_str()),
      "A new tensor of one value. Unless dtype says otherwise, a float makes it float32, an int "
      "int64, a complex number complex64.");
  module.def(
      "full_like",
      [](nb::handle x, nb::handle value, nb::handle dtype, nb::handle device) {
        const Like like(x, dtype, device, "full_like");
        Kind kind{};
        const nb::object number = number_of_fill(value, "full_like", kind);
        return filled(like.sizes, number, *like.dtype, like.device,
                      "full_like: argument 'fill_value': ");
      },
      nb::arg("x").none(), nb::arg("fill_value").none(), nb::kw_only(),
      nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
      nb::sig(
          signature_of("full_like", "x: Tensor, fill_value: bool | int | float | complex").c_str()),
      "A new tensor of one value, of the shape of x, and of its dtype and device unless told "
      "otherwise.");
}

void bind_empty(nb::module_& module) {
  module.def(
      "empty",
      [](nb::handle shape, nb::handle dtype, nb::handle device) {
        return empty(parse_shape(shape, "empty"), dtype_or_float(dtype, "empty"),
                     parse_device(device, "empty"));
      },
      nb::arg("shape").none(), nb::kw_only(), nb::arg("dtype") = nb::none(),
      nb::arg("device") = nb::none(), nb::sig(shape_signature("empty").c_str()),
      "A new tensor of any values; float32 unless told otherwise.");
  module.def(
      "empty_like",
      [](nb::handle x, nb::handle dtype, nb::handle device) {
        const Like like(x, dtype, device, "empty_like");
        return empty(like.sizes, *like.dtype, like.device);
      },
      nb::arg("x").none(), nb::kw_only(), nb::arg("dtype") = nb::none(),
      nb::arg("device") = nb::none(), nb::sig(signature_of("empty_like", "x: Tensor").c_str()),
      "A new tensor of any values, of the shape of x, and of its dtype and device unless told "
      "otherwise.");
}

nb::object asarray(nb::handle object, nb::handle dtype, nb::handle device, nb::handle copy) {
  AsarrayArgs args;
  args.dtype = parse_dtype(dtype, "asarray");
  if (!device.is_none()) args.device = parse_device(device, "asarray");
  args.copy = parse_copy(copy, "asarray");
  return as_tensor(object, args);
}

nb::object from_dlpack(nb::handle x, nb::handle device, nb::handle copy) {
  const Copy how = parse_copy(copy, "from_dlpack");
  if (is_tensor(x.ptr())) {
    AsarrayArgs args{"from_dlpack", nullptr, {}, how};
    if (!device.is_none()) args.device = parse_device(device, "from_dlpack");
    nb::object same = as_tensor(x, args);
    const TensorObject& tensor = tensor_of(same);
    return same.is(x) ? view_of(tensor, tensor.sizes(), tensor.strides(), 0) : same;
  }
  return tensor_from_dlpack(x, parse_device(device, "from_dlpack"), how);
}

/// What unpickling calls.
nb::object rebuild(nb::bytes values, const std::string& dtype, nb::handle shape,
                   nb::handle device) {
  const Dtype* row = find_dtype(std::string_view(dtype));
  if (row == nullptr) fail_invalid("unpickling: no dtype is named '" + dtype + "'");
  const std::vector<int64_t> sizes = parse_shape(shape, "unpickling");
  const auto bytes = static_cast<uint64_t>(values.size());
  const nb::object target = parse_device(device, "unpickling");
  const auto& place = nb::cast<const DeviceObject&>(target);
  bpa_tensor* made = nullptr;
  {
    const HostCopy copy(place, bytes);
    check(bpa_tensor_from_host(place.device.handle(), row->code, sizes.data(),
                               static_cast<uint32_t>(sizes.size()), values.c_str(), bytes, &made));
  }
  return make_tensor(made, target);
}

}  // namespace

void bind_creation(nb::module_& module) {
  module.def(
      "asarray", &asarray, nb::arg("obj").none(), nb::arg("dtype") = nb::none(), nb::kw_only(),
      nb::arg("device") = nb::none(), nb::arg("copy") = nb::none(),
      nb::sig("def asarray(obj: object, dtype: Dtype | str | type | None = None, *, device: "
              "Device | str | None = None, copy: bool | None = None) -> Tensor"),
      "A tensor of a number, an array (NumPy's, the buffer protocol's, DLPack's, a Tensor), or "
      "nested lists of them, whose dtypes promote as operands' do. It shares memory of an array "
      "where dtype, device and strides allow that, and keeps the array alive. copy: True always "
      "copies; False raises ValueError where sharing cannot be.");
  module.def("from_dlpack", &from_dlpack, nb::arg("x").none(), nb::kw_only(),
             nb::arg("device") = nb::none(), nb::arg("copy") = nb::none(),
             nb::sig("def from_dlpack(x: object, *, device: Device | str | None = None, copy: "
                     "bool | None = None) -> Tensor"),
             "A tensor in the memory of another library's array, which it keeps alive; of a copy "
             "where device or copy ask for one. BufferError where the array cannot be lent.");
  module.def("_rebuild", &rebuild);
  bind_empty(module);
  bind_full(module);
  bind_constant<0>(module, "zeros", "zeros_like",
                   "A new tensor of zeros; float32 unless told otherwise.",
                   "A new tensor of zeros, of the shape of x, and of its dtype and device unless "
                   "told otherwise.");
  bind_constant<1>(module, "ones", "ones_like",
                   "A new tensor of ones; float32 unless told otherwise.",
                   "A new tensor of ones, of the shape of x, and of its dtype and device unless "
                   "told otherwise.");
}

}  // namespace bp::python
