// SPDX-License-Identifier: Apache-2.0
//
// conv, matmul and gemm of half types by the kernels of f32: inputs are widened into the workspace,
// where the result lies as well until it is rounded, once. A pass over the inputs and the output
// costs little beside what the fast kernels save. Constants are widened when they are packed, so
// that no launch reads them as halves.
//
// Only the first version of the operators, without an epilogue: between a product of halves and an
// operator of its own the value is rounded, which an epilogue in f32 would leave out.
#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "cast_halves.hpp"
#include "kernel_support.hpp"
#include "order.hpp"

namespace bp::cpu {
namespace {

constexpr uint64_t kPlaceAlignment = 256;  // the most that a kernel may ask for
constexpr uint64_t kVectorAlignment = 64;
// Of one argument; the sum of all is far from what 64 bits hold.
constexpr int64_t kMostElements = int64_t{1} << 40;
constexpr uint32_t kMostTensors = 4;  // three inputs and the output
constexpr std::string_view kWidened = "f32";

struct ThroughPlan : bp_kernel_plan {
  const bp_kernel* kernel = nullptr;  // of f32
  std::unique_ptr<bp_kernel_plan> plan;
  std::array<uint64_t, kMostTensors> bytes{};   // of the arguments in f32
  std::array<uint64_t, kMostTensors> places{};  // of those that lie in the workspace
  uint64_t workspace = 0;                       // of the kernel, behind them
  uint64_t packed = 0;                          // inputs that launches take as f32
  uint64_t packed_by_kernel = 0;                // those of them that the kernel lays out
};

bool is_in(uint64_t set, uint32_t input) { return input < 64 && (set >> input & 1) != 0; }

bool is_there(const bp_arg_info& info) { return info.dtype != BP_DTYPE_NONE; }

uint64_t f32_bytes(const bp_arg_info& info) {
  int64_t count = 1;
  for (const int64_t size : sizes_of(info)) count = sdk::saturating_product({count, size});
  if (count == 0) throw Refusal{"empty tensors need no vectors"};
  if (count > kMostElements) throw Refusal{"does not widen as large a tensor"};
  return static_cast<uint64_t>(count) * sizeof(float);
}

// The same question in f32.
struct F32Query {
  explicit F32Query(const bp_kernel_query& halves) : query(halves) {
    const uint32_t count = halves.input_count + halves.output_count;
    for (uint32_t i = 0; i < count; ++i) {
      const bp_arg_info& half = arg_info(halves, i);
      const bool is_dense =
          !is_there(half) || dense_strides(sizes_of(half), strides_of(half)).has_value();
      if (!is_dense) throw Refusal{"takes tensors without gaps"};
      args.push_back({.struct_size = sizeof(bp_arg_info),
                      .flags = half.flags,
                      .dtype = is_there(half) ? uint32_t{BP_DTYPE_F32} : half.dtype,
                      .rank = half.rank,
                      .sizes = half.sizes,
                      .strides = half.strides,
                      .host_data = nullptr});
    }
    query.arg_stride_bytes = sizeof(bp_arg_info);
  }

  // As the core would ask the kernel.
  const bp_kernel_query& ask(const bp_kernel* kernel) {
    asked = args;
    for (bp_arg_info& info : asked) {
      if (kernel->prepack == nullptr) info.flags &= ~BP_INFO_CONSTANT_BIT;
      if ((kernel->flags & BP_KERNEL_CHOOSES_ORDER_BIT) == 0) info.flags &= ~BP_INFO_ANY_ORDER_BIT;
    }
    query.kernel = kernel;
    query.args = asked.data();
    return query;
  }

  bp_kernel_query query;
  std::vector<bp_arg_info> args;
  std::vector<bp_arg_info> asked;
};

bool takes_strides(const bp_kernel& kernel, const bp_kernel_query& query) {
  for (uint32_t i = 0; i < query.input_count; ++i) {
    const bp_arg_info& info = arg_info(query, i);
    const uint32_t strides =
        kernel.arg_rule_count == 0
            ? BP_STRIDES_CONTIGUOUS
            : kernel.arg_rules[std::min(i, kernel.arg_rule_count - 1)]->strides;
    const bool takes_any_dense = strides == BP_STRIDES_NON_NEGATIVE || strides == BP_STRIDES_ANY ||
                                 strides == BP_STRIDES_DENSE;
    if (is_there(info) && !takes_any_dense && !is_row_major(info)) return false;
  }
  return true;
}

bool supports(bp_device* device, const bp_kernel& kernel, const bp_kernel_query& query) {
  if (kernel.supports == nullptr) return true;
  bp_support support{};
  support.struct_size = sizeof(support);
  return kernel.supports(device, &query, &support) == BP_OK && support.answer != BP_SUPPORT_NO;
}

// Kernels of the operator for f32 that are worth the way there, as the core would ask them. The
// loops, which have no priority, take halves themselves.
std::vector<const bp_kernel*> fast_kernels(const bp_device& device, std::string_view op) {
  std::vector<const bp_kernel*> found;
  for (const bp_kernel* kernel : device.kernels()) {
    const bool is_f32 = (kernel->dtype_masks[0] & BP_DTYPE_BIT(BP_DTYPE_F32)) != 0;
    if (sdk::view(kernel->op) == op && is_f32 && kernel->priority > 0) found.push_back(kernel);
  }
  std::stable_sort(found.begin(), found.end(), [](const bp_kernel* a, const bp_kernel* b) {
    return a->priority > b->priority;
  });
  return found;
}

// Sets the plan's kernel and its plan.
bp_plan_info plan_in_f32(bp_device* device, const bp_kernel_query& halves, ThroughPlan* plan) {
  F32Query f32(halves);
  for (const bp_kernel* kernel : fast_kernels(*device, sdk::view(halves.kernel->op))) {
    const bp_kernel_query& query = f32.ask(kernel);
    if (!takes_strides(*kernel, query) || !supports(device, *kernel, query)) continue;
    bp_plan_info info{};
    info.struct_size = sizeof(info);
    bp_kernel_plan* made = nullptr;
    const bp_status status = kernel->plan(device, &query, &info, &made);
    plan->plan.reset(made);
    plan->kernel = kernel;
    if (status == BP_OK) return info;
    if (status == BP_OUT_OF_MEMORY) throw std::bad_alloc();
  }
  throw Refusal{"no fast kernel of f32 takes these shapes"};
}

std::unique_ptr<ThroughPlan> make_plan(bp_device* device, const bp_kernel_query& query,
                                       bp_plan_info* info) {
  const uint32_t count = query.input_count + query.output_count;
  if (count > kMostTensors) throw Refusal{"takes three inputs at most"};
  auto plan = std::make_unique<ThroughPlan>();
  for (uint32_t i = 0; i < count; ++i) {
    const bp_arg_info& arg = arg_info(query, i);
    if (!is_there(arg)) continue;
    plan->bytes[i] = f32_bytes(arg);
    const bool is_constant = (arg.flags & BP_INFO_CONSTANT_BIT) != 0;
    if (i < query.input_count && is_constant) plan->packed |= uint64_t{1} << i;
  }
  const bp_plan_info inner = plan_in_f32(device, query, plan.get());
  plan->packed_by_kernel = inner.packed_inputs;
  for (uint32_t i = 0; i < count; ++i) {
    if (is_in(plan->packed, i)) continue;
    plan->places[i] = plan->workspace;
    plan->workspace += (plan->bytes[i] + kPlaceAlignment - 1) / kPlaceAlignment * kPlaceAlignment;
  }
  const uint64_t inner_alignment =
      inner.workspace_alignment_bytes == 0 ? kPlaceAlignment : inner.workspace_alignment_bytes;
  *info = inner;
  info->packed_inputs = plan->packed;
  info->workspace_bytes = plan->workspace + inner.workspace_bytes;
  info->workspace_alignment_bytes =
      inner.workspace_bytes == 0 ? kVectorAlignment : std::max(kVectorAlignment, inner_alignment);
  return plan;
}

// The tensor's values in f32, which lie alike.
bp_tensor f32_tensor(const bp_tensor& halves, std::byte* values) {
  bp_tensor tensor = halves;
  tensor.dtype = BP_DTYPE_F32;
  tensor.handle = reinterpret_cast<uint64_t>(values);
  tensor.offset_bytes = 0;
  tensor.storage_bytes = static_cast<uint64_t>(sdk::element_count(halves)) * sizeof(float);
  return tensor;
}

bp_status launch(const bp_launch_args& args) {
  const auto& plan = *static_cast<const ThroughPlan*>(args.plan);
  Workers& workers = args.device->workers;
  std::byte* const workspace = address_of(args.workspace);
  std::array<bp_tensor, kMostTensors> tensors{};
  const uint32_t y = args.input_count;
  for (uint32_t i = 0; i <= y; ++i) {
    const bp_tensor& halves = args.tensors[i];
    tensors[i] = halves;
    if (halves.dtype == BP_DTYPE_NONE) continue;
    const bool is_packed = is_in(plan.packed, i);
    tensors[i] = f32_tensor(halves, is_packed ? address_of(halves) : workspace + plan.places[i]);
    if (i < y && !is_packed) cast_halves(workers, halves, tensors[i]);
  }
  bp_launch_args own = args;
  own.kernel = plan.kernel;
  own.plan = plan.plan.get();
  own.state = plan.kernel->state_create == nullptr ? nullptr : args.state;
  own.tensors = tensors.data();
  own.workspace.offset_bytes += plan.workspace;
  const bp_status status = plan.kernel->launch(&own);
  if (status == BP_OK) cast_halves(workers, tensors[y], args.tensors[y]);
  return status;
}

// The state is the kernel's own, or an empty one.
bp_status create_state(bp_device* device, const bp_kernel*, const bp_kernel_plan* plan,
                       bp_kernel_state** out_state) {
  return sdk::slot("state_create", device, {plan, out_state}, [&] {
    const auto& through = *static_cast<const ThroughPlan*>(plan);
    const auto create = through.kernel->state_create;
    if (create != nullptr) return create(device, through.kernel, through.plan.get(), out_state);
    *out_state = new bp_kernel_state;
    return bp_status{BP_OK};
  });
}

// Throws Failure unless the plan takes the input packed.
const ThroughPlan& plan_that_packs(const bp_kernel_plan* plan, uint32_t input) {
  const auto& through = *static_cast<const ThroughPlan*>(plan);
  if (!is_in(through.packed, input)) sdk::refuse("the plan takes no such input packed");
  return through;
}

bp_status query_packed(bp_device* device, const bp_kernel_plan* plan, uint32_t input,
                       bp_prepack_info* out_info) {
  return sdk::slot("prepack_query", device, {plan, out_info}, [&] {
    const ThroughPlan& through = plan_that_packs(plan, input);
    if (is_in(through.packed_by_kernel, input)) {
      return through.kernel->prepack_query(device, through.plan.get(), input, out_info);
    }
    bp_prepack_info info{};
    info.bytes = through.bytes[input];
    info.alignment_bytes = kVectorAlignment;
    info.layout = sdk::str(kWidened);
    sdk::write_out(out_info, info);
    return bp_status{BP_OK};
  });
}

bp_status pack(bp_device* device, const bp_prepack_args* args) {
  return sdk::slot("prepack", device, {args}, [&] {
    if (!BP_SDK_HAS(args, packed_bytes)) sdk::refuse("prepack: the arguments are cut short");
    const ThroughPlan& through = plan_that_packs(args->plan, args->input_index);
    const bp_tensor& halves = *args->input;
    if (!is_in(through.packed_by_kernel, args->input_index)) {
      cast_halves(device->workers, halves, f32_tensor(halves, address_of(args->packed)));
      return bp_status{BP_OK};
    }
    std::vector<float> values(static_cast<size_t>(sdk::element_count(halves)));
    const bp_tensor widened = f32_tensor(halves, reinterpret_cast<std::byte*>(values.data()));
    cast_halves(device->workers, halves, widened);
    bp_prepack_args own = sdk::read_args(args);
    own.struct_size = sizeof(own);
    own.kernel = through.kernel;
    own.plan = through.plan.get();
    own.input = &widened;
    return through.kernel->prepack(device, &own);
  });
}

constexpr uint64_t kMasks[] = {sdk::dtypes({BP_DTYPE_F16, BP_DTYPE_BF16})};
constexpr const bp_arg_rule* kAllDense[] = {&kDenseRule};

constexpr bp_kernel through_kernel(std::string_view name, std::string_view op,
                                   std::span<const bp_arg_rule* const> arg_rules, uint32_t flags) {
  return sdk::describe({.name = name,
                        .op = op,
                        .dtypes = kMasks,
                        .arg_rules = arg_rules,
                        .flags = flags,
                        .priority = 10,
                        .depends_on = BP_DEPENDS_SIZES_BIT | BP_DEPENDS_STRIDES_BIT,
                        .plan = plan_slot<ThroughPlan, make_plan>,
                        .plan_free = sdk::delete_plan<bp_kernel_plan>,
                        .launch = launch_slot<launch>,
                        .state_create = create_state,
                        .state_destroy = sdk::delete_state<bp_kernel_state>,
                        .prepack_query = query_packed,
                        .prepack = pack});
}

constexpr bp_kernel kKernels[] = {
    through_kernel("matmul_through_f32", "matmul", kAllDense, 0),
    through_kernel("gemm_through_f32", "gemm", kAllDense, 0),
    through_kernel("conv_through_f32", "conv", kFirstDense, BP_KERNEL_CHOOSES_ORDER_BIT)};

}  // namespace

BP_SDK_KERNELS(through_f32, kKernels);

}  // namespace bp::cpu
