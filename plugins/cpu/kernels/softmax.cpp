// SPDX-License-Identifier: Apache-2.0
//
// softmax along one axis: the largest value is taken off first, so that exp does not overflow. The
// sum is kept in f64.
#include <algorithm>
#include <cmath>

#include "backplane/ops/nn.h"
#include "element.hpp"
#include "kernel_support.hpp"

namespace bp::cpu {
namespace {

// Columns that are worked on together where the axis is not the last one.
constexpr int64_t kBlock = 32;
constexpr int64_t kExpCost = 24;

// Columns [0, count) next to each other, each `length` values with `stride` between them.
template <class T>
void softmax_block(T* y, const T* x, int64_t length, int64_t stride, int64_t count) {
  using C = Compute<T>;
  C largest[kBlock];
  double sums[kBlock] = {};
  std::fill_n(largest, count, lowest<C>());
  for (int64_t k = 0; k < length; ++k) {
    const T* const row = x + k * stride;
    for (int64_t i = 0; i < count; ++i) largest[i] = larger(load(row[i]), largest[i]);
  }
  for (int64_t k = 0; k < length; ++k) {
    const T* const row = x + k * stride;
    for (int64_t i = 0; i < count; ++i) {
      const C power = std::exp(load(row[i]) - largest[i]);
      // Half types keep f32 between the steps, so that they work the power out again below.
      if constexpr (std::is_same_v<T, C>) y[k * stride + i] = power;
      sums[i] += static_cast<double>(power);
    }
  }
  for (int64_t k = 0; k < length; ++k) {
    T* const row = y + k * stride;
    for (int64_t i = 0; i < count; ++i) {
      const C sum = static_cast<C>(sums[i]);
      if constexpr (std::is_same_v<T, C>) {
        row[i] = row[i] / sum;
      } else {
        row[i] = store<T>(std::exp(load(x[k * stride + i]) - largest[i]) / sum);
      }
    }
  }
}

// Units: one block of columns each.
template <class T>
struct Softmax {
  static void run(void* y, const void* x, int64_t length, int64_t inner, int64_t begin,
                  int64_t end) {
    const int64_t block_count = (inner - 1) / kBlock + 1;
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t column = unit % block_count * kBlock;
      const int64_t offset = unit / block_count * length * inner + column;
      softmax_block(static_cast<T*>(y) + offset, static_cast<const T*>(x) + offset, length, inner,
                    std::min(kBlock, inner - column));
    }
  }
};

constexpr auto kTable = float_table<Softmax>();

bp_status launch(const bp_launch_args& args) {
  const bp_tensor& x = input_of(args, 0);
  const auto attrs = read_attributes(args.attributes, bp_attrs_softmax_defaults());
  // A 0-d tensor is one column of one value.
  const int64_t rank = std::max<int64_t>(1, x.rank);
  const int64_t axis = attrs.axis < 0 ? attrs.axis + rank : attrs.axis;
  if (axis < 0 || axis >= rank) {
    throw sdk::Failure{BP_INVALID_ARGUMENT, "softmax: axis " + std::to_string(attrs.axis) +
                                                " of a tensor of rank " + std::to_string(x.rank)};
  }
  int64_t outer = 1;
  int64_t inner = 1;
  for (int64_t d = 0; d < x.rank; ++d) {
    if (d < axis) outer *= x.sizes[d];
    if (d > axis) inner *= x.sizes[d];
  }
  const int64_t length = x.rank == 0 ? 1 : x.sizes[axis];
  if (outer == 0 || inner == 0 || length == 0) return BP_OK;
  const int64_t unit_count = outer * ((inner - 1) / kBlock + 1);
  const int64_t unit_cost = length * std::min(kBlock, inner) * kExpCost;
  std::byte* const y_data = address_of(output_of(args));
  const std::byte* const x_data = address_of(x);
  const auto run = kTable[x.dtype];
  args.device->workers.for_ranges(unit_count, unit_cost, [&](int64_t begin, int64_t end) noexcept {
    run(y_data, x_data, length, inner, begin, end);
  });
  return BP_OK;
}

constexpr uint64_t kMasks[] = {kFloatTypes};

constexpr bp_kernel kKernels[] = {sdk::describe(
    {.name = "softmax_loop", .op = "softmax", .dtypes = kMasks, .launch = launch_slot<launch>})};

}  // namespace

BP_SDK_KERNELS(softmax, kKernels);

}  // namespace bp::cpu
