// SPDX-License-Identifier: Apache-2.0
//
// The core's typed calls of slots that no function of the public API leads to.
#ifndef BACKPLANE_TESTS_HOSTILE_PLUGINS_CORE_CALLS_HPP
#define BACKPLANE_TESTS_HOSTILE_PLUGINS_CORE_CALLS_HPP

#include <chrono>
#include <string>

namespace bp {

/// Opens the first device of the one plugin in `folder`, calls it, and prints the words of each
/// call that fails behind "told: ". Control calls have `call_timeout`.
void use_from_core(const std::string& folder, std::chrono::seconds call_timeout);

}  // namespace bp

#endif
