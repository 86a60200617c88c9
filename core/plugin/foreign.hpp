// SPDX-License-Identifier: Apache-2.0
//
// Reading what a plugin hands over without believing it: structs that say their own size, texts,
// status codes.
#ifndef BACKPLANE_CORE_PLUGIN_FOREIGN_HPP
#define BACKPLANE_CORE_PLUGIN_FOREIGN_HPP

#include <fmt/ranges.h>

#include "backplane/types.h"
#include "core/base/status.hpp"

namespace bp {

template <class... Args>
Status fail(bp_status code, fmt::format_string<Args...> format, Args&&... args) {
  return Status(code, fmt::format(format, std::forward<Args>(args)...));
}

/// False: it cannot be read as T.
template <class T>
bool is_aligned(const T* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % alignof(T) == 0;
}

/// Copies min(its struct_size, our_bytes) of a versioned struct into `out`, zeroes the rest and
/// sets struct_size to ours. INCOMPATIBLE for a pointer that is null or not aligned, and for a size
/// over 64 KiB, not a multiple of 8, or below required_bytes; `what` names the struct.
Status copy_versioned(std::string_view what, const void* theirs, size_t alignment_bytes,
                      size_t required_bytes, size_t our_bytes, void* out);
/// The same for a struct that the core knows.
template <class Struct>
Status copy_versioned(std::string_view what, const Struct* theirs, size_t required_bytes,
                      Struct* out) {
  return copy_versioned(what, theirs, alignof(Struct), required_bytes, sizeof(*out), out);
}

bool is_readable(bp_str text);       // at most 4 KiB of UTF-8
std::string_view view(bp_str text);  // empty if it is not readable

}  // namespace bp

#endif
