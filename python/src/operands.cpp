// SPDX-License-Identifier: Apache-2.0
#include "operands.hpp"

#include <algorithm>
#include <utility>

#include "host_memory.hpp"
#include "scalars.hpp"
#include "streams.hpp"

namespace bp::python {
namespace {

[[noreturn]] void refuse(const Dtype& a, const Dtype& b, const char* function) {
  fail_invalid(std::string(function) + ": no dtype holds the values of both " + a.name + " and " +
               b.name + "; convert one with astype()");
}

const Dtype& promote_integers(const Dtype& a, const Dtype& b, const char* function) {
  if (a.kind == b.kind) return a.item_bytes >= b.item_bytes ? a : b;
  const Dtype& with_sign = a.kind == Kind::kInt ? a : b;
  const Dtype& without = a.kind == Kind::kInt ? b : a;
  const uint32_t bytes = std::max(with_sign.item_bytes, without.item_bytes * 2);
  if (bytes > 8) refuse(a, b, function);
  return *find_dtype(Kind::kInt, bytes);
}

const Dtype& promote_floats(const Dtype& a, const Dtype& b, const char* function) {
  if (a.item_bytes == b.item_bytes) {
    if (a.item_bytes == 2) return dtype_row(BP_DTYPE_F32);  // float16 and bfloat16
    refuse(a, b, function);                                 // two kinds of float8
  }
  return a.item_bytes > b.item_bytes ? a : b;
}

const Dtype& complex_for(const Dtype& real) {
  return dtype_row(real.code == BP_DTYPE_F64 ? BP_DTYPE_C128 : BP_DTYPE_C64);
}

}  // namespace

const Dtype& promote(const Dtype& a, const Dtype& b, const char* function) {
  if (a.code == b.code) return a;
  const auto rank = [](const Dtype& dtype) {
    return dtype.kind == Kind::kUint ? Kind::kInt : dtype.kind;
  };
  if (rank(a) == Kind::kInt && rank(b) == Kind::kInt) return promote_integers(a, b, function);
  if (rank(a) != rank(b)) {
    const Dtype& higher = rank(a) > rank(b) ? a : b;
    const Dtype& lower = rank(a) > rank(b) ? b : a;
    const bool widens = higher.kind == Kind::kComplex && lower.code == BP_DTYPE_F64;
    return widens ? dtype_row(BP_DTYPE_C128) : higher;
  }
  if (a.kind == Kind::kFloat) return promote_floats(a, b, function);
  return a.item_bytes > b.item_bytes ? a : b;
}

const Dtype& promote_weak(const Dtype& tensor, Kind number) {
  switch (number) {
    case Kind::kBool:
      return tensor;
    case Kind::kFloat:
      return tensor.kind >= Kind::kFloat ? tensor : default_dtype(number);
    case Kind::kComplex:
      if (tensor.kind == Kind::kComplex) return tensor;
      return tensor.kind == Kind::kFloat ? complex_for(tensor) : default_dtype(number);
    default:
      return tensor.kind == Kind::kBool ? default_dtype(number) : tensor;
  }
}

bp::Tensor scalar_for(const DeviceObject& device, nb::handle number, const Dtype& dtype,
                      const char* place) {
  alignas(16) char bytes[16] = {};
  encode_number(number, dtype, bytes, place);
  bpa_tensor* handle = nullptr;
  bpa_device* where = is_done_at_once(device) ? device.device.handle() : nullptr;
  const Work work(device, false);
  check(bpa_tensor_from_host(where, dtype.code, nullptr, 0, bytes, dtype.item_bytes, &handle));
  return bp::Tensor::adopt(handle);
}

bool take_number(PyObject* object, nb::object& out_number, Kind& out_kind) {
  out_number = nb::borrow(object);
  if (number_kind(object, out_kind)) return true;
  if (is_tensor(object)) return false;
  nb::object shape = nb::getattr(object, "shape", nb::none());
  if (!nb::isinstance<nb::tuple>(shape) || nb::len(shape) != 0) return false;
  nb::object item = nb::getattr(object, "item", nb::none());
  if (item.is_none()) return false;
  out_number = item();
  return number_kind(out_number, out_kind);
}

bool Operands::take_one(PyObject* object, Operand& out_operand) {
  if (!is_tensor(object)) return take_number(object, out_operand.object, out_operand.number_kind);
  out_operand.object = nb::borrow(object);
  out_operand.is_tensor = true;
  return true;
}

bool Operands::take(PyObject* a, PyObject* b, Operands& out_operands) {
  if (!take_one(a, out_operands.sides_[0]) || !take_one(b, out_operands.sides_[1])) return false;
  for (const Operand& side : out_operands.sides_) {
    if (!side.is_tensor) continue;
    out_operands.any_tensor_ = side.object;
    return true;
  }
  return false;
}

const Dtype& Operands::promoted(const char* function) const {
  const auto& [a, b] = sides_;
  if (a.is_tensor && b.is_tensor) {
    return promote(tensor_of(a.object).dtype(), tensor_of(b.object).dtype(), function);
  }
  return a.is_tensor ? promote_weak(tensor_of(a.object).dtype(), b.number_kind)
                     : promote_weak(tensor_of(b.object).dtype(), a.number_kind);
}

int Operands::known_order(const Dtype& dtype) const {
  if (dtype.kind != Kind::kInt && dtype.kind != Kind::kUint) return 0;
  const auto& [a, b] = sides_;
  if (!b.is_tensor) return side_of(b.object, dtype);
  return a.is_tensor ? 0 : -side_of(a.object, dtype);
}

void Operands::unify(const char* function) { unify(promoted(function)); }

void Operands::unify(const Dtype& wanted) {
  for (Operand& side : sides_) {
    if (side.is_tensor) {
      side.object = cast_to(side.object, wanted);
      if (&side == &sides_[0] || !sides_[0].is_tensor) any_tensor_ = side.object;
    } else {
      side.scalar = scalar_for(first_tensor().device(), side.object, wanted);
    }
  }
}

const bpa_tensor* Operands::handle(size_t i) const {
  const Operand& side = sides_[i];
  return side.is_tensor ? tensor_of(side.object).handle() : side.scalar.handle();
}

nb::object Operands::settled(size_t i, const Dtype& dtype) const {
  const Operand& side = sides_[i];
  if (side.is_tensor) return cast_to(side.object, dtype);
  alignas(16) char bytes[16] = {};
  encode_number(side.object, dtype, bytes);
  return tensor_from_values(dtype, {}, bytes, first_tensor().device_object());
}

bool Operands::is_large() const {
  if (!sides_[0].is_tensor || !sides_[1].is_tensor) return first_tensor().is_large();
  return are_large(tensor_of(sides_[0].object), tensor_of(sides_[1].object));
}

nb::object call_operator(uint32_t op, std::span<const bpa_tensor* const> inputs,
                         const TensorObject& like, bool is_large) {
  const DeviceObject& device = like.device();
  device.check_open();
  bpa_tensor* made = nullptr;
  const auto count = static_cast<uint32_t>(inputs.size());
  {
    const Work work(device, is_large && device.is_inline);
    check(call_on_current(device, op, inputs.data(), count, nullptr, &made, 1));
  }
  return make_tensor(made, like.device_object(), current_stream_of(device) != nullptr);
}

}  // namespace bp::python
