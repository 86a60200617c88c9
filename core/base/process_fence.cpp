// SPDX-License-Identifier: Apache-2.0
//
// Linux: membarrier. Elsewhere none.
#include "core/base/process_fence.hpp"

#include <atomic>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace bp {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadSanitizer = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif
#else
constexpr bool kThreadSanitizer = false;
#endif

#if defined(__linux__) && defined(SYS_membarrier)
// Of <linux/membarrier.h>, which older systems lack.
constexpr long kPrivateExpedited = 1L << 3;
constexpr long kRegisterPrivateExpedited = 1L << 4;
bool call(long command) { return syscall(SYS_membarrier, command, 0L) == 0; }
#else
constexpr long kPrivateExpedited = 0;
constexpr long kRegisterPrivateExpedited = 0;
bool call(long) { return false; }
#endif

}  // namespace

bool has_process_fence() {
  static const bool has =
      !kThreadSanitizer && call(kRegisterPrivateExpedited) && call(kPrivateExpedited);
  return has;
}

void process_fence() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  call(kPrivateExpedited);
}

}  // namespace bp
