// SPDX-License-Identifier: Apache-2.0
//
// Makes host memory and threads run out on demand, in the program that interposer.cpp is linked
// into. It stands before the C library's malloc (in sanitized builds, whose runtime owns malloc,
// only before operator new) and counts requests of the whole process, from all threads. Requests of
// Backplane and its plugins count, also those that the C++ library makes for them; those of the C
// library and of vendors' libraries do not: several of these end the process when one fails.
#ifndef BACKPLANE_TESTS_FAULT_INJECTION_INTERPOSER_HPP
#define BACKPLANE_TESTS_FAULT_INJECTION_INTERPOSER_HPP

#include <cstdint>

namespace bp::faults {

enum class HostFault { kAlloc, kAllocFrom, kThread };

struct HostCounts {
  uint64_t requests = 0;
  uint64_t refused = 0;
};

/// From now on request `nth` (1: the next one) is refused; with kAllocFrom all later ones too.
/// kThread counts the making of threads instead of memory.
void arm_host(HostFault fault, uint64_t nth);
/// Nothing is refused any more. What there was since arm_host.
HostCounts disarm_host();
/// Pieces of memory that were asked for and not yet given back, by anybody.
int64_t live_blocks();
/// In sanitized builds, whose runtime owns pthread_create, kThread cannot be injected.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kCanRefuseThreads = false;
#else
inline constexpr bool kCanRefuseThreads = true;
#endif

}  // namespace bp::faults

#endif
