// SPDX-License-Identifier: Apache-2.0
//
// The part of the skeleton (expression.hpp) that is compiled for each instruction set: one loop
// over whole vectors for each operator in f32 and f64, and the words of vocabulary.hpp for vectors.
// The scalar set takes the loops over numbers that integers have everywhere.
#if defined(BACKPLANE_PLUGINS_CPU_EXPRESSION_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef BACKPLANE_PLUGINS_CPU_EXPRESSION_INL
#undef BACKPLANE_PLUGINS_CPU_EXPRESSION_INL
#else
#define BACKPLANE_PLUGINS_CPU_EXPRESSION_INL
#endif

#include <limits>

#include "expression.hpp"
#include "hwy/highway.h"

#if HWY_TARGET == HWY_SCALAR

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

template <class Op, class T>
inline constexpr MapRowFunction kVectorRow = &ExpressionRow<Op, T>::run;

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#else

#include "math/lanes-inl.hpp"
#include "math/vector_math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

template <class V>
using MaskOf = hn::Mask<hn::DFromV<V>>;

// ---- the words of vocabulary.hpp that vector_math-inl.hpp lacks ----

template <class V>
V vpi() {
  return vset<V>(3.14159265358979323846);
}
template <class V>
V vnan() {
  return vset<V>(std::numeric_limits<double>::quiet_NaN());
}
template <class V>
V vinf() {
  return vset<V>(std::numeric_limits<double>::infinity());
}
template <class V>
V vhighest() {
  return vinf<V>();
}
template <class V>
V vlowest() {
  return hn::Neg(vinf<V>());
}
template <class V>
MaskOf<V> vtrue() {
  return hn::Eq(vset<V>(0.0), vset<V>(0.0));
}
template <class V>
MaskOf<V> vfalse() {
  return hn::Ne(vset<V>(0.0), vset<V>(0.0));
}
template <class V>
V vadd(V a, V b) {
  return hn::Add(a, b);
}
template <class V>
V vsub(V a, V b) {
  return hn::Sub(a, b);
}
template <class V>
V vmul(V a, V b) {
  return hn::Mul(a, b);
}
template <class V>
V vdiv(V a, V b) {
  return hn::Div(a, b);
}
template <class V>
V vneg(V a) {
  return hn::Neg(a);
}
template <class V>
V vfma(V a, V b, V c) {
  return hn::MulAdd(a, b, c);
}
template <class M, class V>
V vselect(M condition, V a, V b) {
  return hn::IfThenElse(condition, a, b);
}
// NaN wins.
template <class V>
V vmax(V a, V b) {
  return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
}
template <class V>
V vmin(V a, V b) {
  return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b);
}
// NaN stays, and either zero becomes +0.
template <class V>
V vsign(V a) {
  const V zero = vset<V>(0.0);
  const V one = hn::CopySign(vset<V>(1.0), a);
  return hn::IfThenElse(hn::IsNaN(a), a, hn::IfThenElse(hn::Eq(a, zero), zero, one));
}
template <class V>
MaskOf<V> vis_nan(V a) {
  return hn::IsNaN(a);
}
template <class V>
MaskOf<V> vis_inf(V a) {
  return hn::Eq(hn::Abs(a), vinf<V>());
}
template <class V>
MaskOf<V> vis_finite(V a) {
  return hn::Lt(hn::Abs(a), vinf<V>());
}
template <class V>
MaskOf<V> veq(V a, V b) {
  return hn::Eq(a, b);
}
// Highway's Ne is false beside a NaN on some instruction sets.
template <class V>
MaskOf<V> vne(V a, V b) {
  return hn::Not(hn::Eq(a, b));
}
template <class V>
MaskOf<V> vlt(V a, V b) {
  return hn::Lt(a, b);
}
template <class V>
MaskOf<V> vle(V a, V b) {
  return hn::Le(a, b);
}
template <class V>
MaskOf<V> vgt(V a, V b) {
  return hn::Gt(a, b);
}
template <class V>
MaskOf<V> vge(V a, V b) {
  return hn::Ge(a, b);
}
// Of bools.
template <class M>
requires(!requires { typename M::PrivateT; }) M vne(M a, M b) { return hn::Xor(a, b); }
template <class M>
requires(!requires { typename M::PrivateT; }) M veq(M a, M b) { return hn::Not(hn::Xor(a, b)); }
template <class M>
M vand(M a, M b) {
  return hn::And(a, b);
}
template <class M>
M vor(M a, M b) {
  return hn::Or(a, b);
}
template <class M>
M vnot(M a) {
  return hn::Not(a);
}

// ---- bools: bytes that are 0 or 1 ----

template <class D>
hn::Mask<D> load_bools(D d, const bool* x, size_t count) {
  using T = hn::TFromD<D>;
  if constexpr (sizeof(T) == 4) {
    if (count == hn::Lanes(d)) {
      const hn::Rebind<uint8_t, D> bytes;
      const hn::Rebind<uint32_t, D> words;
      const auto wide = hn::PromoteTo(words, hn::LoadU(bytes, reinterpret_cast<const uint8_t*>(x)));
      return hn::RebindMask(d, hn::Ne(wide, hn::Zero(words)));
    }
  }
  HWY_ALIGN T values[hn::MaxLanes(d)] = {};
  for (size_t i = 0; i < count; ++i) values[i] = x[i] ? T{1} : T{0};
  return hn::Ne(hn::Load(d, values), hn::Zero(d));
}

template <class D>
void store_bools(hn::Mask<D> mask, D d, bool* y, size_t count) {
  using T = hn::TFromD<D>;
  if constexpr (sizeof(T) == 4) {
    if (count == hn::Lanes(d)) {
      const hn::Rebind<uint8_t, D> bytes;
      const hn::Rebind<int32_t, D> words;
      const auto ones = hn::IfThenElseZero(hn::RebindMask(words, mask), hn::Set(words, 1));
      hn::StoreU(hn::DemoteTo(bytes, ones), bytes, reinterpret_cast<uint8_t*>(y));
      return;
    }
  }
  HWY_ALIGN T values[hn::MaxLanes(d)];
  hn::Store(hn::IfThenElseZero(mask, hn::Set(d, T{1})), d, values);
  for (size_t i = 0; i < count; ++i) y[i] = values[i] != 0;
}

// ---- the loop ----

template <class Op, class T>
class VectorRow {
 public:
  static void run(const MapRow& given) {
    const MapRow row = given;  // of its own, which no store can change
    const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
    int64_t i = 0;
    for (; i + lanes <= row.count; i += lanes) {
      step<true>(row, i, static_cast<size_t>(lanes), Inputs(), Constants());
    }
    if (i < row.count) {
      step<false>(row, i, static_cast<size_t>(row.count - i), Inputs(), Constants());
    }
  }

 private:
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  using Inputs = std::make_index_sequence<Op::kInputIsBool.size()>;
  using Constants = std::make_index_sequence<Op::kConstants.size()>;

  template <size_t I, bool kWhole>
  static auto input(const MapRow& row, int64_t at, size_t count) {
    if constexpr (Op::kInputIsBool[I]) {
      return load_bools(D(), static_cast<const bool*>(row.inputs[I]) + at, count);
    } else if constexpr (kWhole) {
      return hn::LoadU(D(), static_cast<const T*>(row.inputs[I]) + at);
    } else {
      return load_part(D(), static_cast<const T*>(row.inputs[I]) + at, count);
    }
  }
  template <size_t K>
  static auto constant(const MapRow& row) {
    const V value = vset<V>(row.constants[K]);
    if constexpr (Op::kConstants[K].kind == ConstantKind::kBool) {
      return hn::Ne(value, vset<V>(0.0));
    } else {
      return value;
    }
  }

  template <bool kWhole, size_t... I, size_t... K>
  static void step(const MapRow& row, int64_t at, size_t count, std::index_sequence<I...>,
                   std::index_sequence<K...>) {
    const auto result = Op::Float::apply(input<I, kWhole>(row, at, count)..., constant<K>(row)...);
    if constexpr (Op::kGivesBool) {
      store_bools(result, D(), static_cast<bool*>(row.y) + at, count);
    } else if constexpr (kWhole) {
      hn::StoreU(result, D(), static_cast<T*>(row.y) + at);
    } else {
      store_part(result, D(), static_cast<T*>(row.y) + at, count);
    }
  }
};

template <class Op, class T>
inline constexpr MapRowFunction kVectorRow = &VectorRow<Op, T>::run;

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

template <class Op>
constexpr VectorRows vector_rows_of() {
  VectorRows rows;
  if constexpr (!std::is_void_v<typename Op::Float>) {
    rows.f32 = kVectorRow<Op, float>;
    rows.f64 = kVectorRow<Op, double>;
  }
  return rows;
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
