// SPDX-License-Identifier: Apache-2.0
//
// The rows of api/ccl_dist.h, on a mesh of one rank and one parameter.
#include "tests/lifecycle/api_calls.hpp"

namespace bp::life {
namespace {

using Objects = ApiObjects;

bpa_status mesh_create(const Objects& objects) {
  bpa_ccl_store* store = nullptr;
  bpa_ccl_store_create_memory(&store);
  const char* const names[] = {"x"};
  const uint32_t sizes[] = {1};
  bpa_ccl_mesh_args args{};
  args.struct_size = sizeof(args);
  args.store = store;
  args.rank_count = 1;
  args.axis_count = 1;
  args.axis_names = names;
  args.axis_sizes = sizes;
  bpa_ccl_mesh* mesh = kUntouched<bpa_ccl_mesh>;
  const bpa_status status = check_out(bpa_ccl_mesh_create(objects.device, &args, &mesh), &mesh);
  bpa_ccl_mesh_release(mesh);
  bpa_ccl_store_release(store);
  return status;
}

bpa_status mesh_release(const Objects&) {
  bpa_ccl_mesh_release(nullptr);
  return BP_OK;
}

bpa_status mesh_get_group(const Objects& objects) {
  bpa_ccl_group* group = kUntouched<bpa_ccl_group>;
  const bpa_status status = check_out(bpa_ccl_mesh_get_group(objects.mesh, "x", &group), &group);
  bpa_ccl_group_release(group);
  return status;
}

bpa_status mesh_get_shard(const Objects& objects) {
  const int64_t sizes[] = {4};
  const uint32_t placements[] = {BPA_CCL_SHARD(0)};
  int64_t out_sizes[] = {4711};
  int64_t out_offsets[] = {4711};
  const bpa_status status =
      bpa_ccl_mesh_get_shard(objects.mesh, sizes, 1, placements, 1, out_sizes, out_offsets);
  LIFE_CHECK(out_sizes[0] == (status == BP_OK ? 4 : 0) && out_offsets[0] == 0);
  return status;
}

bpa_status redistribute(const Objects& objects) {
  const int64_t sizes[] = {4};
  const uint32_t from[] = {BPA_CCL_PARTIAL(BPA_CCL_SUM)};
  const uint32_t to[] = {BPA_CCL_SHARD(0)};
  bpa_ccl_redistribute_args args{};
  args.struct_size = sizeof(args);
  args.tensor = objects.ccl_tensor;
  args.sizes = sizes;
  args.rank = 1;
  args.placement_count = 1;
  args.from = from;
  args.to = to;
  bpa_tensor* moved = kUntouched<bpa_tensor>;
  const bpa_status status = check_out(bpa_ccl_redistribute(objects.mesh, &args, &moved), &moved);
  bpa_tensor_release(moved);
  return status;
}

bpa_status data_parallel_create(const Objects& objects) {
  const bpa_tensor* const parameters[] = {objects.ccl_tensor};
  bpa_ccl_data_parallel_args args{};
  args.struct_size = sizeof(args);
  args.parameters = parameters;
  args.parameter_count = 1;
  bpa_ccl_data_parallel* parallel = kUntouched<bpa_ccl_data_parallel>;
  const bpa_status status =
      check_out(bpa_ccl_data_parallel_create(objects.group, &args, &parallel), &parallel);
  bpa_ccl_data_parallel_release(parallel);
  return status;
}

bpa_status data_parallel_release(const Objects&) {
  bpa_ccl_data_parallel_release(nullptr);
  return BP_OK;
}

bpa_status broadcast_parameters(const Objects& objects) {
  bpa_tensor* const tensors[] = {objects.ccl_tensor};
  return bpa_ccl_data_parallel_broadcast_parameters(objects.parallel, tensors, 1, 0);
}

bpa_status get_gradient(const Objects& objects) {
  bpa_tensor* gradient = kUntouched<bpa_tensor>;
  const bpa_status status =
      check_out(bpa_ccl_data_parallel_get_gradient(objects.parallel, 0, &gradient), &gradient);
  bpa_tensor_release(gradient);
  return status;
}

bpa_status accumulate(const Objects& objects) {
  return bpa_ccl_data_parallel_accumulate(objects.parallel, 0, objects.ccl_tensor, nullptr);
}

bpa_status ready(const Objects& objects) {
  return bpa_ccl_data_parallel_ready(objects.parallel, 0, objects.ccl_tensor, nullptr);
}

bpa_status finish(const Objects& objects) {
  return bpa_ccl_data_parallel_finish(objects.parallel, nullptr);
}

bpa_status get_info(const Objects& objects) {
  bpa_ccl_data_parallel_info info{};
  info.struct_size = sizeof(info);
  const bpa_status status = bpa_ccl_data_parallel_get_info(objects.parallel, &info);
  LIFE_CHECK(info.parameter_count == (status == BP_OK ? 1u : 0u));
  return status;
}

// Columns: closed, poisoned (the default stream, on which gradients are copied), lost.
constexpr ApiCall kCalls[] = {
    {"bpa_ccl_mesh_create", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, mesh_create},
    {"bpa_ccl_mesh_release", "", false, BP_OK, BP_OK, BP_OK, mesh_release},
    {"bpa_ccl_mesh_get_group", "", true, BP_OK, BP_OK, BP_OK, mesh_get_group},
    {"bpa_ccl_mesh_get_shard", "", true, BP_OK, BP_OK, BP_OK, mesh_get_shard},
    {"bpa_ccl_redistribute", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, redistribute},
    {"bpa_ccl_data_parallel_create", "", true, BP_GONE, BP_POISONED, BP_DEVICE_LOST,
     data_parallel_create},
    {"bpa_ccl_data_parallel_release", "", false, BP_OK, BP_OK, BP_OK, data_parallel_release},
    {"bpa_ccl_data_parallel_broadcast_parameters", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST,
     broadcast_parameters},
    {"bpa_ccl_data_parallel_get_gradient", "", true, BP_OK, BP_OK, BP_OK, get_gradient},
    {"bpa_ccl_data_parallel_accumulate", "", true, BP_GONE, BP_POISONED, BP_DEVICE_LOST,
     accumulate},
    {"bpa_ccl_data_parallel_ready", "", true, BP_GONE, BP_POISONED, BP_DEVICE_LOST, ready},
    {"bpa_ccl_data_parallel_finish", "", true, BP_GONE, BP_POISONED, BP_DEVICE_LOST, finish},
    {"bpa_ccl_data_parallel_get_info", "", true, BP_OK, BP_OK, BP_OK, get_info},
};

}  // namespace

std::span<const ApiCall> dist_calls() { return kCalls; }

}  // namespace bp::life
