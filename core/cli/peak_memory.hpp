// SPDX-License-Identifier: Apache-2.0
//
// The most memory that this process has had in use.
#ifndef BACKPLANE_CORE_CLI_PEAK_MEMORY_HPP
#define BACKPLANE_CORE_CLI_PEAK_MEMORY_HPP

#include <cstdint>

namespace bp::cli {

/// 0: the system does not tell.
uint64_t peak_memory_bytes();

}  // namespace bp::cli

#endif
