// SPDX-License-Identifier: Apache-2.0
//
// reduce_max and reduce_sum over any axes of a tensor with any strides. Each output is worked out
// in one order, so that reruns give the same bits: by one thread, or where there are few outputs,
// in parts that the sizes alone decide. Sums of f32 are kept in f64 and those of half types in f32:
// a plain f32 sum of a million values loses half of its digits.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "backplane/ops/reduction.h"
#include "element.hpp"
#include "kernel_support.hpp"
#include "math/reduce_rows.hpp"
#include "nest.hpp"

namespace bp::cpu {
namespace {

// Outputs that are worked on together where neighbours in memory belong to different outputs: a
// shorter block would leave memory's order every few lines.
constexpr int64_t kBlock = 2048;
// With no more outputs than kFewOutputs the reduced elements are divided, into parts of kPart of
// them and no more than kMostParts.
constexpr int64_t kFewOutputs = 8;
constexpr int64_t kPart = 16384;
constexpr int64_t kMostParts = 64;

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
  static Accumulator of_row(const float* x, int64_t count) { return sum_of_row(x, count); }
  static constexpr auto kOfRows = add_rows;
};

template <class T>
struct MaxOf {
  using Accumulator = Compute<T>;
  static constexpr Accumulator kStart = lowest<Accumulator>();
  static Accumulator combine(Accumulator best, const T& element) {
    return larger(load(element), best);
  }
  static Accumulator merge(Accumulator a, Accumulator b) { return larger(a, b); }
  static Accumulator of_row(const float* x, int64_t count) { return largest_of_row(x, count); }
  static constexpr auto kOfRows = keep_largest_of_rows;
};

// The steps of a reduction of one dtype, on up to kBlock accumulators in a row. Only these depend
// on the dtype: with the walks inside, each of 22 instances would bring its own copy of them.
struct Steps {
  int64_t element_bytes;
  int64_t accumulator_bytes;
  void (*start)(void* accumulators, int64_t count);
  // Adds `count` elements to the first accumulator.
  void (*fold)(void* accumulators, const void* x, int64_t stride, int64_t count);
  // Adds `row_count` rows, `row_stride` apart, of one element for each accumulator.
  void (*fold_rows)(void* accumulators, int64_t count, const void* x, int64_t stride,
                    int64_t row_count, int64_t row_stride);
  // Takes the accumulators of another part into the first.
  void (*merge)(void* accumulators, const void* others, int64_t count);
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
    if constexpr (std::is_same_v<T, float>) {
      if (stride == 1) {
        result = Fold::merge(result, Fold::of_row(x, count));
        return;
      }
    }
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
    if constexpr (std::is_same_v<T, float>) {
      if (stride == 1) {
        Fold::kOfRows(results, count, static_cast<const T*>(x_data), row_count, row_stride);
        return;
      }
    }
    for (int64_t r = 0; r < row_count; ++r) {
      const T* const row = static_cast<const T*>(x_data) + r * row_stride;
      for (int64_t i = 0; i < count; ++i) results[i] = Fold::combine(results[i], row[i * stride]);
    }
  }

  static void merge(void* accumulators, const void* others, int64_t count) {
    Accumulator* const results = static_cast<Accumulator*>(accumulators);
    for (int64_t i = 0; i < count; ++i) {
      results[i] = Fold::merge(results[i], static_cast<const Accumulator*>(others)[i]);
    }
  }

  static void finish(void* y_data, const void* accumulators, int64_t count) {
    const Accumulator* const results = static_cast<const Accumulator*>(accumulators);
    T* const y = static_cast<T*>(y_data);
    for (int64_t i = 0; i < count; ++i) y[i] = store<T>(static_cast<Compute<T>>(results[i]));
  }

  static const Steps& run() {
    static constexpr Steps kSteps{sizeof(T), sizeof(Accumulator), start, fold, fold_rows, merge,
                                  finish};
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

// Where neighbours in memory belong to different outputs.
bool outputs_are_closer(const Reduction& reduction) {
  const Nest& kept = reduction.kept;
  const Nest& reduced = reduction.reduced;
  return kept.sizes[kept.rank - 1] > 1 &&
         std::abs(kept.strides[1][kept.rank - 1]) < std::abs(reduced.strides[0][reduced.rank - 1]);
}

// The reduced elements [begin, end) of one output.
void fold_one(const Steps& steps, const Nest& reduced, const std::byte* x, int64_t begin,
              int64_t end, void* accumulator) {
  const int64_t stride = reduced.strides[0][reduced.rank - 1];
  walk_rows(reduced, 1, begin, end, [&](const int64_t* offsets, int64_t count) {
    steps.fold(accumulator, x + offsets[0] * steps.element_bytes, stride, count);
  });
}

// Those of `outputs` outputs, which lie x_stride apart.
void fold_block(const Steps& steps, const Nest& reduced, const std::byte* x, int64_t x_stride,
                int64_t outputs, int64_t begin, int64_t end, void* accumulators) {
  const int64_t stride = reduced.strides[0][reduced.rank - 1];
  walk_rows(reduced, 1, begin, end, [&](const int64_t* offsets, int64_t count) {
    steps.fold_rows(accumulators, outputs, x + offsets[0] * steps.element_bytes, x_stride, count,
                    stride);
  });
}

void reduce_one_by_one(const Steps& steps, const Nest& reduced, const Row& row) {
  for (int64_t i = 0; i < row.count; ++i) {
    Accumulators accumulators;
    steps.start(accumulators.bytes, 1);
    fold_one(steps, reduced, row.x + i * row.x_stride * steps.element_bytes, 0, reduced.count,
             accumulators.bytes);
    steps.finish(row.y + i * steps.element_bytes, accumulators.bytes, 1);
  }
}

void reduce_in_blocks(const Steps& steps, const Nest& reduced, const Row& row) {
  for (int64_t i = 0; i < row.count; i += kBlock) {
    const int64_t block = std::min(kBlock, row.count - i);
    Accumulators accumulators;
    steps.start(accumulators.bytes, block);
    fold_block(steps, reduced, row.x + i * row.x_stride * steps.element_bytes, row.x_stride, block,
               0, reduced.count, accumulators.bytes);
    steps.finish(row.y + i * steps.element_bytes, accumulators.bytes, block);
  }
}

// Outputs [begin, end).
void reduce_range(const Steps& steps, const Reduction& reduction, std::byte* y, const std::byte* x,
                  int64_t begin, int64_t end) {
  const Nest& kept = reduction.kept;
  const auto reduce_row = outputs_are_closer(reduction) ? reduce_in_blocks : reduce_one_by_one;
  walk_rows(kept, 2, begin, end, [&](const int64_t* offsets, int64_t count) {
    reduce_row(steps, reduction.reduced,
               {.y = y + offsets[0] * steps.element_bytes,
                .x = x + offsets[1] * steps.element_bytes,
                .x_stride = kept.strides[1][kept.rank - 1],
                .count = count});
  });
}

// The few outputs of a part.
struct Part {
  alignas(uint64_t) std::byte bytes[kFewOutputs * sizeof(uint64_t)];
};

// The reduced elements [begin, end) of all outputs.
void fold_part(const Steps& steps, const Reduction& reduction, const std::byte* x, int64_t begin,
               int64_t end, Part* part) {
  const Nest& kept = reduction.kept;
  const int64_t x_stride = kept.strides[1][kept.rank - 1];
  const bool in_blocks = outputs_are_closer(reduction);
  steps.start(part->bytes, kept.count);
  walk_rows(kept, 2, 0, kept.count, [&](const int64_t* offsets, int64_t count) {
    std::byte* const accumulators = part->bytes + offsets[0] * steps.accumulator_bytes;
    const std::byte* const first = x + offsets[1] * steps.element_bytes;
    if (in_blocks) {
      fold_block(steps, reduction.reduced, first, x_stride, count, begin, end, accumulators);
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      fold_one(steps, reduction.reduced, first + i * x_stride * steps.element_bytes, begin, end,
               accumulators + i * steps.accumulator_bytes);
    }
  });
}

// Outputs are contiguous, and kept in their order.
void reduce_in_parts(Workers& workers, const Steps& steps, const Reduction& reduction, std::byte* y,
                     const std::byte* x) {
  Part parts[kMostParts];
  const int64_t total = reduction.reduced.count;
  const int64_t part_items = std::max(kPart, (total - 1) / kMostParts + 1);
  const int64_t part_count = (total - 1) / part_items + 1;
  workers.for_ranges(part_count, part_items * reduction.kept.count,
                     [&](int64_t begin, int64_t end) noexcept {
                       for (int64_t p = begin; p < end; ++p) {
                         fold_part(steps, reduction, x, p * part_items,
                                   std::min((p + 1) * part_items, total), &parts[p]);
                       }
                     });
  for (int64_t p = 1; p < part_count; ++p) {
    steps.merge(parts[0].bytes, parts[p].bytes, reduction.kept.count);
  }
  steps.finish(y, parts[0].bytes, reduction.kept.count);
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
  const int64_t output_count = reduction.kept.count;
  if (output_count == 0) return BP_OK;
  if (output_count <= kFewOutputs && reduction.reduced.count >= 2 * kPart) {
    reduce_in_parts(args.device->workers, steps, reduction, y_data, x_data);
    return BP_OK;
  }
  args.device->workers.for_ranges(output_count, std::max<int64_t>(1, reduction.reduced.count),
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
