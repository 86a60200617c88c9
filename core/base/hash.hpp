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
  const auto word_at = [](const std::byte* place) {
    uint64_t word = 0;
    std::memcpy(&word, place, sizeof(word));
    return word;
  };
  // Four side by side, since each step waits for the one before; by name, to stay in registers.
  uint64_t a = 1;
  uint64_t b = 2;
  uint64_t c = 3;
  uint64_t d = 4;
  const std::byte* from = bytes.data();
  size_t left = bytes.size();
  for (; left >= 32; left -= 32, from += 32) {
    a = mix(a, word_at(from));
    b = mix(b, word_at(from + 8));
    c = mix(c, word_at(from + 16));
    d = mix(d, word_at(from + 24));
  }
  uint64_t hash = mix(mix(mix(mix(bytes.size(), a), b), c), d);
  for (; left > 0; --left) hash = mix(hash, static_cast<uint64_t>(*from++));
  return hash;
}

}  // namespace bp

#endif
