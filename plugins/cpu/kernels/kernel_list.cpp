// SPDX-License-Identifier: Apache-2.0
//
// The one list of kernels; the order within an operator is the order of preference.
#include "kernels/kernel_list.hpp"

namespace bp::cpu {
namespace {

constexpr const bp_kernel* kKernels[] = {
    &kAdd,
    &kSub,
    &kMul,
    &kDiv,
    &kMax,  // binary
    &kRelu,
    &kExp,
    &kSqrt,
    &kReciprocal,  // unary
    &kReduceMax,
    &kReduceSum,       // reduce
    &kSoftmax,         // softmax
    &kBatchNorm,       // batch_norm
    &kMaxPoolHalving,  // max_pool_halving
    &kMaxPool,         // max_pool
    &kConvSmall,       // conv_small
    &kConvOnednn,      // conv_onednn
    &kConvLoop,        // conv_loop
    &kMatmulSkinny,
    &kGemmSkinny,  // matmul_skinny
    &kMatmulOnednn,
    &kGemmOnednn,  // matmul_onednn
    &kMatmulLoop,
    &kGemmLoop,  // matmul_loop
    &kCast,      // cast
    &kIdentity,  // identity
    &kGather,    // gather
    &kNonZero,   // non_zero
};

}  // namespace

std::span<const bp_kernel* const> all_kernels() { return kKernels; }

}  // namespace bp::cpu
