// SPDX-License-Identifier: Apache-2.0
//
// What the lists of calls share: making inputs, reading results, letting go. And the lists, which
// calls.cpp joins.
#ifndef BACKPLANE_TESTS_FAULT_INJECTION_CALLS_SUPPORT_HPP
#define BACKPLANE_TESTS_FAULT_INJECTION_CALLS_SUPPORT_HPP

#include <cmath>
#include <utility>

#include "tests/fault_injection/calls/calls.hpp"

namespace bp::faults {

std::span<const Call> runtime_calls();
std::span<const Call> tensor_calls();
std::span<const Call> operator_calls();
std::span<const Call> stream_calls();
std::span<const Call> session_calls();
std::span<const Call> run_calls();
std::span<const Call> ccl_calls();
std::span<const Call> dist_calls();
std::span<const Call> ccl_job_calls();
std::span<const Call> last_calls();  // that end the world

inline constexpr int64_t kSizes[] = {2, 3};
inline constexpr uint64_t kBytes = 6 * sizeof(float);
inline constexpr float kA[] = {1, -2, 3, 0, 5, -6};
inline constexpr float kB[] = {7, 7, 7, 7, 7, 7};

// --- before ---

inline bpa_tensor* upload(bpa_device* device, const float* values) {
  bpa_tensor* tensor = nullptr;
  World::must(bpa_tensor_from_host(device, BP_DTYPE_F32, kSizes, 2, values, kBytes, &tensor),
              "from_host");
  return tensor;
}
inline void prepare_nothing(World&) {}
inline void prepare_input(World& world) { world.inputs[0] = upload(world.device, kA); }
inline void prepare_two(World& world) {
  prepare_input(world);
  world.inputs[1] = upload(world.device, kA);
}

// --- after ---

inline void drop_tensors(World& world) {
  for (bpa_tensor*& tensor : world.outputs) bpa_tensor_release(std::exchange(tensor, nullptr));
  world.values.fill(0);
}

inline const char* check_nothing(World&) { return nullptr; }
inline const char* expect(const World& world, std::span<const float> expected) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!(std::abs(world.values[i] - expected[i]) <= 1e-5f)) return "a value is wrong";
  }
  return nullptr;
}
inline const char* check_input(World& world) { return expect(world, kA); }
inline const char* check_doubled(World& world) {
  const float expected[] = {2, -4, 6, 0, 10, -12};
  return expect(world, expected);
}

/// Reads outputs[0] back; `bytes` must be its exact size.
inline bpa_status read_back(World& world, bpa_status status, uint64_t bytes = kBytes) {
  if (status != BP_OK) {
    if (world.outputs[0] != nullptr) world.misuse = "an output is set beside an error";
    return status;
  }
  return bpa_tensor_to_host(world.outputs[0], world.values.data(), bytes);
}

// --- sessions, for the lists that need one ---

inline constexpr const char* kInputNames[] = {"x"};

void prepare_warm_session(World& world);
/// relu(softmax(x + x) * (x + x) + w), with w = {1, 2, 3}.
const char* check_run(World& world);

}  // namespace bp::faults

#endif
