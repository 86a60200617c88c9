// SPDX-License-Identifier: Apache-2.0
//
// Where the blocks of a buffer lie: one block for each rank, or one part of a whole for each rank
// that works on it.
#ifndef BACKPLANE_CCL_SCHEDULE_BLOCK_LAYOUT_HPP
#define BACKPLANE_CCL_SCHEDULE_BLOCK_LAYOUT_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/status.hpp"

namespace bp::ccl {

/// Elements of a buffer.
struct Block {
  uint64_t first = 0;
  uint64_t count = 0;

  bool operator==(const Block&) const = default;
};

class BlockLayout {
 public:
  BlockLayout() = default;
  /// `total` elements one behind the other in `size` parts as equal as can be: the first ones have
  /// one element more than the last ones. With a total of size times count these are equal blocks.
  static BlockLayout even_parts(uint64_t total, uint32_t size) {
    BlockLayout layout;
    layout.size_ = size;
    layout.share_ = total / size;
    layout.rest_ = total % size;
    return layout;
  }
  /// Blocks of any sizes, 0 among them, in any order, with gaps or without. Errors:
  /// INVALID_ARGUMENT for blocks that overlap, and for more than any device has.
  static Result<BlockLayout> listed(std::vector<Block> blocks);
  /// Blocks of these sizes one behind the other. Errors: INVALID_ARGUMENT for more than any device
  /// has.
  static Result<BlockLayout> packed(std::span<const uint64_t> counts);

  uint32_t size() const { return size_; }
  /// False: all blocks have the same size, or nearly, and lie one behind the other.
  bool is_listed() const { return !blocks_.empty(); }
  uint64_t first(uint32_t index) const {
    return is_listed() ? blocks_[index].first : index * share_ + std::min<uint64_t>(index, rest_);
  }
  uint64_t count(uint32_t index) const {
    return is_listed() ? blocks_[index].count : share_ + (index < rest_ ? 1 : 0);
  }
  /// One behind the last element of all blocks.
  uint64_t end() const;
  uint64_t largest_count() const;

  bool operator==(const BlockLayout&) const = default;

 private:
  uint32_t size_ = 0;
  uint64_t share_ = 0;
  uint64_t rest_ = 0;
  std::vector<Block> blocks_;
};

}  // namespace bp::ccl

#endif
