// SPDX-License-Identifier: Apache-2.0
//
// Where content lies in its memory. A page to be left alone is one of the memory itself, so that
// the plugin has allocated all that a kernel is given.
#include "sdk/conform/kernels/block.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace bp::conform {
namespace {

uint64_t round_up(uint64_t value, uint64_t step) { return (value + step - 1) / step * step; }

/// With room for the page, and for finding where a page begins.
uint64_t memory_bytes(uint64_t content_bytes, Border border) {
  return has_page(border) ? content_bytes + 3 * page_bytes() : content_bytes;
}

void expect_page_untouched(Context& context, const std::optional<Tripwire>& page, Border border,
                           std::string_view what) {
  const auto at = page ? page->touched_at() : std::nullopt;
  if (!at) return;
  const bool behind = border == Border::kPageBehind;
  context.fail(words(what, ": what lies ", behind ? *at : page_bytes() - *at, " bytes ",
                     behind ? "behind" : "before", " its memory was read or written"));
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

void Block::refill(Bytes content) {
  content_ = std::move(content);
  memory_.write(content_, begin_);
}

void Block::expect_unchanged(std::string_view what) const {
  context_.expect_bytes(what, read(), content_);
}

void Block::expect_untouched(std::string_view what) const {
  expect_page_untouched(context_, page_, border_, what);
}

namespace {

/// The content with what shows that it was read, where there is no page.
Bytes surrounded(const Bytes& content, uint64_t alignment_bytes, Border border) {
  const std::byte fill = border_fill(border);
  const uint64_t before = bytes_before(border);
  Bytes all(before + content.size() + bytes_behind(border, content.size(), alignment_bytes), fill);
  std::copy(content.begin(), content.end(), all.begin() + static_cast<std::ptrdiff_t>(before));
  return all;
}

}  // namespace

Extra::Extra(Context& context, std::string name, const Bytes& content, uint64_t alignment_bytes,
             Border border)
    : context_(context),
      name_(std::move(name)),
      bytes_(content.size()),
      begin_(bytes_before(border)),
      block_(context, surrounded(content, alignment_bytes, border), border) {}

Bytes Extra::read() const {
  const Bytes all = block_.read();
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(begin_);
  return {begin, begin + static_cast<std::ptrdiff_t>(bytes_)};
}

void Extra::check() const {
  block_.expect_untouched(name_);
  const Bytes& before = block_.content();
  const Bytes after = block_.read();
  const auto begin = static_cast<std::ptrdiff_t>(begin_);
  const auto end = begin + static_cast<std::ptrdiff_t>(bytes_);
  context_.expect(std::equal(after.begin(), after.begin() + begin, before.begin()),
                  words(name_, ": nothing is written in front of it"));
  context_.expect(std::equal(after.begin() + end, after.end(), before.begin() + end),
                  words(name_, ": nothing is written behind it"));
}

// Pages of the heap's that nothing else shares: one for the page to be left alone, in front of the
// usable ones or behind them.
HostBlock::HostBlock(Context& context, const Bytes& content, Border border)
    : context_(context), border_(border), usable_(surrounded(content, 1, border)) {
  const uint64_t page = page_bytes();
  const uint64_t room = round_up(usable_.size(), page);
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(page, room + page)));
  if (memory_ == nullptr) throw std::bad_alloc();
  const bool behind = border == Border::kPageBehind;
  usable_begin_ = memory_.get() + (behind ? room - usable_.size() : page);
  content_begin_ = usable_begin_ + bytes_before(border);
  std::copy(usable_.begin(), usable_.end(), usable_begin_);
  if (has_page(border)) page_.emplace(memory_.get() + (behind ? room : 0));
}

void HostBlock::expect_unchanged(std::string_view what) const {
  expect_page_untouched(context_, page_, border_, what);
  context_.expect_bytes(what, Bytes(usable_begin_, usable_begin_ + usable_.size()), usable_);
}

}  // namespace bp::conform
