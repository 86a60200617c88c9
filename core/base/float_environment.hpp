// SPDX-License-Identifier: Apache-2.0
//
// Foreign code must not change how the application's threads calculate: rounding, traps, and
// whether tiny numbers count as zero (which -Ofast sets when a library is opened).
#ifndef BACKPLANE_CORE_BASE_FLOAT_ENVIRONMENT_HPP
#define BACKPLANE_CORE_BASE_FLOAT_ENVIRONMENT_HPP

#include <cfenv>

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

}  // namespace bp

#endif
