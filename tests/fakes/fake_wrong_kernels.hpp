// SPDX-License-Identifier: Apache-2.0
//
// Kernels that are right until device_fault names what is wrong with them: what the kit's level 3
// and `backplane doctor` have to find. Part of fake_plugin.cpp.
#ifndef BACKPLANE_TESTS_FAKES_FAKE_WRONG_KERNELS_HPP
#define BACKPLANE_TESTS_FAKES_FAKE_WRONG_KERNELS_HPP

namespace {

bool is_wrong(const bp_launch_args& args, std::string_view how) {
  return args.device->fault == how;
}

/// As a vector load does that takes more than there is, and drops it.
void read(const volatile float* place) { static_cast<void>(*place); }

void wrong_relu(const bp_launch_args& args) {
  if (is_wrong(args, "relu_fails")) throw Failure{BP_INTERNAL, "the unit overheated"};
  const bp_tensor& x = args.tensors[0];
  const bp_tensor& out = args.tensors[1];
  int64_t count = bp::sdk::element_count(out);
  if (is_wrong(args, "relu_leaves_the_tail")) count -= count % 8;
  for (int64_t i = 0; i < count; ++i) {
    const float value = element(x, out, i);
    element(out, out, i) = value < 0 ? 0 : value;  // NaN stays
    if (is_wrong(args, "relu_negates")) element(out, out, i) = -value;
    if (is_wrong(args, "relu_loses_nan")) element(out, out, i) = value > 0 ? value : 0;
    if (is_wrong(args, "relu_in_place")) element(x, out, i) = element(out, out, i);
  }
  if (count == 0) return;
  if (is_wrong(args, "relu_writes_behind")) (&element(out, out, count - 1))[1] = 0;
  if (is_wrong(args, "relu_reads_behind")) read(&element(x, out, count - 1) + 1);
  if (is_wrong(args, "relu_reads_before")) read(&element(x, out, 0) - 1);
}

void wrong_add(const bp_launch_args& args) {
  const bp_tensor& out = args.tensors[2];
  const int64_t count = bp::sdk::element_count(out);
  bp_tensor a = args.tensors[0];
  int64_t dense[BP_MAX_RANK];
  int64_t step = 1;
  for (uint32_t i = a.rank; i-- > 0; step *= a.sizes[i]) dense[i] = step;
  if (is_wrong(args, "add_ignores_strides")) a.strides = dense;
  for (int64_t i = 0; i < count; ++i) {
    element(out, out, i) = element(a, out, i) + element(args.tensors[1], out, i);
  }
  if (is_wrong(args, "add_reads_whole_rows") && count > 0 && a.rank > 0) {
    // A row with the gap to the next one, which the last row does not have.
    const int64_t size = a.sizes[a.rank - 1];
    const int64_t along = a.strides[a.rank - 1];
    const float* const last = &element(a, out, count - 1);
    if (a.rank > 1 && along > 0) read(last + a.strides[a.rank - 2] - (size - 1) * along - 1);
  }
  if (is_wrong(args, "add_drops_the_last") && count > 1) {
    element(out, out, count - 1) = element(a, out, count - 1);
  }
}

void wrong_mul(const bp_launch_args& args) {
  const bp_tensor& out = args.tensors[2];
  for (int64_t i = 0; i < bp::sdk::element_count(out); ++i) {
    float& y = element(out, out, i);
    y = element(args.tensors[0], out, i) * element(args.tensors[1], out, i);
    if (is_wrong(args, "mul_adds_one")) y += 1;
  }
}

/// What is left of a float in TF32: ten digits behind the point.
float shortened(float value) {
  constexpr uint32_t kLost = (1u << 13) - 1;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) & ~kLost);
}

/// Of two dense matrices.
void wrong_matmul(const bp_launch_args& args) {
  const bool shorten = is_wrong(args, "matmul_shortens");
  const bp_tensor& a = args.tensors[0];
  const bp_tensor& b = args.tensors[1];
  const bp_tensor& out = args.tensors[2];
  const auto at = [](const bp_tensor& tensor, int64_t row, int64_t column) {
    return element(tensor, tensor, row * tensor.sizes[1] + column);
  };
  for (int64_t i = 0; i < bp::sdk::element_count(out); ++i) {
    float sum = 0;
    for (int64_t k = 0; k < a.sizes[1]; ++k) {
      const float x = at(a, i / out.sizes[1], k);
      const float w = at(b, k, i % out.sizes[1]);
      sum += shorten ? shortened(x) * shortened(w) : x * w;
    }
    constexpr float kLargest = std::numeric_limits<float>::max();
    if (is_wrong(args, "matmul_clamps")) sum = sum > kLargest ? kLargest : sum;
    element(out, out, i) = sum;
  }
}

bp_status supports_matrices(bp_device* device, const bp_kernel_query* query,
                            bp_support* out_support) {
  if (!device || !query || !out_support) return BP_INVALID_ARGUMENT;
  bp_support support{};
  const bool two = query->args[0].rank == 2 && query->args[1].rank == 2;
  support.answer = two && device->fault != "matmul_refuses" ? BP_SUPPORT_YES : BP_SUPPORT_NO;
  support.reason = bp::sdk::str("takes two matrices");
  bp::sdk::write_out(out_support, support);
  return BP_OK;
}

bp_status launch_wrong_relu(const bp_launch_args* args) { return start(args, wrong_relu); }
bp_status launch_wrong_add(const bp_launch_args* args) { return start(args, wrong_add); }
bp_status launch_wrong_mul(const bp_launch_args* args) { return start(args, wrong_mul); }
bp_status launch_wrong_matmul(const bp_launch_args* args) { return start(args, wrong_matmul); }

constexpr bp_kernel make_wrong_matmul() {
  bp_kernel kernel = make_kernel("matmul_told", "matmul", launch_wrong_matmul, kDenseRules);
  kernel.supports = supports_matrices;
  return kernel;
}

constexpr bp_kernel kWrongRelu = make_kernel("relu_told", "relu", launch_wrong_relu);
constexpr bp_kernel kWrongAdd = make_kernel("add_told", "add", launch_wrong_add);
constexpr bp_kernel kWrongMul = make_kernel("mul_told", "mul", launch_wrong_mul);
constexpr bp_kernel kWrongMatmul = make_wrong_matmul();

}  // namespace

#endif
