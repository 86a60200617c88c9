// SPDX-License-Identifier: Apache-2.0
//
// Streams and events, the plugin's or emulated: order, waits with deadlines, host calls.
#include <atomic>

#include "driver.hpp"

namespace bp::abi {
namespace {

constexpr uint64_t kBytes = 1 << 16;

/// One stream and one event with the slots behind them.
struct StreamParts {
  explicit StreamParts(const Subject& subject_in) : subject(subject_in) {
    bp_stream_args stream_args{.struct_size = sizeof(bp_stream_args), .flags = 0};
    bp_event_args event_args{.struct_size = sizeof(bp_event_args), .flags = 0};
    if (has_timing()) event_args.flags |= BP_EVENT_TIMING_BIT;
    ok(api().stream_create(stream_args, &stream), "stream_create");
    ok(api().event_create(event_args, &start), "event_create");
    ok(api().event_create(event_args, &end), "event_create");
  }
  ~StreamParts() {
    if (start != nullptr) ok(api().event_destroy(start), "event_destroy");
    if (end != nullptr) ok(api().event_destroy(end), "event_destroy");
    if (stream != nullptr) ok(api().stream_destroy(stream), "stream_destroy");
  }
  StreamParts(const StreamParts&) = delete;
  StreamParts& operator=(const StreamParts&) = delete;

  const DeviceTable& api() const { return subject.table; }
  /// A core of the past has no such slot.
  bool has_timing() const {
    return api().stream.event_elapsed != nullptr || api().emulated_stream.event_elapsed != nullptr;
  }
  bool complete() const { return stream != nullptr && start != nullptr && end != nullptr; }
  void ok(bp_status code, std::string_view what) const {
    subject.checks.expect_ok(subject.plugin.host(), code, what);
  }
  void sync() const { ok(api().stream_sync(stream, kDeadlineNs), "stream_sync"); }

  const Subject& subject;
  bp_stream* stream = nullptr;
  bp_event* start = nullptr;
  bp_event* end = nullptr;
};

void fill_on(const StreamParts& parts, const DeviceMemory& memory, uint64_t byte) {
  const bp_fill_args args{.struct_size = sizeof(bp_fill_args),
                          .flags = 0,
                          .dst = memory.at(),
                          .bytes = memory.bytes(),
                          .pattern = byte,
                          .pattern_bytes = 1,
                          .reserved = 0,
                          .stream = parts.stream};
  const DeviceTable& table = parts.subject.table;
  parts.ok(table.mem_fill(args), "mem_fill on a stream");
}

void copy_on(const StreamParts& parts, const bp_copy_args& args) {
  parts.ok(parts.api().mem_copy_async(parts.stream, args), "mem_copy_async");
}

/// Work of one stream is in order; an event carries the order to the other one.
void check_order(const StreamParts& first, const StreamParts& second) {
  const DeviceMemory memory(first.subject, kBytes);
  std::vector<uint8_t> host(kBytes, 0);
  std::atomic<int> called_with{-1};
  first.ok(first.api().event_record(first.start, first.stream), "event_record");
  fill_on(first, memory, 0x11);
  fill_on(first, memory, 0x22);
  first.ok(first.api().event_record(first.end, first.stream), "event_record");
  second.ok(second.api().event_wait(first.end, second.stream), "event_wait");
  copy_on(second, copy_args(BP_COPY_DEVICE_TO_HOST, host_mem(host.data()), memory.at(), kBytes));
  const auto note = [](void* user, bp_status status) {
    static_cast<std::atomic<int>*>(user)->store(status);
  };
  second.ok(second.api().stream_host_call(second.stream, note, &called_with), "stream_host_call");
  second.sync();
  Checks& checks = first.subject.checks;
  checks.expect(host.front() == 0x22 && host.back() == 0x22, "streams: order by event");
  checks.expect(called_with == BP_OK, "stream_host_call: called once the work was done");
  first.ok(first.api().event_sync(first.end, kDeadlineNs), "event_sync");
  first.ok(first.api().event_query(first.end), "event_query");
  first.sync();
  first.ok(first.api().stream_query(first.stream), "stream_query");
#if !defined(BP_GENERATION_PAST)
  uint64_t elapsed_ns = UINT64_MAX;
  first.ok(first.api().event_elapsed(first.start, first.end, &elapsed_ns), "event_elapsed");
  checks.expect(elapsed_ns < kDeadlineNs, "event_elapsed: less than the deadline");
#endif
}

}  // namespace

void check_streams(const Subject& subject) {
  const StreamParts first(subject);
  const StreamParts second(subject);
  if (!first.complete() || !second.complete()) return;
  check_order(first, second);
#if defined(BP_GENERATION_FUTURE)
  // A bit that an older plugin does not know is ignored or refused with a reason.
  const bp_event_args args{.struct_size = sizeof(bp_event_args), .flags = BP_EVENT_FUTURE_BIT};
  bp_event* event = nullptr;
  const bp_status code = subject.table.event_create(args, &event);
  subject.checks.expect(code == BP_OK || code == BP_UNSUPPORTED, "event_create: unknown bit");
  if (event != nullptr) first.ok(subject.table.event_destroy(event), "event_destroy");
#endif
}

}  // namespace bp::abi
