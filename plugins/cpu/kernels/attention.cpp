// SPDX-License-Identifier: Apache-2.0
//
// attention without a matrix of scores: blocks of queries meet blocks of keys, and each query keeps
// the highest score so far, the sum of its weights and the weighted sum of v, which are scaled anew
// when a higher score comes (arXiv 2205.14135). The heads of q that share a head of k and v are one
// block of queries. Half types are computed in f32. Vector code by Highway, compiled for each
// instruction set and chosen when it runs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention.cpp"
// clang-format off: this file includes itself once per instruction set, before anything else.
#include "backplane/ops/attention.h"

#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "attention_shape.hpp"
#include "element.hpp"
#include "kernel_support.hpp"
#include "kernels/attention_steps-inl.hpp"

#ifndef BACKPLANE_PLUGINS_CPU_KERNELS_ATTENTION_ONCE
#define BACKPLANE_PLUGINS_CPU_KERNELS_ATTENTION_ONCE
namespace bp::cpu {

inline constexpr int64_t kQueryBlock = 64;
inline constexpr int64_t kKeyBlock = 64;
inline constexpr int64_t kWidest = 16;     // elements of the widest vector
inline constexpr int64_t kFewQueries = 8;  // below this, keys are read as they lie
inline constexpr int64_t kTileRows = 4;    // queries that are multiplied at once

struct AttentionPlan : bp_kernel_plan {
  AttentionShape shape;
  int64_t slots = 1;          // tasks at once, each with its own part of the workspace
  int64_t slot_elements = 0;  // of that part

  int64_t blocks() const { return (shape.rows() + kQueryBlock - 1) / kQueryBlock; }
  int64_t tasks() const { return shape.batch * shape.kv_heads * blocks(); }
};

struct AttentionOperands {
  const void* q;
  const void* k;
  const void* v;
  const void* mask;        // null: none
  const int64_t* lengths;  // null: none
  void* y;
};

inline int64_t padded_width(int64_t width) { return (width + kWidest - 1) / kWidest * kWidest; }

/// Elements of the type to compute in that one task needs; half types are widened there.
inline int64_t scratch_elements(const AttentionShape& shape, bool widens) {
  const int64_t widened = widens ? kKeyBlock * (shape.dim + shape.v_dim) : 0;
  return kQueryBlock * (shape.dim + padded_width(shape.v_dim) + kKeyBlock) + kKeyBlock * shape.dim +
         widened;
}

}  // namespace bp::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

/// One block of queries that share a head of k and v, against all of its keys.
template <class T>
class Task {
 public:
  using C = Compute<T>;
  static constexpr bool kWidens = !std::is_same_v<T, C>;

  Task(const AttentionPlan& plan, const AttentionOperands& data, int64_t index, C* scratch)
      : shape_(plan.shape), data_(data) {
    const int64_t head = index / plan.blocks();
    batch_ = head / shape_.kv_heads;
    kv_head_ = head % shape_.kv_heads;
    first_row_ = index % plan.blocks() * kQueryBlock;
    rows_ = std::min(kQueryBlock, shape_.rows() - first_row_);
    tiled_rows_ = rows_ == 1 ? 1 : (rows_ + kTileRows - 1) / kTileRows * kTileRows;
    sums_width_ = padded_width(shape_.v_dim);
    const auto take = [&scratch](int64_t count) { return std::exchange(scratch, scratch + count); };
    q_ = take(kQueryBlock * shape_.dim);
    sums_ = take(kQueryBlock * sums_width_);
    scores_ = take(kQueryBlock * kKeyBlock);
    transposed_ = take(kKeyBlock * shape_.dim);
    wide_k_ = take(kWidens ? kKeyBlock * shape_.dim : 0);
    wide_v_ = scratch;
  }

  void run() {
    load_queries();
    KeyRange range{shape_.keys, 0};
    for (int64_t r = 0; r < rows_; ++r) range = joined(range, seen_[r]);
    for (int64_t key = range.first; key < range.last; key += kKeyBlock) {
      run_keys(key, std::min(kKeyBlock, range.last - key));
    }
    store_results();
  }

 private:
  static KeyRange joined(const KeyRange& a, const KeyRange& b) {
    if (b.first == b.last) return a;
    return {std::min(a.first, b.first), std::max(a.last, b.last)};
  }

  /// Rows that fill up the last tile are zeros.
  void load_queries() {
    const int64_t given = data_.lengths == nullptr ? shape_.keys : data_.lengths[batch_];
    const int64_t length = std::clamp<int64_t>(given, 0, shape_.keys);
    const int64_t offset = data_.lengths == nullptr ? shape_.query_offset : length - shape_.queries;
    for (int64_t r = 0; r < rows_; ++r) {
      const int64_t head = kv_head_ * shape_.group() + (first_row_ + r) / shape_.queries;
      const int64_t query = (first_row_ + r) % shape_.queries;
      const T* const q = static_cast<const T*>(data_.q) + batch_ * shape_.q_strides[0] +
                         head * shape_.q_strides[1] + query * shape_.q_strides[2];
      widen_row(q, static_cast<size_t>(shape_.dim), static_cast<C>(shape_.scale),
                q_ + r * shape_.dim);
      seen_[r] = keys_seen(shape_, query + offset, length);
      mask_at_[r] = batch_ * shape_.mask_strides[0] + head * shape_.mask_strides[1] +
                    query * shape_.mask_strides[2];
    }
    std::fill(q_ + rows_ * shape_.dim, q_ + tiled_rows_ * shape_.dim, C{0});
    std::fill(scores_ + rows_ * kKeyBlock, scores_ + tiled_rows_ * kKeyBlock, C{0});
    std::fill_n(sums_, tiled_rows_ * sums_width_, C{0});
    std::fill_n(highest_, rows_, kMasked<C>);
    std::fill_n(totals_, rows_, C{0});
  }

  /// Rows [key, key + count) of k or v in the type to compute in.
  const C* rows_of(const void* tensor, const int64_t* strides, int64_t key, int64_t count,
                   int64_t width, C* wide, size_t* out_row) const {
    const T* const first = static_cast<const T*>(tensor) + batch_ * strides[0] +
                           kv_head_ * strides[1] + key * strides[2];
    if constexpr (kWidens) {
      for (int64_t j = 0; j < count; ++j) {
        widen_row(first + j * strides[2], static_cast<size_t>(width), C{1}, wide + j * width);
      }
      *out_row = static_cast<size_t>(width);
      return wide;
    } else {
      *out_row = static_cast<size_t>(strides[2]);
      return first;
    }
  }

  /// The part of a block of keys that a tile of queries sees, from a multiple of kWidest on.
  KeyRange seen_by_tile(int64_t first_row, int64_t key, int64_t count) const {
    KeyRange range{shape_.keys, 0};
    const int64_t end = std::min(first_row + kTileRows, rows_);
    for (int64_t r = first_row; r < end; ++r) range = joined(range, seen_[r]);
    const int64_t first = std::max<int64_t>(range.first - key, 0) / kWidest * kWidest;
    return {first, std::max(first, std::min(range.last - key, count))};
  }

  template <size_t kRows>
  void multiply_keys(int64_t row, const KeyRange& part) {
    C* const scores = scores_ + row * kKeyBlock + part.first;
    const auto keys = static_cast<size_t>(part.last - part.first);
    for (size_t r = 0; r < kRows; ++r) {
      std::fill_n(scores + r * kKeyBlock, in_vectors<C>(keys), C{0});
    }
    const auto dim = static_cast<size_t>(shape_.dim);
    multiply_rows<kRows>(BlockProduct<C>{.a = q_ + row * shape_.dim,
                                         .a_row = dim,
                                         .b = transposed_ + part.first,
                                         .b_row = kKeyBlock,
                                         .depth = dim,
                                         .columns = in_vectors<C>(keys),
                                         .c = scores,
                                         .c_row = kKeyBlock});
  }

  template <size_t kRows>
  void multiply_values(int64_t row, const KeyRange& part, const C* v, size_t v_row) {
    multiply_rows<kRows>(BlockProduct<C>{.a = scores_ + row * kKeyBlock + part.first,
                                         .a_row = kKeyBlock,
                                         .b = v + static_cast<size_t>(part.first) * v_row,
                                         .b_row = v_row,
                                         .depth = static_cast<size_t>(part.last - part.first),
                                         .columns = static_cast<size_t>(shape_.v_dim),
                                         .c = sums_ + row * sums_width_,
                                         .c_row = static_cast<size_t>(sums_width_)});
  }

  /// Takes the keys of the part out that row r does not see, and adds the mask.
  void restrict_row(int64_t r, int64_t key, const KeyRange& part) {
    C* const scores = scores_ + r * kKeyBlock;
    const auto width =
        static_cast<int64_t>(in_vectors<C>(static_cast<size_t>(part.last - part.first)));
    const int64_t first = std::clamp(seen_[r].first - key, part.first, part.last);
    const int64_t last = std::clamp(seen_[r].last - key, first, part.last);
    std::fill(scores + part.first, scores + first, kMasked<C>);
    std::fill(scores + last, scores + part.first + width, kMasked<C>);
    if (data_.mask == nullptr || first == last) return;
    const int64_t stride = shape_.mask_strides[3];
    add_mask_of(shape_.mask_dtype, scores + first, static_cast<const std::byte*>(data_.mask),
                mask_at_[r] + (key + first) * stride, stride, last - first);
  }

  /// Scores of row r, in whole vectors, become weights.
  void weigh_row(int64_t r, C* scores, size_t width) {
    const C highest = std::max(highest_[r], highest_of(scores, width));
    if (highest == kMasked<C>) {  // no key so far; NaN scores must still count
      const bool has_nan =
          std::any_of(scores, scores + width, [](C score) { return score != score; });
      if (has_nan) totals_[r] = std::numeric_limits<C>::quiet_NaN();
      std::fill_n(scores, width, C{0});
      return;
    }
    const C sum = weigh(scores, width, highest);
    if (highest == highest_[r]) {
      totals_[r] += sum;
      return;
    }
    const C factor = std::exp(highest_[r] - highest);
    highest_[r] = highest;
    totals_[r] = totals_[r] * factor + sum;
    scale_by(sums_ + r * sums_width_, static_cast<size_t>(sums_width_), factor);
  }

  void work_out_weights(int64_t row, int64_t key, const KeyRange& part, bool transposed) {
    const auto width = in_vectors<C>(static_cast<size_t>(part.last - part.first));
    if (transposed) multiply_keys<kTileRows>(row, part);
    const int64_t end = std::min(row + kTileRows, rows_);
    for (int64_t r = row; r < end; ++r) {
      C* const scores = scores_ + r * kKeyBlock + part.first;
      if (shape_.softcap > 0) cap_scores(scores, width, static_cast<C>(shape_.softcap));
      restrict_row(r, key, part);
      weigh_row(r, scores, width);
    }
  }

  /// Scores of few queries straight from k; of more, k transposed for the tiles to come.
  void prepare_keys(int64_t key, int64_t count) {
    size_t k_row = 0;
    const C* const k = rows_of(data_.k, shape_.k_strides, key, count, shape_.dim, wide_k_, &k_row);
    const auto dim = static_cast<size_t>(shape_.dim);
    const auto keys = static_cast<size_t>(count);
    if (rows_ < kFewQueries) {
      dot_keys(q_, static_cast<size_t>(rows_), k, k_row, keys, dim, scores_, kKeyBlock);
    } else {
      transpose(k, k_row, keys, dim, transposed_, kKeyBlock);
    }
  }

  void run_keys(int64_t key, int64_t count) {
    const bool transposed = rows_ >= kFewQueries;
    prepare_keys(key, count);
    for (int64_t row = 0; row < rows_; row += kTileRows) {
      const KeyRange part = seen_by_tile(row, key, count);
      if (part.first < part.last) work_out_weights(row, key, part, transposed);
    }
    size_t v_row = 0;
    const C* const v =
        rows_of(data_.v, shape_.v_strides, key, count, shape_.v_dim, wide_v_, &v_row);
    for (int64_t row = 0; row < rows_; row += kTileRows) {
      const KeyRange part = seen_by_tile(row, key, count);
      if (part.first == part.last) continue;
      if (rows_ == 1) {
        multiply_values<1>(row, part, v, v_row);
      } else {
        multiply_values<kTileRows>(row, part, v, v_row);
      }
    }
  }

  void store_results() const {
    const int64_t first =
        (batch_ * shape_.q_heads + kv_head_ * shape_.group()) * shape_.queries + first_row_;
    T* y = static_cast<T*>(data_.y) + first * shape_.v_dim;
    for (int64_t r = 0; r < rows_; ++r, y += shape_.v_dim) {
      if (totals_[r] == 0) {  // it saw no key
        std::fill_n(y, shape_.v_dim, store<T>(C{0}));
      } else {
        store_row(sums_ + r * sums_width_, static_cast<size_t>(shape_.v_dim), totals_[r], y);
      }
    }
  }

  const AttentionShape& shape_;
  const AttentionOperands& data_;
  int64_t batch_;
  int64_t kv_head_;
  int64_t first_row_;
  int64_t rows_;
  int64_t tiled_rows_;
  int64_t sums_width_;
  KeyRange seen_[kQueryBlock];    // by each row
  int64_t mask_at_[kQueryBlock];  // where each row's mask begins, in elements
  C highest_[kQueryBlock];
  C totals_[kQueryBlock];
  C* q_;
  C* sums_;
  C* scores_;
  C* transposed_;
  C* wide_k_;
  C* wide_v_;
};

/// Tasks of slots [begin, end): each slot takes every slots-th, since with causal the later blocks
/// of queries have more keys.
template <class T>
void run_slots(const AttentionPlan& plan, const AttentionOperands& data, std::byte* workspace,
               int64_t begin, int64_t end) {
  for (int64_t slot = begin; slot < end; ++slot) {
    auto* const scratch = reinterpret_cast<Compute<T>*>(workspace) + slot * plan.slot_elements;
    for (int64_t task = slot; task < plan.tasks(); task += plan.slots) {
      Task<T>(plan, data, task, scratch).run();
    }
  }
}

void attend(uint32_t dtype, const AttentionPlan& plan, const AttentionOperands& data,
            std::byte* workspace, int64_t begin, int64_t end) {
  if (dtype == BP_DTYPE_F32) return run_slots<float>(plan, data, workspace, begin, end);
  if (dtype == BP_DTYPE_F64) return run_slots<double>(plan, data, workspace, begin, end);
  if (dtype == BP_DTYPE_F16) return run_slots<F16>(plan, data, workspace, begin, end);
  run_slots<Bf16>(plan, data, workspace, begin, end);
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bp::cpu {
namespace {

HWY_EXPORT(attend);

constexpr double kMostWorkspaceBytes = 1 << 28;

std::unique_ptr<AttentionPlan> make_plan(bp_device* device, const bp_kernel_query& query,
                                         bp_plan_info* info) {
  auto plan = std::make_unique<AttentionPlan>();
  plan->shape = make_attention_shape(query);
  if (plan->shape.is_empty()) return plan;
  const uint32_t dtype = arg_info(query, 0).dtype;
  const auto widest = static_cast<double>(plan->shape.dim) + static_cast<double>(plan->shape.v_dim);
  plan->slots = std::min<int64_t>(device->workers.thread_count(), plan->tasks());
  if (widest * 8 * 4 * kQueryBlock * static_cast<double>(plan->slots) > kMostWorkspaceBytes) {
    throw Refusal{"takes heads that fit in its workspace"};
  }
  const bool widens = dtype == BP_DTYPE_F16 || dtype == BP_DTYPE_BF16;
  const int64_t needed = scratch_elements(plan->shape, widens);
  plan->slot_elements = (needed + 15) / 16 * 16;
  info->workspace_bytes = static_cast<uint64_t>(plan->slots * plan->slot_elements) *
                          (dtype == BP_DTYPE_F64 ? sizeof(double) : sizeof(float));
  info->workspace_alignment_bytes = 64;
  return plan;
}

bp_status launch(const bp_launch_args& args) {
  const auto& plan = *static_cast<const AttentionPlan*>(args.plan);
  const AttentionShape& shape = plan.shape;
  if (shape.is_empty()) return BP_OK;
  const AttentionOperands data{
      .q = address_of(input_of(args, 0)),
      .k = address_of(input_of(args, 1)),
      .v = address_of(input_of(args, 2)),
      .mask = shape.mask_dtype == BP_DTYPE_NONE ? nullptr : address_of(input_of(args, 3)),
      .lengths = shape.has_lengths ? address_of<const int64_t>(input_of(args, 4)) : nullptr,
      .y = address_of(output_of(args))};
  const int64_t tasks_per_slot = (plan.tasks() + plan.slots - 1) / plan.slots;
  const int64_t task_rows = std::min(kQueryBlock, shape.rows());
  const double cost = static_cast<double>(tasks_per_slot) * static_cast<double>(task_rows) *
                      static_cast<double>(shape.keys) *
                      static_cast<double>(shape.dim + shape.v_dim) / 4;
  const auto item_cost = static_cast<int64_t>(std::clamp(cost, 1.0, 1e15));
  std::byte* const workspace = address_of(args.workspace);
  const uint32_t dtype = input_of(args, 0).dtype;
  args.device->workers.for_ranges(plan.slots, item_cost, [&](int64_t begin, int64_t end) noexcept {
    HWY_DYNAMIC_DISPATCH(attend)(dtype, plan, data, workspace, begin, end);
  });
  return BP_OK;
}

constexpr bp_arg_rule kDenseRowsRule{.struct_size = sizeof(bp_arg_rule),
                                     .flags = 0,
                                     .strides = BP_STRIDES_INNER_DENSE,
                                     .alignment_bytes = 0};
constexpr bp_arg_rule kContiguousRule{.struct_size = sizeof(bp_arg_rule),
                                      .flags = 0,
                                      .strides = BP_STRIDES_CONTIGUOUS,
                                      .alignment_bytes = 0};
constexpr const bp_arg_rule* kRules[] = {&kDenseRowsRule, &kDenseRowsRule, &kDenseRowsRule,
                                         &sdk::kAnyStridesRule, &kContiguousRule};
constexpr uint64_t kMasks[] = {kFloatTypes, kFloatTypes | sdk::dtypes({BP_DTYPE_BOOL})};

constexpr bp_kernel kKernels[] = {
    sdk::describe({.name = "attention_blocks",
                   .op = "attention",
                   .dtypes = kMasks,
                   .arg_rules = kRules,
                   .depends_on = BP_DEPENDS_SIZES_BIT | BP_DEPENDS_STRIDES_BIT,
                   .plan = plan_slot<AttentionPlan, make_plan>,
                   .plan_free = sdk::delete_plan<bp_kernel_plan>,
                   .launch = launch_slot<launch>})};

}  // namespace

BP_SDK_KERNELS(attention, kKernels);

}  // namespace bp::cpu
#endif
