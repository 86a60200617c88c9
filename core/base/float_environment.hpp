// SPDX-License-Identifier: Apache-2.0
//
// Foreign code must not change how the application's threads calculate: rounding, traps, and
// whether tiny numbers count as zero (which -Ofast sets when a library is opened).
#ifndef BACKPLANE_CORE_BASE_FLOAT_ENVIRONMENT_HPP
#define BACKPLANE_CORE_BASE_FLOAT_ENVIRONMENT_HPP

#include <cfenv>
#include <cstdint>

namespace bp {

/// At its end this thread calculates as at its beginning.
class KeepFloatEnvironment {
 public:
  KeepFloatEnvironment() { std::fegetenv(&before_); }
  ~KeepFloatEnvironment() { std::fesetenv(&before_); }
  KeepFloatEnvironment(const KeepFloatEnvironment&) = delete;
  KeepFloatEnvironment& operator=(const KeepFloatEnvironment&) = delete;

 private:
  std::fenv_t before_{};
};

/// How this thread calculates: rounding, traps, tiny numbers. Which exceptions were raised so far
/// is no part of it.
inline uint64_t float_settings() {
#if defined(__x86_64__)
  constexpr uint32_t kRaised = 0x3f;
  std::fenv_t now{};
  std::fegetenv(&now);
  return uint64_t{now.__mxcsr & ~kRaised} << 32 | now.__control_word;
#elif defined(__aarch64__)
  std::fenv_t now{};
  std::fegetenv(&now);
  return now.__fpcr;
#else
  return static_cast<uint64_t>(std::fegetround());
#endif
}

}  // namespace bp

#endif
