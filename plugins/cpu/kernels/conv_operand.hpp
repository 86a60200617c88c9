// SPDX-License-Identifier: Apache-2.0
//
// What conv and conv_transpose share where oneDNN computes them: their tensors as they lie and as
// oneDNN likes them, and the windows that it takes.
#ifndef BACKPLANE_PLUGINS_CPU_CONV_OPERAND_HPP
#define BACKPLANE_PLUGINS_CPU_CONV_OPERAND_HPP

#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "onednn.hpp"
#include "window.hpp"

namespace bp::cpu {

std::vector<int64_t> row_major_strides(std::span<const int64_t> sizes);

std::vector<int64_t> joined(std::initializer_list<int64_t> first, std::span<const int64_t> rest);

/// Refuses windows whose numbers oneDNN would cut short, or that it plans for minutes.
void check_dnnl_window(const Window& window);

/// An argument of the convolution: as the tensor lies, and as oneDNN is asked to take it.
struct ConvOperand {
  /// Row-major, and in whatever layout oneDNN likes.
  ConvOperand(std::vector<int64_t> operand_sizes, int operand_tensor);
  /// The tensor lies in that order; `is_wanted`: and so oneDNN has to take it.
  void lie(std::span<const int64_t> strides, bool is_wanted) {
    plain = make_f32_desc(sizes, strides);
    if (is_wanted) wanted = make_f32_desc(sizes, strides);
  }
  DnnlDesc plain_desc() && { return std::move(plain); }

  std::vector<int64_t> sizes;
  DnnlDesc plain;
  DnnlDesc wanted;
  DnnlPlace tensor;
};

/// Where the convolution reads an operand: the tensor, or a reordered copy of it.
DnnlPlace bring(DnnlProgram* program, dnnl_engine* engine, const ConvOperand& operand,
                const_dnnl_memory_desc_t wanted);

/// The dilations as oneDNN counts them: the gaps.
std::vector<int64_t> dnnl_dilations(const Window& window);

DnnlDesc make_bias_desc(int64_t channels);

struct ConvOperands {
  const ConvOperand& x;
  const ConvOperand& w;
  const ConvOperand& y;
  int bias_tensor;  // -1: the convolution adds none
};

/// Appends the convolution, with copies of what it takes or makes in another layout than the
/// tensors'. `more`: its arguments beside the operands.
void add_convolution(DnnlProgram* program, dnnl_engine* engine, DnnlPrimitiveDesc conv,
                     const ConvOperands& operands, const WeightsChoice& choice,
                     std::vector<DnnlProgram::Arg> more = {});

}  // namespace bp::cpu

#endif
