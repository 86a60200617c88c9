// SPDX-License-Identifier: Apache-2.0
//
// identity: a copy with any strides of any dtype, by the size of its elements. It is also how the
// core makes strided tensors contiguous, and writes into views. 4-bit elements are contiguous by
// definition.
#include <algorithm>
#include <cstring>

#include "copy_rows.hpp"
#include "kernel_support.hpp"
#include "large.hpp"
#include "math/copies.hpp"

namespace bp::cpu {
namespace {

void copy_contiguous(Workers& workers, std::byte* y, const std::byte* x, int64_t bytes) {
  const auto copy = bytes >= kCachedBytes
                        ? stream_copy
                        : [](std::byte* to, const std::byte* from, int64_t count) {
                            std::memcpy(to, from, static_cast<size_t>(count));
                          };
  workers.for_ranges((bytes - 1) / 64 + 1, 4, [&](int64_t begin, int64_t end) noexcept {
    copy(y + begin * 64, x + begin * 64, std::min(end * 64, bytes) - begin * 64);
    finish_stream();
  });
}

bp_status launch(const bp_launch_args& args) {
  const bp_tensor& x = input_of(args, 0);
  const bp_tensor& y = output_of(args);
  const int64_t count = sdk::element_count(y);
  if (count == 0) return BP_OK;
  std::byte* const y_data = address_of(y);
  const std::byte* const x_data = address_of(x);
  Workers& workers = args.device->workers;
  const int64_t bytes = static_cast<int64_t>(sdk::dtype_bytes(y.dtype));
  if (bytes == 0 || (is_contiguous(x) && is_contiguous(y))) {
    copy_contiguous(workers, y_data, x_data, bytes == 0 ? (count + 1) / 2 : count * bytes);
    return BP_OK;
  }
  copy_strided(workers, y, y_data, x, x_data, bytes);
  return BP_OK;
}

// More than the operator's own set: the core uses this kernel for whatever it stores.
constexpr uint64_t kMasks[] = {
    kAnyTypes | sdk::dtypes({BP_DTYPE_C64, BP_DTYPE_C128, BP_DTYPE_F8E4M3FN, BP_DTYPE_F8E5M2,
                             BP_DTYPE_F8E4M3FNUZ, BP_DTYPE_F8E5M2FNUZ, BP_DTYPE_I4, BP_DTYPE_U4})};

constexpr bp_kernel kKernels[] = {
    sdk::describe({.name = "identity_loop",
                   .op = "identity",
                   .dtypes = kMasks,
                   .arg_rules = sdk::kAnyStrides,
                   .flags = BP_KERNEL_DETERMINISTIC_BIT | BP_KERNEL_STRIDED_OUTPUTS_BIT,
                   .launch = launch_slot<launch>})};

}  // namespace

BP_SDK_KERNELS(identity, kKernels);

}  // namespace bp::cpu
