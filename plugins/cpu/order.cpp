// SPDX-License-Identifier: Apache-2.0
//
// See order.hpp.
#include "order.hpp"

#include <algorithm>
#include <numeric>

namespace bp::cpu {
namespace {

bool are_equal(std::span<const int64_t> sizes, std::span<const int64_t> a,
               std::span<const int64_t> b) {
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] != 1 && a[d] != b[d]) return false;
  }
  return true;
}

Strides row_major_strides(std::span<const int64_t> sizes) {
  Strides strides{};
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= sizes[d];
  }
  return strides;
}

}  // namespace

bool is_row_major(const bp_arg_info& info) {
  return are_equal(sizes_of(info), strides_of(info), row_major_strides(sizes_of(info)));
}

Strides channels_last_strides(std::span<const int64_t> sizes) {
  Strides strides{};
  int64_t stride = sizes[1];
  for (size_t d = sizes.size(); d-- > 2;) {
    strides[d] = stride;
    stride *= sizes[d];
  }
  strides[1] = 1;
  strides[0] = stride;
  return strides;
}

bool is_channels_last(std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  return are_equal(sizes, strides, channels_last_strides(sizes)) &&
         !are_equal(sizes, strides, row_major_strides(sizes));
}

std::optional<Strides> dense_strides(std::span<const int64_t> sizes,
                                     std::span<const int64_t> strides) {
  const Strides row_major = row_major_strides(sizes);
  if (are_equal(sizes, strides, row_major)) return row_major;
  if (sizes.size() > 2 && is_channels_last(sizes, strides)) return channels_last_strides(sizes);
  std::array<size_t, BP_MAX_RANK> order{};
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.begin() + static_cast<int64_t>(sizes.size()),
            [&](size_t a, size_t b) { return strides[a] < strides[b]; });
  Strides dense{};
  int64_t expected = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const size_t d = order[i];
    dense[d] = 1;
    if (sizes[d] == 1) continue;
    if (strides[d] != expected) return std::nullopt;
    dense[d] = expected;
    expected *= sizes[d];
  }
  return dense;
}

void follow_inputs(const bp_kernel_query& query, OrderedPlan* plan, bp_plan_info* info) {
  const bp_arg_info& y = output_info(query);
  if (!may_choose_order(y)) return;
  const std::span<const int64_t> sizes = sizes_of(y);
  for (uint32_t i = 0; i < query.input_count; ++i) {
    const bp_arg_info& x = arg_info(query, i);
    const bool has_shape =
        x.dtype != BP_DTYPE_NONE && std::ranges::equal(sizes_of(x), sizes) && x.strides != nullptr;
    if (!has_shape || is_row_major(x)) continue;
    const auto strides = dense_strides(sizes, strides_of(x));
    if (!strides) continue;
    plan->out_strides = *strides;
    info->out_strides = plan->out_strides.data();
    return;
  }
}

void follow_channels(const bp_kernel_query& query, OrderedPlan* plan, bp_plan_info* info) {
  const bp_arg_info& y = output_info(query);
  if (!may_choose_order(y) || y.rank < 3) return;
  for (uint32_t i = 0; i < query.input_count; ++i) {
    const bp_arg_info& x = arg_info(query, i);
    const bool has_rank = x.dtype != BP_DTYPE_NONE && x.rank == y.rank && x.strides != nullptr;
    if (!has_rank || !is_channels_last(sizes_of(x), strides_of(x))) continue;
    plan->out_strides = channels_last_strides(sizes_of(y));
    info->out_strides = plan->out_strides.data();
    return;
  }
}

}  // namespace bp::cpu
