// SPDX-License-Identifier: Apache-2.0
//
// Making and ending the objects of the generated cases.
#include "tests/api/bad_input.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace bp::bad_input {
namespace {

constexpr std::chrono::seconds kDeadline{60};

void must(bpa_status status, const char* what) {
  if (status == BP_OK) return;
  std::fprintf(stderr, "%s: %s\n", what, bpa_last_error());
  std::abort();
}

bpa_tensor* make_tensor(bpa_device* device, const Fixture& f) {
  bpa_tensor* tensor = nullptr;
  must(bpa_tensor_from_host(device, BP_DTYPE_F32, f.sizes, 2, f.values, sizeof(f.values), &tensor),
       "a tensor");
  return tensor;
}

bpa_cancel* make_cancel() {
  bpa_cancel* cancel = nullptr;
  must(bpa_cancel_create(&cancel), "a token");
  return cancel;
}

bpa_stream* make_stream(bpa_device* device) {
  bpa_stream* stream = nullptr;
  must(bpa_stream_create(device, &stream), "a stream");
  return stream;
}

}  // namespace

Fixture::Fixture() {
  runtime = make_runtime();
  must(bpa_runtime_find_device(runtime, device_name, &device), "cpu:0");
  tensor = make_tensor(device, *this);
  inputs[0] = tensor;
  op_inputs[0] = tensor;
  session = make_session();
  cancel = make_cancel();
  stream = make_stream(device);
  host_tensor = make_tensor(nullptr, *this);
  const char* kind = nullptr;
  must(bpa_runtime_find_device(runtime, "queues:0", &queue_device), "queues:0");
  queue_stream = make_stream(queue_device);
  must(bpa_stream_native_handle(queue_stream, &kind, &queue), "a queue");
  queue_kind = kind;
  begin_ccl(device, tensor, stream);
  begin_dist(device, tensor);
  make_stale();
  refresh();
}

Fixture::~Fixture() {
  bpa_runtime_release(spare_runtime);
  bpa_session_release(spare_session);
  bpa_cancel_release(spare_cancel);
  bpa_tensor_release(spare_tensor);
  bpa_stream_release(spare_stream);
  bpa_stream_release(queue_stream);
  end_dist();
  end_ccl();
  bpa_tensor_release(host_tensor);
  bpa_stream_release(stream);
  bpa_cancel_release(cancel);
  bpa_session_release(session);
  bpa_tensor_release(tensor);
  bpa_runtime_release(runtime);
}

void Fixture::make_stale() {
  stale_runtime = make_runtime();
  must(bpa_runtime_find_device(stale_runtime, device_name, &stale_device), "cpu:0");
  bpa_runtime_release(stale_runtime);
  stale_tensor = make_tensor(device, *this);
  bpa_tensor_release(stale_tensor);
  stale_session = make_session();
  bpa_session_release(stale_session);
  stale_stream = make_stream(device);
  bpa_stream_release(stale_stream);
  stale_cancel = make_cancel();
  bpa_cancel_release(stale_cancel);
}

void Fixture::refresh() {
  uint64_t count = 0;
  if (spare_runtime == nullptr || bpa_runtime_device_count(spare_runtime, &count) != BP_OK) {
    spare_runtime = make_runtime();
  }
  if (bpa_session_input_count(spare_session, &count) != BP_OK) spare_session = make_session();
  if (bpa_cancel_request(spare_cancel) != BP_OK) spare_cancel = make_cancel();
  bpa_tensor_info info{};
  info.struct_size = sizeof(info);
  if (bpa_tensor_get_info(spare_tensor, &info) != BP_OK) spare_tensor = make_tensor(device, *this);
  if (bpa_stream_query(spare_stream) != BP_OK) spare_stream = make_stream(device);
  for (; extra_owners > 0; --extra_owners) bpa_tensor_release(tensor);
  result = BP_OK;
  left_something = false;
}

bpa_runtime* Fixture::make_runtime() const {
  bpa_runtime* made = nullptr;
  const bpa_runtime_args args = runtime_args();
  must(bpa_runtime_create(&args, &made), "a runtime");
  return made;
}

std::string Fixture::read_model(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bpa_session* Fixture::make_session() const {
  bpa_session* made = nullptr;
  const bpa_session_args args = session_args();
  must(bpa_session_load(runtime, model_path, &args, &made), "a session");
  return made;
}

bpa_runtime_args Fixture::runtime_args() const {
  static constexpr const char* kNames[] = {"BACKPLANE_FALLBACK"};
  static constexpr const char* kValues[] = {"allow"};
  bpa_runtime_args args{};
  args.struct_size = sizeof(args);
  args.plugin_path = BP_FAKES_DIR "/queues";
  args.install_dir = BP_PLUGIN_DIR;
  args.option_names = kNames;
  args.option_values = kValues;
  args.option_count = 1;
  return args;
}

bpa_wrap_args Fixture::wrap_args() const {
  bpa_wrap_args args{};
  args.struct_size = sizeof(args);
  args.memory.handle = address();
  args.bytes = sizeof(values);
  args.dtype = BP_DTYPE_F32;
  args.rank = 2;
  args.sizes = sizes;
  return args;
}

bpa_session_args Fixture::session_args() const {
  bpa_session_args args{};
  args.struct_size = sizeof(args);
  args.device = device;
  return args;
}

bpa_run_args Fixture::run_args() const {
  bpa_run_args args{};
  args.struct_size = sizeof(args);
  args.input_names = input_names;
  args.inputs = inputs;
  args.input_count = 1;
  return args;
}

void Fixture::settle(bpa_runtime* out) {
  if (result == BP_OK) return bpa_runtime_release(out);
  left_something |= out != nullptr;
}
void Fixture::settle(bpa_device* out) { left_something |= (result == BP_OK) == (out == nullptr); }
void Fixture::settle(bpa_tensor* out) {
  if (result == BP_OK) return bpa_tensor_release(out);
  left_something |= out != nullptr;
}
void Fixture::settle(bpa_session* out) {
  if (result == BP_OK) return bpa_session_release(out);
  left_something |= out != nullptr;
}
void Fixture::settle(bpa_cancel* out) {
  if (result == BP_OK) return bpa_cancel_release(out);
  left_something |= out != nullptr;
}
void Fixture::settle(bpa_stream* out) {
  if (result == BP_OK) return bpa_stream_release(out);
  left_something |= out != nullptr;
}
void Fixture::settle(bpa_ccl_store* out) {
  if (result == BP_OK) return bpa_ccl_store_release(out);
  left_something |= out != nullptr;
}
void Fixture::settle(bpa_ccl_group* out) {
  if (result == BP_OK) return bpa_ccl_group_release(out);
  left_something |= out != nullptr;
}
void Fixture::settle(bpa_ccl_work* out) {
  if (result == BP_OK) return bpa_ccl_work_release(out);
  left_something |= out != nullptr;
}

void Fixture::settle(bpa_ccl_mesh* out) {
  if (result == BP_OK) return bpa_ccl_mesh_release(out);
  left_something |= out != nullptr;
}

void Fixture::settle(bpa_ccl_data_parallel* out) {
  if (result == BP_OK) return bpa_ccl_data_parallel_release(out);
  left_something |= out != nullptr;
}

void Fixture::settle(bpa_ccl_job* out) {
  if (result == BP_OK) return bpa_ccl_job_release(out);
  left_something |= out != nullptr;
}
void Fixture::settle(const char* out) { left_something |= (result == BP_OK) == (out == nullptr); }
void Fixture::settle(uint64_t out) { left_something |= result != BP_OK && out != 0; }

void Fixture::on_run_end(void* user, bpa_status, const char*, bpa_tensor** outputs,
                         uint64_t output_count) {
  for (uint64_t i = 0; i < output_count; ++i) bpa_tensor_release(outputs[i]);
  auto& fixture = *static_cast<Fixture*>(user);
  const std::lock_guard lock(fixture.mutex_);
  ++fixture.runs_ended_;
  fixture.run_ended_.notify_all();
}

bool Fixture::wait_for_runs() {
  std::unique_lock lock(mutex_);
  return run_ended_.wait_for(lock, kDeadline, [&] { return runs_ended_ == runs_begun_; });
}

}  // namespace bp::bad_input
