// SPDX-License-Identifier: Apache-2.0
//
// The one list of kernels; the order within an operator is the order of preference.
#include "kernels/kernel_list.hpp"

namespace bp::cpu {
namespace {

constexpr const bp_kernel* kKernels[] = {
    // binary
    &kAdd,
    &kSub,
    &kMul,
    &kDiv,
    &kMax,
    // unary
    &kRelu,
    &kExp,
    &kSqrt,
    &kReciprocal,
    // reduce, softmax, batch_norm
    &kReduceMax,
    &kReduceSum,
    &kSoftmax,
    &kBatchNorm,
    // max_pool_halving, max_pool
    &kMaxPoolHalving,
    &kMaxPool,
    // conv_small, conv_onednn, conv_loop
    &kConvSmall,
    &kConvOnednn,
    &kConvLoop,
    // matmul_skinny, matmul_onednn, matmul_loop
    &kMatmulSkinny,
    &kGemmSkinny,
    &kMatmulOnednn,
    &kGemmOnednn,
    &kMatmulLoop,
    &kGemmLoop,
    // cast, identity, gather, non_zero
    &kCast,
    &kIdentity,
    &kGather,
    &kNonZero,
};

}  // namespace

std::span<const bp_kernel* const> all_kernels() { return kKernels; }

}  // namespace bp::cpu
