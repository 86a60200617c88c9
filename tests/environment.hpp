// SPDX-License-Identifier: Apache-2.0
//
// What a ctest entry asks of a test program that several entries run.
#ifndef BACKPLANE_TESTS_ENVIRONMENT_HPP
#define BACKPLANE_TESTS_ENVIRONMENT_HPP

#include <cstdint>
#include <cstdlib>

namespace bp::tests {

inline uint64_t number_from_environment(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

}  // namespace bp::tests

#endif
