// SPDX-License-Identifier: Apache-2.0
#include "arithmetic.hpp"

#include <algorithm>
#include <string>

#include "array_api.hpp"
#include "asarray.hpp"
#include "backplane/ops.hpp"
#include "operands.hpp"
#include "scalars.hpp"
#include "streams.hpp"

namespace bp::python {
namespace {

using Binary = PyObject* (*)(PyObject*, PyObject*);

PyObject* not_implemented() {
  Py_INCREF(Py_NotImplemented);
  return Py_NotImplemented;
}

constexpr const char* name_of(uint32_t op) {
  switch (op) {
    case BP_OP_ADD:
      return "add";
    case BP_OP_SUB:
      return "subtract";
    case BP_OP_MUL:
      return "multiply";
    case BP_OP_MOD:
      return "remainder";
    case BP_OP_FLOOR_DIVIDE:
      return "floor divide";
    case BP_OP_POW:
      return "power";
    case BP_OP_MATMUL:
      return "matmul";
    case BP_OP_BITWISE_AND:
      return "bitwise and";
    case BP_OP_BITWISE_OR:
      return "bitwise or";
    case BP_OP_BITWISE_XOR:
      return "bitwise xor";
    case BP_OP_SHIFT_LEFT:
      return "shift left";
    case BP_OP_SHIFT_RIGHT:
      return "shift right";
    default:
      return "comparison";
  }
}

nb::object call_two(uint32_t op, const Operands& operands) {
  const auto handles = operands.handles();
  return call_operator(op, handles, operands.first_tensor(), operands.is_large());
}

nb::object call_one(uint32_t op, const TensorObject& tensor) {
  const bpa_tensor* input = tensor.handle();
  return call_operator(op, {&input, 1}, tensor, tensor.is_large());
}

/// The way of most calls: two tensors of one real dtype, and nothing to prepare.
inline bool are_alike(PyObject* a, PyObject* b) {
  return is_tensor(a) && is_tensor(b) && tensor_of(a).info().dtype == tensor_of(b).info().dtype &&
         !is_complex(tensor_of(a).info().dtype);
}

/// Of complex numbers, whose operators are said in Python; name: of the elementwise function.
nb::object call_two_complex(const char* name, const Operands& operands, const Dtype& dtype) {
  return complex_function(name, operands.settled(0, dtype), operands.settled(1, dtype));
}

nb::object call_alike(uint32_t op, PyObject* a, PyObject* b) {
  const TensorObject& left = tensor_of(a);
  const TensorObject& right = tensor_of(b);
  const bpa_tensor* const inputs[] = {left.handle(), right.handle()};
  return call_operator(op, inputs, left, are_large(left, right));
}

template <uint32_t Op>
PyObject* arithmetic(PyObject* a, PyObject* b) {
  return guarded([&]() -> PyObject* {
    if (are_alike(a, b)) return call_alike(Op, a, b).release().ptr();
    Operands operands;
    if (!Operands::take(a, b, operands)) return not_implemented();
    const Dtype& dtype = operands.promoted(name_of(Op));
    if (is_complex(dtype.code)) {
      return call_two_complex(name_of(Op), operands, dtype).release().ptr();
    }
    operands.unify(dtype);
    return call_two(Op, operands).release().ptr();
  });
}

PyObject* matmul(PyObject* a, PyObject* b) {
  if (!is_tensor(a) || !is_tensor(b)) return not_implemented();
  return arithmetic<BP_OP_MATMUL>(a, b);
}

PyObject* power(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None) return not_implemented();
  return arithmetic<BP_OP_POW>(a, b);
}

/// Integers divide to the default float.
PyObject* true_divide(PyObject* a, PyObject* b) {
  return guarded([&]() -> PyObject* {
    Operands operands;
    if (!Operands::take(a, b, operands)) return not_implemented();
    const Dtype& found = operands.promoted("divide");
    if (is_complex(found.code)) {
      return call_two_complex("divide", operands, found).release().ptr();
    }
    operands.unify(found.kind >= Kind::kFloat ? found : default_dtype(Kind::kFloat));
    return call_two(BP_OP_DIV, operands).release().ptr();
  });
}

/// & | ^: of bools the logical operator, of integers the bitwise one.
template <uint32_t Bitwise, uint32_t Logical>
PyObject* bitwise(PyObject* a, PyObject* b) {
  return guarded([&]() -> PyObject* {
    Operands operands;
    if (!Operands::take(a, b, operands)) return not_implemented();
    const Dtype& dtype = operands.promoted(name_of(Bitwise));
    operands.unify(dtype);
    return call_two(dtype.kind == Kind::kBool ? Logical : Bitwise, operands).release().ptr();
  });
}

uint32_t comparison_operator(int operation) {
  switch (operation) {
    case Py_LT:
      return BP_OP_LESS;
    case Py_LE:
      return BP_OP_LESS_OR_EQUAL;
    case Py_GT:
      return BP_OP_GREATER;
    case Py_GE:
      return BP_OP_GREATER_OR_EQUAL;
    case Py_NE:
      return BP_OP_NOT_EQUAL;
    default:
      return BP_OP_EQUAL;
  }
}

/// By its type: an object may answer any name with something.
bool is_array_or_nested(PyObject* object) {
  if (is_plain_nested(object) || PyObject_CheckBuffer(object) != 0) return true;
  const nb::handle type(reinterpret_cast<PyObject*>(Py_TYPE(object)));
  return nb::hasattr(type, "__array__") || nb::hasattr(type, "__array_interface__");
}

/// What is no operand. Python would answer == and != by identity, which for an array is a wrong
/// answer and not an error.
PyObject* compare_with_stranger(PyObject* a, PyObject* b, int operation) {
  const bool orders = operation != Py_EQ && operation != Py_NE;
  if (orders || !is_array_or_nested(is_tensor(a) ? b : a)) return not_implemented();
  fail(PyExc_TypeError, std::string("unsupported operand type(s) for ") +
                            (operation == Py_EQ ? "==" : "!=") + ": '" + name_of_type(a) +
                            "' and '" + name_of_type(b) + "'");
}

/// As NumPy has it where all elements are on one side of the number. They equal themselves.
nb::object compare_beyond(int operation, int order, const TensorObject& tensor) {
  const bool is_below = operation == Py_LT || operation == Py_LE;
  const bool is_above = operation == Py_GT || operation == Py_GE;
  const bool holds = order > 0 ? is_below : is_above;
  const uint32_t op = holds || operation == Py_NE ? BP_OP_EQUAL : BP_OP_NOT_EQUAL;
  const bpa_tensor* const inputs[] = {tensor.handle(), tensor.handle()};
  return call_operator(op, inputs, tensor, tensor.is_large());
}

PyObject* compare(PyObject* a, PyObject* b, int operation) {
  return guarded([&]() -> PyObject* {
    Operands operands;
    if (!Operands::take(a, b, operands)) return compare_with_stranger(a, b, operation);
    const Dtype& dtype = operands.promoted("comparison");
    const bool orders = operation != Py_EQ && operation != Py_NE;
    if (is_complex(dtype.code) && !orders) {
      const char* name = operation == Py_NE ? "not_equal" : "equal";
      return call_two_complex(name, operands, dtype).release().ptr();
    }
    if (const int order = operands.known_order(dtype)) {
      return compare_beyond(operation, order, operands.first_tensor()).release().ptr();
    }
    operands.unify(orders && dtype.kind == Kind::kBool ? dtype_row(BP_DTYPE_U8) : dtype);
    return call_two(comparison_operator(operation), operands).release().ptr();
  });
}

PyObject* negative(PyObject* a) {
  return guarded([&]() -> PyObject* {
    const TensorObject& tensor = tensor_of(a);
    if (is_complex(tensor.info().dtype)) {
      return complex_function("negative", nb::borrow(a)).release().ptr();
    }
    if (tensor.dtype().kind != Kind::kUint) return call_one(BP_OP_NEG, tensor).release().ptr();
    const bp::Tensor zero = scalar_for(tensor.device(), nb::int_(0), tensor.dtype());
    const bpa_tensor* const inputs[] = {zero.handle(), tensor.handle()};
    return call_operator(BP_OP_SUB, inputs, tensor, tensor.is_large()).release().ptr();
  });
}

PyObject* positive(PyObject* a) {
  return guarded([&] { return copy_of(tensor_of(a)).release().ptr(); });
}

PyObject* absolute(PyObject* a) {
  return guarded([&] {
    if (is_complex(tensor_of(a).info().dtype)) {
      return complex_function("abs", nb::borrow(a)).release().ptr();
    }
    return call_one(BP_OP_ABS, tensor_of(a)).release().ptr();
  });
}

PyObject* invert(PyObject* a) {
  return guarded([&] {
    const TensorObject& tensor = tensor_of(a);
    const bool is_bool = tensor.dtype().kind == Kind::kBool;
    return call_one(is_bool ? BP_OP_LOGICAL_NOT : BP_OP_BITWISE_NOT, tensor).release().ptr();
  });
}

/// Whether an in-place operator may store a result: it must not change what kind of number it is.
bool may_store(const Dtype& result, const Dtype& target) {
  if (result.kind == target.kind) return true;
  return target.kind > result.kind && !(result.kind == Kind::kInt && target.kind == Kind::kUint);
}

/// Computes, then writes the result over the tensor, so that its views show it.
PyObject* store_in_place(PyObject* self, PyObject* made) {
  if (made == nullptr || made == Py_NotImplemented) return made;
  return guarded([&]() -> PyObject* {
    const nb::object result = nb::steal(made);
    const TensorObject& target = tensor_of(self);
    const Dtype& dtype = tensor_of(result).dtype();
    if (!may_store(dtype, target.dtype())) {
      fail_invalid(std::string("in-place operator: the result is ") + dtype.name +
                   ", and the tensor that is to hold it is " + target.dtype().name);
    }
    assign_values(target, result);
    Py_INCREF(self);
    return self;
  });
}

template <Binary Operator>
PyObject* in_place(PyObject* a, PyObject* b) {
  return store_in_place(a, Operator(a, b));
}

/// Of the tensor's shape: rows that a vector leaves out would be repeated over all of it.
PyObject* in_place_matmul(PyObject* a, PyObject* b) {
  PyObject* result = matmul(a, b);
  if (result == nullptr || result == Py_NotImplemented) return result;
  return guarded([&]() -> PyObject* {
    nb::object made = nb::steal(result);
    const auto expected = tensor_of(a).sizes();
    const auto found = tensor_of(made).sizes();
    if (!std::ranges::equal(expected, found)) {
      fail_invalid("in-place matmul: the result has the shape " + shape_text(found) +
                   ", and the tensor that is to hold it has " + shape_text(expected));
    }
    return store_in_place(a, made.release().ptr());
  });
}

PyObject* in_place_power(PyObject* a, PyObject* b, PyObject* modulus) {
  return store_in_place(a, power(a, b, modulus));
}

template <class Function>
void append(std::vector<PyType_Slot>& slots, int slot, Function* function) {
  slots.push_back({slot, reinterpret_cast<void*>(function)});
}

void append_bitwise(std::vector<PyType_Slot>& slots) {
  constexpr Binary kAnd = bitwise<BP_OP_BITWISE_AND, BP_OP_LOGICAL_AND>;
  constexpr Binary kOr = bitwise<BP_OP_BITWISE_OR, BP_OP_LOGICAL_OR>;
  constexpr Binary kXor = bitwise<BP_OP_BITWISE_XOR, BP_OP_LOGICAL_XOR>;
  append(slots, Py_nb_and, kAnd);
  append(slots, Py_nb_or, kOr);
  append(slots, Py_nb_xor, kXor);
  append(slots, Py_nb_lshift, arithmetic<BP_OP_SHIFT_LEFT>);
  append(slots, Py_nb_rshift, arithmetic<BP_OP_SHIFT_RIGHT>);
  append(slots, Py_nb_inplace_and, in_place<kAnd>);
  append(slots, Py_nb_inplace_or, in_place<kOr>);
  append(slots, Py_nb_inplace_xor, in_place<kXor>);
  append(slots, Py_nb_inplace_lshift, in_place<arithmetic<BP_OP_SHIFT_LEFT>>);
  append(slots, Py_nb_inplace_rshift, in_place<arithmetic<BP_OP_SHIFT_RIGHT>>);
}

}  // namespace

void assign_values(const TensorObject& target, nb::handle source) {
  target.device().check_open();
  const nb::object converted = cast_to(source, target.dtype());
  const Work work(target.device(), target.is_large());
  check(bpa_tensor_assign(current_stream_of(target.device()), target.handle(),
                          tensor_of(converted).handle()));
}

void append_arithmetic_slots(std::vector<PyType_Slot>& slots) {
  append(slots, Py_nb_add, arithmetic<BP_OP_ADD>);
  append(slots, Py_nb_subtract, arithmetic<BP_OP_SUB>);
  append(slots, Py_nb_multiply, arithmetic<BP_OP_MUL>);
  append(slots, Py_nb_remainder, arithmetic<BP_OP_MOD>);
  append(slots, Py_nb_true_divide, true_divide);
  append(slots, Py_nb_floor_divide, arithmetic<BP_OP_FLOOR_DIVIDE>);
  append(slots, Py_nb_power, power);
  append(slots, Py_nb_matrix_multiply, matmul);
  append(slots, Py_nb_negative, negative);
  append(slots, Py_nb_positive, positive);
  append(slots, Py_nb_absolute, absolute);
  append(slots, Py_nb_invert, invert);
  append(slots, Py_nb_inplace_add, in_place<arithmetic<BP_OP_ADD>>);
  append(slots, Py_nb_inplace_subtract, in_place<arithmetic<BP_OP_SUB>>);
  append(slots, Py_nb_inplace_multiply, in_place<arithmetic<BP_OP_MUL>>);
  append(slots, Py_nb_inplace_remainder, in_place<arithmetic<BP_OP_MOD>>);
  append(slots, Py_nb_inplace_true_divide, in_place<true_divide>);
  append(slots, Py_nb_inplace_floor_divide, in_place<arithmetic<BP_OP_FLOOR_DIVIDE>>);
  append(slots, Py_nb_inplace_power, in_place_power);
  append(slots, Py_nb_inplace_matrix_multiply, in_place_matmul);
  append(slots, Py_tp_richcompare, compare);
  append_bitwise(slots);
}

}  // namespace bp::python
