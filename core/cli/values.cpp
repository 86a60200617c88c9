// SPDX-License-Identifier: Apache-2.0
//
// Numbers are read here and not by the library that parses the command line: it takes a minus for
// a large number, and describes in its own words what it refuses.
#include "core/cli/values.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace bp::cli {
namespace {

/// The whole text as a number.
template <class T>
bool read(const std::string& text, T* out_number) {
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, *out_number);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

}  // namespace

std::string split_pairs(const char* option, const char* shape,
                        const std::vector<std::string>& texts, std::vector<NameValue>* out_pairs) {
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
      return std::string(option) + ": expected " + shape + ", found '" + text + "'";
    }
    const std::string name = text.substr(0, equals);
    for (const auto& [known, value] : *out_pairs) {
      if (known == name) return std::string(option) + ": " + name + " is given twice";
    }
    out_pairs->emplace_back(name, text.substr(equals + 1));
  }
  return "";
}

std::string parse_whole(const std::string& option, const std::string& text, Bounds bounds,
                        uint64_t* out_number) {
  if (read(text, out_number) && *out_number >= bounds.min && *out_number <= bounds.max) return "";
  return fmt::format("{}: expected a whole number from {} to {}, found '{}'", option, bounds.min,
                     bounds.max, text);
}

std::string parse_tolerance(const std::string& option, const std::string& text,
                            double* out_number) {
  if (read(text, out_number) && std::isfinite(*out_number) && *out_number >= 0) return "";
  return fmt::format("{}: expected a finite number, 0 or more, found '{}'", option, text);
}

std::string parse_seconds(const std::string& option, const std::string& text, double* out_number) {
  constexpr double kDay = 86400;
  if (read(text, out_number) && *out_number >= 0 && *out_number <= kDay) return "";
  return fmt::format("{}: expected a number from 0 to {}, found '{}'", option, kDay, text);
}

}  // namespace bp::cli
