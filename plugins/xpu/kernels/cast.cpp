// SPDX-License-Identifier: Apache-2.0
//
// Plans of cast: a program for each pair of dtypes.
#include <string>

#include "device.hpp"
#include "kernels/dtypes.hpp"
#include "kernels/nest.hpp"

namespace bp::xpu {
namespace {

constexpr uint64_t kCastDtypes = kNumbers | sdk::dtypes({BP_DTYPE_BOOL});

/// How cast.cl converts: without a number rounded twice.
const char* conversion(uint32_t from, uint32_t to) {
  if (to == BP_DTYPE_BOOL) return "truth";
  if (is_float(from) && !is_float(to)) return "truncate";
  const bool is_wide = from == BP_DTYPE_F64 || sdk::dtype_bytes(from) >= sizeof(int32_t);
  return is_half(to) && is_wide && from != BP_DTYPE_F32 ? "narrow" : "plain";
}

/// "convert_char_sat_rtz"
std::string saturation(uint32_t to) {
  const std::string type = element_type(to);
  const bool is_signed = to >= BP_DTYPE_I8 && to <= BP_DTYPE_I64;
  return "convert_" + (is_signed ? type.substr(1) : type) + "_sat_rtz";
}

Plan plan_cast(const Device&, const bp_kernel_query& query) {
  expect_inputs(query, 1);
  const uint32_t from = argument(query, 0).dtype;
  const uint32_t to = argument(query, 1).dtype;
  const auto nest = make_nest<Nest1>(query);
  const std::string options =
      define("BP_FROM", dtype_name(from)) + define("BP_TO", dtype_name(to)) +
      define("BP_CONVERT", conversion(from, to)) + define("BP_SATURATE", saturation(to));
  Step step(program_of("cast.cl", options), is_dense(nest, 1) ? "cast_dense" : "cast_strided",
            nest);
  return {.steps = {step.items(nest.item_count)}};
}

bp_status cast_supports(bp_device* device, const bp_kernel_query* query, bp_support* out_support) {
  return sdk::slot("supports", device, {query, out_support}, [&]() -> bp_status {
    sdk::require_whole("supports", query);
    if ((kCastDtypes & BP_DTYPE_BIT(sdk::output_info(*query).dtype)) != 0) {
      return supports(device, query, out_support);
    }
    bp_support support{};
    support.answer = BP_SUPPORT_NO;
    support.reason = sdk::str("casts only to bool, integers, f16, bf16, f32 and f64");
    sdk::write_out(out_support, support);
    return BP_OK;
  });
}

constexpr uint64_t kDtypes[] = {kCastDtypes};

constexpr bp_kernel describe_cast() {
  bp_kernel kernel = describe<plan_cast>("cast_number", "cast", kDtypes);
  kernel.supports = cast_supports;
  return kernel;
}

constexpr bp_kernel kKernels[] = {describe_cast()};

}  // namespace

BP_SDK_KERNELS(cast, kKernels);

}  // namespace bp::xpu
