// SPDX-License-Identifier: Apache-2.0
//
// attention without a matrix of scores: blocks of queries meet blocks of keys, and each query keeps
// the highest score so far, the sum of its weights and the weighted sum of v, which are scaled anew
// when a higher score comes (arXiv 2205.14135). The heads of q that share a head of k and v are one
// block of queries. f32 and half types are computed in f32 by vector code by Highway, compiled for
// each instruction set and chosen when it runs; f64 by loops.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention.cpp"
// clang-format off: this file includes itself once per instruction set, before anything else.
#include "backplane/ops/attention.h"

#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "math/lanes-inl.hpp"
#include "math/vector_math-inl.hpp"
// clang-format on

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "attention_mask.hpp"
#include "attention_shape.hpp"
#include "element.hpp"
#include "kernel_support.hpp"

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// c += a b for `rows` rows of a, 1 to 4 of them, and one or two vectors of columns.
template <size_t kRows, size_t kVectors>
void multiply_tile(const float* a, size_t a_row, const float* b, size_t b_row, size_t depth,
                   float* c, size_t c_row) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  hn::Vec<decltype(d)> sums[kRows][kVectors];
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t n = 0; n < kVectors; ++n) sums[r][n] = hn::LoadU(d, c + r * c_row + n * lanes);
  }
  for (size_t i = 0; i < depth; ++i) {
    hn::Vec<decltype(d)> column[kVectors];
    for (size_t n = 0; n < kVectors; ++n) column[n] = hn::LoadU(d, b + i * b_row + n * lanes);
    for (size_t r = 0; r < kRows; ++r) {
      const auto factor = hn::Set(d, a[r * a_row + i]);
      for (size_t n = 0; n < kVectors; ++n) {
        sums[r][n] = hn::MulAdd(factor, column[n], sums[r][n]);
      }
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t n = 0; n < kVectors; ++n) hn::StoreU(sums[r][n], d, c + r * c_row + n * lanes);
  }
}

template <size_t kRows>
void multiply_rows(const float* a, size_t a_row, const float* b, size_t b_row, size_t depth,
                   size_t columns, float* c, size_t c_row) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t j = 0;
  for (; j + 2 * lanes <= columns; j += 2 * lanes) {
    multiply_tile<kRows, 2>(a, a_row, b + j, b_row, depth, c + j, c_row);
  }
  for (; j + lanes <= columns; j += lanes) {
    multiply_tile<kRows, 1>(a, a_row, b + j, b_row, depth, c + j, c_row);
  }
  for (; j < columns; ++j) {
    for (size_t r = 0; r < kRows; ++r) {
      float sum = c[r * c_row + j];
      for (size_t i = 0; i < depth; ++i) sum += a[r * a_row + i] * b[i * b_row + j];
      c[r * c_row + j] = sum;
    }
  }
}

// c [rows, columns] += a [rows, depth] b [depth, columns], rows of each `*_row` apart.
void multiply_add(const float* a, size_t a_row, const float* b, size_t b_row, size_t rows,
                  size_t depth, size_t columns, float* c, size_t c_row) {
  size_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    multiply_rows<4>(a + r * a_row, a_row, b, b_row, depth, columns, c + r * c_row, c_row);
  }
  for (; r < rows; ++r) {
    multiply_rows<1>(a + r * a_row, a_row, b, b_row, depth, columns, c + r * c_row, c_row);
  }
}

// scores[j] = q . k[j]: for queries so few that no block of keys is worth being transposed.
void dot_keys(const float* q, const float* k, size_t k_row, size_t keys, size_t dim,
              float* scores) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  for (size_t j = 0; j < keys; ++j) {
    const float* const key = k + j * k_row;
    auto sum0 = hn::Zero(d);
    auto sum1 = hn::Zero(d);
    size_t i = 0;
    for (; i + 2 * lanes <= dim; i += 2 * lanes) {
      sum0 = hn::MulAdd(hn::LoadU(d, q + i), hn::LoadU(d, key + i), sum0);
      sum1 = hn::MulAdd(hn::LoadU(d, q + i + lanes), hn::LoadU(d, key + i + lanes), sum1);
    }
    for (; i + lanes <= dim; i += lanes) {
      sum0 = hn::MulAdd(hn::LoadU(d, q + i), hn::LoadU(d, key + i), sum0);
    }
    float total = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
    for (; i < dim; ++i) total += q[i] * key[i];
    scores[j] = total;
  }
}

// x[i] = cap * tanh(x[i] / cap)
void cap_scores(float* x, size_t count, float cap) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto caps = hn::Set(d, cap);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::Mul(caps, vtanh(hn::Div(hn::LoadU(d, x + i), caps))), d, x + i);
  }
  if (i == count) return;
  const auto rest = load_part(d, x + i, count - i);
  store_part(hn::Mul(caps, vtanh(hn::Div(rest, caps))), d, x + i, count - i);
}

float highest_of(const float* x, size_t count) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  auto best = hn::Set(d, -std::numeric_limits<float>::infinity());
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) best = hn::Max(best, hn::LoadU(d, x + i));
  float highest = hn::GetLane(hn::MaxOfLanes(d, best));
  for (; i < count; ++i) highest = x[i] > highest ? x[i] : highest;
  return highest;
}

// x[i] = e^(x[i] - highest); their sum.
float weigh(float* x, size_t count, float highest) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto top = hn::Set(d, highest);
  auto sums = hn::Zero(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto weight = vexp(hn::Sub(hn::LoadU(d, x + i), top));
    hn::StoreU(weight, d, x + i);
    sums = hn::Add(sums, weight);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, sums));
  if (i == count) return sum;
  store_part(vexp(hn::Sub(load_part(d, x + i, count - i), top)), d, x + i, count - i);
  for (; i < count; ++i) sum += x[i];
  return sum;
}

void scale_by(float* x, size_t count, float factor) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  const auto factors = hn::Set(d, factor);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::Mul(hn::LoadU(d, x + i), factors), d, x + i);
  }
  for (; i < count; ++i) x[i] *= factor;
}

template <class T>
void widen_row(const T* x, float* y, size_t count) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(load_lanes(d, x + i), d, y + i);
  for (; i < count; ++i) y[i] = load(x[i]);
}
void widen_f16_row(const F16* x, float* y, size_t count) { widen_row(x, y, count); }
void widen_bf16_row(const Bf16* x, float* y, size_t count) { widen_row(x, y, count); }

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bp::cpu {
namespace {

HWY_EXPORT(multiply_add);
HWY_EXPORT(dot_keys);
HWY_EXPORT(cap_scores);
HWY_EXPORT(highest_of);
HWY_EXPORT(weigh);
HWY_EXPORT(scale_by);
HWY_EXPORT(widen_f16_row);
HWY_EXPORT(widen_bf16_row);

constexpr int64_t kQueryBlock = 64;
constexpr int64_t kKeyBlock = 64;
constexpr int64_t kFewQueries = 8;  // below this, keys are read as they lie
constexpr double kMostWorkspaceBytes = 1 << 28;

/// The steps in f32, as vector code.
struct VectorSteps {
  using C = float;
  static void multiply(const float* a, size_t a_row, const float* b, size_t b_row, size_t rows,
                       size_t depth, size_t columns, float* c, size_t c_row) {
    HWY_DYNAMIC_DISPATCH(multiply_add)(a, a_row, b, b_row, rows, depth, columns, c, c_row);
  }
  static void dots(const float* q, const float* k, size_t k_row, size_t keys, size_t dim,
                   float* scores) {
    HWY_DYNAMIC_DISPATCH(dot_keys)(q, k, k_row, keys, dim, scores);
  }
  static void cap(float* x, size_t count, float at) {
    HWY_DYNAMIC_DISPATCH(cap_scores)(x, count, at);
  }
  static float highest(const float* x, size_t count) {
    return HWY_DYNAMIC_DISPATCH(highest_of)(x, count);
  }
  static float weights(float* x, size_t count, float highest) {
    return HWY_DYNAMIC_DISPATCH(weigh)(x, count, highest);
  }
  static void scale(float* x, size_t count, float factor) {
    HWY_DYNAMIC_DISPATCH(scale_by)(x, count, factor);
  }
};

/// The same in f64, as loops.
struct LoopSteps {
  using C = double;
  static void multiply(const double* a, size_t a_row, const double* b, size_t b_row, size_t rows,
                       size_t depth, size_t columns, double* c, size_t c_row) {
    for (size_t r = 0; r < rows; ++r) {
      for (size_t i = 0; i < depth; ++i) {
        const double factor = a[r * a_row + i];
        for (size_t j = 0; j < columns; ++j) c[r * c_row + j] += factor * b[i * b_row + j];
      }
    }
  }
  static void dots(const double* q, const double* k, size_t k_row, size_t keys, size_t dim,
                   double* scores) {
    for (size_t j = 0; j < keys; ++j) {
      scores[j] = 0;
      for (size_t i = 0; i < dim; ++i) scores[j] += q[i] * k[j * k_row + i];
    }
  }
  static void cap(double* x, size_t count, double at) {
    for (size_t i = 0; i < count; ++i) x[i] = at * std::tanh(x[i] / at);
  }
  static double highest(const double* x, size_t count) {
    double best = kMasked<double>;
    for (size_t i = 0; i < count; ++i) best = x[i] > best ? x[i] : best;
    return best;
  }
  static double weights(double* x, size_t count, double highest) {
    double sum = 0;
    for (size_t i = 0; i < count; ++i) {
      x[i] = std::exp(x[i] - highest);
      sum += x[i];
    }
    return sum;
  }
  static void scale(double* x, size_t count, double factor) {
    for (size_t i = 0; i < count; ++i) x[i] *= factor;
  }
};

template <class T>
using Steps = std::conditional_t<std::is_same_v<T, double>, LoopSteps, VectorSteps>;

template <class T>
void widen_elements(const T* x, Compute<T>* y, size_t count) {
  if constexpr (std::is_same_v<T, F16>) {
    HWY_DYNAMIC_DISPATCH(widen_f16_row)(x, y, count);
  } else if constexpr (std::is_same_v<T, Bf16>) {
    HWY_DYNAMIC_DISPATCH(widen_bf16_row)(x, y, count);
  } else {
    std::copy_n(x, count, y);
  }
}

struct AttentionPlan : bp_kernel_plan {
  AttentionShape shape;
  int64_t slots = 1;          // tasks at once, each with its own part of the workspace
  int64_t slot_elements = 0;  // of that part

  int64_t blocks() const { return (shape.rows() + kQueryBlock - 1) / kQueryBlock; }
  int64_t tasks() const { return shape.batch * shape.kv_heads * blocks(); }
};

struct Operands {
  const void* q;
  const void* k;
  const void* v;
  const void* mask;        // null: none
  const int64_t* lengths;  // null: none
  void* y;
};

/// One block of queries that share a head of k and v, against all of its keys.
template <class T>
class Task {
 public:
  using S = Steps<T>;
  using C = Compute<T>;
  static constexpr bool kWidens = !std::is_same_v<T, C>;

  static int64_t scratch_elements(const AttentionShape& shape) {
    const int64_t widened = kWidens ? kKeyBlock * (shape.dim + shape.v_dim) : 0;
    return kQueryBlock * (shape.dim + shape.v_dim + kKeyBlock + 2) + kKeyBlock * shape.dim +
           widened;
  }

  Task(const AttentionPlan& plan, const Operands& data, int64_t index, C* scratch)
      : shape_(plan.shape), data_(data) {
    const int64_t head = index / plan.blocks();
    batch_ = head / shape_.kv_heads;
    kv_head_ = head % shape_.kv_heads;
    first_row_ = index % plan.blocks() * kQueryBlock;
    rows_ = std::min(kQueryBlock, shape_.rows() - first_row_);
    const int64_t given = data.lengths == nullptr ? shape_.keys : data.lengths[batch_];
    length_ = std::clamp<int64_t>(given, 0, shape_.keys);
    offset_ = data.lengths == nullptr ? shape_.query_offset : length_ - shape_.queries;
    const auto take = [&scratch](int64_t count) { return std::exchange(scratch, scratch + count); };
    q_ = take(kQueryBlock * shape_.dim);
    sums_ = take(kQueryBlock * shape_.v_dim);
    scores_ = take(kQueryBlock * kKeyBlock);
    highest_ = take(kQueryBlock);
    totals_ = take(kQueryBlock);
    transposed_ = take(kKeyBlock * shape_.dim);
    wide_k_ = take(kWidens ? kKeyBlock * shape_.dim : 0);
    wide_v_ = scratch;
  }

  void run() {
    load_queries();
    KeyRange range{length_, 0};
    for (int64_t r = 0; r < rows_; ++r) {
      const KeyRange seen = seen_by(r);
      if (seen.first == seen.last) continue;
      range = {std::min(range.first, seen.first), std::max(range.last, seen.last)};
    }
    for (int64_t key = range.first; key < range.last; key += kKeyBlock) {
      run_keys(key, std::min(kKeyBlock, range.last - key));
    }
    store_results();
  }

 private:
  int64_t head_of(int64_t r) const {
    return kv_head_ * shape_.group() + (first_row_ + r) / shape_.queries;
  }
  int64_t query_of(int64_t r) const { return (first_row_ + r) % shape_.queries; }
  KeyRange seen_by(int64_t r) const { return keys_seen(shape_, query_of(r) + offset_, length_); }

  void load_queries() {
    for (int64_t r = 0; r < rows_; ++r) {
      const T* const q = static_cast<const T*>(data_.q) + batch_ * shape_.q_strides[0] +
                         head_of(r) * shape_.q_strides[1] + query_of(r) * shape_.q_strides[2];
      C* const to = q_ + r * shape_.dim;
      widen_elements(q, to, static_cast<size_t>(shape_.dim));
      S::scale(to, static_cast<size_t>(shape_.dim), static_cast<C>(shape_.scale));
    }
    std::fill_n(sums_, rows_ * shape_.v_dim, C{0});
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
        widen_elements(first + j * strides[2], wide + j * width, static_cast<size_t>(width));
      }
      *out_row = static_cast<size_t>(width);
      return wide;
    } else {
      *out_row = static_cast<size_t>(strides[2]);
      return first;
    }
  }

  void work_out_scores(int64_t key, int64_t count) {
    size_t k_row = 0;
    const C* const k = rows_of(data_.k, shape_.k_strides, key, count, shape_.dim, wide_k_, &k_row);
    const auto dim = static_cast<size_t>(shape_.dim);
    const auto keys = static_cast<size_t>(count);
    if (rows_ < kFewQueries) {
      for (int64_t r = 0; r < rows_; ++r) {
        S::dots(q_ + r * shape_.dim, k, k_row, keys, dim, scores_ + r * kKeyBlock);
      }
      return;
    }
    for (size_t j = 0; j < keys; ++j) {
      for (size_t i = 0; i < dim; ++i) transposed_[i * kKeyBlock + j] = k[j * k_row + i];
    }
    std::fill_n(scores_, rows_ * kKeyBlock, C{0});
    S::multiply(q_, dim, transposed_, kKeyBlock, static_cast<size_t>(rows_), dim, keys, scores_,
                kKeyBlock);
  }

  /// Takes the keys out that row r does not see, and adds the mask.
  void restrict_row(int64_t r, int64_t key, int64_t count) {
    C* const scores = scores_ + r * kKeyBlock;
    const KeyRange seen = seen_by(r);
    const int64_t first = std::clamp<int64_t>(seen.first - key, 0, count);
    const int64_t last = std::clamp<int64_t>(seen.last - key, first, count);
    std::fill(scores, scores + first, kMasked<C>);
    std::fill(scores + last, scores + count, kMasked<C>);
    if (data_.mask == nullptr || first == last) return;
    const int64_t* const strides = shape_.mask_strides;
    const int64_t offset = batch_ * strides[0] + head_of(r) * strides[1] +
                           query_of(r) * strides[2] + (key + first) * strides[3];
    add_mask_of(shape_.mask_dtype, scores + first, static_cast<const std::byte*>(data_.mask),
                offset, strides[3], last - first);
  }

  void run_keys(int64_t key, int64_t count) {
    work_out_scores(key, count);
    for (int64_t r = 0; r < rows_; ++r) {
      C* const scores = scores_ + r * kKeyBlock;
      const auto keys = static_cast<size_t>(count);
      if (shape_.softcap > 0) S::cap(scores, keys, static_cast<C>(shape_.softcap));
      restrict_row(r, key, count);
      const C highest = std::max(highest_[r], S::highest(scores, keys));
      if (highest == kMasked<C>) {  // no key so far; NaN scores must still count
        const bool has_nan =
            std::any_of(scores, scores + count, [](C score) { return score != score; });
        if (has_nan) totals_[r] = std::numeric_limits<C>::quiet_NaN();
        std::fill_n(scores, count, C{0});
        continue;
      }
      const C factor = std::exp(highest_[r] - highest);
      highest_[r] = highest;
      totals_[r] = totals_[r] * factor + S::weights(scores, keys, highest);
      if (factor != 1)
        S::scale(sums_ + r * shape_.v_dim, static_cast<size_t>(shape_.v_dim), factor);
    }
    size_t v_row = 0;
    const C* const v =
        rows_of(data_.v, shape_.v_strides, key, count, shape_.v_dim, wide_v_, &v_row);
    const auto width = static_cast<size_t>(shape_.v_dim);
    S::multiply(scores_, kKeyBlock, v, v_row, static_cast<size_t>(rows_),
                static_cast<size_t>(count), width, sums_, width);
  }

  void store_results() const {
    const int64_t first =
        (batch_ * shape_.q_heads + kv_head_ * shape_.group()) * shape_.queries + first_row_;
    T* y = static_cast<T*>(data_.y) + first * shape_.v_dim;
    for (int64_t r = 0; r < rows_; ++r) {
      const C* const sums = sums_ + r * shape_.v_dim;
      const C total = totals_[r];
      for (int64_t i = 0; i < shape_.v_dim; ++i) {
        *y++ = store<T>(total == 0 ? C{0} : sums[i] / total);
      }
    }
  }

  const AttentionShape& shape_;
  const Operands& data_;
  int64_t batch_;
  int64_t kv_head_;
  int64_t first_row_;
  int64_t rows_;
  int64_t length_;
  int64_t offset_;
  C* q_;
  C* sums_;
  C* scores_;
  C* highest_;
  C* totals_;
  C* transposed_;
  C* wide_k_;
  C* wide_v_;
};

/// Tasks of slots [begin, end): each slot takes every slots-th, since with causal the later blocks
/// of queries have more keys.
template <class T>
struct Attend {
  static void run(const AttentionPlan& plan, const Operands& data, std::byte* workspace,
                  int64_t begin, int64_t end) {
    for (int64_t slot = begin; slot < end; ++slot) {
      auto* const scratch = reinterpret_cast<Compute<T>*>(workspace) + slot * plan.slot_elements;
      for (int64_t task = slot; task < plan.tasks(); task += plan.slots) {
        Task<T>(plan, data, task, scratch).run();
      }
    }
  }
};

constexpr auto kTable = float_table<Attend>();

std::unique_ptr<AttentionPlan> make_plan(bp_device* device, const bp_kernel_query& query,
                                         bp_plan_info* info) {
  auto plan = std::make_unique<AttentionPlan>();
  plan->shape = make_attention_shape(query);
  if (plan->shape.is_empty()) return plan;
  const bool is_f64 = arg_info(query, 0).dtype == BP_DTYPE_F64;
  const auto widest = static_cast<double>(plan->shape.dim) + static_cast<double>(plan->shape.v_dim);
  plan->slots = std::min<int64_t>(device->workers.thread_count(), plan->tasks());
  if (widest * 8 * 4 * kQueryBlock * static_cast<double>(plan->slots) > kMostWorkspaceBytes) {
    throw Refusal{"takes heads that fit in its workspace"};
  }
  const int64_t needed = is_f64 ? Task<double>::scratch_elements(plan->shape)
                                : Task<F16>::scratch_elements(plan->shape);
  plan->slot_elements = (needed + 15) / 16 * 16;
  info->workspace_bytes = static_cast<uint64_t>(plan->slots * plan->slot_elements) *
                          (is_f64 ? sizeof(double) : sizeof(float));
  info->workspace_alignment_bytes = 64;
  return plan;
}

bp_status launch(const bp_launch_args& args) {
  const auto& plan = *static_cast<const AttentionPlan*>(args.plan);
  const AttentionShape& shape = plan.shape;
  if (shape.is_empty()) return BP_OK;
  const Operands data{
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
  const auto run = kTable[input_of(args, 0).dtype];
  args.device->workers.for_ranges(plan.slots, item_cost, [&](int64_t begin, int64_t end) noexcept {
    run(plan, data, workspace, begin, end);
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
