// SPDX-License-Identifier: Apache-2.0
//
// Level 1: time between events. Nothing is compared with the host's clock but a lower bound: a
// stream that slept cannot have been faster.
#include <thread>

#include "sdk/conform/context.hpp"

namespace bp::conform {
namespace {

constexpr auto kSleep = std::chrono::milliseconds(20);

void sleep_in_stream(void*, bp_status) { std::this_thread::sleep_for(kSleep); }

bp_status elapsed(Context& context, const Event& start, const Event& end, uint64_t* out_ns) {
  return context.stream_api().event_elapsed(start.get(), end.get(), out_ns);
}

void measures_what_lies_between(Context& context) {
  const Stream stream(context);
  const Event start(context, BP_EVENT_TIMING_BIT);
  const Event end(context, BP_EVENT_TIMING_BIT);
  start.record(stream);
  stream.call(sleep_in_stream, nullptr);
  end.record(stream);
  stream.finish();
  uint64_t time_ns = 0;
  context.expect_ok("event_elapsed", elapsed(context, start, end, &time_ns));
  constexpr uint64_t kAtLeastNs = 15'000'000;  // of 20 ms; clocks of devices are coarse
  context.expect(time_ns >= kAtLeastNs, words("15 ms at least; found ", time_ns, " ns"));
}

void one_event_is_no_time(Context& context) {
  const Stream stream(context);
  const Event event(context, BP_EVENT_TIMING_BIT);
  event.record(stream);
  stream.finish();
  uint64_t time_ns = 7;
  context.expect_ok("event_elapsed", elapsed(context, event, event, &time_ns));
  context.expect_equal("the time between an event and itself", time_ns, 0U);
}

void is_stable(Context& context) {
  const Stream stream(context);
  const Event start(context, BP_EVENT_TIMING_BIT);
  const Event end(context, BP_EVENT_TIMING_BIT);
  start.record(stream);
  end.record(stream);
  stream.finish();
  uint64_t first_ns = 0;
  uint64_t second_ns = 1;
  context.expect_ok("event_elapsed", elapsed(context, start, end, &first_ns));
  context.expect_ok("event_elapsed again", elapsed(context, start, end, &second_ns));
  context.expect_equal("the second answer", second_ns, first_ns);
}

void adds_up(Context& context) {
  const Stream stream(context);
  const Event events[3] = {Event(context, BP_EVENT_TIMING_BIT), Event(context, BP_EVENT_TIMING_BIT),
                           Event(context, BP_EVENT_TIMING_BIT)};
  for (const Event& event : events) {
    event.record(stream);
    stream.call(sleep_in_stream, nullptr);
  }
  stream.finish();
  uint64_t first_ns = 0;
  uint64_t second_ns = 0;
  uint64_t whole_ns = 0;
  context.expect_ok("event_elapsed 0 to 1", elapsed(context, events[0], events[1], &first_ns));
  context.expect_ok("event_elapsed 1 to 2", elapsed(context, events[1], events[2], &second_ns));
  context.expect_ok("event_elapsed 0 to 2", elapsed(context, events[0], events[2], &whole_ns));
  context.expect_equal("the sum of both parts", first_ns + second_ns, whole_ns);
}

void end_before_start(Context& context) {
  const Stream stream(context);
  const Event start(context, BP_EVENT_TIMING_BIT);
  const Event end(context, BP_EVENT_TIMING_BIT);
  end.record(stream);
  stream.call(sleep_in_stream, nullptr);
  start.record(stream);
  stream.finish();
  uint64_t time_ns = 0;
  context.expect_status("event_elapsed from the later to the earlier",
                        elapsed(context, start, end, &time_ns), BP_INVALID_ARGUMENT);
}

void without_timing(Context& context, bool start_has, bool end_has) {
  const Stream stream(context);
  const Event start(context, start_has ? BP_EVENT_TIMING_BIT : 0);
  const Event end(context, end_has ? BP_EVENT_TIMING_BIT : 0);
  start.record(stream);
  end.record(stream);
  stream.finish();
  uint64_t time_ns = 0;
  context.expect_status("event_elapsed", elapsed(context, start, end, &time_ns),
                        BP_INVALID_ARGUMENT);
}

void unrecorded(Context& context, bool start_is, bool end_is) {
  const Stream stream(context);
  const Event start(context, BP_EVENT_TIMING_BIT);
  const Event end(context, BP_EVENT_TIMING_BIT);
  if (start_is) start.record(stream);
  if (end_is) end.record(stream);
  stream.finish();
  uint64_t time_ns = 0;
  context.expect_status("event_elapsed", elapsed(context, start, end, &time_ns),
                        BP_INVALID_ARGUMENT);
}

void pending(Context& context, bool start_too) {
  const Stream stream(context);
  const Event start(context, BP_EVENT_TIMING_BIT);
  const Event end(context, BP_EVENT_TIMING_BIT);
  if (!start_too) {
    start.record(stream);
    stream.finish();
  }
  Gate gate(context, stream);
  if (start_too) start.record(stream);
  end.record(stream);
  uint64_t time_ns = 0;
  context.expect_status("event_elapsed while the stream is held",
                        elapsed(context, start, end, &time_ns), BP_PENDING);
  gate.open();
  stream.finish();
  context.expect_ok("event_elapsed afterwards", elapsed(context, start, end, &time_ns));
}

void across_streams(Context& context) {
  const Stream first(context);
  const Stream second(context);
  const Event start(context, BP_EVENT_TIMING_BIT);
  const Event end(context, BP_EVENT_TIMING_BIT);
  start.record(first);
  start.wait_on(second);
  second.call(sleep_in_stream, nullptr);
  end.record(second);
  second.finish();
  first.finish();
  uint64_t time_ns = 0;
  context.expect_ok("event_elapsed", elapsed(context, start, end, &time_ns));
  context.expect(time_ns > 0, "some time");
}

void records_anew(Context& context) {
  const Stream stream(context);
  const Event start(context, BP_EVENT_TIMING_BIT);
  const Event end(context, BP_EVENT_TIMING_BIT);
  start.record(stream);
  stream.call(sleep_in_stream, nullptr);
  end.record(stream);
  stream.finish();
  start.record(stream);
  stream.finish();
  uint64_t time_ns = 0;
  context.expect_status("event_elapsed to the old end", elapsed(context, start, end, &time_ns),
                        BP_INVALID_ARGUMENT);
  end.record(stream);
  stream.finish();
  context.expect_ok("event_elapsed to the new end", elapsed(context, start, end, &time_ns));
}

void timed_events_order_too(Context& context) {
  const Bytes source = make_bytes(256, 1);
  const Memory memory(context, Bytes(256));
  Bytes found(256);
  const Stream producer(context);
  const Stream consumer(context);
  const Event event(context, BP_EVENT_TIMING_BIT);
  Gate gate(context, producer);
  producer.upload(memory, source);
  event.record(producer);
  event.wait_on(consumer);
  consumer.download(&found, memory);
  gate.open();
  consumer.finish();
  context.expect_bytes("what the consumer read", found, source);
  producer.finish();
}

}  // namespace

void add_timing_cases(CaseList* list) {
  const auto add = [list](const std::string& name, std::string_view proves,
                          std::function<void(Context&)> run) {
    list->add({.id = "L1.timing." + name,
               .proves = proves,
               .bands = BP_FEATURE_ASYNC_BIT | BP_FEATURE_TIMING_BIT,
               .run = std::move(run)});
  };
  constexpr std::string_view kElapsed = "event_elapsed: nanoseconds between two finished records.";
  constexpr std::string_view kInvalid = "BP_INVALID_ARGUMENT without two timed records.";
  constexpr std::string_view kPending = "BP_PENDING while a record is not finished.";
  add("measures_what_lies_between", kElapsed, measures_what_lies_between);
  add("one_event_is_no_time", kElapsed, one_event_is_no_time);
  add("is_stable", kElapsed, is_stable);
  add("adds_up", kElapsed, adds_up);
  add("across_streams", kElapsed, across_streams);
  add("records_anew", kElapsed, records_anew);
  add("timed_events_order_too", "BP_EVENT_TIMING_BIT changes nothing else.",
      timed_events_order_too);
  add("end_before_start", "BP_INVALID_ARGUMENT for an end that was done before the start.",
      end_before_start);
  add("start_without_timing", kInvalid, [](Context& c) { without_timing(c, false, true); });
  add("end_without_timing", kInvalid, [](Context& c) { without_timing(c, true, false); });
  add("both_without_timing", kInvalid, [](Context& c) { without_timing(c, false, false); });
  add("start_unrecorded", kInvalid, [](Context& c) { unrecorded(c, false, true); });
  add("end_unrecorded", kInvalid, [](Context& c) { unrecorded(c, true, false); });
  add("both_unrecorded", kInvalid, [](Context& c) { unrecorded(c, false, false); });
  add("end_pending", kPending, [](Context& c) { pending(c, false); });
  add("both_pending", kPending, [](Context& c) { pending(c, true); });
}

}  // namespace bp::conform
