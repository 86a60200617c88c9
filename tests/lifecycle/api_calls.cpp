// SPDX-License-Identifier: Apache-2.0
//
// The rows, in the order of backplane.h; those of api/ccl.h are in ccl_calls.cpp, of
// api/ccl_dist.h in dist_calls.cpp.
#include "tests/lifecycle/api_calls.hpp"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>

namespace bp::life {
namespace {

using Objects = ApiObjects;

bpa_status version(const Objects&) {
  LIFE_CHECK(std::strlen(bpa_version()) > 0);
  return BP_OK;
}

bpa_status last_error(const Objects&) {
  LIFE_CHECK(bpa_last_error() != nullptr);
  return BP_OK;
}

bpa_status last_error_op(const Objects&) {
  LIFE_CHECK(bpa_last_error_op() != nullptr);
  return BP_OK;
}

bpa_status status_name(const Objects&) {
  LIFE_CHECK(std::strcmp(bpa_status_name(BP_FORKED), "FORKED") == 0);
  return BP_OK;
}

bpa_status log_set_sink(const Objects&) {
  bpa_log_set_sink([](void*, uint32_t, const char*, uint64_t) {}, nullptr);
  bpa_log_set_sink(nullptr, nullptr);
  return BP_OK;
}

bpa_status log_set_level(const Objects&) { return bpa_log_set_level(2); }

bpa_status runtime_create(const Objects&) {
  bpa_runtime_args args{};
  args.struct_size = sizeof(args);
  args.install_dir = arguments().device_folder.c_str();
  bpa_runtime* runtime = kUntouched<bpa_runtime>;
  const bpa_status status = check_out(bpa_runtime_create(&args, &runtime), &runtime);
  bpa_runtime_release(runtime);
  return status;
}

bpa_status runtime_close(const Objects& objects) { return bpa_runtime_close(objects.runtime); }

bpa_status runtime_release(const Objects&) {
  bpa_runtime_release(nullptr);
  return BP_OK;
}

bpa_status runtime_device_count(const Objects& objects) {
  uint64_t count = 4711;
  const bpa_status status = bpa_runtime_device_count(objects.runtime, &count);
  LIFE_CHECK(status == BP_OK ? count > 0 && count != 4711 : count == 0);
  return status;
}

bpa_status runtime_device(const Objects& objects) {
  bpa_device* device = kUntouched<bpa_device>;
  return check_out(bpa_runtime_device(objects.runtime, 0, &device), &device);
}

bpa_status runtime_find_device(const Objects& objects) {
  bpa_device* device = kUntouched<bpa_device>;
  const char* const name = arguments().device.c_str();
  return check_out(bpa_runtime_find_device(objects.runtime, name, &device), &device);
}

bpa_status device_get_info(const Objects& objects) {
  bpa_device_info info{};
  info.struct_size = sizeof(info);
  const bpa_status status = bpa_device_get_info(objects.device, &info);
  LIFE_CHECK(status == BP_OK || info.memory_bytes == 0);
  return status;
}

bpa_status device_sync(const Objects& objects) { return bpa_device_sync(objects.device); }

bpa_status device_feature_count(const Objects& objects) {
  uint64_t count = 4711;
  const bpa_status status = bpa_device_feature_count(objects.device, &count);
  LIFE_CHECK(status == BP_OK ? count > 0 && count != 4711 : count == 0);
  return status;
}

bpa_status device_get_feature(const Objects& objects) {
  bpa_feature_info info{};
  info.struct_size = sizeof(info);
  return bpa_device_get_feature(objects.device, 0, &info);
}

bpa_status tensor_create(const Objects& objects) {
  const int64_t size = 4;
  bpa_tensor* tensor = kUntouched<bpa_tensor>;
  const bpa_status status =
      check_out(bpa_tensor_create(objects.device, BP_DTYPE_F32, &size, 1, &tensor), &tensor);
  bpa_tensor_release(tensor);
  return status;
}

bpa_status from_host(bpa_device* device) {
  const int64_t size = 2;
  const float values[] = {1, 2};
  bpa_tensor* tensor = kUntouched<bpa_tensor>;
  const bpa_status status = check_out(
      bpa_tensor_from_host(device, BP_DTYPE_F32, &size, 1, values, sizeof(values), &tensor),
      &tensor);
  bpa_tensor_release(tensor);
  return status;
}

bpa_status tensor_from_host(const Objects& objects) { return from_host(objects.device); }
bpa_status tensor_from_host_to_host(const Objects&) { return from_host(nullptr); }

bpa_status wrap(bpa_device* device) {
  alignas(64) static float values[16];
  const int64_t size = 16;
  bpa_wrap_args args{};
  args.struct_size = sizeof(args);
  args.memory = {reinterpret_cast<uint64_t>(&values), 0};
  args.bytes = sizeof(values);
  args.dtype = BP_DTYPE_F32;
  args.rank = 1;
  args.sizes = &size;
  bpa_tensor* tensor = kUntouched<bpa_tensor>;
  const bpa_status status = check_out(bpa_tensor_wrap(device, &args, &tensor), &tensor);
  bpa_tensor_release(tensor);
  return status;
}

bpa_status tensor_wrap(const Objects& objects) { return wrap(objects.device); }
bpa_status tensor_wrap_host(const Objects&) { return wrap(nullptr); }

bpa_status tensor_to_host(const Objects& objects) {
  std::vector<float> values(kPendingSize);
  return bpa_tensor_to_host(objects.tensor, values.data(), values.size() * sizeof(float));
}

bpa_status tensor_to_host_from_host(const Objects& objects) {
  float value = 0;
  return bpa_tensor_to_host(objects.host_tensor, &value, sizeof(value));
}

bpa_status to_device(bpa_tensor* source, bpa_device* device) {
  bpa_tensor* tensor = kUntouched<bpa_tensor>;
  const bpa_status status = check_out(bpa_tensor_to_device(source, device, &tensor), &tensor);
  bpa_tensor_release(tensor);
  return status;
}

bpa_status tensor_to_device(const Objects& objects) {
  return to_device(objects.tensor, objects.device);
}
bpa_status tensor_to_device_from_host(const Objects& objects) {
  return to_device(objects.host_tensor, objects.device);
}

bpa_status tensor_get_info(const Objects& objects) {
  bpa_tensor_info info{};
  info.struct_size = sizeof(info);
  const bpa_status status = bpa_tensor_get_info(objects.tensor, &info);
  LIFE_CHECK(info.rank == (status == BP_OK ? 1u : 0u));
  return status;
}

bpa_status tensor_view(const Objects& objects) {
  const int64_t size = 1;
  bpa_tensor* view = kUntouched<bpa_tensor>;
  const bpa_status status =
      check_out(bpa_tensor_view(objects.tensor, &size, nullptr, 1, 0, 0, &view), &view);
  bpa_tensor_release(view);
  return status;
}

bpa_status tensor_view_as(const Objects& objects) {
  bpa_tensor* view = kUntouched<bpa_tensor>;
  const bpa_status status =
      check_out(bpa_tensor_view_as(objects.tensor, BP_DTYPE_I32, &view), &view);
  bpa_tensor_release(view);
  return status;
}

/// Of itself: its values stay.
bpa_status tensor_assign(const Objects& objects) {
  return bpa_tensor_assign(nullptr, objects.tensor, objects.tensor);
}

bpa_status tensor_retain(const Objects& objects) {
  bpa_tensor_retain(objects.tensor);
  bpa_tensor_release(objects.tensor);
  return BP_OK;
}

bpa_status tensor_release(const Objects&) {
  bpa_tensor_release(nullptr);
  return BP_OK;
}

bpa_status op_call_on(bpa_runtime* runtime, bpa_tensor* input) {
  const bpa_tensor* const inputs[] = {input};
  bpa_tensor* output = kUntouched<bpa_tensor>;
  const bpa_status status =
      check_out(bpa_op_call(runtime, BP_OP_RELU, inputs, 1, nullptr, 0, &output, 1), &output);
  bpa_tensor_release(output);
  return status;
}

bpa_status op_call(const Objects& objects) { return op_call_on(nullptr, objects.tensor); }
bpa_status op_call_on_host_values(const Objects& objects) {
  return op_call_on(objects.runtime, objects.host_tensor);
}

bpa_status stream_create(const Objects& objects) {
  bpa_stream* stream = kUntouched<bpa_stream>;
  const bpa_status status = check_out(bpa_stream_create(objects.device, &stream), &stream);
  bpa_stream_release(stream);
  return status;
}

bpa_status stream_get_default(const Objects& objects) {
  bpa_stream* stream = kUntouched<bpa_stream>;
  const bpa_status status = check_out(bpa_stream_get_default(objects.device, &stream), &stream);
  bpa_stream_release(stream);
  return status;
}

bpa_status stream_release(const Objects&) {
  bpa_stream_release(nullptr);
  return BP_OK;
}

bpa_status stream_sync(const Objects& objects) { return bpa_stream_sync(objects.stream); }
bpa_status stream_query(const Objects& objects) { return bpa_stream_query(objects.stream); }
bpa_status stream_reset(const Objects& objects) { return bpa_stream_reset(objects.stream); }

bpa_status op_call_on_stream(const Objects& objects) {
  const bpa_tensor* const inputs[] = {objects.tensor};
  bpa_tensor* output = kUntouched<bpa_tensor>;
  const bpa_status status = check_out(
      bpa_op_call_on(objects.stream, BP_OP_RELU, inputs, 1, nullptr, 0, &output, 1), &output);
  bpa_tensor_release(output);
  return status;
}

bpa_status stream_wrap(const Objects& objects) {
  bpa_stream* stream = kUntouched<bpa_stream>;
  return check_out(bpa_stream_wrap(objects.device, "acme.queue", 1, &stream), &stream);
}

bpa_status stream_native_handle(const Objects& objects) {
  const char* kind = "untouched";
  uint64_t handle = 4711;
  const bpa_status status = bpa_stream_native_handle(objects.stream, &kind, &handle);
  LIFE_CHECK(kind == nullptr && handle == 0);
  return status;
}

bpa_status stream_acquire_tensor(const Objects& objects) {
  return bpa_stream_acquire_tensor(objects.stream, objects.tensor, BPA_ACCESS_READ_BIT);
}
bpa_status stream_release_tensor(const Objects& objects) {
  return bpa_stream_release_tensor(objects.stream, objects.tensor, BPA_ACCESS_READ_BIT);
}

bpa_status session_load(const Objects& objects) {
  bpa_session_args args{};
  args.struct_size = sizeof(args);
  args.device = objects.device;
  bpa_session* session = kUntouched<bpa_session>;
  const char* const model = arguments().model.c_str();
  const bpa_status status =
      check_out(bpa_session_load(objects.runtime, model, &args, &session), &session);
  bpa_session_release(session);
  return status;
}

bpa_status session_create(const Objects& objects) {
  bpa_session_args args{};
  args.struct_size = sizeof(args);
  args.device = objects.device;
  bpa_session* session = kUntouched<bpa_session>;
  std::ifstream file(arguments().model, std::ios::binary);
  const std::string model{std::istreambuf_iterator<char>(file), {}};
  const bpa_status status =
      check_out(bpa_session_create(objects.runtime, model.data(), model.size(), nullptr, nullptr,
                                   &args, &session),
                &session);
  bpa_session_release(session);
  return status;
}

bpa_status session_release(const Objects&) {
  bpa_session_release(nullptr);
  return BP_OK;
}

bpa_status session_input_count(const Objects& objects) {
  uint64_t count = 4711;
  const bpa_status status = bpa_session_input_count(objects.session, &count);
  LIFE_CHECK(count == (status == BP_OK ? 1u : 0u));
  return status;
}

bpa_status session_output_count(const Objects& objects) {
  uint64_t count = 4711;
  const bpa_status status = bpa_session_output_count(objects.session, &count);
  LIFE_CHECK(status == BP_OK ? count > 0 && count != 4711 : count == 0);
  return status;
}

bpa_status session_get_input(const Objects& objects) {
  bpa_io_info info{};
  info.struct_size = sizeof(info);
  const bpa_status status = bpa_session_get_input(objects.session, 0, &info);
  LIFE_CHECK((info.name != nullptr) == (status == BP_OK));
  return status;
}

bpa_status session_get_output(const Objects& objects) {
  bpa_io_info info{};
  info.struct_size = sizeof(info);
  const bpa_status status = bpa_session_get_output(objects.session, 0, &info);
  LIFE_CHECK((info.name != nullptr) == (status == BP_OK));
  return status;
}

/// One input for the session. In a forked child nothing can be made, so a tensor of before stands
/// in.
class RunInput {
 public:
  explicit RunInput(const Objects& objects) : given_(objects.host_tensor) {
    const int64_t sizes[] = {1, 1, 8, 8};
    const std::vector<float> image(64, 0.5f);
    const bpa_status status = bpa_tensor_from_host(nullptr, BP_DTYPE_F32, sizes, 4, image.data(),
                                                   image.size() * sizeof(float), &made_);
    if (status == BP_OK) given_ = made_;
    args.struct_size = sizeof(args);
    args.input_names = &name_;
    args.inputs = &given_;
    args.input_count = 1;
  }
  ~RunInput() { bpa_tensor_release(made_); }
  RunInput(const RunInput&) = delete;
  RunInput& operator=(const RunInput&) = delete;

  bpa_run_args args{};

 private:
  const char* name_ = "image";
  bpa_tensor* made_ = nullptr;
  const bpa_tensor* given_;
};

bpa_status session_run(const Objects& objects) {
  const RunInput input(objects);
  bpa_tensor* output = kUntouched<bpa_tensor>;
  const bpa_status status = check_out(
      bpa_session_run(objects.session, input.args.input_names, input.args.inputs, 1, &output, 1),
      &output);
  bpa_tensor_release(output);
  return status;
}

bpa_status session_run_with(const Objects& objects) {
  const RunInput input(objects);
  bpa_tensor* output = kUntouched<bpa_tensor>;
  const bpa_status status =
      check_out(bpa_session_run_with(objects.session, &input.args, &output, 1), &output);
  bpa_tensor_release(output);
  return status;
}

/// What the call answers, or if that is OK, what its callback gets.
bpa_status session_run_async(const Objects& objects) {
  struct Done {
    std::mutex mutex;
    std::condition_variable changed;
    bool called = false;
    bpa_status status = BP_OK;
  } done;
  const auto callback = [](void* user, bpa_status status, const char*, bpa_tensor** outputs,
                           uint64_t output_count) {
    for (uint64_t i = 0; i < output_count; ++i) bpa_tensor_release(outputs[i]);
    auto* state = static_cast<Done*>(user);
    const std::lock_guard lock(state->mutex);
    state->called = true;
    state->status = status;
    state->changed.notify_all();
  };
  const RunInput input(objects);
  const bpa_status status = bpa_session_run_async(objects.session, &input.args, callback, &done);
  if (status != BP_OK) return status;
  std::unique_lock lock(done.mutex);
  LIFE_CHECK(done.changed.wait_for(lock, std::chrono::seconds(120), [&] { return done.called; }));
  return done.status;
}

bpa_status cancel_create(const Objects&) {
  bpa_cancel* cancel = kUntouched<bpa_cancel>;
  const bpa_status status = check_out(bpa_cancel_create(&cancel), &cancel);
  bpa_cancel_release(cancel);
  return status;
}

bpa_status cancel_request(const Objects& objects) { return bpa_cancel_request(objects.cancel); }

bpa_status cancel_reset(const Objects& objects) { return bpa_cancel_reset(objects.cancel); }

bpa_status cancel_release(const Objects&) {
  bpa_cancel_release(nullptr);
  return BP_OK;
}

bpa_status session_get_placement(const Objects& objects) {
  bpa_placement_info info{};
  info.struct_size = sizeof(info);
  return bpa_session_get_placement(objects.session, &info);
}

bpa_status session_node_count(const Objects& objects) {
  uint64_t count = 4711;
  const bpa_status status = bpa_session_node_count(objects.session, &count);
  LIFE_CHECK(count != 4711 && (status == BP_OK || count == 0));
  return status;
}

bpa_status session_get_node(const Objects& objects) {
  uint64_t count = 0;
  const bpa_status counted = bpa_session_node_count(objects.session, &count);
  bpa_node_info info{};
  info.struct_size = sizeof(info);
  const bpa_status status = bpa_session_get_node(objects.session, 0, &info);
  LIFE_CHECK((info.op != nullptr) == (status == BP_OK));
  if (counted != BP_OK || count > 0) return status;
  LIFE_CHECK(status == BP_INVALID_ARGUMENT);  // of a session that has planned nothing yet
  return counted;
}

// Columns: closed, poisoned (by a relu, which the model has too), lost.
constexpr ApiCall kCalls[] = {
    {"bpa_version", "", false, BP_OK, BP_OK, BP_OK, version},
    {"bpa_last_error", "", false, BP_OK, BP_OK, BP_OK, last_error},
    {"bpa_last_error_op", "", false, BP_OK, BP_OK, BP_OK, last_error_op},
    {"bpa_status_name", "", false, BP_OK, BP_OK, BP_OK, status_name},
    {"bpa_log_set_sink", "", false, BP_OK, BP_OK, BP_OK, log_set_sink},
    {"bpa_log_set_level", "", true, BP_OK, BP_OK, BP_OK, log_set_level},
    {"bpa_runtime_create", "", true, BP_OK, BP_OK, BP_OK, runtime_create},
    {"bpa_runtime_close", "", true, BP_OK, kNotCalled, kNotCalled, runtime_close},
    {"bpa_runtime_release", "", false, BP_OK, BP_OK, BP_OK, runtime_release},
    {"bpa_runtime_device_count", "", true, BP_GONE, BP_OK, BP_OK, runtime_device_count},
    {"bpa_runtime_device", "", true, BP_GONE, BP_OK, BP_OK, runtime_device},
    {"bpa_runtime_find_device", "", true, BP_GONE, BP_OK, BP_OK, runtime_find_device},
    {"bpa_device_get_info", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, device_get_info},
    {"bpa_device_feature_count", "", true, BP_OK, BP_OK, BP_OK, device_feature_count},
    {"bpa_device_get_feature", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, device_get_feature},
    {"bpa_device_sync", "", true, BP_GONE, BP_INTERNAL, BP_DEVICE_LOST, device_sync},
    {"bpa_tensor_create", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, tensor_create},
    {"bpa_tensor_from_host", "", true, BP_GONE, BP_POISONED, BP_DEVICE_LOST, tensor_from_host},
    {"bpa_tensor_from_host", "to host memory", true, BP_OK, BP_OK, BP_OK, tensor_from_host_to_host},
    {"bpa_tensor_wrap", "", true, BP_GONE, kNotCalled, BP_DEVICE_LOST, tensor_wrap},
    {"bpa_tensor_wrap", "host memory", true, BP_OK, BP_OK, BP_OK, tensor_wrap_host},
    {"bpa_tensor_to_host", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, tensor_to_host},
    {"bpa_tensor_to_host", "from host memory", true, BP_OK, BP_OK, BP_OK, tensor_to_host_from_host},
    {"bpa_tensor_to_device", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, tensor_to_device},
    {"bpa_tensor_to_device", "from host memory", true, BP_GONE, BP_POISONED, BP_DEVICE_LOST,
     tensor_to_device_from_host},
    {"bpa_tensor_get_info", "", true, BP_OK, BP_OK, BP_OK, tensor_get_info},
    {"bpa_tensor_view", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, tensor_view},
    {"bpa_tensor_view_as", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, tensor_view_as},
    {"bpa_tensor_assign", "", true, BP_GONE, BP_POISONED, BP_DEVICE_LOST, tensor_assign},
    {"bpa_tensor_retain", "", false, BP_OK, BP_OK, BP_OK, tensor_retain},
    {"bpa_tensor_release", "", false, BP_OK, BP_OK, BP_OK, tensor_release},
    {"bpa_op_call", "", true, BP_GONE, BP_POISONED, BP_DEVICE_LOST, op_call},
    {"bpa_op_call", "on host values", true, BP_GONE, BP_OK, BP_OK, op_call_on_host_values},
    {"bpa_stream_create", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, stream_create},
    {"bpa_stream_get_default", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, stream_get_default},
    {"bpa_stream_release", "", false, BP_OK, BP_OK, BP_OK, stream_release},
    {"bpa_stream_sync", "", true, BP_GONE, BP_INTERNAL, BP_DEVICE_LOST, stream_sync},
    {"bpa_stream_query", "", true, BP_GONE, BP_INTERNAL, BP_DEVICE_LOST, stream_query},
    {"bpa_stream_reset", "", true, BP_GONE, kNotCalled, BP_DEVICE_LOST, stream_reset},
    {"bpa_op_call_on", "", true, BP_GONE, BP_POISONED, BP_DEVICE_LOST, op_call_on_stream},
    {"bpa_stream_wrap", "", true, BP_GONE, BP_UNSUPPORTED, BP_DEVICE_LOST, stream_wrap},
    {"bpa_stream_native_handle", "", true, BP_GONE, BP_UNSUPPORTED, BP_DEVICE_LOST,
     stream_native_handle},
    {"bpa_stream_acquire_tensor", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, stream_acquire_tensor},
    {"bpa_stream_release_tensor", "", true, BP_GONE, BP_POISONED, BP_DEVICE_LOST,
     stream_release_tensor},
    {"bpa_session_load", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, session_load},
    {"bpa_session_create", "", true, BP_GONE, BP_OK, BP_DEVICE_LOST, session_create},
    {"bpa_session_release", "", false, BP_OK, BP_OK, BP_OK, session_release},
    {"bpa_session_input_count", "", true, BP_OK, BP_OK, BP_OK, session_input_count},
    {"bpa_session_output_count", "", true, BP_OK, BP_OK, BP_OK, session_output_count},
    {"bpa_session_get_input", "", true, BP_OK, BP_OK, BP_OK, session_get_input},
    {"bpa_session_get_output", "", true, BP_OK, BP_OK, BP_OK, session_get_output},
    {"bpa_session_run", "", true, BP_GONE, BP_INTERNAL, BP_DEVICE_LOST, session_run},
    {"bpa_session_run_with", "", true, BP_GONE, BP_INTERNAL, BP_DEVICE_LOST, session_run_with},
    {"bpa_session_run_async", "", true, BP_GONE, BP_INTERNAL, BP_DEVICE_LOST, session_run_async},
    {"bpa_cancel_create", "", true, BP_OK, BP_OK, BP_OK, cancel_create},
    {"bpa_cancel_request", "", true, BP_OK, BP_OK, BP_OK, cancel_request},
    {"bpa_cancel_reset", "", true, BP_OK, BP_OK, BP_OK, cancel_reset},
    {"bpa_cancel_release", "", false, BP_OK, BP_OK, BP_OK, cancel_release},
    {"bpa_session_get_placement", "", true, BP_OK, BP_OK, BP_OK, session_get_placement},
    {"bpa_session_node_count", "", true, BP_OK, BP_OK, BP_OK, session_node_count},
    {"bpa_session_get_node", "", true, BP_OK, BP_OK, BP_OK, session_get_node},
};

bpa_status expected_of(const ApiCall& row, ApiState state) {
  switch (state) {
    case ApiState::kClosed:
      return row.closed;
    case ApiState::kPoisoned:
      return row.poisoned;
    case ApiState::kLost:
      return row.lost;
    case ApiState::kForked:
      break;
  }
  return row.has_status ? BP_FORKED : BP_OK;
}

}  // namespace

std::span<const ApiCall> api_calls() {
  // Never destroyed: a forked child asks as it leaves.
  static const auto* const all = [] {
    auto* const joined = new std::vector<ApiCall>(std::begin(kCalls), std::end(kCalls));
    joined->insert(joined->end(), ccl_calls().begin(), ccl_calls().end());
    joined->insert(joined->end(), dist_calls().begin(), dist_calls().end());
    joined->insert(joined->end(), ccl_job_calls().begin(), ccl_job_calls().end());
    return joined;
  }();
  return *all;
}

void check_api_calls(const ApiObjects& objects, ApiState state) {
  int wrong = 0;
  for (const ApiCall& row : api_calls()) {
    const bpa_status expected = expected_of(row, state);
    if (expected == kNotCalled) continue;
    const bpa_status found = row.call(objects);
    const std::string words = bpa_last_error();
    if (found == expected && (found == BP_OK || !words.empty())) continue;
    std::fprintf(stderr, "%s %s: expected %s, found %s: %s\n", row.function, row.variant,
                 bpa_status_name(expected), bpa_status_name(found), words.c_str());
    ++wrong;
  }
  LIFE_CHECK(wrong == 0);
}

}  // namespace bp::life
