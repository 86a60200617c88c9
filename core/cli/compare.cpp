// SPDX-License-Identifier: Apache-2.0
//
// Values pass through double, which holds every dtype up to f64 exactly but 64-bit integers; those
// are compared as integers.
#include "core/cli/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <type_traits>

#include "core/base/dtype.hpp"
#include "core/cli/text.hpp"
#include "ops/oracle/oracle.hpp"

namespace bp::cli {
namespace {

constexpr size_t kShownValues = 6;

bool has_plain_values(uint32_t dtype) { return dtype >= BP_DTYPE_BOOL && dtype <= BP_DTYPE_F64; }

bool is_close(double found, double expected, const Tolerance& tolerance) {
  if (found == expected) return true;  // infinities too, whose difference is NaN
  if (std::isnan(found) && std::isnan(expected)) return true;
  // An infinite bound would let everything pass.
  if (std::isinf(found) || std::isinf(expected)) return false;
  return std::abs(found - expected) <= tolerance.atol + tolerance.rtol * std::abs(expected);
}

/// int64_t or uint64_t.
template <class Integer>
bool is_close_integer(Integer found, Integer expected, const Tolerance& tolerance) {
  if (found == expected) return true;
  // Unsigned: the difference of two int64 needs 64 bits without a sign.
  const uint64_t difference = found > expected
                                  ? static_cast<uint64_t>(found) - static_cast<uint64_t>(expected)
                                  : static_cast<uint64_t>(expected) - static_cast<uint64_t>(found);
  return static_cast<double>(difference) <=
         tolerance.atol + tolerance.rtol * std::abs(static_cast<double>(expected));
}

std::string type_text(const HostTensor& tensor) {
  return std::string(dtype_name(tensor.dtype)) + " " + shape_text(tensor.sizes);
}

std::string index_text(const Dims& sizes, int64_t position) {
  Dims index = sizes;
  for (size_t d = sizes.size(); d-- > 0;) {
    index[d] = position % sizes[d];
    position /= sizes[d];
  }
  return shape_text(index);
}

template <class T, class Close>
void compare_values(const std::vector<T>& found, const std::vector<T>& expected, const Dims& sizes,
                    Close close, Comparison* out) {
  for (size_t i = 0; i < found.size(); ++i) {
    if (close(found[i], expected[i])) continue;
    if (out->mismatch_count++ > 0) continue;
    out->index = index_text(sizes, static_cast<int64_t>(i));
    out->found = found[i];
    out->expected = expected[i];
    out->words =
        fmt::format("first at {}: found {}, expected {}", out->index, found[i], expected[i]);
  }
}

template <class T>
Summary summary_of(const std::vector<T>& values) {
  constexpr const char* kShort = std::is_integral_v<T> ? "{}" : "{:.4g}";
  Summary summary;
  T min{}, max{};
  double sum = 0;
  for (const T value : values) {
    if (value != value) {
      ++summary.nan_count;
      continue;
    }
    min = summary.has_values ? std::min(min, value) : value;
    max = summary.has_values ? std::max(max, value) : value;
    summary.has_values = true;
    sum += static_cast<double>(value);
  }
  summary.min = min;
  summary.max = max;
  const auto number_count = static_cast<int64_t>(values.size()) - summary.nan_count;
  if (number_count > 0) summary.mean = sum / static_cast<double>(number_count);
  for (size_t i = 0; i < std::min(values.size(), kShownValues); ++i) {
    summary.first += (i == 0 ? "" : " ") + fmt::format(kShort, values[i]);
  }
  if (values.size() > kShownValues) summary.first += " ...";
  return summary;
}

/// The bits of to_i64() are u64's own.
std::vector<uint64_t> unsigned_values(const OracleTensor& tensor) {
  const std::vector<int64_t> values = tensor.to_i64();
  return {values.begin(), values.end()};
}

}  // namespace

Result<Comparison> compare(const HostTensor& found, const HostTensor& expected,
                           const Tolerance& tolerance) {
  for (const uint32_t dtype : {found.dtype, expected.dtype}) {
    if (has_plain_values(dtype)) continue;
    return Status(BP_UNSUPPORTED,
                  "values of dtype " + std::string(dtype_name(dtype)) + " cannot be compared");
  }
  Comparison result;
  result.value_count = element_count(found.sizes);
  if (found.dtype != expected.dtype || !(found.sizes == expected.sizes)) {
    result.words = "found " + type_text(found) + ", expected " + type_text(expected);
    return result;
  }
  const OracleTensor a = oracle_tensor(found);
  const OracleTensor b = oracle_tensor(expected);
  if (a.dtype == BP_DTYPE_U64) {
    compare_values(
        unsigned_values(a), unsigned_values(b), found.sizes,
        [&](uint64_t x, uint64_t y) { return is_close_integer(x, y, tolerance); }, &result);
  } else if (!is_float_dtype(a.dtype) && !is_float_dtype(b.dtype)) {
    compare_values(
        a.to_i64(), b.to_i64(), found.sizes,
        [&](int64_t x, int64_t y) { return is_close_integer(x, y, tolerance); }, &result);
  } else {
    compare_values(
        a.to_f64(), b.to_f64(), found.sizes,
        [&](double x, double y) { return is_close(x, y, tolerance); }, &result);
  }
  result.passed = result.mismatch_count == 0;
  const std::string bound = fmt::format("{} + {} * |expected|", tolerance.atol, tolerance.rtol);
  result.words =
      result.passed
          ? fmt::format("{} within {}",
                        count_text(static_cast<uint64_t>(result.value_count), "value"), bound)
          : fmt::format("{} of {} not within {}, {}", result.mismatch_count,
                        count_text(static_cast<uint64_t>(result.value_count), "value"), bound,
                        result.words);
  return result;
}

Summary summarise(const HostTensor& tensor) {
  if (!has_plain_values(tensor.dtype)) return {};
  const OracleTensor values = oracle_tensor(tensor);
  if (tensor.dtype == BP_DTYPE_U64) return summary_of(unsigned_values(values));
  if (!is_float_dtype(tensor.dtype)) return summary_of(values.to_i64());
  return summary_of(values.to_f64());
}

}  // namespace bp::cli
