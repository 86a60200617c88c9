// SPDX-License-Identifier: Apache-2.0
//
// Who is in a call that uses something of an owner (a Runtime): asked by who wants to end the
// owner, of calls that said no more than which handles they use. So a call pays nothing for it.
//
// The other half is the caller's: before it looks here, it sets what later calls look at after they
// have noted their uses, and refuse by.
#ifndef BACKPLANE_CORE_BASE_OWNER_USES_HPP
#define BACKPLANE_CORE_BASE_OWNER_USES_HPP

#include <chrono>

#include "core/base/handle_table.hpp"

namespace bp {

/// The owner of a live handle's object; nullptr: none. Kept from destruction during the call.
using OwnerOf = const void* (*)(HandleKind kind, const void* object);

/// This thread is in a call that uses something of `owner`.
bool is_used_by_this_thread(const void* owner, OwnerOf owner_of);

/// Waits until uses that other threads had begun are over. A use of a handle that was released
/// meanwhile may be anybody's and counts, too. False: not all are over at the deadline. It may end
/// the life of objects that others release. Any thread.
bool wait_for_uses_by_others(const void* owner, OwnerOf owner_of,
                             std::chrono::steady_clock::time_point deadline);

}  // namespace bp

#endif
