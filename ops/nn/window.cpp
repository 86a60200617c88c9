// SPDX-License-Identifier: Apache-2.0
//
// Sliding windows; see window.hpp.
#include "ops/nn/window.hpp"

#include <algorithm>
#include <limits>

#include "core/op/attributes.hpp"
#include "ops/decompose/builder.hpp"

namespace bp::ops {
namespace {

// With every entry below this and inputs as infer_types limits them, no sum or product of the
// window arithmetic overflows 64 bits.
constexpr int64_t kMaxEntry = std::numeric_limits<int32_t>::max();

Result<Dims> resolve_list(std::string_view attribute, bp_i64_span list, size_t count, int64_t least,
                          int64_t filler) {
  Dims result;
  if (list.count == 0) {
    result.resize(count, filler);
    return result;
  }
  if (list.count != count) {
    return attribute_error(
        attribute, expected_found(std::to_string(count) + " values", std::to_string(list.count)));
  }
  for (int64_t value : values(list)) {
    if (value < least || value > kMaxEntry) {
      return attribute_error(attribute, expected_found("values from " + std::to_string(least) +
                                                           " to " + std::to_string(kMaxEntry),
                                                       value));
    }
    result.push_back(value);
  }
  return result;
}

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && a < 0 ? 1 : 0); }
int64_t ceil_div(int64_t a, int64_t b) { return -floor_div(-a, b); }

Result<AutoPad> resolve_auto_pad(const WindowLists& lists) {
  const std::string_view name(lists.auto_pad.ptr, lists.auto_pad.len);
  if (name == "NOTSET") return AutoPad::kNone;
  const bool known = name == "VALID" || name == "SAME_UPPER" || name == "SAME_LOWER";
  if (!known) {
    return attribute_error("auto_pad", expected_found("NOTSET, VALID, SAME_UPPER or SAME_LOWER",
                                                      "'" + std::string(name) + "'"));
  }
  if (lists.pads.count != 0) {
    return attribute_error("pads", expected_found("none beside auto_pad " + std::string(name),
                                                  std::to_string(lists.pads.count) + " values"));
  }
  if (name == "VALID") return AutoPad::kValid;
  return name == "SAME_UPPER" ? AutoPad::kSameUpper : AutoPad::kSameLower;
}

bool is_same(AutoPad mode) { return mode == AutoPad::kSameUpper || mode == AutoPad::kSameLower; }

}  // namespace

Result<Window> resolve_window(const Dims& kernel, std::string_view kernel_name,
                              const WindowLists& lists) {
  const size_t rank = kernel.size();
  for (int64_t size : kernel) {
    if (!is_known(size) || (size >= 1 && size <= kMaxEntry)) continue;
    return Status(
        BP_INVALID_ARGUMENT,
        std::string(kernel_name) + ": " +
            expected_found("kernel sizes from 1 to " + std::to_string(kMaxEntry), kernel));
  }
  Window window;
  window.kernel = kernel;
  BP_TRY_ASSIGN(window.strides, resolve_list("strides", lists.strides, rank, 1, 1));
  BP_TRY_ASSIGN(window.dilations, resolve_list("dilations", lists.dilations, rank, 1, 1));
  // Both ends in one list, which may be longer than a tensor's rank can be.
  const bp_i64_span pads = lists.pads;
  if (pads.count != 0 && pads.count != 2 * rank) {
    return attribute_error(
        "pads", expected_found(std::to_string(2 * rank) + " values", std::to_string(pads.count)));
  }
  const bp_i64_span begins{pads.ptr, pads.count / 2};
  const bp_i64_span ends{pads.count == 0 ? nullptr : pads.ptr + rank, pads.count / 2};
  BP_TRY_ASSIGN(window.pads_begin, resolve_list("pads", begins, rank, 0, 0));
  BP_TRY_ASSIGN(window.pads_end, resolve_list("pads", ends, rank, 0, 0));
  BP_TRY_ASSIGN(window.auto_pad, resolve_auto_pad(lists));
  return window;
}

Result<Window> resolve_pool_window(bp_i64_span kernel_shape, bool ceil_mode,
                                   const WindowLists& lists) {
  if (kernel_shape.count < 1 || kernel_shape.count > BP_MAX_RANK - 2) {
    return attribute_error("kernel_shape",
                           expected_found("1 to " + std::to_string(BP_MAX_RANK - 2) + " values",
                                          std::to_string(kernel_shape.count)));
  }
  const Dims kernel(values(kernel_shape));
  for (int64_t size : kernel) {
    // A kernel size of -1 would pass for an unknown one.
    if (size < 1) return attribute_error("kernel_shape", expected_found("1 or more", size));
  }
  BP_TRY_ASSIGN(Window window, resolve_window(kernel, "attribute 'kernel_shape'", lists));
  // ONNX's formulas for auto_pad give the same sizes with and without it.
  window.ceil_mode = ceil_mode && window.auto_pad == AutoPad::kNone;
  return window;
}

Result<int64_t> window_count(const Window& window, size_t dim, int64_t input_size) {
  const int64_t step = window.strides[dim];
  if (is_same(window.auto_pad)) {
    if (!is_known(input_size)) return step == 1 ? input_size : kUnknownDim;
    if (input_size > 0) return (input_size - 1) / step + 1;
    // No padding makes room for a window and for none: the operator with pads would make one.
    return input_error("x", "spatial dimension " + std::to_string(dim) +
                                " of size 0 has no room for a window with auto_pad");
  }
  if (!is_known(window.kernel[dim])) return kUnknownDim;
  const int64_t extent = window.extent(dim);
  const int64_t padding = window.pads_begin[dim] + window.pads_end[dim];
  if (!is_known(input_size)) {
    // "Same" padding keeps a size, so a symbol survives it.
    return step == 1 && padding == extent - 1 ? input_size : kUnknownDim;
  }
  const int64_t room = input_size + padding - extent;
  int64_t count = floor_div(room, step) + 1;
  if (window.ceil_mode) {
    count = ceil_div(room, step) + 1;
    // A window that would start in the end padding is left out.
    if ((count - 1) * step >= input_size + window.pads_begin[dim]) --count;
  }
  if (count > 0) return count;
  return input_error("x", "spatial dimension " + std::to_string(dim) + " of size " +
                              std::to_string(input_size) + " plus padding " +
                              std::to_string(padding) + " has no room for a window of " +
                              std::to_string(extent));
}

Status push_window_counts(const Window& window, const Dims& x, Dims* out_sizes) {
  for (size_t i = 0; i < window.kernel.size(); ++i) {
    BP_TRY_ASSIGN(const int64_t count, window_count(window, i, x[i + 2]));
    out_sizes->push_back(count);
  }
  return {};
}

std::optional<std::vector<int64_t>> explicit_pads(const Window& window, const Dims& x) {
  const size_t rank = window.kernel.size();
  std::vector<int64_t> pads(2 * rank, 0);
  for (size_t i = 0; i < rank; ++i) {
    if (!is_same(window.auto_pad)) {
      pads[i] = window.pads_begin[i];
      pads[i + rank] = window.pads_end[i];
      continue;
    }
    if (!is_known(window.kernel[i])) return std::nullopt;
    // From the start of the last window to the input's end: at most a stride, so that no sum here
    // overflows. With stride 1 it does not depend on the input's size.
    int64_t rest = 1;
    if (window.strides[i] > 1) {
      const int64_t size = x[i + 2];
      if (!is_known(size)) return std::nullopt;
      rest = (size - 1) % window.strides[i] + 1;
    }
    const int64_t total = std::max<int64_t>(window.extent(i) - rest, 0);
    pads[i] = window.auto_pad == AutoPad::kSameUpper ? total / 2 : total - total / 2;
    pads[i + rank] = total - pads[i];
  }
  return pads;
}

Status decompose_auto_pad(const InferContext& context, std::string_view op_name,
                          std::initializer_list<std::string_view> input_names, const Window& window,
                          GraphBuilder* graph) {
  if (window.auto_pad == AutoPad::kNone) return {BP_UNSUPPORTED, "there is no auto_pad"};
  const TensorType& x = context.inputs[0];
  const auto pads = x.has_rank ? explicit_pads(window, x.sizes) : std::nullopt;
  if (!pads) return {BP_UNSUPPORTED, "the sizes that auto_pad depends on are not known"};
  Builder builder(context, input_names, graph);
  const OpRegistry& registry = graph->registry();
  BP_TRY_ASSIGN(
      Attributes attributes,
      Attributes::copy_from(registry.schema(*registry.find(op_name)), context.attributes));
  BP_TRY(attributes.set_str("auto_pad", "NOTSET"));
  BP_TRY(attributes.set_i64s("pads", *pads));
  if (registry.schema(*registry.find(op_name)).outputs.size() == 1) {
    return builder.finish(builder.op_of_inputs(op_name, std::move(attributes)));
  }
  const auto outputs = builder.op_outputs(op_name, {builder.input(0)}, std::move(attributes));
  return builder.finish({outputs[0], outputs[1]});
}

}  // namespace bp::ops
