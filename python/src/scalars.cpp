// SPDX-License-Identifier: Apache-2.0
#include "scalars.hpp"

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <string>

namespace bp::python {
namespace {

/// A binary float that C++ has no type for.
struct SmallFloat {
  int mantissa_bits;
  int exponent_bits;
  int bias;
  enum { kIeee, kNoInfinity, kUnsignedZero } style;  // what its topmost codes and -0 mean
};

SmallFloat small_float(uint32_t code) {
  switch (code) {
    case BP_DTYPE_F16:
      return {10, 5, 15, SmallFloat::kIeee};
    case BP_DTYPE_BF16:
      return {7, 8, 127, SmallFloat::kIeee};
    case BP_DTYPE_F8E4M3FN:
      return {3, 4, 7, SmallFloat::kNoInfinity};
    case BP_DTYPE_F8E5M2:
      return {2, 5, 15, SmallFloat::kIeee};
    case BP_DTYPE_F8E4M3FNUZ:
      return {3, 4, 8, SmallFloat::kUnsignedZero};
    default:
      return {2, 5, 16, SmallFloat::kUnsignedZero};  // BP_DTYPE_F8E5M2FNUZ
  }
}

/// The largest code of a finite value, without the sign.
uint32_t largest_finite(const SmallFloat& f) {
  const uint32_t all = (1u << (f.mantissa_bits + f.exponent_bits)) - 1;
  if (f.style == SmallFloat::kIeee) return all - (1u << f.mantissa_bits);
  return f.style == SmallFloat::kNoInfinity ? all - 1 : all;
}

/// Rounds to nearest even; what is too large becomes inf, or NaN where the type has no inf.
uint32_t encode_small(double value, const SmallFloat& f) {
  const int sign_shift = f.mantissa_bits + f.exponent_bits;
  const uint32_t sign = std::signbit(value) ? 1u << sign_shift : 0;
  const uint32_t exponents = ((1u << f.exponent_bits) - 1) << f.mantissa_bits;
  const uint32_t infinity = f.style == SmallFloat::kIeee ? sign | exponents
                            : f.style == SmallFloat::kNoInfinity
                                ? sign | (exponents | ((1u << f.mantissa_bits) - 1))
                                : 1u << sign_shift;
  if (std::isnan(value)) {
    if (f.style == SmallFloat::kUnsignedZero) return 1u << sign_shift;
    if (f.style == SmallFloat::kNoInfinity) return infinity;
    return sign | exponents | (1u << (f.mantissa_bits - 1));
  }
  const double size = std::fabs(value);
  if (std::isinf(size)) return infinity;
  int exponent = size == 0 ? 1 - f.bias : std::ilogb(size);
  exponent = std::max(exponent, 1 - f.bias);  // below: a denormal
  const double steps = std::nearbyint(std::ldexp(size, f.mantissa_bits - exponent));
  const double code = steps + std::ldexp(exponent + f.bias - 1, f.mantissa_bits);
  if (code > largest_finite(f)) return infinity;
  const auto bits = static_cast<uint32_t>(code);
  if (bits == 0 && f.style == SmallFloat::kUnsignedZero) return 0;
  return sign | bits;
}

double decode_small(uint32_t bits, const SmallFloat& f) {
  const int sign_shift = f.mantissa_bits + f.exponent_bits;
  const bool negative = ((bits >> sign_shift) & 1) != 0;
  const uint32_t code = bits & ((1u << sign_shift) - 1);
  if (code == 0 && negative && f.style == SmallFloat::kUnsignedZero) return std::nan("");
  double size = 0;
  if (code > largest_finite(f)) {
    const bool infinite = f.style == SmallFloat::kIeee && code == largest_finite(f) + 1;
    size = infinite ? std::numeric_limits<double>::infinity() : std::nan("");
  } else {
    const auto exponent = static_cast<int>(code >> f.mantissa_bits);
    const uint32_t mantissa = code & ((1u << f.mantissa_bits) - 1);
    size = exponent == 0 ? std::ldexp(mantissa, 1 - f.bias - f.mantissa_bits)
                         : std::ldexp(mantissa + (1u << f.mantissa_bits),
                                      exponent - f.bias - f.mantissa_bits);
  }
  return negative ? -size : size;
}

/// A power of two without a sign: the nearest, of two the larger; 0xff is NaN.
uint8_t encode_scale(double value) {
  if (!(value >= 0) || std::isinf(value)) return 0xff;
  if (value == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);  // in [0.5, 1)
  const int code = exponent - 1 + (fraction >= 0.75 ? 1 : 0) + 127;
  if (code > 254) return 0xff;
  return static_cast<uint8_t>(std::max(code, 0));
}

double decode_scale(uint8_t code) {
  return code == 0xff ? std::nan("") : std::ldexp(1.0, code - 127);
}

void store_float(double value, const Dtype& dtype, void* out_bytes) {
  switch (dtype.code) {
    case BP_DTYPE_F64:
      std::memcpy(out_bytes, &value, sizeof(value));
      return;
    case BP_DTYPE_F32: {
      const auto narrow = static_cast<float>(value);
      std::memcpy(out_bytes, &narrow, sizeof(narrow));
      return;
    }
    case BP_DTYPE_F8E8M0:
      *static_cast<uint8_t*>(out_bytes) = encode_scale(value);
      return;
    default: {
      const uint32_t bits = encode_small(value, small_float(dtype.code));
      std::memcpy(out_bytes, &bits, dtype.item_bytes);  // little-endian, as all that we build for
    }
  }
}

double load_float(const Dtype& dtype, const void* bytes) {
  if (dtype.code == BP_DTYPE_F64) {
    double value = 0;
    std::memcpy(&value, bytes, sizeof(value));
    return value;
  }
  if (dtype.code == BP_DTYPE_F32) {
    float value = 0;
    std::memcpy(&value, bytes, sizeof(value));
    return value;
  }
  if (dtype.code == BP_DTYPE_F8E8M0) return decode_scale(*static_cast<const uint8_t*>(bytes));
  uint32_t bits = 0;
  std::memcpy(&bits, bytes, dtype.item_bytes);
  return decode_small(bits, small_float(dtype.code));
}

int64_t lowest(const Dtype& dtype) {
  if (dtype.kind == Kind::kUint) return 0;
  return std::numeric_limits<int64_t>::min() >> (64 - dtype.item_bytes * 8);
}

uint64_t highest(const Dtype& dtype) {
  const uint32_t bits = dtype.item_bytes * 8 - (dtype.kind == Kind::kInt ? 1 : 0);
  return std::numeric_limits<uint64_t>::max() >> (64 - bits);
}

[[noreturn]] void fail_range(nb::handle number, const Dtype& dtype, const char* place) {
  const char* type = PyFloat_Check(number.ptr()) ? "float" : "int";
  const nb::object digits = nb::steal(PyObject_Repr(number.ptr()));
  PyErr_Clear();  // Python refuses to print thousands of digits
  const std::string found = digits.is_valid()
                                ? std::string("the ") + type + " " + nb::cast<std::string>(digits)
                                : std::string("such a long int");
  fail(PyExc_OverflowError, place + found + " is out of the range of " + dtype.name);
}

void store_int(nb::handle number, const Dtype& dtype, void* out_bytes, const char* place) {
  if (side_of(number, dtype) != 0) fail_range(number, dtype, place);
  const uint64_t bits = PyLong_AsUnsignedLongLongMask(number.ptr());
  std::memcpy(out_bytes, &bits, dtype.item_bytes);
}

double real_value(nb::handle number, const Dtype& dtype, const char* place) {
  const double value = PyFloat_AsDouble(number.ptr());
  if (value == -1 && PyErr_Occurred() != nullptr) {
    if (PyErr_ExceptionMatches(PyExc_OverflowError) == 0) throw nb::python_error();
    PyErr_Clear();
    fail_range(number, dtype, place);  // an int beyond every float
  }
  return value;
}

void store_cut(nb::handle number, const Dtype& dtype, void* out_bytes, const char* place) {
  const double value = std::trunc(real_value(number, dtype, place));
  if (std::isnan(value)) fail_invalid(std::string(place) + "NaN has no value of " + dtype.name);
  const double end = std::ldexp(static_cast<double>(highest(dtype) / 2 + 1), 1);  // highest + 1
  if (value < static_cast<double>(lowest(dtype)) || value >= end) {
    fail_range(number, dtype, place);
  }
  const uint64_t bits =
      value < 0 ? static_cast<uint64_t>(static_cast<int64_t>(value)) : static_cast<uint64_t>(value);
  std::memcpy(out_bytes, &bits, dtype.item_bytes);
}

void store_complex(nb::handle number, const Dtype& dtype, void* out_bytes, const char* place) {
  const bool is_complex = PyComplex_Check(number.ptr()) != 0;
  const double real =
      is_complex ? PyComplex_RealAsDouble(number.ptr()) : real_value(number, dtype, place);
  const double imag = is_complex ? PyComplex_ImagAsDouble(number.ptr()) : 0;
  const Dtype& part = *find_dtype(dtype.code == BP_DTYPE_C64 ? BP_DTYPE_F32 : BP_DTYPE_F64);
  store_float(real, part, out_bytes);
  store_float(imag, part, static_cast<char*>(out_bytes) + part.item_bytes);
}

}  // namespace

int side_of(nb::handle number, const Dtype& dtype) {
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  if (overflow < 0 || (overflow == 0 && value < lowest(dtype))) return -1;
  if (overflow == 0) return value > 0 && static_cast<uint64_t>(value) > highest(dtype) ? 1 : 0;
  if (dtype.code != BP_DTYPE_U64) return 1;
  static_cast<void>(PyLong_AsUnsignedLongLong(number.ptr()));
  const bool fits = PyErr_Occurred() == nullptr;
  PyErr_Clear();
  return fits ? 0 : 1;
}

bool number_kind(nb::handle object, Kind& out_kind) {
  PyObject* number = object.ptr();
  if (PyBool_Check(number)) {
    out_kind = Kind::kBool;
  } else if (PyLong_Check(number)) {
    out_kind = Kind::kInt;
  } else if (PyFloat_Check(number)) {
    out_kind = Kind::kFloat;
  } else if (PyComplex_Check(number)) {
    out_kind = Kind::kComplex;
  } else {
    return false;
  }
  return true;
}

const Dtype& default_dtype(Kind kind) {
  switch (kind) {
    case Kind::kBool:
      return dtype_row(BP_DTYPE_BOOL);
    case Kind::kFloat:
      return dtype_row(BP_DTYPE_F32);
    case Kind::kComplex:
      return dtype_row(BP_DTYPE_C64);
    default:
      return dtype_row(BP_DTYPE_I64);
  }
}

void encode_number(nb::handle number, const Dtype& dtype, void* out_bytes, const char* place) {
  const bool is_complex = PyComplex_Check(number.ptr()) != 0;
  if (is_complex && dtype.kind != Kind::kComplex && dtype.kind != Kind::kBool) {
    fail(PyExc_TypeError, std::string(place) + "the complex number " +
                              nb::cast<std::string>(nb::repr(number)) + " has no value of " +
                              dtype.name);
  }
  switch (dtype.kind) {
    case Kind::kBool: {
      const int truth = PyObject_IsTrue(number.ptr());
      if (truth < 0) throw nb::python_error();
      *static_cast<uint8_t*>(out_bytes) = truth != 0;
      return;
    }
    case Kind::kInt:
    case Kind::kUint:
      if (PyFloat_Check(number.ptr())) return store_cut(number, dtype, out_bytes, place);
      return store_int(number, dtype, out_bytes, place);
    case Kind::kFloat:
      return store_float(real_value(number, dtype, place), dtype, out_bytes);
    case Kind::kComplex:
      return store_complex(number, dtype, out_bytes, place);
  }
}

nb::object decode_number(const Dtype& dtype, const void* bytes) {
  switch (dtype.kind) {
    case Kind::kBool:
      return nb::bool_(*static_cast<const uint8_t*>(bytes) != 0);
    case Kind::kUint: {
      uint64_t value = 0;
      std::memcpy(&value, bytes, dtype.item_bytes);
      return nb::steal(PyLong_FromUnsignedLongLong(value));
    }
    case Kind::kInt: {
      uint64_t bits = 0;
      std::memcpy(&bits, bytes, dtype.item_bytes);
      const uint32_t unused = 64 - dtype.item_bytes * 8;
      return nb::steal(PyLong_FromLongLong(static_cast<int64_t>(bits << unused) >> unused));
    }
    case Kind::kComplex: {
      const Dtype& part = *find_dtype(dtype.code == BP_DTYPE_C64 ? BP_DTYPE_F32 : BP_DTYPE_F64);
      const double real = load_float(part, bytes);
      const double imag = load_float(part, static_cast<const char*>(bytes) + part.item_bytes);
      return nb::steal(PyComplex_FromDoubles(real, imag));
    }
    default:
      return nb::float_(load_float(dtype, bytes));
  }
}

}  // namespace bp::python
