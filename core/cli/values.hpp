// SPDX-License-Identifier: Apache-2.0
//
// What the texts behind options mean. Each function answers in words what is wrong, the option
// first, then what was expected and what was found; "" if nothing is.
#ifndef BACKPLANE_CORE_CLI_VALUES_HPP
#define BACKPLANE_CORE_CLI_VALUES_HPP

#include <cstdint>
#include <string>
#include <vector>

#include "core/cli/cli.hpp"

namespace bp::cli {

/// "NAME=VALUE" each, no name twice.
std::string split_pairs(const char* option, const char* shape,
                        const std::vector<std::string>& texts, std::vector<NameValue>* out_pairs);

struct Bounds {
  uint64_t min = 0;
  uint64_t max = UINT64_MAX;
};
/// Decimal digits and nothing else: a sign would wrap, and 0x10 would be read as something.
std::string parse_whole(const std::string& option, const std::string& text, Bounds bounds,
                        uint64_t* out_number);

/// 0 or more, finite: everything is within an infinite tolerance.
std::string parse_tolerance(const std::string& option, const std::string& text, double* out_number);

/// 0 or more, and a day at most.
std::string parse_seconds(const std::string& option, const std::string& text, double* out_number);

}  // namespace bp::cli

#endif
