// SPDX-License-Identifier: Apache-2.0
//
// What a kernel is asked before it is launched: a query's arguments, attributes, supports and plan.
#ifndef BACKPLANE_SDK_QUERY_HPP
#define BACKPLANE_SDK_QUERY_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "backplane/kernel.h"
#include "backplane/sdk/kernels.h"
#include "backplane/sdk/slot.hpp"

namespace bp::sdk {

/// Throws Failure unless the members that kernels read without looking at sizes again are there,
/// those of the oldest ABI that plugins of this SDK serve, and no flag asks for what is not known.
inline void require_whole(std::string_view slot_name, const bp_kernel_query* query) {
  constexpr size_t kArgBytes = offsetof(bp_arg_info, strides) + sizeof(bp_arg_info::strides);
  if (!BP_SDK_HAS(query, attributes_bytes) || query->args == nullptr ||
      query->arg_stride_bytes < kArgBytes) {
    refuse(slot_name, ": the query or its arguments are cut short");
  }
  uint32_t flags = query->flags;
  const auto* args = reinterpret_cast<const std::byte*>(query->args);
  for (uint32_t i = 0; i < query->input_count + query->output_count; ++i) {
    flags |=
        reinterpret_cast<const bp_arg_info*>(args + size_t{query->arg_stride_bytes} * i)->flags &
        ~(BP_INFO_CONSTANT_BIT | BP_INFO_ANY_ORDER_BIT);  // nobody has to pack, or to choose
  }
  if (flags != 0) fail(BP_UNSUPPORTED, slot_name, ": a query with flags ", flags);
}

/// Argument `index` of a whole query, inputs first. Throws Failure if there is none.
inline const bp_arg_info& arg_info(const bp_kernel_query& query, uint32_t index) {
  if (index >= query.input_count + query.output_count) refuse("a query without argument ", index);
  return *reinterpret_cast<const bp_arg_info*>(reinterpret_cast<const std::byte*>(query.args) +
                                               size_t{query.arg_stride_bytes} * index);
}
inline const bp_arg_info& output_info(const bp_kernel_query& query) {
  return arg_info(query, query.input_count);
}
inline bool has_input(const bp_kernel_query& query, uint32_t index) {
  return index < query.input_count && arg_info(query, index).dtype != BP_DTYPE_NONE;
}

/// The attributes of a query or a launch: read_attributes(args.attributes,
/// bp_attrs_conv_defaults()). Members that the sender's struct lacks keep their defaults; members
/// that we do not know are the core's to guard (bp_kernel.op_since).
template <class Attributes>
Attributes read_attributes(const void* attributes, Attributes defaults) {
  bp_sdk_read_attributes(&defaults, sizeof(defaults), attributes);
  return defaults;
}

/// What a kernel supports. All that it points to is static.
struct Support {
  const char* reason = nullptr;                // why not; nullptr: the ranges say for which sizes
  std::span<const bp_size_range> ranges = {};  // none: for all
  uint32_t answer_within = BP_SUPPORT_YES;     // or BP_SUPPORT_DEPENDS: plan may refuse sizes
};

/// bp_kernel.supports around a function that tells why not, or for which sizes.
template <Support (*Answer)(bp_device*, const bp_kernel_query&)>
bp_status support_slot(bp_device* device, const bp_kernel_query* query, bp_support* out_support) {
  return slot("supports", device, {query, out_support}, [&] {
    require_whole("supports", query);
    const Support answer = Answer(device, *query);
    bp_support support{};
    support.answer = answer.reason == nullptr ? answer.answer_within : BP_SUPPORT_NO;
    if (answer.reason != nullptr) support.reason = str(answer.reason);
    if (answer.reason == nullptr && !answer.ranges.empty()) {
      support.ranges = answer.ranges.data();
      support.range_count = answer.ranges.size();
    }
    write_out(out_support, support);
  });
}

template <const char* (*Reason)(const bp_kernel_query&)>
Support support_by_reason(bp_device*, const bp_kernel_query& query) {
  return {.reason = Reason(query)};
}
/// bp_kernel.supports around a function that tells why not; nullptr: yes. The reason is static
/// text.
template <const char* (*Reason)(const bp_kernel_query&)>
bp_status supports_slot(bp_device* device, const bp_kernel_query* query, bp_support* out_support) {
  return support_slot<support_by_reason<Reason>>(device, query, out_support);
}

/// Thrown while planning: a correct call that this kernel leaves to the next one.
struct Refusal {
  const char* reason;  // a literal: it must live as long as the plugin
};

/// For plan, of a query with sizes: throws Refusal for those outside of the ranges that supports
/// answered, which cores that know no ranges ask for all the same. Throws Failure for a range of
/// what is not there.
inline void refuse_outside(const bp_kernel_query& query, std::span<const bp_size_range> ranges) {
  for (const bp_size_range& range : ranges) {
    const bp_arg_info& info = arg_info(query, range.argument);
    if (info.dtype == BP_DTYPE_NONE) continue;
    const int64_t rank = info.rank;
    const int64_t dim = range.dim < 0 ? range.dim + rank : range.dim;
    int64_t size = 1;
    if (range.dim == BP_RANGE_ELEMENTS) {
      for (int64_t d = 0; d < rank; ++d) size *= info.sizes[d];
    } else if (dim < 0 || dim >= rank) {
      refuse("a range of dimension ", range.dim, " of an argument of rank ", rank);
    } else {
      size = info.sizes[dim];
    }
    if (size < range.min || size > range.max) throw Refusal{"takes no such sizes"};
  }
}

/// bp_kernel.plan around a function that makes the plan object and fills the info.
template <class Plan,
          std::unique_ptr<Plan> (*Make)(bp_device*, const bp_kernel_query&, bp_plan_info*)>
bp_status plan_slot(bp_device* device, const bp_kernel_query* query, bp_plan_info* out_info,
                    bp_kernel_plan** out_plan) {
  return slot("plan", device, {query, out_info, out_plan}, [&]() -> bp_status {
    require_whole("plan", query);
    bp_plan_info info{};
    try {
      *out_plan = Make(device, *query, &info).release();
    } catch (const Refusal& refusal) {
      info = {};
      info.reason = str(refusal.reason);
      write_out(out_info, info);
      return BP_UNSUPPORTED;
    }
    write_out(out_info, info);
    return BP_OK;
  });
}

/// bp_kernel.plan_free and .state_destroy for objects made with new; Plan and State are the
/// plugin's complete types.
template <class Plan>
void delete_plan(bp_device*, bp_kernel_plan* plan) {
  delete static_cast<Plan*>(plan);
}
template <class State>
void delete_state(bp_device*, bp_kernel_state* state) {
  delete static_cast<State*>(state);
}

}  // namespace bp::sdk

#endif
