// SPDX-License-Identifier: Apache-2.0
//
// sort and argsort. Each element becomes an unsigned number in the order of the elements, beside
// its position: one code then sorts all dtypes, short lanes by comparing and long ones by their
// digits. Both keep the order of equal keys.
#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>
#include <utility>

#include "backplane/ops/sorting.h"
#include "element.hpp"
#include "indices.hpp"

namespace bp::cpu {
namespace {

// Up to here comparing is quicker than counting the digits.
constexpr int64_t kShortLane = 256;
constexpr int64_t kItemAlignment = 16;

struct SortPlan : bp_kernel_plan {
  bool descending = false;
  int64_t length = 0;
  int64_t outer = 1;
  int64_t inner = 1;
  int64_t item_bytes = 0;
  int64_t units = 1;  // that work at once
};

/// Both have the width of the key, so that an item has no gaps.
template <class Key>
struct Item {
  Key key;
  Key index;
};

/// What a dtype's bits mean.
struct Meaning {
  bool is_float = false;
  bool is_signed = false;
  uint64_t infinity = 0;  // of floats, as bits
};

Meaning meaning_of(uint32_t dtype) {
  switch (dtype) {
    case BP_DTYPE_F16:
      return {.is_float = true, .infinity = 0x7c00};
    case BP_DTYPE_BF16:
      return {.is_float = true, .infinity = 0x7f80};
    case BP_DTYPE_F32:
      return {.is_float = true, .infinity = 0x7f80'0000};
    case BP_DTYPE_F64:
      return {.is_float = true, .infinity = 0x7ff0'0000'0000'0000};
    default:
      return {.is_signed = (kSignedIntTypes & BP_DTYPE_BIT(dtype)) != 0};
  }
}

/// In the order of the numbers: both zeros are one, and every NaN is the largest.
template <class Bits>
Bits key_of(Bits bits, const Meaning& meaning) {
  constexpr Bits kSign = static_cast<Bits>(Bits{1} << (std::numeric_limits<Bits>::digits - 1));
  if (meaning.is_signed) return static_cast<Bits>(bits ^ kSign);
  if (!meaning.is_float) return bits;
  const Bits magnitude = static_cast<Bits>(bits & ~kSign);
  if (magnitude > meaning.infinity) return std::numeric_limits<Bits>::max();
  if (magnitude == 0) return kSign;
  return static_cast<Bits>((bits & kSign) != 0 ? ~bits : bits | kSign);
}

template <class Bits, class Key>
void load_items(const Bits* x, const SortPlan& plan, const Meaning& meaning, Item<Key>* items) {
  const Bits flip = plan.descending ? std::numeric_limits<Bits>::max() : Bits{0};
  for (int64_t i = 0; i < plan.length; ++i) {
    const Bits key = static_cast<Bits>(key_of(x[i * plan.inner], meaning) ^ flip);
    items[i] = {static_cast<Key>(key), static_cast<Key>(i)};
  }
}

/// By one digit of eight bits. False, and nothing moved: all items have the same.
template <class Key>
bool order_by_digit(const Item<Key>* from, int64_t count, int shift, Item<Key>* to) {
  std::array<int64_t, 256> places{};
  const auto digit = [shift](const Item<Key>& item) {
    return static_cast<size_t>(item.key >> shift & 255u);
  };
  for (int64_t i = 0; i < count; ++i) ++places[digit(from[i])];
  if (places[digit(from[0])] == count) return false;
  int64_t next = 0;
  for (int64_t& place : places) next += std::exchange(place, next);
  for (int64_t i = 0; i < count; ++i) to[places[digit(from[i])]++] = from[i];
  return true;
}

/// Where the ordered items are: `items` or `spare`, which is as long.
template <class Key>
const Item<Key>* order(Item<Key>* items, Item<Key>* spare, int64_t count, int key_bits) {
  if (count <= kShortLane) {
    std::sort(items, items + count, [](const Item<Key>& a, const Item<Key>& b) {
      return a.key != b.key ? a.key < b.key : a.index < b.index;
    });
    return items;
  }
  for (int shift = 0; shift < key_bits; shift += 8) {
    if (order_by_digit(items, count, shift, spare)) std::swap(items, spare);
  }
  return items;
}

/// One lane from x to y. Positions: y is i64, and gets these.
template <class Bits, class Key, bool kPositions>
void sort_lane(const std::byte* x_data, std::byte* y_data, int64_t first, const SortPlan& plan,
               const Meaning& meaning, std::byte* memory) {
  const Bits* const x = reinterpret_cast<const Bits*>(x_data) + first;
  auto* const items = reinterpret_cast<Item<Key>*>(memory);
  load_items(x, plan, meaning, items);
  const Item<Key>* const ordered =
      order(items, items + plan.length, plan.length, std::numeric_limits<Bits>::digits);
  for (int64_t i = 0; i < plan.length; ++i) {
    const auto index = static_cast<int64_t>(ordered[i].index);
    if constexpr (kPositions) {
      reinterpret_cast<int64_t*>(y_data)[first + i * plan.inner] = index;
    } else {
      reinterpret_cast<Bits*>(y_data)[first + i * plan.inner] = x[index * plan.inner];
    }
  }
}

using SortLane = decltype(&sort_lane<uint8_t, uint32_t, true>);

/// Positions of long lanes take 64 bits, and so do keys then.
bool is_wide(int64_t element_bytes, int64_t length) {
  return element_bytes > 4 || length > std::numeric_limits<uint32_t>::max();
}

template <class Bits, bool kPositions>
SortLane lane_of(bool wide) {
  if constexpr (sizeof(Bits) <= 4) {
    if (!wide) return sort_lane<Bits, uint32_t, kPositions>;
  }
  return sort_lane<Bits, uint64_t, kPositions>;
}

template <bool kPositions>
SortLane lane_of(uint32_t dtype, bool wide) {
  switch (sdk::dtype_bytes(dtype)) {
    case 1:
      return lane_of<uint8_t, kPositions>(wide);
    case 2:
      return lane_of<uint16_t, kPositions>(wide);
    case 4:
      return lane_of<uint32_t, kPositions>(wide);
    default:
      return lane_of<uint64_t, kPositions>(wide);
  }
}

std::unique_ptr<SortPlan> make_plan(bp_device* device, const bp_kernel_query& query, const char* op,
                                    int64_t axis_value, bool descending, bp_plan_info* info) {
  const bp_arg_info& x = arg_info(query, 0);
  const uint32_t axis = axis_from_front(op, axis_value, x.rank);
  auto plan = std::make_unique<SortPlan>();
  plan->descending = descending;
  plan->length = x.sizes[axis];
  for (uint32_t d = 0; d < x.rank; ++d) {
    if (d < axis) plan->outer *= x.sizes[d];
    if (d > axis) plan->inner *= x.sizes[d];
  }
  const int64_t lanes = plan->outer * plan->inner;
  if (lanes == 0 || plan->length == 0) return plan;
  const bool wide = is_wide(static_cast<int64_t>(sdk::dtype_bytes(x.dtype)), plan->length);
  plan->item_bytes = wide ? sizeof(Item<uint64_t>) : sizeof(Item<uint32_t>);
  plan->units = std::min<int64_t>(lanes, device->workers.thread_count());
  // The items of a lane, and as many spare ones.
  info->workspace_bytes = static_cast<uint64_t>(
      sdk::saturating_product({2, plan->length, plan->item_bytes, plan->units}));
  info->workspace_alignment_bytes = kItemAlignment;
  return plan;
}

std::unique_ptr<SortPlan> make_sort(bp_device* device, const bp_kernel_query& query,
                                    bp_plan_info* info) {
  const auto attrs = read_attributes(query.attributes, bp_attrs_sort_defaults());
  return make_plan(device, query, "sort", attrs.axis, attrs.descending != 0, info);
}

std::unique_ptr<SortPlan> make_argsort(bp_device* device, const bp_kernel_query& query,
                                       bp_plan_info* info) {
  const auto attrs = read_attributes(query.attributes, bp_attrs_argsort_defaults());
  return make_plan(device, query, "argsort", attrs.axis, attrs.descending != 0, info);
}

// Lanes of each unit have their own part of the workspace.
template <bool kPositions>
bp_status launch(const bp_launch_args& args) {
  const auto& plan = *static_cast<const SortPlan*>(args.plan);
  const int64_t lanes = plan.outer * plan.inner;
  if (lanes == 0 || plan.length == 0) return BP_OK;
  const bp_tensor& x = input_of(args, 0);
  const Meaning meaning = meaning_of(x.dtype);
  const auto element_bytes = static_cast<int64_t>(sdk::dtype_bytes(x.dtype));
  const SortLane sort = lane_of<kPositions>(x.dtype, is_wide(element_bytes, plan.length));
  const std::byte* const from = address_of(x);
  std::byte* const to = address_of(output_of(args));
  std::byte* const memory = address_of(args.workspace);
  const int64_t cost = sdk::saturating_product({lanes / plan.units + 1, plan.length, 16});
  args.device->workers.for_ranges(plan.units, cost, [&](int64_t begin, int64_t end) noexcept {
    for (int64_t unit = begin; unit < end; ++unit) {
      std::byte* const own = memory + unit * 2 * plan.length * plan.item_bytes;
      const int64_t last = lanes * (unit + 1) / plan.units;
      for (int64_t lane = lanes * unit / plan.units; lane < last; ++lane) {
        const int64_t first = lane / plan.inner * plan.length * plan.inner + lane % plan.inner;
        sort(from, to, first, plan, meaning, own);
      }
    }
  });
  return BP_OK;
}

constexpr uint64_t kMasks[] = {kNumberTypes};

constexpr bp_kernel kKernels[] = {sdk::describe({.name = "sort_digits",
                                                 .op = "sort",
                                                 .dtypes = kMasks,
                                                 .depends_on = BP_DEPENDS_SIZES_BIT,
                                                 .plan = plan_slot<SortPlan, make_sort>,
                                                 .plan_free = sdk::delete_plan<bp_kernel_plan>,
                                                 .launch = launch_slot<launch<false>>}),
                                  sdk::describe({.name = "argsort_digits",
                                                 .op = "argsort",
                                                 .dtypes = kMasks,
                                                 .depends_on = BP_DEPENDS_SIZES_BIT,
                                                 .plan = plan_slot<SortPlan, make_argsort>,
                                                 .plan_free = sdk::delete_plan<bp_kernel_plan>,
                                                 .launch = launch_slot<launch<true>>})};

}  // namespace

BP_SDK_KERNELS(sort, kKernels);

}  // namespace bp::cpu
