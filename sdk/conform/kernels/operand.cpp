// SPDX-License-Identifier: Apache-2.0
//
// Strides of each layout, and elements to their places and back.
#include "sdk/conform/kernels/operand.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/dtype.hpp"

namespace bp::conform {
namespace {

constexpr uint64_t kBorderBytes = 256;  // a multiple of every alignment that a rule may ask for
constexpr std::byte kNan{0xFF};
constexpr int64_t kRowGap = 3;
constexpr int64_t kOddStride = 4099;  // of dimensions of size 1, where strides mean nothing

int64_t count_of(const Dims& sizes) { return element_count({sizes.data(), sizes.size()}); }

/// Calls visit(place, offset) for all elements in row-major order; offsets in elements.
template <class Visit>
void for_each_element(const Dims& sizes, const Dims& strides, const Visit& visit) {
  const int64_t count = count_of(sizes);
  for (int64_t place = 0; place < count; ++place) {
    int64_t rest = place;
    int64_t offset = 0;
    for (size_t i = sizes.size(); i-- > 0;) {
      offset += rest % sizes[i] * strides[i];
      rest /= sizes[i];
    }
    visit(place, offset);
  }
}

/// Elements from the lowest to the highest one, and how far the first lies above the lowest.
struct Extent {
  int64_t count = 0;
  int64_t lead = 0;
};

Extent extent_of(const Dims& sizes, const Dims& strides) {
  if (count_of(sizes) == 0) return {};
  Extent extent{1, 0};
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t reach = (sizes[i] - 1) * strides[i];
    extent.count += std::abs(reach);
    if (reach < 0) extent.lead -= reach;
  }
  return extent;
}

uint64_t begin_of(Layout layout, uint32_t dtype, uint32_t alignment_bytes) {
  if (layout != Layout::kOffset) return kBorderBytes;
  return kBorderBytes + std::max<uint64_t>(alignment_bytes, dtype_storage_bytes(dtype, 1));
}

Placement place_input(const OracleTensor& values, Layout layout, uint32_t alignment_bytes) {
  const uint64_t bytes = dtype_storage_bytes(values.dtype, 1);
  const uint64_t begin = begin_of(layout, values.dtype, alignment_bytes);
  Placement placement;
  placement.strides = strides_in(layout, values.sizes);
  const Extent extent = extent_of(values.sizes, placement.strides);
  placement.content.assign(begin + static_cast<uint64_t>(extent.count) * bytes + kBorderBytes,
                           kNan);
  placement.offset_bytes = begin + static_cast<uint64_t>(extent.lead) * bytes;
  std::byte* const first = placement.content.data() + placement.offset_bytes;
  for_each_element(values.sizes, placement.strides, [&](int64_t place, int64_t offset) {
    std::memcpy(first + offset * static_cast<int64_t>(bytes),
                values.bytes.data() + static_cast<uint64_t>(place) * bytes, bytes);
  });
  return placement;
}

Placement place_output(uint32_t dtype, const Dims& sizes) {
  const uint64_t bytes = dtype_storage_bytes(dtype, count_of(sizes));
  return {contiguous_strides(sizes), kBorderBytes,
          Bytes(2 * kBorderBytes + bytes, Operand::kUnwritten)};
}

}  // namespace

std::string_view layout_name(Layout layout) {
  constexpr std::string_view kNames[] = {"dense",      "offset",   "rows",    "gaps",
                                         "transposed", "repeated", "reversed"};
  return kNames[static_cast<size_t>(layout)];
}

bool can_lie(Layout layout, const Dims& sizes) {
  const auto wide =
      std::count_if(sizes.begin(), sizes.end(), [](int64_t size) { return size > 1; });
  if (count_of(sizes) == 0) return false;
  switch (layout) {
    case Layout::kDense:
    case Layout::kOffset:
      return true;
    case Layout::kRows:
    case Layout::kTransposed:
      return wide > 1;
    case Layout::kGaps:
      return wide > 0;
    case Layout::kRepeated:
      return !sizes.empty() && sizes[0] > 1;
    case Layout::kReversed:
      return !sizes.empty() && sizes.back() > 1;
  }
  return false;
}

bool takes(uint32_t stride_rule, Layout layout, const Dims& sizes) {
  switch (layout) {
    case Layout::kDense:
    case Layout::kOffset:
      return true;
    case Layout::kRows:
      return stride_rule >= BP_STRIDES_INNER_DENSE && sizes.back() > 1;
    case Layout::kRepeated:
      return stride_rule >= (sizes.size() > 1 ? BP_STRIDES_INNER_DENSE : BP_STRIDES_NON_NEGATIVE);
    case Layout::kGaps:
    case Layout::kTransposed:
      return stride_rule >= BP_STRIDES_NON_NEGATIVE;
    case Layout::kReversed:
      return stride_rule == BP_STRIDES_ANY;
  }
  return false;
}

Dims strides_in(Layout layout, const Dims& sizes) {
  Dims strides = contiguous_strides(sizes);
  const size_t rank = sizes.size();
  if (layout == Layout::kTransposed) {
    int64_t step = 1;
    for (size_t i = 0; i < rank; step *= sizes[i++]) strides[i] = step;
  }
  if (layout == Layout::kRows || layout == Layout::kGaps) {
    int64_t step = layout == Layout::kGaps ? 2 : 1;
    for (size_t i = rank; i-- > 0;) {
      strides[i] = step;
      step = step * sizes[i] + (i + 1 == rank ? kRowGap : 1);
    }
  }
  if (layout == Layout::kOffset) {
    for (size_t i = 0; i < rank; ++i) strides[i] = sizes[i] == 1 ? kOddStride : strides[i];
  }
  if (layout == Layout::kRepeated && rank > 0) strides[0] = 0;
  if (layout == Layout::kReversed && rank > 0) strides[rank - 1] = -strides[rank - 1];
  return strides;
}

void repeat_first(OracleTensor* tensor) {
  if (tensor->sizes.empty() || tensor->sizes[0] == 0) return;
  const size_t slice = tensor->bytes.size() / static_cast<size_t>(tensor->sizes[0]);
  for (size_t at = slice; at < tensor->bytes.size(); at += slice) {
    std::memcpy(tensor->bytes.data() + at, tensor->bytes.data(), slice);
  }
}

Operand::Operand(Context& context, uint32_t dtype, const Dims& sizes, Placement placement)
    : context_(context),
      dtype_(dtype),
      sizes_(sizes),
      before_(std::move(placement)),
      memory_(context, before_.content.size(), kBorderBytes) {
  memory_.write(before_.content);
}

Operand::Operand(Context& context, const OracleTensor& values, Layout layout,
                 uint32_t alignment_bytes)
    : Operand(context, values.dtype, values.sizes, place_input(values, layout, alignment_bytes)) {}

Operand::Operand(Context& context, uint32_t dtype, const Dims& sizes)
    : Operand(context, dtype, sizes, place_output(dtype, sizes)) {}

bp_tensor Operand::tensor() const {
  return {.handle = memory_.handle(),
          .offset_bytes = before_.offset_bytes,
          .storage_bytes = memory_.bytes(),
          .dtype = dtype_,
          .rank = static_cast<uint32_t>(sizes_.size()),
          .sizes = sizes_.data(),
          .strides = before_.strides.data(),
          .layout = 0,
          .flags = 0,
          .reserved = 0};
}

void Operand::expect_unchanged(std::string_view what) const {
  memory_.expect(what, before_.content);
}

OracleTensor Operand::take(std::string_view what, const Dims& real) const {
  const Bytes found = memory_.read();
  const uint64_t bytes = dtype_storage_bytes(dtype_, 1);
  const auto begin = static_cast<std::ptrdiff_t>(before_.offset_bytes);
  const auto end =
      begin + static_cast<std::ptrdiff_t>(dtype_storage_bytes(dtype_, count_of(sizes_)));
  const auto same = [&](std::ptrdiff_t from, std::ptrdiff_t to) {
    return std::equal(found.begin() + from, found.begin() + to, before_.content.begin() + from);
  };
  context_.expect(same(0, begin), words(what, ": nothing is written in front of it"));
  context_.expect(same(end, static_cast<std::ptrdiff_t>(found.size())),
                  words(what, ": nothing is written behind it"));
  OracleTensor values = OracleTensor::zeros(dtype_, real);
  for_each_element(real, before_.strides, [&](int64_t place, int64_t offset) {
    std::memcpy(values.bytes.data() + static_cast<uint64_t>(place) * bytes,
                found.data() + begin + offset * static_cast<int64_t>(bytes), bytes);
  });
  return values;
}

}  // namespace bp::conform
