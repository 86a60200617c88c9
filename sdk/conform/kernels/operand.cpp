// SPDX-License-Identifier: Apache-2.0
//
// Strides of each layout, and elements to their places and back.
#include "sdk/conform/kernels/operand.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/base/dtype.hpp"
#include "sdk/conform/kernels/fill.hpp"

namespace bp::conform {
namespace {

constexpr std::byte kNan{0xFF};
constexpr std::byte kWhole{0x5A};    // of integers, far from 0
constexpr int kLargeExponent = 100;  // of floats; what is taken away from it is lost
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

/// As many bytes of what lies round elements of this dtype, in step with the elements.
Bytes border_content(uint32_t dtype, Border border, uint64_t count) {
  if (border != Border::kFinite || !is_float_dtype(dtype)) {
    return Bytes(count, border == Border::kFinite ? kWhole : kNan);
  }
  const double large[] = {std::min(std::ldexp(1.0, kLargeExponent), float_max(dtype))};
  const Bytes element = OracleTensor::from_f64(dtype, {1}, large).bytes;
  Bytes content(count);
  for (size_t i = 0; i < count; ++i) content[i] = element[i % element.size()];
  return content;
}

Placement place_input(const OracleTensor& values, Layout layout, uint32_t alignment_bytes,
                      Border border, size_t index) {
  const uint64_t bytes = dtype_storage_bytes(values.dtype, 1);
  const uint64_t alignment = std::max<uint64_t>(alignment_bytes, bytes);
  const uint64_t begin =
      bytes_before(border) * (index + 1) + (layout == Layout::kOffset ? alignment : 0);
  Placement placement;
  placement.strides = strides_in(layout, values.sizes);
  const Extent extent = extent_of(values.sizes, placement.strides);
  const uint64_t used = static_cast<uint64_t>(extent.count) * bytes;
  placement.content =
      border_content(values.dtype, border, begin + used + bytes_behind(border, used, alignment));
  placement.offset_bytes = begin + static_cast<uint64_t>(extent.lead) * bytes;
  std::byte* const first = placement.content.data() + placement.offset_bytes;
  for_each_element(values.sizes, placement.strides, [&](int64_t place, int64_t offset) {
    std::memcpy(first + offset * static_cast<int64_t>(bytes),
                values.bytes.data() + static_cast<uint64_t>(place) * bytes, bytes);
  });
  return placement;
}

Placement place_output(const TensorType& type, const Dims& strides, Layout layout, Border border,
                       size_t index) {
  const uint64_t bytes = dtype_storage_bytes(type.dtype, 1);
  const uint64_t begin =
      bytes_before(border) * (index + 1) + (layout == Layout::kOffset ? bytes : 0);
  const Extent extent = extent_of(type.sizes, strides);
  const uint64_t used = dtype_storage_bytes(type.dtype, extent.count);
  return {strides, begin + static_cast<uint64_t>(extent.lead) * bytes,
          Bytes(begin + used + bytes_behind(border, used, 1), Operand::kUnwritten)};
}

}  // namespace

std::string_view layout_name(Layout layout) {
  constexpr std::string_view kNames[] = {"dense",      "offset",        "rows",     "gaps",
                                         "transposed", "channels_last", "repeated", "reversed"};
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
    case Layout::kChannelsLast:
      return wide > 1 && sizes.size() > 2 && sizes[1] > 1;
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
  if (stride_rule == BP_STRIDES_DENSE) {
    return layout == Layout::kDense || layout == Layout::kOffset || layout == Layout::kTransposed ||
           layout == Layout::kChannelsLast;
  }
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
    case Layout::kChannelsLast:
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
  if (layout == Layout::kChannelsLast && rank > 2) {
    int64_t step = sizes[1];
    for (size_t i = rank; i-- > 2; step *= sizes[i]) strides[i] = step;
    strides[1] = 1;
    strides[0] = step;
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

Operand::Operand(Context& context, uint32_t dtype, const Dims& sizes, Border border,
                 Placement placement)
    : context_(context),
      dtype_(dtype),
      sizes_(sizes),
      strides_(placement.strides),
      offset_bytes_(placement.offset_bytes),
      block_(context, std::move(placement.content), border) {}

Operand::Operand(Context& context, const OracleTensor& values, Layout layout,
                 uint32_t alignment_bytes, Border border, size_t index)
    : Operand(context, values.dtype, values.sizes, border,
              place_input(values, layout, alignment_bytes, border, index)) {}

Operand::Operand(Context& context, const TensorType& type, const Dims& strides, Layout layout,
                 Border border, size_t index)
    : Operand(context, type.dtype, type.sizes, border,
              place_output(type, strides, layout, border, index)) {}

Bytes Operand::content_of(const OracleTensor& values, Layout layout, uint32_t alignment_bytes,
                          Border border, size_t index) {
  return place_input(values, layout, alignment_bytes, border, index).content;
}

bp_tensor Operand::tensor() const {
  const bp_mem first = block_.at(offset_bytes_);
  return {.handle = first.handle,
          .offset_bytes = first.offset_bytes,
          .storage_bytes = block_.storage_bytes(),
          .dtype = dtype_,
          .rank = static_cast<uint32_t>(sizes_.size()),
          .sizes = sizes_.data(),
          .strides = strides_.data(),
          .layout = 0,
          .flags = 0,
          .reserved = 0};
}

void Operand::expect_border(std::string_view what, const Bytes& found) const {
  const Bytes& before = block_.content();
  const uint64_t bytes = dtype_storage_bytes(dtype_, 1);
  const Extent extent = extent_of(sizes_, strides_);
  const uint64_t begin = offset_bytes_ - static_cast<uint64_t>(extent.lead) * bytes;
  const uint64_t used = dtype_storage_bytes(dtype_, extent.count);
  const auto same = [&](uint64_t from, uint64_t to) {
    return std::memcmp(found.data() + from, before.data() + from, to - from) == 0;
  };
  context_.expect(same(0, begin), words(what, ": nothing is written in front of it"));
  if (extent.count > count_of(sizes_)) {
    Bytes gaps = found;  // with the elements as they were
    for_each_element(sizes_, strides_, [&](int64_t, int64_t offset) {
      const uint64_t at = offset_bytes_ + static_cast<uint64_t>(offset) * bytes;
      std::memcpy(gaps.data() + at, before.data() + at, bytes);
    });
    context_.expect_bytes(words(what, ": what lies between its elements"),
                          std::span(gaps).subspan(begin, used),
                          std::span(before).subspan(begin, used));
  }
  context_.expect(same(begin + used, found.size()), words(what, ": nothing is written behind it"));
}

OracleTensor Operand::take(std::string_view what, const Dims& real) const {
  const Bytes found = block_.read();
  expect_border(what, found);
  const uint64_t bytes = dtype_storage_bytes(dtype_, 1);
  OracleTensor values = OracleTensor::zeros(dtype_, real);
  for_each_element(real, strides_, [&](int64_t place, int64_t offset) {
    std::memcpy(values.bytes.data() + static_cast<uint64_t>(place) * bytes,
                found.data() + offset_bytes_ + static_cast<uint64_t>(offset) * bytes, bytes);
  });
  return values;
}

}  // namespace bp::conform
