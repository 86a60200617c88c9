// SPDX-License-Identifier: Apache-2.0
//
// Asks the compiler itself, so that no build system can be wrong about it.
#include "core/base/build_kind.hpp"

namespace bp {

BuildKind core_build_kind() {
#if defined(__clang__)
  const std::string compiler = "clang";
#if __has_feature(address_sanitizer)
  return {"address", compiler};
#elif __has_feature(thread_sanitizer)
  return {"thread", compiler};
#endif
#else
  const std::string compiler = "gcc";
#if defined(__SANITIZE_ADDRESS__)
  return {"address", compiler};
#elif defined(__SANITIZE_THREAD__)
  return {"thread", compiler};
#endif
#endif
  return {"none", compiler};
}

}  // namespace bp
