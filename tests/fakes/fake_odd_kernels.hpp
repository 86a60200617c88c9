// SPDX-License-Identifier: Apache-2.0
//
// Kernels that ask much of the core or answer it badly (FAKE_ODD_KERNELS): fake_plugin.cpp includes
// it behind its own kernels. Which of them misbehaves is the option device_fault's.
#ifndef BACKPLANE_TESTS_FAKES_FAKE_ODD_KERNELS_HPP
#define BACKPLANE_TESTS_FAKES_FAKE_ODD_KERNELS_HPP

struct bp_kernel_plan {};

namespace {

constexpr uint64_t kScratchBytes = 256;
bp_kernel_plan empty_plan;
void plan_free(bp_device*, bp_kernel_plan*) {}

/// A plan that wants a workspace with this alignment and of this size.
template <uint64_t kAlignment, uint64_t kBytes = kScratchBytes>
bp_status plan_workspace(bp_device* device, const bp_kernel_query* query, bp_plan_info* out_info,
                         bp_kernel_plan** out_plan) {
  if (!device || !query || !out_info || !out_plan) return BP_INVALID_ARGUMENT;
  bp_plan_info info{};
  info.workspace_bytes = kBytes;
  info.workspace_alignment_bytes = kAlignment;
  bp::sdk::write_out(out_info, info);
  *out_plan = &empty_plan;
  return BP_OK;
}

/// Lays a matrix of 2 x 3 by columns where it may, or badly, as the option says.
bp_status plan_order(bp_device* device, const bp_kernel_query* query, bp_plan_info* out_info,
                     bp_kernel_plan** out_plan) {
  static constexpr struct {
    std::string_view fault;
    int64_t strides[2];
  } kOrders[] = {{"order_overlaps", {1, 1}}, {"order_gaps", {1, 3}},
                 {"order_repeats", {0, 1}},  {"order_negative", {-1, 2}},
                 {"order_short", {1, 0}},    {"order_huge", {INT64_MAX, INT64_MIN}},
                 {"order_unasked", {1, 2}},  {"none", {1, 2}}};
  if (!device || !query || !out_info || !out_plan) return BP_INVALID_ARGUMENT;
  bp_plan_info info{};
  const bool may_choose = (query->args[query->input_count].flags & BP_INFO_ANY_ORDER_BIT) != 0;
  for (const auto& order : kOrders) {
    const bool answers = may_choose || order.fault == "order_unasked";
    if (order.fault == device->fault && answers) info.out_strides = order.strides;
  }
  alignas(int64_t) static constexpr char kInside[3 * sizeof(int64_t)] = {};
  if (device->fault == "order_misaligned") {
    info.out_strides = reinterpret_cast<const int64_t*>(kInside + sizeof(int64_t) / 2);
  }
  bp::sdk::write_out(out_info, info);
  *out_plan = &empty_plan;
  return BP_OK;
}

/// Needs what it asked for: its workspace, and an input on a boundary.
void compute_identity(const bp_launch_args& args) {
  if (args.workspace.handle == 0) throw Failure{BP_INVALID_ARGUMENT, "no workspace"};
  std::memset(device_end(args.device, args.workspace, kScratchBytes), 0xab, kScratchBytes);
  if (args.tensors[0].offset_bytes % 64 != 0) throw Failure{BP_INVALID_ARGUMENT, "misaligned"};
  const bp_tensor& out = args.tensors[1];
  for (int64_t i = 0; i < bp::sdk::element_count(out); ++i) {
    element(out, out, i) = element(args.tensors[0], out, i);
  }
}

/// Takes any strides, from a boundary.
void compute_exp(const bp_launch_args& args) {
  if (args.tensors[0].offset_bytes % 64 != 0) throw Failure{BP_INVALID_ARGUMENT, "misaligned"};
  const bp_tensor& out = args.tensors[1];
  for (int64_t i = 0; i < bp::sdk::element_count(out); ++i) {
    element(out, out, i) = std::exp(element(args.tensors[0], out, i));
  }
}

/// Of one dimension. Reports sizes that cannot be, if it is told to.
void compute_non_zero(const bp_launch_args& args) {
  const bp_tensor& x = args.tensors[0];
  const bp_tensor& out = args.tensors[1];
  auto* const found = reinterpret_cast<int64_t*>(out.handle + out.offset_bytes);
  int64_t count = 0;
  for (int64_t i = 0; i < bp::sdk::element_count(x); ++i) {
    if (element(x, x, i) != 0) found[count++] = i;
  }
  if (args.device->fault == "extents_above") count = out.sizes[1] + 1;
  if (args.device->fault == "extents_negative") count = -1;
  const uint64_t bytes = BP_MAX_RANK * sizeof(int64_t);
  auto* const extents =
      reinterpret_cast<int64_t*>(device_end(args.device, args.out_extents, bytes));
  extents[0] = args.device->fault == "extents_of_rank" ? 0 : 1;
  extents[1] = count;
}

/// y = x0 - x1 + x2 - ... Reads its inputs in the order that they lie in memory.
void compute_alternate(const bp_launch_args& args) {
  const bp_tensor& out = args.tensors[args.input_count];
  for (int64_t i = 0; i < bp::sdk::element_count(out); ++i) {
    float sum = 0;
    for (uint32_t input = 0; input < args.input_count; ++input) {
      const bp_tensor& x = args.tensors[input];
      const float value = reinterpret_cast<const float*>(x.handle + x.offset_bytes)[i];
      sum += input % 2 == 0 ? value : -value;
    }
    element(out, out, i) = sum;
  }
}

/// y = -x, both by their strides.
void compute_neg(const bp_launch_args& args) {
  const bp_tensor& out = args.tensors[1];
  for (int64_t i = 0; i < bp::sdk::element_count(out); ++i) {
    element(out, out, i) = -element(args.tensors[0], out, i);
  }
}

void compute_never(const bp_launch_args&) {
  throw Failure{BP_INTERNAL, "launched although its plan cannot be met"};
}

constexpr int64_t kFewElements = 4;

/// For sizes as the option says.
void answer_ranges(const bp_device& device, bp_support* out_support) {
  static constexpr struct {
    std::string_view fault;
    bp_size_range range;
    uint64_t count = 1;
  } kRanges[] = {{"ranges_few", {0, BP_RANGE_ELEMENTS, 0, kFewElements}},
                 {"ranges_backwards", {0, BP_RANGE_ELEMENTS, 5, 4}},
                 {"ranges_negative", {0, BP_RANGE_ELEMENTS, -7, 4}},
                 {"ranges_no_dimension", {0, 1, 0, 4}},
                 {"ranges_no_argument", {3, 0, 0, 4}},
                 {"ranges_many", {0, 0, 0, 4}, 257}};
  for (const auto& each : kRanges) {
    if (each.fault != device.fault) continue;
    out_support->ranges = &each.range;
    out_support->range_count = each.count;
  }
}

bp_status plan_later(bp_device* device, const bp_kernel_query* query, bp_plan_info* out_info,
                     bp_kernel_plan** out_plan) {
  if (!device || !query || !out_info || !out_plan) return BP_INVALID_ARGUMENT;
  if (device->fault == "ranges_few" && query->args[0].sizes[0] > kFewElements) {
    return device->instance->host.fail(BP_INTERNAL, "asked for sizes outside of its ranges");
  }
  bp::sdk::write_out(out_info, bp_plan_info{});
  *out_plan = &empty_plan;
  return BP_OK;
}

bp_status supports_later(bp_device* device, const bp_kernel_query* query, bp_support* out_support) {
  if (!device || !query || !out_support) return BP_INVALID_ARGUMENT;
  if (device->fault == "supports_no_memory" && device->refusals_left-- > 0) {
    return device->instance->host.fail(BP_OUT_OF_MEMORY, "no memory to look");
  }
  bp_support support{};
  support.answer = BP_SUPPORT_YES;
  answer_ranges(*device, &support);
  bp::sdk::write_out(out_support, support);
  return BP_OK;
}

bp_status launch_identity(const bp_launch_args* args) { return start(args, compute_identity); }
bp_status launch_exp(const bp_launch_args* args) { return start(args, compute_exp); }
bp_status launch_non_zero(const bp_launch_args* args) { return start(args, compute_non_zero); }
bp_status launch_alternate(const bp_launch_args* args) { return start(args, compute_alternate); }
bp_status launch_neg(const bp_launch_args* args) { return start(args, compute_neg); }
bp_status launch_never(const bp_launch_args* args) { return start(args, compute_never); }

constexpr bp_arg_rule kOnBoundary = {sizeof(bp_arg_rule), 0, BP_STRIDES_ANY, 64};
constexpr const bp_arg_rule* kBoundaryRules[] = {&kOnBoundary};

template <uint64_t kAlignment, uint64_t kBytes = kScratchBytes>
constexpr bp_kernel with_workspace(bp_kernel kernel, int32_t priority = 0) {
  kernel.plan = plan_workspace<kAlignment, kBytes>;
  kernel.plan_free = plan_free;
  kernel.priority = priority;
  return kernel;
}

constexpr bp_kernel make_later() {
  bp_kernel kernel = make_kernel("sub_later", "sub", launch_sub, kDenseRules);
  kernel.priority = 1;
  kernel.supports = supports_later;
  kernel.depends_on = BP_DEPENDS_SIZES_BIT;
  kernel.plan = plan_later;
  kernel.plan_free = plan_free;
  return kernel;
}

constexpr bp_kernel make_ordered() {
  bp_kernel kernel = make_kernel("neg_ordered", "neg", launch_neg);
  kernel.flags |= BP_KERNEL_CHOOSES_ORDER_BIT;
  kernel.depends_on = BP_DEPENDS_SIZES_BIT;
  kernel.plan = plan_order;
  kernel.plan_free = plan_free;
  return kernel;
}

constexpr bp_kernel kIdentity = with_workspace<256>(
    make_kernel("identity_scratch", "identity", launch_identity, kBoundaryRules));
constexpr bp_kernel kExp = make_kernel("exp_on_boundary", "exp", launch_exp, kBoundaryRules);
/// Of an operator that only a test registers.
constexpr bp_kernel kAlternate =
    make_kernel("alternate_dense", "alternate", launch_alternate, kDenseRules);
constexpr bp_kernel kNonZero = make_kernel("non_zero_told", "non_zero", launch_non_zero);
constexpr bp_kernel kPickyRelu =
    with_workspace<512>(make_kernel("relu_picky", "relu", launch_never), 1);
constexpr bp_kernel kPickySqrt =
    with_workspace<512>(make_kernel("sqrt_picky", "sqrt", launch_never));
constexpr bp_kernel kCrookedCeil =
    with_workspace<48>(make_kernel("ceil_crooked", "ceil", launch_never));
constexpr bp_kernel kHugest =
    with_workspace<256, UINT64_MAX>(make_kernel("reciprocal_hugest", "reciprocal", launch_never));
constexpr bp_kernel kHuge = with_workspace<256, UINT64_MAX - 199>(
    make_kernel("reciprocal_huge", "reciprocal", launch_never));
constexpr bp_kernel kLarge =
    with_workspace<256, uint64_t{1} << 45>(make_kernel("softmax_large", "softmax", launch_never));
constexpr bp_kernel kLaterSub = make_later();
/// So that deterministic calls have kLaterSub alone.
constexpr bp_kernel kLooseSub = [] {
  bp_kernel kernel = kSub;
  kernel.flags &= ~BP_KERNEL_DETERMINISTIC_BIT;
  return kernel;
}();
constexpr bp_kernel kOrderedNeg = make_ordered();

// --- kernels that do not fit their operators ---

constexpr uint64_t kBoolToo[] = {BP_DTYPE_BIT(BP_DTYPE_F32) | BP_DTYPE_BIT(BP_DTYPE_BOOL)};

constexpr bp_kernel with_dtypes(bp_kernel kernel, const uint64_t* masks, uint32_t count) {
  kernel.dtype_masks = masks;
  kernel.dtype_mask_count = count;
  return kernel;
}

constexpr bp_kernel kReluWithoutLaunch = make_kernel("relu_void", "relu", nullptr);
constexpr bp_kernel kAddWithoutSets =
    with_dtypes(make_kernel("add_any", "add", launch_add), nullptr, 0);
constexpr bp_kernel kSubOfBool =
    with_dtypes(make_kernel("sub_bool", "sub", launch_sub, kDenseRules), kBoolToo, 1);
constexpr uint64_t kBoolOnly[] = {BP_DTYPE_BIT(BP_DTYPE_BOOL)};
constexpr bp_kernel kDivOfBool =
    with_dtypes(make_kernel("div_bool", "div", launch_sub, kDenseRules), kBoolOnly, 1);
constexpr bp_kernel kMisspelt = make_kernel("relu_slip", "rleu", launch_relu);
constexpr const bp_kernel* kMisfits[] = {&kReluWithoutLaunch, &kAddWithoutSets, &kSubOfBool,
                                         &kDivOfBool, &kMisspelt};
// --- more kernels that refuse their plans than a message has room for ---

constexpr size_t kUnwillingCount = 40;
struct Unwilling {
  constexpr Unwilling() {
    for (size_t i = 0; i < kUnwillingCount; ++i) {
      names[i][0] = 'a' + static_cast<char>(i % 20);
      names[i][1] = 'a' + static_cast<char>(i / 20);
      kernels[i] = with_workspace<512>(make_kernel({names[i], 2}, "floor", launch_never));
      list[i] = &kernels[i];
    }
  }
  char names[kUnwillingCount][2] = {};
  bp_kernel kernels[kUnwillingCount] = {};
  const bp_kernel* list[kUnwillingCount] = {};
};
constexpr Unwilling kUnwilling;
constexpr bp_kernel_list kUnwillingList{sizeof(bp_kernel_list), 0, kUnwilling.list,
                                        kUnwillingCount};

constexpr bp_kernel_list kMisfitList{sizeof(bp_kernel_list), 0, kMisfits, std::size(kMisfits)};

}  // namespace

#endif
