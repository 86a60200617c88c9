// SPDX-License-Identifier: Apache-2.0
//
// For a device without BP_DEVICE_CONCURRENT_BIT: each native slot under the device's lock, and
// questions with pauses in place of calls that wait, so that no call keeps the others out.
#include "core/emulation/deadline.hpp"
#include "core/emulation/emulation.hpp"

namespace bp {
namespace {

bp_status mem_alloc(bp_device* self, const bp_alloc_args* args, uint64_t* out_handle) {
  Emulation& emulation = Emulation::from(self);
  const auto lock = emulation.lock_call();
  return emulation.native().memory.mem_alloc(emulation.native().device, args, out_handle);
}

bp_status mem_free(bp_device* self, uint64_t handle) {
  Emulation& emulation = Emulation::from(self);
  const auto lock = emulation.lock_call();
  return emulation.native().memory.mem_free(emulation.native().device, handle);
}

bp_status mem_copy(bp_device* self, const bp_copy_args* args) {
  return Emulation::from(self).copy_now(*args);
}

bp_status host_alloc(bp_device* self, const bp_host_alloc_args* args, void** out_ptr) {
  Emulation& emulation = Emulation::from(self);
  const auto lock = emulation.lock_call();
  return emulation.native().memory.host_alloc(emulation.native().device, args, out_ptr);
}

bp_status host_free(bp_device* self, void* ptr) {
  Emulation& emulation = Emulation::from(self);
  const auto lock = emulation.lock_call();
  return emulation.native().memory.host_free(emulation.native().device, ptr);
}

bp_status mem_map(bp_device* self, const bp_map_args* args, void** out_ptr) {
  Emulation& emulation = Emulation::from(self);
  const auto lock = emulation.lock_call();
  return emulation.native().memory.mem_map(emulation.native().device, args, out_ptr);
}

bp_status mem_unmap(bp_device* self, void* ptr) {
  Emulation& emulation = Emulation::from(self);
  const auto lock = emulation.lock_call();
  return emulation.native().memory.mem_unmap(emulation.native().device, ptr);
}

/// `make(native, out_native)` is the plugin's call.
template <class Make>
bp_status make_stream(bp_device* self, bp_stream** out_stream, Make make) {
  Emulation& emulation = Emulation::from(self);
  return guarded([&] {
    auto stream = std::make_unique<SerialisedStream>(SerialisedStream{emulation, nullptr});
    const auto lock = emulation.lock_call();
    const bp_status status = make(emulation.native(), &stream->native);
    if (status == BP_OK) *out_stream = stream.release()->handle();
    return status;
  });
}

bp_status stream_create(bp_device* self, const bp_stream_args* args, bp_stream** out_stream) {
  return make_stream(self, out_stream, [args](const DeviceTable& native, bp_stream** out_native) {
    return native.stream.stream_create(native.device, args, out_native);
  });
}

bp_status stream_query(bp_stream* handle) {
  const SerialisedStream& stream = SerialisedStream::from(handle);
  const auto lock = stream.emulation.lock_call();
  return stream.emulation.native().stream.stream_query(stream.native);
}

/// What other threads enqueue meanwhile is waited for too: stream_query knows no better.
bp_status stream_sync(bp_stream* handle, uint64_t timeout_ns) {
  return poll([=] { return stream_query(handle); }, timeout_ns);
}

bp_status stream_destroy(bp_stream* handle) {
  // The native slot waits for running work; here it finds none.
  stream_sync(handle, BP_TIMEOUT_FOREVER);
  const std::unique_ptr<SerialisedStream> stream(&SerialisedStream::from(handle));
  const auto lock = stream->emulation.lock_call();
  return stream->emulation.native().stream.stream_destroy(stream->native);
}

bp_status mem_copy_async(bp_stream* handle, const bp_copy_args* args) {
  const SerialisedStream& stream = SerialisedStream::from(handle);
  const auto lock = stream.emulation.lock_call();
  return stream.emulation.native().stream.mem_copy_async(stream.native, args);
}

bp_status stream_host_call(bp_stream* handle, bp_host_fn fn, void* user) {
  const SerialisedStream& stream = SerialisedStream::from(handle);
  const auto lock = stream.emulation.lock_call();
  return stream.emulation.native().stream.stream_host_call(stream.native, fn, user);
}

bp_status stream_native_handle(bp_stream* handle, bp_native_stream* out_native) {
  const SerialisedStream& stream = SerialisedStream::from(handle);
  const auto lock = stream.emulation.lock_call();
  return stream.emulation.native().stream.stream_native_handle(stream.native, out_native);
}

bp_status stream_wrap(bp_device* self, const bp_stream_wrap_args* args, bp_stream** out_stream) {
  return make_stream(self, out_stream, [args](const DeviceTable& native, bp_stream** out_native) {
    return native.stream.stream_wrap(native.device, args, out_native);
  });
}

}  // namespace

void install_serialised_memory(Emulation& emulation, DeviceTable* table) {
  table->memory_self = emulation.self();
  table->memory.mem_alloc = mem_alloc;
  table->memory.mem_free = mem_free;
  table->memory.mem_copy = mem_copy;
  table->pinned_self = emulation.self();
  table->memory.host_alloc = host_alloc;
  table->memory.host_free = host_free;
  table->map_self = emulation.self();
  table->memory.mem_map = mem_map;
  table->memory.mem_unmap = mem_unmap;
}

void install_serialised_streams(Emulation& emulation, DeviceTable* table) {
  table->stream_self = emulation.self();
  table->stream.stream_create = stream_create;
  table->stream.stream_destroy = stream_destroy;
  table->stream.stream_sync = stream_sync;
  table->stream.stream_query = stream_query;
  table->stream.mem_copy_async = mem_copy_async;
  table->stream.stream_host_call = stream_host_call;
  if (!table->has_native(BP_FEATURE_NATIVE_BIT)) return;
  table->stream.stream_native_handle = stream_native_handle;
  table->stream.stream_wrap = stream_wrap;
}

}  // namespace bp
