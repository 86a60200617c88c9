// SPDX-License-Identifier: Apache-2.0
//
// top_k by a threshold: candidates that beat the k-th best so far are gathered, and when there is
// no more room the best k of them are kept, which raises the threshold. Once it stands high, most
// elements are passed over a block at a time.
#include <algorithm>
#include <type_traits>

#include "backplane/ops/sorting.h"
#include "element.hpp"
#include "indices.hpp"
#include "math/reduce_rows.hpp"

namespace bp::cpu {
namespace {

constexpr int64_t kBlock = kBeatenBlock;  // elements looked at together
// Candidates beside the 2 k that make a selection cheap. Few, so that the threshold is soon high.
constexpr int64_t kExtraRoom = 128;
constexpr int64_t kCandidateBytes = 16;

struct TopKPlan : bp_kernel_plan {
  uint32_t axis = 0;
  bool largest = true;
  int64_t k = 0;
  int64_t length = 0;
  int64_t outer = 1;
  int64_t inner = 1;
  int64_t room = 0;   // candidates per unit
  int64_t units = 1;  // that work at once
};

template <class C>
struct Candidate {
  C value;
  int64_t index;
};

// NaN is larger than every number.
template <bool kLargest, class C>
bool comes_before(const Candidate<C>& a, const Candidate<C>& b) {
  const bool a_is_nan = a.value != a.value;
  const bool b_is_nan = b.value != b.value;
  if (a_is_nan != b_is_nan) return kLargest ? a_is_nan : b_is_nan;
  if (!a_is_nan && a.value != b.value) return kLargest ? a.value > b.value : a.value < b.value;
  return a.index < b.index;
}

// A later element that is equal loses; NaNs are let through, for the selection to judge.
template <bool kLargest, class C>
bool may_beat(C value, C threshold) {
  return kLargest ? !(value <= threshold) : !(value >= threshold);
}

/// Takes up to kBlock elements; loops of a length that is known become vector code.
template <class T>
int64_t take_block(const T* x, int64_t left, int64_t step, Compute<T>* block) {
  if (left >= kBlock && step == 1) {
    for (int64_t i = 0; i < kBlock; ++i) block[i] = load(x[i]);
    return kBlock;
  }
  const int64_t size = std::min(kBlock, left);
  for (int64_t i = 0; i < size; ++i) block[i] = load(x[i * step]);
  return size;
}

template <bool kLargest, class C>
bool any_may_beat(const C* block, C threshold) {
  int beaten = 0;
  for (int64_t i = 0; i < kBlock; ++i) beaten |= may_beat<kLargest>(block[i], threshold) ? 1 : 0;
  return beaten != 0;
}

/// Elements from `begin` on that cannot be among the best, in whole blocks.
template <bool kLargest, class T>
int64_t passed_over(const T* x, int64_t begin, const TopKPlan& plan, Compute<T> threshold) {
  if constexpr (std::is_same_v<T, float>) {
    if (plan.inner == 1) {
      return count_beaten(x + begin, plan.length - begin, threshold, kLargest);
    }
  }
  Compute<T> block[kBlock];
  int64_t at = begin;
  for (; plan.length - at >= kBlock; at += kBlock) {
    take_block(x + at * plan.inner, kBlock, plan.inner, block);
    if (any_may_beat<kLargest>(block, threshold)) break;
  }
  return at - begin;
}

/// Leaves the best k in front, in their order.
template <bool kLargest, class T>
void choose(const T* x, const TopKPlan& plan, Candidate<Compute<T>>* found) {
  using C = Compute<T>;
  int64_t count = 0;
  bool full = false;
  C threshold{};
  C block[kBlock];
  for (int64_t begin = 0; begin < plan.length; begin += kBlock) {
    if (full) begin += passed_over<kLargest>(x, begin, plan, threshold);
    if (begin == plan.length) break;
    const int64_t size = take_block(x + begin * plan.inner, plan.length - begin, plan.inner, block);
    for (int64_t i = 0; i < size; ++i) {
      if (full && !may_beat<kLargest>(block[i], threshold)) continue;
      found[count++] = {block[i], begin + i};
    }
    if (count + kBlock <= plan.room) continue;
    if (begin + size == plan.length) break;
    std::nth_element(found, found + plan.k - 1, found + count, comes_before<kLargest, C>);
    count = plan.k;
    threshold = found[plan.k - 1].value;
    full = true;
  }
  std::partial_sort(found, found + plan.k, found + count, comes_before<kLargest, C>);
}

// Lanes of unit `unit`, whose candidates have their own part of the workspace.
template <class T>
struct TopK {
  static void run(const TopKPlan& plan, const bp_launch_args& args, int64_t unit) {
    const int64_t lanes = plan.outer * plan.inner;
    auto* const found = reinterpret_cast<Candidate<Compute<T>>*>(
        address_of(args.workspace) + unit * plan.room * kCandidateBytes);
    const T* const x = address_of<const T>(input_of(args, 0));
    T* const y = address_of<T>(args.tensors[args.input_count]);
    int64_t* const indices = address_of<int64_t>(args.tensors[args.input_count + 1]);
    const int64_t end = lanes * (unit + 1) / plan.units;
    for (int64_t lane = lanes * unit / plan.units; lane < end; ++lane) {
      const int64_t outer = lane / plan.inner;
      const int64_t inner = lane % plan.inner;
      const T* const from = x + outer * plan.length * plan.inner + inner;
      if (plan.largest) {
        choose<true>(from, plan, found);
      } else {
        choose<false>(from, plan, found);
      }
      for (int64_t i = 0; i < plan.k; ++i) {
        const int64_t to = (outer * plan.k + i) * plan.inner + inner;
        y[to] = from[found[i].index * plan.inner];
        indices[to] = found[i].index;
      }
    }
  }
};

constexpr auto kTable = number_table<TopK>();

std::unique_ptr<TopKPlan> make_plan(bp_device* device, const bp_kernel_query& query,
                                    bp_plan_info* info) {
  const auto attrs = read_attributes(query.attributes, bp_attrs_top_k_defaults());
  const bp_arg_info& x = arg_info(query, 0);
  auto plan = std::make_unique<TopKPlan>();
  plan->axis = axis_from_front("top_k", attrs.axis, x.rank);
  plan->largest = attrs.largest != 0;
  plan->k = output_info(query).sizes[plan->axis];
  plan->length = x.sizes[plan->axis];
  if (plan->k > plan->length) sdk::refuse("top_k: ", plan->k, " of ", plan->length);
  for (uint32_t d = 0; d < x.rank; ++d) {
    if (d < plan->axis) plan->outer *= x.sizes[d];
    if (d > plan->axis) plan->inner *= x.sizes[d];
  }
  const int64_t lanes = plan->outer * plan->inner;
  if (lanes == 0 || plan->k == 0) return plan;
  // One block more than needed, so that a block always fits.
  plan->room =
      std::min(plan->length, plan->k < plan->length / 2 ? 2 * plan->k + kExtraRoom : plan->length) +
      kBlock;
  plan->units = std::min<int64_t>(lanes, device->workers.thread_count());
  info->workspace_bytes =
      static_cast<uint64_t>(sdk::saturating_product({plan->room, plan->units, kCandidateBytes}));
  info->workspace_alignment_bytes = kCandidateBytes;
  return plan;
}

bp_status launch(const bp_launch_args& args) {
  const auto& plan = *static_cast<const TopKPlan*>(args.plan);
  const int64_t lanes = plan.outer * plan.inner;
  if (lanes == 0 || plan.k == 0) return BP_OK;
  const auto run = kTable[input_of(args, 0).dtype];
  const int64_t cost = sdk::saturating_product({lanes / plan.units + 1, plan.length});
  args.device->workers.for_ranges(plan.units, cost, [&](int64_t begin, int64_t end) noexcept {
    for (int64_t unit = begin; unit < end; ++unit) run(plan, args, unit);
  });
  return BP_OK;
}

constexpr uint64_t kMasks[] = {kNumberTypes};

constexpr bp_kernel kKernels[] = {sdk::describe({.name = "top_k_threshold",
                                                 .op = "top_k",
                                                 .dtypes = kMasks,
                                                 .depends_on = BP_DEPENDS_SIZES_BIT,
                                                 .plan = plan_slot<TopKPlan, make_plan>,
                                                 .plan_free = sdk::delete_plan<bp_kernel_plan>,
                                                 .launch = launch_slot<launch>})};

}  // namespace

BP_SDK_KERNELS(top_k, kKernels);

}  // namespace bp::cpu
