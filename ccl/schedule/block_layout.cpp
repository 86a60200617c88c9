// SPDX-License-Identifier: Apache-2.0
//
// See block_layout.hpp.
#include "ccl/schedule/block_layout.hpp"

#include <limits>
#include <string>
#include <utility>

#include "core/base/checked.hpp"

namespace bp::ccl {
namespace {

std::string block_text(const std::vector<Block>& blocks, uint32_t index) {
  return "block " + std::to_string(index) + " (" + std::to_string(blocks[index].count) +
         " elements from " + std::to_string(blocks[index].first) + ")";
}

}  // namespace

Result<BlockLayout> BlockLayout::listed(std::vector<Block> blocks) {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < blocks.size(); ++i) {
    const auto end = checked_add(blocks[i].first, blocks[i].count);
    if (!end || *end > kMostBytes) {
      return Status(BP_INVALID_ARGUMENT,
                    block_text(blocks, i) + " reaches beyond what any device has");
    }
    if (blocks[i].count > 0) order.push_back(i);
  }
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return blocks[a].first < blocks[b].first; });
  for (size_t i = 1; i < order.size(); ++i) {
    const Block& before = blocks[order[i - 1]];
    if (before.first + before.count > blocks[order[i]].first) {
      return Status(BP_INVALID_ARGUMENT, block_text(blocks, order[i - 1]) + " and " +
                                             block_text(blocks, order[i]) + " overlap");
    }
  }
  BlockLayout layout;
  layout.size_ = static_cast<uint32_t>(blocks.size());
  layout.blocks_ = std::move(blocks);
  return layout;
}

Result<BlockLayout> BlockLayout::packed(std::span<const uint64_t> counts) {
  std::vector<Block> blocks;
  uint64_t end = 0;
  for (const uint64_t count : counts) {
    blocks.push_back({end, count});
    // What is beyond is told by listed().
    end = checked_add(end, count).value_or(std::numeric_limits<uint64_t>::max());
  }
  return listed(std::move(blocks));
}

uint64_t BlockLayout::end() const {
  if (!is_listed()) return size_ * share_ + rest_;
  uint64_t end = 0;
  for (const Block& block : blocks_) {
    if (block.count > 0) end = std::max(end, block.first + block.count);
  }
  return end;
}

uint64_t BlockLayout::largest_count() const {
  if (!is_listed()) return share_ + (rest_ > 0 ? 1 : 0);
  uint64_t largest = 0;
  for (const Block& block : blocks_) largest = std::max(largest, block.count);
  return largest;
}

}  // namespace bp::ccl
