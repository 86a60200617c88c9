// SPDX-License-Identifier: Apache-2.0
//
// The rows of api/ccl_job.h: no launcher started these processes. Stores and jobs are of no
// Runtime.
#include <sys/stat.h>

#include "core/base/temp_folder_test.hpp"
#include "tests/free_endpoint.hpp"
#include "tests/lifecycle/api_calls.hpp"

namespace bp::life {
namespace {

using Objects = ApiObjects;

bpa_status job_create(const Objects&) {
  bpa_ccl_job* job = kUntouched<bpa_ccl_job>;
  const bpa_status status = check_out(bpa_ccl_job_create(&job), &job);
  bpa_ccl_job_release(job);
  return status;
}

bpa_status job_release(const Objects&) {
  bpa_ccl_job_release(nullptr);
  return BP_OK;
}

bpa_status job_get_info(const Objects& objects) {
  bpa_ccl_job_info info{};
  info.struct_size = sizeof(info);
  const bpa_status status = bpa_ccl_job_get_info(objects.job, &info);
  LIFE_CHECK(info.rank_count == (status == BP_OK ? 1u : 0u));
  return status;
}

bpa_status job_get_store(const Objects& objects) {
  bpa_ccl_store* store = kUntouched<bpa_ccl_store>;
  const bpa_status status = check_out(bpa_ccl_job_get_store(objects.job, &store), &store);
  bpa_ccl_store_release(store);
  return status;
}

bpa_status store_create_file(const Objects&) {
  const TempFolder folder;
  bpa_ccl_store* store = kUntouched<bpa_ccl_store>;
  const bpa_status status =
      check_out(bpa_ccl_store_create_file(folder.path("store").c_str(), "job/1", &store), &store);
  bpa_ccl_store_release(store);
  return status;
}

bpa_status store_create_tcp(const Objects&) {
  const TempFolder folder;
  const std::string token_file = folder.write("token", std::string(64, 'a'));
  LIFE_CHECK(chmod(token_file.c_str(), 0600) == 0);
  const std::string endpoint = tests::free_endpoint();
  bpa_ccl_tcp_store_args args{};
  args.struct_size = sizeof(args);
  args.flags = BPA_CCL_SERVE_BIT;
  args.endpoint = endpoint.c_str();
  args.token_file = token_file.c_str();
  args.job = "job/1";
  bpa_ccl_store* store = kUntouched<bpa_ccl_store>;
  const bpa_status status = check_out(bpa_ccl_store_create_tcp(&args, &store), &store);
  bpa_ccl_store_release(store);
  return status;
}

// Columns: closed, poisoned, lost.
constexpr ApiCall kCalls[] = {
    {"bpa_ccl_job_create", "", true, BP_OK, BP_OK, BP_OK, job_create},
    {"bpa_ccl_job_release", "", false, BP_OK, BP_OK, BP_OK, job_release},
    {"bpa_ccl_job_get_info", "", true, BP_OK, BP_OK, BP_OK, job_get_info},
    {"bpa_ccl_job_get_store", "", true, BP_OK, BP_OK, BP_OK, job_get_store},
    {"bpa_ccl_store_create_file", "", true, BP_OK, BP_OK, BP_OK, store_create_file},
    {"bpa_ccl_store_create_tcp", "", true, BP_OK, BP_OK, BP_OK, store_create_tcp},
};

}  // namespace

std::span<const ApiCall> ccl_job_calls() { return kCalls; }

}  // namespace bp::life
