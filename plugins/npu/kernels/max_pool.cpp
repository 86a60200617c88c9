// SPDX-License-Identifier: Apache-2.0
//
// max_pool and max_pool_indices over one to three spatial dimensions, each output by itself.
#include "backplane/ops/pooling.h"
#include "kernels/elements.hpp"
#include "kernels/window.hpp"

namespace bp::npu {
namespace {

/// The largest element of a window, and where in the plane it is; -1: the window has none.
template <class T>
struct Largest {
  Compute<T> value = lowest<Compute<T>>();
  Spatial place{-1, -1, -1};
};

/// NaN wins over numbers, and the first of equal ones stays.
template <class T>
Largest<T> largest_of(const Window& window, const Spatial& sizes, const T* x, const Spatial& at) {
  std::array<Taps, kMaxSpatial> taps;
  for (size_t d = 0; d < kMaxSpatial; ++d) taps[d] = window.taps_within(d, at[d], sizes[d]);
  Largest<T> best;
  for (int64_t d = taps[0].first; d < taps[0].end; ++d) {
    for (int64_t h = taps[1].first; h < taps[1].end; ++h) {
      for (int64_t w = taps[2].first; w < taps[2].end; ++w) {
        const Spatial place{window.place(0, at[0], d), window.place(1, at[1], h),
                            window.place(2, at[2], w)};
        const auto value = load(x[(place[0] * sizes[1] + place[1]) * sizes[2] + place[2]]);
        const bool wins = value > best.value || (value != value && best.value == best.value);
        if (wins || best.place[0] < 0) best = {value, place};
      }
    }
  }
  return best;
}

template <class Put>
void for_each_largest(const Window& window, const Launch& launch, const Put& put) {
  const Tensor& x = launch.input(0);
  const Spatial in = spatial_sizes(x);
  Numbers::with_type(x.dtype, [&]<class T>(T) {
    for_each_window(launch.output(), [&](int64_t i, int64_t plane, const Spatial& at) {
      const auto best = largest_of(window, in, x.as<T>() + plane * volume(in), at);
      launch.output().as<T>()[i] = store<T>(best.value);
      put(i, plane, best.place);
    });
  });
}

KernelBody prepare(const bp_launch_args& args) {
  const auto attributes = read_attributes(args.attributes, bp_attrs_max_pool_defaults());
  const Window window = read_window("max_pool", attributes, args.tensors[0].rank);
  return [window](const Launch& launch) {
    for_each_largest(window, launch, [](int64_t, int64_t, const Spatial&) {});
  };
}

KernelBody prepare_indices(const bp_launch_args& args) {
  const auto attributes = read_attributes(args.attributes, bp_attrs_max_pool_indices_defaults());
  const Window window = read_window("max_pool_indices", attributes, args.tensors[0].rank);
  return [window, first_is_fastest = attributes.storage_order != 0](const Launch& launch) {
    const auto [depth, height, width] = spatial_sizes(launch.input(0));
    const Spatial steps =
        first_is_fastest ? Spatial{1, depth, depth * height} : Spatial{height * width, width, 1};
    const int64_t plane_size = depth * height * width;
    for_each_largest(window, launch, [&](int64_t i, int64_t plane, const Spatial& place) {
      const int64_t within = place[0] * steps[0] + place[1] * steps[1] + place[2] * steps[2];
      launch.output(1).as<int64_t>()[i] = place[0] < 0 ? -1 : plane * plane_size + within;
    });
  };
}

constexpr bp_kernel kKernels[] = {describe({.name = "max_pool_number",
                                            .op = "max_pool",
                                            .dtypes = Numbers::kDtypes,
                                            .supports = sdk::supports_slot<refuse_spatial_rank>,
                                            .launch = launch<prepare>}),
                                  describe({.name = "max_pool_indices_number",
                                            .op = "max_pool_indices",
                                            .dtypes = Numbers::kDtypes,
                                            .supports = sdk::supports_slot<refuse_spatial_rank>,
                                            .launch = launch<prepare_indices>})};

}  // namespace

BP_SDK_KERNELS(max_pool, kKernels);

}  // namespace bp::npu
