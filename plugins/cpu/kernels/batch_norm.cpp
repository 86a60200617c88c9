// SPDX-License-Identifier: Apache-2.0
//
// batch_norm, inference form: per channel one factor, then (x - mean) * factor + bias. Half types
// are computed in f32 and rounded once.
#include <algorithm>
#include <cmath>

#include "backplane/ops/nn.h"
#include "element.hpp"
#include "kernel_support.hpp"
#include "order.hpp"

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
struct BatchNormChannel {
  BatchNormChannel(const Shape& shape, const Operands& data, int64_t channel)
      : factor(at(data.scale, channel) /
               std::sqrt(at(data.var, channel) + static_cast<Compute<T>>(shape.epsilon))),
        mean(at(data.mean, channel)),
        bias(at(data.bias, channel)) {}
  static Compute<T> at(const void* data, int64_t index) {
    return load(static_cast<const T*>(data)[index]);
  }

  Compute<T> factor;
  Compute<T> mean;
  Compute<T> bias;
};

/// y is x, or apart from it: a loop over two pointers that may be one is no vector code.
template <class T, class Function>
void map(const T* x, T* y, int64_t count, Function function) {
  if (x == y) {
    for (int64_t i = 0; i < count; ++i) y[i] = function(y[i], i);
    return;
  }
  for (int64_t i = 0; i < count; ++i) y[i] = function(x[i], i);
}

template <class T>
struct BatchNorm {
  // Channels [begin, end) of all images.
  static void run(const Shape& shape, const Operands& data, int64_t begin, int64_t end) {
    for (int64_t channel = begin; channel < end; ++channel) {
      const auto [factor, mean, bias] = BatchNormChannel<T>(shape, data, channel);
      for (int64_t image = 0; image < shape.batch; ++image) {
        const int64_t offset = (image * shape.channels + channel) * shape.inner;
        const T* const x = static_cast<const T*>(data.x) + offset;
        T* const y = static_cast<T*>(data.y) + offset;
        map(x, y, shape.inner, [factor = factor, mean = mean, bias = bias](T value, int64_t) {
          return store<T>((load(value) - mean) * factor + bias);
        });
      }
    }
  }
};

// Channels that lie last: positions [begin, end) of all images.
template <class T>
struct BatchNormRows {
  static void run(const Shape& shape, const Operands& data, int64_t begin, int64_t end) {
    constexpr int64_t kTile = 256;  // channels that are worked on together
    for (int64_t first = 0; first < shape.channels; first += kTile) {
      const int64_t count = std::min(kTile, shape.channels - first);
      Compute<T> factors[kTile];
      Compute<T> means[kTile];
      Compute<T> biases[kTile];
      for (int64_t i = 0; i < count; ++i) {
        const BatchNormChannel<T> channel(shape, data, first + i);
        factors[i] = channel.factor;
        means[i] = channel.mean;
        biases[i] = channel.bias;
      }
      for (int64_t position = begin; position < end; ++position) {
        const int64_t offset = position * shape.channels + first;
        const T* const x = static_cast<const T*>(data.x) + offset;
        map(x, static_cast<T*>(data.y) + offset, count, [&](T value, int64_t i) {
          return store<T>((load(value) - means[i]) * factors[i] + biases[i]);
        });
      }
    }
  }
};

constexpr auto kTable = float_table<BatchNorm>();
constexpr auto kRowsTable = float_table<BatchNormRows>();

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
  // A matrix has its channels last too.
  if (!is_contiguous(x) || (shape.inner == 1 && shape.channels > 1)) {
    const auto run_rows = kRowsTable[x.dtype];
    args.device->workers.for_ranges(
        shape.batch * shape.inner, shape.channels,
        [&](int64_t begin, int64_t end) noexcept { run_rows(shape, data, begin, end); });
    return BP_OK;
  }
  const auto run = kTable[x.dtype];
  args.device->workers.for_ranges(
      shape.channels, std::max<int64_t>(1, shape.batch * shape.inner),
      [&](int64_t begin, int64_t end) noexcept { run(shape, data, begin, end); });
  return BP_OK;
}

std::unique_ptr<OrderedPlan> make_plan(bp_device*, const bp_kernel_query& query,
                                       bp_plan_info* info) {
  auto plan = std::make_unique<OrderedPlan>();
  follow_channels(query, plan.get(), info);
  if (info->out_strides == nullptr) throw Refusal{"takes images whose channels lie last"};
  return plan;
}

constexpr uint64_t kMasks[] = {kFloatTypes};
constexpr uint64_t kRowMasks[] = {sdk::dtypes({BP_DTYPE_F32})};

constexpr bp_kernel kKernels[] = {
    sdk::describe({.name = "batch_norm_f32_channels",
                   .op = "batch_norm",
                   .dtypes = kRowMasks,
                   .arg_rules = kFirstDense,
                   .flags = BP_KERNEL_DETERMINISTIC_BIT | BP_KERNEL_CHOOSES_ORDER_BIT,
                   .priority = 10,
                   .depends_on = BP_DEPENDS_SIZES_BIT | BP_DEPENDS_STRIDES_BIT,
                   .plan = plan_slot<OrderedPlan, make_plan>,
                   .plan_free = sdk::delete_plan<bp_kernel_plan>,
                   .launch = launch_slot<launch>,
                   .in_place_inputs = 1}),
    sdk::describe({.name = "batch_norm_loop",
                   .op = "batch_norm",
                   .dtypes = kMasks,
                   .launch = launch_slot<launch>,
                   .in_place_inputs = 1})};

}  // namespace

BP_SDK_KERNELS(batch_norm, kKernels);

}  // namespace bp::cpu
