// SPDX-License-Identifier: Apache-2.0
//
// Level 1: the vendor's own queues. The kit knows no vendor's calls, so what an application would
// enqueue by itself goes through a second stream over the same queue.
#include "sdk/conform/context.hpp"

namespace bp::conform {
namespace {

constexpr size_t kBytes = 4096;

bp_native_stream native_of(Context& context, const Stream& stream) {
  bp_native_stream native{};
  native.struct_size = sizeof(native);
  context.require_ok("stream_native_handle",
                     context.stream_api().stream_native_handle(stream.get(), &native));
  return native;
}

std::string kind_of(const bp_native_stream& native) {
  return {native.kind.ptr, static_cast<size_t>(native.kind.len)};
}

bp_status wrap(Context& context, uint64_t handle, std::string_view kind, bp_stream** out_stream) {
  bp_stream_wrap_args args{};
  args.struct_size = sizeof(args);
  args.handle = handle;
  args.kind = {kind.data(), kind.size()};
  return context.stream_api().stream_wrap(args, out_stream);
}

/// Another stream over the queue of `stream`.
Stream wrapper_of(Context& context, const Stream& stream) {
  const bp_native_stream native = native_of(context, stream);
  bp_stream* wrapped = nullptr;
  context.require_ok("stream_wrap", wrap(context, native.handle, kind_of(native), &wrapped));
  context.expect(wrapped != nullptr && wrapped != stream.get(), "a stream of its own");
  return {context, wrapped};
}

void handle_says_what_it_is(Context& context) {
  const Stream stream(context);
  const bp_native_stream native = native_of(context, stream);
  context.expect(native.handle != 0, "a handle");
  const std::string kind = kind_of(native);
  const size_t dot = kind.find('.');
  context.expect(dot != std::string::npos && dot > 0 && dot + 1 < kind.size(),
                 words("a kind like interface.type; found '", kind, "'"));
}

void handle_is_stable(Context& context) {
  const Stream stream(context);
  Memory memory(context, kBytes);
  const bp_native_stream first = native_of(context, stream);
  const Bytes source = make_bytes(kBytes, 1);
  stream.upload(memory, source);
  stream.finish();
  const bp_native_stream second = native_of(context, stream);
  context.expect_equal("the handle after work", second.handle, first.handle);
  context.expect(kind_of(second) == kind_of(first), "the same kind");
}

void handles_differ(Context& context) {
  const Stream a(context);
  const Stream b(context);
  const bp_native_stream native_a = native_of(context, a);
  const bp_native_stream native_b = native_of(context, b);
  context.expect(native_a.handle != native_b.handle, "a queue for each stream");
  context.expect(kind_of(native_a) == kind_of(native_b), "one kind for all streams");
}

void wrapper_has_the_queue(Context& context) {
  const Stream stream(context);
  const Stream wrapper = wrapper_of(context, stream);
  context.expect_equal("the wrapper's handle", native_of(context, wrapper).handle,
                       native_of(context, stream).handle);
}

void wrapper_works(Context& context) {
  const Stream stream(context);
  const Stream wrapper = wrapper_of(context, stream);
  Memory memory(context, kBytes);
  const Bytes source = make_bytes(kBytes, 2);
  Bytes found(kBytes);
  wrapper.upload(memory, source);
  wrapper.download(&found, memory);
  wrapper.finish();
  context.expect_bytes("what the wrapper wrote and read", found, source);
  context.expect_ok("stream_query of the wrapper", wrapper.query());
}

void one_queue_is_one_order(Context& context) {
  const Stream stream(context);
  const Stream wrapper = wrapper_of(context, stream);
  const Memory memory(context, Bytes(kBytes));
  const Bytes first = make_bytes(kBytes, 3);
  const Bytes second = make_bytes(kBytes, 4);
  Bytes found(kBytes);
  Gate gate(context, stream);
  stream.upload(memory, first);
  wrapper.upload(memory, second);
  stream.download(&found, memory);
  gate.open();
  stream.finish();
  wrapper.finish();
  context.expect_bytes("the last write before the read", found, second);
}

void record_covers_foreign_work(Context& context) {
  const Stream stream(context);
  const Stream foreign = wrapper_of(context, stream);
  Memory memory(context, Bytes(kBytes));
  const Event event(context);
  const Bytes source = make_bytes(kBytes, 5);
  Gate gate(context, foreign);
  foreign.upload(memory, source);
  event.record(stream);
  context.expect_status("stream_query behind foreign work", stream.query(), BP_PENDING);
  gate.open();
  stream.finish();
  memory.expect("the memory after stream_sync", source);
  context.expect_ok("event_query", event.query());
  foreign.finish();
}

void waits_hold_foreign_work(Context& context) {
  const Stream producer(context);
  const Stream consumer(context);
  const Stream foreign = wrapper_of(context, consumer);
  const Memory memory(context, Bytes(kBytes));
  const Event event(context);
  const Bytes source = make_bytes(kBytes, 6);
  Bytes found(kBytes);
  Gate gate(context, producer);
  producer.upload(memory, source);
  event.record(producer);
  event.wait_on(consumer);
  foreign.download(&found, memory);
  gate.open();
  foreign.finish();
  context.expect_bytes("what foreign work read behind a wait", found, source);
  producer.finish();
  consumer.finish();
}

void destroy_leaves_the_queue(Context& context, int count) {
  const Stream stream(context);
  Memory memory(context, kBytes);
  for (int i = 0; i < count; ++i) {
    const Bytes source = make_bytes(kBytes, static_cast<uint32_t>(i));
    Stream wrapper = wrapper_of(context, stream);
    wrapper.upload(memory, source);
    wrapper.finish();
    wrapper.destroy();
    Bytes found(kBytes);
    stream.download(&found, memory);
    stream.finish();
    context.expect_bytes(words("what the queue read after wrapper ", i), found, source);
  }
}

void unknown_kind(Context& context, std::string_view kind) {
  const Stream stream(context);
  bp_stream* wrapped = nullptr;
  context.expect_status("stream_wrap",
                        wrap(context, native_of(context, stream).handle, kind, &wrapped),
                        BP_UNSUPPORTED);
  context.expect(wrapped == nullptr, "no stream after a failure");
  Memory memory(context, kBytes);
  const Bytes source = make_bytes(kBytes, 7);
  stream.upload(memory, source);
  stream.finish();
  memory.expect("the memory by the queue that was not wrapped", source);
}

}  // namespace

void add_native_cases(CaseList* list) {
  const auto add = [list](const std::string& name, std::string_view proves,
                          std::function<void(Context&)> run) {
    list->add({.id = "L1.native." + name,
               .proves = proves,
               .bands = BP_FEATURE_ASYNC_BIT | BP_FEATURE_NATIVE_BIT,
               .run = std::move(run)});
  };
  constexpr std::string_view kHandle = "stream_native_handle: the queue behind a stream.";
  constexpr std::string_view kWrap = "stream_wrap: a stream over a queue of the application's.";
  constexpr std::string_view kDestroy = "stream_destroy leaves a wrapped queue as it is.";
  constexpr std::string_view kKind = "BP_UNSUPPORTED for a kind that the plugin does not know.";
  add("handle_says_what_it_is", kHandle, handle_says_what_it_is);
  add("handle_is_stable", kHandle, handle_is_stable);
  add("handles_differ", kHandle, handles_differ);
  add("wrapper_has_the_queue", kWrap, wrapper_has_the_queue);
  add("wrapper_works", kWrap, wrapper_works);
  add("one_queue_is_one_order", kWrap, one_queue_is_one_order);
  add("record_covers_foreign_work",
      "Foreign work is among what stream_sync means from the next event_record on.",
      record_covers_foreign_work);
  add("waits_hold_foreign_work", "Later work on the queue waits, whoever enqueues it.",
      waits_hold_foreign_work);
  for (const int count : {1, 100}) {
    add(words("destroy_leaves_the_queue.", count), kDestroy,
        [=](Context& context) { destroy_leaves_the_queue(context, count); });
  }
  add("unknown_kind.other", kKind, [](Context& c) { unknown_kind(c, "acme.queue"); });
  add("unknown_kind.none", kKind, [](Context& c) { unknown_kind(c, ""); });
}

}  // namespace bp::conform
