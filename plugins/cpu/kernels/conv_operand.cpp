// SPDX-License-Identifier: Apache-2.0
//
// See conv_operand.hpp.
#include "conv_operand.hpp"

#include <algorithm>

namespace bp::cpu {
namespace {

// Its plans count the elements of an argument, and steps of the window, in 32 bits, padded.
constexpr int64_t kMostElements = int64_t{1} << 30;
constexpr int64_t kMostPadded = 4096;  // by which padding may be wider than the window
// A plan takes half a kilobyte and half a microsecond for each column of the output.
constexpr int64_t kMostColumns = int64_t{1} << 18;

void check_count(std::span<const int64_t> sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) count = sdk::saturating_product({count, size});
  if (count > kMostElements) throw Refusal{"oneDNN does not convolve as large a tensor"};
}

}  // namespace

std::vector<int64_t> row_major_strides(std::span<const int64_t> sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t d = sizes.size() - 1; d > 0; --d) strides[d - 1] = strides[d] * sizes[d];
  return strides;
}

std::vector<int64_t> joined(std::initializer_list<int64_t> first, std::span<const int64_t> rest) {
  std::vector<int64_t> all(first);
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

void check_dnnl_window(const Window& window) {
  if (window.out[kMaxSpatialRank - 1] > kMostColumns) {
    throw Refusal{"oneDNN's plans are large for as wide an output"};
  }
  for (uint32_t i = 0; i < kMaxSpatialRank; ++i) {
    const int64_t reach = sdk::saturating_product({window.dilation[i], window.kernel[i]});
    if (std::max({window.stride[i], reach, window.pad_begin[i], window.pad_end[i]}) >
        kMostDnnlElements) {
      throw Refusal{"oneDNN does not take as wide a window"};
    }
    // Windows of nothing but padding: planning takes longer with each, minutes for millions.
    if (std::max(window.pad_begin[i], window.pad_end[i]) > reach + kMostPadded) {
      throw Refusal{"much wider pads than windows, which oneDNN is slow to plan"};
    }
  }
}

ConvOperand::ConvOperand(std::vector<int64_t> operand_sizes, int operand_tensor)
    : sizes(std::move(operand_sizes)), tensor{.tensor = operand_tensor, .offset_bytes = 0} {
  check_count(sizes);
  plain = make_f32_desc(sizes, row_major_strides(sizes));
  wanted = make_f32_desc_of_any_layout(sizes);
}

DnnlPlace bring(DnnlProgram* program, dnnl_engine* engine, const ConvOperand& operand,
                const_dnnl_memory_desc_t wanted) {
  if (lie_alike(operand.plain.get(), wanted)) return operand.tensor;
  const DnnlPlace place = program->reserve(wanted);
  program->add_reorder(engine, operand.plain.get(), operand.tensor, wanted, place);
  return place;
}

std::vector<int64_t> dnnl_dilations(const Window& window) {
  std::vector<int64_t> gaps;
  for (const int64_t dilation : window.real(window.dilation)) gaps.push_back(dilation - 1);
  return gaps;
}

DnnlDesc make_bias_desc(int64_t channels) {
  const int64_t size[] = {channels};
  const int64_t stride[] = {1};
  return make_f32_desc(size, stride);
}

void add_convolution(DnnlProgram* program, dnnl_engine* engine, DnnlPrimitiveDesc conv,
                     const ConvOperands& operands, const WeightsChoice& choice,
                     std::vector<DnnlProgram::Arg> more) {
  const auto& [x, w, y, bias_tensor] = operands;
  const auto x_desc = DnnlProgram::desc_of(conv.get(), dnnl_query_src_md);
  const auto w_desc = DnnlProgram::desc_of(conv.get(), dnnl_query_weights_md);
  const auto y_desc = DnnlProgram::desc_of(conv.get(), dnnl_query_dst_md);
  std::vector<DnnlProgram::Arg> args = std::move(more);
  args.push_back({DNNL_ARG_SRC, x_desc, bring(program, engine, x, x_desc)});
  const DnnlPlace w_place =
      choice.is_constant ? choice.place(w.tensor.tensor) : bring(program, engine, w, w_desc);
  args.push_back({DNNL_ARG_WEIGHTS, w_desc, w_place});
  if (bias_tensor >= 0) {
    const auto bias_desc = dnnl_primitive_desc_query_md(conv.get(), dnnl_query_weights_md, 1);
    args.push_back({DNNL_ARG_BIAS, bias_desc, {.tensor = bias_tensor, .offset_bytes = 0}});
  }
  const bool is_plain = lie_alike(y.plain.get(), y_desc);
  const DnnlPlace y_place = is_plain ? y.tensor : program->reserve(y_desc);
  args.push_back({DNNL_ARG_DST, y_desc, y_place});
  program->add_step(std::move(conv), std::move(args));
  if (!is_plain) program->add_reorder(engine, y_desc, y_place, y.plain.get(), y.tensor);
}

}  // namespace bp::cpu
