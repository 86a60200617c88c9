// SPDX-License-Identifier: Apache-2.0
//
// See bad_dist_input.hpp. What is made here for a call may fail after a close: the call tells.
#include "tests/api/bad_dist_input.hpp"

#include <cstdio>
#include <cstdlib>

namespace bp::bad_input {

void DistObjects::begin_dist(bpa_device* device, bpa_tensor* tensor) {
  dist_device_ = device;
  parameters_[0] = tensor;
  targets[0] = recv_tensor;
  mesh = take_mesh();
  parallel = take_parallel();
  stale_mesh = take_mesh();
  bpa_ccl_mesh_release(stale_mesh);
  stale_parallel = take_parallel();
  bpa_ccl_data_parallel_release(stale_parallel);
  if (stale_mesh != nullptr && stale_parallel != nullptr) return;
  std::fprintf(stderr, "a mesh and data parallel: %s\n", bpa_last_error());
  std::abort();
}

void DistObjects::end_dist() {
  bpa_ccl_data_parallel_release(parallel);
  bpa_ccl_mesh_release(mesh);
}

bpa_ccl_mesh_args DistObjects::mesh_args() {
  mesh_name_ = "mesh " + std::to_string(++mesh_count_);
  bpa_ccl_mesh_args args{};
  args.struct_size = sizeof(args);
  args.store = store;
  args.name = mesh_name_.c_str();
  args.rank_count = 1;
  args.axis_count = 1;
  args.axis_names = axis_names;
  args.axis_sizes = one;
  return args;
}

bpa_ccl_redistribute_args DistObjects::redistribute_args() const {
  bpa_ccl_redistribute_args args{};
  args.struct_size = sizeof(args);
  args.tensor = parameters_[0];
  args.sizes = sizes_;
  args.rank = 2;
  args.placement_count = 1;
  args.from = sums;
  args.to = rows;
  return args;
}

bpa_ccl_data_parallel_args DistObjects::parallel_args() const {
  bpa_ccl_data_parallel_args args{};
  args.struct_size = sizeof(args);
  args.flags = BPA_CCL_ALLOW_UNUSED_BIT;
  args.parameters = parameters_;
  args.parameter_count = 1;
  return args;
}

bpa_ccl_mesh* DistObjects::take_mesh() {
  bpa_ccl_mesh* made = nullptr;
  const bpa_ccl_mesh_args args = mesh_args();
  bpa_ccl_mesh_create(dist_device_, &args, &made);
  return made;
}

bpa_ccl_data_parallel* DistObjects::take_parallel() {
  bpa_ccl_data_parallel* made = nullptr;
  const bpa_ccl_data_parallel_args args = parallel_args();
  bpa_ccl_data_parallel_create(group, &args, &made);
  return made;
}

void DistObjects::begin_step() const { bpa_ccl_data_parallel_finish(parallel, nullptr); }

}  // namespace bp::bad_input
