// SPDX-License-Identifier: Apache-2.0
#include "ccl/launch/number_list.hpp"

#include <algorithm>

namespace bp::ccl {

std::string number_list(std::string_view noun, std::span<const uint32_t> numbers) {
  constexpr size_t kMostNamed = 16;
  std::string text;
  for (const uint32_t number : numbers.first(std::min(kMostNamed, numbers.size()))) {
    text += text.empty() ? std::string(noun) + (numbers.size() > 1 ? "s " : " ") : ", ";
    text += std::to_string(number);
  }
  if (numbers.size() <= kMostNamed) return text;
  return text + " and " + std::to_string(numbers.size() - kMostNamed) + " more";
}

}  // namespace bp::ccl
