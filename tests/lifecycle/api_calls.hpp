// SPDX-License-Identifier: Apache-2.0
//
// One row per function of backplane.h: a correct call, and what it answers after its Runtime was
// closed, with the device's default stream failed, and with the device lost. In a forked child
// every function that answers a status answers FORKED. A test compares the rows with the headers,
// so that a new function gets one.
#ifndef BACKPLANE_TESTS_LIFECYCLE_API_CALLS_HPP
#define BACKPLANE_TESTS_LIFECYCLE_API_CALLS_HPP

#include <span>
#include <string>

#include "tests/lifecycle/rig.hpp"

namespace bp::life {

/// What the calls are made on; everything is alive.
struct ApiObjects {
  bpa_runtime* runtime;
  bpa_device* device;
  bpa_tensor* tensor;       // kPendingSize f32 on the device
  bpa_tensor* host_tensor;  // one f32
  bpa_session* session;
  bpa_cancel* cancel;
  bpa_stream* stream;           // the device's default one
  bpa_ccl_group* group;         // of one rank
  bpa_ccl_group* doomed_group;  // to be aborted
  bpa_ccl_work* work;           // of it, and over
  bpa_tensor* ccl_tensor;       // 4 f32 on the device
  bpa_tensor* other_ccl_tensor;
  bpa_ccl_mesh* mesh;               // of one rank
  bpa_ccl_data_parallel* parallel;  // of one parameter, as ccl_tensor
  bpa_ccl_job* job;
};

/// What the rows of collectives need.
struct CclRig {
  explicit CclRig(Device device)
      : tensor(Tensor::from_host<float>(device, {1.0f, 2.0f, 3.0f, 4.0f}, {4})),
        other_tensor(Tensor::from_host<float>(device, {1.0f, 2.0f, 3.0f, 4.0f}, {4})),
        group(make(device)),
        doomed_group(make(device)),
        work(group.async().barrier()),
        mesh(ccl::Mesh::create(device, {.store = ccl::Store::memory(), .axes = {{"x", 1}}})),
        parallel(ccl::DataParallel::create(group, std::span(&tensor, 1), {.allow_unused = true})) {
    work.wait();
  }
  static ccl::Group make(Device device) {
    return ccl::Group::create(device, {.store = ccl::Store::memory(), .rank_count = 1});
  }
  void give(ApiObjects* objects) const {
    objects->group = group.handle();
    objects->doomed_group = doomed_group.handle();
    objects->work = work.handle();
    objects->ccl_tensor = tensor.handle();
    objects->other_ccl_tensor = other_tensor.handle();
    objects->mesh = mesh.handle();
    objects->parallel = parallel.handle();
    objects->job = job.handle();
  }
  Tensor tensor;
  Tensor other_tensor;
  ccl::Group group;
  ccl::Group doomed_group;
  ccl::Work work;
  ccl::Mesh mesh;
  ccl::DataParallel parallel;
  ccl::Job job = ccl::Job::from_environment();
};

/// Not called in that state: it would end it.
constexpr bpa_status kNotCalled = -1;

struct ApiCall {
  const char* function;
  const char* variant;  // "" or what is special about this row
  bool has_status;
  bpa_status closed;    // after bpa_runtime_close
  bpa_status poisoned;  // work of the default stream failed; what is older can be read
  bpa_status lost;      // the plugin answered DEVICE_LOST
  /// Calls it and checks that on an error out_ arguments are NULL or 0.
  bpa_status (*call)(const ApiObjects& objects);
};

/// Of all headers.
std::span<const ApiCall> api_calls();
/// Of api/ccl.h.
std::span<const ApiCall> ccl_calls();
/// Of api/ccl_dist.h.
std::span<const ApiCall> dist_calls();
/// Of api/ccl_job.h.
std::span<const ApiCall> ccl_job_calls();

// Anything that is neither NULL nor 0, so that an untouched out_ argument is seen.
template <class T>
T* const kUntouched = reinterpret_cast<T*>(8);

/// `out`: what the call that answered `status` was given.
template <class T>
bpa_status check_out(bpa_status status, T* const* out) {
  LIFE_CHECK(status == BP_OK ? *out != nullptr && *out != kUntouched<T> : *out == nullptr);
  return status;
}

enum class ApiState { kClosed, kPoisoned, kLost, kForked };

/// Makes every call and checks what it answers in that state.
void check_api_calls(const ApiObjects& objects, ApiState state);

}  // namespace bp::life

#endif
