// SPDX-License-Identifier: Apache-2.0
//
// What the core counts and the public API does not show, for a test of that API: its header and the
// core's are not included in one file.
#ifndef BACKPLANE_TESTS_INTEGRATION_RESOLVED_CALLS_HPP
#define BACKPLANE_TESTS_INTEGRATION_RESOLVED_CALLS_HPP

#include <cstdint>

namespace bp {

/// Of the device behind a bpa_device: Dispatcher::resolved_count().
uint64_t resolved_calls(const void* device_handle);

}  // namespace bp

#endif
