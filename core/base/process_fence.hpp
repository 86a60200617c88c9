// SPDX-License-Identifier: Apache-2.0
//
// A fence that one thread executes for all threads of the process. A pair "store mine, load yours"
// on two threads needs a full fence on both; where one side is a thousand times rarer, it calls
// process_fence() and the other needs only to keep the compiler from exchanging the two.
#ifndef BACKPLANE_CORE_BASE_PROCESS_FENCE_HPP
#define BACKPLANE_CORE_BASE_PROCESS_FENCE_HPP

namespace bp {

/// False: the system has none, or ThreadSanitizer watches, which does not know it. Any thread.
bool has_process_fence();

/// Every other thread of the process has executed a full fence between the call and the return.
/// Only if has_process_fence(). Some microseconds. Any thread.
void process_fence();

}  // namespace bp

#endif
