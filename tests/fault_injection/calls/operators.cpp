// SPDX-License-Identifier: Apache-2.0
//
// Eager operators: native, views, decomposed, with sizes known afterwards, with fault words.
#include <algorithm>
#include <array>
#include <cstring>

#include "backplane/ops.h"
#include "tests/fault_injection/calls/support.hpp"

namespace bp::faults {
namespace {

bpa_status call_op(World& world, uint32_t op, uint32_t input_count) {
  return bpa_op_call(world.runtime, op, world.inputs.data(), input_count, nullptr, 0,
                     world.outputs.data(), 1);
}

bpa_status act_add(World& world) { return read_back(world, call_op(world, BP_OP_ADD, 2)); }
bpa_status act_mul(World& world) { return read_back(world, call_op(world, BP_OP_MUL, 2)); }
const char* check_mul(World& world) {
  const float expected[] = {1, 4, 9, 0, 25, 36};
  return expect(world, expected);
}
bpa_status act_softmax(World& world) { return read_back(world, call_op(world, BP_OP_SOFTMAX, 1)); }
const char* check_softmax(World& world) {
  std::array<float, 6> expected{};
  for (size_t row = 0; row < 2; ++row) {
    float sum = 0;
    for (size_t i = 0; i < 3; ++i) sum += std::exp(kA[row * 3 + i]);
    for (size_t i = 0; i < 3; ++i) expected[row * 3 + i] = std::exp(kA[row * 3 + i]) / sum;
  }
  return expect(world, expected);
}

/// A view, and then a reader that needs it contiguous.
bpa_status act_transpose(World& world) {
  return read_back(world, call_op(world, BP_OP_TRANSPOSE, 1));
}
const char* check_transpose(World& world) {
  const float expected[] = {1, 0, -2, 5, 3, -6};
  return expect(world, expected);
}

/// A strided input that the kernel may not take as it is.
void prepare_strided(World& world) {
  prepare_input(world);
  World::must(call_op(world, BP_OP_TRANSPOSE, 1), "transpose");
  bpa_tensor_release(world.inputs[0]);
  world.inputs[0] = std::exchange(world.outputs[0], nullptr);
}
bpa_status act_relu(World& world) { return read_back(world, call_op(world, BP_OP_RELU, 1)); }
const char* check_strided_relu(World& world) {
  const float expected[] = {1, 0, 0, 5, 3, 0};
  return expect(world, expected);
}

/// Sizes that are known only afterwards.
bpa_status act_non_zero(World& world) {
  const bpa_status status = call_op(world, BP_OP_NON_ZERO, 1);
  return read_back(world, status, 10 * sizeof(int64_t));
}
const char* check_non_zero(World& world) {
  const int64_t expected[] = {0, 0, 0, 1, 1, 0, 1, 2, 1, 2};
  std::array<int64_t, 10> found{};
  std::memcpy(found.data(), world.values.data(), sizeof(found));
  return std::equal(found.begin(), found.end(), expected) ? nullptr : "an index is wrong";
}

/// Can fault, so the stream's fault word takes part.
void prepare_gather(World& world) {
  prepare_input(world);
  const int64_t sizes[] = {2};
  const int64_t rows[] = {1, 0};
  World::must(bpa_tensor_from_host(world.device, BP_DTYPE_I64, sizes, 1, rows, sizeof(rows),
                                   &world.inputs[1]),
              "from_host");
  wait_for(world.device);
}
bpa_status act_gather(World& world) { return read_back(world, call_op(world, BP_OP_GATHER, 2)); }
const char* check_gather(World& world) {
  const float expected[] = {0, 5, -6, 1, -2, 3};
  return expect(world, expected);
}

void prepare_on_stream(World& world) {
  prepare_two(world);
  World::must(bpa_stream_create(world.device, &world.stream), "stream_create");
}
bpa_status act_on_stream(World& world) {
  return read_back(world, bpa_op_call_on(world.stream, BP_OP_ADD, world.inputs.data(), 2, nullptr,
                                         0, world.outputs.data(), 1));
}

constexpr Call kCalls[] = {
    {"op_call add first", true, false, prepare_two, act_add, check_doubled, drop_tensors},
    {"op_call add warm", false, false, prepare_two, act_add, check_doubled, drop_tensors},
    {"op_call transpose first", true, false, prepare_input, act_transpose, check_transpose,
     drop_tensors},
    {"op_call transpose warm", false, false, prepare_input, act_transpose, check_transpose,
     drop_tensors},
    {"op_call strided relu first", true, false, prepare_strided, act_relu, check_strided_relu,
     drop_tensors},
    {"op_call strided relu warm", false, false, prepare_strided, act_relu, check_strided_relu,
     drop_tensors},
    {"op_call softmax first", true, false, prepare_input, act_softmax, check_softmax, drop_tensors},
    {"op_call softmax warm", false, false, prepare_input, act_softmax, check_softmax, drop_tensors},
    {"op_call mul first", true, false, prepare_two, act_mul, check_mul, drop_tensors},
    {"op_call mul warm", false, false, prepare_two, act_mul, check_mul, drop_tensors},
    {"op_call non_zero first", true, false, prepare_input, act_non_zero, check_non_zero,
     drop_tensors},
    {"op_call non_zero warm", false, false, prepare_input, act_non_zero, check_non_zero,
     drop_tensors},
    {"op_call gather first", true, false, prepare_gather, act_gather, check_gather, drop_tensors},
    {"op_call gather warm", false, false, prepare_gather, act_gather, check_gather, drop_tensors},
    {"op_call_on first", true, false, prepare_on_stream, act_on_stream, check_doubled,
     drop_tensors},
    {"op_call_on warm", false, false, prepare_on_stream, act_on_stream, check_doubled,
     drop_tensors},
};

}  // namespace

std::span<const Call> operator_calls() { return kCalls; }

}  // namespace bp::faults
