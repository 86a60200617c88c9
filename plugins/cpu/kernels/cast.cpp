// SPDX-License-Identifier: Apache-2.0
//
// cast between all pairs of bool, integers and floats. 169 loops would be most of this plugin's
// code, so that a cast has two halves with a small buffer between them: the first widens to i64,
// u64 or f64, which hold every source value exactly; the second narrows from there with one
// rounding. Between the usual types there are loops of whole vectors (math/cast_rows.hpp), which
// take rows without gaps.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "cast_halves.hpp"
#include "element.hpp"
#include "elementwise.hpp"
#include "kernel_support.hpp"
#include "math/cast_rows.hpp"
#include "nest.hpp"
#include "saturate.hpp"

namespace bp::cpu {
namespace {

constexpr int64_t kBlock = 128;
constexpr int64_t kItemCost = 4;

struct Bool {
  uint8_t byte;
};

enum class Wide { kSigned, kUnsigned, kFloat };

// One element in the first half's form.
union WideValue {
  int64_t as_signed;
  uint64_t as_unsigned;
  double as_float;
};

template <class T>
constexpr Wide wide_of() {
  if constexpr (std::is_same_v<T, Bool> || std::is_unsigned_v<T>) {
    return Wide::kUnsigned;
  } else if constexpr (std::is_integral_v<T>) {
    return Wide::kSigned;
  } else {
    return Wide::kFloat;
  }
}

template <class T>
struct Widen {
  static void run(WideValue* out, const void* x_data, int64_t stride, int64_t count) {
    const T* const x = static_cast<const T*>(x_data);
    for (int64_t i = 0; i < count; ++i) {
      const T& element = x[i * stride];
      if constexpr (std::is_same_v<T, Bool>) {
        out[i].as_unsigned = element.byte != 0 ? 1 : 0;
      } else if constexpr (wide_of<T>() == Wide::kUnsigned) {
        out[i].as_unsigned = element;
      } else if constexpr (wide_of<T>() == Wide::kSigned) {
        out[i].as_signed = int64_t{element};
      } else {
        out[i].as_float = static_cast<double>(load(element));
      }
    }
  }
};

// A whole number as an f64 that rounds to shorter formats as the number itself would: what does not
// fit 53 bits leaves an odd last bit.
double to_odd_double(uint64_t magnitude) {
  if (magnitude >> 53 != 0) {
    const uint64_t lost = magnitude & 0x7ff;
    magnitude = (magnitude & ~uint64_t{0x7ff}) | (lost != 0 ? uint64_t{0x800} : uint64_t{0});
  }
  return static_cast<double>(magnitude);
}

double to_odd_double(int64_t value) {
  const uint64_t bits = static_cast<uint64_t>(value);
  return value < 0 ? -to_odd_double(uint64_t{0} - bits) : to_odd_double(bits);
}

template <class T>
T narrow_float(double value) {
  if constexpr (std::is_same_v<T, F16>) {
    return narrow_to_f16(narrow_to_odd(value));
  } else if constexpr (std::is_same_v<T, Bf16>) {
    return narrow_to_bf16(narrow_to_odd(value));
  } else {
    return static_cast<T>(value);
  }
}

template <class T, class Whole>
T narrow_whole(Whole value) {
  if constexpr (std::is_same_v<T, double>) {
    return static_cast<double>(value);
  } else {
    return narrow_float<T>(to_odd_double(value));
  }
}

template <class T, Wide From>
T narrow(const WideValue& value) {
  if constexpr (std::is_same_v<T, Bool>) {
    if constexpr (From == Wide::kFloat) return {static_cast<uint8_t>(value.as_float != 0.0)};
    return {static_cast<uint8_t>(value.as_unsigned != 0)};
  } else if constexpr (wide_of<T>() == Wide::kFloat) {
    if constexpr (From == Wide::kFloat) {
      return narrow_float<T>(value.as_float);
    } else if constexpr (From == Wide::kSigned) {
      return narrow_whole<T>(value.as_signed);
    } else {
      return narrow_whole<T>(value.as_unsigned);
    }
  } else if constexpr (From == Wide::kFloat) {
    return saturate<T>(value.as_float);
  } else {
    return static_cast<T>(value.as_unsigned);  // wraps
  }
}

template <class T>
struct Narrow {
  template <Wide From>
  static void from(T* y, const WideValue* values, int64_t count) {
    for (int64_t i = 0; i < count; ++i) y[i] = narrow<T, From>(values[i]);
  }

  static void run(void* y_data, const WideValue* values, Wide wide, int64_t count) {
    T* const y = static_cast<T*>(y_data);
    if (wide == Wide::kFloat) return from<Wide::kFloat>(y, values, count);
    if (wide == Wide::kSigned) return from<Wide::kSigned>(y, values, count);
    return from<Wide::kUnsigned>(y, values, count);
  }
};

template <class T>
struct WideKind {
  static Wide run() { return wide_of<T>(); }
};

template <template <class> class Kernel>
constexpr auto any_table() {
  auto table = number_table<Kernel>();
  table[BP_DTYPE_BOOL] = &Kernel<Bool>::run;
  return table;
}
constexpr auto kWidenTable = any_table<Widen>();
constexpr auto kNarrowTable = any_table<Narrow>();
constexpr auto kKindTable = any_table<WideKind>();

// Between f32 and half types, the casts that models are full of: one rounding, as by way of f64.
bool casts_halves(const bp_tensor& x, const bp_tensor& y) {
  return lie_alike(x, y) && ((is_half(x.dtype) && y.dtype == BP_DTYPE_F32) ||
                             (is_half(y.dtype) && x.dtype == BP_DTYPE_F32));
}

struct Cast {
  const bp_tensor& x;
  const bp_tensor& y;
  Nest nest;  // operands: y, x

  int64_t stride() const { return nest.strides[1][nest.rank - 1]; }
  std::byte* y_at(int64_t element) const {
    return address_of(y) + element * static_cast<int64_t>(sdk::dtype_bytes(y.dtype));
  }
  const std::byte* x_at(int64_t element) const {
    return address_of(x) + element * static_cast<int64_t>(sdk::dtype_bytes(x.dtype));
  }
};

void cast_rows(Workers& workers, const Cast& cast, CastRow cast_row) {
  workers.for_ranges(cast.nest.count, 1, [&](int64_t begin, int64_t end) noexcept {
    walk_rows(cast.nest, 2, begin, end, [&](const int64_t* offsets, int64_t count) {
      cast_row(cast.x_at(offsets[1]), cast.y_at(offsets[0]), count);
    });
  });
}

void cast_in_blocks(Workers& workers, const Cast& cast) {
  const auto widen_row = kWidenTable[cast.x.dtype];
  const auto narrow_row = kNarrowTable[cast.y.dtype];
  const Wide wide = kKindTable[cast.x.dtype]();
  const int64_t stride = cast.stride();
  workers.for_ranges(cast.nest.count, kItemCost, [&](int64_t begin, int64_t end) noexcept {
    WideValue values[kBlock];
    walk_rows(cast.nest, 2, begin, end, [&](const int64_t* offsets, int64_t row_count) {
      for (int64_t i = 0; i < row_count; i += kBlock) {
        const int64_t count = std::min(kBlock, row_count - i);
        widen_row(values, cast.x_at(offsets[1] + i * stride), stride, count);
        narrow_row(cast.y_at(offsets[0] + i), values, wide, count);
      }
    });
  });
}

bp_status launch(const bp_launch_args& args) {
  const bp_tensor& x = input_of(args, 0);
  const bp_tensor& y = output_of(args);
  Workers& workers = args.device->workers;
  if (casts_halves(x, y)) {
    cast_halves(workers, x, y);
    return BP_OK;
  }
  const bp_tensor* const inputs[] = {&x};
  const Cast cast{x, y, broadcast_nest(y, inputs, 1)};
  const CastRow row = cast.stride() == 1 ? cast_row_of(x.dtype, y.dtype) : nullptr;
  if (row != nullptr) {
    cast_rows(workers, cast, row);
  } else {
    cast_in_blocks(workers, cast);
  }
  return BP_OK;
}

// The dtype of the output is an attribute, which no mask covers.
const char* why_not(const bp_kernel_query& query) {
  const uint32_t to = output_info(query).dtype;
  if (to <= BP_DTYPE_U4 && (kAnyTypes & BP_DTYPE_BIT(to)) != 0) return nullptr;
  return "casts go to bool, integers of 8 to 64 bits, f16, bf16, f32 and f64 only";
}

constexpr uint64_t kMasks[] = {kAnyTypes};

constexpr bp_kernel kKernels[] = {
    sdk::describe({.name = "cast_loop",
                   .op = "cast",
                   .dtypes = kMasks,
                   .arg_rules = sdk::kAnyStrides,
                   .flags = BP_KERNEL_DETERMINISTIC_BIT | BP_KERNEL_CHOOSES_ORDER_BIT,
                   .depends_on = BP_DEPENDS_SIZES_BIT | BP_DEPENDS_STRIDES_BIT,
                   .supports = supports_slot<why_not>,
                   .plan = plan_slot<OrderedPlan, plan_map>,
                   .plan_free = sdk::delete_plan<bp_kernel_plan>,
                   .launch = launch_slot<launch>})};

}  // namespace

BP_SDK_KERNELS(cast, kKernels);

}  // namespace bp::cpu
