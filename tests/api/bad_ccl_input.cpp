// SPDX-License-Identifier: Apache-2.0
//
// See bad_ccl_input.hpp. What is made here for a call may fail after a close: the call tells.
#include "tests/api/bad_ccl_input.hpp"

#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>

#include "tests/free_endpoint.hpp"

namespace bp::bad_input {
namespace {

void must_have(const void* made, const char* what) {
  if (made != nullptr) return;
  std::fprintf(stderr, "%s: %s\n", what, bpa_last_error());
  std::abort();
}

}  // namespace

void CclObjects::begin_ccl(bpa_device* device, bpa_tensor* tensor, bpa_stream* stream) {
  ccl_device_ = device;
  ccl_tensor_ = tensor;
  ccl_stream_ = stream;
  const int64_t sizes[] = {2, 2};
  bpa_tensor_create(device, BP_DTYPE_F32, sizes, 2, &recv_tensor);
  must_have(recv_tensor, "a tensor");
  store = take_store();
  group = take_group();
  work = take_work();
  doomed_group = take_group();
  stale_store = take_store();
  bpa_ccl_store_release(stale_store);
  stale_work = take_work();
  bpa_ccl_work_release(stale_work);
  stale_group = take_group();
  bpa_ccl_group_release(stale_group);
  job = take_job();
  must_have(job, "a job");
  stale_job = take_job();
  bpa_ccl_job_release(stale_job);
  token_file_ = folder_.write("token", std::string(64, 'a'));
  chmod(token_file_.c_str(), 0600);
  must_have(bpa_ccl_work_wait(work, 0) == BP_OK ? work : nullptr, "a wait");
}

void CclObjects::end_ccl() {
  bpa_ccl_job_release(job);
  bpa_ccl_work_release(work);
  bpa_ccl_group_release(doomed_group);
  bpa_ccl_group_release(group);
  bpa_ccl_store_release(store);
  bpa_tensor_release(recv_tensor);
}

bpa_ccl_group_args CclObjects::group_args() {
  name_ = "group " + std::to_string(++name_count_);
  bpa_ccl_group_args args{};
  args.struct_size = sizeof(args);
  args.store = store;
  args.name = name_.c_str();
  args.rank_count = 1;
  return args;
}

bpa_ccl_rebuild_args CclObjects::rebuild_args() {
  bpa_ccl_rebuild_args args{};
  args.struct_size = sizeof(args);
  args.epoch = ++epoch_count_;
  args.members = members_;
  args.member_count = 1;
  return args;
}

bpa_ccl_split_args CclObjects::split_args() const {
  bpa_ccl_split_args args{};
  args.struct_size = sizeof(args);
  args.color = 3;
  return args;
}

bpa_ccl_options CclObjects::ccl_options() const {
  bpa_ccl_options options{};
  options.struct_size = sizeof(options);
  options.stream = ccl_stream_;
  return options;
}

bpa_ccl_call CclObjects::ccl_call() const {
  bpa_ccl_call call{};
  call.struct_size = sizeof(call);
  call.kind = BPA_CCL_ALL_REDUCE;
  call.send = ccl_tensor_;
  call.recv = recv_tensor;
  return call;
}

bpa_ccl_tcp_store_args CclObjects::tcp_store_args() {
  endpoint_ = tests::free_endpoint();
  bpa_ccl_tcp_store_args args{};
  args.struct_size = sizeof(args);
  args.flags = BPA_CCL_SERVE_BIT;
  args.endpoint = endpoint_.c_str();
  args.token_file = token_file_.c_str();
  args.job = "job/1";
  return args;
}

const char* CclObjects::store_path() {
  path_ = folder_.path("store " + std::to_string(++name_count_));
  return path_.c_str();
}

bpa_ccl_job* CclObjects::take_job() const {
  bpa_ccl_job* made = nullptr;
  bpa_ccl_job_create(&made);
  return made;
}

bpa_ccl_store* CclObjects::take_store() const {
  bpa_ccl_store* made = nullptr;
  bpa_ccl_store_create_memory(&made);
  return made;
}

bpa_ccl_group* CclObjects::take_group() {
  bpa_ccl_group* made = nullptr;
  const bpa_ccl_group_args args = group_args();
  bpa_ccl_group_create(ccl_device_, &args, &made);
  return made;
}

bpa_ccl_work* CclObjects::take_work() const {
  bpa_ccl_work* made = nullptr;
  bpa_ccl_barrier(group, nullptr, &made);
  return made;
}

void CclObjects::expect_message() const {
  bpa_ccl_work* made = nullptr;
  bpa_ccl_recv(group, recv_tensor, 0, nullptr, &made);
  bpa_ccl_work_release(made);
}

void CclObjects::send_message() const {
  bpa_ccl_work* made = nullptr;
  bpa_ccl_send(group, ccl_tensor_, 0, nullptr, &made);
  bpa_ccl_work_release(made);
}

}  // namespace bp::bad_input
