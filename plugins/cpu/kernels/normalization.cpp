// SPDX-License-Identifier: Apache-2.0
//
// layer_norm, rms_norm, instance_norm and group_norm: each normalises rows, the contiguous elements
// that share a mean and a variance. Two passes read a row, which then is in cache: the variance
// from the deviations keeps its digits where the mean is large. The mean of the deviations corrects
// the first one, whose last bit would otherwise show in rows that hardly vary. Sums of f32 and half
// types are kept in f32 for a block and in f64 beyond it. Vector code by Highway, compiled for each
// instruction set and chosen when it runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/normalization.cpp"
// clang-format off: this file includes itself once per instruction set, before anything else.
#include "backplane/ops/normalization.h"

#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include <algorithm>
#include <cmath>
#include <string>

#include "element.hpp"
#include "kernel_support.hpp"

#ifndef BACKPLANE_PLUGINS_CPU_KERNELS_NORMALIZATION_ONCE
#define BACKPLANE_PLUGINS_CPU_KERNELS_NORMALIZATION_ONCE
namespace bp::cpu {

/// Sums of the deviations from some value, and of their squares.
template <class C>
struct Deviations {
  C sum;
  C squares;
};

/// What is taken off each element, one after the other, and what it is multiplied by then.
template <class C>
struct Normal {
  C mean;
  C correction;
  C inverse;
};

template <class C>
C normalized(C x, const Normal<C>& normal) {
  return (x - normal.mean - normal.correction) * normal.inverse;
}

}  // namespace bp::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Both in four chains.
float sum_block(const float* x, size_t count) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    sum0 = hn::Add(sum0, hn::LoadU(d, x + i));
    sum1 = hn::Add(sum1, hn::LoadU(d, x + i + lanes));
    sum2 = hn::Add(sum2, hn::LoadU(d, x + i + 2 * lanes));
    sum3 = hn::Add(sum3, hn::LoadU(d, x + i + 3 * lanes));
  }
  for (; i + lanes <= count; i += lanes) sum0 = hn::Add(sum0, hn::LoadU(d, x + i));
  float total = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3))));
  for (; i < count; ++i) total += x[i];
  return total;
}

Deviations<float> deviations_block(const float* x, size_t count, float mean) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto means = hn::Set(d, mean);
  auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  auto squares0 = sum0, squares1 = sum0, squares2 = sum0, squares3 = sum0;
  const auto add = [&](size_t at, auto& sum, auto& squares) HWY_ATTR {
    const auto deviation = hn::Sub(hn::LoadU(d, x + at), means);
    sum = hn::Add(sum, deviation);
    squares = hn::MulAdd(deviation, deviation, squares);
  };
  size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    add(i, sum0, squares0);
    add(i + lanes, sum1, squares1);
    add(i + 2 * lanes, sum2, squares2);
    add(i + 3 * lanes, sum3, squares3);
  }
  for (; i + lanes <= count; i += lanes) add(i, sum0, squares0);
  const auto sum = hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3));
  const auto squares = hn::Add(hn::Add(squares0, squares1), hn::Add(squares2, squares3));
  Deviations<float> total{hn::GetLane(hn::SumOfLanes(d, sum)),
                          hn::GetLane(hn::SumOfLanes(d, squares))};
  for (; i < count; ++i) {
    total.sum += x[i] - mean;
    total.squares += (x[i] - mean) * (x[i] - mean);
  }
  return total;
}

// y[i] = normal(x[i]) * scale[i] + bias[i]; bias may be null.
void scale_block(const float* x, float* y, size_t count, const Normal<float>& normal,
                 const float* scale, const float* bias) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto means = hn::Set(d, normal.mean);
  const auto corrections = hn::Set(d, normal.correction);
  const auto inverses = hn::Set(d, normal.inverse);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto deviation = hn::Sub(hn::Sub(hn::LoadU(d, x + i), means), corrections);
    auto value = hn::Mul(hn::Mul(deviation, inverses), hn::LoadU(d, scale + i));
    if (bias != nullptr) value = hn::Add(value, hn::LoadU(d, bias + i));
    hn::StoreU(value, d, y + i);
  }
  for (; i < count; ++i) {
    const float value = normalized(x[i], normal) * scale[i];
    y[i] = bias == nullptr ? value : value + bias[i];
  }
}

// The same with one scale and one bias.
void scale_block_alike(const float* x, float* y, size_t count, const Normal<float>& normal,
                       float scale, float bias) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto means = hn::Set(d, normal.mean);
  const auto corrections = hn::Set(d, normal.correction);
  const auto inverses = hn::Set(d, normal.inverse);
  const auto scales = hn::Set(d, scale);
  const auto biases = hn::Set(d, bias);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto deviation = hn::Sub(hn::Sub(hn::LoadU(d, x + i), means), corrections);
    hn::StoreU(hn::Add(hn::Mul(hn::Mul(deviation, inverses), scales), biases), d, y + i);
  }
  for (; i < count; ++i) y[i] = normalized(x[i], normal) * scale + bias;
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bp::cpu {
namespace {

HWY_EXPORT(sum_block);
HWY_EXPORT(deviations_block);
HWY_EXPORT(scale_block);
HWY_EXPORT(scale_block_alike);

// Elements that f32 sums and that half types are widened for at a time.
constexpr int64_t kBlock = 1024;
constexpr int64_t kElementCost = 3;

/// What a row of x is, and which elements of scale and bias belong to it.
struct Rows {
  int64_t count = 0;
  int64_t segments = 1;  // of a row; those of one channel each
  int64_t run = 0;       // elements of a segment
  int64_t cycle = 0;     // rows after which the channels begin again; 0: a parameter per element
  double epsilon = 0;
  bool centred = true;

  int64_t length() const { return segments * run; }
};

struct Operands {
  const void* x;
  const void* scale;
  const void* bias;  // null: none
  void* y;
};

/// Steps on blocks: f32 in place, half types by way of f32.
template <class T>
struct Blocks {
  using C = float;
  static constexpr bool kInPlace = std::is_same_v<T, float>;

  static const float* widened(const T* x, int64_t count, float* buffer) {
    if constexpr (kInPlace) {
      return x;
    } else {
      for (int64_t i = 0; i < count; ++i) buffer[i] = load(x[i]);
      return buffer;
    }
  }
  static double sum(const T* x, int64_t count) {
    float buffer[kInPlace ? 1 : kBlock];
    return double{
        HWY_DYNAMIC_DISPATCH(sum_block)(widened(x, count, buffer), static_cast<size_t>(count))};
  }
  static Deviations<double> deviations(const T* x, int64_t count, float mean) {
    float buffer[kInPlace ? 1 : kBlock];
    const Deviations<float> found = HWY_DYNAMIC_DISPATCH(deviations_block)(
        widened(x, count, buffer), static_cast<size_t>(count), mean);
    return {double{found.sum}, double{found.squares}};
  }
  static void scale(const T* x, T* y, int64_t count, const Normal<float>& normal, const T* scale,
                    const T* bias) {
    float buffers[3][kInPlace ? 1 : kBlock];
    const float* const from = widened(x, count, buffers[0]);
    const float* const scales = widened(scale, count, buffers[1]);
    const float* const biases = bias == nullptr ? nullptr : widened(bias, count, buffers[2]);
    float* const to = target(y, buffers[0]);
    HWY_DYNAMIC_DISPATCH(scale_block)
    (from, to, static_cast<size_t>(count), normal, scales, biases);
    narrow(to, y, count);
  }
  static void scale_alike(const T* x, T* y, int64_t count, const Normal<float>& normal, float scale,
                          float bias) {
    float buffer[kInPlace ? 1 : kBlock];
    const float* const from = widened(x, count, buffer);
    float* const to = target(y, buffer);
    HWY_DYNAMIC_DISPATCH(scale_block_alike)
    (from, to, static_cast<size_t>(count), normal, scale, bias);
    narrow(to, y, count);
  }

 private:
  static float* target(T* y, float* buffer) {
    if constexpr (kInPlace) {
      return y;
    } else {
      return buffer;
    }
  }
  static void narrow(const float* from, T* y, int64_t count) {
    if constexpr (!kInPlace) {
      for (int64_t i = 0; i < count; ++i) y[i] = store<T>(from[i]);
    }
  }
};

/// f64, which the compiler makes vector code of where it may.
template <>
struct Blocks<double> {
  using C = double;
  static double sum(const double* x, int64_t count) {
    double total = 0;
    for (int64_t i = 0; i < count; ++i) total += x[i];
    return total;
  }
  static Deviations<double> deviations(const double* x, int64_t count, double mean) {
    Deviations<double> total{0, 0};
    for (int64_t i = 0; i < count; ++i) {
      total.sum += x[i] - mean;
      total.squares += (x[i] - mean) * (x[i] - mean);
    }
    return total;
  }
  static void scale(const double* x, double* y, int64_t count, const Normal<double>& normal,
                    const double* scale, const double* bias) {
    for (int64_t i = 0; i < count; ++i) {
      const double value = normalized(x[i], normal) * scale[i];
      y[i] = bias == nullptr ? value : value + bias[i];
    }
  }
  static void scale_alike(const double* x, double* y, int64_t count, const Normal<double>& normal,
                          double scale, double bias) {
    for (int64_t i = 0; i < count; ++i) y[i] = normalized(x[i], normal) * scale + bias;
  }
};

/// fn(first, count) for blocks that cover [0, count).
template <class Fn>
void each_block(int64_t count, const Fn& fn) {
  for (int64_t first = 0; first < count; first += kBlock) {
    fn(first, std::min(kBlock, count - first));
  }
}

template <class T>
struct Normalize {
  using B = Blocks<T>;
  using C = typename B::C;

  static Normal<C> normal_of(const Rows& rows, const T* x) {
    const int64_t length = rows.length();
    const auto elements = static_cast<double>(length);
    double mean = 0;
    if (rows.centred) {
      each_block(length, [&](int64_t at, int64_t count) { mean += B::sum(x + at, count); });
      mean /= elements;
    }
    const C rounded_mean = static_cast<C>(mean);
    Deviations<double> total{0, 0};
    each_block(length, [&](int64_t at, int64_t count) {
      const Deviations<double> found = B::deviations(x + at, count, rounded_mean);
      total.sum += found.sum;
      total.squares += found.squares;
    });
    const double correction = rows.centred ? total.sum / elements : 0;
    // Rounding may leave less than nothing; NaN stays.
    const double variance = std::max(total.squares / elements - correction * correction, 0.0);
    return {rounded_mean, static_cast<C>(correction),
            static_cast<C>(1.0 / std::sqrt(variance + rows.epsilon))};
  }

  static void run_row(const Rows& rows, const Operands& data, int64_t row) {
    const int64_t length = rows.length();
    const T* const x = static_cast<const T*>(data.x) + row * length;
    T* const y = static_cast<T*>(data.y) + row * length;
    const Normal<C> normal = normal_of(rows, x);
    const T* const scale = static_cast<const T*>(data.scale);
    const T* const bias = static_cast<const T*>(data.bias);
    if (rows.cycle == 0) {
      each_block(length, [&](int64_t at, int64_t count) {
        B::scale(x + at, y + at, count, normal, scale + at, bias == nullptr ? nullptr : bias + at);
      });
      return;
    }
    const int64_t first_channel = row % rows.cycle * rows.segments;
    for (int64_t segment = 0; segment < rows.segments; ++segment) {
      const C factor = load(scale[first_channel + segment]);
      const C shift = bias == nullptr ? C{0} : C{load(bias[first_channel + segment])};
      each_block(rows.run, [&](int64_t at, int64_t count) {
        const int64_t place = segment * rows.run + at;
        B::scale_alike(x + place, y + place, count, normal, factor, shift);
      });
    }
  }

  static void run(const Rows& rows, const Operands& data, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) run_row(rows, data, row);
  }
};

constexpr auto kTable = float_table<Normalize>();

bp_status launch_rows(const bp_launch_args& args, const Rows& rows) {
  if (rows.count == 0 || rows.length() == 0) return BP_OK;
  const bool has_bias = args.input_count > 2 && input_of(args, 2).dtype != BP_DTYPE_NONE;
  const Operands data{.x = address_of(input_of(args, 0)),
                      .scale = address_of(input_of(args, 1)),
                      .bias = has_bias ? address_of(input_of(args, 2)) : nullptr,
                      .y = address_of(output_of(args))};
  const auto run = kTable[input_of(args, 0).dtype];
  args.device->workers.for_ranges(
      rows.count, rows.length() * kElementCost,
      [&](int64_t begin, int64_t end) noexcept { run(rows, data, begin, end); });
  return BP_OK;
}

// ---- layer_norm and rms_norm ----

struct AxisPlan : bp_kernel_plan {
  uint32_t axis = 0;
  double epsilon = 0;
};

/// A parameter that repeats within a row, or differs between rows, is for the decomposition.
void refuse_repeated(const bp_arg_info& x, uint32_t axis, const bp_arg_info& parameter) {
  const auto x_sizes = sizes_of(x).subspan(axis);
  auto sizes = sizes_of(parameter);
  while (sizes.size() > x_sizes.size() && sizes.front() == 1) sizes = sizes.subspan(1);
  if (std::equal(sizes.begin(), sizes.end(), x_sizes.begin(), x_sizes.end())) return;
  throw Refusal{"takes a scale and a bias with one element for each of a row"};
}

template <class Attrs, Attrs (*Defaults)()>
std::unique_ptr<AxisPlan> make_axis_plan(bp_device*, const bp_kernel_query& query, bp_plan_info*) {
  const auto attrs = read_attributes(query.attributes, Defaults());
  const bp_arg_info& x = arg_info(query, 0);
  const int64_t axis = attrs.axis < 0 ? attrs.axis + x.rank : attrs.axis;
  if (axis < 0 || axis >= x.rank) {
    throw sdk::Failure{BP_INVALID_ARGUMENT, "axis " + std::to_string(attrs.axis) +
                                                " of a tensor of rank " + std::to_string(x.rank)};
  }
  auto plan = std::make_unique<AxisPlan>();
  plan->axis = static_cast<uint32_t>(axis);
  plan->epsilon = attrs.epsilon;
  refuse_repeated(x, plan->axis, arg_info(query, 1));
  if (has_input(query, 2)) refuse_repeated(x, plan->axis, arg_info(query, 2));
  return plan;
}

template <bool Centred>
bp_status launch_trailing(const bp_launch_args& args) {
  const auto& plan = *static_cast<const AxisPlan*>(args.plan);
  const bp_tensor& x = input_of(args, 0);
  Rows rows{.count = 1, .run = 1, .epsilon = plan.epsilon, .centred = Centred};
  for (uint32_t d = 0; d < x.rank; ++d) (d < plan.axis ? rows.count : rows.run) *= x.sizes[d];
  return launch_rows(args, rows);
}

// ---- instance_norm and group_norm ----

bp_status launch_channels(const bp_launch_args& args, int64_t groups, double epsilon) {
  const bp_tensor& x = input_of(args, 0);
  if (x.rank < 2 || groups < 1) {
    throw sdk::Failure{BP_INVALID_ARGUMENT, "a tensor of rank " + std::to_string(x.rank) + " in " +
                                                std::to_string(groups) + " groups"};
  }
  Rows rows{.count = x.sizes[0] * groups,
            .segments = x.sizes[1] / groups,
            .run = 1,
            .cycle = groups,
            .epsilon = epsilon};
  for (uint32_t d = 2; d < x.rank; ++d) rows.run *= x.sizes[d];
  return launch_rows(args, rows);
}

bp_status launch_instance(const bp_launch_args& args) {
  const auto attrs = read_attributes(args.attributes, bp_attrs_instance_norm_defaults());
  const bp_tensor& x = input_of(args, 0);
  const int64_t channels = x.rank > 1 ? x.sizes[1] : 1;
  return channels == 0 ? BP_OK : launch_channels(args, channels, attrs.epsilon);
}

bp_status launch_group(const bp_launch_args& args) {
  const auto attrs = read_attributes(args.attributes, bp_attrs_group_norm_defaults());
  return launch_channels(args, attrs.num_groups, attrs.epsilon);
}

constexpr uint64_t kMasks[] = {kFloatTypes};

template <class Attrs, Attrs (*Defaults)(), bool Centred>
constexpr bp_kernel trailing_kernel(std::string_view name, std::string_view op) {
  return sdk::describe({.name = name,
                        .op = op,
                        .dtypes = kMasks,
                        .depends_on = BP_DEPENDS_SIZES_BIT,
                        .plan = plan_slot<AxisPlan, make_axis_plan<Attrs, Defaults>>,
                        .plan_free = sdk::delete_plan<bp_kernel_plan>,
                        .launch = launch_slot<launch_trailing<Centred>>});
}

constexpr bp_kernel kKernels[] = {
    trailing_kernel<bp_attrs_layer_norm, bp_attrs_layer_norm_defaults, true>("layer_norm_rows",
                                                                             "layer_norm"),
    trailing_kernel<bp_attrs_rms_norm, bp_attrs_rms_norm_defaults, false>("rms_norm_rows",
                                                                          "rms_norm"),
    sdk::describe({.name = "instance_norm_rows",
                   .op = "instance_norm",
                   .dtypes = kMasks,
                   .launch = launch_slot<launch_instance>}),
    sdk::describe({.name = "group_norm_rows",
                   .op = "group_norm",
                   .dtypes = kMasks,
                   .launch = launch_slot<launch_group>})};

}  // namespace

BP_SDK_KERNELS(normalization, kKernels);

}  // namespace bp::cpu
#endif
