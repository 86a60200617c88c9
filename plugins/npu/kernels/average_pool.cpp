// SPDX-License-Identifier: Apache-2.0
//
// average_pool over one to three spatial dimensions, each output by itself. Fewer than three are
// seen as three, the first ones of size 1.
#include <algorithm>
#include <array>

#include "backplane/ops/pooling.h"
#include "kernels/launch.hpp"

namespace bp::npu {
namespace {

constexpr uint32_t kMaxSpatial = 3;
using Spatial = std::array<int64_t, kMaxSpatial>;

struct Pool {
  Spatial kernel{1, 1, 1};
  Spatial strides{1, 1, 1};
  Spatial dilations{1, 1, 1};
  Spatial begins{};
  Spatial ends{};
  bool counts_padding = false;
};

Spatial spatial_sizes(const Tensor& tensor) {
  Spatial sizes{1, 1, 1};
  std::copy(tensor.sizes.begin() + 2, tensor.sizes.begin() + tensor.rank,
            sizes.end() - (tensor.rank - 2));
  return sizes;
}

/// `count` values of an attribute from `first` on, at the end of `out`; an empty one changes
/// nothing.
void read_spatial(std::string_view name, bp_i64_span values, uint64_t expected_count,
                  uint64_t first, uint32_t count, Spatial* out) {
  if (values.count == 0) return;
  if (values.count != expected_count) {
    refuse("average_pool: ", name, " has ", values.count, " values; expected ", expected_count);
  }
  std::copy_n(values.ptr + first, count, out->end() - count);
}

Pool read_pool(const bp_launch_args& args) {
  const auto attributes = read_attributes(args.attributes, bp_attrs_average_pool_defaults());
  const uint32_t count = args.tensors[0].rank - 2;
  if (count < 1 || count > kMaxSpatial) {
    refuse("average_pool: an input of rank ", args.tensors[0].rank);
  }
  Pool pool;
  pool.counts_padding = attributes.count_include_pad != 0;
  read_spatial("kernel_shape", attributes.kernel_shape, count, 0, count, &pool.kernel);
  read_spatial("strides", attributes.strides, count, 0, count, &pool.strides);
  read_spatial("dilations", attributes.dilations, count, 0, count, &pool.dilations);
  read_spatial("pads", attributes.pads, uint64_t{2} * count, 0, count, &pool.begins);
  read_spatial("pads", attributes.pads, uint64_t{2} * count, count, count, &pool.ends);
  for (const Spatial& values : {pool.kernel, pool.strides, pool.dilations}) {
    if (*std::min_element(values.begin(), values.end()) < 1) {
      refuse("average_pool: a kernel, stride or dilation below 1");
    }
  }
  return pool;
}

/// The taps of a window in one dimension that lie within x, and how many count.
struct Taps {
  int64_t first;
  int64_t end;
  int64_t counted;
};

/// The smallest tap that reaches `place`, seen from where the window starts.
int64_t tap_at(int64_t start, int64_t place, int64_t dilation, int64_t kernel) {
  if (place <= start) return 0;
  return std::min(kernel, (place - start - 1) / dilation + 1);
}

Taps taps_of(const Pool& pool, size_t d, int64_t x_size, int64_t out) {
  const int64_t start = out * pool.strides[d] - pool.begins[d];
  const auto reaching = [&](int64_t place) {
    return tap_at(start, place, pool.dilations[d], pool.kernel[d]);
  };
  const Taps inside{reaching(0), reaching(x_size), 0};
  const int64_t counted =
      pool.counts_padding ? reaching(x_size + pool.ends[d]) : inside.end - inside.first;
  return {inside.first, inside.end, counted};
}

float average(const Pool& pool, const Spatial& sizes, const float* x, const Spatial& at) {
  std::array<Taps, kMaxSpatial> taps;
  float count = 1;
  for (size_t d = 0; d < kMaxSpatial; ++d) {
    taps[d] = taps_of(pool, d, sizes[d], at[d]);
    count *= static_cast<float>(taps[d].counted);
  }
  const auto place = [&](size_t d, int64_t tap) {
    return at[d] * pool.strides[d] - pool.begins[d] + tap * pool.dilations[d];
  };
  float sum = 0;
  for (int64_t d = taps[0].first; d < taps[0].end; ++d) {
    for (int64_t h = taps[1].first; h < taps[1].end; ++h) {
      const float* const row = x + (place(0, d) * sizes[1] + place(1, h)) * sizes[2];
      for (int64_t w = taps[2].first; w < taps[2].end; ++w) sum += row[place(2, w)];
    }
  }
  return sum / count;
}

void average_pool(const Pool& pool, const Launch& launch) {
  const Tensor& x = launch.input(0);
  const Tensor& y = launch.output();
  const Spatial in = spatial_sizes(x);
  const Spatial out = spatial_sizes(y);
  const int64_t in_count = in[0] * in[1] * in[2];
  const int64_t out_count = out[0] * out[1] * out[2];
  for (int64_t i = 0; i < y.element_count(); ++i) {
    const int64_t o = i % out_count;
    const Spatial at{o / out[2] / out[1], o / out[2] % out[1], o % out[2]};
    y.as<float>()[i] = average(pool, in, x.as<float>() + i / out_count * in_count, at);
  }
}

const char* why_not(const bp_kernel_query& query) {
  const uint32_t rank = sdk::arg_info(query, 0).rank;
  return rank >= 3 && rank <= 2 + kMaxSpatial ? nullptr : "only 1 to 3 spatial dimensions";
}

KernelBody prepare(const bp_launch_args& args) {
  return [pool = read_pool(args)](const Launch& launch) { average_pool(pool, launch); };
}

constexpr bp_kernel kKernels[] = {sdk::describe({.name = "average_pool_f32",
                                                 .op = "average_pool",
                                                 .dtypes = kFloat32,
                                                 .supports = sdk::supports_slot<why_not>,
                                                 .launch = launch<prepare>})};

}  // namespace

BP_SDK_KERNELS(average_pool, kKernels);

}  // namespace bp::npu
