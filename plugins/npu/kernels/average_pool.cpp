// SPDX-License-Identifier: Apache-2.0
//
// average_pool over one to three spatial dimensions, each output by itself.
#include "backplane/ops/pooling.h"
#include "kernels/elements.hpp"
#include "kernels/window.hpp"

namespace bp::npu {
namespace {

struct Pool {
  Window window;
  bool counts_padding = false;
};

/// How many taps of a window count in one dimension.
int64_t counted_taps(const Pool& pool, size_t d, int64_t out, int64_t x_size) {
  const Taps inside = pool.window.taps_within(d, out, x_size);
  if (!pool.counts_padding) return inside.end - inside.first;
  return pool.window.taps_within(d, out, x_size + pool.window.ends[d]).end;
}

template <class T>
T average(const Pool& pool, const Spatial& sizes, const T* x, const Spatial& at) {
  const Window& window = pool.window;
  std::array<Taps, kMaxSpatial> taps;
  Compute<T> count = 1;
  for (size_t d = 0; d < kMaxSpatial; ++d) {
    taps[d] = window.taps_within(d, at[d], sizes[d]);
    count *= static_cast<Compute<T>>(counted_taps(pool, d, at[d], sizes[d]));
  }
  Compute<T> sum = 0;
  for (int64_t d = taps[0].first; d < taps[0].end; ++d) {
    for (int64_t h = taps[1].first; h < taps[1].end; ++h) {
      const T* const row =
          x + (window.place(0, at[0], d) * sizes[1] + window.place(1, at[1], h)) * sizes[2];
      for (int64_t w = taps[2].first; w < taps[2].end; ++w) {
        sum += load(row[window.place(2, at[2], w)]);
      }
    }
  }
  return store<T>(sum / count);
}

void average_pool(const Pool& pool, const Launch& launch) {
  const Tensor& x = launch.input(0);
  const Tensor& y = launch.output();
  const Spatial in = spatial_sizes(x);
  Floats::with_type(x.dtype, [&]<class T>(T) {
    for_each_window(y, [&](int64_t i, int64_t plane, const Spatial& at) {
      y.as<T>()[i] = average(pool, in, x.as<T>() + plane * volume(in), at);
    });
  });
}

KernelBody prepare(const bp_launch_args& args) {
  const auto attributes = read_attributes(args.attributes, bp_attrs_average_pool_defaults());
  const Pool pool{read_window("average_pool", attributes, args.tensors[0].rank),
                  attributes.count_include_pad != 0};
  return [pool](const Launch& launch) { average_pool(pool, launch); };
}

constexpr bp_kernel kKernels[] = {describe({.name = "average_pool_float",
                                            .op = "average_pool",
                                            .dtypes = Floats::kDtypes,
                                            .supports = sdk::supports_slot<refuse_spatial_rank>,
                                            .launch = launch<prepare>})};

}  // namespace

BP_SDK_KERNELS(average_pool, kKernels);

}  // namespace bp::npu
