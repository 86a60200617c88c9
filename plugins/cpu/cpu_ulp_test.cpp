// SPDX-License-Identifier: Apache-2.0
//
// How far the vector functions are from the mathematics, in units of the last place, on every
// instruction set of this processor, and the operators' kernels, as a user calls them: f32 through
// its bit space in steps (BP_ULP_STEP, 1 is all of it), f16 and bf16 exhaustively, f64 at random
// bits. The references are the C library's functions in a longer format: f64 for f32, extended for
// f64. Writes reports/ulp.{md,json}.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "backplane/ops.hpp"
#include "plugins/cpu/math/ulp_rows.hpp"
#include "tests/environment.hpp"

namespace bp::cpu {
namespace {

using Real = long double;

// What a function is measured against, and the most units that it may be off. Limits of f32 are
// those of OpenCL's table, and 2 where models depend on it most; of f64 twice the library's word.
struct Reference {
  double (*of_f64)(double);
  Real (*of_extended)(Real);
  double limit;
};

template <class T>
T rsqrt(T x) {
  return 1 / std::sqrt(x);
}
template <class T>
T sigmoid(T x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}
template <class T>
T softplus(T x) {
  return std::fmax(x, 0) + (std::isnan(x) ? x : std::log1p(std::exp(-std::fabs(x))));
}
template <class T>
T softsign(T x) {
  return x / (1 + std::fabs(x));
}
template <class T>
T elu(T x) {
  return x > 0 ? x : std::expm1(x);
}

#define BP_STD(name) [](double x) { return std::name(x); }, [](Real x) { return std::name(x); }
const Reference kReferences[] = {
    {BP_STD(exp), 2},   {BP_STD(expm1), 3},     {BP_STD(log), 2},
    {BP_STD(log1p), 2}, {BP_STD(sqrt), 0.5},    {rsqrt<double>, rsqrt<Real>, 2},
    {BP_STD(sin), 2},   {BP_STD(cos), 2},       {BP_STD(tan), 5},
    {BP_STD(asin), 4},  {BP_STD(acos), 4},      {BP_STD(atan), 5},
    {BP_STD(sinh), 4},  {BP_STD(cosh), 4},      {BP_STD(tanh), 2},
    {BP_STD(asinh), 4}, {BP_STD(acosh), 4},     {BP_STD(atanh), 5},
    {BP_STD(erf), 2},   {BP_STD(floor), 0},     {BP_STD(ceil), 0},
    {BP_STD(trunc), 0}, {BP_STD(nearbyint), 0}, {BP_STD(log2), 2},
    {BP_STD(log10), 2},
};
static_assert(std::size(kReferences) == kUnaryCount);

/// An operator with default attributes; its kernels are emitted from its row of ops/defs. Gelu,
/// mish and swish are not here: near their zeros they are as exact as their input's place.
struct Operator {
  const char* name;
  Tensor (*call)(const Tensor&);
  Reference reference;
};
#define BP_CALL(name) "operator " #name, [](const Tensor& x) { return bp::name(x); }
const Operator kOperators[] = {
    {BP_CALL(exp), {BP_STD(exp), 2}},
    {BP_CALL(log), {BP_STD(log), 2}},
    {BP_CALL(log2), {BP_STD(log2), 2}},
    {BP_CALL(log10), {BP_STD(log10), 2}},
    {BP_CALL(tanh), {BP_STD(tanh), 2}},
    {BP_CALL(erf), {BP_STD(erf), 2}},
    {BP_CALL(sqrt), {BP_STD(sqrt), 0.5}},
    {BP_CALL(rsqrt), {rsqrt<double>, rsqrt<Real>, 2}},
    {BP_CALL(sin), {BP_STD(sin), 2}},
    {BP_CALL(cos), {BP_STD(cos), 2}},
    {BP_CALL(sigmoid), {sigmoid<double>, sigmoid<Real>, 2}},
    {BP_CALL(softplus), {softplus<double>, softplus<Real>, 6}},
    {BP_CALL(softsign), {softsign<double>, softsign<Real>, 4}},
    {BP_CALL(elu), {elu<double>, elu<Real>, 4}},
};
#undef BP_CALL
#undef BP_STD

// Functions by number: the vector functions, then the operators.
constexpr size_t kFunctionCount = kUnaryCount + std::size(kOperators);

const char* name_of(size_t function) {
  return function < kUnaryCount ? kUnaryNames[function] : kOperators[function - kUnaryCount].name;
}
const Reference& reference_of(size_t function) {
  return function < kUnaryCount ? kReferences[function]
                                : kOperators[function - kUnaryCount].reference;
}

// Digits of the fraction, the smallest normal exponent and the first power of two too large.
template <class T>
struct Format;
template <>
struct Format<float> {
  static constexpr const char* kName = "f32";
  static constexpr uint32_t kDtype = BP_DTYPE_F32;
  static constexpr int kDigits = 24, kLowest = -126, kAbove = 128;
};
template <>
struct Format<double> {
  static constexpr const char* kName = "f64";
  static constexpr uint32_t kDtype = BP_DTYPE_F64;
  static constexpr int kDigits = 53, kLowest = -1022, kAbove = 1024;
};
template <>
struct Format<F16> {
  static constexpr const char* kName = "f16";
  static constexpr uint32_t kDtype = BP_DTYPE_F16;
  static constexpr int kDigits = 11, kLowest = -14, kAbove = 16;
};
template <>
struct Format<Bf16> {
  static constexpr const char* kName = "bf16";
  static constexpr uint32_t kDtype = BP_DTYPE_BF16;
  static constexpr int kDigits = 8, kLowest = -126, kAbove = 128;
};

template <class T>
auto value_of(T element) {
  if constexpr (std::is_floating_point_v<T>) {
    return element;
  } else {
    return widen(element);
  }
}

// The distance in units of the reference's last place. Infinity counts as the value after the
// largest one; NaN for NaN, and a zero of the right sign for a zero, are exact.
template <class T, class R>
double distance(T found, R reference) {
  constexpr double kWrong = std::numeric_limits<double>::infinity();
  if (std::isnan(reference) || std::isnan(found)) {
    return std::isnan(reference) == std::isnan(found) ? 0 : kWrong;
  }
  return std::isinf(reference) && reference == R{found} ? 0 : kWrong;
}

template <class Format, class T, class R>
double ulp_error(T found, R reference) {
  if (std::isnan(reference) || std::isnan(found) || std::isinf(reference)) {
    return distance(found, reference);
  }
  if (reference == 0) {
    constexpr double kWrong = std::numeric_limits<double>::infinity();
    return found == 0 && std::signbit(found) == std::signbit(reference) ? 0 : kWrong;
  }
  const R top = std::ldexp(R{1}, Format::kAbove);
  const R value = std::isinf(found) ? std::copysign(top, R{found}) : R{found};
  // Values that round to infinity are as far as their rounding is.
  if (std::fabs(reference) > top) reference = std::copysign(top, reference);
  const int exponent = std::max(std::ilogb(reference), Format::kLowest);
  return static_cast<double>(
      std::fabs(std::ldexp(value - reference, Format::kDigits - 1 - exponent)));
}

struct Worst {
  double ulp = -1;
  double input = 0;
  double second = 0;
  double limit = 0;

  void keep(const Worst& other) {
    if (other.ulp > ulp) *this = other;
  }
};

struct Key {
  std::string function;
  std::string dtype;
  std::string target;
  auto operator<=>(const Key&) const = default;
};
std::map<Key, Worst>& results() {
  static std::map<Key, Worst> all;
  return all;
}

std::vector<int64_t> bits_of(int64_t bits) {
  std::vector<int64_t> found;
  for (; bits != 0; bits &= bits - 1) found.push_back(bits & -bits);
  return found;
}
std::vector<int64_t> targets() { return bits_of(supported_targets()); }

std::string names_of(const std::vector<int64_t>& targets) {
  std::string names;
  for (const int64_t target : targets) {
    names += (names.empty() ? "" : ", ") + std::string(name_of_target(target));
  }
  return names.empty() ? "none" : names;
}

std::string target_name(int64_t target) {
  return target == 0 ? "the kernel's" : name_of_target(target);
}

void note(const std::string& function, const char* dtype, int64_t target, const Worst& worst) {
  results()[{function, dtype, target_name(target)}].keep(worst);
  EXPECT_LE(worst.ulp, worst.limit)
      << function << " of " << dtype << " on " << target_name(target) << " at " << std::hexfloat
      << worst.input << ' ' << worst.second;
}

// A half is computed in f32 and rounded once: its own rounding, and what the f32 is off.
template <class T>
double limit_of(const Reference& reference) {
  if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, Bf16>) {
    return reference.limit == 0 ? 0 : 0.51;
  } else {
    return std::is_same_v<T, double> && reference.limit > 0.5 ? 2.5 : reference.limit;
  }
}

template <class T>
auto expected_of(const Reference& reference, T input) {
  if constexpr (std::is_same_v<T, double>) {
    return reference.of_extended(input);
  } else {
    return reference.of_f64(static_cast<double>(value_of(input)));
  }
}

// The worst of a part of the inputs. What equals the rounded reference is half a unit off at most,
// and is not looked at closer.
template <class T, class R>
Worst worst_of(std::span<const T> inputs, std::span<const T> found, std::span<const R> expected) {
  using Element = decltype(value_of(T{}));
  Worst worst{.ulp = 0};
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Element value = value_of(found[i]);
    const Element rounded = static_cast<Element>(expected[i]);
    if (value == rounded && value != 0 && std::is_floating_point_v<T>) {
      if (worst.ulp < 0.5 && R{value} != expected[i]) {
        worst.ulp = 0.5;
        worst.input = static_cast<double>(value_of(inputs[i]));
      }
      continue;
    }
    const double ulp = ulp_error<Format<T>>(value, expected[i]);
    if (ulp > worst.ulp) {
      worst.ulp = ulp;
      worst.input = static_cast<double>(value_of(inputs[i]));
    }
  }
  return worst;
}

// Calls body(begin, end) for two halves of [0, count), on two threads.
template <class Body>
void in_halves(size_t count, const Body& body) {
  std::thread other([&] { body(size_t{0}, count / 2); });
  body(count / 2, count);
  other.join();
}

Device cpu_device() {
  static const Runtime runtime = [] {
    RuntimeOptions options;
    options.plugin_path = BP_PLUGIN_DIR;
    options.install_dir = "";
    options.options["BACKPLANE_PLUGINS"] = "cpu";
    options.options["BACKPLANE_FALLBACK"] = "deny";
    return Runtime::create(options);
  }();
  return runtime.device("cpu:0");
}

template <class T>
void apply_operator(const Operator& op, const T* x, T* y, size_t count) {
  const auto size = static_cast<int64_t>(count);
  bpa_tensor* made = nullptr;
  detail::check(bpa_tensor_from_host(cpu_device().handle(), Format<T>::kDtype, &size, 1, x,
                                     count * sizeof(T), &made));
  const Tensor input = Tensor::adopt(made);
  const Tensor output = op.call(input);
  detail::check(bpa_tensor_to_host(output.handle(), y, count * sizeof(T)));
}

uint64_t step_of_f32() { return tests::number_from_environment("BP_ULP_STEP", 4093); }

// Where a function is tried: on every instruction set; an operator on the one that it chooses.
std::vector<int64_t> targets_of(size_t function) {
  return function < kUnaryCount ? targets() : std::vector<int64_t>{0};
}

template <class T>
void apply(size_t function, const T* x, T* y, size_t count) {
  if (function < kUnaryCount) return apply_unary(function, x, y, count);
  apply_operator(kOperators[function - kUnaryCount], x, y, count);
}

// Tries `inputs` on each of targets_of() against references that are worked out once.
template <class T>
std::vector<Worst> try_inputs(size_t function, const std::vector<T>& inputs) {
  const Reference& reference = reference_of(function);
  using R = decltype(expected_of(reference, T{}));
  std::vector<R> expected(inputs.size());
  in_halves(inputs.size(), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) expected[i] = expected_of(reference, inputs[i]);
  });
  std::vector<Worst> worst;
  std::vector<T> found(inputs.size());
  for (const int64_t target : targets_of(function)) {
    use_target(target);
    Worst parts[2];
    in_halves(inputs.size(), [&](size_t begin, size_t end) {
      const size_t count = end - begin;
      apply(function, inputs.data() + begin, found.data() + begin, count);
      parts[begin == 0 ? 0 : 1] =
          worst_of<T, R>({inputs.data() + begin, count}, {found.data() + begin, count},
                         {expected.data() + begin, count});
    });
    parts[0].keep(parts[1]);
    parts[0].limit = limit_of<T>(reference);
    worst.push_back(parts[0]);
  }
  use_target(0);
  return worst;
}

void note_all(size_t function, const char* dtype, const std::vector<Worst>& worst) {
  const std::vector<int64_t> tried = targets_of(function);
  for (size_t i = 0; i < worst.size(); ++i) note(name_of(function), dtype, tried[i], worst[i]);
}

TEST(MathUlp, F32_ThroughItsBitSpace) {
  const uint64_t step = step_of_f32();
  ASSERT_GT(step, 0U) << "BP_ULP_STEP";
  constexpr size_t kBlock = 1 << 18;
  for (size_t function = 0; function < kFunctionCount; ++function) {
    std::vector<Worst> worst(targets_of(function).size());
    std::vector<float> inputs;
    for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += step) {
      inputs.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
      if (inputs.size() < kBlock && bits + step < uint64_t{1} << 32) continue;
      const std::vector<Worst> here = try_inputs(function, inputs);
      for (size_t i = 0; i < here.size(); ++i) worst[i].keep(here[i]);
      inputs.clear();
    }
    note_all(function, "f32", worst);
  }
}

template <class T>
void expect_all_halves() {
  std::vector<T> inputs;
  for (uint32_t bits = 0; bits < 65536; ++bits) inputs.push_back({static_cast<uint16_t>(bits)});
  for (size_t function = 0; function < kFunctionCount; ++function) {
    note_all(function, Format<T>::kName, try_inputs(function, inputs));
  }
}
TEST(MathUlp, F16_Exhaustively) { expect_all_halves<F16>(); }
TEST(MathUlp, Bf16_Exhaustively) { expect_all_halves<Bf16>(); }

TEST(MathUlp, F64_AtRandomBitsAndNearOne) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> near(-24.0, 24.0);
  std::vector<double> inputs{0.0, -0.0, 1.0, -1.0, HUGE_VAL, -HUGE_VAL, std::nan("")};
  for (int i = 0; i < 20000; ++i) {
    inputs.push_back(std::bit_cast<double>(random()));
    inputs.push_back(near(random));
    inputs.push_back(near(random) / 24);
    inputs.push_back(near(random) * 31);
  }
  for (size_t function = 0; function < kFunctionCount; ++function) {
    note_all(function, "f64", try_inputs(function, inputs));
  }
}

// Corners, and their neighbours on both sides.
template <class T>
std::vector<T> corners() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> found{T{0}, Limits::infinity(), Limits::quiet_NaN()};
  const T whole = std::ldexp(T{1}, Limits::digits - 1);
  for (const T value :
       {Limits::denorm_min(), Limits::min(), T(0.5), T(1), T(1.5), T(2), T(2.5), T(3), T(10),
        T(100.5), whole, 2 * whole, std::ldexp(T{1}, 31), std::ldexp(T{1}, 63), Limits::max()}) {
    found.push_back(value);
    found.push_back(std::nextafter(value, T{0}));
    found.push_back(std::nextafter(value, Limits::infinity()));
  }
  const size_t positive = found.size();
  for (size_t i = 0; i < positive; ++i) found.push_back(-found[i]);
  return found;
}

// glibc's powl takes -2^63 for odd where the base is infinite; its pow does not.
template <class R>
R power(R base, R exponent) {
  if (!std::isinf(base)) return std::pow(base, exponent);
  return R{std::pow(static_cast<double>(base), static_cast<double>(exponent))};
}

template <class T, class R>
R expected_of_pair(size_t function, T a, T b) {
  switch (function) {
    case 0:
      return power(R{a}, R{b});
    case 1:
      return std::fmod(R{a}, R{b});
    case 2:
      return std::atan2(R{a}, R{b});
    case 3:
      return std::hypot(R{a}, R{b});
    default:
      return R{std::nextafter(a, b)};
  }
}

template <class T>
void expect_binary(size_t function, double limit) {
  using R = std::conditional_t<std::is_same_v<T, double>, Real, double>;
  using Bits = std::conditional_t<std::is_same_v<T, double>, uint64_t, uint32_t>;
  std::vector<T> a;
  std::vector<T> b;
  const std::vector<T> special = corners<T>();
  for (const T left : special) {
    for (const T right : special) {
      a.push_back(left);
      b.push_back(right);
    }
  }
  std::mt19937_64 random(2);
  std::uniform_real_distribution<T> base(T{0}, T{40});
  std::uniform_real_distribution<T> exponent(T{-20}, T{20});
  for (int i = 0; i < 20000; ++i) {
    a.push_back(std::bit_cast<T>(static_cast<Bits>(random())));
    b.push_back(std::bit_cast<T>(static_cast<Bits>(random())));
    a.push_back(base(random));
    b.push_back(exponent(random));
  }
  std::vector<T> found(a.size());
  for (const int64_t target : targets()) {
    use_target(target);
    apply_binary(function, a.data(), b.data(), found.data(), a.size());
    Worst worst{.limit = limit};
    for (size_t i = 0; i < a.size(); ++i) {
      const R expected = expected_of_pair<T, R>(function, a[i], b[i]);
      worst.keep({.ulp = ulp_error<Format<T>>(found[i], expected),
                  .input = static_cast<double>(a[i]),
                  .second = static_cast<double>(b[i]),
                  .limit = limit});
    }
    note(kBinaryNames[function], Format<T>::kName, target, worst);
  }
  use_target(0);
}

TEST(MathUlp, OfTwo_AtCornersAndRandomBits) {
  // In the order of kBinaryNames; limits of f32 are OpenCL's, but for hypot, which SLEEF has
  // better.
  constexpr double kLimits[] = {16, 0, 6, 1, 0};
  static_assert(std::size(kLimits) == std::size(kBinaryNames));
  for (size_t function = 0; function < std::size(kLimits); ++function) {
    expect_binary<float>(function, kLimits[function]);
    expect_binary<double>(function, std::min(kLimits[function], 2.5));
  }
}

// Of these nobody expects a logarithm that is off in its last digit.
template <class T>
void expect_whole_logarithms(size_t log2) {
  std::vector<T> powers;
  for (int n = Format<T>::kLowest; n < Format<T>::kAbove; ++n) {
    powers.push_back(std::ldexp(T{1}, n));
  }
  std::vector<T> found(powers.size());
  for (const int64_t target : targets()) {
    use_target(target);
    apply_unary(log2, powers.data(), found.data(), powers.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i], static_cast<T>(static_cast<int>(i) + Format<T>::kLowest))
          << Format<T>::kName << " on " << target_name(target);
    }
  }
  use_target(0);
}

TEST(MathUlp, LogarithmsOfPowersOfTwo_AreWholeNumbers) {
  const auto* const log2 =
      std::find(std::begin(kUnaryNames), std::end(kUnaryNames), std::string_view("log2"));
  ASSERT_NE(log2, std::end(kUnaryNames));
  const auto function = static_cast<size_t>(log2 - std::begin(kUnaryNames));
  expect_whole_logarithms<float>(function);
  expect_whole_logarithms<double>(function);
}

// A value has the same bits in every lane and at every end of a row.
TEST(MathUlp, Value_IsTheSameInEveryPlace) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> range(-6.0F, 6.0F);
  for (const int64_t target : targets()) {
    use_target(target);
    for (size_t function = 0; function < kUnaryCount; ++function) {
      for (size_t count = 1; count < 40; ++count) {
        std::vector<float> inputs(count, range(random));
        std::vector<float> found(count + 1, 7.0F);
        apply_unary(function, inputs.data(), found.data(), count);
        for (size_t i = 1; i < count; ++i) {
          ASSERT_EQ(std::bit_cast<uint32_t>(found[i]), std::bit_cast<uint32_t>(found[0]))
              << kUnaryNames[function] << ' ' << count << ' ' << i;
        }
        ASSERT_EQ(found[count], 7.0F) << "written past the end";
      }
    }
  }
  use_target(0);
}

class Report : public testing::Environment {
 public:
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::create_directories(BP_REPORTS_DIR, ignored);
    std::ofstream json(BP_REPORTS_DIR "/ulp.json");
    std::ofstream markdown(BP_REPORTS_DIR "/ulp.md");
    size_t passed = 0;
    const std::vector<int64_t> not_run = bits_of(compiled_targets() & ~supported_targets());
    markdown << "# Accuracy of plugins/cpu: vector functions, and operators by their kernels\n\n"
                "Units in the last place against a longer format; f32 at every "
             << step_of_f32()
             << "th bit pattern. NOT RUN, as this processor lacks them: " << names_of(not_run)
             << ". The nearest number to what is between two counts as 0.5, at the first such "
                "input.\n\n| function | dtype | instruction set | worst, ulp | at | most "
                "allowed |\n|---|---|---|---|---|---|\n";
    json << "{\n \"rows\": [";
    const char* separator = "\n  ";
    for (const auto& [key, worst] : results()) {
      passed += worst.ulp <= worst.limit ? 1 : 0;
      markdown << "| " << key.function << " | " << key.dtype << " | " << key.target << " | "
               << worst.ulp << " | " << worst.input << " | " << worst.limit << " |\n";
      json << separator << "{\"function\": \"" << key.function << "\", \"dtype\": \"" << key.dtype
           << "\", \"target\": \"" << key.target << "\", \"ulp\": \"" << worst.ulp
           << "\", \"input\": \"" << worst.input << "\", \"limit\": " << worst.limit << '}';
      separator = ",\n  ";
    }
    json << "\n ],\n \"passed\": " << passed << ",\n \"failed\": " << results().size() - passed
         << ",\n \"total\": " << results().size() << ",\n \"not_run\": \"" << names_of(not_run)
         << "\"\n}\n";
    EXPECT_TRUE(json.good() && markdown.good()) << BP_REPORTS_DIR;
  }
};
testing::Environment* const kReport = testing::AddGlobalTestEnvironment(new Report);

}  // namespace
}  // namespace bp::cpu
