// SPDX-License-Identifier: Apache-2.0
//
// What the oracle says, and how far from it a result may lie. Bounds hold element by element: a
// norm would hide a lower precision, or hundreds of elements that were never written.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/base/dtype.hpp"
#include "ops/infer/epilogue.hpp"
#include "sdk/conform/checks.hpp"
#include "sdk/conform/kernels/call.hpp"

namespace bp::conform {
namespace {

constexpr double kSumFactor = 4;
constexpr double kMixtureFactor = 32;
constexpr double kSoftmaxFactor = 8;

bool is_half(uint32_t dtype) { return dtype == BP_DTYPE_F16 || dtype == BP_DTYPE_BF16; }

/// Half a unit in the last place of 1. What sums of half types are kept in is f32.
double rounding(uint32_t dtype) { return std::ldexp(1.0, -float_digits(dtype)); }
double sum_rounding(uint32_t dtype) {
  return dtype == BP_DTYPE_F64 ? rounding(dtype) : rounding(BP_DTYPE_F32);
}

/// The distance of neighbours round `value`, not below that of the smallest normal numbers.
double unit(uint32_t dtype, double value) {
  const double size = std::max(std::abs(value), float_min_normal(dtype));
  return std::ldexp(1.0, std::ilogb(size) + 1 - float_digits(dtype));
}

std::vector<OracleTensor> widened(const Call& call, bool absolute) {
  std::vector<OracleTensor> inputs = call.inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    OracleTensor& input = inputs[i];
    const bool on_host =
        call.schema->input(i).host != HostNeed::kNone;  // no values to compute with
    if (on_host || !is_float_dtype(input.dtype)) continue;
    std::vector<double> values = input.to_f64();
    const bool negative = call.recipe->subtracted == i;
    for (double& value : values) {
      if (absolute) value = negative ? -std::abs(value) : std::abs(value);
    }
    input = OracleTensor::from_f64(BP_DTYPE_F64, input.sizes, values);
  }
  return inputs;
}

/// The call's attributes with no activation: what a rounding in a sum becomes there is hardly more.
Attributes sum_attributes(const Call& call) {
  const auto has_name = [](const AttrField& field) { return field.name == "activation"; };
  if (std::ranges::none_of(call.schema->attrs, has_name)) return call.attributes;
  Attributes attributes = *Attributes::copy_from(*call.schema, call.attributes.data());
  return ops::set_activation({}, &attributes).ok() ? attributes : call.attributes;
}

/// Bytes of one element.
std::string element_bytes(const OracleTensor& tensor, size_t place) {
  const uint64_t bytes = dtype_storage_bytes(tensor.dtype, 1);
  return {reinterpret_cast<const char*>(tensor.bytes.data()) + place * bytes, bytes};
}

std::string position(const Dims& sizes, size_t place) {
  Dims at = sizes;
  for (size_t i = sizes.size(); i-- > 0;) {
    at[i] = static_cast<int64_t>(place) % sizes[i];
    place /= static_cast<size_t>(sizes[i]);
  }
  return to_string(at);
}

}  // namespace

Result<Expectation> Expectation::of(const Call& call) {
  Expectation expectation(call);
  BP_TRY(evaluate(*call.schema, call.inputs, call.attributes.data(), &expectation.rounded_));
  BP_TRY(expectation.measure());
  return expectation;
}

Result<Expectation> Expectation::golden(const Call& call, OracleTensor output) {
  Expectation expectation(call);
  BP_TRY(expectation.measure());
  if (!expectation.exact_.empty()) expectation.exact_.front() = output.to_f64();
  expectation.roundings_ = 0.5;
  expectation.rounded_.push_back(std::move(output));
  return expectation;
}

/// The exact result, where results are compared with that.
Status Expectation::measure() {
  const Recipe& recipe = *call_->recipe;
  const bool bitwise = recipe.nearness == Nearness::kBitwise ||
                       (call_->pass == Pass::kExact && !recipe.exact.empty());
  if (bitwise || !call_->dtypes.has_float()) return {};
  std::vector<OracleTensor> outputs;
  BP_TRY(evaluate(*call_->schema, widened(*call_, false), call_->attributes.data(), &outputs));
  for (const OracleTensor& output : outputs) exact_.push_back(output.to_f64());
  if (recipe.terms != nullptr) terms_ = recipe.terms(call_->inputs, outputs.front().count());
  for (const double value : call_->inputs[0].to_f64()) {
    if (std::isfinite(value)) largest_ = std::max(largest_, std::abs(value));
  }
  if (recipe.nearness != Nearness::kSums) return {};
  BP_TRY(evaluate(*call_->schema, widened(*call_, true), sum_attributes(*call_).data(), &outputs));
  for (const OracleTensor& output : outputs) magnitude_.push_back(output.to_f64());
  return {};
}

/// Of the input nearest to 0 there; inputs are broadcast.
double Expectation::input_size(size_t place) const {
  const Dims& sizes = rounded_.front().sizes;
  double smallest = std::numeric_limits<double>::infinity();
  for (const OracleTensor& input : call_->inputs) {
    const size_t skipped = sizes.size() - input.sizes.size();
    auto rest = static_cast<int64_t>(place);
    int64_t index = 0;
    int64_t step = 1;
    for (size_t i = sizes.size(); i-- > skipped;) {
      if (input.sizes[i - skipped] != 1) index += rest % sizes[i] * step;
      step *= input.sizes[i - skipped];
      rest /= sizes[i];
    }
    smallest =
        std::min(smallest, std::abs(ops::load_float(input.dtype, input.bytes.data(), index)));
  }
  return smallest;
}

/// Finite numbers only.
bool Expectation::near(uint32_t dtype, size_t output, size_t place, double found) const {
  const Recipe& recipe = *call_->recipe;
  const double exact = exact_[output][place];
  const double distance = std::abs(found - exact) - roundings_ * unit(dtype, exact);
  switch (recipe.nearness) {
    case Nearness::kUlps: {
      const double size =
          recipe.near_input ? std::max(std::abs(exact), input_size(place)) : std::abs(exact);
      return distance <= (is_half(dtype) ? recipe.half_ulps : recipe.ulps) * unit(dtype, size);
    }
    case Nearness::kSums:
      return distance <= rounding(dtype) * std::abs(exact) + kSumFactor * std::sqrt(terms_) *
                                                                 sum_rounding(dtype) *
                                                                 magnitude_[output][place];
    case Nearness::kMixtures:
      return distance <=
             rounding(dtype) * std::abs(exact) + kMixtureFactor * sum_rounding(dtype) * largest_;
    case Nearness::kSoftmax: {
      const double u = sum_rounding(dtype);
      const double relative = kSoftmaxFactor * u * (1 + std::log2(std::max(terms_, 1.0)));
      return distance <= relative * std::abs(exact) + recipe.absolute * u +
                             (is_half(dtype) ? unit(dtype, exact) : 0);
    }
    default:
      return false;
  }
}

std::string Expectation::judge(size_t index, const OracleTensor& found, std::byte unwritten) const {
  const OracleTensor& expected = rounded_[index];
  if (!(found.sizes == expected.sizes)) {
    return words("sizes ", to_string(found.sizes), ", expected ", to_string(expected.sizes));
  }
  const bool is_float = is_float_dtype(found.dtype);
  const std::vector<double> values = found.to_f64();
  const std::vector<double> wanted = expected.to_f64();
  size_t wrong = 0;
  size_t untouched = 0;
  std::string first;
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string bytes = element_bytes(found, i);
    bool good = bytes == element_bytes(expected, i);
    if (is_float && !good) {
      good = std::isnan(values[i]) && std::isnan(wanted[i]);
      if (values[i] == 0 && wanted[i] == 0) good = !call_->recipe->zero_sign;
      if (std::isfinite(values[i]) && std::isfinite(wanted[i]) && !exact_.empty()) {
        good = good || near(found.dtype, index, i, values[i]);
      }
    }
    if (good) continue;
    const std::string left(bytes.size(), static_cast<char>(unwritten));
    untouched += bytes == left ? 1 : 0;
    if (wrong++ == 0) {
      std::ostringstream text;
      text.precision(17);
      text << "element " << position(found.sizes, i) << " is " << values[i] << ", expected "
           << wanted[i];
      first = text.str();
    }
  }
  if (wrong == 0) return {};
  return words(first, "; ", wrong, " of ", values.size(), " are wrong",
               untouched == 0 ? std::string() : words(", ", untouched, " were never written"));
}

}  // namespace bp::conform
