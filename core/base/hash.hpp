// SPDX-License-Identifier: Apache-2.0
//
// Keys of several numbers become one number.
#ifndef BACKPLANE_CORE_BASE_HASH_HPP
#define BACKPLANE_CORE_BASE_HASH_HPP

#include <cstdint>

namespace bp {

/// A hash that stands for `value` as well, in the order in which values are mixed in.
inline uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0xff51afd7ed558ccdu;
  return hash ^ (hash >> 32);
}

}  // namespace bp

#endif
