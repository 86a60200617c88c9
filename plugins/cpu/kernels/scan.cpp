// SPDX-License-Identifier: Apache-2.0
//
// cumsum and cumprod. Neighbouring lanes go side by side. A lane along the last axis is a chain of
// additions, each of which waits for the one before; sums of short blocks are worked out apart from
// the chain, which then has one step per block.
#include "backplane/ops/scan.h"

#include <algorithm>
#include <type_traits>

#include "element.hpp"
#include "indices.hpp"
#include "large.hpp"
#include "math/copies.hpp"
#include "math/scan_rows.hpp"

namespace bp::cpu {
namespace {

constexpr int64_t kColumns = 256;  // lanes side by side
constexpr int64_t kBlock = 8;      // elements of a lane

struct ScanPlan : bp_kernel_plan {
  uint32_t axis = 0;
};

struct Scan {
  void* y;
  const void* x;
  int64_t length;
  int64_t inner;  // from one element of a lane to the next
  bool exclusive;
  bool reverse;
  bool past_cache;
};

template <class T>
struct SumScan {
  using Running = Wrapping<T>;
  static constexpr bool kInBlocks = true;
  static constexpr int kFirst = 0;
  static Running of(Running a, Running b) { return a + b; }
};

// A block's product may underflow where the chain's does not.
template <class T>
struct ProductScan {
  using Running = Wrapping<T>;
  static constexpr bool kInBlocks = !std::is_floating_point_v<Running>;
  static constexpr int kFirst = 1;
  static Running of(Running a, Running b) { return a * b; }
};

template <class T>
T written(Wrapping<T> value) {
  return store<T>(static_cast<Compute<T>>(value));
}

// One lane, forward or backward by `step`, 1 or -1, or a part of it: begins with `running` and
// gives what the next part begins with.
template <class T, class Rule>
typename Rule::Running scan_lane(T* y, const T* x, int64_t length, int64_t step, bool exclusive,
                                 typename Rule::Running running) {
  using R = typename Rule::Running;
  if constexpr (std::is_same_v<Rule, SumScan<float>>) {
    return running_sums(y, x, length, step, exclusive, running);
  }
  int64_t k = 0;
  if constexpr (Rule::kInBlocks) {
    for (; k + kBlock <= length; k += kBlock) {
      R prefix[kBlock + 1];
      prefix[0] = static_cast<R>(Rule::kFirst);
      for (int64_t i = 0; i < kBlock; ++i) {
        prefix[i + 1] = Rule::of(prefix[i], static_cast<R>(load(x[(k + i) * step])));
      }
      const R* const from = exclusive ? prefix : prefix + 1;
      for (int64_t i = 0; i < kBlock; ++i)
        y[(k + i) * step] = written<T>(Rule::of(running, from[i]));
      running = Rule::of(running, prefix[kBlock]);
    }
  }
  for (; k < length; ++k) {
    const R next = Rule::of(running, static_cast<R>(load(x[k * step])));
    y[k * step] = written<T>(exclusive ? running : next);
    running = next;
  }
  return running;
}

// A dense lane that is stored past the caches, part by part.
template <class T, class Rule>
void stream_lane(T* y, const T* x, int64_t length, bool exclusive) {
  constexpr int64_t kPart = 1024;
  alignas(64) T part[kPart];
  auto running = static_cast<typename Rule::Running>(Rule::kFirst);
  for (int64_t k = 0; k < length; k += kPart) {
    const int64_t count = std::min(kPart, length - k);
    running = scan_lane<T, Rule>(part, x + k, count, 1, exclusive, running);
    stream_copy(reinterpret_cast<std::byte*>(y + k), reinterpret_cast<const std::byte*>(part),
                count * static_cast<int64_t>(sizeof(T)));
  }
}

// `count` lanes side by side; `step` from row to row. A choice within the loop would keep it from
// being vector code.
template <class T, class Rule, bool kExclusive>
void scan_columns(T* y, const T* x, int64_t length, int64_t step, int64_t count) {
  using R = typename Rule::Running;
  R running[kColumns];
  std::fill_n(running, count, static_cast<R>(Rule::kFirst));
  for (int64_t k = 0; k < length; ++k) {
    const T* const from = x + k * step;
    T* const to = y + k * step;
    for (int64_t i = 0; i < count; ++i) {
      const R next = Rule::of(running[i], static_cast<R>(load(from[i])));
      to[i] = written<T>(kExclusive ? running[i] : next);
      running[i] = next;
    }
  }
}

// Units: a lane, or a block of neighbouring ones.
template <class T, class Rule>
void scan_units(const Scan& call, int64_t begin, int64_t end) {
  const int64_t block_count = (call.inner - 1) / kColumns + 1;
  const int64_t last = call.reverse ? (call.length - 1) * call.inner : 0;
  const int64_t step = call.reverse ? -call.inner : call.inner;
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t column = unit % block_count * kColumns;
    const int64_t offset = unit / block_count * call.length * call.inner + column + last;
    T* const y = static_cast<T*>(call.y) + offset;
    const T* const x = static_cast<const T*>(call.x) + offset;
    if (step == 1 && call.past_cache) {
      stream_lane<T, Rule>(y, x, call.length, call.exclusive);
    } else if (call.inner == 1) {
      scan_lane<T, Rule>(y, x, call.length, step, call.exclusive,
                         static_cast<typename Rule::Running>(Rule::kFirst));
    } else {
      const auto columns =
          call.exclusive ? scan_columns<T, Rule, true> : scan_columns<T, Rule, false>;
      columns(y, x, call.length, step, std::min(kColumns, call.inner - column));
    }
  }
  if (call.past_cache) finish_stream();
}

template <class T>
struct SumUnits {
  static void run(const Scan& call, int64_t begin, int64_t end) {
    scan_units<T, SumScan<T>>(call, begin, end);
  }
};
template <class T>
struct ProductUnits {
  static void run(const Scan& call, int64_t begin, int64_t end) {
    scan_units<T, ProductScan<T>>(call, begin, end);
  }
};

constexpr auto kSums = wrapping_table<SumUnits>();
constexpr auto kProducts = wrapping_table<ProductUnits>();

std::unique_ptr<ScanPlan> make_plan(bp_device*, const bp_kernel_query& query, bp_plan_info*) {
  const bp_arg_info& axis = arg_info(query, 1);
  if (axis.host_data == nullptr) sdk::refuse("scan: the axis is not known");
  auto plan = std::make_unique<ScanPlan>();
  plan->axis = axis_from_front("scan", *static_cast<const int64_t*>(axis.host_data),
                               arg_info(query, 0).rank);
  return plan;
}

template <class Attributes>
bp_status scan(const bp_launch_args& args, const Attributes& attrs,
               decltype(&SumUnits<float>::run) run) {
  const uint32_t axis = static_cast<const ScanPlan*>(args.plan)->axis;
  const bp_tensor& x = input_of(args, 0);
  Scan call{.y = address_of(output_of(args)),
            .x = address_of(x),
            .length = x.sizes[axis],
            .inner = 1,
            .exclusive = attrs.exclusive != 0,
            .reverse = attrs.reverse != 0,
            .past_cache = is_past_cache(output_of(args))};
  int64_t outer = 1;
  for (uint32_t d = 0; d < x.rank; ++d) {
    if (d < axis) outer *= x.sizes[d];
    if (d > axis) call.inner *= x.sizes[d];
  }
  if (outer == 0 || call.inner == 0 || call.length == 0) return BP_OK;
  const int64_t units = outer * ((call.inner - 1) / kColumns + 1);
  const int64_t cost = sdk::saturating_product({call.length, std::min(kColumns, call.inner), 2});
  args.device->workers.for_ranges(
      units, cost, [&](int64_t begin, int64_t end) noexcept { run(call, begin, end); });
  return BP_OK;
}

bp_status launch_sum(const bp_launch_args& args) {
  return scan(args, read_attributes(args.attributes, bp_attrs_cumsum_defaults()),
              kSums[input_of(args, 0).dtype]);
}

bp_status launch_product(const bp_launch_args& args) {
  return scan(args, read_attributes(args.attributes, bp_attrs_cumprod_defaults()),
              kProducts[input_of(args, 0).dtype]);
}

constexpr uint64_t kMasks[] = {kNumberTypes};

constexpr bp_arg_rule kDevice{.struct_size = sizeof(bp_arg_rule),
                              .flags = 0,
                              .strides = BP_STRIDES_CONTIGUOUS,
                              .alignment_bytes = 0};
constexpr bp_arg_rule kHost{.struct_size = sizeof(bp_arg_rule),
                            .flags = BP_ARG_HOST_AT_PLAN_BIT,
                            .strides = BP_STRIDES_CONTIGUOUS,
                            .alignment_bytes = 0};
constexpr const bp_arg_rule* kRules[] = {&kDevice, &kHost};

constexpr bp_kernel kKernels[] = {sdk::describe({.name = "cumsum_loop",
                                                 .op = "cumsum",
                                                 .dtypes = kMasks,
                                                 .arg_rules = kRules,
                                                 .depends_on = BP_DEPENDS_HOST_DATA_BIT,
                                                 .plan = plan_slot<ScanPlan, make_plan>,
                                                 .plan_free = sdk::delete_plan<bp_kernel_plan>,
                                                 .launch = launch_slot<launch_sum>}),
                                  sdk::describe({.name = "cumprod_loop",
                                                 .op = "cumprod",
                                                 .dtypes = kMasks,
                                                 .arg_rules = kRules,
                                                 .depends_on = BP_DEPENDS_HOST_DATA_BIT,
                                                 .plan = plan_slot<ScanPlan, make_plan>,
                                                 .plan_free = sdk::delete_plan<bp_kernel_plan>,
                                                 .launch = launch_slot<launch_product>})};

}  // namespace

BP_SDK_KERNELS(scan, kKernels);

}  // namespace bp::cpu
