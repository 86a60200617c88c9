// SPDX-License-Identifier: Apache-2.0
//
// Keys of several numbers become one number.
#ifndef BACKPLANE_CORE_BASE_HASH_HPP
#define BACKPLANE_CORE_BASE_HASH_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace bp {

/// A hash that stands for `value` as well, in the order in which values are mixed in.
inline uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0xff51afd7ed558ccdu;
  return hash ^ (hash >> 32);
}

/// Of many bytes, as fast as they come from memory. Whoever relies on more than chance compares the
/// bytes themselves.
inline uint64_t content_hash(std::span<const std::byte> bytes) {
  constexpr size_t kLanes = 4;  // side by side, since each step waits for the one before
  uint64_t lanes[kLanes] = {1, 2, 3, 4};
  uint64_t words[kLanes];
  const std::byte* from = bytes.data();
  size_t left = bytes.size();
  for (; left >= sizeof(words); left -= sizeof(words), from += sizeof(words)) {
    std::memcpy(words, from, sizeof(words));
    for (size_t i = 0; i < kLanes; ++i) lanes[i] = mix(lanes[i], words[i]);
  }
  uint64_t hash = bytes.size();
  for (const uint64_t lane : lanes) hash = mix(hash, lane);
  for (; left > 0; --left) hash = mix(hash, static_cast<uint64_t>(*from++));
  return hash;
}

}  // namespace bp

#endif
