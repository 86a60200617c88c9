// SPDX-License-Identifier: Apache-2.0
//
// The skeleton of emitted kernels (bp-exprgen, ops/expr): loops over rows of one to three inputs,
// with broadcasting and any strides. An emitted struct Op says what the operator takes; its Float,
// Signed, Unsigned and Bool have the expression of each class as a template over a number type (or
// are void). Half types are computed in f32 and rounded once. A bool in memory is a byte that is 0
// or 1.
#ifndef BACKPLANE_PLUGINS_CPU_EXPRESSION_HPP
#define BACKPLANE_PLUGINS_CPU_EXPRESSION_HPP

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "element.hpp"
#include "elementwise.hpp"
#include "kernel_support.hpp"
#include "large.hpp"
#include "saturate.hpp"
#include "vocabulary.hpp"

namespace bp::cpu {

enum class ConstantKind { kF64, kI64, kBool };

/// A numeric attribute: its place in the operator's struct, and what it is where the struct ends
/// before that.
struct Constant {
  ConstantKind kind;
  uint32_t offset_bytes;
  double default_value;
};

/// The class of T.
template <class Op, class T>
using FormOf = std::conditional_t<
    std::is_same_v<T, bool>, typename Op::Bool,
    std::conditional_t<
        std::is_floating_point_v<Compute<T>>, typename Op::Float,
        std::conditional_t<std::is_signed_v<T>, typename Op::Signed, typename Op::Unsigned>>>;

/// The rows of one operator in one dtype.
template <class Op, class T>
class ExpressionRow {
 public:
  static void run(const MapRow& row) {
    constexpr auto kInputs = std::make_index_sequence<kInputCount>();
    constexpr unsigned kAllRun = (1u << kInputCount) - 1;
    unsigned running = 0;  // bit i: input i goes along, else it is one element
    for (size_t i = 0; i < kInputCount; ++i) {
      if (row.strides[i] == 1) running |= 1u << i;
      if (row.strides[i] != 1 && row.strides[i] != 0) return strided(row, kInputs);
    }
    // The ways that are frequent, each a loop that the compiler makes vector code of.
    if constexpr (std::is_same_v<T, bool> && kInputCount == 1) {
      if (running == kAllRun) return bools(row);
    }
    if (running == kAllRun) return dense<kAllRun>(row, kInputs);
    if constexpr (kInputCount == 2) {
      if (running == 1) return dense<1>(row, kInputs);
      if (running == 2) return dense<2>(row, kInputs);
    }
    if constexpr (kInputCount == 3) {
      if (running == 1) return dense<1>(row, kInputs);
    }
    strided(row, kInputs);
  }

 private:
  static constexpr size_t kInputCount = Op::kInputIsBool.size();
  using Form = FormOf<Op, T>;
  using Result = std::conditional_t<Op::kGivesBool, bool, T>;
  template <size_t I>
  using Input = std::conditional_t<Op::kInputIsBool[I], bool, T>;

  template <size_t I>
  static const Input<I>* input(const MapRow& row) {
    return static_cast<const Input<I>*>(row.inputs[I]);
  }
  template <size_t K>
  static auto constant(const MapRow& row) {
    if constexpr (Op::kConstants[K].kind == ConstantKind::kBool) {
      return row.constants[K] != 0;
    } else if constexpr (std::is_integral_v<Compute<T>>) {
      return saturate<Compute<T>>(row.constants[K]);
    } else {
      return static_cast<Compute<T>>(row.constants[K]);
    }
  }

  template <size_t... K, class... Elements>
  static Result result(const MapRow& row, std::index_sequence<K...>, const Elements&... elements) {
    return store<Result>(Form::template apply<Compute<T>>(load(elements)..., constant<K>(row)...));
  }
  template <class... Elements>
  static Result result(const MapRow& row, const Elements&... elements) {
    return result(row, std::make_index_sequence<Op::kConstants.size()>(), elements...);
  }

  // Eight bools at a time: compilers make no vectors of a loop that negates them.
  static void bools(const MapRow& row) {
    constexpr uint64_t kOnes = 0x0101'0101'0101'0101;
    const uint64_t of_false = result(row, false) ? kOnes : 0;
    const uint64_t changes = of_false ^ (result(row, true) ? kOnes : 0);
    const auto* const x = static_cast<const std::byte*>(row.inputs[0]);
    auto* const y = static_cast<std::byte*>(row.y);
    const auto step = [&](int64_t at, size_t count) {
      uint64_t word = 0;
      std::memcpy(&word, x + at, count);
      word = of_false ^ (word & changes);
      std::memcpy(y + at, &word, count);
    };
    int64_t i = 0;
    for (; i + 8 <= row.count; i += 8) step(i, 8);
    for (; i < row.count; ++i) step(i, 1);
  }

  template <unsigned Running, size_t... I>
  static void dense(const MapRow& given, std::index_sequence<I...>) {
    const MapRow row = given;  // of its own, which no store can change
    Result* const y = static_cast<Result*>(row.y);
    for (int64_t i = 0; i < row.count; ++i) {
      y[i] = result(row, input<I>(row)[(Running >> I & 1u) != 0 ? i : 0]...);
    }
  }
  template <size_t... I>
  static void strided(const MapRow& given, std::index_sequence<I...>) {
    const MapRow row = given;
    Result* const y = static_cast<Result*>(row.y);
    for (int64_t i = 0; i < row.count; ++i) {
      y[i] = result(row, input<I>(row)[i * row.strides[I]]...);
    }
  }
};

/// The loops of one operator over whole vectors, of an instruction set.
struct VectorRows {
  MapRowFunction f32 = nullptr;  // for half types too
  MapRowFunction f64 = nullptr;
};

template <class T>
struct TypeTag {};

/// Calls fn(TypeTag<T>{}, dtype) for bool and every integer type.
template <class Fn>
constexpr void for_each_integer_type(const Fn& fn) {
  fn(TypeTag<bool>{}, BP_DTYPE_BOOL);
  fn(TypeTag<int8_t>{}, BP_DTYPE_I8);
  fn(TypeTag<int16_t>{}, BP_DTYPE_I16);
  fn(TypeTag<int32_t>{}, BP_DTYPE_I32);
  fn(TypeTag<int64_t>{}, BP_DTYPE_I64);
  fn(TypeTag<uint8_t>{}, BP_DTYPE_U8);
  fn(TypeTag<uint16_t>{}, BP_DTYPE_U16);
  fn(TypeTag<uint32_t>{}, BP_DTYPE_U32);
  fn(TypeTag<uint64_t>{}, BP_DTYPE_U64);
}

/// Those of integers and bools; floats have VectorRows.
template <class Op>
struct ExpressionRows {
  template <class T>
  static constexpr void add(uint32_t dtype, DtypeTable<MapRowFunction>* table) {
    if constexpr (!std::is_void_v<FormOf<Op, T>>) {
      if ((Op::kDtypes & BP_DTYPE_BIT(dtype)) != 0) (*table)[dtype] = &ExpressionRow<Op, T>::run;
    }
  }
  static constexpr DtypeTable<MapRowFunction> table() {
    DtypeTable<MapRowFunction> rows{};
    for_each_integer_type([&]<class T>(TypeTag<T>, uint32_t dtype) { add<T>(dtype, &rows); });
    return rows;
  }
};

/// The attribute, or its default where the caller's struct is shorter.
inline double constant_value(const Constant& constant, const void* attributes) {
  uint32_t struct_size = 0;
  if (attributes != nullptr) std::memcpy(&struct_size, attributes, sizeof(struct_size));
  if (struct_size < constant.offset_bytes + sizeof(double)) return constant.default_value;
  const auto* place = static_cast<const std::byte*>(attributes) + constant.offset_bytes;
  if (constant.kind == ConstantKind::kF64) {
    double value = 0;
    std::memcpy(&value, place, sizeof(value));
    return value;
  }
  int64_t value = 0;
  std::memcpy(&value, place, sizeof(value));
  return static_cast<double>(value);
}

/// VectorRowsOf: gives the loops of all operators of a file for the processor's instruction set;
/// Index: this one's among them.
template <class Op, const VectorRows* (*VectorRowsOf)(), size_t Index>
bp_status launch_expression(const bp_launch_args& args) {
  static constexpr DtypeTable<MapRowFunction> kRows = ExpressionRows<Op>::table();
  // The last input is of the type variable: a bool beside it stands before.
  constexpr auto kLast = static_cast<uint32_t>(Op::kInputIsBool.size() - 1);
  std::array<double, std::max<size_t>(Op::kConstants.size(), 1)> constants{};
  for (size_t i = 0; i < Op::kConstants.size(); ++i) {
    constants[i] = constant_value(Op::kConstants[i], args.attributes);
  }
  MapForm form{.function = nullptr,
               .constants = constants.data(),
               .item_cost = Op::kCost,
               .dtype = input_of(args, kLast).dtype,
               .gives_bool = Op::kGivesBool};
  if constexpr (!std::is_void_v<typename Op::Float>) {
    if ((kFloatTypes & BP_DTYPE_BIT(form.dtype)) != 0) {
      const VectorRows& rows = VectorRowsOf()[Index];
      form.function = run_by_dense;
      form.dense = form.dtype == BP_DTYPE_F64 ? rows.f64 : rows.f32;
      for (size_t i = 0; i <= kLast; ++i) form.bool_inputs |= (Op::kInputIsBool[i] ? 1u : 0u) << i;
      form.past_cache = is_past_cache(output_of(args));
      return run_map<kLast + 1>(args, form);
    }
  }
  form.function = kRows[form.dtype];
  return run_map<kLast + 1>(args, form);
}

template <class Op>
inline constexpr uint64_t kExpressionMasks[] = {Op::kDtypes};

template <class Op, const VectorRows* (*VectorRowsOf)(), size_t Index>
constexpr bp_kernel expression_kernel() {
  static_assert(!Op::kInputIsBool.back());
  return sdk::describe({.name = Op::kName,
                        .op = Op::kOp,
                        .dtypes = kExpressionMasks<Op>,
                        .arg_rules = sdk::kAnyStrides,
                        .flags = BP_KERNEL_DETERMINISTIC_BIT | BP_KERNEL_CHOOSES_ORDER_BIT,
                        .depends_on = BP_DEPENDS_SIZES_BIT | BP_DEPENDS_STRIDES_BIT,
                        .plan = plan_slot<OrderedPlan, plan_map>,
                        .plan_free = sdk::delete_plan<bp_kernel_plan>,
                        .launch = launch_slot<launch_expression<Op, VectorRowsOf, Index>>,
                        .in_place_inputs = (uint64_t{1} << Op::kInputIsBool.size()) - 1});
}

}  // namespace bp::cpu

#endif
