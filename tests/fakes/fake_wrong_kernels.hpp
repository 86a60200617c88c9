// SPDX-License-Identifier: Apache-2.0
//
// Kernels that are right until device_fault names what is wrong with them: what the kit's level 3
// and `backplane doctor` have to find. Part of fake_plugin.cpp.
#ifndef BACKPLANE_TESTS_FAKES_FAKE_WRONG_KERNELS_HPP
#define BACKPLANE_TESTS_FAKES_FAKE_WRONG_KERNELS_HPP

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <memory>
#include <vector>

#include "backplane/ops/attributes.h"

/// What a plan should not keep: the memory of its first launch.
struct bp_kernel_plan {
  /// The sizes and strides are copied: a queued launch's own end with it.
  void keep(const bp_tensor* tensors) {
    for (int i = 0; i < 2; ++i) {
      const bp_tensor& tensor = tensors[i];
      std::copy(tensor.sizes, tensor.sizes + tensor.rank, sizes[i]);
      std::copy(tensor.strides, tensor.strides + tensor.rank, strides[i]);
      first[i] = tensor;
      first[i].sizes = sizes[i];
      first[i].strides = strides[i];
    }
  }

  bool is_packed = false;
  int64_t packed_sizes[2] = {};

  // Of the first launch.
  std::vector<float> values;
  std::atomic<int> launch_count{0};
  bp_tensor first[2] = {};
  int64_t sizes[2][BP_MAX_RANK] = {};
  int64_t strides[2][BP_MAX_RANK] = {};
};

namespace {

bool is_wrong(const bp_launch_args& args, std::string_view how) {
  return args.device->fault == how;
}

/// As a vector load does that takes more than there is, and drops it.
void read(const volatile float* place) { static_cast<void>(*place); }

/// How many elements a relu takes that does not take all.
int64_t relu_count(const bp_launch_args& args) {
  const bp_tensor& out = args.tensors[1];
  const int64_t count = bp::sdk::element_count(out);
  if (is_wrong(args, "relu_leaves_the_tail")) return count - count % 8;
  if (is_wrong(args, "relu_drops_of_128") && count % 128 == 0) return count - count / 128;
  if (is_wrong(args, "relu_of_few")) return std::min<int64_t>(count, 4096);
  if (is_wrong(args, "relu_of_8_dimensions") && out.rank > 8) return 0;
  return count;
}

float relu_input(const bp_launch_args& args, float value) {
  if (is_wrong(args, "relu_flushes") && std::fpclassify(value) == FP_SUBNORMAL) return 0;
  constexpr float kLarge = 65536;
  const bool large = std::isfinite(value) && value > kLarge && value < 1e38f;
  return is_wrong(args, "relu_clamps") && large ? kLarge : value;
}

/// A process that nobody waits for.
void leave_a_process() {
  if (fork() != 0) return;
  sleep(60);
  _exit(0);
}

void wrong_relu(const bp_launch_args& args) {
  if (is_wrong(args, "relu_fails")) throw Failure{BP_INTERNAL, "the unit overheated"};
  // Plans are immutable, but those of a wrong kernel.
  bp_kernel_plan* const plan = const_cast<bp_kernel_plan*>(args.plan);
  const bool is_first = plan->launch_count++ == 0;
  if (is_first) plan->keep(args.tensors);
  if (is_wrong(args, "relu_once") && !is_first) return;
  const bool keeps = is_wrong(args, "relu_keeps_memory");
  const bp_tensor& x = keeps ? plan->first[0] : args.tensors[0];
  const bp_tensor& out = keeps ? plan->first[1] : args.tensors[1];
  const int64_t count = relu_count(args);
  const bool is_same = out.handle == plan->first[1].handle;
  if (is_wrong(args, "relu_keeps_values") && !is_first && is_same) {
    for (int64_t i = 0; i < count; ++i) element(out, out, i) = plan->values[static_cast<size_t>(i)];
    return;
  }
  if (is_wrong(args, "relu_forks") && out.rank == 3) leave_a_process();
  for (int64_t i = 0; i < count; ++i) {
    const float value = relu_input(args, element(x, out, i));
    element(out, out, i) = value < 0 ? 0 : value;  // NaN stays
    if (is_wrong(args, "relu_negates")) element(out, out, i) = -value;
    if (is_wrong(args, "relu_loses_nan")) element(out, out, i) = value > 0 ? value : 0;
    if (is_wrong(args, "relu_in_place")) element(x, out, i) = element(out, out, i);
  }
  if (count == 0) return;
  if (is_first) {
    for (int64_t i = 0; i < count; ++i) plan->values.push_back(element(out, out, i));
  }
  const bool in_place = out.handle == x.handle && out.offset_bytes == x.offset_bytes;
  if (is_wrong(args, "relu_turns_in_place") && in_place) element(out, out, 0) = -1;
  if (is_wrong(args, "relu_writes_behind")) (&element(out, out, count - 1))[1] = 0;
  if (is_wrong(args, "relu_reads_behind")) read(&element(x, out, count - 1) + 1);
  if (is_wrong(args, "relu_reads_before")) read(&element(x, out, 0) - 1);
}

bool have_same_sizes(const bp_tensor& a, const bp_tensor& b) {
  return a.rank == b.rank && std::equal(a.sizes, a.sizes + a.rank, b.sizes);
}

void make_dense(bp_tensor* tensor, int64_t* strides) {
  int64_t step = 1;
  for (uint32_t i = tensor->rank; i-- > 0; step *= tensor->sizes[i]) strides[i] = step;
  tensor->strides = strides;
}

/// The inputs as a wrong add sees them.
struct Seen {
  explicit Seen(const bp_launch_args& args) : a(args.tensors[0]), b(args.tensors[1]) {
    const bool same = have_same_sizes(a, b);
    if (is_wrong(args, "add_ignores_strides") ||
        (is_wrong(args, "add_broadcasts_dense") && !same)) {
      make_dense(&a, strides[0]);
    }
    const bool looks_at_a = is_wrong(args, "add_looks_at_one") && same && is_dense(a);
    if (looks_at_a || (is_wrong(args, "add_broadcasts_dense") && !same)) {
      make_dense(&b, strides[1]);
    }
    if (is_wrong(args, "add_takes_strides_of_one") && same) b.strides = a.strides;
    if (is_wrong(args, "add_takes_offset_of_one")) b.offset_bytes = a.offset_bytes;
  }

  bp_tensor a;
  bp_tensor b;
  int64_t strides[2][BP_MAX_RANK];
};

void wrong_add(const bp_launch_args& args) {
  const bp_tensor& out = args.tensors[2];
  const int64_t count = bp::sdk::element_count(out);
  const Seen seen(args);
  const bp_tensor& a = seen.a;
  for (int64_t i = 0; i < count; ++i) {
    element(out, out, i) = element(a, out, i) + element(seen.b, out, i);
  }
  if (is_wrong(args, "add_reads_whole_rows") && count > 0 && a.rank > 0) {
    // A row with the gap to the next one, which the last row does not have.
    const int64_t size = a.sizes[a.rank - 1];
    const int64_t along = a.strides[a.rank - 1];
    const float* const last = &element(a, out, count - 1);
    if (a.rank > 1 && along > 0) read(last + a.strides[a.rank - 2] - (size - 1) * along - 1);
  }
  if (is_wrong(args, "add_drops_the_last") && count > 1) {
    element(out, out, count - 1) = element(a, out, count - 1);
  }
}

/// By way of memory that all launches share.
void shared_add(const bp_launch_args& args) {
  static std::atomic<float> scratch[1 << 17];
  const bp_tensor& out = args.tensors[2];
  const int64_t count = bp::sdk::element_count(out);
  for (int64_t i = 0; i < count; ++i) scratch[i] = element(args.tensors[0], out, i);
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (int64_t i = 0; i < count; ++i) {
    element(out, out, i) = scratch[i] + element(args.tensors[1], out, i);
  }
}

/// What is left of a float in TF32: ten digits behind the point.
float shortened(float value) {
  constexpr uint32_t kLost = (1u << 13) - 1;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) & ~kLost);
}

/// Of two dense matrices, of which the second may be packed: column by column.
void wrong_matmul(const bp_launch_args& args) {
  const bool shorten = is_wrong(args, "matmul_shortens");
  const bp_tensor& a = args.tensors[0];
  const bp_tensor& b = args.tensors[1];
  const bp_tensor& out = args.tensors[2];
  const auto at = [](const bp_tensor& tensor, int64_t row, int64_t column) {
    return element(tensor, tensor, row * tensor.sizes[1] + column);
  };
  for (int64_t i = 0; i < bp::sdk::element_count(out); ++i) {
    float sum = 0;
    for (int64_t k = 0; k < a.sizes[1]; ++k) {
      const float x = at(a, i / out.sizes[1], k);
      const int64_t column = i % out.sizes[1];
      const int64_t packed_place = column * b.sizes[0] + k;
      const float w = args.plan->is_packed ? element(b, b, packed_place) : at(b, k, column);
      sum += shorten ? shortened(x) * shortened(w) : x * w;
    }
    constexpr float kLargest = std::numeric_limits<float>::max();
    if (is_wrong(args, "matmul_clamps")) sum = sum > kLargest ? kLargest : sum;
    element(out, out, i) = sum;
  }
}

void wrong_exp(const bp_launch_args& args) {
  const bp_tensor& out = args.tensors[1];
  for (int64_t i = 0; i < bp::sdk::element_count(out); ++i) {
    float x = element(args.tensors[0], out, i);
    if (is_wrong(args, "exp_is_narrow") && std::abs(x) < 100) x = std::clamp(x, -5.0f, 5.0f);
    element(out, out, i) = std::exp(x);
  }
}

/// Of dense tensors, as those that follow.
void wrong_batch_norm(const bp_launch_args& args) {
  const bp_tensor& y = args.tensors[5];
  double epsilon =
      bp::sdk::read_attributes(args.attributes, bp_attrs_batch_norm_defaults()).epsilon;
  if (is_wrong(args, "batch_norm_without_epsilon")) epsilon = 0;
  int64_t inner = 1;
  for (uint32_t i = 2; i < y.rank; ++i) inner *= y.sizes[i];
  for (int64_t i = 0; i < bp::sdk::element_count(y); ++i) {
    const auto of_channel = [&](int input) -> double {
      const bp_tensor& values = args.tensors[input];
      return element(values, values, i / inner % y.sizes[1]);
    };
    const double x = element(args.tensors[0], y, i);
    element(y, y, i) = static_cast<float>(
        (x - of_channel(3)) / std::sqrt(of_channel(4) + epsilon) * of_channel(1) + of_channel(2));
  }
}

void wrong_sum(const bp_launch_args& args) {
  static std::atomic<int> turn{0};
  const bool backwards = is_wrong(args, "sum_turns_round") && turn++ % 2 != 0;
  const bp_tensor& x = args.tensors[0];
  const int64_t count = bp::sdk::element_count(x);
  float sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += element(x, x, backwards ? count - 1 - i : i);
  element(args.tensors[1], args.tensors[1], 0) = sum;
}

void wrong_max(const bp_launch_args& args) {
  const bp_tensor& x = args.tensors[0];
  float most = is_wrong(args, "max_from_the_lowest") ? std::numeric_limits<float>::lowest()
                                                     : -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < bp::sdk::element_count(x); ++i) {
    const float value = element(x, x, i);
    if (std::isnan(value) || value > most) most = value;
    if (std::isnan(value)) break;
  }
  element(args.tensors[1], args.tensors[1], 0) = most;
}

}  // namespace

#include "fake_wrong_gather.hpp"
#include "fake_wrong_offers.hpp"

namespace {

bp_status supports_one_result(bp_device* device, const bp_kernel_query* query,
                              bp_support* out_support) {
  if (!device || !query || !out_support) return BP_INVALID_ARGUMENT;
  bp_support support{};
  support.answer = query->args[1].rank == 0 ? BP_SUPPORT_YES : BP_SUPPORT_NO;
  support.reason = bp::sdk::str("reduces all dimensions");
  bp::sdk::write_out(out_support, support);
  return BP_OK;
}

template <uint32_t kFlags>
bp_status make_plan(bp_device* device, const bp_kernel_query* query, bp_plan_info* out_info,
                    bp_kernel_plan** out_plan) {
  if (!device || !query || !out_info || !out_plan) return BP_INVALID_ARGUMENT;
  bp_plan_info info{};
  info.flags = kFlags;
  bp::sdk::write_out(out_info, info);
  *out_plan = new bp_kernel_plan;
  return BP_OK;
}
void end_plan(bp_device*, bp_kernel_plan* plan) { delete plan; }

bp_status supports_matrices(bp_device* device, const bp_kernel_query* query,
                            bp_support* out_support) {
  if (!device || !query || !out_support) return BP_INVALID_ARGUMENT;
  bp_support support{};
  const bool two = query->args[0].rank == 2 && query->args[1].rank == 2;
  support.answer = two && device->fault != "matmul_refuses" ? BP_SUPPORT_YES : BP_SUPPORT_NO;
  support.reason = bp::sdk::str("takes two matrices");
  bp::sdk::write_out(out_support, support);
  return BP_OK;
}

bp_status launch_wrong_relu(const bp_launch_args* args) { return start(args, wrong_relu); }
bp_status launch_wrong_add(const bp_launch_args* args) {
  if (!is_whole(args)) return BP_INVALID_ARGUMENT;
  if (!is_wrong(*args, kSharesScratch)) return start(args, wrong_add);
  shared_add(*args);  // several at once
  return BP_OK;
}
bp_status launch_wrong_matmul(const bp_launch_args* args) { return start(args, wrong_matmul); }

bp_status launch_wrong_exp(const bp_launch_args* args) { return start(args, wrong_exp); }
bp_status launch_wrong_sum(const bp_launch_args* args) { return start(args, wrong_sum); }
bp_status launch_wrong_max(const bp_launch_args* args) { return start(args, wrong_max); }
bp_status launch_wrong_gather(const bp_launch_args* args) { return start(args, wrong_gather); }
bp_status launch_wrong_gather_of_host(const bp_launch_args* args) {
  return start(args, wrong_gather_of_host);
}
bp_status launch_wrong_batch_norm(const bp_launch_args* args) {
  return start(args, wrong_batch_norm);
}

template <uint32_t kFlags>
constexpr bp_kernel with_plan(bp_kernel kernel) {
  kernel.plan = make_plan<kFlags>;
  kernel.plan_free = end_plan;
  return kernel;
}

constexpr bp_kernel make_reduction(std::string_view name, std::string_view op,
                                   bp_status (*launch)(const bp_launch_args*)) {
  bp_kernel kernel = make_kernel(name, op, launch, kDenseRules);
  kernel.supports = supports_one_result;
  return kernel;
}

constexpr uint64_t kGatherDtypes[] = {BP_DTYPE_BIT(BP_DTYPE_BOOL) | BP_DTYPE_BIT(BP_DTYPE_F32),
                                      BP_DTYPE_BIT(BP_DTYPE_I32) | BP_DTYPE_BIT(BP_DTYPE_I64)};

constexpr bp_arg_rule kDenseOfHost{sizeof(bp_arg_rule), BP_ARG_HOST_AT_LAUNCH_BIT,
                                   BP_STRIDES_CONTIGUOUS, 0};
constexpr const bp_arg_rule* kIndicesOfHost[] = {&kDense, &kDenseOfHost};

constexpr bp_kernel make_gather(std::string_view name, bp_status (*launch)(const bp_launch_args*),
                                const bp_arg_rule* const* rules, uint32_t rule_count) {
  bp_kernel kernel = make_kernel(name, "gather", launch, rules);
  kernel.arg_rule_count = rule_count;
  kernel.dtype_masks = kGatherDtypes;
  kernel.dtype_mask_count = std::size(kGatherDtypes);
  return with_plan<BP_PLAN_CAN_FAULT_BIT>(kernel);
}

constexpr bp_kernel make_wrong_matmul() {
  bp_kernel kernel = make_kernel("matmul_told", "matmul", launch_wrong_matmul, kDenseRules);
  kernel.supports = supports_matrices;
  kernel.depends_on = BP_DEPENDS_SIZES_BIT;
  kernel.plan = plan_matmul;
  kernel.plan_free = end_plan;
  kernel.prepack_query = query_matmul;
  kernel.prepack = pack_matmul;
  return kernel;
}

constexpr bp_kernel make_wrong_relu() {
  bp_kernel kernel = make_kernel("relu_told", "relu", launch_wrong_relu);
  kernel.flags |= BP_KERNEL_CAPTURABLE_BIT;
  kernel.depends_on = BP_DEPENDS_SIZES_BIT;
  kernel.supports = supports_ranges;
  kernel.plan = plan_relu;
  kernel.plan_free = end_plan;
  kernel.in_place_inputs = 1;
  return kernel;
}

constexpr bp_kernel kWrongRelu = make_wrong_relu();
constexpr bp_kernel kWrongAdd = make_kernel("add_told", "add", launch_wrong_add);
constexpr bp_kernel kWrongMatmul = make_wrong_matmul();
constexpr bp_kernel kWrongExp = make_kernel("exp_told", "exp", launch_wrong_exp);
constexpr bp_kernel kWrongSum = make_reduction("sum_told", "reduce_sum", launch_wrong_sum);
constexpr bp_kernel kWrongMax = make_reduction("max_told", "reduce_max", launch_wrong_max);
constexpr bp_kernel kWrongGather =
    make_gather("gather_told", launch_wrong_gather, kDenseRules, std::size(kDenseRules));
constexpr bp_kernel kWrongGatherOfHost = make_gather("gather_of_host", launch_wrong_gather_of_host,
                                                     kIndicesOfHost, std::size(kIndicesOfHost));
constexpr bp_kernel kWrongBatchNorm =
    make_kernel("batch_norm_told", "batch_norm", launch_wrong_batch_norm, kDenseRules);

}  // namespace

#include "fake_wrong_views.hpp"

#endif
