// SPDX-License-Identifier: Apache-2.0
//
// The steps of attention on blocks, as vector code in f32 and f64. Scratch is padded to whole
// vectors, so that only what lies in tensors has ends to take care of.
#if defined(BACKPLANE_PLUGINS_CPU_KERNELS_ATTENTION_STEPS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef BACKPLANE_PLUGINS_CPU_KERNELS_ATTENTION_STEPS_INL
#undef BACKPLANE_PLUGINS_CPU_KERNELS_ATTENTION_STEPS_INL
#else
#define BACKPLANE_PLUGINS_CPU_KERNELS_ATTENTION_STEPS_INL
#endif

#include <algorithm>
#include <limits>

#include "math/lanes-inl.hpp"
#include "math/vector_math-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

/// The score of a key that takes no part.
template <class C>
inline constexpr C kMasked = -std::numeric_limits<C>::infinity();

// `count` in whole vectors of T.
template <class T>
size_t in_vectors(size_t count) {
  const size_t lanes = hn::Lanes(hn::ScalableTag<T>());
  return (count + lanes - 1) / lanes * lanes;
}

/// c [rows, columns] += a [rows, depth] b [depth, columns], rows of each `*_row` apart. c has room
/// for whole vectors.
template <class T>
struct BlockProduct {
  const T* a;
  size_t a_row;
  const T* b;
  size_t b_row;
  size_t depth;
  size_t columns;
  T* c;
  size_t c_row;
};

// Up to three vectors beside each other. By name: compilers keep arrays of vectors in memory.
template <class D>
struct Strip {
  hn::Vec<D> v0, v1, v2;
};

// kPart: the last vector has `part` elements.
template <size_t kVectors, bool kPart, class D, class T>
HWY_INLINE Strip<D> load_strip(D d, const T* x, size_t part) {
  const size_t lanes = hn::Lanes(d);
  const auto load_last = [&](const T* at) HWY_ATTR {
    if constexpr (kPart) {
      return load_part(d, at, part);
    } else {
      return hn::LoadU(d, at);
    }
  };
  const auto zero = hn::Zero(d);
  if constexpr (kVectors == 1) {
    return {load_last(x), zero, zero};
  } else if constexpr (kVectors == 2) {
    return {hn::LoadU(d, x), load_last(x + lanes), zero};
  } else {
    return {hn::LoadU(d, x), hn::LoadU(d, x + lanes), load_last(x + 2 * lanes)};
  }
}

template <size_t kVectors, class D, class T>
HWY_INLINE void store_strip(D d, const Strip<D>& strip, T* y) {
  const size_t lanes = hn::Lanes(d);
  hn::StoreU(strip.v0, d, y);
  if constexpr (kVectors > 1) hn::StoreU(strip.v1, d, y + lanes);
  if constexpr (kVectors > 2) hn::StoreU(strip.v2, d, y + 2 * lanes);
}

template <size_t kVectors, class D, class T>
HWY_INLINE void add_product(D d, T factor, const Strip<D>& strip, Strip<D>& sums) {
  const auto factors = hn::Set(d, factor);
  sums.v0 = hn::MulAdd(factors, strip.v0, sums.v0);
  if constexpr (kVectors > 1) sums.v1 = hn::MulAdd(factors, strip.v1, sums.v1);
  if constexpr (kVectors > 2) sums.v2 = hn::MulAdd(factors, strip.v2, sums.v2);
}

// One or four rows of c, and kVectors of their columns from `column` on.
template <size_t kRows, size_t kVectors, bool kPart, class T>
void multiply_tile(const BlockProduct<T>& p, size_t column, size_t part) {
  const hn::ScalableTag<T> d;
  const T* const a0 = p.a;
  const T* const a1 = a0 + (kRows > 1 ? p.a_row : 0);
  const T* const a2 = a1 + (kRows > 1 ? p.a_row : 0);
  const T* const a3 = a2 + (kRows > 1 ? p.a_row : 0);
  T* const c = p.c + column;
  auto sums0 = load_strip<kVectors, false>(d, c, 0);
  auto sums1 = sums0, sums2 = sums0, sums3 = sums0;
  if constexpr (kRows > 1) {
    sums1 = load_strip<kVectors, false>(d, c + p.c_row, 0);
    sums2 = load_strip<kVectors, false>(d, c + 2 * p.c_row, 0);
    sums3 = load_strip<kVectors, false>(d, c + 3 * p.c_row, 0);
  }
  const T* b = p.b + column;
  for (size_t i = 0; i < p.depth; ++i, b += p.b_row) {
    const auto strip = load_strip<kVectors, kPart>(d, b, part);
    add_product<kVectors>(d, a0[i], strip, sums0);
    if constexpr (kRows > 1) {
      add_product<kVectors>(d, a1[i], strip, sums1);
      add_product<kVectors>(d, a2[i], strip, sums2);
      add_product<kVectors>(d, a3[i], strip, sums3);
    }
  }
  store_strip<kVectors>(d, sums0, c);
  if constexpr (kRows > 1) {
    store_strip<kVectors>(d, sums1, c + p.c_row);
    store_strip<kVectors>(d, sums2, c + 2 * p.c_row);
    store_strip<kVectors>(d, sums3, c + 3 * p.c_row);
  }
}

template <size_t kRows, size_t kVectors, class T>
void multiply_strip(const BlockProduct<T>& p, size_t column, size_t part) {
  if (part == 0) {
    multiply_tile<kRows, kVectors, false>(p, column, 0);
  } else {
    multiply_tile<kRows, kVectors, true>(p, column, part);
  }
}

template <size_t kRows, class T>
void multiply_rows(const BlockProduct<T>& p) {
  const size_t lanes = hn::Lanes(hn::ScalableTag<T>());
  size_t left = in_vectors<T>(p.columns) / lanes;
  size_t column = 0;
  while (left > 0) {
    // Four go as two and two: one vector alone waits for its own sums.
    const size_t taken = left == 4 ? 2 : std::min<size_t>(left, 3);
    const size_t part = taken == left ? p.columns % lanes : 0;
    if (taken == 3) {
      multiply_strip<kRows, 3>(p, column, part);
    } else if (taken == 2) {
      multiply_strip<kRows, 2>(p, column, part);
    } else {
      multiply_strip<kRows, 1>(p, column, part);
    }
    left -= taken;
    column += taken * lanes;
  }
}

/// scores [rows, keys] = q [rows, dim] k [keys, dim] transposed: for queries so few that no block
/// of keys is worth being transposed. Keys go by fours, so scores has room for as many.
template <class T>
void dot_keys(const T* q, size_t rows, const T* k, size_t k_row, size_t keys, size_t dim, T* scores,
              size_t scores_row) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  const size_t whole = dim / lanes * lanes;
  for (size_t j = 0; j < keys; j += 4) {
    const T* const k0 = k + j * k_row;
    const T* const k1 = k + std::min(j + 1, keys - 1) * k_row;
    const T* const k2 = k + std::min(j + 2, keys - 1) * k_row;
    const T* const k3 = k + std::min(j + 3, keys - 1) * k_row;
    for (size_t r = 0; r < rows; ++r) {
      const T* const row = q + r * dim;
      auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
      for (size_t i = 0; i < whole; i += lanes) {
        const auto factor = hn::LoadU(d, row + i);
        sum0 = hn::MulAdd(factor, hn::LoadU(d, k0 + i), sum0);
        sum1 = hn::MulAdd(factor, hn::LoadU(d, k1 + i), sum1);
        sum2 = hn::MulAdd(factor, hn::LoadU(d, k2 + i), sum2);
        sum3 = hn::MulAdd(factor, hn::LoadU(d, k3 + i), sum3);
      }
      if (whole < dim) {
        const size_t part = dim - whole;
        const auto factor = load_part(d, row + whole, part);
        sum0 = hn::MulAdd(factor, load_part(d, k0 + whole, part), sum0);
        sum1 = hn::MulAdd(factor, load_part(d, k1 + whole, part), sum1);
        sum2 = hn::MulAdd(factor, load_part(d, k2 + whole, part), sum2);
        sum3 = hn::MulAdd(factor, load_part(d, k3 + whole, part), sum3);
      }
      T* const to = scores + r * scores_row + j;
      to[0] = hn::GetLane(hn::SumOfLanes(d, sum0));
      to[1] = hn::GetLane(hn::SumOfLanes(d, sum1));
      to[2] = hn::GetLane(hn::SumOfLanes(d, sum2));
      to[3] = hn::GetLane(hn::SumOfLanes(d, sum3));
    }
  }
}

template <class T>
void transpose_loop(const T* x, size_t x_row, size_t rows, size_t columns, T* y, size_t y_row) {
  for (size_t j = 0; j < rows; ++j) {
    for (size_t i = 0; i < columns; ++i) y[i * y_row + j] = x[j * x_row + i];
  }
}

/// y [columns, rows] = x [rows, columns] transposed.
template <class T>
void transpose(const T* x, size_t x_row, size_t rows, size_t columns, T* y, size_t y_row) {
  size_t j = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (sizeof(T) == 4) {
    const hn::FixedTag<T, 4> d;
    const size_t whole = columns / 4 * 4;
    for (; j + 4 <= rows; j += 4) {
      const T* const from = x + j * x_row;
      for (size_t i = 0; i < whole; i += 4) {
        const auto a = hn::LoadU(d, from + i);
        const auto b = hn::LoadU(d, from + x_row + i);
        const auto c = hn::LoadU(d, from + 2 * x_row + i);
        const auto e = hn::LoadU(d, from + 3 * x_row + i);
        const auto lower_ab = hn::InterleaveLower(d, a, b);
        const auto lower_ce = hn::InterleaveLower(d, c, e);
        const auto upper_ab = hn::InterleaveUpper(d, a, b);
        const auto upper_ce = hn::InterleaveUpper(d, c, e);
        T* const to = y + i * y_row + j;
        hn::StoreU(hn::ConcatLowerLower(d, lower_ce, lower_ab), d, to);
        hn::StoreU(hn::ConcatUpperUpper(d, lower_ce, lower_ab), d, to + y_row);
        hn::StoreU(hn::ConcatLowerLower(d, upper_ce, upper_ab), d, to + 2 * y_row);
        hn::StoreU(hn::ConcatUpperUpper(d, upper_ce, upper_ab), d, to + 3 * y_row);
      }
      transpose_loop(from + whole, x_row, 4, columns - whole, y + whole * y_row + j, y_row);
    }
  }
#endif
  transpose_loop(x + j * x_row, x_row, rows - j, columns, y + j, y_row);
}

/// x[i] = cap * tanh(x[i] / cap), in whole vectors.
template <class T>
void cap_scores(T* x, size_t count, T cap) {
  const hn::ScalableTag<T> d;
  const auto caps = hn::Set(d, cap);
  for (size_t i = 0; i < count; i += hn::Lanes(d)) {
    hn::StoreU(hn::Mul(caps, vtanh(hn::Div(hn::LoadU(d, x + i), caps))), d, x + i);
  }
}

/// The largest of whole vectors. Of NaN anything.
template <class T>
T highest_of(const T* x, size_t count) {
  const hn::ScalableTag<T> d;
  auto best = hn::Set(d, kMasked<T>);
  for (size_t i = 0; i < count; i += hn::Lanes(d)) best = hn::Max(best, hn::LoadU(d, x + i));
  return hn::GetLane(hn::MaxOfLanes(d, best));
}

/// x[i] = e^(x[i] - highest), in whole vectors; their sum. Keys that are masked are kept out of
/// exp: results below the normal range are slow.
template <class T>
T weigh(T* x, size_t count, T highest) {
  const hn::ScalableTag<T> d;
  const auto top = hn::Set(d, highest);
  const auto masked = hn::Set(d, kMasked<T>);
  auto sums = hn::Zero(d);
  for (size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto below = hn::Sub(hn::LoadU(d, x + i), top);
    const auto is_masked = hn::Eq(below, masked);
    const auto weight = hn::IfThenZeroElse(is_masked, vexp(hn::IfThenZeroElse(is_masked, below)));
    hn::StoreU(weight, d, x + i);
    sums = hn::Add(sums, weight);
  }
  return hn::GetLane(hn::SumOfLanes(d, sums));
}

/// x[i] *= factor, in whole vectors.
template <class T>
void scale_by(T* x, size_t count, T factor) {
  const hn::ScalableTag<T> d;
  const auto factors = hn::Set(d, factor);
  for (size_t i = 0; i < count; i += hn::Lanes(d)) {
    hn::StoreU(hn::Mul(hn::LoadU(d, x + i), factors), d, x + i);
  }
}

/// y[i] = x[i] * factor in the type to compute in.
template <class T, class C>
void widen_row(const T* x, size_t count, C factor, C* y) {
  const hn::ScalableTag<C> d;
  const size_t lanes = hn::Lanes(d);
  const auto factors = hn::Set(d, factor);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::Mul(load_lanes(d, x + i), factors), d, y + i);
  }
  if (i == count) return;
  store_part(hn::Mul(load_part(d, x + i, count - i), factors), d, y + i, count - i);
}

/// y[i] = x[i] / divisor, rounded to T.
template <class T, class C>
void store_row(const C* x, size_t count, C divisor, T* y) {
  const hn::ScalableTag<C> d;
  const size_t lanes = hn::Lanes(d);
  const auto divisors = hn::Set(d, divisor);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    store_lanes(hn::Div(hn::LoadU(d, x + i), divisors), d, y + i);
  }
  if (i == count) return;
  store_part(hn::Div(hn::LoadU(d, x + i), divisors), d, y + i, count - i);
}

/// Vectors of scores with a mask whose elements lie beside each other. -inf leaves a key out,
/// whatever its score is.
template <class M, class D>
hn::Vec<D> masked_scores(D d, hn::Vec<D> scores, const M* mask) {
  const auto out = hn::Set(d, kMasked<hn::TFromD<D>>);
  if constexpr (std::is_same_v<M, bool>) {
    const hn::Rebind<uint8_t, D> bytes;
    const hn::Rebind<uint32_t, D> words;
    const auto kept =
        hn::PromoteTo(words, hn::LoadU(bytes, reinterpret_cast<const uint8_t*>(mask)));
    return hn::IfThenElse(hn::RebindMask(d, hn::Ne(kept, hn::Zero(words))), scores, out);
  } else {
    const auto value = load_lanes(d, mask);
    return hn::IfThenElse(hn::Eq(value, out), out, hn::Add(scores, value));
  }
}

/// The same for a row, with any distance between elements.
template <class M, class C>
void add_mask(C* scores, const void* data, int64_t stride, int64_t count) {
  const M* const mask = static_cast<const M*>(data);
  int64_t j = 0;
  constexpr bool kWidensToFloat = std::is_same_v<C, float> && !std::is_same_v<M, double>;
  if constexpr (kWidensToFloat || std::is_same_v<M, C>) {
    const hn::ScalableTag<C> d;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    for (; stride == 1 && j + lanes <= count; j += lanes) {
      hn::StoreU(masked_scores(d, hn::LoadU(d, scores + j), mask + j), d, scores + j);
    }
  }
  for (; j < count; ++j) {
    if constexpr (std::is_same_v<M, bool>) {
      scores[j] = mask[j * stride] ? scores[j] : kMasked<C>;
    } else {
      const C value = static_cast<C>(load(mask[j * stride]));
      scores[j] = value == kMasked<C> ? kMasked<C> : scores[j] + value;
    }
  }
}

template <class C>
void add_mask_of(uint32_t dtype, C* scores, const std::byte* mask, int64_t offset, int64_t stride,
                 int64_t count) {
  const std::byte* const at = mask + offset * static_cast<int64_t>(sdk::dtype_bytes(dtype));
  switch (dtype) {
    case BP_DTYPE_BOOL:
      return add_mask<bool>(scores, at, stride, count);
    case BP_DTYPE_F16:
      return add_mask<F16>(scores, at, stride, count);
    case BP_DTYPE_BF16:
      return add_mask<Bf16>(scores, at, stride, count);
    case BP_DTYPE_F64:
      return add_mask<double>(scores, at, stride, count);
    default:
      return add_mask<float>(scores, at, stride, count);
  }
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
