// SPDX-License-Identifier: Apache-2.0
//
// gather: slices along one axis, copied as bytes. An index out of range is clamped and goes to the
// fault word, so that no index can make it read outside its input.
#include <algorithm>
#include <cstring>

#include "backplane/ops/indexing.h"
#include "indices.hpp"

namespace bp::cpu {
namespace {

struct GatherPlan : bp_kernel_plan {
  uint32_t axis = 0;
};

struct Gather {
  const std::byte* x;
  const void* indices;
  std::byte* y;
  int64_t extent;       // of the axis
  int64_t index_count;  // rows of y per outer index
  int64_t row_bytes;    // of one slice
  FaultReport report;
  ResolveIndices resolve;
};

// Neighbouring rows of y that are neighbours in x too.
struct Run {
  int64_t first;  // index
  int64_t end;
  int64_t place;  // of the first, in bytes from the outer index' slices on
};

// The few runs that indices often are, above all where an image is padded.
struct Runs {
  static constexpr int kMost = 64;
  Run runs[kMost];
  int count = 0;

  /// False: there are more.
  bool add(int64_t index, int64_t place, int64_t row_bytes) {
    if (count > 0) {
      Run& last = runs[count - 1];
      if (place == last.place + (index - last.first) * row_bytes) {
        last.end = index + 1;
        return true;
      }
    }
    if (count == kMost) return false;
    runs[count++] = {index, index + 1, place};
    return true;
  }
};

IndexRow row_of_indices(const Gather& gather) {
  return {
      .indices = gather.indices, .stride = 1, .extent = gather.extent, .scale = gather.row_bytes};
}

// Calls visit(first index, places, count) for blocks of the indices [begin, end) until one gives
// false; places are in bytes.
template <class Visit>
bool for_each_block(const Gather& gather, int64_t begin, int64_t end, const Visit& visit) {
  int64_t places[kPlaceBlock];
  for (int64_t at = begin; at < end; at += kPlaceBlock) {
    const int64_t count = std::min(kPlaceBlock, end - at);
    gather.resolve(gather.report, row_of_indices(gather), at, count, 0, 0, places);
    if (!visit(at, places, count)) return false;
  }
  return true;
}

// False: the runs are many or short, so that slices are better copied one by one.
bool find_runs(const Gather& gather, Runs* runs) {
  constexpr int64_t kShortRun = 4;
  const bool are_few = for_each_block(gather, 0, gather.index_count,
                                      [&](int64_t at, const int64_t* places, int64_t count) {
                                        for (int64_t i = 0; i < count; ++i) {
                                          if (!runs->add(at + i, places[i], gather.row_bytes))
                                            return false;
                                        }
                                        return true;
                                      });
  return are_few && runs->count * kShortRun <= gather.index_count;
}

void copy_runs(const Gather& gather, const Runs& runs, const std::byte* x, int64_t begin,
               int64_t end, std::byte* y) {
  for (int i = 0; i < runs.count; ++i) {
    const Run& run = runs.runs[i];
    const int64_t first = std::max(run.first, begin);
    const int64_t count = std::min(run.end, end) - first;
    if (count <= 0) continue;
    std::memcpy(y + (first - begin) * gather.row_bytes,
                x + run.place + (first - run.first) * gather.row_bytes,
                static_cast<size_t>(count * gather.row_bytes));
  }
}

// Rows of the size of a T, copied by one load and one store.
template <class T>
void copy_elements(const Gather&, const std::byte* x, const int64_t* places, int64_t count,
                   std::byte* y) {
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(y + i * static_cast<int64_t>(sizeof(T)), x + places[i], sizeof(T));
  }
}

void copy_slices(const Gather& gather, const std::byte* x, const int64_t* places, int64_t count,
                 std::byte* y) {
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(y + i * gather.row_bytes, x + places[i], static_cast<size_t>(gather.row_bytes));
  }
}

using CopyPlaces = void (*)(const Gather&, const std::byte*, const int64_t*, int64_t, std::byte*);

CopyPlaces copy_places_of(int64_t row_bytes) {
  switch (row_bytes) {
    case 1:
      return copy_elements<uint8_t>;
    case 2:
      return copy_elements<uint16_t>;
    case 4:
      return copy_elements<uint32_t>;
    case 8:
      return copy_elements<uint64_t>;
    default:
      return copy_slices;
  }
}

// Rows [begin, end) of y.
void gather_rows(const Gather& gather, int64_t begin, int64_t end) {
  std::byte* const y = gather.y + begin * gather.row_bytes;
  if (gather.extent == 0) {  // nothing to clamp to
    int64_t place = 0;
    gather.resolve(gather.report, row_of_indices(gather), begin % gather.index_count, 1, 0, 0,
                   &place);
    std::memset(y, 0, static_cast<size_t>((end - begin) * gather.row_bytes));
    return;
  }
  const CopyPlaces copy_places = copy_places_of(gather.row_bytes);
  Runs runs;
  // Only where the indices come again and again does it pay to look for runs.
  const bool has_runs = end - begin >= 2 * gather.index_count && find_runs(gather, &runs);
  for (int64_t row = begin; row < end;) {
    const int64_t outer = row / gather.index_count;
    const int64_t first = row % gather.index_count;
    const int64_t last = std::min(gather.index_count, first + end - row);
    const std::byte* const x = gather.x + outer * gather.extent * gather.row_bytes;
    std::byte* const to = gather.y + row * gather.row_bytes;
    if (has_runs) {
      copy_runs(gather, runs, x, first, last, to);
    } else {
      for_each_block(gather, first, last, [&](int64_t at, const int64_t* places, int64_t count) {
        copy_places(gather, x, places, count, to + (at - first) * gather.row_bytes);
        return true;
      });
    }
    row += last - first;
  }
}

std::unique_ptr<GatherPlan> make_plan(bp_device*, const bp_kernel_query& query,
                                      bp_plan_info* info) {
  const auto attrs = read_attributes(query.attributes, bp_attrs_gather_defaults());
  const uint32_t rank = arg_info(query, 0).rank;
  auto plan = std::make_unique<GatherPlan>();
  plan->axis = axis_from_front("gather", attrs.axis, rank);
  info->flags = BP_PLAN_CAN_FAULT_BIT;
  return plan;
}

bp_status launch(const bp_launch_args& args) {
  const uint32_t axis = static_cast<const GatherPlan*>(args.plan)->axis;
  const bp_tensor& x = input_of(args, 0);
  const bp_tensor& indices = input_of(args, 1);
  int64_t outer = 1;
  int64_t row_bytes = static_cast<int64_t>(sdk::dtype_bytes(x.dtype));
  for (uint32_t d = 0; d < x.rank; ++d) {
    if (d < axis) outer *= x.sizes[d];
    if (d > axis) row_bytes *= x.sizes[d];
  }
  if (row_bytes == 0) return BP_OK;
  const Gather gather{.x = address_of(x),
                      .indices = address_of(indices),
                      .y = address_of(output_of(args)),
                      .extent = x.sizes[axis],
                      .index_count = sdk::element_count(indices),
                      .row_bytes = row_bytes,
                      .report = FaultReport::of(args, 1),
                      .resolve = resolve_indices(indices.dtype)};
  args.device->workers.for_ranges(
      outer * gather.index_count, row_bytes / 16 + 4,
      [&](int64_t begin, int64_t end) noexcept { gather_rows(gather, begin, end); });
  return BP_OK;
}

constexpr uint64_t kMasks[] = {kAnyTypes, kIndexTypes};

constexpr bp_kernel kKernels[] = {sdk::describe({.name = "gather_loop",
                                                 .op = "gather",
                                                 .dtypes = kMasks,
                                                 .plan = plan_slot<GatherPlan, make_plan>,
                                                 .plan_free = sdk::delete_plan<bp_kernel_plan>,
                                                 .launch = launch_slot<launch>})};

}  // namespace

BP_SDK_KERNELS(gather, kKernels);

}  // namespace bp::cpu
