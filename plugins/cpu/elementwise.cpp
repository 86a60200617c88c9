// SPDX-License-Identifier: Apache-2.0
//
// Row finding for elementwise kernels. See elementwise.hpp.
#include "elementwise.hpp"

#include <algorithm>

#include "kernel_support.hpp"
#include "math/copies.hpp"
#include "nest.hpp"

namespace bp::cpu {
namespace {

static_assert(kMaxMapInputs + 1 <= kMaxOperands);

constexpr int64_t kNoStride = -1;

// The stride of an input that needs no nest: 1 if it runs along the whole output, 0 if it is one
// element, else kNoStride. An input with as many elements as the output has its shape.
int64_t simple_stride(const bp_tensor& input, const bp_tensor& output, int64_t output_count,
                      bool is_row_major) {
  const int64_t count = sdk::element_count(input);
  if (count == 1) return 0;
  if (count != output_count) return kNoStride;
  return (is_row_major ? is_contiguous(input) : lie_alike(input, output)) ? 1 : kNoStride;
}

int64_t bytes_of(const bp_tensor& tensor) {
  return static_cast<int64_t>(sdk::dtype_bytes(tensor.dtype));
}

// The operands of a launch, first elements and bytes of one.
template <size_t InputCount>
struct Operands {
  explicit Operands(const bp_launch_args& args)
      : y(address_of(output_of(args))), y_bytes(bytes_of(output_of(args))) {
    for (size_t i = 0; i < InputCount; ++i) {
      const bp_tensor& input = args.tensors[i];
      inputs[i] = address_of(input);
      bytes[i] = bytes_of(input);
    }
  }

  std::byte* y;
  int64_t y_bytes;
  const std::byte* inputs[InputCount];
  int64_t bytes[InputCount];
};

// Of the inputs that lie across the output's rows, as a transposed view does, the dimension of the
// first; -1: none, or what is too little to matter. Element by element each takes a line of its
// own.
int crossed_dimension(const Nest& nest, int input_count) {
  constexpr int64_t kMuch = 1 << 14;
  constexpr int64_t kFewElements = 8;
  const int last = nest.rank - 1;
  if (nest.count < kMuch || nest.sizes[last] < kFewElements || nest.strides[0][last] != 1)
    return -1;
  for (int k = 1; k <= input_count; ++k) {
    const int crossing = nest.strides[k][last] != 0 ? crossing_dimension(nest, k) : -1;
    if (crossing >= 0 && nest.sizes[crossing] >= kFewElements) return crossing;
  }
  return -1;
}

// A walk over tiles of the plane of dimension `crossing` and the last one. An input that lies
// across the rows is turned in a buffer, a tile at a time.
template <size_t InputCount>
class TileWalk {
 public:
  TileWalk(const Nest& nest, int crossing, const Operands<InputCount>& operands, const MapRow& row)
      : nest_(nest), crossing_(crossing), last_(nest.rank - 1), operands_(operands), row_(row) {
    for (size_t i = 0; i < InputCount; ++i) {
      const int64_t* const strides = nest.strides[i + 1];
      is_turned_[i] = strides[crossing] == 1 && strides[last_] != 0 && strides[last_] != 1;
      if (!is_turned_[i]) continue;
      row_.strides[i] = 1;
      columns_ = std::min(columns_, kBufferBytes / kRows / operands.bytes[i]);
    }
  }

  // Strips of tiles: each takes all of dimension `crossing`.
  int64_t strip_count() const { return nest_.count / plane_count() * blocks(); }
  int64_t strip_elements() const { return nest_.sizes[crossing_] * columns_; }

  void run_strip(int64_t strip) const {
    int64_t offsets[InputCount + 1];
    const int64_t column = strip % blocks() * columns_;
    for (size_t k = 0; k <= InputCount; ++k) offsets[k] = column * nest_.strides[k][last_];
    add_place(nest_, static_cast<int>(InputCount) + 1, 1u << crossing_, strip / blocks(), offsets);
    const int64_t columns = std::min(columns_, nest_.sizes[last_] - column);
    for (int64_t at = 0; at < nest_.sizes[crossing_]; at += kRows) {
      run_tile(offsets, at, std::min(kRows, nest_.sizes[crossing_] - at), columns);
    }
  }

 private:
  static constexpr int64_t kRows = 32;
  static constexpr int64_t kBufferBytes = int64_t{32} << 10;

  int64_t plane_count() const { return nest_.sizes[crossing_] * nest_.sizes[last_]; }
  int64_t blocks() const { return (nest_.sizes[last_] - 1) / columns_ + 1; }

  void run_tile(const int64_t* offsets, int64_t first, int64_t rows, int64_t columns) const {
    alignas(64) std::byte buffers[InputCount][kBufferBytes];
    for (size_t i = 0; i < InputCount; ++i) {
      if (!is_turned_[i]) continue;
      copy_across({.y = buffers[i],
                   .x = operands_.inputs[i] + (offsets[i + 1] + first) * operands_.bytes[i],
                   .y_row = columns_,
                   .x_row = nest_.strides[i + 1][last_],
                   .rows = rows,
                   .columns = columns,
                   .element_bytes = operands_.bytes[i],
                   .past_cache = false});
    }
    MapRow part = row_;
    part.count = columns;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t y_at = offsets[0] + (first + r) * nest_.strides[0][crossing_];
      part.y = operands_.y + y_at * operands_.y_bytes;
      for (size_t i = 0; i < InputCount; ++i) {
        const int64_t at = offsets[i + 1] + (first + r) * nest_.strides[i + 1][crossing_];
        part.inputs[i] = is_turned_[i] ? buffers[i] + r * columns_ * operands_.bytes[i]
                                       : operands_.inputs[i] + at * operands_.bytes[i];
      }
      part.form->function(part);
    }
  }

  const Nest& nest_;
  const int crossing_;
  const int last_;
  const Operands<InputCount>& operands_;
  MapRow row_;
  bool is_turned_[InputCount];
  int64_t columns_ = kBufferBytes / kRows;
};

template <size_t InputCount>
bp_status run_nest(const bp_launch_args& args, const MapRow& given) {
  const Operands<InputCount> operands(args);
  const bp_tensor* inputs[InputCount];
  for (size_t i = 0; i < InputCount; ++i) inputs[i] = &args.tensors[i];
  const Nest nest = broadcast_nest(output_of(args), inputs, static_cast<int>(InputCount));
  MapRow row = given;
  for (size_t i = 0; i < InputCount; ++i) row.strides[i] = nest.strides[i + 1][nest.rank - 1];
  constexpr int kInputs = static_cast<int>(InputCount);
  if (const int crossing = crossed_dimension(nest, kInputs); crossing >= 0) {
    const TileWalk<InputCount> walk(nest, crossing, operands, row);
    args.device->workers.for_ranges(walk.strip_count(),
                                    walk.strip_elements() * given.form->item_cost,
                                    [&](int64_t begin, int64_t end) noexcept {
                                      for (int64_t at = begin; at < end; ++at) walk.run_strip(at);
                                      if (given.form->past_cache) finish_stream();
                                    });
    return BP_OK;
  }
  args.device->workers.for_ranges(
      nest.count, given.form->item_cost, [&](int64_t begin, int64_t end) noexcept {
        walk_rows(nest, kInputs + 1, begin, end, [&](const int64_t* offsets, int64_t row_count) {
          MapRow part = row;
          part.y = operands.y + offsets[0] * operands.y_bytes;
          for (size_t i = 0; i < InputCount; ++i) {
            part.inputs[i] = operands.inputs[i] + offsets[i + 1] * operands.bytes[i];
          }
          part.count = row_count;
          part.form->function(part);
        });
        if (given.form->past_cache) finish_stream();
      });
  return BP_OK;
}

}  // namespace

template <size_t InputCount>
bp_status run_map(const bp_launch_args& args, const MapForm& form) {
  const int64_t count = sdk::element_count(output_of(args));
  if (count == 0) return BP_OK;
  MapRow row{.y = nullptr,
             .inputs = {},
             .strides = {},
             .count = count,
             .constants = form.constants,
             .form = &form};
  bool is_simple = true;
  const bool is_row_major = is_contiguous(output_of(args));
  for (size_t i = 0; i < InputCount; ++i) {
    row.strides[i] = simple_stride(args.tensors[i], output_of(args), count, is_row_major);
    is_simple = is_simple && row.strides[i] != kNoStride;
  }
  if (!is_simple) return run_nest<InputCount>(args, row);
  const Operands<InputCount> operands(args);
  args.device->workers.for_ranges(count, form.item_cost, [&](int64_t begin, int64_t end) noexcept {
    MapRow part = row;
    part.y = operands.y + begin * operands.y_bytes;
    for (size_t i = 0; i < InputCount; ++i) {
      part.inputs[i] = operands.inputs[i] + begin * row.strides[i] * operands.bytes[i];
    }
    part.count = end - begin;
    form.function(part);
    if (form.past_cache) finish_stream();
  });
  return BP_OK;
}

std::unique_ptr<OrderedPlan> plan_map(bp_device*, const bp_kernel_query& query,
                                      bp_plan_info* info) {
  auto plan = std::make_unique<OrderedPlan>();
  follow_inputs(query, plan.get(), info);
  return plan;
}

template bp_status run_map<1>(const bp_launch_args&, const MapForm&);
template bp_status run_map<2>(const bp_launch_args&, const MapForm&);
template bp_status run_map<3>(const bp_launch_args&, const MapForm&);

}  // namespace bp::cpu
