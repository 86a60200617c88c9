// SPDX-License-Identifier: Apache-2.0
//
// reduce_max and reduce_sum over any axes of a tensor with any strides. Each output is worked out
// by one thread in one order, so that reruns give the same bits. Sums of f32 are kept in f64 and
// those of half types in f32: a plain f32 sum of a million values loses half of its digits.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "backplane/ops/reduction.h"
#include "element.hpp"
#include "kernel_support.hpp"
#include "nest.hpp"

namespace bp::cpu {
namespace {

// Outputs that are worked on together where neighbours in memory belong to different outputs.
constexpr int64_t kBlock = 32;

struct Reduction {
  Nest kept;     // operands: y, x
  Nest reduced;  // operand: x
};

template <class T>
struct SumOf {
  using C = Compute<T>;
  using Accumulator = std::conditional_t<std::is_same_v<T, float>, double, Wrapping<T>>;
  static constexpr Accumulator kStart = 0;
  static Accumulator combine(Accumulator sum, const T& element) {
    return sum + static_cast<Accumulator>(load(element));
  }
  static Accumulator merge(Accumulator a, Accumulator b) { return a + b; }
};

template <class T>
struct MaxOf {
  using Accumulator = Compute<T>;
  static constexpr Accumulator kStart = lowest<Accumulator>();
  static Accumulator combine(Accumulator best, const T& element) {
    return larger(load(element), best);
  }
  static Accumulator merge(Accumulator a, Accumulator b) { return larger(a, b); }
};

// The steps of a reduction of one dtype, on up to kBlock accumulators in a row. Only these depend
// on the dtype: with the walks inside, each of 22 instances would bring its own copy of them.
struct Steps {
  int64_t element_bytes;
  void (*start)(void* accumulators, int64_t count);
  // Adds `count` elements to the first accumulator.
  void (*fold)(void* accumulators, const void* x, int64_t stride, int64_t count);
  // Adds `row_count` rows, `row_stride` apart, of one element for each accumulator.
  void (*fold_rows)(void* accumulators, int64_t count, const void* x, int64_t stride,
                    int64_t row_count, int64_t row_stride);
  void (*finish)(void* y, const void* accumulators, int64_t count);
};
struct Accumulators {
  alignas(uint64_t) std::byte bytes[kBlock * sizeof(uint64_t)];
};

template <class T, class Fold>
struct Reducer {
  using Accumulator = typename Fold::Accumulator;
  static_assert(sizeof(Accumulator) <= sizeof(uint64_t));

  static void start(void* accumulators, int64_t count) {
    std::fill_n(static_cast<Accumulator*>(accumulators), count, Fold::kStart);
  }

  // Four chains, since one would wait for itself at every element.
  static void fold(void* accumulators, const void* x_data, int64_t stride, int64_t count) {
    Accumulator& result = *static_cast<Accumulator*>(accumulators);
    const T* const x = static_cast<const T*>(x_data);
    Accumulator a = result;
    Accumulator b = Fold::kStart;
    Accumulator c = Fold::kStart;
    Accumulator d = Fold::kStart;
    int64_t i = 0;
    for (; i + 4 <= count; i += 4) {
      a = Fold::combine(a, x[i * stride]);
      b = Fold::combine(b, x[(i + 1) * stride]);
      c = Fold::combine(c, x[(i + 2) * stride]);
      d = Fold::combine(d, x[(i + 3) * stride]);
    }
    for (; i < count; ++i) a = Fold::combine(a, x[i * stride]);
    result = Fold::merge(Fold::merge(a, b), Fold::merge(c, d));
  }

  static void fold_rows(void* accumulators, int64_t count, const void* x_data, int64_t stride,
                        int64_t row_count, int64_t row_stride) {
    Accumulator* const results = static_cast<Accumulator*>(accumulators);
    for (int64_t r = 0; r < row_count; ++r) {
      const T* const row = static_cast<const T*>(x_data) + r * row_stride;
      for (int64_t i = 0; i < count; ++i) results[i] = Fold::combine(results[i], row[i * stride]);
    }
  }

  static void finish(void* y_data, const void* accumulators, int64_t count) {
    const Accumulator* const results = static_cast<const Accumulator*>(accumulators);
    T* const y = static_cast<T*>(y_data);
    for (int64_t i = 0; i < count; ++i) y[i] = store<T>(static_cast<Compute<T>>(results[i]));
  }

  static const Steps& run() {
    static constexpr Steps kSteps{sizeof(T), start, fold, fold_rows, finish};
    return kSteps;
  }
};

template <class T>
using SumReducer = Reducer<T, SumOf<T>>;
template <class T>
using MaxReducer = Reducer<T, MaxOf<T>>;
constexpr auto kSumTable = wrapping_table<SumReducer>();
constexpr auto kMaxTable = number_table<MaxReducer>();

struct Row {
  std::byte* y;
  const std::byte* x;
  int64_t x_stride;
  int64_t count;  // of outputs
};

void reduce_one_by_one(const Steps& steps, const Nest& reduced, const Row& row) {
  const int64_t reduced_stride = reduced.strides[0][reduced.rank - 1];
  for (int64_t i = 0; i < row.count; ++i) {
    Accumulators accumulators;
    steps.start(accumulators.bytes, 1);
    const std::byte* const first = row.x + i * row.x_stride * steps.element_bytes;
    walk_rows(reduced, 1, 0, reduced.count, [&](const int64_t* offsets, int64_t count) {
      steps.fold(accumulators.bytes, first + offsets[0] * steps.element_bytes, reduced_stride,
                 count);
    });
    steps.finish(row.y + i * steps.element_bytes, accumulators.bytes, 1);
  }
}

void reduce_in_blocks(const Steps& steps, const Nest& reduced, const Row& row) {
  const int64_t reduced_stride = reduced.strides[0][reduced.rank - 1];
  for (int64_t i = 0; i < row.count; i += kBlock) {
    const int64_t block = std::min(kBlock, row.count - i);
    Accumulators accumulators;
    steps.start(accumulators.bytes, block);
    const std::byte* const first = row.x + i * row.x_stride * steps.element_bytes;
    walk_rows(reduced, 1, 0, reduced.count, [&](const int64_t* offsets, int64_t count) {
      steps.fold_rows(accumulators.bytes, block, first + offsets[0] * steps.element_bytes,
                      row.x_stride, count, reduced_stride);
    });
    steps.finish(row.y + i * steps.element_bytes, accumulators.bytes, block);
  }
}

// Outputs [begin, end).
void reduce_range(const Steps& steps, const Reduction& reduction, std::byte* y, const std::byte* x,
                  int64_t begin, int64_t end) {
  const Nest& kept = reduction.kept;
  const Nest& reduced = reduction.reduced;
  const int64_t x_stride = kept.strides[1][kept.rank - 1];
  const bool outputs_are_closer =
      kept.sizes[kept.rank - 1] > 1 &&
      std::abs(x_stride) < std::abs(reduced.strides[0][reduced.rank - 1]);
  const auto reduce_row = outputs_are_closer ? reduce_in_blocks : reduce_one_by_one;
  walk_rows(kept, 2, begin, end, [&](const int64_t* offsets, int64_t count) {
    reduce_row(steps, reduced,
               {.y = y + offsets[0] * steps.element_bytes,
                .x = x + offsets[1] * steps.element_bytes,
                .x_stride = x_stride,
                .count = count});
  });
}

// Bit i is set if dimension i is reduced. Without axes all of them are.
uint32_t reduced_dimensions(std::span<const int64_t> axes, uint32_t rank) {
  if (axes.empty()) return (1u << rank) - 1;
  uint32_t mask = 0;
  for (const int64_t axis : axes) {
    const int64_t dimension = axis < 0 ? axis + rank : axis;
    if (dimension < 0 || dimension >= rank) {
      throw sdk::Failure{BP_INVALID_ARGUMENT, "reduction: axis " + std::to_string(axis) +
                                                  " of a tensor of rank " + std::to_string(rank)};
    }
    mask |= 1u << dimension;
  }
  return mask;
}

Reduction make_reduction(const bp_tensor& x, uint32_t reduced_mask) {
  Reduction reduction;
  for (uint32_t d = 0; d < x.rank; ++d) {
    if ((reduced_mask >> d & 1u) != 0) {
      Nest& nest = reduction.reduced;
      nest.strides[0][nest.rank] = x.strides[d];
      nest.add_dimension(x.sizes[d]);
    } else {
      Nest& nest = reduction.kept;
      nest.strides[1][nest.rank] = x.strides[d];
      nest.add_dimension(x.sizes[d]);
    }
  }
  Nest& kept = reduction.kept;
  int64_t y_stride = 1;
  for (int d = kept.rank - 1; d >= 0; --d) {
    kept.strides[0][d] = y_stride;
    y_stride *= kept.sizes[d];
  }
  simplify(&reduction.kept, 2);
  simplify(&reduction.reduced, 1);
  return reduction;
}

template <class Attrs, const DtypeTable<const Steps& (*)()>& Table>
bp_status launch(const bp_launch_args& args) {
  const bp_tensor& x = input_of(args, 0);
  const auto attrs = read_attributes(args.attributes, Attrs{});
  const Reduction reduction = make_reduction(x, reduced_dimensions(values_of(attrs.axes), x.rank));
  const Steps& steps = Table[x.dtype]();
  std::byte* const y_data = address_of(output_of(args));
  const std::byte* const x_data = address_of(x);
  args.device->workers.for_ranges(reduction.kept.count,
                                  std::max<int64_t>(1, reduction.reduced.count),
                                  [&](int64_t begin, int64_t end) noexcept {
                                    reduce_range(steps, reduction, y_data, x_data, begin, end);
                                  });
  return BP_OK;
}

constexpr uint64_t kMasks[] = {kNumberTypes};

template <class Attrs, const DtypeTable<const Steps& (*)()>& Table>
constexpr bp_kernel reduce_kernel(std::string_view name, std::string_view op) {
  return sdk::describe({.name = name,
                        .op = op,
                        .dtypes = kMasks,
                        .arg_rules = sdk::kAnyStrides,
                        .launch = launch_slot<launch<Attrs, Table>>});
}

constexpr bp_kernel kKernels[] = {
    reduce_kernel<bp_attrs_reduce_max, kMaxTable>("reduce_max_loop", "reduce_max"),
    reduce_kernel<bp_attrs_reduce_sum, kSumTable>("reduce_sum_loop", "reduce_sum")};

}  // namespace

BP_SDK_KERNELS(reduce, kKernels);

}  // namespace bp::cpu
