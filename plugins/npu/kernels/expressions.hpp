// SPDX-License-Identifier: Apache-2.0
//
// How the emitted kernels (bp_expression_kernels) are launched here: the layout, which owns what it
// needs of the arguments, is filled at once, and the loops run when the stream gets there.
#ifndef BACKPLANE_PLUGINS_NPU_KERNELS_EXPRESSIONS_HPP
#define BACKPLANE_PLUGINS_NPU_KERNELS_EXPRESSIONS_HPP

#include "backplane/sdk/expression.h"

#undef BP_EXPRESSION_KERNEL_FLAGS
#define BP_EXPRESSION_KERNEL_FLAGS (BP_KERNEL_DETERMINISTIC_BIT | BP_KERNEL_CAPTURABLE_BIT)

/// As backplane/sdk/expression/launch.h has them.
bp_status bp_expression_launch(const bp_launch_args* args,
                               const bp_expression* expression) noexcept;
bp_status bp_reduction_launch(const bp_launch_args* args, const bp_reduction* reduction,
                              bp_i64_span axes) noexcept;

#endif
