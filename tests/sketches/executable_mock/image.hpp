// SPDX-License-Identifier: Apache-2.0
//
// Reads a graph image as a plugin has to: nothing in it is trusted, every row is looked up through
// its section's stride and copied as far as both sides know it.
#ifndef BACKPLANE_TESTS_SKETCHES_EXECUTABLE_MOCK_IMAGE_HPP
#define BACKPLANE_TESTS_SKETCHES_EXECUTABLE_MOCK_IMAGE_HPP

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "backplane/sdk/sdk.hpp"
#include "backplane/sketch/executable.h"

namespace bp::sketch {

/// A view of an image's bytes. Everything that it is asked for and that is not there throws Failure
/// BP_INVALID_ARGUMENT.
class Image {
 public:
  Image(const void* data, uint64_t bytes) : data_(static_cast<const std::byte*>(data)) {
    if (data == nullptr || reinterpret_cast<uintptr_t>(data) % 8 != 0 || bytes < sizeof(bp_image)) {
      sdk::refuse("an image of ", bytes, " bytes at ", data, "; expected 32 or more, aligned to 8");
    }
    bytes_ = bytes;
    bp_image head{};
    std::memcpy(&head, data_, sizeof(head));
    if (head.struct_size < sizeof(head) || head.image_bytes != bytes || head.section_count > 64) {
      sdk::refuse("the image's head says ", head.image_bytes, " bytes; there are ", bytes);
    }
    for (uint32_t i = 0; i < head.section_count; ++i) {
      const uint64_t at = head.sections_offset + uint64_t{i} * head.section_stride_bytes;
      const auto section = read<bp_image_section>(at, head.section_stride_bytes);
      if (section.kind < sections_.size()) sections_[section.kind] = checked(section);
    }
  }

  uint64_t count(uint32_t kind) const { return sections_[kind].row_count; }

  /// A versioned row; members that the writer did not know are zero.
  template <class Row>
  Row row(uint32_t kind, uint64_t index) const {
    return read<Row>(place(kind, index), sections_[kind].stride_bytes);
  }
  uint32_t value_id(uint32_t kind, uint64_t index) const { return number<uint32_t>(kind, index); }
  int64_t integer(uint64_t index) const { return number<int64_t>(BP_IMAGE_INTEGERS, index); }
  std::string_view text(uint64_t offset, uint64_t bytes) const {
    const bp_image_section& section = sections_[BP_IMAGE_TEXT];
    if (offset > section.row_count || bytes > section.row_count - offset) {
      sdk::refuse("the image's text ends before ", offset, " + ", bytes);
    }
    return {reinterpret_cast<const char*>(data_ + section.offset + offset), bytes};
  }

 private:
  bp_image_section checked(const bp_image_section& section) const {
    const uint64_t left = section.offset <= bytes_ ? bytes_ - section.offset : 0;
    const bool fits = section.stride_bytes > 0 && section.row_count <= left / section.stride_bytes;
    if (section.row_count > 0 && (!fits || section.offset % 8 != 0)) {
      sdk::refuse("the image's section ", section.kind, " reaches beyond its end");
    }
    return section;
  }

  uint64_t place(uint32_t kind, uint64_t index) const {
    const bp_image_section& section = sections_[kind];
    if (index >= section.row_count) {
      sdk::refuse("the image's section ", kind, " has ", section.row_count, " rows, not ", index);
    }
    return section.offset + index * section.stride_bytes;
  }

  template <class Number>
  Number number(uint32_t kind, uint64_t index) const {
    const uint64_t at = place(kind, index);
    if (sections_[kind].stride_bytes != sizeof(Number)) sdk::refuse("a section's stride is wrong");
    Number value;
    std::memcpy(&value, data_ + at, sizeof(value));
    return value;
  }

  /// Checked against the image's end, the row's own size and the stride.
  template <class Row>
  Row read(uint64_t at, uint64_t stride_bytes) const {
    uint32_t size = 0;
    if (at > bytes_ || bytes_ - at < std::max<uint64_t>(stride_bytes, sizeof(size))) {
      sdk::refuse("the image ends within a row at ", at);
    }
    std::memcpy(&size, data_ + at, sizeof(size));
    if (size < 8 || size % 8 != 0 || size > stride_bytes) {
      sdk::refuse("a row of ", size, " bytes in a stride of ", stride_bytes);
    }
    Row row{};
    std::memcpy(&row, data_ + at, std::min<size_t>(size, sizeof(row)));
    return row;
  }

  const std::byte* data_;
  uint64_t bytes_ = 0;
  std::array<bp_image_section, BP_IMAGE_OUTPUTS + 1> sections_{};
};

}  // namespace bp::sketch

#endif
