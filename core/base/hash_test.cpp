// SPDX-License-Identifier: Apache-2.0
#include "core/base/hash.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace bp {
namespace {

/// 100 bytes: some whole steps of all lanes, and a rest.
std::vector<std::byte> sample() {
  std::vector<std::byte> bytes(100);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 + 1);
  return bytes;
}

TEST(ContentHash, EqualBytes_HaveEqualHashes) {
  EXPECT_EQ(content_hash(sample()), content_hash(sample()));
}

TEST(ContentHash, EachBitAndEachLength_CountsAndSoDoesTheOrder) {
  std::set<uint64_t> hashes = {content_hash(sample())};
  size_t count = 1;
  for (size_t i = 0; i < sample().size(); ++i) {
    for (int bit = 0; bit < 8; ++bit, ++count) {
      std::vector<std::byte> changed = sample();
      changed[i] ^= static_cast<std::byte>(1 << bit);
      hashes.insert(content_hash(changed));
    }
  }
  for (size_t length = 0; length < sample().size(); ++length, ++count) {
    const std::vector<std::byte> whole = sample();
    hashes.insert(content_hash({whole.data(), length}));
  }
  for (size_t word = 1; word < 12; ++word, ++count) {
    std::vector<std::byte> turned = sample();
    for (size_t i = 0; i < 8; ++i) std::swap(turned[i], turned[8 * word + i]);
    hashes.insert(content_hash(turned));
  }
  for (size_t length = 1; length < 80; ++length, ++count) {
    hashes.insert(content_hash(std::vector<std::byte>(length)));  // zeros
  }
  EXPECT_EQ(hashes.size(), count);
}

}  // namespace
}  // namespace bp
