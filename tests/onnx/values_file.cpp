// SPDX-License-Identifier: Apache-2.0
#include "tests/onnx/values_file.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <stdexcept>

#include "backplane/types.h"

namespace bp::tests {
namespace {

uint32_t bits_of(uint32_t dtype) {
  switch (dtype) {
    case BP_DTYPE_I64:
    case BP_DTYPE_U64:
    case BP_DTYPE_F64:
    case BP_DTYPE_C64:
      return 64;
    case BP_DTYPE_C128:
      return 128;
    case BP_DTYPE_I32:
    case BP_DTYPE_U32:
    case BP_DTYPE_F32:
      return 32;
    case BP_DTYPE_I16:
    case BP_DTYPE_U16:
    case BP_DTYPE_F16:
    case BP_DTYPE_BF16:
      return 16;
    case BP_DTYPE_I4:
    case BP_DTYPE_U4:
    case BP_DTYPE_F4E2M1:
      return 4;
    case BP_DTYPE_I2:
    case BP_DTYPE_U2:
      return 2;
    default:
      return 8;
  }
}

CaseTensor read_tensor(std::istringstream* line, std::istream* file) {
  CaseTensor tensor;
  size_t rank = 0;
  *line >> tensor.dtype >> rank;
  tensor.sizes.resize(rank);
  for (int64_t& size : tensor.sizes) *line >> size;
  line->get();  // the space before the name, which may have spaces itself
  std::getline(*line, tensor.name);
  tensor.bytes.resize(bytes_of(tensor.dtype, tensor.sizes));
  file->read(reinterpret_cast<char*>(tensor.bytes.data()),
             static_cast<std::streamsize>(tensor.bytes.size()));
  return tensor;
}

float f16_to_float(uint16_t half) {
  const int exponent = half >> 10 & 0x1F;
  const int fraction = half & 0x3FF;
  const float sign = (half & 0x8000) != 0 ? -1.0F : 1.0F;
  if (exponent == 0x1F) {
    return fraction != 0 ? std::numeric_limits<float>::quiet_NaN()
                         : sign * std::numeric_limits<float>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(fraction + 0x400), exponent - 25);
}

template <class T, class Convert>
std::vector<double> convert(const CaseTensor& tensor, Convert to_double) {
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  std::vector<double> result;
  result.reserve(values.size());
  for (const T value : values) result.push_back(to_double(value));
  return result;
}

template <class T>
std::vector<double> convert(const CaseTensor& tensor) {
  return convert<T>(tensor, [](T value) { return static_cast<double>(value); });
}

bool is_float(uint32_t dtype) {
  return dtype == BP_DTYPE_F16 || dtype == BP_DTYPE_BF16 || dtype == BP_DTYPE_F32 ||
         dtype == BP_DTYPE_F64;
}

std::string describe(const CaseTensor& tensor) {
  std::string text = "dtype code " + std::to_string(tensor.dtype) + " [";
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(tensor.sizes[i]);
  }
  return text + "]";
}

/// Of those that are finite.
double root_mean_square(const std::vector<double>& values) {
  double sum = 0;
  size_t count = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    sum += value * value;
    ++count;
  }
  return count == 0 ? 0 : std::sqrt(sum / static_cast<double>(count));
}

constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// In units of what is allowed; beyond 1 it is too wide.
double error_of(double expected, double found, double relative, double absolute) {
  const bool are_nan = std::isnan(expected) && std::isnan(found);
  if (expected == found || are_nan) return 0;
  if (!std::isfinite(expected) || !std::isfinite(found)) return kInfinite;
  const double allowed = absolute + relative * std::fabs(expected);
  return allowed > 0 ? std::fabs(expected - found) / allowed : kInfinite;
}

std::string element_text(const std::vector<double>& expected, const std::vector<double>& found,
                         size_t first, size_t count) {
  std::ostringstream text;
  text.precision(9);
  text << count << " of " << expected.size() << " elements differ, the first at " << first
       << ": expected " << expected[first] << ", found " << found[first];
  return text.str();
}

}  // namespace

uint64_t bytes_of(uint32_t dtype, const std::vector<int64_t>& sizes) {
  uint64_t count = 1;
  for (const int64_t size : sizes) count *= static_cast<uint64_t>(size);
  return (count * bits_of(dtype) + 7) / 8;
}

CaseValues read_values(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + " cannot be opened");
  CaseValues values;
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    std::string word;
    line >> word;
    if (word == "tolerance") {
      line >> values.tolerance.relative >> values.tolerance.absolute >> values.tolerance.rms;
    } else if (word == "option") {
      std::string name;
      line >> name >> values.dims[name];
    } else if (word == "set") {
      values.sets.emplace_back();
    } else if ((word == "input" || word == "output") && !values.sets.empty()) {
      CaseSet& set = values.sets.back();
      (word == "input" ? set.inputs : set.outputs).push_back(read_tensor(&line, &file));
    } else {
      throw std::runtime_error(path + ": unknown line '" + text.substr(0, 40) + "'");
    }
    if (!file || line.bad()) throw std::runtime_error(path + " ends early");
  }
  return values;
}

std::vector<double> to_doubles(const CaseTensor& tensor) {
  switch (tensor.dtype) {
    case BP_DTYPE_F64:
      return convert<double>(tensor);
    case BP_DTYPE_F32:
      return convert<float>(tensor);
    case BP_DTYPE_F16:
      return convert<uint16_t>(tensor, [](uint16_t half) { return double{f16_to_float(half)}; });
    case BP_DTYPE_BF16:
      return convert<uint16_t>(tensor, [](uint16_t half) {
        return double{std::bit_cast<float>(static_cast<uint32_t>(half) << 16)};
      });
    case BP_DTYPE_I64:
      return convert<int64_t>(tensor);
    case BP_DTYPE_U64:
      return convert<uint64_t>(tensor);
    case BP_DTYPE_I32:
      return convert<int32_t>(tensor);
    case BP_DTYPE_U32:
      return convert<uint32_t>(tensor);
    case BP_DTYPE_I16:
      return convert<int16_t>(tensor);
    case BP_DTYPE_U16:
      return convert<uint16_t>(tensor);
    case BP_DTYPE_I8:
      return convert<int8_t>(tensor);
    default:
      return convert<uint8_t>(tensor);
  }
}

Difference difference(const CaseTensor& expected, const CaseTensor& found,
                      const Tolerance& tolerance) {
  if (expected.dtype != found.dtype || expected.sizes != found.sizes) {
    return {"expected " + describe(expected) + ", found " + describe(found), kInfinite};
  }
  if (expected.bytes == found.bytes) return {};
  const std::vector<double> want = to_doubles(expected);
  const std::vector<double> have = to_doubles(found);
  const bool exact = !is_float(expected.dtype);
  const double absolute = tolerance.absolute + tolerance.rms * root_mean_square(want);
  size_t first = 0;
  size_t count = 0;
  double widest = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double error = exact ? (want[i] == have[i] ? 0 : kInfinite)
                               : error_of(want[i], have[i], tolerance.relative, absolute);
    widest = std::max(widest, error);
    if (error > 1 && count++ == 0) first = i;
  }
  if (count > 0) return {element_text(want, have, first, count), widest};
  if (exact) return {"bytes differ", kInfinite};  // large integers, or packed ones
  return {"", widest};
}

}  // namespace bp::tests
