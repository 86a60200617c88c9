// SPDX-License-Identifier: Apache-2.0
//
// When an output is so large that it will not be found in a cache again: it is then stored past the
// caches, which spares reading what is about to be overwritten.
#ifndef BACKPLANE_PLUGINS_CPU_LARGE_HPP
#define BACKPLANE_PLUGINS_CPU_LARGE_HPP

#include <cstdint>

#include "backplane/sdk/sdk.hpp"
#include "backplane/types.h"

namespace bp::cpu {

/// What a core may well find again in the caches that it shares with others. What the system says
/// of their size is often that of the whole machine.
inline constexpr int64_t kCachedBytes = int64_t{16} << 20;

inline bool is_past_cache(const bp_tensor& output) {
  return sdk::element_count(output) >=
         kCachedBytes / static_cast<int64_t>(sdk::dtype_bytes(output.dtype));
}

}  // namespace bp::cpu

#endif
