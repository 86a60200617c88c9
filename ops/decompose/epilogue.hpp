// SPDX-License-Identifier: Apache-2.0
//
// Epilogues (ops/infer/epilogue.hpp) as graphs: an operator with one into the operators it stands
// for, and these into the one.
#ifndef BACKPLANE_OPS_DECOMPOSE_EPILOGUE_HPP
#define BACKPLANE_OPS_DECOMPOSE_EPILOGUE_HPP

#include <initializer_list>
#include <optional>
#include <string_view>

#include "core/op/absorb.hpp"
#include "ops/decompose/builder.hpp"
#include "ops/infer/epilogue.hpp"

namespace bp::ops {

/// The operator `op_name` without its epilogue, then an addition, then the activation.
/// Errors: UNSUPPORTED where the call has no epilogue.
Status decompose_epilogue(const InferContext& context, std::string_view op_name,
                          std::initializer_list<std::string_view> input_names, GraphBuilder* graph);

/// The activation's operator, of a value of this dtype; the value itself where there is none.
ValueId apply_activation(const Activation& activation, ValueId x, uint32_t dtype, Builder* builder);

/// Whether an addend of these sizes fits an output of those.
using AddendFits = bool (*)(const Dims& addend, const Dims& output);

/// Takes in an addition, where there is neither an addend nor an activation yet, or an activation
/// where there is none.
std::optional<Absorbed> absorb_epilogue(const AbsorbContext& context, AddendFits fits);

}  // namespace bp::ops

#endif
