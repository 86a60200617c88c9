// SPDX-License-Identifier: Apache-2.0
//
// What kernels offer beside computing - ranges of sizes, packed weights - right until device_fault
// names what is wrong with it. Part of fake_wrong_kernels.hpp.
#ifndef BACKPLANE_TESTS_FAKES_FAKE_WRONG_OFFERS_HPP
#define BACKPLANE_TESTS_FAKES_FAKE_WRONG_OFFERS_HPP

namespace {

// --- ranges ---

constexpr int64_t kFewElements = 128;
constexpr bp_size_range kAllSizes[] = {{0, BP_RANGE_ELEMENTS, 0, INT64_MAX}};
constexpr bp_size_range kFewSizes[] = {{0, BP_RANGE_ELEMENTS, 0, kFewElements}};
constexpr bp_size_range kSizesOfNothing[] = {{9, 0, 0, 1}};

bp_status supports_ranges(bp_device* device, const bp_kernel_query* query,
                          bp_support* out_support) {
  if (!device || !query || !out_support) return BP_INVALID_ARGUMENT;
  bp_support support{};
  support.answer = BP_SUPPORT_YES;
  support.ranges = kAllSizes;
  if (device->fault == "relu_takes_outside") support.ranges = kFewSizes;
  if (device->fault == "relu_ranges_of_nothing") support.ranges = kSizesOfNothing;
  support.range_count = 1;
  bp::sdk::write_out(out_support, support);
  return BP_OK;
}

bp_status plan_relu(bp_device* device, const bp_kernel_query* query, bp_plan_info* out_info,
                    bp_kernel_plan** out_plan) {
  if (!device || !query || !out_info || !out_plan) return BP_INVALID_ARGUMENT;
  bp_plan_info info{};
  int64_t count = 1;
  for (uint32_t i = 0; i < query->args[0].rank; ++i) count *= query->args[0].sizes[i];
  const bool refuses = device->fault == "relu_refuses_within" && count > kFewElements;
  if (refuses) info.reason = bp::sdk::str("takes few elements");
  bp::sdk::write_out(out_info, info);
  if (refuses) return BP_UNSUPPORTED;
  *out_plan = new bp_kernel_plan;
  return BP_OK;
}

// --- packed weights: the second matrix, column by column ---

bp_status plan_matmul(bp_device* device, const bp_kernel_query* query, bp_plan_info* out_info,
                      bp_kernel_plan** out_plan) {
  if (!device || !query || !out_info || !out_plan) return BP_INVALID_ARGUMENT;
  auto plan = std::make_unique<bp_kernel_plan>();
  const bp_arg_info& b = query->args[1];
  plan->is_packed =
      (b.flags & BP_INFO_CONSTANT_BIT) != 0 || device->fault == "matmul_packs_what_varies";
  std::copy_n(b.sizes, 2, plan->packed_sizes);
  bp_plan_info info{};
  if (plan->is_packed) info.packed_inputs = 2;
  bp::sdk::write_out(out_info, info);
  *out_plan = plan.release();
  return BP_OK;
}

bp_status query_matmul(bp_device* device, const bp_kernel_plan* plan, uint32_t input,
                       bp_prepack_info* out_info) {
  if (!device || !plan || !out_info || input > 1) return BP_INVALID_ARGUMENT;
  bp_prepack_info info{};
  info.bytes = static_cast<uint64_t>(plan->packed_sizes[0] * plan->packed_sizes[1]) * sizeof(float);
  info.bytes = std::max<uint64_t>(info.bytes, 1);
  info.alignment_bytes = device->fault == "matmul_packs_to_48" ? 48 : 64;
  info.layout = bp::sdk::str("by columns");
  static std::atomic<uint64_t> turn{0};
  if (device->fault == "matmul_form_changes") info.bytes += turn++;
  if (device->fault == "pack_query_rounds") std::fesetround(FE_UPWARD);
  if (device->fault == "pack_of_nothing") info.bytes = 0;
  if (device->fault == "pack_huge") info.bytes = UINT64_MAX - 100;
  if (device->fault == "pack_larger_than_memory") info.bytes = device->memory_bytes + 1;
  if (device->fault == "pack_to_512") info.alignment_bytes = 512;
  if (device->fault == "pack_without_layout") info.layout = {};
  if (device->fault == "pack_with_long_layout") info.layout.len = 4097;
  bp::sdk::write_out(out_info, info);
  if (device->fault != "pack_query_fails") return BP_OK;
  return device->instance->host.fail(device->pack_status, "the packer cannot tell");
}

bp_status pack_matmul(bp_device* device, const bp_prepack_args* args) {
  if (!device || !args) return BP_INVALID_ARGUMENT;
  const bp_tensor& b = *args->input;
  const int64_t rows = b.sizes[0];
  const int64_t columns = b.sizes[1];
  const int64_t count = rows * columns;
  auto* const to = reinterpret_cast<float*>(args->packed.handle + args->packed.offset_bytes);
  const bool by_rows = device->fault == "matmul_packs_by_rows";
  for (int64_t i = 0; i < count; ++i) {
    const int64_t from = by_rows ? i : i % rows * columns + i / rows;
    to[i] = element(b, b, from);
  }
  if (device->fault == "matmul_packs_short" && count > 0) to[count - 1] = std::nanf("");
  if (device->fault == "matmul_packs_behind") to[count] = 0;
  if (device->fault != "pack_fails") return BP_OK;
  return device->instance->host.fail(device->pack_status, "the packer jammed");
}

}  // namespace

#endif
