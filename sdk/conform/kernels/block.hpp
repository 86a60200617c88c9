// SPDX-License-Identifier: Apache-2.0
//
// Device memory of a kernel's argument, and what lies round it: bytes that show whether they were
// read or written, or a page that nothing may touch.
#ifndef BACKPLANE_SDK_CONFORM_KERNELS_BLOCK_HPP
#define BACKPLANE_SDK_CONFORM_KERNELS_BLOCK_HPP

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "sdk/conform/context.hpp"
#include "sdk/conform/platform.hpp"

namespace bp::conform {

/// What lies in front of and behind the elements, and in the gaps between them. NaN shows in sums
/// and products; a large number shows where NaN is dropped; pages show what leaves no trace.
enum class Border { kNan, kFinite, kPageBehind, kPageBefore };
std::string_view border_name(Border border);
inline bool has_page(Border border) {
  return border == Border::kPageBehind || border == Border::kPageBefore;
}
/// Memory that has no elements is filled with it: NaN, or a large number, of every float.
inline std::byte border_fill(Border border) {
  return border == Border::kNan ? std::byte{0xFF} : std::byte{0x5C};
}
/// Pages need memory that the host reaches by its addresses; elsewhere there are only the bytes.
bool can_have(const Context& context, Border border);

/// A multiple of every alignment that a kernel may ask for.
inline constexpr uint64_t kBorderBytes = 256;
/// Bytes in front of content that begins where its border ends.
inline uint64_t bytes_before(Border border) {
  return border == Border::kPageBefore ? 0 : kBorderBytes;
}
/// Bytes behind content of `bytes` that is to begin at a multiple of `alignment_bytes`: with a page
/// behind it no more than that takes.
uint64_t bytes_behind(Border border, uint64_t bytes, uint64_t alignment_bytes);

class Block {
 public:
  /// Memory with this content, which ends or begins at the page that `border` asks for.
  Block(Context& context, Bytes content, Border border);
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  /// `offset_bytes` from the begin of the content.
  bp_mem at(uint64_t offset_bytes) const { return memory_.at(begin_ + offset_bytes); }
  /// Of the memory, up to what may be touched.
  uint64_t storage_bytes() const { return storage_bytes_; }
  const Bytes& content() const { return content_; }
  Bytes read() const { return memory_.read(begin_, content_.size()); }
  /// Other content of the same size.
  void refill(Bytes content);
  void expect_unchanged(std::string_view what) const;
  /// Expects that the page, if there is one, was left alone.
  void expect_untouched(std::string_view what) const;

 private:
  void place();

  Context& context_;
  Bytes content_;
  const Border border_;
  Memory memory_;
  uint64_t begin_ = 0;  // of the content in the memory
  uint64_t storage_bytes_ = 0;
  std::optional<Tripwire> page_;
};

/// Memory that a kernel is given beside its tensors, in the middle of a block.
class Extra {
 public:
  /// `name`, for people, begins with the kernel's. The content begins at a multiple of
  /// `alignment_bytes`.
  Extra(Context& context, std::string name, const Bytes& content, uint64_t alignment_bytes,
        Border border);

  bp_mem at() const { return block_.at(begin_); }
  Bytes read() const;
  /// Expects that nothing round it was written, nor the page touched.
  void check() const;

 private:
  Context& context_;
  const std::string name_;
  const uint64_t bytes_;
  const uint64_t begin_;  // in the block
  const Block block_;
};

/// Host memory of an argument that a kernel reads at its launch.
class HostBlock {
 public:
  /// The content begins at a multiple of its elements' size.
  HostBlock(Context& context, const Bytes& content, Border border);
  HostBlock(const HostBlock&) = delete;
  HostBlock& operator=(const HostBlock&) = delete;

  const std::byte* data() const { return content_begin_; }
  /// Expects that the page was left alone and the content, with what lies round it, is as it was.
  void expect_unchanged(std::string_view what) const;

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };

  Context& context_;
  const Border border_;
  Bytes usable_;  // what lies where the memory may be touched
  std::unique_ptr<std::byte, Free> memory_;
  std::byte* usable_begin_ = nullptr;
  std::byte* content_begin_ = nullptr;
  std::optional<Tripwire> page_;
};

}  // namespace bp::conform

#endif
