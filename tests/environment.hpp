// SPDX-License-Identifier: Apache-2.0
//
// What a ctest entry asks of a test program that several entries run.
#ifndef BACKPLANE_TESTS_ENVIRONMENT_HPP
#define BACKPLANE_TESTS_ENVIRONMENT_HPP

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace bp::tests {

/// The number in the variable `name`, or `fallback` where there is no such variable. Anything else
/// than a number ends the program: as 0 it would be a test of no rounds, which passes.
inline uint64_t number_from_environment(const char* name, uint64_t fallback) {
  const char* const value = std::getenv(name);
  if (value == nullptr) return fallback;
  const std::string_view text = value;
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc{} && end == text.data() + text.size()) return number;
  std::fprintf(stderr, "%s=%s: expected a whole number of 64 bits\n", name, value);
  std::exit(2);
}

}  // namespace bp::tests

#endif
