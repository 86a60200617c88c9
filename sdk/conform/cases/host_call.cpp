// SPDX-License-Identifier: Apache-2.0
//
// Level 1: host functions in a stream's order: once each, with the stream's status, and free to
// block without holding other streams back.
#include <atomic>
#include <mutex>
#include <thread>

#include "sdk/conform/context.hpp"

namespace bp::conform {
namespace {

/// Counts calls and keeps the last status.
struct Counter {
  std::atomic<int> count{0};
  std::atomic<bp_status> status{BP_INTERNAL};

  static void call(void* user, bp_status stream_status) {
    auto* self = static_cast<Counter*>(user);
    self->status = stream_status;
    ++self->count;
  }
};

void called_once_with_ok(Context& context) {
  Counter counter;
  const Stream stream(context);
  stream.call(Counter::call, &counter);
  stream.finish();
  context.expect_equal("calls", counter.count.load(), 1);
  context.expect_status("stream_status", counter.status, BP_OK);
  stream.finish();
  context.expect_equal("calls after another stream_sync", counter.count.load(), 1);
}

void each_once_in_order(Context& context, int count) {
  struct Entry {
    std::vector<int>* order;
    int number;
  };
  std::vector<int> order;
  std::vector<Entry> entries;
  for (int i = 0; i < count; ++i) entries.push_back({&order, i});
  const Stream stream(context);
  for (Entry& entry : entries) {
    stream.call(
        [](void* user, bp_status) {
          auto* self = static_cast<Entry*>(user);
          self->order->push_back(self->number);
        },
        &entry);
  }
  stream.finish();
  context.require(order.size() == static_cast<size_t>(count),
                  words(count, " calls; found ", order.size()));
  for (int i = 0; i < count; ++i) {
    context.expect_equal(words("call ", i), order[static_cast<size_t>(i)], i);
  }
}

void user_may_be_null(Context& context) {
  const Stream stream(context);
  stream.call([](void*, bp_status) {}, nullptr);
  stream.finish();
}

void not_before_the_work_in_front(Context& context) {
  Counter counter;
  const Stream stream(context);
  Gate gate(context, stream);
  stream.call(Counter::call, &counter);
  context.expect(gate.reached(), "a stream that comes to its first host call");
  context.expect_equal("calls behind a held one", counter.count.load(), 0);
  gate.open();
  stream.finish();
  context.expect_equal("calls", counter.count.load(), 1);
}

void enqueueing_does_not_block(Context& context) {
  Counter counter;
  const Stream stream(context);
  Gate gate(context, stream);
  for (int i = 0; i < 100; ++i) stream.call(Counter::call, &counter);
  context.expect_equal("calls while the stream is held", counter.count.load(), 0);
  gate.open();
  stream.finish();
  context.expect_equal("calls", counter.count.load(), 100);
}

/// A function on one stream that waits, on the host, for one on another stream.
void may_wait_for_another_stream(Context& context) {
  std::atomic<bool> flag{false};
  const Stream first(context);
  const Stream second(context);
  first.call(
      [](void* user, bp_status) {
        const auto& waited = *static_cast<std::atomic<bool>*>(user);
        while (!waited) std::this_thread::yield();
      },
      &flag);
  second.call([](void* user, bp_status) { *static_cast<std::atomic<bool>*>(user) = true; }, &flag);
  second.finish();
  first.finish();
}

/// The same with an event between: the second stream's call is behind a record on a third.
void may_wait_behind_an_event(Context& context) {
  std::atomic<bool> flag{false};
  const Stream first(context);
  const Stream second(context);
  const Stream third(context);
  const Event event(context);
  first.call(
      [](void* user, bp_status) {
        const auto& waited = *static_cast<std::atomic<bool>*>(user);
        while (!waited) std::this_thread::yield();
      },
      &flag);
  event.record(third);
  event.wait_on(second);
  second.call([](void* user, bp_status) { *static_cast<std::atomic<bool>*>(user) = true; }, &flag);
  second.finish();
  first.finish();
  third.finish();
}

/// The caller holds a lock while it enqueues, and the function takes the same lock.
void takes_the_callers_lock(Context& context) {
  struct Shared {
    std::mutex mutex;
    int value = 0;
  } shared;
  const Stream stream(context);
  for (int i = 0; i < 50; ++i) {
    const std::lock_guard lock(shared.mutex);
    stream.call(
        [](void* user, bp_status) {
          auto* self = static_cast<Shared*>(user);
          const std::lock_guard inner(self->mutex);
          ++self->value;
        },
        &shared);
  }
  stream.finish();
  context.expect_equal("calls", shared.value, 50);
}

void holds_back_later_work(Context& context) {
  const Bytes source = make_bytes(512, 1);
  const Memory memory(context, Bytes(512));
  const Stream stream(context);
  Gate gate(context, stream);
  stream.upload(memory, source);
  context.expect(gate.reached(), "a stream that comes to its host call");
  context.expect_status("stream_query", stream.query(), BP_PENDING);
  memory.expect("the memory behind a held host call", Bytes(512));
  gate.open();
  stream.finish();
  memory.expect("the memory afterwards", source);
}

void counts_as_work(Context& context) {
  const Stream stream(context);
  const Event event(context);
  Gate gate(context, stream);
  event.record(stream);
  context.expect_status("event_query behind a held host call", event.query(), BP_PENDING);
  gate.open();
  context.expect_ok("event_sync", event.sync(context.patience_ns()));
}

void called_when_the_stream_is_destroyed(Context& context) {
  Counter counter;
  Stream stream(context);
  Gate gate(context, stream);
  for (int i = 0; i < 10; ++i) stream.call(Counter::call, &counter);
  context.expect(gate.reached(), "a stream that comes to its first host call");
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    gate.open();
  });
  stream.destroy();
  opener.join();
  context.expect_equal("calls, at the latest when the stream is destroyed", counter.count.load(),
                       10);
}

void on_many_streams(Context& context, size_t count) {
  std::vector<Counter> counters(count);
  std::vector<Stream> streams;
  for (size_t i = 0; i < count; ++i) streams.emplace_back(context);
  for (int round = 0; round < 10; ++round) {
    for (size_t i = 0; i < count; ++i) streams[i].call(Counter::call, &counters[i]);
  }
  for (const Stream& stream : streams) stream.finish();
  for (size_t i = 0; i < count; ++i) {
    context.expect_equal(words("calls on stream ", i), counters[i].count.load(), 10);
  }
}

/// Each call sees the download in front of it, and not the one behind.
void between_copies(Context& context) {
  constexpr size_t kRounds = 50;
  struct Look {
    const Bytes* found;
    std::byte seen;
  };
  const Memory memory(context, Bytes(1));
  Bytes found(1);
  std::vector<Bytes> sources;
  std::vector<Look> looks(kRounds, Look{&found, {}});
  for (size_t i = 0; i < kRounds; ++i) sources.emplace_back(1, static_cast<std::byte>(i + 1));
  const Stream stream(context);
  for (size_t i = 0; i < kRounds; ++i) {
    stream.upload(memory, sources[i]);
    stream.download(&found, memory);
    stream.call(
        [](void* user, bp_status) {
          auto* look = static_cast<Look*>(user);
          look->seen = look->found->front();
        },
        &looks[i]);
  }
  stream.finish();
  for (size_t i = 0; i < kRounds; ++i) {
    context.expect_equal(words("what call ", i, " saw"), std::to_integer<size_t>(looks[i].seen),
                         i + 1);
  }
}

}  // namespace

void add_host_call_cases(CaseList* list) {
  const auto add = [list](const std::string& name, std::string_view proves,
                          std::function<void(Context&)> run) {
    list->add({.id = "L1.host_call." + name,
               .proves = proves,
               .bands = BP_FEATURE_ASYNC_BIT,
               .run = std::move(run)});
  };
  add("once_with_ok", "stream_host_call calls fn(user, status) once.", called_once_with_ok);
  for (const int count : {2, 100, 1000}) {
    add(words("each_once_in_order.", count), "A stream calls functions in order.",
        [=](Context& context) { each_once_in_order(context, count); });
  }
  add("user_may_be_null", "user is the caller's own.", user_may_be_null);
  add("not_before_the_work_in_front", "fn is called when the work before it is done.",
      not_before_the_work_in_front);
  add("enqueueing_does_not_block", "stream_host_call does not block.", enqueueing_does_not_block);
  constexpr std::string_view kBlocks = "A function that blocks holds back its own stream alone.";
  add("may_wait_for_another_stream", kBlocks, may_wait_for_another_stream);
  add("may_wait_behind_an_event", kBlocks, may_wait_behind_an_event);
  add("takes_the_callers_lock", "No lock of the plugin is held round fn.", takes_the_callers_lock);
  add("holds_back_later_work", "Work on one stream runs in order.", holds_back_later_work);
  add("counts_as_work", "A record behind a host call waits for it.", counts_as_work);
  add("called_when_the_stream_is_destroyed", "At the latest when the stream is destroyed.",
      called_when_the_stream_is_destroyed);
  for (const size_t count : {2u, 16u}) {
    add(words("on_many_streams.", count), "Streams have their own host calls.",
        [=](Context& context) { on_many_streams(context, count); });
  }
  add("between_copies", "Host calls and copies keep their order.", between_copies);
}

}  // namespace bp::conform
