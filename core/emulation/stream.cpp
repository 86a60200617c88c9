// SPDX-License-Identifier: Apache-2.0
//
// Streams for a device without the band ASYNC: a task queue each. What the plugin only does
// blocking is done on the queue's worker, so every failure of it is a failure of the stream.
#include <string>

#include "core/emulation/emulation.hpp"

namespace bp {
namespace {

bp_status stream_create(bp_device* self, const bp_stream_args* args, bp_stream** out_stream) {
  Emulation& emulation = Emulation::from(self);
  return emulation.guarded([&] {
    if (args->flags != 0) {
      return emulation.fail(BP_UNSUPPORTED, "stream_create: unknown flags " +
                                                std::to_string(args->flags) + "; expected 0");
    }
    auto stream =
        std::make_unique<EmulatedStream>(EmulatedStream{emulation, std::make_shared<TaskQueue>()});
    *out_stream = stream.release()->handle();
    return BP_OK;
  });
}

/// Its worker may be in a call of the plugin that never returns, and uses all that the device has.
bp_status stream_destroy(bp_stream* handle) {
  std::unique_ptr<EmulatedStream> stream(&EmulatedStream::from(handle));
  CallGate& gate = *stream->emulation.native().gate;
  const uint64_t timeout_ns = gate.is_abandoned() ? 0 : gate.timeout_ns();
  if (stream->queue->finish(timeout_ns)) return BP_OK;
  gate.abandon(Slot::kStreamDestroy, timeout_ns);
  static_cast<void>(stream.release());
  return BP_DEVICE_LOST;
}

bp_status stream_sync(bp_stream* handle, uint64_t timeout_ns) {
  return EmulatedStream::from(handle).queue->sync(timeout_ns);
}

bp_status stream_query(bp_stream* handle) { return EmulatedStream::from(handle).queue->query(); }

bp_status copy_on_worker(EmulatedStream& stream, const bp_copy_args& args) {
  const bp_status status = stream.emulation.native().mem_copy(args);
  return status == BP_OK ? BP_OK : stream.emulation.fail(status, "", stream.handle());
}

bp_status mem_copy_async(bp_stream* handle, const bp_copy_args* args) {
  EmulatedStream& stream = EmulatedStream::from(handle);
  return stream.emulation.guarded([&] {
    if (args->kind > BP_COPY_DEVICE_TO_DEVICE) {
      return stream.emulation.fail(
          BP_UNSUPPORTED, "mem_copy_async: unknown kind " + std::to_string(args->kind), handle);
    }
    auto work = [&stream, copy = *args] { return copy_on_worker(stream, copy); };
    return stream.queue->enqueue(make_work(Slot::kMemCopy, std::move(work)));
  });
}

bp_status stream_host_call(bp_stream* handle, bp_host_fn fn, void* user) {
  EmulatedStream& stream = EmulatedStream::from(handle);
  return stream.emulation.guarded([&] {
    if (fn == nullptr) {
      return stream.emulation.fail(BP_INVALID_ARGUMENT, "stream_host_call: fn is NULL", handle);
    }
    stream.queue->enqueue_always(
        make_task([fn, user](Failure* failure) { fn(user, failure->status); }));
    return BP_OK;
  });
}

}  // namespace

Failure emulated_failure(bp_stream* stream) {
  return EmulatedStream::from(stream).queue->failure();
}

void install_emulated_streams(DeviceTable* table) {
  table->emulated_stream.stream_create = stream_create;
  table->emulated_stream.stream_destroy = stream_destroy;
  table->emulated_stream.stream_sync = stream_sync;
  table->emulated_stream.stream_query = stream_query;
  table->emulated_stream.mem_copy_async = mem_copy_async;
  table->emulated_stream.stream_host_call = stream_host_call;
}

}  // namespace bp
