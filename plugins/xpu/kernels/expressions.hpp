// SPDX-License-Identifier: Apache-2.0
//
// What emitted kernels (bp_expression_kernels) call: plans that make a program of an operator's
// source, and the launch that all kernels have.
#ifndef BACKPLANE_PLUGINS_XPU_KERNELS_EXPRESSIONS_HPP
#define BACKPLANE_PLUGINS_XPU_KERNELS_EXPRESSIONS_HPP

#include "backplane/sdk/expression.h"
#include "device.hpp"
#include "kernels/kernel.hpp"

bp_status bp_expression_plan(bp_device* device, const bp_kernel_query* query,
                             bp_plan_info* out_info, bp_kernel_plan** out_plan,
                             const bp_expression* expression);
bp_status bp_reduction_plan(bp_device* device, const bp_kernel_query* query, bp_plan_info* out_info,
                            bp_kernel_plan** out_plan, const bp_reduction* reduction,
                            bp_i64_span axes);

inline constexpr auto bp_expression_supports = bp::xpu::supports;
inline constexpr auto bp_expression_plan_free = bp::sdk::delete_plan<bp_kernel_plan>;
inline constexpr auto bp_expression_launch = bp::sdk::launch_slot<bp::xpu::launch>;
inline constexpr auto bp_expression_state_create = bp::xpu::state_create;
inline constexpr auto bp_expression_state_destroy = bp::xpu::state_destroy;

#endif
