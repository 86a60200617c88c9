// SPDX-License-Identifier: Apache-2.0
//
// Activations of products; see activation.hpp.
#include "activation.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace bp::cpu {
namespace {

// What all attribute structs of activations begin with.
struct Parameters {
  uint32_t struct_size;
  uint32_t flags;
  double alpha;
  double beta;
};

constexpr uint32_t kF32 = BP_DTYPE_F32;

bool has_inputs_for_parameters(const bp_kernel& kernel) { return sdk::view(kernel.op) == "clip"; }

bp_tensor number(const float* value) {
  bp_tensor tensor{};
  tensor.dtype = kF32;
  tensor.handle = reinterpret_cast<uint64_t>(value);
  tensor.storage_bytes = sizeof(*value);
  return tensor;
}

}  // namespace

Activation::Activation(const bp_device& device, const bp_str& name, double alpha, double beta)
    : alpha_(alpha), beta_(beta) {
  const std::string_view op = sdk::view(name);
  if (op.empty()) return;
  const auto& kernels = device.kernel_pointers;
  const auto found = std::find_if(kernels.begin(), kernels.end(), [&](const bp_kernel* kernel) {
    return sdk::view(kernel->op) == op && (kernel->dtype_masks[0] & BP_DTYPE_BIT(kF32)) != 0;
  });
  if (found == kernels.end()) throw Refusal{"does not know the activation"};
  kernel_ = *found;
}

std::optional<DnnlEltwise> Activation::post_op() const {
  if (is_none()) return std::nullopt;
  const std::string_view op = sdk::view(kernel_->op);
  const auto alpha = static_cast<float>(alpha_);
  if (op == "leaky_relu" && alpha_ != 0) return DnnlEltwise{dnnl_eltwise_relu, alpha, 0};
  if (op == "sigmoid") return DnnlEltwise{dnnl_eltwise_logistic, 0, 0};
  if (op == "tanh") return DnnlEltwise{dnnl_eltwise_tanh, 0, 0};
  if (op == "swish") return DnnlEltwise{dnnl_eltwise_swish, alpha, 0};
  if (op == "hard_swish") return DnnlEltwise{dnnl_eltwise_hardswish, 1.0F / 6, 0.5F};
  if (op == "gelu_tanh") return DnnlEltwise{dnnl_eltwise_gelu_tanh, 0, 0};
  return std::nullopt;
}

bp_status Activation::apply(const bp_launch_args& args) const {
  return is_none() ? BP_OK : apply_to(args, output_of(args));
}

bp_status Activation::apply(const bp_launch_args& args, std::span<float> part) const {
  if (is_none()) return BP_OK;
  const auto size = static_cast<int64_t>(part.size());
  const int64_t stride = 1;
  bp_tensor y{};
  y.dtype = kF32;
  y.rank = 1;
  y.sizes = &size;
  y.strides = &stride;
  y.handle = reinterpret_cast<uint64_t>(part.data());
  y.storage_bytes = part.size_bytes();
  return apply_to(args, y);
}

bp_status Activation::apply_to(const bp_launch_args& args, const bp_tensor& y) const {
  const Parameters parameters{sizeof(Parameters), 0, alpha_, beta_};
  const float low = static_cast<float>(alpha_);
  const float high = static_cast<float>(beta_);
  const std::array<bp_tensor, 4> one{y, y};
  const std::array<bp_tensor, 4> three{y, number(&low), number(&high), y};
  const bool is_three = has_inputs_for_parameters(*kernel_);
  bp_launch_args own = args;
  own.kernel = kernel_;
  own.plan = nullptr;
  own.state = nullptr;
  own.tensors = is_three ? three.data() : one.data();
  own.input_count = is_three ? 3 : 1;
  own.output_count = 1;
  own.attributes = &parameters;
  return kernel_->launch(&own);
}

}  // namespace bp::cpu
