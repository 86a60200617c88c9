// SPDX-License-Identifier: Apache-2.0
//
// The activation that a convolution or a matrix product ends with. oneDNN applies those of its
// post-ops that give what the operator's own kernel gives, for every value; its minima and maxima
// lose NaN, so the others are one more walk over y, which is in the cache: that kernel itself.
#ifndef BACKPLANE_PLUGINS_CPU_ACTIVATION_HPP
#define BACKPLANE_PLUGINS_CPU_ACTIVATION_HPP

#include <oneapi/dnnl/dnnl.h>

#include <optional>
#include <span>

#include "kernel_support.hpp"

namespace bp::cpu {

/// A post-op of oneDNN.
struct DnnlEltwise {
  dnnl_alg_kind_t algorithm;
  float alpha;
  float beta;
};

class Activation {
 public:
  Activation() = default;
  /// As attributes activation, activation_alpha and activation_beta say. Refuses one that the
  /// device has no kernel for in f32.
  template <class Attributes>
  Activation(const bp_device& device, const Attributes& attributes)
      : Activation(device, attributes.activation, attributes.activation_alpha,
                   attributes.activation_beta) {}

  bool is_none() const { return kernel_ == nullptr; }
  /// For kernels that do it as they store.
  bool is_relu() const { return kernel_ != nullptr && sdk::view(kernel_->op) == "relu"; }
  /// nullopt: there is no activation, or oneDNN has none that is the same.
  std::optional<DnnlEltwise> post_op() const;
  /// In place on the launch's output, which is f32 without gaps.
  bp_status apply(const bp_launch_args& args) const;
  /// ... on a part of it, for a kernel that has just computed that part. Any thread of the launch.
  bp_status apply(const bp_launch_args& args, std::span<float> part) const;

 private:
  Activation(const bp_device& device, const bp_str& name, double alpha, double beta);
  bp_status apply_to(const bp_launch_args& args, const bp_tensor& y) const;

  const bp_kernel* kernel_ = nullptr;
  double alpha_ = 0;
  double beta_ = 0;
};

}  // namespace bp::cpu

#endif
