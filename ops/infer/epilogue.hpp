// SPDX-License-Identifier: Apache-2.0
//
// Epilogues: what an operator adds and applies to its own result, in attributes activation,
// activation_alpha and activation_beta and input addend. Inference, decompositions, the oracle and
// absorption read the one table of activations.
#ifndef BACKPLANE_OPS_INFER_EPILOGUE_HPP
#define BACKPLANE_OPS_INFER_EPILOGUE_HPP

#include <string_view>

#include "core/op/attributes.hpp"
#include "ops/infer/common.hpp"

namespace bp::ops {

/// An elementwise operator that may be an epilogue, and what activation_alpha and activation_beta
/// are of it: an attribute, or an input that is a number; empty: there is none.
struct ActivationRow {
  std::string_view name;
  std::string_view alpha = {};
  std::string_view beta = {};
};
/// nullptr: not one of them.
const ActivationRow* find_activation(std::string_view name);

/// As three attributes say it.
struct Activation {
  std::string_view name;  // empty: none
  double alpha = 0;
  double beta = 0;
};
template <class Attrs>
Activation activation_of(const Attrs& attributes) {
  return {text(attributes.activation), attributes.activation_alpha, attributes.activation_beta};
}

/// Sets the three attributes. Errors: those of the setters.
Status set_activation(const Activation& activation, Attributes* attributes);

/// Errors: attribute_error for an unknown name, and for a number that the activation does not have,
/// or that is not finite, but in clip, where it must not be NaN; and for any activation of a dtype
/// that is no float.
Status check_activation(const Activation& activation, uint32_t dtype);

/// An addend that has the output's sizes, and so may tell unknown ones. Errors: input_error.
Status check_equal_addend(const TensorType& addend, Dims* out_sizes);
/// One that broadcasts to the output and does not make it larger. Errors: input_error with `name`.
Status check_broadcast_addend(std::string_view name, const TensorType& addend,
                              const Dims& out_sizes);

}  // namespace bp::ops

#endif
