// SPDX-License-Identifier: Apache-2.0
#include "array_api.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "tensors.hpp"

namespace bp::python {
namespace {

std::vector<int64_t> integers_of(nb::handle tuple) {
  std::vector<int64_t> values;
  for (nb::handle value : tuple) values.push_back(nb::cast<int64_t>(value));
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

/// A tensor in the memory of another one under another dtype, which no view of the library has.
struct Reinterpretation {
  const Dtype* dtype;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
};

void release_base(void* base) { bpa_tensor_release(static_cast<bpa_tensor*>(base)); }

nb::object wrap_again(const TensorObject& base, const Reinterpretation& as) {
  const bpa_tensor_info& info = base.info();
  base.device().check_open();
  bpa_tensor* made = nullptr;
  if (base.element_count() == 0) {
    check(bpa_tensor_create(base.device().device.handle(), as.dtype->code, as.sizes.data(),
                            static_cast<uint32_t>(as.sizes.size()), &made));
    return make_tensor(made, base.device_object());
  }
  uint64_t end = info.memory.offset_bytes + base.dtype().item_bytes;
  for (size_t i = 0; i < info.rank; ++i) {
    const int64_t step = std::max<int64_t>(info.strides[i], 0);  // others reach towards the start
    end += static_cast<uint64_t>((info.sizes[i] - 1) * step) * base.dtype().item_bytes;
  }
  bpa_wrap_args args{};
  args.struct_size = sizeof(args);
  args.flags = info.flags & BPA_TENSOR_READ_ONLY_BIT;
  args.memory = info.memory;
  args.bytes = end;
  args.dtype = as.dtype->code;
  args.rank = static_cast<uint32_t>(as.sizes.size());
  args.sizes = as.sizes.data();
  args.strides = as.strides.data();
  args.deleter = release_base;
  args.user = base.handle();
  bpa_tensor_retain(base.handle());
  const bpa_status status = bpa_tensor_wrap(base.device().device.handle(), &args, &made);
  if (status != BP_OK) {
    const std::string words = bpa_last_error();  // before the release says something
    bpa_tensor_release(base.handle());
    throw Error(status, words);
  }
  return make_tensor(made, base.device_object());
}

/// Complex numbers as pairs of their parts along a further, last axis.
nb::object pairs_of(nb::handle_t<TensorObject> x) {
  const TensorObject& tensor = tensor_of(x);
  const Dtype& dtype = tensor.dtype();
  if (dtype.kind != Kind::kComplex) {
    fail_invalid(std::string("pairs: expected a complex dtype, found ") + dtype.name);
  }
  Reinterpretation as{find_dtype(Kind::kFloat, dtype.item_bytes / 2), {}, {}};
  as.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  for (const int64_t stride : tensor.strides()) as.strides.push_back(stride * 2);
  as.sizes.push_back(2);
  as.strides.push_back(1);
  return wrap_again(tensor, as);
}

/// The inverse, of contiguous pairs.
nb::object complex_of_pairs(nb::handle_t<TensorObject> x) {
  const TensorObject& tensor = tensor_of(x);
  const Dtype& dtype = tensor.dtype();
  const bool is_pairs = (dtype.code == BP_DTYPE_F32 || dtype.code == BP_DTYPE_F64) &&
                        !tensor.sizes().empty() && tensor.sizes().back() == 2 &&
                        tensor.is_contiguous();
  if (!is_pairs) {
    fail_invalid("pairs: expected contiguous pairs of floats, found the shape " +
                 shape_text(tensor.sizes()) + " of " + dtype.name);
  }
  Reinterpretation as{find_dtype(Kind::kComplex, dtype.item_bytes * 2), {}, {}};
  as.sizes.assign(tensor.sizes().begin(), tensor.sizes().end() - 1);
  as.strides.resize(as.sizes.size());
  int64_t step = 1;
  for (size_t i = as.sizes.size(); i-- > 0;) {
    as.strides[i] = step;
    step *= as.sizes[i];
  }
  return wrap_again(tensor, as);
}

}  // namespace

void bind_array_api(nb::module_& module) {
  module.def("_view", &strided_view, nb::arg("x"), nb::arg("shape"), nb::arg("strides"),
             nb::arg("offset") = 0,
             "A view of the same memory; strides and offset count elements.");
  module.def("_pairs", &pairs_of, nb::arg("x"),
             "Complex numbers as pairs of floats in the same memory.");
  module.def("_complex_of_pairs", &complex_of_pairs, nb::arg("x"),
             "Pairs of floats as complex numbers in the same memory.");
}

}  // namespace bp::python
