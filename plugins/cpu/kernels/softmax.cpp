// SPDX-License-Identifier: Apache-2.0
//
// softmax and log_softmax along one axis: the largest value is taken off first, so that exp does
// not overflow. Sums are of up to kRun powers each and then of these sums, which keeps their digits
// in f32. Vector code by Highway, compiled for each instruction set and chosen when it runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/softmax.cpp"
// clang-format off: this file includes itself once per instruction set, before anything else.
#include "backplane/ops/softmax.h"

#include "backplane/ops/nn.h"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include <algorithm>
#include <cmath>

#include "kernel_support.hpp"
#include "large.hpp"
#include "math/lanes-inl.hpp"
#include "math/vector_math-inl.hpp"

#ifndef BACKPLANE_PLUGINS_CPU_KERNELS_SOFTMAX_ONCE
#define BACKPLANE_PLUGINS_CPU_KERNELS_SOFTMAX_ONCE
namespace bp::cpu {

// Columns of one unit of work where the axis is not the last one.
inline constexpr int64_t kSoftmaxBlock = 64;

struct SoftmaxShape {
  int64_t length = 1;
  int64_t inner = 1;
  int64_t blocks = 1;  // of columns
  bool past_cache = false;
  bool logarithm = false;
};

}  // namespace bp::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

constexpr int64_t kRun = 128;
// Rows up to this length keep their powers beside the stack's top, and y is written once.
constexpr int64_t kBufferedLength = 4096;

// A NaN may be passed over: its own power makes the sum NaN.
template <class T, class D>
hn::TFromD<D> largest_of_row(D d, const T* x, int64_t length) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto low = hn::Set(d, lowest<hn::TFromD<D>>());
  auto best0 = low;
  auto best1 = low;
  int64_t i = 0;
  for (; i + 2 * lanes <= length; i += 2 * lanes) {
    best0 = hn::Max(best0, load_lanes(d, x + i));
    best1 = hn::Max(best1, load_lanes(d, x + i + lanes));
  }
  for (; i + lanes <= length; i += lanes) best0 = hn::Max(best0, load_lanes(d, x + i));
  if (i < length) {
    const auto count = static_cast<size_t>(length - i);
    const auto rest = load_part(d, x + i, count);
    best1 = hn::Max(best1, hn::IfThenElse(hn::FirstN(d, count), rest, low));
  }
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(best0, best1)));
}

// powers[i] = e^(x[i] - largest); gives their sum. The next row is asked for meanwhile, for it
// comes from memory while this one is computed.
template <class T, class D, class C>
C powers_of_row(D d, const T* x, int64_t length, C largest, C* powers) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto off = hn::Set(d, largest);
  auto total = hn::Zero(d);
  int64_t i = 0;
  while (i + lanes <= length) {
    auto sum = hn::Zero(d);
    const int64_t end = std::min(i + kRun * lanes, length);
    for (; i + lanes <= end; i += lanes) {
      hwy::Prefetch(x + length + i);
      const auto power = vexp(hn::Sub(load_lanes(d, x + i), off));
      hn::StoreU(power, d, powers + i);
      sum = hn::Add(sum, power);
    }
    total = hn::Add(total, sum);
  }
  if (i < length) {
    const auto count = static_cast<size_t>(length - i);
    const auto power = vexp(hn::Sub(load_part(d, x + i, count), off));
    store_part(power, d, powers + i, count);
    total = hn::Add(total, hn::IfThenElseZero(hn::FirstN(d, count), power));
  }
  return hn::GetLane(hn::SumOfLanes(d, total));
}

template <class T, class D, class C>
void scale_row(D d, const C* powers, int64_t length, C factor, bool past_cache, T* y) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factors = hn::Set(d, factor);
  int64_t i = 0;
  if constexpr (std::is_same_v<T, C>) {
    const bool is_aligned = reinterpret_cast<uintptr_t>(y) % sizeof(hn::Vec<D>) == 0;
    if (past_cache && is_aligned) {
      for (; i + lanes <= length; i += lanes) {
        hn::Stream(hn::Mul(hn::LoadU(d, powers + i), factors), d, y + i);
      }
    }
  }
  for (; i + lanes <= length; i += lanes) {
    store_lanes(hn::Mul(hn::LoadU(d, powers + i), factors), d, y + i);
  }
  if (i == length) return;
  const auto count = static_cast<size_t>(length - i);
  store_part(hn::Mul(load_part(d, powers + i, count), factors), d, y + i, count);
}

// Half types longer than the buffer: the powers are worked out twice.
template <class T, class D, class C>
void scale_long_row(D d, const T* x, int64_t length, C largest, T* y) {
  C buffer[kBufferedLength];
  C sum = 0;
  for (int64_t i = 0; i < length; i += kBufferedLength) {
    sum += powers_of_row(d, x + i, std::min(kBufferedLength, length - i), largest, buffer);
  }
  for (int64_t i = 0; i < length; i += kBufferedLength) {
    const int64_t count = std::min(kBufferedLength, length - i);
    powers_of_row(d, x + i, count, largest, buffer);
    scale_row(d, buffer, count, C{1} / sum, false, y + i);
  }
}

// The same of log_softmax; the powers themselves are not kept.
template <class T>
void log_softmax_row(T* y, const T* x, int64_t length) {
  using C = Compute<T>;
  const hn::ScalableTag<C> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN C buffer[kBufferedLength];
  const C largest = largest_of_row(d, x, length);
  C sum = 0;
  for (int64_t i = 0; i < length; i += kBufferedLength) {
    sum += powers_of_row(d, x + i, std::min(kBufferedLength, length - i), largest, buffer);
  }
  const auto off = hn::Set(d, largest);
  const auto rest = hn::Set(d, std::log(sum));
  int64_t i = 0;
  for (; i + lanes <= length; i += lanes) {
    store_lanes(hn::Sub(hn::Sub(load_lanes(d, x + i), off), rest), d, y + i);
  }
  if (i == length) return;
  const auto count = static_cast<size_t>(length - i);
  store_part(hn::Sub(hn::Sub(load_part(d, x + i, count), off), rest), d, y + i, count);
}

template <class T>
void softmax_row(T* y, const T* x, int64_t length, bool past_cache) {
  using C = Compute<T>;
  const hn::ScalableTag<C> d;
  const C largest = largest_of_row(d, x, length);
  if (length <= kBufferedLength) {
    HWY_ALIGN C buffer[kBufferedLength];
    const C sum = powers_of_row(d, x, length, largest, buffer);
    scale_row(d, buffer, length, C{1} / sum, past_cache, y);
  } else if constexpr (std::is_same_v<T, C>) {
    const C sum = powers_of_row(d, x, length, largest, y);
    scale_row(d, y, length, C{1} / sum, false, y);
  } else {
    scale_long_row(d, x, length, largest, y);
  }
}

// `count` columns next to each other, at most a vector of them, each `length` values with `stride`
// between them.
template <class T, bool kWhole>
void softmax_columns(T* y, const T* x, const SoftmaxShape& shape, size_t count) {
  const int64_t length = shape.length;
  const int64_t stride = shape.inner;
  using C = Compute<T>;
  const hn::ScalableTag<C> d;
  const auto load_row = [&](int64_t k) HWY_ATTR {
    return kWhole ? load_lanes(d, x + k * stride) : load_part(d, x + k * stride, count);
  };
  auto largest = hn::Set(d, lowest<C>());
  for (int64_t k = 0; k < length; ++k) largest = hn::Max(largest, load_row(k));
  auto total = hn::Zero(d);
  for (int64_t k = 0; k < length;) {
    auto sum = hn::Zero(d);
    for (const int64_t end = std::min(k + kRun, length); k < end; ++k) {
      sum = hn::Add(sum, vexp(hn::Sub(load_row(k), largest)));
    }
    total = hn::Add(total, sum);
  }
  const auto factor = hn::Div(hn::Set(d, C{1}), total);
  const auto rest = shape.logarithm ? vlog(total) : total;
  for (int64_t k = 0; k < length; ++k) {
    const auto below = hn::Sub(load_row(k), largest);
    const auto value = shape.logarithm ? hn::Sub(below, rest) : hn::Mul(vexp(below), factor);
    if constexpr (kWhole) {
      store_lanes(value, d, y + k * stride);
    } else {
      store_part(value, d, y + k * stride, count);
    }
  }
}

// Slices [begin, end), each `length` rows of `inner` columns.
template <class T>
void softmax_slices(const SoftmaxShape& shape, void* y_data, const void* x_data, int64_t begin,
                    int64_t end) {
  T* const y = static_cast<T*>(y_data);
  const T* const x = static_cast<const T*>(x_data);
  if (shape.inner == 1) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t offset = row * shape.length;
      if (shape.logarithm) {
        log_softmax_row(y + offset, x + offset, shape.length);
      } else {
        softmax_row(y + offset, x + offset, shape.length, shape.past_cache);
      }
    }
    return;
  }
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<Compute<T>>()));
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t column = unit % shape.blocks * kSoftmaxBlock;
    const int64_t offset = unit / shape.blocks * shape.length * shape.inner + column;
    const int64_t last = std::min(kSoftmaxBlock, shape.inner - column);
    int64_t i = 0;
    for (; i + lanes <= last; i += lanes) {
      softmax_columns<T, true>(y + offset + i, x + offset + i, shape, 0);
    }
    if (i < last) {
      softmax_columns<T, false>(y + offset + i, x + offset + i, shape,
                                static_cast<size_t>(last - i));
    }
  }
}

void softmax_range(uint32_t dtype, const SoftmaxShape& shape, void* y, const void* x, int64_t begin,
                   int64_t end) {
  if (dtype == BP_DTYPE_F32) return softmax_slices<float>(shape, y, x, begin, end);
  if (dtype == BP_DTYPE_F64) return softmax_slices<double>(shape, y, x, begin, end);
  if (dtype == BP_DTYPE_F16) return softmax_slices<F16>(shape, y, x, begin, end);
  softmax_slices<Bf16>(shape, y, x, begin, end);
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bp::cpu {
namespace {

constexpr int64_t kExpCost = 6;

HWY_EXPORT(softmax_range);

bp_status run(const bp_launch_args& args, const char* op, int64_t given_axis, bool logarithm) {
  const bp_tensor& x = input_of(args, 0);
  // A 0-d tensor is one column of one value.
  const int64_t rank = std::max<int64_t>(1, x.rank);
  const int64_t axis = given_axis < 0 ? given_axis + rank : given_axis;
  if (axis < 0 || axis >= rank) {
    throw sdk::Failure{BP_INVALID_ARGUMENT, std::string(op) + ": axis " +
                                                std::to_string(given_axis) +
                                                " of a tensor of rank " + std::to_string(x.rank)};
  }
  SoftmaxShape shape;
  shape.logarithm = logarithm;
  int64_t outer = 1;
  for (int64_t d = 0; d < x.rank; ++d) {
    if (d < axis) outer *= x.sizes[d];
    if (d > axis) shape.inner *= x.sizes[d];
  }
  shape.length = x.rank == 0 ? 1 : x.sizes[axis];
  if (outer == 0 || shape.inner == 0 || shape.length == 0) return BP_OK;
  shape.blocks = (shape.inner - 1) / kSoftmaxBlock + 1;
  shape.past_cache = is_past_cache(output_of(args));
  const int64_t unit_cost = shape.length * std::min(kSoftmaxBlock, shape.inner) * kExpCost;
  std::byte* const y_data = address_of(output_of(args));
  const std::byte* const x_data = address_of(x);
  args.device->workers.for_ranges(
      outer * shape.blocks, unit_cost, [&](int64_t begin, int64_t end) noexcept {
        HWY_DYNAMIC_DISPATCH(softmax_range)(x.dtype, shape, y_data, x_data, begin, end);
        hwy::FlushStream();
      });
  return BP_OK;
}

bp_status launch(const bp_launch_args& args) {
  const auto attrs = read_attributes(args.attributes, bp_attrs_softmax_defaults());
  return run(args, "softmax", attrs.axis, false);
}

bp_status launch_logarithm(const bp_launch_args& args) {
  const auto attrs = read_attributes(args.attributes, bp_attrs_log_softmax_defaults());
  return run(args, "log_softmax", attrs.axis, true);
}

constexpr uint64_t kMasks[] = {kFloatTypes};

constexpr bp_kernel kKernels[] = {
    sdk::describe(
        {.name = "softmax_loop", .op = "softmax", .dtypes = kMasks, .launch = launch_slot<launch>}),
    sdk::describe({.name = "log_softmax_loop",
                   .op = "log_softmax",
                   .dtypes = kMasks,
                   .launch = launch_slot<launch_logarithm>})};

}  // namespace

BP_SDK_KERNELS(softmax, kKernels);

}  // namespace bp::cpu
#endif
