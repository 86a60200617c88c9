// SPDX-License-Identifier: Apache-2.0
//
// What the generated cases of bad_input_test are made with: one valid object of each kind, values
// that are wrong in each way, and the place for a call's answer.
#ifndef BACKPLANE_TESTS_API_BAD_INPUT_HPP
#define BACKPLANE_TESTS_API_BAD_INPUT_HPP

#include <array>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>

#include "backplane/backplane.h"
#include "backplane/ops.h"
#include "tests/api/bad_dist_input.hpp"

namespace bp::bad_input {

/// A number as a handle or pointer.
template <class Handle>
Handle* foreign(uint64_t value) {
  return reinterpret_cast<Handle*>(value);
}
/// A handle of another kind.
template <class Handle, class Other>
Handle* as(Other* other) {
  return reinterpret_cast<Handle*>(other);
}
/// What an out argument holds before a call, so that a case sees whether it was cleared.
template <class T>
T poison() {
  return (T)uint64_t{0xDEADBEEF};
}

class Fixture : public DistObjects {
 public:
  /// On cpu:0 of this build's plugins.
  Fixture();
  ~Fixture();
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;

  /// Objects that valid cases end or spoil, made anew.
  void refresh();
  /// Until the asynchronous runs of on_run_end have ended; false after a generous deadline.
  bool wait_for_runs();

  /// Releases what a call answered; on an error it must have answered nothing.
  void settle(bpa_runtime* out);
  void settle(bpa_device* out);
  void settle(bpa_tensor* out);
  void settle(bpa_session* out);
  void settle(bpa_cancel* out);
  void settle(bpa_stream* out);
  void settle(bpa_ccl_store* out);
  void settle(bpa_ccl_group* out);
  void settle(bpa_ccl_work* out);
  void settle(bpa_ccl_mesh* out);
  void settle(bpa_ccl_data_parallel* out);
  void settle(bpa_ccl_job* out);
  void settle(uint32_t out) { settle(uint64_t{out}); }
  void settle(uint64_t out);
  void settle(const char* out);

  bpa_runtime_args runtime_args() const;
  bpa_wrap_args wrap_args() const;
  bpa_session_args session_args() const;
  bpa_run_args run_args() const;
  uint64_t address() const { return reinterpret_cast<uint64_t>(values); }
  uint64_t stack_address() const {
    static thread_local int there = 0;
    return reinterpret_cast<uint64_t>(&there);
  }
  uint64_t forged() const { return uint64_t{0xB} << 60 | 7; }
  bpa_tensor* retained_tensor() {
    ++extra_owners;
    return tensor;
  }
  const bpa_tensor* const* one_input(bpa_tensor* entry) {
    odd_tensor = entry;
    return &odd_tensor;
  }
  bpa_tensor* const* one_tensor(bpa_tensor* entry) {
    odd_tensor = entry;
    return &odd_tensor;
  }
  bpa_device* const* one_device(bpa_device* entry) {
    odd_device = entry;
    return &odd_device;
  }
  static void on_run_end(void* user, bpa_status status, const char* message, bpa_tensor** outputs,
                         uint64_t output_count);

  bpa_status result = BP_OK;
  bool left_something = false;  // an out argument was set although the call failed
  int extra_owners = 0;         // of `tensor`

  bpa_runtime* runtime = nullptr;
  bpa_device* device = nullptr;
  bpa_tensor* tensor = nullptr;
  bpa_session* session = nullptr;
  bpa_cancel* cancel = nullptr;
  bpa_stream* stream = nullptr;
  bpa_tensor* host_tensor = nullptr;
  bpa_device* queue_device = nullptr;  // a fake with feature native_streams
  bpa_stream* queue_stream = nullptr;
  std::string queue_kind;
  uint64_t queue = 0;
  bpa_runtime* spare_runtime = nullptr;
  bpa_session* spare_session = nullptr;
  bpa_cancel* spare_cancel = nullptr;
  bpa_tensor* spare_tensor = nullptr;
  bpa_stream* spare_stream = nullptr;
  bpa_runtime* stale_runtime = nullptr;
  bpa_device* stale_device = nullptr;
  bpa_tensor* stale_tensor = nullptr;
  bpa_session* stale_session = nullptr;
  bpa_cancel* stale_cancel = nullptr;
  bpa_stream* stale_stream = nullptr;

  alignas(256) float values[4] = {1, -2, 3, -4};
  const int64_t sizes[17] = {2, 2};
  const int64_t negative_sizes[17] = {-1, 2};
  const int64_t huge_sizes[17] = {INT64_MAX, INT64_MAX};
  const int64_t large_sizes[17] = {1000, 1000};
  const int64_t view_strides[17] = {2, 1};
  const int64_t negative_strides[17] = {-2, 1};
  const int64_t large_strides[17] = {1000, 1};
  const int64_t huge_strides[17] = {INT64_MAX, INT64_MIN};
  const uint64_t many = 1'000'000;
  const char* const device_name = "cpu:0";
  const char* const model_path = BP_API_MODELS "/relu.onnx";
  const std::string model = read_model(model_path);
  const char* const not_utf8 = "cpu\xC3\x28:0";
  const char* const input_names[1] = {"x"};
  const char* const null_texts[1] = {nullptr};
  const char* const bad_texts[1] = {"x\xFF"};
  const bpa_tensor* inputs[1] = {};
  const bpa_tensor* op_inputs[1] = {};

 private:
  static std::string read_model(const char* path);
  bpa_runtime* make_runtime() const;
  bpa_session* make_session() const;
  void make_stale();

  bpa_tensor* odd_tensor = nullptr;
  bpa_device* odd_device = nullptr;
  std::mutex mutex_;
  std::condition_variable run_ended_;
  int runs_begun_ = 0;  // successful bpa_session_run_async calls are counted by the runner
  int runs_ended_ = 0;

 public:
  void note_async_run() {
    const std::lock_guard lock(mutex_);
    ++runs_begun_;
  }
};

struct Case {
  const char* function;
  const char* argument;  // "" for a valid call
  const char* what;
  const char* words;  // what bpa_last_error must hold
  bool has_status;
  void (*run)(Fixture& fixture);
};

/// Generated from the headers.
std::span<const Case> cases();

}  // namespace bp::bad_input

#endif
