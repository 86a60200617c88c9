// SPDX-License-Identifier: Apache-2.0
//
// Arguments in device memory: in any layout, with a border round them and gaps between them, so
// that what is read or written beside the elements shows.
#ifndef BACKPLANE_SDK_CONFORM_KERNELS_OPERAND_HPP
#define BACKPLANE_SDK_CONFORM_KERNELS_OPERAND_HPP

#include <span>
#include <string_view>

#include "backplane/kernel.h"
#include "core/op/schema.hpp"
#include "ops/oracle/oracle_tensor.hpp"
#include "sdk/conform/context.hpp"
#include "sdk/conform/kernels/block.hpp"

namespace bp::conform {

enum class Layout {
  kDense,
  kOffset,        // dense, but it begins one step of its alignment behind a boundary
  kRows,          // gaps between rows
  kGaps,          // gaps everywhere
  kTransposed,    // the first dimension is the dense one
  kChannelsLast,  // the second dimension is the dense one
  kRepeated,      // the first dimension has stride 0
  kReversed,      // the last dimension runs backwards
};
std::string_view layout_name(Layout layout);
/// Whether sizes can have the layout, other than as a dense one, and a rule (BP_STRIDES_*) admits
/// it.
bool can_lie(Layout layout, const Dims& sizes);
bool takes(uint32_t stride_rule, Layout layout, const Dims& sizes);
Dims strides_in(Layout layout, const Dims& sizes);
/// Makes all slices of the first dimension alike, as stride 0 has them.
void repeat_first(OracleTensor* tensor);

/// Bytes of a memory, and where in it the elements are.
struct Placement {
  Dims strides;
  uint64_t offset_bytes = 0;  // of element [0, 0, ...]
  Bytes content;
};

/// A tensor in a memory of its own.
class Operand {
 public:
  static constexpr std::byte kUnwritten{0xA7};

  /// An input: `values` in a layout. Each argument `index` begins at an offset of its own.
  Operand(Context& context, const OracleTensor& values, Layout layout, uint32_t alignment_bytes,
          Border border, size_t index);
  /// An output, all kUnwritten, as are the gaps that its strides leave. `layout`: kOffset begins
  /// one element behind a boundary, since outputs are promised no more.
  Operand(Context& context, const TensorType& type, const Dims& strides, Layout layout,
          Border border, size_t index);

  /// The bytes of an input's memory that these values make.
  static Bytes content_of(const OracleTensor& values, Layout layout, uint32_t alignment_bytes,
                          Border border, size_t index);
  /// Other bytes of the same number into its memory.
  void refill(Bytes content) { block_.refill(std::move(content)); }
  /// An output: as it was made.
  void refill_unwritten() { block_.refill(Bytes(block_.content())); }

  bp_tensor tensor() const;
  /// Expects that not one byte of an input has changed.
  void expect_unchanged(std::string_view what) const { block_.expect_unchanged(what); }
  /// Expects that a page beside it was left alone.
  void expect_untouched(std::string_view what) const { block_.expect_untouched(what); }
  /// What an output holds; expects that its border and its gaps are as they were. `real`: the sizes
  /// that the kernel told, at most those that it was given.
  OracleTensor take(std::string_view what, const Dims& real) const;

 private:
  Operand(Context& context, uint32_t dtype, const Dims& sizes, Border border, Placement placement);

  void expect_border(std::string_view what, const Bytes& found) const;

  Context& context_;
  uint32_t dtype_;
  Dims sizes_;
  Dims strides_;
  uint64_t offset_bytes_;  // of element [0, 0, ...] from the begin of the block
  Block block_;
};

}  // namespace bp::conform

#endif
