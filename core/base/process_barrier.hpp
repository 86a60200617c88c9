// SPDX-License-Identifier: Apache-2.0
//
// A memory barrier in every running thread of this process, for pairs of which one side is hot.
#ifndef BACKPLANE_CORE_BASE_PROCESS_BARRIER_HPP
#define BACKPLANE_CORE_BASE_PROCESS_BARRIER_HPP

namespace bp {

/// Asks the system to be ready for process_barrier(). False: it has none; both sides need fences.
bool prepare_process_barrier();
/// After a prepare_process_barrier() that answered true. Any thread.
void process_barrier();

}  // namespace bp

#endif
