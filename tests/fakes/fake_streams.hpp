// SPDX-License-Identifier: Apache-2.0
//
// The stream table of the fake with bands ASYNC and NATIVE (FAKE_QUEUES), and TIMING where it is
// hostile: fake_plugin.cpp includes it behind its device. A stream knows its own work alone; what
// an application puts into the queue itself counts from the next record on, as with drivers whose
// queues nobody can ask.
#ifndef BACKPLANE_TESTS_FAKES_FAKE_STREAMS_HPP
#define BACKPLANE_TESTS_FAKES_FAKE_STREAMS_HPP

/// What tasks need of a stream, which may end before the queue does.
struct StreamState {
  uint64_t pushed_count = 0;
  uint64_t done_count = 0;
  bp_status failure = BP_OK;
};

struct bp_stream {
  bp_device* device = nullptr;
  std::unique_ptr<bp::fakes::FakeQueue> own;  // none: it is wrapped
  bp::fakes::FakeQueue* queue = nullptr;
  std::shared_ptr<StreamState> state = std::make_shared<StreamState>();
};

struct Record {
  bool done = false;
  bp_status failure = BP_OK;
  std::chrono::steady_clock::time_point at{};  // once done
};

struct bp_event {
  bp_device* device = nullptr;
  bool with_timing = false;
  std::shared_ptr<Record> latest;
};

namespace {

void run_queues(bp_device* device) {
  for (bool moved = true; moved;) {
    moved = false;
    for (bp_stream* stream : device->streams) moved |= stream->queue->run_one();
  }
}

using Work = std::function<bool(StreamState*)>;  // false: not yet

/// A throw breaks the stream.
void enqueue(bp_stream* stream, Work work, uint64_t op_seq = 0, bool even_if_broken = false) {
  if (stream->state->failure != BP_OK && !even_if_broken) {
    throw Failure{BP_POISONED, "the stream failed before"};
  }
  const bp::sdk::Host host = stream->device->instance->host;
  stream->queue->push([state = stream->state, work = std::move(work), host, op_seq, stream] {
    if (stream->device->lost) state->failure = BP_DEVICE_LOST;  // it touches nothing any more
    try {
      if (!work(state.get())) return false;
    } catch (const Failure& failure) {
      state->failure = failure.status;
      host.report(failure.status, failure.message, 0, op_seq, stream);
    }
    ++state->done_count;
    return true;
  });
  ++stream->state->pushed_count;  // it is in the queue now
}

bp_status answer(const StreamState& state) {
  return state.done_count < state.pushed_count ? BP_PENDING : state.failure;
}

bp_status add_stream(bp_device* device, bp::fakes::FakeQueue* wrapped, bp_stream** out_stream) {
  return driver_call(device, [&] {
    auto stream = std::make_unique<bp_stream>();
    stream->device = device;
    if (wrapped == nullptr) stream->own = std::make_unique<bp::fakes::FakeQueue>();
    stream->queue = wrapped != nullptr ? wrapped : stream->own.get();
    device->streams.push_back(stream.get());
    *out_stream = stream.release();
  });
}

bp_status stream_create(bp_device* device, const bp_stream_args* args, bp_stream** out_stream) {
  if (!device || !args || !out_stream) return BP_INVALID_ARGUMENT;
  if (bp::sdk::read_args(args).flags != 0) return BP_UNSUPPORTED;
  return add_stream(device, nullptr, out_stream);
}

/// Its own work has ended by then, or never will: the core has waited.
bp_status stream_destroy(bp_stream* stream) {
  if (stream == nullptr) return BP_INVALID_ARGUMENT;
  return device_call(stream->device, [&] {
    run_queues(stream->device);
    std::erase(stream->device->streams, stream);
    delete stream;
  });
}

bp_status stream_query(bp_stream* stream) {
  if (stream == nullptr) return BP_INVALID_ARGUMENT;
  bp_status status = BP_OK;
  const bp_status called = driver_call(stream->device, [&] {
    run_queues(stream->device);
    status = answer(*stream->state);
  });
  // A stream that has answered a failure does none of the rest: the caller takes its memory back.
  if (called != BP_OK && stream->state->failure == BP_OK) stream->state->failure = called;
  return called != BP_OK ? called : status;
}

bp_status stream_sync(bp_stream* stream, uint64_t) {
  const bp_status status = stream_query(stream);
  return status == BP_PENDING ? BP_TIMEOUT : status;
}

bp_status event_create(bp_device* device, const bp_event_args* args, bp_event** out_event) {
  if (!device || !args || !out_event) return BP_INVALID_ARGUMENT;
#if defined(FAKE_HOSTILE)
  constexpr uint32_t kFlags = BP_EVENT_TIMING_BIT;
#else
  constexpr uint32_t kFlags = 0;
#endif
  const uint32_t flags = bp::sdk::read_args(args).flags;
  if ((flags & ~kFlags) != 0) return BP_UNSUPPORTED;
  return driver_call(device, [&] { *out_event = new bp_event{device, flags != 0, nullptr}; });
}

bp_status event_destroy(bp_event* event) {
  if (event == nullptr) return BP_INVALID_ARGUMENT;
  return device_call(event->device, [&] { delete event; });
}

bp_status event_record(bp_event* event, bp_stream* stream) {
  if (!event || !stream) return BP_INVALID_ARGUMENT;
  return driver_call(event->device, [&] {
    auto record = std::make_shared<Record>();
    enqueue(stream, [record](StreamState* state) {
      *record = {true, state->failure, std::chrono::steady_clock::now()};
      return true;
    });
    event->latest = std::move(record);
  });
}

bp_status event_wait(bp_event* event, bp_stream* stream) {
  if (!event || !stream) return BP_INVALID_ARGUMENT;
  return driver_call(event->device, [&] {
    if (event->latest == nullptr) return;
    enqueue(stream, [record = event->latest](StreamState* state) {
      if (record->done && state->failure == BP_OK) state->failure = record->failure;
      return record->done;
    });
  });
}

bp_status event_query(bp_event* event) {
  if (event == nullptr) return BP_INVALID_ARGUMENT;
  bp_status status = BP_OK;
  const bp_status called = device_call(event->device, [&] {
    run_queues(event->device);
    if (event->latest != nullptr)
      status = event->latest->done ? event->latest->failure : BP_PENDING;
  });
  return called != BP_OK ? called : status;
}

bp_status event_sync(bp_event* event, uint64_t) {
  const bp_status status = event_query(event);
  return status == BP_PENDING ? BP_TIMEOUT : status;
}

[[maybe_unused]] bp_status event_elapsed(bp_event* start, bp_event* end, uint64_t* out_elapsed_ns) {
  if (!start || !end || !out_elapsed_ns) return BP_INVALID_ARGUMENT;
  bp_status status = BP_OK;
  const bp_status called = device_call(start->device, [&] {
    run_queues(start->device);
    for (const bp_event* event : {start, end}) {
      if (!event->with_timing || event->latest == nullptr || event->latest->failure != BP_OK) {
        throw Failure{BP_INVALID_ARGUMENT, "event_elapsed of an event without a time"};
      }
      if (!event->latest->done) status = BP_PENDING;
    }
    if (status != BP_OK) return;
    if (end->latest->at < start->latest->at) {
      throw Failure{BP_INVALID_ARGUMENT, "event_elapsed: the end was done before the start"};
    }
    const std::chrono::nanoseconds elapsed = end->latest->at - start->latest->at;
    *out_elapsed_ns = static_cast<uint64_t>(elapsed.count());
  });
  return called != BP_OK ? called : status;
}

bp_status mem_copy_async(bp_stream* stream, const bp_copy_args* their_args) {
  if (!stream || !their_args) return BP_INVALID_ARGUMENT;
  return driver_call(stream->device, [&] {
    enqueue(stream, [device = stream->device,
                     args = bp::sdk::read_args(their_args, 0)](StreamState* state) {
      if (state->failure == BP_OK) copy_now(device, args);
      return true;
    });
  });
}

bp_status stream_host_call(bp_stream* stream, bp_host_fn fn, void* user) {
  if (!stream || !fn) return BP_INVALID_ARGUMENT;
  return driver_call(stream->device, [&] {
    const auto call = [fn, user](StreamState* state) {
      fn(user, state->failure);
      return true;
    };
    enqueue(stream, call, 0, true);
  });
}

bp_status stream_native_handle(bp_stream* stream, bp_native_stream* out_native) {
  if (!stream || !out_native) return BP_INVALID_ARGUMENT;
  return driver_call(stream->device, [&] {
    bp_native_stream native{};
    native.handle = reinterpret_cast<uint64_t>(stream->queue);
    native.kind = bp::sdk::str(bp::fakes::kFakeQueueKind);
    bp::sdk::write_out(out_native, native);
  });
}

bp_status stream_wrap(bp_device* device, const bp_stream_wrap_args* their_args,
                      bp_stream** out_stream) {
  if (!device || !their_args || !out_stream) return BP_INVALID_ARGUMENT;
  const bp_stream_wrap_args args = bp::sdk::read_args(their_args);
  const bp::sdk::Host& host = device->instance->host;
  if (args.flags != 0 || bp::sdk::view(args.kind) != bp::fakes::kFakeQueueKind) {
    return host.fail(BP_UNSUPPORTED, "queues are of kind 'fake.queue'");
  }
  if (args.handle == 0) return host.fail(BP_INVALID_ARGUMENT, "the queue is NULL");
  return add_stream(device, reinterpret_cast<bp::fakes::FakeQueue*>(args.handle), out_stream);
}

/// A launch's arguments with all that they point to, for later.
struct DeferredLaunch {
  explicit DeferredLaunch(const bp_launch_args& given)
      : args(given),
        tensors(given.tensors, given.tensors + given.input_count + given.output_count) {
    for (bp_tensor& tensor : tensors) {
      sizes.emplace_back(tensor.sizes, tensor.sizes + tensor.rank);
      strides.emplace_back(tensor.strides, tensor.strides + tensor.rank);
      tensor.sizes = sizes.back().data();
      tensor.strides = strides.back().data();
    }
    args.tensors = tensors.data();
  }
  bp_launch_args args;
  std::vector<bp_tensor> tensors;
  std::list<std::vector<int64_t>> sizes;
  std::list<std::vector<int64_t>> strides;
};

void enqueue_launch(const bp_launch_args& args, void (*compute)(const bp_launch_args&)) {
  const auto launch = std::make_shared<DeferredLaunch>(args);
  const auto work = [launch, compute](StreamState* state) {
    if (state->failure == BP_OK) compute(launch->args);
    return true;
  };
  enqueue(args.stream, work, args.op_seq);
}

constexpr bp_stream_api make_stream_table() {
  bp_stream_api stream{};
  stream.struct_size = sizeof(stream);
  stream.flags = BP_FEATURE_ASYNC_BIT | BP_FEATURE_NATIVE_BIT;
  stream.stream_create = FAKE_SLOT(stream_create);
  stream.stream_destroy = FAKE_SLOT(stream_destroy);
  stream.stream_sync = FAKE_SLOT(stream_sync);
  stream.stream_query = FAKE_SLOT(stream_query);
  stream.event_create = FAKE_SLOT(event_create);
  stream.event_destroy = FAKE_SLOT(event_destroy);
  stream.event_record = FAKE_SLOT(event_record);
  stream.event_wait = FAKE_SLOT(event_wait);
  stream.event_sync = FAKE_SLOT(event_sync);
  stream.event_query = FAKE_SLOT(event_query);
  stream.mem_copy_async = FAKE_SLOT(mem_copy_async);
  stream.stream_host_call = FAKE_SLOT(stream_host_call);
  stream.stream_native_handle = FAKE_SLOT(stream_native_handle);
  stream.stream_wrap = FAKE_SLOT(stream_wrap);
#if defined(FAKE_HOSTILE)
  stream.flags |= BP_FEATURE_TIMING_BIT;
  stream.event_elapsed = FAKE_SLOT(event_elapsed);
#endif
  return stream;
}
constexpr bp_stream_api kStream = make_stream_table();

}  // namespace

#endif
