// SPDX-License-Identifier: Apache-2.0
//
// Where content lies in its memory. A page to be left alone is one of the memory itself, so that
// the plugin has allocated all that a kernel is given.
#include "sdk/conform/kernels/block.hpp"

#include <utility>

namespace bp::conform {
namespace {

uint64_t round_up(uint64_t value, uint64_t step) { return (value + step - 1) / step * step; }

/// With room for the page, and for finding where a page begins.
uint64_t memory_bytes(uint64_t content_bytes, Border border) {
  return has_page(border) ? content_bytes + 3 * page_bytes() : content_bytes;
}

}  // namespace

std::string_view border_name(Border border) {
  constexpr std::string_view kNames[] = {"NaN round it", "numbers round it", "a page behind it",
                                         "a page before it"};
  return kNames[static_cast<size_t>(border)];
}

bool can_have(const Context& context, Border border) {
  constexpr uint64_t kReachable = BP_DEVICE_ADDRESS_BIT | BP_DEVICE_HOST_MEMORY_BIT;
  return !has_page(border) || (context.table().props.flags & kReachable) == kReachable;
}

uint64_t bytes_behind(Border border, uint64_t bytes, uint64_t alignment_bytes) {
  if (border != Border::kPageBehind) return kBorderBytes;
  return round_up(bytes, alignment_bytes) - bytes;
}

Block::Block(Context& context, Bytes content, Border border)
    : context_(context),
      content_(std::move(content)),
      border_(border),
      memory_(context, memory_bytes(content_.size(), border), kBorderBytes) {
  storage_bytes_ = memory_.bytes();
  if (has_page(border)) place();
  memory_.write(content_, begin_);
}

void Block::place() {
  const uint64_t address = memory_.handle();
  const uint64_t bytes = content_.size();
  const bool behind = border_ == Border::kPageBehind;
  const uint64_t page = round_up(address + (behind ? bytes : 0), page_bytes());
  begin_ = (behind ? page - bytes : page + page_bytes()) - address;
  if (behind) storage_bytes_ = page - address;
  page_.emplace(reinterpret_cast<std::byte*>(page));
}

void Block::expect_unchanged(std::string_view what) const {
  context_.expect_bytes(what, read(), content_);
}

void Block::expect_untouched(std::string_view what) const {
  const auto at = page_ ? page_->touched_at() : std::nullopt;
  if (!at) return;
  const bool behind = border_ == Border::kPageBehind;
  context_.fail(words(what, ": what lies ", behind ? *at : page_bytes() - *at, " bytes ",
                      behind ? "behind" : "before", " its memory was read or written"));
}

}  // namespace bp::conform
