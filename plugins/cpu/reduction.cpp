// SPDX-License-Identifier: Apache-2.0
//
// The walks of reductions, for all dtypes. See reduction.hpp.
#include "reduction.hpp"

#include <cstdlib>
#include <string>

#include "nest.hpp"

namespace bp::cpu {
namespace {

// With no more outputs than kFewOutputs the reduced elements are divided, into parts of kPart of
// them and no more than kMostParts.
constexpr int64_t kFewOutputs = 8;
constexpr int64_t kPart = 16384;
constexpr int64_t kMostParts = 64;

struct Reduction {
  Nest kept;     // operands: y, x
  Nest reduced;  // operand: x
};

struct Accumulators {
  alignas(uint64_t) std::byte bytes[kReductionBlock * sizeof(uint64_t)];
};

struct Row {
  std::byte* y;
  const std::byte* x;
  int64_t x_stride;
  int64_t count;  // of outputs
};

// Where neighbours in memory belong to different outputs.
bool outputs_are_closer(const Reduction& reduction) {
  const Nest& kept = reduction.kept;
  const Nest& reduced = reduction.reduced;
  return kept.sizes[kept.rank - 1] > 1 &&
         std::abs(kept.strides[1][kept.rank - 1]) < std::abs(reduced.strides[0][reduced.rank - 1]);
}

// The reduced elements [begin, end) of one output.
void fold_one(const ReductionSteps& steps, const Nest& reduced, const std::byte* x, int64_t begin,
              int64_t end, void* accumulator) {
  const int64_t stride = reduced.strides[0][reduced.rank - 1];
  if (reduced.rank == 1) {  // short rows are as quick as the walk to them
    steps.fold(accumulator, x + begin * stride * steps.element_bytes, stride, end - begin);
    return;
  }
  walk_rows(reduced, 1, begin, end, [&](const int64_t* offsets, int64_t count) {
    steps.fold(accumulator, x + offsets[0] * steps.element_bytes, stride, count);
  });
}

// Those of `outputs` outputs, which lie x_stride apart.
void fold_block(const ReductionSteps& steps, const Nest& reduced, const std::byte* x,
                int64_t x_stride, int64_t outputs, int64_t begin, int64_t end, void* accumulators) {
  const int64_t stride = reduced.strides[0][reduced.rank - 1];
  walk_rows(reduced, 1, begin, end, [&](const int64_t* offsets, int64_t count) {
    steps.fold_rows(accumulators, outputs, x + offsets[0] * steps.element_bytes, x_stride, count,
                    stride);
  });
}

void reduce_one_by_one(const ReductionSteps& steps, const Nest& reduced, const Row& row) {
  for (int64_t i = 0; i < row.count; ++i) {
    Accumulators accumulators;
    steps.start(accumulators.bytes, 1);
    fold_one(steps, reduced, row.x + i * row.x_stride * steps.element_bytes, 0, reduced.count,
             accumulators.bytes);
    steps.finish(row.y + i * steps.element_bytes, accumulators.bytes, 1, reduced.count);
  }
}

void reduce_in_blocks(const ReductionSteps& steps, const Nest& reduced, const Row& row) {
  for (int64_t i = 0; i < row.count; i += kReductionBlock) {
    const int64_t block = std::min(kReductionBlock, row.count - i);
    Accumulators accumulators;
    steps.start(accumulators.bytes, block);
    fold_block(steps, reduced, row.x + i * row.x_stride * steps.element_bytes, row.x_stride, block,
               0, reduced.count, accumulators.bytes);
    steps.finish(row.y + i * steps.element_bytes, accumulators.bytes, block, reduced.count);
  }
}

// Outputs [begin, end).
void reduce_range(const ReductionSteps& steps, const Reduction& reduction, std::byte* y,
                  const std::byte* x, int64_t begin, int64_t end) {
  const Nest& kept = reduction.kept;
  const auto reduce_row = outputs_are_closer(reduction) ? reduce_in_blocks : reduce_one_by_one;
  walk_rows(kept, 2, begin, end, [&](const int64_t* offsets, int64_t count) {
    reduce_row(steps, reduction.reduced,
               {.y = y + offsets[0] * steps.element_bytes,
                .x = x + offsets[1] * steps.element_bytes,
                .x_stride = kept.strides[1][kept.rank - 1],
                .count = count});
  });
}

// The few outputs of a part.
struct Part {
  alignas(uint64_t) std::byte bytes[kFewOutputs * sizeof(uint64_t)];
};

// The reduced elements [begin, end) of all outputs.
void fold_part(const ReductionSteps& steps, const Reduction& reduction, const std::byte* x,
               int64_t begin, int64_t end, Part* part) {
  const Nest& kept = reduction.kept;
  const int64_t x_stride = kept.strides[1][kept.rank - 1];
  const bool in_blocks = outputs_are_closer(reduction);
  steps.start(part->bytes, kept.count);
  walk_rows(kept, 2, 0, kept.count, [&](const int64_t* offsets, int64_t count) {
    std::byte* const accumulators = part->bytes + offsets[0] * steps.accumulator_bytes;
    const std::byte* const first = x + offsets[1] * steps.element_bytes;
    if (in_blocks) {
      fold_block(steps, reduction.reduced, first, x_stride, count, begin, end, accumulators);
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      fold_one(steps, reduction.reduced, first + i * x_stride * steps.element_bytes, begin, end,
               accumulators + i * steps.accumulator_bytes);
    }
  });
}

// Outputs are contiguous, and kept in their order.
void reduce_in_parts(Workers& workers, const ReductionSteps& steps, const Reduction& reduction,
                     std::byte* y, const std::byte* x) {
  Part parts[kMostParts];
  const int64_t total = reduction.reduced.count;
  const int64_t part_items = std::max(kPart, (total - 1) / kMostParts + 1);
  const int64_t part_count = (total - 1) / part_items + 1;
  workers.for_ranges(part_count, part_items * reduction.kept.count,
                     [&](int64_t begin, int64_t end) noexcept {
                       for (int64_t p = begin; p < end; ++p) {
                         fold_part(steps, reduction, x, p * part_items,
                                   std::min((p + 1) * part_items, total), &parts[p]);
                       }
                     });
  for (int64_t p = 1; p < part_count; ++p) {
    steps.merge(parts[0].bytes, parts[p].bytes, reduction.kept.count);
  }
  steps.finish(y, parts[0].bytes, reduction.kept.count, total);
}

// Bit i is set if dimension i is reduced. Without axes all of them are.
uint32_t reduced_dimensions(std::span<const int64_t> axes, uint32_t rank) {
  if (axes.empty()) return (1u << rank) - 1;
  uint32_t mask = 0;
  for (const int64_t axis : axes) {
    const int64_t dimension = axis < 0 ? axis + rank : axis;
    if (dimension < 0 || dimension >= rank) {
      throw sdk::Failure{BP_INVALID_ARGUMENT, "reduction: axis " + std::to_string(axis) +
                                                  " of a tensor of rank " + std::to_string(rank)};
    }
    mask |= 1u << dimension;
  }
  return mask;
}

Reduction make_reduction(const bp_tensor& x, uint32_t reduced_mask) {
  Reduction reduction;
  for (uint32_t d = 0; d < x.rank; ++d) {
    if ((reduced_mask >> d & 1u) != 0) {
      Nest& nest = reduction.reduced;
      nest.strides[0][nest.rank] = x.strides[d];
      nest.add_dimension(x.sizes[d]);
    } else {
      Nest& nest = reduction.kept;
      nest.strides[1][nest.rank] = x.strides[d];
      nest.add_dimension(x.sizes[d]);
    }
  }
  Nest& kept = reduction.kept;
  int64_t y_stride = 1;
  for (int d = kept.rank - 1; d >= 0; --d) {
    kept.strides[0][d] = y_stride;
    y_stride *= kept.sizes[d];
  }
  simplify(&reduction.kept, 2);
  simplify(&reduction.reduced, 1);
  return reduction;
}

}  // namespace

bp_status run_reduction(const bp_launch_args& args, const ReductionSteps& steps,
                        std::span<const int64_t> axes, int64_t item_cost) {
  const bp_tensor& x = input_of(args, 0);
  const Reduction reduction = make_reduction(x, reduced_dimensions(axes, x.rank));
  std::byte* const y_data = address_of(output_of(args));
  const std::byte* const x_data = address_of(x);
  const int64_t output_count = reduction.kept.count;
  if (output_count == 0) return BP_OK;
  if (output_count <= kFewOutputs && reduction.reduced.count >= 2 * kPart) {
    reduce_in_parts(args.device->workers, steps, reduction, y_data, x_data);
    return BP_OK;
  }
  const int64_t cost =
      sdk::saturating_product({std::max<int64_t>(1, reduction.reduced.count), item_cost});
  args.device->workers.for_ranges(output_count, cost, [&](int64_t begin, int64_t end) noexcept {
    reduce_range(steps, reduction, y_data, x_data, begin, end);
  });
  return BP_OK;
}

}  // namespace bp::cpu
