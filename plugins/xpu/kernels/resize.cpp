// SPDX-License-Identifier: Apache-2.0
//
// The plan of resize: a table for each dimension that changes, made on the host in double.
#include "backplane/sdk/resize.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "device.hpp"
#include "kernels/dtypes.hpp"
#include "kernels/kernel.hpp"

namespace bp::xpu {
namespace {

using sdk::ResizeAxis;
using sdk::ResizeMode;
using sdk::ResizeRules;

/// Appends values, at a multiple of 8 bytes, and answers where.
template <class T>
uint64_t append(const std::vector<T>& values, std::vector<std::byte>* out) {
  out->resize((out->size() + 7) / 8 * 8);
  const uint64_t place = out->size();
  const auto bytes = std::as_bytes(std::span(values));
  out->insert(out->end(), bytes.begin(), bytes.end());
  return place;
}

void add_table(const ResizeRules& rules, const ResizeAxis& axis, uint32_t d, bool in_f64,
               ResizeGeometry* geometry, std::vector<std::byte>* constants) {
  sdk::ResizeTable table = make_resize_table(rules, axis);
  const auto taps = static_cast<size_t>(table.taps);
  for (size_t o = 0; o < table.outside.size(); ++o) {
    if (table.outside[o] != 0) table.index[o * taps] = -1;
  }
  geometry->taps[d] = taps;
  geometry->position_bytes[d] = append(table.index, constants);
  geometry->weight_bytes[d] =
      in_f64 ? append(table.weight, constants)
             : append(std::vector<float>(table.weight.begin(), table.weight.end()), constants);
}

Plan plan_resize(const Device& device, const bp_kernel_query& query) {
  const auto attributes = sdk::read_attributes(query.attributes, bp_attrs_resize_defaults());
  const bp_arg_info& x = argument(query, 0);
  const bp_arg_info& y = argument(query, query.input_count);
  ResizeGeometry geometry{};
  geometry.item_count = element_count(y);
  if (geometry.item_count == 0) return {};
  if (element_count(x) == 0) sdk::refuse("plan: resize of an input without elements");
  const ResizeRules rules = sdk::read_resize_rules(attributes);
  const bool is_nearest = rules.mode == ResizeMode::kNearest;
  const bool in_f64 = x.dtype == BP_DTYPE_F64 || (!is_float(x.dtype) && device.info().has_f64);
  if (!is_nearest && !is_float(x.dtype) && !in_f64) {
    throw sdk::Refusal{"integers are mixed in f64, which the device does not compute in"};
  }
  geometry.rank = y.rank;
  std::copy_n(y.sizes, y.rank, geometry.sizes);
  std::copy_n(x.strides, x.rank, geometry.x_strides);
  geometry.extrapolation = static_cast<float>(attributes.extrapolation_value);
  geometry.extrapolation_bits = std::bit_cast<uint64_t>(attributes.extrapolation_value);
  Plan plan;
  const std::vector<ResizeAxis> axes = sdk::read_resize_axes(query, attributes);
  for (uint32_t d = 0; d < y.rank; ++d) {
    if (axes[d].is_identity()) continue;
    add_table(rules, axes[d], d, in_f64, &geometry, &plan.constants);
  }
  const std::string options = define("BP_DTYPE", dtype_name(x.dtype)) +
                              (in_f64 ? define("BP_ACC", "double") + define("BP_ACC_DOUBLE", 1)
                                      : define("BP_ACC", "float") + define("BP_ACC_FLOAT", 1));
  Step step(program_of("resize.cl", options), is_nearest ? "resize_nearest" : "resize_mixing",
            geometry);
  plan.steps.push_back(
      step.items(geometry.item_count)
          .buffers({Buffer::tensor(0), Buffer::constants(), Buffer::tensor(query.input_count)}));
  return plan;
}

constexpr uint64_t kDtypes[] = {kNumbers | sdk::dtypes({BP_DTYPE_BOOL})};

constexpr bp_kernel kKernels[] = {
    describe<plan_resize>("resize_tables", "resize", kDtypes, {.arg_rules = kThenHost})};

}  // namespace

BP_SDK_KERNELS(resize, kKernels);

}  // namespace bp::xpu
