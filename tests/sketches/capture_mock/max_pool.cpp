// SPDX-License-Identifier: Apache-2.0
//
// The kernel that digits needs and the NPU leaves to the host device: what runs elsewhere waits,
// and waits cannot be captured.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backplane/ops/pooling.h"
#include "kernels/launch.hpp"

namespace bp::sketch {

using namespace bp::npu;

namespace {

int64_t item(const bp_i64_span& list, uint64_t index, int64_t fallback) {
  return index < list.count ? list.ptr[index] : fallback;
}

KernelBody prepare(const bp_launch_args& args) {
  const auto wanted = read_attributes(args.attributes, bp_attrs_max_pool_defaults());
  const int64_t rows = item(wanted.kernel_shape, 0, 1), columns = item(wanted.kernel_shape, 1, 1);
  const int64_t down = item(wanted.strides, 0, 1), right = item(wanted.strides, 1, 1);
  return [=](const Launch& launch) {
    const Tensor& x = launch.input(0);
    const Tensor& y = launch.output();
    float* out = y.as<float>();
    const int64_t height = x.sizes[2], width = x.sizes[3], out_width = y.sizes[3];
    const int64_t pixels = y.sizes[2] * out_width;
    for (int64_t i = 0; i < y.element_count(); ++i) {
      const float* const plane = x.as<float>() + i / pixels * height * width;
      const int64_t top = i % pixels / out_width * down, left = i % out_width * right;
      float best = -std::numeric_limits<float>::infinity();
      for (int64_t k = 0; k < rows * columns; ++k) {
        const float value = plane[(top + k / columns) * width + left + k % columns];
        if (value > best || std::isnan(value)) best = value;
      }
      *out++ = best;
    }
  };
}

const char* why_not(const bp_kernel_query& query) {
  const auto wanted = read_attributes(query.attributes, bp_attrs_max_pool_defaults());
  const auto is_zero = [](int64_t value) { return value == 0; };
  const bool plain = std::all_of(wanted.pads.ptr, wanted.pads.ptr + wanted.pads.count, is_zero) &&
                     wanted.dilations.count == 0 && wanted.ceil_mode == 0 &&
                     wanted.kernel_shape.count == 2;
  return plain ? nullptr : "only two dimensions without padding";
}

constexpr bp_kernel kMaxPool = sdk::describe({.name = "max_pool_f32",
                                              .op = "max_pool",
                                              .dtypes = kFloat32,
                                              .supports = sdk::supports_slot<why_not>,
                                              .launch = launch<prepare>});

}  // namespace

const bp_kernel* max_pool_kernel() { return &kMaxPool; }

}  // namespace bp::sketch
