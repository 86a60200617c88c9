// SPDX-License-Identifier: Apache-2.0
//
// Sessions: loaded, asked, run, let go.
#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/fault_injection/calls/support.hpp"

namespace bp::faults {
namespace {

void drop_session(World& world) { bpa_session_release(std::exchange(world.session, nullptr)); }

bpa_status act_load(World& world) {
  bpa_session_args args{};
  args.struct_size = sizeof(args);
  args.device = world.device;
  return bpa_session_load(world.runtime, BP_FAULTS_MODEL, &args, &world.session);
}
/// Read before the call, whose failures are counted.
const std::string& model_bytes() {
  static const std::string bytes = [] {
    std::ifstream file(BP_FAULTS_MODEL, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }();
  return bytes;
}
void prepare_model(World& world) {
  prepare_input(world);
  model_bytes();
}
bpa_status act_create(World& world) {
  bpa_session_args args{};
  args.struct_size = sizeof(args);
  args.device = world.device;
  const std::string& model = model_bytes();
  return bpa_session_create(world.runtime, model.data(), model.size(), nullptr, nullptr, &args,
                            &world.session);
}
/// On two devices where there are two, with every option.
bpa_status act_load_with_options(World& world) {
  bpa_device* const devices[] = {world.device, world.host};
  bpa_session_args args{};
  args.struct_size = sizeof(args);
  args.flags = BPA_SESSION_DETERMINISTIC_BIT;
  args.devices = devices;
  args.device_count = world.device == world.host ? 1 : 2;
  args.max_contexts = 1;
  args.memory_limit_bytes = 8 << 20;
  return bpa_session_load(world.runtime, BP_FAULTS_MODEL, &args, &world.session);
}

void prepare_session(World& world) {
  prepare_input(world);
  World::must(act_load(world), "session_load");
}
void prepare_session_with_options(World& world) {
  prepare_input(world);
  World::must(act_load_with_options(world), "session_load");
}

bpa_status act_describe(World& world) {
  bpa_io_info io{};
  io.struct_size = sizeof(io);
  bpa_placement_info placement{};
  placement.struct_size = sizeof(placement);
  bpa_node_info node{};
  node.struct_size = sizeof(node);
  uint64_t count = 0;
  bpa_status status = bpa_session_input_count(world.session, &count);
  if (status == BP_OK) status = bpa_session_get_input(world.session, 0, &io);
  if (status == BP_OK) status = bpa_session_output_count(world.session, &count);
  if (status == BP_OK) status = bpa_session_get_output(world.session, 0, &io);
  if (status == BP_OK) status = bpa_session_get_placement(world.session, &placement);
  if (status == BP_OK) status = bpa_session_node_count(world.session, &count);
  return status == BP_OK ? bpa_session_get_node(world.session, 0, &node) : status;
}

bpa_status act_run(World& world) {
  return read_back(world, bpa_session_run(world.session, kInputNames, world.inputs.data(), 1,
                                          world.outputs.data(), 1));
}
bpa_status act_release(World& world) {
  bpa_session_release(std::exchange(world.session, nullptr));
  return BP_OK;
}

constexpr Call kCalls[] = {
    {"session_load", true, false, prepare_input, act_load, check_nothing, drop_session},
    {"session_load options", true, false, prepare_input, act_load_with_options, check_nothing,
     drop_session},
    {"session_create", true, false, prepare_model, act_create, check_nothing, drop_session},
    {"session_get_input", false, false, prepare_session, act_describe, check_nothing, drop_tensors,
     false, true},
    {"session_run first", true, false, prepare_session, act_run, check_run, drop_tensors},
    {"session_run warm", false, false, prepare_warm_session, act_run, check_run, drop_tensors},
    {"session_run options", true, false, prepare_session_with_options, act_run, check_run,
     drop_tensors},
    {"session_release", true, false, prepare_warm_session, act_release, check_nothing, drop_tensors,
     false, true},
};

}  // namespace

void prepare_warm_session(World& world) {
  prepare_session(world);
  for (int i = 0; i < 2; ++i) {
    World::must(act_run(world), "session_run");
    drop_tensors(world);
  }
}

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

std::span<const Call> session_calls() { return kCalls; }

}  // namespace bp::faults
