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
  bool has_bias;  // the program adds it
};

struct TransposePlan : DnnlPlan {
  Strides out_strides{};
  bool adds_bias = false;  // after the program
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
  const std::vector<int64_t> dilates = dnnl_dilations(window);
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

// Whether the code is that of conv's gradient, behind which oneDNN adds the bias one by one.
bool adds_bias_slowly(const dnnl_primitive_desc* descriptor) {
  return implementation_of(descriptor).starts_with("conv:");
}

// Sets *slow_bias if the program adds its bias slowly.
DnnlProgram build_program(dnnl_engine* engine, const TransposeRequest& request,
                          const WeightsChoice& choice, bool* slow_bias) {
  const TransposeShape& shape = request.shape;
  const Orders& orders = request.orders;
  const Window& window = shape.window;
  ConvOperand x(joined({shape.batch, shape.in_channels()}, window.real(window.in)), kX);
  x.lie(orders.x, orders.x_channels_last);
  const ConvOperand w = weights_of(shape);
  ConvOperand y(joined({shape.batch, shape.out_channels()}, window.real(window.out)),
                request.y_tensor);
  if (orders.y_channels_last) {
    // For some windows oneDNN has code only where both images lie alike.
    x.wanted = make_f32_desc(x.sizes, channels_last_strides(x.sizes));
    y.lie(channels_last_strides(y.sizes), true);
  }
  const DnnlDesc bias = request.has_bias ? make_bias_desc(shape.out_channels()) : nullptr;

  DnnlProgram program;
  DnnlPrimitiveDesc conv =
      describe(engine, window, x, choice.wanted(w.wanted.get()), bias.get(), y);
  *slow_bias = *slow_bias || (request.has_bias && adds_bias_slowly(conv.get()));
  add_convolution(&program, engine, std::move(conv),
                  {.x = x, .w = w, .y = y, .bias_tensor = request.has_bias ? kBias : -1}, choice);
  return program;
}

// Sets *slow_bias if a program adds its bias slowly.
std::unique_ptr<TransposePlan> build_plan(bp_device* device, const bp_kernel_query& query,
                                          const TransposeRequest& request, bool* slow_bias,
                                          bp_plan_info* info) {
  auto plan = std::make_unique<TransposePlan>();
  std::optional<PlainWeights> weights;
  if (is_constant(arg_info(query, kW))) {
    weights = PlainWeights{kW, weights_of(request.shape).plain_desc()};
  }
  build_dnnl_programs(
      device, request.shape.multiply_add_count(),
      [&](const WeightsChoice& choice) {
        return build_program(device->engine.get(), request, choice, slow_bias);
      },
      std::move(weights), plan.get(), info);
  return plan;
}

std::unique_ptr<TransposePlan> make_plan_for(bp_device* device, const bp_kernel_query& query,
                                             const TransposeShape& shape, const Orders& orders,
                                             bp_plan_info* info) {
  const int y_tensor = static_cast<int>(query.input_count);  // an absent bias counts
  bool slow_bias = false;
  auto plan =
      build_plan(device, query, {shape, orders, y_tensor, shape.has_bias}, &slow_bias, info);
  if (slow_bias) {
    *info = {};
    plan = build_plan(device, query, {shape, orders, y_tensor, false}, &slow_bias, info);
    plan->adds_bias = true;
  }
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

// To row-major images, or to those with their channels last.
void add_bias(const bp_launch_args& args) {
  const bp_tensor& out = output_of(args);
  float* const y = address_of<float>(out);
  const float* const bias = address_of<const float>(input_of(args, kBias));
  const int64_t channels = out.sizes[1];
  const int64_t positions = sdk::element_count(out) / (out.sizes[0] * channels);
  Workers& workers = args.device->workers;
  if (!is_contiguous(out)) {
    workers.for_ranges(out.sizes[0] * positions, channels,
                       [&](int64_t begin, int64_t end) noexcept {
                         for (int64_t place = begin; place < end; ++place) {
                           float* const row = y + place * channels;
                           for (int64_t c = 0; c < channels; ++c) row[c] += bias[c];
                         }
                       });
    return;
  }
  workers.for_ranges(out.sizes[0] * channels, positions, [&](int64_t begin, int64_t end) noexcept {
    for (int64_t plane = begin; plane < end; ++plane) {
      const float value = bias[plane % channels];
      float* const row = y + plane * positions;
      for (int64_t i = 0; i < positions; ++i) row[i] += value;
    }
  });
}

bp_status launch(const bp_launch_args& args) {
  const bp_status status = launch_dnnl(args);
  if (status != BP_OK) return status;
  if (static_cast<const TransposePlan*>(args.plan)->adds_bias) add_bias(args);
  return BP_OK;
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
                   .launch = launch_slot<launch>,
                   .state_create = create_dnnl_state,
                   .state_destroy = sdk::delete_state<bp_kernel_state>,
                   .prepack_query = query_packed_weights,
                   .prepack = pack_weights})};

}  // namespace

BP_SDK_KERNELS(conv_transpose_onednn, kKernels);

}  // namespace bp::cpu
