// SPDX-License-Identifier: Apache-2.0
//
// Level 1: events. The stream whose record is waited for is held by a gate, so that a wait that
// isn't one lets old bytes through.
#include <atomic>
#include <thread>

#include "sdk/conform/context.hpp"

namespace bp::conform {
namespace {

constexpr size_t kBytes = 1024;

/// A producer that writes behind a gate, and a consumer.
struct Pair {
  explicit Pair(Context& c)
      : context(c),
        memory(c, Bytes(kBytes)),
        source(make_bytes(kBytes, 7)),
        found(kBytes),
        producer(c),
        consumer(c) {}

  void produce() const { producer.upload(memory, source); }
  void consume() { consumer.download(&found, memory); }
  /// Expects that the consumer has read what the producer wrote.
  void expect_seen(std::string_view what) {
    consumer.finish();
    context.expect_bytes(what, found, source);
    producer.finish();
  }

  Context& context;
  Memory memory;
  const Bytes source;
  Bytes found;
  Stream producer;
  Stream consumer;
};

void unrecorded_counts_as_done(Context& context) {
  const Event event(context);
  context.expect_ok("event_query of a new event", event.query());
  context.expect_ok("event_sync of a new event, asking", event.sync(0));
  context.expect_ok("event_sync of a new event", event.sync(context.patience_ns()));
}

void unrecorded_wait_is_noop(Context& context) {
  const Event event(context);
  const Stream stream(context);
  event.wait_on(stream);
  stream.finish();
  context.expect_ok("event_query afterwards", event.query());
}

void wait_orders_streams(Context& context) {
  Pair pair(context);
  const Event event(context);
  Gate gate(context, pair.producer);
  pair.produce();
  event.record(pair.producer);
  event.wait_on(pair.consumer);
  pair.consume();
  context.expect_status("stream_query of the consumer", pair.consumer.query(), BP_PENDING);
  gate.open();
  pair.expect_seen("what the consumer read");
}

void recorded_once_waited_twice(Context& context) {
  Pair pair(context);
  const Event event(context);
  Gate gate(context, pair.producer);
  pair.produce();
  event.record(pair.producer);
  event.wait_on(pair.consumer);
  event.wait_on(pair.consumer);
  pair.consume();
  gate.open();
  pair.expect_seen("what the consumer read");
}

void waits_for_the_latest_record(Context& context) {
  Pair pair(context);
  const Event event(context);
  event.record(pair.producer);
  Gate gate(context, pair.producer);
  pair.produce();
  event.record(pair.producer);
  event.wait_on(pair.consumer);
  pair.consume();
  gate.open();
  pair.expect_seen("what the consumer read after the second record");
}

/// A wait holds the record that was the latest when it was asked for.
void wait_keeps_its_record(Context& context) {
  Pair pair(context);
  const Event event(context);
  Gate first(context, pair.producer);
  event.record(pair.producer);
  event.wait_on(pair.consumer);
  Gate second(context, pair.producer);
  event.record(pair.producer);
  first.open();
  context.expect_ok("the consumer, which waits for the first record alone", pair.consumer.sync());
  context.expect_status("event_query of the second record", event.query(), BP_PENDING);
  second.open();
  pair.producer.finish();
  context.expect_ok("event_query once the second is done", event.query());
}

void wait_after_done(Context& context) {
  Pair pair(context);
  const Event event(context);
  pair.produce();
  event.record(pair.producer);
  context.expect_ok("event_sync", event.sync(context.patience_ns()));
  event.wait_on(pair.consumer);
  pair.consume();
  pair.expect_seen("what the consumer read");
}

void not_before_its_work(Context& context) {
  const Stream stream(context);
  const Event event(context);
  Gate gate(context, stream);
  event.record(stream);
  for (int i = 0; i < 5; ++i) {
    context.expect_status("event_query while the work is held", event.query(), BP_PENDING);
  }
  gate.open();
  context.expect_ok("event_sync", event.sync(context.patience_ns()));
  context.expect_ok("event_query afterwards", event.query());
}

void not_for_later_work(Context& context) {
  const Stream stream(context);
  const Event event(context);
  event.record(stream);
  Gate gate(context, stream);
  context.expect_ok("event_sync of a record before the held work",
                    event.sync(context.patience_ns()));
  context.expect_status("stream_query", stream.query(), BP_PENDING);
  gate.open();
  stream.finish();
}

void sync_times_out(Context& context, uint64_t timeout_ns) {
  const Stream stream(context);
  const Event event(context);
  Gate gate(context, stream);
  event.record(stream);
  context.expect_status("event_sync while the work is held", event.sync(timeout_ns), BP_TIMEOUT);
  gate.open();
  context.expect_ok("event_sync once it is let go", event.sync(context.patience_ns()));
}

void sync_returns_when_released(Context& context, uint64_t timeout_ns) {
  const Stream stream(context);
  const Event event(context);
  Gate gate(context, stream);
  event.record(stream);
  bp_status status = BP_INTERNAL;
  std::atomic<bool> returned{false};
  std::thread waiter([&] {
    status = event.sync(timeout_ns);
    returned = true;
  });
  context.expect(gate.reached(), "a stream that comes to its host call");
  context.expect(!returned, "event_sync to wait while the stream is held");
  gate.open();
  waiter.join();
  context.expect_ok("event_sync", status);
}

void sync_from_many_threads(Context& context) {
  constexpr size_t kThreads = 8;
  const Stream stream(context);
  const Event event(context);
  Gate gate(context, stream);
  event.record(stream);
  std::vector<bp_status> statuses(kThreads, BP_INTERNAL);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] { statuses[i] = event.sync(context.patience_ns()); });
  }
  gate.open();
  for (std::thread& thread : threads) thread.join();
  for (const bp_status status : statuses) context.expect_ok("event_sync on a thread", status);
}

void destroyed_while_waited_for(Context& context) {
  Pair pair(context);
  Event event(context);
  Gate gate(context, pair.producer);
  pair.produce();
  event.record(pair.producer);
  event.wait_on(pair.consumer);
  event.destroy();
  pair.consume();
  gate.open();
  pair.expect_seen("what the consumer read");
}

void destroyed_while_pending(Context& context) {
  const Stream stream(context);
  Event event(context);
  Gate gate(context, stream);
  event.record(stream);
  event.destroy();
  gate.open();
  stream.finish();
}

void outlives_its_stream(Context& context) {
  const Event event(context);
  Stream stream(context);
  event.record(stream);
  stream.finish();
  stream.destroy();
  context.expect_ok("event_query after the stream is gone", event.query());
  context.expect_ok("event_sync after the stream is gone", event.sync(context.patience_ns()));
  const Stream next(context);
  event.wait_on(next);
  event.record(next);
  next.finish();
  context.expect_ok("event_query of a record on the next stream", event.query());
}

void wait_on_own_stream(Context& context) {
  const Stream stream(context);
  const Event event(context);
  Gate gate(context, stream);
  event.record(stream);
  event.wait_on(stream);
  event.record(stream);
  gate.open();
  stream.finish();
  context.expect_ok("event_query", event.query());
}

void record_moves_to_another_stream(Context& context) {
  const Stream first(context);
  const Stream second(context);
  const Event event(context);
  event.record(first);
  first.finish();
  Gate gate(context, second);
  event.record(second);
  context.expect_status("event_query", event.query(), BP_PENDING);
  gate.open();
  second.finish();
  context.expect_ok("event_query", event.query());
}

/// One writes; two wait for it and copy on; a fourth waits for both.
void diamond(Context& context) {
  const Bytes source = make_bytes(kBytes, 8);
  const Memory top(context, Bytes(kBytes));
  const Memory left(context, Bytes(kBytes));
  const Memory right(context, Bytes(kBytes));
  Bytes found_left(kBytes);
  Bytes found_right(kBytes);
  const Stream streams[4] = {Stream(context), Stream(context), Stream(context), Stream(context)};
  const Event written(context);
  const Event copied_left(context);
  const Event copied_right(context);
  Gate gate(context, streams[0]);
  streams[0].upload(top, source);
  written.record(streams[0]);
  written.wait_on(streams[1]);
  streams[1].copy(left, top);
  copied_left.record(streams[1]);
  written.wait_on(streams[2]);
  streams[2].copy(right, top);
  copied_right.record(streams[2]);
  copied_left.wait_on(streams[3]);
  copied_right.wait_on(streams[3]);
  streams[3].download(&found_left, left);
  streams[3].download(&found_right, right);
  gate.open();
  for (const Stream& stream : streams) stream.finish();
  context.expect_bytes("the left way", found_left, source);
  context.expect_bytes("the right way", found_right, source);
}

/// Bytes handed from stream to stream.
void chain(Context& context, size_t length) {
  constexpr size_t kStreams = 4;
  const Bytes source = make_bytes(kBytes, 9);
  std::vector<Memory> memories;
  std::vector<Stream> streams;
  std::vector<Event> events;
  for (size_t i = 0; i < kStreams; ++i) {
    memories.emplace_back(context, Bytes(kBytes));
    streams.emplace_back(context);
  }
  for (size_t i = 0; i < length; ++i) events.emplace_back(context);
  Gate gate(context, streams[0]);
  streams[0].upload(memories[0], source);
  for (size_t i = 0; i < length; ++i) {
    events[i].record(streams[i % kStreams]);
    const Stream& next = streams[(i + 1) % kStreams];
    events[i].wait_on(next);
    next.copy(memories[(i + 1) % kStreams], memories[i % kStreams]);
  }
  gate.open();
  for (const Stream& stream : streams) stream.finish();
  memories[length % kStreams].expect("the end of the chain", source);
}

void one_for_many(Context& context, size_t count) {
  const Bytes source = make_bytes(kBytes, 10);
  const Memory memory(context, Bytes(kBytes));
  std::vector<Bytes> found(count, Bytes(kBytes));
  const Stream producer(context);
  const Event event(context);
  std::vector<Stream> consumers;
  for (size_t i = 0; i < count; ++i) consumers.emplace_back(context);
  Gate gate(context, producer);
  producer.upload(memory, source);
  event.record(producer);
  for (size_t i = 0; i < count; ++i) {
    event.wait_on(consumers[i]);
    consumers[i].download(&found[i], memory);
  }
  gate.open();
  for (size_t i = 0; i < count; ++i) {
    consumers[i].finish();
    context.expect_bytes(words("consumer ", i), found[i], source);
  }
  producer.finish();
}

void many_for_one(Context& context, size_t count) {
  std::vector<Memory> memories;
  std::vector<Bytes> sources;
  std::vector<Bytes> found(count, Bytes(kBytes));
  std::vector<Stream> producers;
  std::vector<Event> events;
  const Stream consumer(context);
  for (size_t i = 0; i < count; ++i) {
    memories.emplace_back(context, Bytes(kBytes));
    sources.push_back(make_bytes(kBytes, static_cast<uint32_t>(i)));
    producers.emplace_back(context);
    events.emplace_back(context);
  }
  Gate gate(context, producers[count - 1]);
  for (size_t i = 0; i < count; ++i) {
    producers[i].upload(memories[i], sources[i]);
    events[i].record(producers[i]);
    events[i].wait_on(consumer);
  }
  for (size_t i = 0; i < count; ++i) consumer.download(&found[i], memories[i]);
  gate.open();
  consumer.finish();
  for (size_t i = 0; i < count; ++i) {
    context.expect_bytes(words("producer ", i), found[i], sources[i]);
    producers[i].finish();
  }
}

/// Events made anew each round must not start as the old ones ended.
void recycled(Context& context, uint32_t rounds) {
  Pair pair(context);
  for (uint32_t i = 0; i < rounds; ++i) {
    const Event event(context);
    const Bytes source = make_bytes(64, i);
    Bytes found(64);
    pair.producer.upload(pair.memory, source);
    event.record(pair.producer);
    event.wait_on(pair.consumer);
    pair.consumer.download(&found, pair.memory);
    pair.consumer.finish();
    context.expect_bytes(words("round ", i), found, source);
  }
}

void recorded_again_and_again(Context& context, int rounds) {
  const Stream stream(context);
  const Event event(context);
  for (int i = 0; i < rounds; ++i) event.record(stream);
  context.expect_ok("event_sync", event.sync(context.patience_ns()));
  stream.finish();
}

void many_alive(Context& context, size_t count) {
  const Stream stream(context);
  std::vector<Event> events;
  for (size_t i = 0; i < count; ++i) {
    events.emplace_back(context);
    events.back().record(stream);
  }
  context.expect_ok("event_sync of the last", events.back().sync(context.patience_ns()));
  for (const Event& event : events) context.expect_ok("event_query", event.query());
}

void used_by_other_threads(Context& context) {
  Pair pair(context);
  const Event event(context);
  Gate gate(context, pair.producer);
  std::thread([&] {
    pair.produce();
    event.record(pair.producer);
  }).join();
  std::thread([&] {
    event.wait_on(pair.consumer);
    pair.consume();
  }).join();
  gate.open();
  pair.expect_seen("what the consumer read");
}

void cycle_of_waits_in_turn(Context& context) {
  // Each waits for the other's earlier record: legal, and no deadlock.
  const Stream a(context);
  const Stream b(context);
  const Event of_a(context);
  const Event of_b(context);
  for (int i = 0; i < 20; ++i) {
    of_a.record(a);
    of_a.wait_on(b);
    of_b.record(b);
    of_b.wait_on(a);
  }
  a.finish();
  b.finish();
}

}  // namespace

void add_event_cases(CaseList* list) {
  const auto add = [list](const std::string& name, std::string_view proves,
                          std::function<void(Context&)> run) {
    list->add({.id = "L1.event." + name,
               .proves = proves,
               .bands = BP_FEATURE_ASYNC_BIT,
               .run = std::move(run)});
  };
  add("unrecorded_counts_as_done", "A fresh event counts as done.", unrecorded_counts_as_done);
  add("unrecorded_wait_is_noop", "An event never recorded waits for nothing.",
      unrecorded_wait_is_noop);
  constexpr std::string_view kWait = "Later work waits for the event's latest record.";
  add("wait_orders_streams", kWait, wait_orders_streams);
  add("recorded_once_waited_twice", kWait, recorded_once_waited_twice);
  add("waits_for_the_latest_record", kWait, waits_for_the_latest_record);
  add("wait_keeps_its_record", "A wait captures the latest record.", wait_keeps_its_record);
  add("wait_after_done", kWait, wait_after_done);
  add("wait_on_own_stream", "A stream is always behind its own records.", wait_on_own_stream);
  add("record_moves_to_another_stream", "The event means its latest record, on any stream.",
      record_moves_to_another_stream);
  constexpr std::string_view kRecord = "The event means all work enqueued before the record.";
  add("not_before_its_work", kRecord, not_before_its_work);
  add("not_for_later_work", kRecord, not_for_later_work);
  add("sync_from_many_threads", "event_sync is any-thread.", sync_from_many_threads);
  add("destroyed_while_waited_for", "Destroying is legal while work waits; it isn't disturbed.",
      destroyed_while_waited_for);
  add("destroyed_while_pending", "Destroying is legal while its record is ahead.",
      destroyed_while_pending);
  add("outlives_its_stream", "A record stays done when its stream is gone.", outlives_its_stream);
  add("diamond", kWait, diamond);
  add("used_by_other_threads", "Events belong to no thread.", used_by_other_threads);
  add("waits_in_turn", "Waits on earlier records never form a deadlock.", cycle_of_waits_in_turn);
  for (const uint64_t timeout : {0u, 1u, 1000u, 1000000u, 20000000u}) {
    add(words("sync_times_out.", timeout), "BP_TIMEOUT: a deadline passed; the work goes on.",
        [=](Context& context) { sync_times_out(context, timeout); });
  }
  constexpr uint64_t kLong = uint64_t{1} << 62;
  for (const uint64_t timeout : {kLong, 2 * kLong, kNever - 1, kNever}) {
    add(words("sync_returns_when_released.", timeout), "event_sync waits for the latest record.",
        [=](Context& context) { sync_returns_when_released(context, timeout); });
  }
  for (const size_t length : {1u, 10u, 1000u}) {
    add(words("chain.", length), kWait, [=](Context& context) { chain(context, length); });
  }
  for (const size_t count : {2u, 16u}) {
    add(words("one_for_many.", count), kWait,
        [=](Context& context) { one_for_many(context, count); });
    add(words("many_for_one.", count), kWait,
        [=](Context& context) { many_for_one(context, count); });
  }
  add("recycled.1000", "A new event isn't an old one.",
      [](Context& context) { recycled(context, 1000); });
  add("recorded_again_and_again.1000", "An event may be recorded anew at any time.",
      [](Context& context) { recorded_again_and_again(context, 1000); });
  add("many_alive.1000", "As many events as wanted.",
      [](Context& context) { many_alive(context, 1000); });
}

}  // namespace bp::conform
