// SPDX-License-Identifier: Apache-2.0
//
// conv_transpose in f32 with oneDNN's deconvolution. Its fast code takes images with their channels
// last or in layouts of its own, as that of conv does (conv_onednn.cpp); row-major images would be
// matrix products whose results are scattered, at about half the speed.
#include <algorithm>

#include "conv_operand.hpp"
#include "conv_transpose_shape.hpp"
#include "kernel_support.hpp"
#include "order.hpp"

namespace bp::cpu {
namespace {

constexpr int kX = 0;
constexpr int kW = 1;
constexpr int kBias = 2;

// How the images lie.
struct Orders {
  Strides x;  // of an image without gaps
  bool x_channels_last = false;
  bool y_channels_last = false;
};

struct TransposeRequest {
  const TransposeShape& shape;
  const Orders& orders;
  int y_tensor;
};

struct TransposePlan : DnnlPlan {
  Strides out_strides{};
};

// [C, M/group, kernel...], which oneDNN sees with its output channels first.
ConvOperand weights_of(const TransposeShape& shape) {
  const auto kernel = shape.window.real(shape.window.kernel);
  std::vector<int64_t> strides = row_major_strides(joined({1, 1}, kernel));
  const int64_t out_stride = shape.window.kernel_count();
  const int64_t in_stride = shape.group_out * out_stride;
  strides[0] = out_stride;
  strides[1] = in_stride;
  if (shape.groups == 1) {
    ConvOperand w(joined({shape.group_out, shape.group_in}, kernel), kW);
    w.lie(strides, false);
    return w;
  }
  strides.insert(strides.begin(), shape.group_in * in_stride);
  ConvOperand w(joined({shape.groups, shape.group_out, shape.group_in}, kernel), kW);
  w.lie(strides, false);
  return w;
}

DnnlPrimitiveDesc describe(dnnl_engine* engine, const Window& window, const ConvOperand& x,
                           const_dnnl_memory_desc_t w, const_dnnl_memory_desc_t bias,
                           const ConvOperand& y) {
  std::vector<int64_t> dilates;  // oneDNN counts the gaps
  for (const int64_t dilation : window.real(window.dilation)) dilates.push_back(dilation - 1);
  const DnnlAttr attr = make_dnnl_attr();
  dnnl_primitive_desc_t raw = nullptr;
  check_dnnl(
      dnnl_deconvolution_forward_primitive_desc_create(
          &raw, engine, dnnl_forward_inference, dnnl_deconvolution_direct, x.wanted.get(), w, bias,
          y.wanted.get(), window.real(window.stride).data(), dilates.data(),
          window.real(window.pad_begin).data(), window.real(window.pad_end).data(), attr.get()),
      "deconvolution_forward_primitive_desc_create");
  DnnlPrimitiveDesc descriptor(raw);
  if (implementation_of(raw).find("ref") != std::string::npos) {
    throw Refusal{"oneDNN has only its reference code for these shapes"};
  }
  return descriptor;
}

DnnlProgram build_program(dnnl_engine* engine, const TransposeRequest& request,
                          const WeightsChoice& choice) {
  const TransposeShape& shape = request.shape;
  const Orders& orders = request.orders;
  const Window& window = shape.window;
  ConvOperand x(joined({shape.batch, shape.in_channels()}, window.real(window.in)), kX);
  x.lie(orders.x, orders.x_channels_last);
  const ConvOperand w = weights_of(shape);
  ConvOperand y(joined({shape.batch, shape.out_channels()}, window.real(window.out)),
                request.y_tensor);
  if (orders.y_channels_last) y.lie(channels_last_strides(y.sizes), true);
  const int64_t bias_size[] = {shape.out_channels()};
  const int64_t bias_stride[] = {1};
  const DnnlDesc bias = shape.has_bias ? make_f32_desc(bias_size, bias_stride) : nullptr;

  DnnlProgram program;
  DnnlPrimitiveDesc conv =
      describe(engine, window, x, choice.wanted(w.wanted.get()), bias.get(), y);
  const auto x_desc = DnnlProgram::desc_of(conv.get(), dnnl_query_src_md);
  const auto w_desc = DnnlProgram::desc_of(conv.get(), dnnl_query_weights_md);
  const auto y_desc = DnnlProgram::desc_of(conv.get(), dnnl_query_dst_md);
  std::vector<DnnlProgram::Arg> args;
  args.push_back({DNNL_ARG_SRC, x_desc, bring(&program, engine, x, x_desc)});
  const DnnlPlace w_place =
      choice.is_constant ? choice.place(kW) : bring(&program, engine, w, w_desc);
  args.push_back({DNNL_ARG_WEIGHTS, w_desc, w_place});
  if (shape.has_bias) {
    const auto bias_desc = dnnl_primitive_desc_query_md(conv.get(), dnnl_query_weights_md, 1);
    args.push_back({DNNL_ARG_BIAS, bias_desc, {.tensor = kBias, .offset_bytes = 0}});
  }
  const bool is_plain = lie_alike(y.plain.get(), y_desc);
  const DnnlPlace y_place = is_plain ? y.tensor : program.reserve(y_desc);
  args.push_back({DNNL_ARG_DST, y_desc, y_place});
  program.add_step(std::move(conv), std::move(args));
  if (!is_plain) program.add_reorder(engine, y_desc, y_place, y.plain.get(), y.tensor);
  return program;
}

std::unique_ptr<TransposePlan> make_plan_for(bp_device* device, const bp_kernel_query& query,
                                             const TransposeShape& shape, const Orders& orders,
                                             bp_plan_info* info) {
  auto plan = std::make_unique<TransposePlan>();
  const int y_tensor = static_cast<int>(query.input_count);  // an absent bias counts
  std::optional<PlainWeights> weights;
  if (is_constant(arg_info(query, kW))) weights = PlainWeights{kW, weights_of(shape).plain_desc()};
  build_dnnl_programs(
      device, shape.multiply_add_count(),
      [&](const WeightsChoice& choice) {
        return build_program(device->engine.get(), {shape, orders, y_tensor}, choice);
      },
      std::move(weights), plan.get(), info);
  if (orders.y_channels_last) {
    plan->out_strides = channels_last_strides(sizes_of(output_info(query)));
    info->out_strides = plan->out_strides.data();
  }
  return plan;
}

void check_shape(const TransposeShape& shape) {
  if (shape.is_empty()) throw Refusal{"empty tensors need no library"};
  const Window& window = shape.window;
  for (uint32_t d = 0; d < kMaxSpatialRank; ++d) {
    if (window.pad_begin[d] < 0) throw Refusal{"oneDNN does not take negative pads"};
    if (window.pad_end[d] <= -window.stride[d]) {
      throw Refusal{"oneDNN does not take an output that goes on as far"};
    }
  }
  check_dnnl_window(window);
}

std::unique_ptr<TransposePlan> make_plan(bp_device* device, const bp_kernel_query& query,
                                         bp_plan_info* info) {
  const TransposeShape shape = make_transpose_shape(query);
  check_shape(shape);
  const bp_arg_info& x = arg_info(query, kX);
  const auto x_strides = dense_strides(sizes_of(x), strides_of(x));
  if (!x_strides) throw Refusal{"takes images without gaps"};
  const Orders orders{.x = *x_strides,
                      .x_channels_last = is_channels_last(sizes_of(x), strides_of(x)),
                      .y_channels_last = may_choose_order(output_info(query))};
  if (orders.x_channels_last || orders.y_channels_last) {
    try {
      return make_plan_for(device, query, shape, orders, info);
    } catch (const Refusal&) {
      *info = {};
    }
  }
  return make_plan_for(device, query, shape, {.x = *x_strides}, info);
}

constexpr uint64_t kMasks[] = {sdk::dtypes({BP_DTYPE_F32})};

constexpr bp_kernel kKernels[] = {
    sdk::describe({.name = "conv_transpose_f32_onednn",
                   .op = "conv_transpose",
                   .dtypes = kMasks,
                   .arg_rules = kFirstDense,
                   .flags = BP_KERNEL_CHOOSES_ORDER_BIT,
                   .priority = 10,
                   .depends_on = BP_DEPENDS_SIZES_BIT | BP_DEPENDS_STRIDES_BIT,
                   .supports = supports_slot<refused_spatial_rank>,
                   .plan = plan_slot<TransposePlan, make_plan>,
                   .plan_free = sdk::delete_plan<bp_kernel_plan>,
                   .launch = launch_slot<launch_dnnl>,
                   .state_create = create_dnnl_state,
                   .state_destroy = sdk::delete_state<bp_kernel_state>,
                   .prepack_query = query_packed_weights,
                   .prepack = pack_weights})};

}  // namespace

BP_SDK_KERNELS(conv_transpose_onednn, kKernels);

}  // namespace bp::cpu
