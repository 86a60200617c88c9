// SPDX-License-Identifier: Apache-2.0
//
// What stands on either side of an operator: tensors and Python numbers, brought to one dtype.
//
// Promotion, as the Array API standard has it where it says anything: within a kind the narrowest
// dtype that holds both; bool gives way to numbers. Where it says nothing, as PyTorch and JAX do
// it: integers give way to floats, floats to complex numbers, without widening them. Python
// numbers are weak: they take the tensor's dtype if it is of their kind or a higher one, else the
// default dtype of theirs.
#ifndef BACKPLANE_PYTHON_OPERANDS_HPP
#define BACKPLANE_PYTHON_OPERANDS_HPP

#include <nanobind/nanobind.h>

#include <array>

#include "tensors.hpp"

namespace bp::python {

/// Throws INVALID_ARGUMENT, naming `function`, for two dtypes of which neither holds the other.
const Dtype& promote(const Dtype& a, const Dtype& b, const char* function);
const Dtype& promote_weak(const Dtype& tensor, Kind number);

/// A 0-d tensor for work on `device`: there if that computes at once, else in host memory, where it
/// moves in the queue's order (an upload of its own would wait for the device).
bp::Tensor scalar_for(const DeviceObject& device, nb::handle number, const Dtype& dtype,
                      const char* place = "");

/// A Python number, or what a NumPy scalar or 0-d array stands for. False for anything else.
bool take_number(PyObject* object, nb::object& out_number, Kind& out_kind);

/// Two operands of one dtype. Keeps what was made on the way.
class Operands {
 public:
  /// False where an object is neither a tensor nor a number: then it has no say here.
  static bool take(PyObject* a, PyObject* b, Operands& out_operands);

  /// Brings both to the promoted dtype, or to `wanted`.
  void unify(const char* function);
  void unify(const Dtype& wanted);
  const Dtype& promoted(const char* function) const;

  /// Of a tensor and a Python int beyond what `dtype` holds: 1 where that makes the left one the
  /// smaller, whatever its elements, -1 the larger. Else 0.
  int known_order(const Dtype& dtype) const;

  std::array<const bpa_tensor*, 2> handles() const { return {handle(0), handle(1)}; }
  const bpa_tensor* handle(size_t i) const;
  /// For what Python computes: a tensor of that dtype on the device.
  nb::object settled(size_t i, const Dtype& dtype) const;
  const TensorObject& first_tensor() const { return tensor_of(any_tensor_); }
  bool is_large() const;

 private:
  struct Operand {
    nb::object object;  // a tensor, or a Python number
    bool is_tensor = false;
    Kind number_kind{};  // of a number
    bp::Tensor scalar;   // the number as a tensor, once unified
  };
  static bool take_one(PyObject* object, Operand& out_operand);

  std::array<Operand, 2> sides_;
  nb::handle any_tensor_;
};

/// One operator call with one output, on the device of `like`. Large work of an inline device is
/// done without the GIL.
nb::object call_operator(uint32_t op, std::span<const bpa_tensor* const> inputs,
                         const TensorObject& like, bool is_large);

}  // namespace bp::python

#endif
