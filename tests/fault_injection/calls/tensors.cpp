// SPDX-License-Identifier: Apache-2.0
//
// Tensors: made, wrapped, moved, let go.
#include "tests/fault_injection/calls/support.hpp"

namespace bp::faults {
namespace {

void prepare_host_input(World& world) { world.inputs[0] = upload(world.host, kA); }

bpa_status act_create(World& world) {
  return bpa_tensor_create(world.device, BP_DTYPE_F32, kSizes, 2, &world.outputs[0]);
}
bpa_status act_create_large(World& world) {
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

bpa_status act_get_info(World& world) {
  bpa_tensor_info info{};
  info.struct_size = sizeof(info);
  return bpa_tensor_get_info(world.inputs[0], &info);
}

bpa_status act_view(World& world) {
  return read_back(world,
                   bpa_tensor_view(world.inputs[0], kSizes, nullptr, 2, 0, 0, &world.outputs[0]));
}

bpa_status act_view_as(World& world) {
  bpa_tensor* pairs = nullptr;
  const bpa_status status = bpa_tensor_view_as(world.inputs[0], BP_DTYPE_I32, &pairs);
  if (status != BP_OK) return status;
  const bpa_status back = bpa_tensor_view_as(pairs, BP_DTYPE_F32, &world.outputs[0]);
  bpa_tensor_release(pairs);
  return read_back(world, back);
}

/// What is written over what a failure lost is there again.
void prepare_target(World& world) {
  prepare_input(world);
  world.inputs[1] = upload(world.device, kB);
}
bpa_status act_assign(World& world) {
  const bpa_status status = bpa_tensor_assign(nullptr, world.inputs[1], world.inputs[0]);
  if (status != BP_OK) return status;
  return bpa_tensor_to_host(world.inputs[1], world.values.data(), kBytes);
}

// --- wrapped memory: the deleter is called once for each tensor, and never without one ---

void count_deleted(void* user) { ++*static_cast<int*>(user); }

bpa_status wrap(World& world, bpa_device* device, bp_mem memory) {
  bpa_wrap_args args{};
  args.struct_size = sizeof(args);
  args.memory = memory;
  args.bytes = memory.offset_bytes + kBytes;
  args.dtype = BP_DTYPE_F32;
  args.rank = 2;
  args.sizes = kSizes;
  args.deleter = count_deleted;
  args.user = &world.deleted_count;
  const bpa_status status = bpa_tensor_wrap(device, &args, &world.outputs[0]);
  if (status == BP_OK) ++world.wrapped_count;
  return read_back(world, status);
}
bpa_status act_wrap_host(World& world) {
  return wrap(world, nullptr, {.handle = reinterpret_cast<uint64_t>(kA), .offset_bytes = 0});
}
bpa_status act_wrap_device(World& world) {
  bpa_tensor_info info{};
  info.struct_size = sizeof(info);
  const bpa_status status = bpa_tensor_get_info(world.inputs[0], &info);
  return status == BP_OK ? wrap(world, world.device, info.memory) : status;
}
void drop_wrapped(World& world) {
  drop_tensors(world);
  if (world.deleted_count != world.wrapped_count) world.misuse = "the deleter's calls are wrong";
}

bpa_status act_retain(World& world) {
  bpa_tensor_retain(world.inputs[0]);
  bpa_tensor_release(world.inputs[0]);
  return bpa_tensor_to_host(world.inputs[0], world.values.data(), kBytes);
}
bpa_status act_release(World& world) {
  bpa_tensor_release(std::exchange(world.inputs[0], nullptr));
  return BP_OK;
}

constexpr Call kCalls[] = {
    {"tensor_create first", true, false, prepare_nothing, act_create, check_nothing, drop_tensors},
    {"tensor_create warm", false, false, prepare_nothing, act_create, check_nothing, drop_tensors},
    {"tensor_create large", true, false, prepare_nothing, act_create_large, check_nothing,
     drop_tensors},
    {"tensor_from_host first", true, false, prepare_nothing, act_from_host, check_input,
     drop_tensors},
    {"tensor_from_host warm", false, false, prepare_nothing, act_from_host, check_input,
     drop_tensors},
    {"tensor_from_host no device", false, false, prepare_nothing, act_host_tensor, check_input,
     drop_tensors, false, true},
    {"tensor_wrap host", false, false, prepare_nothing, act_wrap_host, check_input, drop_wrapped,
     false, true},
    {"tensor_wrap device", false, false, prepare_input, act_wrap_device, check_input, drop_wrapped},
    {"tensor_to_host", false, false, prepare_input, act_to_host, check_input, drop_tensors},
    {"tensor_to_device in", false, false, prepare_host_input, act_to_device, check_input,
     drop_tensors},
    {"tensor_to_device out", false, false, prepare_input, act_to_host_device, check_input,
     drop_tensors},
    {"tensor_get_info", false, false, prepare_input, act_get_info, check_nothing, drop_tensors,
     false, true},
    {"tensor_view", false, false, prepare_input, act_view, check_input, drop_tensors},
    {"tensor_view_as", false, false, prepare_input, act_view_as, check_input, drop_tensors},
    {"tensor_assign", false, false, prepare_target, act_assign, check_input, drop_tensors},
    {"tensor_retain", false, false, prepare_input, act_retain, check_input, drop_tensors},
    {"tensor_release", true, false, prepare_input, act_release, check_nothing, drop_tensors, false,
     true},
};

}  // namespace

std::span<const Call> tensor_calls() { return kCalls; }

}  // namespace bp::faults
