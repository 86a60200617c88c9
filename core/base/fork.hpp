// SPDX-License-Identifier: Apache-2.0
//
// Knows whether this process was forked from one that had loaded plugins. Their threads are not
// here, and their locks may be held by them for ever; so in the child every call answers FORKED,
// and releases leave everything where it is. One of the four allowed globals (design section 8).
#ifndef BACKPLANE_CORE_BASE_FORK_HPP
#define BACKPLANE_CORE_BASE_FORK_HPP

#include <atomic>

#include "core/base/status.hpp"

namespace bp {

namespace detail {
extern std::atomic<bool> g_forked;
}

/// From now on children of this process are forked ones; those made before are not. To be called
/// before the first plugin is loaded. Idempotent, any thread. Throws std::bad_alloc.
void watch_forks();

/// One relaxed load. Never becomes false again: children of a forked child are forked too.
inline bool forked() { return detail::g_forked.load(std::memory_order_relaxed); }

/// FORKED with words if forked(); asked before locks and waits, which no thread may be left to end.
inline Status check_not_forked() {
  if (!forked()) [[likely]]
    return {};
  return Status(BP_FORKED,
                "this process was forked from one that had loaded plugins; only releases work "
                "here. Fork before the first Runtime is made, or exec");
}

}  // namespace bp

#endif
