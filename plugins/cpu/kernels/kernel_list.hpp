// SPDX-License-Identifier: Apache-2.0
//
// The kernels of this plugin. To add one, write its file, declare it here and give it a line in
// kernel_list.cpp.
#ifndef BACKPLANE_PLUGINS_CPU_KERNELS_KERNEL_LIST_HPP
#define BACKPLANE_PLUGINS_CPU_KERNELS_KERNEL_LIST_HPP

#include <span>

#include "kernel_support.hpp"

namespace bp::cpu {

/// In order of preference among equal priorities. Lifetime: plugin.
std::span<const bp_kernel* const> all_kernels();

// binary.cpp
extern const bp_kernel kAdd;
extern const bp_kernel kSub;
extern const bp_kernel kMul;
extern const bp_kernel kDiv;
extern const bp_kernel kMax;
// unary.cpp
extern const bp_kernel kRelu;
extern const bp_kernel kExp;
extern const bp_kernel kSqrt;
extern const bp_kernel kReciprocal;
// reduce.cpp
extern const bp_kernel kReduceMax;
extern const bp_kernel kReduceSum;
// softmax.cpp, batch_norm.cpp, max_pool_halving.cpp, max_pool.cpp
extern const bp_kernel kSoftmax;
extern const bp_kernel kBatchNorm;
extern const bp_kernel kMaxPoolHalving;
extern const bp_kernel kMaxPool;
// conv_small.cpp, conv_onednn.cpp, conv_loop.cpp
extern const bp_kernel kConvSmall;
extern const bp_kernel kConvOnednn;
extern const bp_kernel kConvLoop;
// matmul_skinny.cpp, matmul_onednn.cpp, matmul_loop.cpp
extern const bp_kernel kMatmulSkinny;
extern const bp_kernel kGemmSkinny;
extern const bp_kernel kMatmulOnednn;
extern const bp_kernel kMatmulLoop;
extern const bp_kernel kGemmOnednn;
extern const bp_kernel kGemmLoop;
// cast.cpp, identity.cpp, gather.cpp, non_zero.cpp
extern const bp_kernel kCast;
extern const bp_kernel kIdentity;
extern const bp_kernel kGather;
extern const bp_kernel kNonZero;

}  // namespace bp::cpu

#endif
