// SPDX-License-Identifier: Apache-2.0
//
// Native streams of the tests' device. Nothing runs by itself: every question runs one task, and a
// blocking slot runs tasks until its answer is there (and is counted).
#include <chrono>

#include "core/emulation/fake_device.hpp"

namespace bp::testing {
namespace {

FakeStream& stream_from(bp_stream* stream) { return *reinterpret_cast<FakeStream*>(stream); }
FakeEvent& event_from(bp_event* event) { return *reinterpret_cast<FakeEvent*>(event); }

bp_status stream_create(bp_device* self, const bp_stream_args*, bp_stream** out_stream) {
  FakeDevice& device = FakeDevice::from(self);
  const CallScope scope(device);
  const std::lock_guard lock(device.stream_mutex);
  auto* stream = new FakeStream{device, {}, BP_OK, 0};
  device.streams.push_back(stream);
  *out_stream = reinterpret_cast<bp_stream*>(stream);
  return BP_OK;
}

bp_status stream_destroy(bp_stream* handle) {
  FakeStream& stream = stream_from(handle);
  FakeDevice& device = stream.device;
  const CallScope scope(device);
  const std::lock_guard lock(device.stream_mutex);
  if (!stream.tasks.empty()) ++device.blocking_count;
  while (!stream.tasks.empty()) device.step();
  std::erase(device.streams, &stream);
  delete &stream;
  return BP_OK;
}

bp_status answer(const FakeStream& stream) {
  return stream.tasks.empty() ? stream.failure : BP_PENDING;
}

bp_status stream_query(bp_stream* handle) {
  FakeStream& stream = stream_from(handle);
  const CallScope scope(stream.device);
  const std::lock_guard lock(stream.device.stream_mutex);
  const bp_status status = answer(stream);
  stream.device.step();
  return status;
}

bp_status stream_sync(bp_stream* handle, uint64_t timeout_ns) {
  FakeStream& stream = stream_from(handle);
  const CallScope scope(stream.device);
  ++stream.device.blocking_count;
  const std::lock_guard lock(stream.device.stream_mutex);
  while (timeout_ns > 0 && !stream.tasks.empty()) stream.device.step();
  return stream.tasks.empty() ? stream.failure : BP_TIMEOUT;
}

bp_status push(FakeStream& stream, std::function<bool(bp_status*)> task) {
  const std::lock_guard lock(stream.device.stream_mutex);
  if (stream.failure != BP_OK) return BP_POISONED;
  stream.tasks.push_back(std::move(task));
  return BP_OK;
}

bp_status event_create(bp_device* self, const bp_event_args* args, bp_event** out_event) {
  FakeDevice& device = FakeDevice::from(self);
  const CallScope scope(device);
  device.event_flags = args->flags;
  *out_event = reinterpret_cast<bp_event*>(new FakeEvent{device, args->flags, nullptr});
  return BP_OK;
}

bp_status event_destroy(bp_event* handle) {
  const CallScope scope(event_from(handle).device);
  delete &event_from(handle);
  return BP_OK;
}

bp_status event_record(bp_event* handle, bp_stream* stream) {
  FakeEvent& event = event_from(handle);
  const CallScope scope(event.device);
  auto record = std::make_shared<FakeRecord>();
  const bp_status status = push(stream_from(stream), [record](bp_status* failure) {
    *record = {true, *failure};
    return true;
  });
  const std::lock_guard lock(event.device.stream_mutex);
  if (status == BP_OK) event.latest = std::move(record);
  return status;
}

bp_status event_wait(bp_event* handle, bp_stream* stream) {
  FakeEvent& event = event_from(handle);
  const CallScope scope(event.device);
  return push(stream_from(stream), [record = event.latest](bp_status* failure) {
    if (record != nullptr && !record->done) return false;
    if (record != nullptr && *failure == BP_OK) *failure = record->failure;
    return true;
  });
}

bp_status answer(const FakeEvent& event) {
  if (event.latest == nullptr) return BP_OK;
  return event.latest->done ? event.latest->failure : BP_PENDING;
}

bp_status event_query(bp_event* handle) {
  FakeEvent& event = event_from(handle);
  const CallScope scope(event.device);
  const std::lock_guard lock(event.device.stream_mutex);
  const bp_status status = answer(event);
  event.device.step();
  return status;
}

bp_status event_sync(bp_event* handle, uint64_t timeout_ns) {
  FakeEvent& event = event_from(handle);
  const CallScope scope(event.device);
  ++event.device.blocking_count;
  const std::lock_guard lock(event.device.stream_mutex);
  while (timeout_ns > 0 && answer(event) == BP_PENDING) event.device.step();
  return answer(event) == BP_PENDING ? BP_TIMEOUT : answer(event);
}

bp_status mem_copy_async(bp_stream* handle, const bp_copy_args* args) {
  FakeStream& stream = stream_from(handle);
  FakeDevice& device = stream.device;
  const CallScope scope(device);
  if (device.copy_status != BP_OK && device.copies_before_failure-- <= 0) return device.copy_status;
  return push(stream, [&device, copy = *args](bp_status* failure) {
    if (*failure == BP_OK) *failure = device.copy(copy);
    return true;
  });
}

bp_status stream_host_call(bp_stream* handle, bp_host_fn fn, void* user) {
  FakeStream& stream = stream_from(handle);
  const CallScope scope(stream.device);
  if (stream.device.host_call_status != BP_OK) return stream.device.host_call_status;
  if (stream.device.on_host_call) {
    stream.device.on_host_call(fn, user);
    return BP_OK;
  }
  const std::lock_guard lock(stream.device.stream_mutex);
  stream.tasks.push_back([fn, user](bp_status* failure) {
    fn(user, *failure);
    return true;
  });
  return BP_OK;
}

bp_status stream_native_handle(bp_stream* handle, bp_native_stream* out_native) {
  const FakeStream& stream = stream_from(handle);
  const CallScope scope(stream.device);
  out_native->handle = stream.wrapped;
  out_native->kind = {"fake.queue", 10};
  return BP_OK;
}

bp_status stream_wrap(bp_device* self, const bp_stream_wrap_args* args, bp_stream** out_stream) {
  if (args->handle == 0) return BP_INVALID_ARGUMENT;
  const bp_stream_args plain{sizeof(bp_stream_args), 0};
  const bp_status status = stream_create(self, &plain, out_stream);
  stream_from(*out_stream).wrapped = args->handle;
  return status;
}

bp_status event_elapsed(bp_event* start, bp_event*, uint64_t* out_elapsed_ns) {
  const CallScope scope(event_from(start).device);
  *out_elapsed_ns = 12345;
  return BP_OK;
}

}  // namespace

void FakeDevice::step() {
  for (FakeStream* stream : streams) {
    if (stream->tasks.empty()) continue;
    if (!stream->tasks.front()(&stream->failure)) continue;
    stream->tasks.pop_front();
    return;
  }
}

bp_stream_api fake_stream_api(uint64_t features) {
  bp_stream_api api{};
  api.struct_size = sizeof(api);
  api.stream_create = stream_create;
  api.stream_destroy = stream_destroy;
  api.stream_sync = stream_sync;
  api.stream_query = stream_query;
  api.event_create = event_create;
  api.event_destroy = event_destroy;
  api.event_record = event_record;
  api.event_wait = event_wait;
  api.event_sync = event_sync;
  api.event_query = event_query;
  api.mem_copy_async = mem_copy_async;
  api.stream_host_call = stream_host_call;
  if ((features & BP_FEATURE_TIMING_BIT) != 0) api.event_elapsed = event_elapsed;
  if ((features & BP_FEATURE_NATIVE_BIT) == 0) return api;
  api.stream_native_handle = stream_native_handle;
  api.stream_wrap = stream_wrap;
  return api;
}

}  // namespace bp::testing
