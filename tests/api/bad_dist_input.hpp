// SPDX-License-Identifier: Apache-2.0
//
// The part of bad_input_test's fixture that parallel training needs: a mesh of one rank, and one
// parameter.
#ifndef BACKPLANE_TESTS_API_BAD_DIST_INPUT_HPP
#define BACKPLANE_TESTS_API_BAD_DIST_INPUT_HPP

#include <string>

#include "backplane/backplane.h"
#include "tests/api/bad_ccl_input.hpp"

namespace bp::bad_input {

struct DistObjects : CclObjects {
  /// After begin_ccl(), with the same arguments.
  void begin_dist(bpa_device* device, bpa_tensor* tensor);
  /// Before end_ccl().
  void end_dist();

  bpa_ccl_mesh_args mesh_args();  // with a name that no mesh has yet
  bpa_ccl_redistribute_args redistribute_args() const;
  bpa_ccl_data_parallel_args parallel_args() const;
  /// For functions that end what they are given.
  bpa_ccl_mesh* take_mesh();
  bpa_ccl_data_parallel* take_parallel();
  /// No gradient is ready any more.
  void begin_step() const;

  bpa_ccl_mesh* mesh = nullptr;
  bpa_ccl_data_parallel* parallel = nullptr;
  bpa_ccl_mesh* stale_mesh = nullptr;
  bpa_ccl_data_parallel* stale_parallel = nullptr;
  int64_t out_sizes[17] = {};
  int64_t out_offsets[17] = {};
  bpa_tensor* targets[1] = {};
  const char* const axis_names[1] = {"x"};
  const uint32_t one[1] = {1};
  const uint32_t zero[1] = {0};
  const uint32_t whole[1] = {BPA_CCL_REPLICATE};
  const uint32_t rows[1] = {BPA_CCL_SHARD(0)};
  const uint32_t deep[1] = {BPA_CCL_SHARD(2)};
  const uint32_t sums[1] = {BPA_CCL_PARTIAL(BPA_CCL_SUM)};
  const uint32_t averages[1] = {BPA_CCL_PARTIAL(BPA_CCL_AVG)};
  const uint32_t no_reduction[1] = {BPA_CCL_PARTIAL(5)};
  const uint32_t no_placement[1] = {UINT32_MAX};

 private:
  bpa_device* dist_device_ = nullptr;
  const bpa_tensor* parameters_[1] = {};
  const int64_t sizes_[2] = {2, 2};
  std::string mesh_name_;
  int mesh_count_ = 0;
};

}  // namespace bp::bad_input

#endif
