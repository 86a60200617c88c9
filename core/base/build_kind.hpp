// SPDX-License-Identifier: Apache-2.0
//
// What decides whether two binaries can live in one process: the sanitizer that they were built
// with, and whose.
#ifndef BACKPLANE_CORE_BASE_BUILD_KIND_HPP
#define BACKPLANE_CORE_BASE_BUILD_KIND_HPP

#include <string>

namespace bp {

/// How a binary was built, in the words of the manifest.
struct BuildKind {
  std::string sanitizer;  // "none", "address" or "thread"
  std::string compiler;   // "gcc" or "clang"
};
BuildKind core_build_kind();

}  // namespace bp

#endif
