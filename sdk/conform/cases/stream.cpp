// SPDX-License-Identifier: Apache-2.0
//
// Level 1: streams come, work, are waited for and go.
#include <atomic>
#include <thread>

#include "sdk/conform/context.hpp"

namespace bp::conform {
namespace {

constexpr size_t kBytes = 4096;

void create_destroy(Context& context, int count) {
  for (int i = 0; i < count; ++i) Stream(context).destroy();
}

void many_at_once(Context& context, size_t count) {
  std::vector<Memory> memories;
  std::vector<Bytes> sources;
  std::vector<Stream> streams;
  for (size_t i = 0; i < count; ++i) {
    memories.emplace_back(context, kBytes);
    sources.push_back(make_bytes(kBytes, static_cast<uint32_t>(i)));
    streams.emplace_back(context);
  }
  for (size_t i = 0; i < count; ++i) streams[i].upload(memories[i], sources[i]);
  for (const Stream& stream : streams) stream.finish();
  for (size_t i = 0; i < count; ++i) memories[i].expect(words("memory ", i), sources[i]);
}

void idle_sync(Context& context, uint64_t timeout_ns) {
  const Stream stream(context);
  context.expect_ok("stream_sync of a new stream",
                    context.stream_api().stream_sync(stream.get(), timeout_ns));
  Memory memory(context, kBytes);
  const Bytes source(kBytes);
  stream.upload(memory, source);
  stream.finish();
  context.expect_ok("stream_sync of a stream whose work is done",
                    context.stream_api().stream_sync(stream.get(), timeout_ns));
}

void idle_query(Context& context) {
  const Stream stream(context);
  context.expect_ok("stream_query of a new stream", stream.query());
  context.expect_ok("stream_query asked again", stream.query());
}

void pending_query(Context& context) {
  const Stream stream(context);
  Gate gate(context, stream);
  for (int i = 0; i < 5; ++i) {
    context.expect_status("stream_query of a held stream", stream.query(), BP_PENDING);
  }
  gate.open();
  stream.finish();
  context.expect_ok("stream_query afterwards", stream.query());
}

void sync_times_out(Context& context, uint64_t timeout_ns) {
  const Stream stream(context);
  Gate gate(context, stream);
  context.expect_status("stream_sync of a held stream",
                        context.stream_api().stream_sync(stream.get(), timeout_ns), BP_TIMEOUT);
  gate.open();
  context.expect_ok("stream_sync once it is let go", stream.sync());
}

void sync_returns_when_released(Context& context, uint64_t timeout_ns) {
  const Stream stream(context);
  Gate gate(context, stream);
  std::atomic<bool> returned{false};
  bp_status status = BP_INTERNAL;
  std::thread waiter([&] {
    status = context.stream_api().stream_sync(stream.get(), timeout_ns);
    returned = true;
  });
  context.expect(gate.reached(), "a stream that comes to its host call");
  context.expect(!returned, "stream_sync to wait while the stream is held");
  gate.open();
  waiter.join();
  context.expect_ok("stream_sync", status);
}

void sync_waits_for_everything(Context& context) {
  constexpr size_t kPieces = 64;
  Memory memory(context, kPieces * kBytes);
  const Bytes source = make_bytes(kPieces * kBytes, 1);
  std::vector<Bytes> pieces;
  const Stream stream(context);
  for (size_t i = 0; i < kPieces; ++i) {
    const auto begin = source.begin() + static_cast<std::ptrdiff_t>(i * kBytes);
    pieces.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(kBytes));
  }
  for (size_t i = 0; i < kPieces; ++i) stream.upload(memory, pieces[i], i * kBytes);
  stream.finish();
  memory.expect("the memory after stream_sync", source);
}

void sync_from_many_threads(Context& context) {
  constexpr size_t kThreads = 8;
  const Stream stream(context);
  Gate gate(context, stream);
  std::vector<bp_status> statuses(kThreads, BP_INTERNAL);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] { statuses[i] = stream.sync(); });
  }
  gate.open();
  for (std::thread& thread : threads) thread.join();
  for (const bp_status status : statuses) context.expect_ok("stream_sync on a thread", status);
}

void destroy_with_pending_work(Context& context) {
  Memory memory(context, Bytes(kBytes));
  const Bytes source = make_bytes(kBytes, 3);
  Stream stream(context);
  Gate gate(context, stream);
  for (int i = 0; i < 8; ++i) stream.upload(memory, source);
  context.expect(gate.reached(), "a stream that comes to its host call");
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    gate.open();
  });
  stream.destroy();
  opener.join();
  const Bytes content = memory.read();
  context.expect(content == source || content == Bytes(kBytes), "copies done whole, or not at all");
  const Stream next(context);
  next.upload(memory, source);
  next.finish();
  memory.expect("the memory by another stream", source);
}

void two_make_progress_apart(Context& context) {
  Memory memory(context, kBytes);
  const Bytes source = make_bytes(kBytes, 4);
  const Stream held(context);
  Gate gate(context, held);
  context.expect(gate.reached(), "a stream that comes to its host call");
  const Stream other(context);
  other.upload(memory, source);
  other.finish();
  memory.expect("the memory while another stream stands still", source);
  context.expect_status("stream_query of the held stream", held.query(), BP_PENDING);
  gate.open();
  held.finish();
}

void works_again_after_idling(Context& context) {
  Memory memory(context, kBytes);
  const Stream stream(context);
  for (uint32_t i = 0; i < 20; ++i) {
    const Bytes source = make_bytes(kBytes, i);
    stream.upload(memory, source);
    stream.finish();
    memory.expect(words("the memory in round ", i), source);
  }
}

void used_by_three_threads(Context& context) {
  Memory memory(context, kBytes);
  const Bytes source = make_bytes(kBytes, 5);
  std::unique_ptr<Stream> stream;
  std::thread([&] { stream = std::make_unique<Stream>(context); }).join();
  std::thread([&] { stream->upload(memory, source); }).join();
  std::thread([&] { stream->finish(); }).join();
  std::thread([&] { stream->destroy(); }).join();
  memory.expect("the memory", source);
}

void one_stream_per_thread(Context& context) {
  constexpr size_t kThreads = 8;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&context, t] {
      try {
        Memory memory(context, kBytes);
        const Stream stream(context);
        for (uint32_t i = 0; i < 20; ++i) {
          const Bytes source = make_bytes(kBytes, 100 * t + i);
          Bytes found(kBytes);
          stream.upload(memory, source);
          stream.download(&found, memory);
          stream.finish();
          context.expect_bytes("what the thread wrote", found, source);
        }
      } catch (const Stop&) {
        return;  // noted
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void handles_differ(Context& context) {
  const Stream a(context);
  const Stream b(context);
  context.expect(a.get() != b.get(), "two streams");
}

}  // namespace

void add_stream_cases(CaseList* list) {
  const auto add = [list](const std::string& name, std::string_view proves,
                          std::function<void(Context&)> run) {
    list->add({.id = "L1.stream." + name,
               .proves = proves,
               .bands = BP_FEATURE_ASYNC_BIT,
               .run = std::move(run)});
  };
  constexpr std::string_view kCreate = "stream_create makes an in-order queue, as many as wanted.";
  for (const int count : {1, 10, 1000}) {
    add(words("create_destroy.", count), kCreate,
        [=](Context& context) { create_destroy(context, count); });
  }
  for (const size_t count : {2u, 16u, 100u}) {
    add(words("at_once.", count), kCreate, [=](Context& context) { many_at_once(context, count); });
  }
  add("handles_differ", kCreate, handles_differ);
  constexpr std::string_view kSync = "stream_sync waits until all work enqueued so far is done.";
  constexpr uint64_t kLong = uint64_t{1} << 62;
  for (const uint64_t timeout : {uint64_t{0}, uint64_t{1}, kLong, 2 * kLong, kNever - 1, kNever}) {
    add(words("idle_sync.", timeout), kSync,
        [=](Context& context) { idle_sync(context, timeout); });
  }
  for (const uint64_t timeout : {kLong, 2 * kLong, kNever - 1, kNever}) {
    add(words("sync_returns_when_released.", timeout), kSync,
        [=](Context& context) { sync_returns_when_released(context, timeout); });
  }
  for (const uint64_t timeout : {0u, 1u, 1000u, 1000000u, 20000000u}) {
    add(words("sync_times_out.", timeout), "BP_TIMEOUT: a deadline passed; the work goes on.",
        [=](Context& context) { sync_times_out(context, timeout); });
  }
  add("sync_waits_for_everything", kSync, sync_waits_for_everything);
  add("sync_from_many_threads", "stream_sync is any-thread.", sync_from_many_threads);
  add("idle_query", "stream_query: BP_OK if all work is done.", idle_query);
  add("pending_query", "stream_query: BP_PENDING, and it does not block.", pending_query);
  add("destroy_with_pending_work", "A stream ends after its work is done or abandoned.",
      destroy_with_pending_work);
  add("two_make_progress_apart", "One stream doesn't hold another one back.",
      two_make_progress_apart);
  add("works_again_after_idling", "A stream is used for as long as it lives.",
      works_again_after_idling);
  add("used_by_three_threads", "A stream belongs to no thread.", used_by_three_threads);
  add("one_per_thread", "Slots are called from several threads at once.", one_stream_per_thread);
}

}  // namespace bp::conform
