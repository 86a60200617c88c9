// SPDX-License-Identifier: Apache-2.0
//
// batch_norm, inference form: per channel one factor, then (x - mean) * factor + bias. Half types
// are computed in f32 and rounded once.
#include <algorithm>
#include <cmath>

#include "backplane/ops/nn.h"
#include "element.hpp"
#include "kernel_support.hpp"

namespace bp::cpu {
namespace {

struct Shape {
  int64_t batch;
  int64_t channels;
  int64_t inner;  // elements of one channel of one image
  double epsilon;
};

struct Operands {
  const void* x;
  const void* scale;
  const void* bias;
  const void* mean;
  const void* var;
  void* y;
};

template <class T>
struct BatchNorm {
  using C = Compute<T>;

  static C at(const void* data, int64_t index) { return load(static_cast<const T*>(data)[index]); }

  // Channels [begin, end) of all images.
  static void run(const Shape& shape, const Operands& data, int64_t begin, int64_t end) {
    for (int64_t channel = begin; channel < end; ++channel) {
      const C deviation = std::sqrt(at(data.var, channel) + static_cast<C>(shape.epsilon));
      const C factor = at(data.scale, channel) / deviation;
      const C mean = at(data.mean, channel);
      const C bias = at(data.bias, channel);
      for (int64_t image = 0; image < shape.batch; ++image) {
        const int64_t offset = (image * shape.channels + channel) * shape.inner;
        const T* const x = static_cast<const T*>(data.x) + offset;
        T* const y = static_cast<T*>(data.y) + offset;
        for (int64_t i = 0; i < shape.inner; ++i) {
          y[i] = store<T>((load(x[i]) - mean) * factor + bias);
        }
      }
    }
  }
};

constexpr auto kTable = float_table<BatchNorm>();

bp_status launch(const bp_launch_args& args) {
  const bp_tensor& x = input_of(args, 0);
  const auto attrs = read_attributes(args.attributes, bp_attrs_batch_norm_defaults());
  // ONNX: a tensor of rank 1 is a batch of single values of one channel.
  Shape shape{.batch = x.rank > 0 ? x.sizes[0] : 1,
              .channels = x.rank > 1 ? x.sizes[1] : 1,
              .inner = 1,
              .epsilon = attrs.epsilon};
  for (uint32_t d = 2; d < x.rank; ++d) shape.inner *= x.sizes[d];
  const Operands data{.x = address_of(x),
                      .scale = address_of(input_of(args, 1)),
                      .bias = address_of(input_of(args, 2)),
                      .mean = address_of(input_of(args, 3)),
                      .var = address_of(input_of(args, 4)),
                      .y = address_of(output_of(args))};
  if (shape.batch == 0 || shape.inner == 0) return BP_OK;
  const auto run = kTable[x.dtype];
  args.device->workers.for_ranges(
      shape.channels, std::max<int64_t>(1, shape.batch * shape.inner),
      [&](int64_t begin, int64_t end) noexcept { run(shape, data, begin, end); });
  return BP_OK;
}

constexpr uint64_t kMasks[] = {kFloatTypes};

constexpr bp_kernel kKernels[] = {sdk::describe({.name = "batch_norm_loop",
                                                 .op = "batch_norm",
                                                 .dtypes = kMasks,
                                                 .launch = launch_slot<launch>})};

}  // namespace

BP_SDK_KERNELS(batch_norm, kKernels);

}  // namespace bp::cpu
