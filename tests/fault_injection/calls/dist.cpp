// SPDX-License-Identifier: Apache-2.0
//
// Meshes and data parallel, on groups of one rank. A group that has met a fault has failed for
// ever, so each try makes its own and ends it.
#include "tests/fault_injection/calls/support.hpp"

namespace bp::faults {
namespace {

constexpr const char* kAxisNames[] = {"x"};
constexpr uint32_t kOne[] = {1};
constexpr uint32_t kWhole[] = {BPA_CCL_REPLICATE};
constexpr uint32_t kRows[] = {BPA_CCL_SHARD(0)};

/// The first rows of inputs[0], which are all of them.
bpa_status redistribute(World& world, bpa_ccl_mesh* mesh) {
  bpa_ccl_redistribute_args args{};
  args.struct_size = sizeof(args);
  args.tensor = world.inputs[0];
  args.sizes = kSizes;
  args.rank = 2;
  args.placement_count = 1;
  args.from = kWhole;
  args.to = kRows;
  return bpa_ccl_redistribute(mesh, &args, &world.outputs[0]);
}

bpa_status act_mesh(World& world) {
  bpa_ccl_store* store = nullptr;
  bpa_ccl_mesh* mesh = nullptr;
  bpa_ccl_group* group = nullptr;
  bpa_status status = bpa_ccl_store_create_memory(&store);
  bpa_ccl_mesh_args args{};
  args.struct_size = sizeof(args);
  args.store = store;
  args.rank_count = 1;
  args.axis_count = 1;
  args.axis_names = kAxisNames;
  args.axis_sizes = kOne;
  if (status == BP_OK) status = bpa_ccl_mesh_create(world.device, &args, &mesh);
  if (status == BP_OK) status = bpa_ccl_mesh_get_group(mesh, "x", &group);
  int64_t sizes[2] = {};
  int64_t offsets[2] = {};
  if (status == BP_OK) {
    status = bpa_ccl_mesh_get_shard(mesh, kSizes, 2, kRows, 1, sizes, offsets);
  }
  if (status == BP_OK) status = redistribute(world, mesh);
  if (status == BP_OK) status = read_back(world, status);
  bpa_ccl_group_release(group);
  bpa_ccl_mesh_release(mesh);
  bpa_ccl_store_release(store);
  return status;
}

/// A step whose gradient is inputs[0], twice. What a broadcast was to write is lost with it: the
/// parameter, outputs[1], is made for each try.
bpa_status train(World& world, bpa_ccl_data_parallel* parallel) {
  bpa_status status = bpa_ccl_data_parallel_broadcast_parameters(parallel, &world.outputs[1], 1, 0);
  if (status == BP_OK) {
    status = bpa_ccl_data_parallel_accumulate(parallel, 0, world.inputs[0], nullptr);
  }
  if (status == BP_OK) {
    status = bpa_ccl_data_parallel_ready(parallel, 0, world.inputs[0], nullptr);
  }
  bpa_ccl_data_parallel_info info{};
  info.struct_size = sizeof(info);
  if (status == BP_OK) status = bpa_ccl_data_parallel_get_info(parallel, &info);
  if (status == BP_OK) status = bpa_ccl_data_parallel_finish(parallel, nullptr);
  if (status == BP_OK) {
    status = bpa_ccl_data_parallel_get_gradient(parallel, 0, &world.outputs[0]);
  }
  return status == BP_OK ? read_back(world, status) : status;
}

bpa_status act_data_parallel(World& world) {
  bpa_ccl_store* store = nullptr;
  bpa_ccl_group* group = nullptr;
  bpa_ccl_data_parallel* parallel = nullptr;
  bpa_status status = bpa_ccl_store_create_memory(&store);
  bpa_ccl_group_args group_args{};
  group_args.struct_size = sizeof(group_args);
  group_args.store = store;
  group_args.rank_count = 1;
  if (status == BP_OK) status = bpa_ccl_group_create(world.device, &group_args, &group);
  bpa_ccl_data_parallel_args args{};
  args.struct_size = sizeof(args);
  args.parameters = &world.outputs[1];
  args.parameter_count = 1;
  if (status == BP_OK) {
    status =
        bpa_tensor_from_host(world.device, BP_DTYPE_F32, kSizes, 2, kA, kBytes, &world.outputs[1]);
  }
  if (status == BP_OK) status = bpa_ccl_data_parallel_create(group, &args, &parallel);
  if (status == BP_OK) status = train(world, parallel);
  bpa_ccl_data_parallel_release(parallel);
  bpa_ccl_group_release(group);
  bpa_ccl_store_release(store);
  return status;
}

constexpr Call kCalls[] = {
    {"ccl_mesh", false, false, prepare_input, act_mesh, check_input, drop_tensors},
    {"ccl_data_parallel", false, false, prepare_input, act_data_parallel, check_doubled,
     drop_tensors, false, false, true},
};

}  // namespace

std::span<const Call> dist_calls() { return kCalls; }

}  // namespace bp::faults
