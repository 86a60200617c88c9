// SPDX-License-Identifier: Apache-2.0
//
// global_average_pool: one sum over neighbouring elements for each channel.
#include "kernel_support.hpp"
#include "row_sum.hpp"

namespace bp::cpu {
namespace {

template <class T>
struct GlobalAverage {
  static void run(void* y_data, const void* x_data, int64_t count, int64_t begin, int64_t end) {
    const T* const x = static_cast<const T*>(x_data);
    T* const y = static_cast<T*>(y_data);
    const auto divisor = static_cast<Compute<T>>(count);
    for (int64_t c = begin; c < end; ++c) y[c] = store<T>(row_sum(x + c * count, count) / divisor);
  }
};

constexpr auto kTable = float_table<GlobalAverage>();

bp_status launch(const bp_launch_args& args) {
  const bp_tensor& x = input_of(args, 0);
  const int64_t channels = x.sizes[0] * x.sizes[1];
  if (channels == 0) return BP_OK;
  int64_t count = 1;
  for (uint32_t i = 2; i < x.rank; ++i) count *= x.sizes[i];
  std::byte* const y_data = address_of(output_of(args));
  const std::byte* const x_data = address_of(x);
  const auto run = kTable[x.dtype];
  args.device->workers.for_ranges(channels, count + 1, [&](int64_t begin, int64_t end) noexcept {
    run(y_data, x_data, count, begin, end);
  });
  return BP_OK;
}

constexpr uint64_t kMasks[] = {kFloatTypes};

constexpr bp_kernel kKernels[] = {sdk::describe({.name = "global_average_pool_rows",
                                                 .op = "global_average_pool",
                                                 .dtypes = kMasks,
                                                 .launch = launch_slot<launch>})};

}  // namespace

BP_SDK_KERNELS(global_average_pool, kKernels);

}  // namespace bp::cpu
