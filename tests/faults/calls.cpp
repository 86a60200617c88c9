// SPDX-License-Identifier: Apache-2.0
//
// Each call with values small enough to know the right answer by hand. "Making the call" includes
// reading its values back: an asynchronous failure comes to light only there.
#include "tests/faults/calls.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "backplane/ops.h"

namespace bp::faults {
namespace {

constexpr int64_t kSizes[] = {2, 3};
constexpr uint64_t kBytes = 6 * sizeof(float);
constexpr float kA[] = {1, -2, 3, 0, 5, -6};

bpa_tensor* upload(bpa_device* device, const float* values) {
  bpa_tensor* tensor = nullptr;
  World::must(bpa_tensor_from_host(device, BP_DTYPE_F32, kSizes, 2, values, kBytes, &tensor),
              "from_host");
  return tensor;
}

void drop_tensors(World& world) {
  for (bpa_tensor*& tensor : world.outputs) bpa_tensor_release(std::exchange(tensor, nullptr));
  world.values.fill(0);
}
void drop_session(World& world) { bpa_session_release(std::exchange(world.session, nullptr)); }
void drop_runtime(World& world) { bpa_runtime_release(std::exchange(world.runtime, nullptr)); }

void prepare_nothing(World&) {}
void prepare_input(World& world) { world.inputs[0] = upload(world.device, kA); }
void prepare_host_input(World& world) { world.inputs[0] = upload(world.host, kA); }

const char* check_nothing(World&) { return nullptr; }

const char* expect(const World& world, std::span<const float> expected) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!(std::abs(world.values[i] - expected[i]) <= 1e-5f)) return "a value is wrong";
  }
  return nullptr;
}
const char* check_input(World& world) { return expect(world, kA); }

/// Reads outputs[0] back; `bytes` must be its exact size.
bpa_status read_back(World& world, bpa_status status, uint64_t bytes = kBytes) {
  if (status != BP_OK) {
    if (world.outputs[0] != nullptr) world.misuse = "an output is set beside an error";
    return status;
  }
  return bpa_tensor_to_host(world.outputs[0], world.values.data(), bytes);
}

// --- runtime ---

bpa_status act_create(World& world) { return world.open(); }
const char* check_devices(World& world) {
  uint64_t count = 0;
  if (bpa_runtime_device_count(world.runtime, &count) != BP_OK) return "device_count failed";
  const uint64_t expected = world.target().device == "cpu:0" ? 1 : 2;
  return count == expected ? nullptr : "a device is missing";
}
bpa_status act_find(World& world) {
  bpa_device* found = nullptr;
  return bpa_runtime_find_device(world.runtime, world.target().device.data(), &found);
}
bpa_status act_info(World& world) {
  bpa_device_info info{};
  info.struct_size = sizeof(info);
  return bpa_device_get_info(world.device, &info);
}
bpa_status act_sync(World& world) { return bpa_device_sync(world.device); }
bpa_status act_close(World& world) {
  world.injection_is_gone = true;
  return bpa_runtime_close(world.runtime);
}

// --- tensors ---

bpa_status act_tensor_create(World& world) {
  return bpa_tensor_create(world.device, BP_DTYPE_F32, kSizes, 2, &world.outputs[0]);
}
bpa_status act_tensor_create_large(World& world) {
  const int64_t sizes[] = {3, 1 << 18};
  return bpa_tensor_create(world.device, BP_DTYPE_F32, sizes, 2, &world.outputs[0]);
}
bpa_status act_from_host(World& world) {
  return read_back(world, bpa_tensor_from_host(world.device, BP_DTYPE_F32, kSizes, 2, kA, kBytes,
                                               &world.outputs[0]));
}
bpa_status act_host_tensor(World& world) {
  return read_back(
      world, bpa_tensor_from_host(nullptr, BP_DTYPE_F32, kSizes, 2, kA, kBytes, &world.outputs[0]));
}
bpa_status act_to_host(World& world) {
  return bpa_tensor_to_host(world.inputs[0], world.values.data(), kBytes);
}
bpa_status act_to_device(World& world) {
  return read_back(world, bpa_tensor_to_device(world.inputs[0], world.device, &world.outputs[0]));
}
bpa_status act_to_host_device(World& world) {
  return read_back(world, bpa_tensor_to_device(world.inputs[0], world.host, &world.outputs[0]));
}
bpa_status act_release(World& world) {
  bpa_tensor_release(world.inputs[0]);
  world.inputs[0] = nullptr;
  return BP_OK;
}

// --- operators ---

bpa_status call_op(World& world, uint32_t op, uint32_t input_count) {
  return bpa_op_call(world.runtime, op, world.inputs.data(), input_count, nullptr, 0,
                     world.outputs.data(), 1);
}

void prepare_two(World& world) {
  prepare_input(world);
  world.inputs[1] = upload(world.device, kA);
}
bpa_status act_add(World& world) { return read_back(world, call_op(world, BP_OP_ADD, 2)); }
const char* check_add(World& world) {
  const float expected[] = {2, -4, 6, 0, 10, -12};
  return expect(world, expected);
}
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
}
bpa_status act_gather(World& world) { return read_back(world, call_op(world, BP_OP_GATHER, 2)); }
const char* check_gather(World& world) {
  const float expected[] = {0, 5, -6, 1, -2, 3};
  return expect(world, expected);
}

// --- sessions ---

constexpr const char* kInputNames[] = {"x"};

bpa_status act_load(World& world) {
  bpa_session_args args{};
  args.struct_size = sizeof(args);
  args.device = world.device;
  return bpa_session_load(world.runtime, BP_FAULTS_MODEL, &args, &world.session);
}
void prepare_session(World& world) {
  prepare_input(world);
  World::must(act_load(world), "session_load");
}
bpa_status act_run(World& world) {
  return read_back(world, bpa_session_run(world.session, kInputNames, world.inputs.data(), 1,
                                          world.outputs.data(), 1));
}
void prepare_warm_session(World& world) {
  prepare_session(world);
  for (int i = 0; i < 2; ++i) {
    World::must(act_run(world), "session_run");
    drop_tensors(world);
  }
}
/// relu(softmax(x + x) * (x + x) + w), with w = {1, 2, 3}.
const char* check_run(World& world) {
  std::array<float, 6> expected{};
  for (size_t row = 0; row < 2; ++row) {
    float sum = 0;
    for (size_t i = 0; i < 3; ++i) sum += std::exp(2 * kA[row * 3 + i]);
    for (size_t i = 0; i < 3; ++i) {
      const float twice = 2 * kA[row * 3 + i];
      const float product = std::exp(twice) / sum * twice + static_cast<float>(i + 1);
      expected[row * 3 + i] = std::max(product, 0.0f);
    }
  }
  return expect(world, expected);
}
bpa_status act_session_release(World& world) {
  bpa_session_release(std::exchange(world.session, nullptr));
  return BP_OK;
}

constexpr Call kCalls[] = {
    {"runtime_create", true, false, prepare_nothing, act_create, check_devices, drop_runtime},
    {"runtime_find_device", false, false, prepare_nothing, act_find, check_nothing, drop_tensors},
    {"device_get_info", false, false, prepare_nothing, act_info, check_nothing, drop_tensors},
    {"device_sync", false, false, prepare_input, act_sync, check_nothing, drop_tensors},
    {"tensor_create first", true, false, prepare_nothing, act_tensor_create, check_nothing,
     drop_tensors},
    {"tensor_create warm", false, false, prepare_nothing, act_tensor_create, check_nothing,
     drop_tensors},
    {"tensor_create large", true, false, prepare_nothing, act_tensor_create_large, check_nothing,
     drop_tensors},
    {"tensor_from_host first", true, false, prepare_nothing, act_from_host, check_input,
     drop_tensors},
    {"tensor_from_host warm", false, false, prepare_nothing, act_from_host, check_input,
     drop_tensors},
    {"tensor_from_host no device", false, false, prepare_nothing, act_host_tensor, check_input,
     drop_tensors},
    {"tensor_to_host", false, false, prepare_input, act_to_host, check_input, drop_tensors},
    {"tensor_to_device in", false, false, prepare_host_input, act_to_device, check_input,
     drop_tensors},
    {"tensor_to_device out", false, false, prepare_input, act_to_host_device, check_input,
     drop_tensors},
    {"tensor_release", true, false, prepare_input, act_release, check_nothing, drop_tensors},
    {"op_call add first", true, false, prepare_two, act_add, check_add, drop_tensors},
    {"op_call add warm", false, false, prepare_two, act_add, check_add, drop_tensors},
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
    {"session_load", true, false, prepare_input, act_load, check_nothing, drop_session},
    {"session_run first", true, false, prepare_session, act_run, check_run, drop_tensors},
    {"session_run warm", false, false, prepare_warm_session, act_run, check_run, drop_tensors},
    {"session_release", true, false, prepare_warm_session, act_session_release, check_nothing,
     drop_tensors},
    {"runtime_close", true, true, prepare_warm_session, act_close, check_nothing, drop_tensors},
};

}  // namespace

std::span<const Call> calls() { return kCalls; }

}  // namespace bp::faults
