// SPDX-License-Identifier: Apache-2.0
//
// Linux has it as a system call.
#include "core/base/process_barrier.hpp"

#if defined(__linux__)
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace bp {

#if defined(__linux__)
bool prepare_process_barrier() {
  return syscall(__NR_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void process_barrier() { syscall(__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0); }
#else
bool prepare_process_barrier() { return false; }
void process_barrier() {}
#endif

}  // namespace bp
