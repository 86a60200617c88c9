// SPDX-License-Identifier: Apache-2.0
//
// The skeleton of emitted reductions (bp-exprgen, ops/expr), over any axes of a tensor with any
// strides. An emitted struct Op has the expressions of each class of types: map, start, combine,
// finish. Each output is worked out in one order, so that reruns give the same bits: by one thread,
// or where there are few outputs, in parts that the sizes alone decide. Sums of f32 are kept in f64
// and those of half types in f32: a plain f32 sum of a million values loses half of its digits.
// What only chooses among its elements stays in their type.
#ifndef BACKPLANE_PLUGINS_CPU_REDUCTION_HPP
#define BACKPLANE_PLUGINS_CPU_REDUCTION_HPP

#include <algorithm>
#include <span>
#include <string_view>

#include "element.hpp"
#include "expression.hpp"
#include "kernel_support.hpp"
#include "math/reduce_rows.hpp"
#include "vocabulary.hpp"

namespace bp::cpu {

// Outputs that are worked on together where neighbours in memory belong to different outputs: a
// shorter block would leave memory's order every few lines.
inline constexpr int64_t kReductionBlock = 2048;

/// What a form does, where there is vector code for that in f32 (math/reduce_rows.hpp).
enum class Folding { kSum, kLargest, kOther };

// The steps of a reduction of one dtype, on up to kReductionBlock accumulators in a row. Only these
// depend on the dtype: with the walks inside, each instance would bring its own copy of them.
struct ReductionSteps {
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
  // `reduced_count`: of elements in each accumulator.
  void (*finish)(void* y, const void* accumulators, int64_t count, int64_t reduced_count);
};

/// axes: as the operator's attribute has them. item_cost: of one element, see parallel.hpp.
bp_status run_reduction(const bp_launch_args& args, const ReductionSteps& steps,
                        std::span<const int64_t> axes, int64_t item_cost);

template <class Op, class T>
class Reducer {
 public:
  static const ReductionSteps& run() {
    static constexpr ReductionSteps kSteps{
        sizeof(T), sizeof(Accumulator), start, fold, fold_rows, merge, finish};
    return kSteps;
  }

 private:
  using Form = FormOf<Op, T>;
  using C = Compute<T>;
  using Element = std::conditional_t<std::is_same_v<T, float> && !Op::kChooses, double, C>;
  using Accumulator = decltype(Form::template map<Element, C>(Element{}));
  static_assert(sizeof(Accumulator) <= sizeof(uint64_t));

  static constexpr bool kIsSum = std::is_same_v<T, float> && Form::kFolding == Folding::kSum;
  static constexpr bool kIsLargest =
      std::is_same_v<T, float> && Form::kFolding == Folding::kLargest;

  static Accumulator first() { return Form::template start<Accumulator, C>(); }
  static Accumulator merged(Accumulator a, Accumulator b) {
    return Form::template combine<Accumulator, C>(a, b);
  }
  static Accumulator added(Accumulator a, const T& element) {
    return merged(a, Form::template map<Element, C>(static_cast<Element>(load(element))));
  }

  static void start(void* accumulators, int64_t count) {
    std::fill_n(static_cast<Accumulator*>(accumulators), count, first());
  }

  // Four chains, since one would wait for itself at every element.
  static void fold(void* accumulators, const void* x_data, int64_t stride, int64_t count) {
    Accumulator& result = *static_cast<Accumulator*>(accumulators);
    const T* const x = static_cast<const T*>(x_data);
    if constexpr (kIsSum || kIsLargest) {
      if (stride == 1) {
        if constexpr (kIsSum) result = merged(result, sum_of_row(x, count));
        if constexpr (kIsLargest) result = merged(result, largest_of_row(x, count));
        return;
      }
    }
    Accumulator a = result;
    Accumulator b = first();
    Accumulator c = first();
    Accumulator d = first();
    int64_t i = 0;
    for (; i + 4 <= count; i += 4) {
      a = added(a, x[i * stride]);
      b = added(b, x[(i + 1) * stride]);
      c = added(c, x[(i + 2) * stride]);
      d = added(d, x[(i + 3) * stride]);
    }
    for (; i < count; ++i) a = added(a, x[i * stride]);
    result = merged(merged(a, b), merged(c, d));
  }

  static void fold_rows(void* accumulators, int64_t count, const void* x_data, int64_t stride,
                        int64_t row_count, int64_t row_stride) {
    Accumulator* const results = static_cast<Accumulator*>(accumulators);
    if constexpr (kIsSum || kIsLargest) {
      const T* const x = static_cast<const T*>(x_data);
      if (stride == 1) {
        if constexpr (kIsSum) add_rows(results, count, x, row_count, row_stride);
        if constexpr (kIsLargest) keep_largest_of_rows(results, count, x, row_count, row_stride);
        return;
      }
    }
    for (int64_t r = 0; r < row_count; ++r) {
      const T* const row = static_cast<const T*>(x_data) + r * row_stride;
      for (int64_t i = 0; i < count; ++i) results[i] = added(results[i], row[i * stride]);
    }
  }

  static void merge(void* accumulators, const void* others, int64_t count) {
    Accumulator* const results = static_cast<Accumulator*>(accumulators);
    for (int64_t i = 0; i < count; ++i) {
      results[i] = merged(results[i], static_cast<const Accumulator*>(others)[i]);
    }
  }

  static void finish(void* y_data, const void* accumulators, int64_t count, int64_t reduced_count) {
    const Accumulator* const results = static_cast<const Accumulator*>(accumulators);
    const auto number = static_cast<Accumulator>(reduced_count);
    T* const y = static_cast<T*>(y_data);
    for (int64_t i = 0; i < count; ++i) {
      y[i] = store<T>(static_cast<C>(Form::template finish<Accumulator, C>(results[i], number)));
    }
  }
};

template <class Op>
struct ReducerTable {
  using Table = DtypeTable<const ReductionSteps& (*)()>;

  template <class T>
  static constexpr void add(uint32_t dtype, Table* table) {
    if constexpr (!std::is_void_v<FormOf<Op, T>>) {
      if ((Op::kDtypes & BP_DTYPE_BIT(dtype)) != 0) (*table)[dtype] = &Reducer<Op, T>::run;
    }
  }
  static constexpr Table table() {
    Table reducers{};
    for_each_integer_type([&]<class T>(TypeTag<T>, uint32_t dtype) { add<T>(dtype, &reducers); });
    add<F16>(BP_DTYPE_F16, &reducers);
    add<Bf16>(BP_DTYPE_BF16, &reducers);
    add<float>(BP_DTYPE_F32, &reducers);
    add<double>(BP_DTYPE_F64, &reducers);
    return reducers;
  }
};

template <class Op>
bp_status launch_reduction(const bp_launch_args& args) {
  static constexpr auto kReducers = ReducerTable<Op>::table();
  const auto attributes = read_attributes(args.attributes, typename Op::Attributes{});
  return run_reduction(args, kReducers[input_of(args, 0).dtype](), values_of(attributes.axes),
                       Op::kCost);
}

template <class Op>
constexpr bp_kernel reduction_kernel() {
  return sdk::describe({.name = Op::kName,
                        .op = Op::kOp,
                        .dtypes = kExpressionMasks<Op>,
                        .arg_rules = sdk::kAnyStrides,
                        .launch = launch_slot<launch_reduction<Op>>});
}

}  // namespace bp::cpu

#endif
