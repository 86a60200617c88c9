// SPDX-License-Identifier: Apache-2.0
//
// One row per function of backplane.h: a correct call, and what it answers after its Runtime was
// closed, with the device's default stream failed, and with the device lost. In a forked child
// every function that answers a status answers FORKED. A test compares the rows with the header, so
// that a new function gets one.
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
  bpa_stream* stream;  // the device's default one
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

std::span<const ApiCall> api_calls();

enum class ApiState { kClosed, kPoisoned, kLost, kForked };

/// Makes every call and checks what it answers in that state.
void check_api_calls(const ApiObjects& objects, ApiState state);

}  // namespace bp::life

#endif
