// SPDX-License-Identifier: Apache-2.0
//
// conv in f32 with oneDNN. Its fast code takes images with their channels last, or in layouts of
// its own. Where the plan may choose the order of the output, and where the image comes so, the
// channels are last from one convolution to the next; else the plan asks oneDNN for the best
// layouts and puts reorders round the convolution, in the launch's workspace. With row-major images
// oneDNN would unroll them and multiply matrices, at about half the speed; but for windows of one
// element, where it multiplies the image as it lies.
#include <algorithm>
#include <bit>

#include "activation.hpp"
#include "backplane/ops/nn.h"
#include "conv_operand.hpp"
#include "conv_shape.hpp"
#include "copy_rows.hpp"
#include "kernel_support.hpp"
#include "onednn.hpp"
#include "order.hpp"

namespace bp::cpu {
namespace {

constexpr int kX = 0;
constexpr int kW = 1;
constexpr int kBias = 2;
constexpr int kAddend = 3;

// How the images lie.
struct Orders {
  Strides x;  // of an image without gaps
  Strides addend{};
  bool x_channels_last = false;
  bool y_channels_last = false;
  bool is_plain = false;  // row-major, and so oneDNN is to take them
};

// A matrix product of the weights and the image as it lies: nothing has to be unrolled. Images of
// few positions are narrow matrices, which cost more than reorders.
bool is_wide_pointwise(const ConvShape& shape) {
  constexpr int64_t kFewestPositions = 128;
  const Window& w = shape.window;
  if (shape.groups != 1 || w.out_count() < kFewestPositions) return false;
  for (uint32_t d = 0; d < kMaxSpatialRank; ++d) {
    if (w.kernel[d] != 1 || w.stride[d] != 1 || w.pad_begin[d] != 0 || w.pad_end[d] != 0) {
      return false;
    }
  }
  return true;
}

DnnlPrimitiveDesc describe_conv(dnnl_engine* engine, const ConvShape& shape, const ConvOperand& x,
                                const_dnnl_memory_desc_t w, const_dnnl_memory_desc_t bias,
                                const ConvOperand& y, const Activation& activation) {
  const Window& window = shape.window;
  const std::vector<int64_t> dilates = dnnl_dilations(window);
  const DnnlAttr attr = make_dnnl_attr(
      {.addend = shape.has_addend ? y.wanted.get() : nullptr, .activation = activation.post_op()});
  dnnl_primitive_desc_t raw = nullptr;
  check_dnnl(
      dnnl_convolution_forward_primitive_desc_create(
          &raw, engine, dnnl_forward_inference, dnnl_convolution_direct, x.wanted.get(), w, bias,
          y.wanted.get(), window.real(window.stride).data(), dilates.data(),
          window.real(window.pad_begin).data(), window.real(window.pad_end).data(), attr.get()),
      "convolution_forward_primitive_desc_create");
  return DnnlPrimitiveDesc(raw);
}

ConvOperand weights_of(const ConvShape& shape) {
  const auto spatial = shape.window.real(shape.window.kernel);
  return {shape.groups == 1 ? joined({shape.out_channels, shape.in_channels}, spatial)
                            : joined({shape.groups, shape.group_out(), shape.group_in()}, spatial),
          kW};
}

// Whether oneDNN's code multiplies matrices, one of them the image unrolled: padding is a zero
// there, which weights are multiplied by.
bool unrolls(const dnnl_primitive_desc* conv) {
  const std::string name = implementation_of(conv);
  return name.starts_with("gemm") || name.starts_with("x64:gemm");
}

// A conv and how oneDNN is to see it.
struct ConvRequest {
  const ConvShape& shape;
  const Orders& orders;
  int y_tensor;
  const Activation& activation;
};

// Sets *unrolled if the image is unrolled.
DnnlProgram build_program(dnnl_engine* engine, const ConvRequest& request,
                          const WeightsChoice& choice, bool* unrolled) {
  const ConvShape& shape = request.shape;
  const Orders& orders = request.orders;
  const Window& window = shape.window;
  check_dnnl_window(window);
  ConvOperand x(joined({shape.batch, shape.in_channels}, window.real(window.in)), kX);
  x.lie(orders.x, orders.x_channels_last || orders.is_plain);
  const ConvOperand w = weights_of(shape);
  ConvOperand y(joined({shape.batch, shape.out_channels}, window.real(window.out)),
                request.y_tensor);
  if (orders.y_channels_last) {
    y.lie(channels_last_strides(y.sizes), true);
  } else if (orders.is_plain) {
    y.lie(row_major_strides(y.sizes), true);
  }
  const DnnlDesc bias = shape.has_bias ? make_bias_desc(shape.out_channels) : nullptr;

  DnnlProgram program;
  DnnlPrimitiveDesc conv = describe_conv(engine, shape, x, choice.wanted(w.wanted.get()),
                                         bias.get(), y, request.activation);
  if (unrolls(conv.get())) *unrolled = true;
  std::vector<DnnlProgram::Arg> more;
  if (shape.has_addend) {
    ConvOperand addend(y.sizes, kAddend);
    addend.lie(orders.addend, false);
    const auto addend_desc = addend_desc_of(conv.get());
    more.push_back({kDnnlAddend, addend_desc, bring(&program, engine, addend, addend_desc)});
  }
  add_convolution(&program, engine, std::move(conv),
                  {.x = x, .w = w, .y = y, .bias_tensor = shape.has_bias ? kBias : -1}, choice,
                  std::move(more));
  return program;
}

// For weights that may not be multiplied by padding: they take the plain loops.
struct LoopsInstead {
  LoopsInstead(const ConvShape& shape, const Activation& conv_activation)
      : loop(shape), activation(conv_activation) {}

  ConvLoopPlan loop;
  Activation activation;
};

struct ConvPlan : DnnlPlan {
  Activation activation;  // what is left to do after the program
  Strides out_strides{};
  std::optional<LoopsInstead> loops;  // where a program multiplies weights by padding
};

// With the activation that is asked for, if oneDNN may apply it. Sets *unrolled.
std::unique_ptr<ConvPlan> build_plan(bp_device* device, const bp_kernel_query& query,
                                     const ConvRequest& request, bool* unrolled,
                                     bp_plan_info* info) {
  auto plan = std::make_unique<ConvPlan>();
  std::optional<PlainWeights> weights;
  if (is_constant(arg_info(query, kW))) {
    weights = PlainWeights{kW, weights_of(request.shape).plain_desc()};
  }
  build_dnnl_programs(
      device, request.shape.multiply_add_count(),
      [&](const WeightsChoice& choice) {
        return build_program(device->engine.get(), request, choice, unrolled);
      },
      std::move(weights), plan.get(), info);
  return plan;
}

std::unique_ptr<ConvPlan> make_plan_for(bp_device* device, const bp_kernel_query& query,
                                        const ConvShape& shape, const Orders& orders,
                                        bp_plan_info* info) {
  const int y_tensor = static_cast<int>(query.input_count);  // an absent bias counts
  const Activation activation(*device, read_attributes(query.attributes, bp_attrs_conv_defaults()));
  bool unrolled = false;
  auto plan = build_plan(device, query, {shape, orders, y_tensor, activation}, &unrolled, info);
  bool is_applied = activation.post_op().has_value();
  if (unrolled && is_applied) {  // sigmoid of NaN is 0 in the code that unrolls
    *info = {};
    plan = build_plan(device, query, {shape, orders, y_tensor, Activation()}, &unrolled, info);
    is_applied = false;
  }
  if (!is_applied) plan->activation = activation;
  if (unrolled && shape.window.has_padding()) {
    if (plan->packed || shape.has_addend) throw Refusal{"oneDNN multiplies weights by padding"};
    plan->loops.emplace(shape, activation);
  }
  if (orders.y_channels_last) {
    plan->out_strides = channels_last_strides(sizes_of(output_info(query)));
    info->out_strides = plan->out_strides.data();
  }
  return plan;
}

std::unique_ptr<ConvPlan> make_plan(bp_device* device, const bp_kernel_query& query,
                                    bp_plan_info* info) {
  const ConvShape shape = make_conv_shape(query);
  if (shape.is_empty()) throw Refusal{"empty tensors need no library"};
  if (shape.window.crops()) throw Refusal{"oneDNN does not take negative pads"};
  const bp_arg_info& x = arg_info(query, kX);
  const auto x_strides = dense_strides(sizes_of(x), strides_of(x));
  if (!x_strides) throw Refusal{"takes images without gaps"};
  Orders orders{.x = *x_strides,
                .x_channels_last = is_channels_last(sizes_of(x), strides_of(x)),
                .y_channels_last = may_choose_order(output_info(query))};
  if (shape.has_addend) {
    const bp_arg_info& addend = arg_info(query, kAddend);
    const auto strides = dense_strides(sizes_of(addend), strides_of(addend));
    if (!strides) throw Refusal{"takes addends without gaps"};
    orders.addend = *strides;
  }
  std::vector<Orders> ways;  // the best one first; oneDNN may refuse all but the last
  if (orders.x_channels_last || orders.y_channels_last) ways.push_back(orders);
  orders.x_channels_last = orders.y_channels_last = false;
  if (is_wide_pointwise(shape) && is_row_major(x)) {
    ways.push_back(orders);
    ways.back().is_plain = true;
  }
  for (const Orders& way : ways) {
    try {
      return make_plan_for(device, query, shape, way, info);
    } catch (const Refusal&) {
      *info = {};
    }
  }
  return make_plan_for(device, query, shape, orders, info);
}

bool are_finite(std::span<const float> values) {
  constexpr uint32_t kExponent = 0x7F80'0000;
  uint32_t largest = 0;
  for (const float value : values) {
    largest = std::max(largest, std::bit_cast<uint32_t>(value) & kExponent);
  }
  return largest != kExponent;
}

// The tensor's values, row-major.
std::vector<float> read_row_major(Workers& workers, const bp_tensor& tensor) {
  const std::span<const int64_t> sizes(tensor.sizes, tensor.rank);
  const std::vector<int64_t> strides = row_major_strides(sizes);
  bp_tensor dense = tensor;
  dense.strides = strides.data();
  std::vector<float> values(static_cast<size_t>(sdk::element_count(tensor)));
  copy_strided(workers, dense, reinterpret_cast<std::byte*>(values.data()), tensor,
               address_of(tensor), sizeof(float));
  return values;
}

// Allocates, since such weights are rare, and none that a model was trained to have.
bp_status launch_loops(const LoopsInstead& plan, const bp_launch_args& args) {
  Workers& workers = args.device->workers;
  const std::vector<float> image = read_row_major(workers, input_of(args, kX));
  std::vector<bp_tensor> tensors(args.tensors, args.tensors + args.input_count + 1);
  tensors[kX].handle = reinterpret_cast<uint64_t>(image.data());
  tensors[kX].offset_bytes = 0;
  const bp_tensor& y = output_of(args);
  std::vector<float> sums(static_cast<size_t>(sdk::element_count(y)));
  tensors.back().handle = reinterpret_cast<uint64_t>(sums.data());
  tensors.back().offset_bytes = 0;
  bp_launch_args own = args;
  own.tensors = tensors.data();
  convolve_in_loops(plan.loop, own);
  const std::vector<int64_t> strides = row_major_strides({y.sizes, y.rank});
  tensors.back().strides = strides.data();
  copy_strided(workers, y, address_of(y), tensors.back(), address_of(tensors.back()),
               sizeof(float));
  return plan.activation.apply(args);
}

bp_status launch(const bp_launch_args& args) {
  const auto& plan = *static_cast<const ConvPlan*>(args.plan);
  if (plan.loops) {
    const bp_tensor& w = input_of(args, kW);
    const auto count = static_cast<size_t>(sdk::element_count(w));
    if (!are_finite({address_of<const float>(w), count})) return launch_loops(*plan.loops, args);
  }
  const bp_status status = launch_dnnl(args);
  if (status != BP_OK) return status;
  return plan.activation.apply(args);
}

constexpr uint64_t kMasks[] = {sdk::dtypes({BP_DTYPE_F32})};
// Images and addends in any order.
constexpr const bp_arg_rule* kArgRules[] = {&kDenseRule, &kContiguousRule, &kContiguousRule,
                                            &kDenseRule};

constexpr bp_kernel kKernels[] = {
    sdk::describe({.name = "conv_f32_onednn",
                   .op = "conv",
                   .dtypes = kMasks,
                   .arg_rules = kArgRules,
                   .flags = BP_KERNEL_CHOOSES_ORDER_BIT,
                   .priority = 10,
                   .depends_on = BP_DEPENDS_SIZES_BIT | BP_DEPENDS_STRIDES_BIT,
                   .version_max = 3,
                   .op_since = 3,
                   .supports = supports_slot<refused_conv>,
                   .plan = plan_slot<ConvPlan, make_plan>,
                   .plan_free = sdk::delete_plan<bp_kernel_plan>,
                   .launch = launch_slot<launch>,
                   .state_create = create_dnnl_state,
                   .state_destroy = sdk::delete_state<bp_kernel_state>,
                   .prepack_query = query_packed_weights,
                   .prepack = pack_weights})};

}  // namespace

BP_SDK_KERNELS(conv_onednn, kKernels);

}  // namespace bp::cpu
