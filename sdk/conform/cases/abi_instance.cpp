// SPDX-License-Identifier: Apache-2.0
//
// Level 0: instances and devices come and go, several at once, and errors reach the host that they
// belong to (design 2.1, laws 7, 9 and 12).
#include "sdk/conform/abi.hpp"

namespace bp::conform {
namespace {

bool is_single(AbiContext& context) {
  return (context.plugin().flags & BP_PLUGIN_SINGLE_INSTANCE_BIT) != 0;
}

/// A second instance beside the first: works, or answers BP_BUSY where the plugin says so.
void second_instance(AbiContext& context) {
  context.instance();
  RecordingHost host;
  RawInstance second(context, host);
  if (is_single(context)) {
    context.expect_status("the second init", second.status(), BP_BUSY);
    context.expect(second.get() == nullptr, "no second instance");
    return;
  }
  second.require();
  RawDevice device(context, second.get(), context.target().device_index);
  context.require_ok("device_open of the second instance", device.status());
  expect_working(context, context.device(), "of the first instance");
  expect_working(context, device.get(), "of the second instance");
  device.close();
  second.shutdown();
  expect_working(context, context.device(), "of the first instance, after the second has ended");
}

void first_instance_ends_first(AbiContext& context) {
  RecordingHost host;
  RawInstance first(context, host);
  first.require();
  RecordingHost other_host;
  RawInstance second(context, other_host);
  if (is_single(context)) {
    context.expect_status("the second init", second.status(), BP_BUSY);
    return;
  }
  second.require();
  first.shutdown();
  RawDevice device(context, second.get(), context.target().device_index);
  context.require_ok("device_open of the second instance", device.status());
  expect_working(context, device.get(), "of the second instance, after the first has ended");
}

void init_after_shutdown(AbiContext& context, int cycles) {
  for (int i = 0; i < cycles; ++i) {
    RecordingHost host;
    RawInstance instance(context, host);
    instance.require();
    RawDevice device(context, instance.get(), context.target().device_index);
    context.require_ok("device_open", device.status());
    expect_working(context, device.get(), words("in cycle ", i));
  }
}

/// What a driver makes once is made in the first two cycles.
void cycles_leave_nothing(AbiContext& context) {
  init_after_shutdown(context, 2);
  const Usage before = current_usage();
  init_after_shutdown(context, 8);
  const Usage after = settled_usage(before);
  context.expect_equal("threads after 8 cycles", after.thread_count, before.thread_count);
  context.expect_equal("open files after 8 cycles", after.file_count, before.file_count);
}

void shutdown_without_devices(AbiContext& context) {
  RecordingHost host;
  RawInstance instance(context, host);
  instance.require();
  instance.shutdown();
  context.expect(instance.get() == nullptr, "an instance that has ended");
}

void init_on_another_thread(AbiContext& context) {
  std::unique_ptr<RawInstance> instance;
  RecordingHost host;
  std::thread([&] { instance = std::make_unique<RawInstance>(context, host); }).join();
  instance->require();
  RawDevice device(context, instance->get(), context.target().device_index);
  context.require_ok("device_open on the first thread", device.status());
  std::thread([&] { expect_working(context, device.get(), "on a third thread"); }).join();
  device.close();
  std::thread([&] { instance->shutdown(); }).join();
}

void device_count_is_stable(AbiContext& context) {
  uint32_t counts[3] = {};
  for (uint32_t& count : counts) {
    context.require_ok("device_count",
                       context.device_api().device_count(context.instance(), &count));
  }
  context.expect(counts[0] > context.target().device_index, "a device at the tested index");
  context.expect(counts[0] == counts[1] && counts[1] == counts[2], "the same count each time");
}

void device_opens_again(AbiContext& context) {
  for (int i = 0; i < 3; ++i) {
    RawDevice device(context, context.instance(), context.target().device_index);
    context.require_ok("device_open", device.status());
    expect_working(context, device.get(), words("when opened for time ", i + 1));
  }
}

/// Makes one call fail, for its words.
void fail_a_call(AbiContext& context, bp_device* device) {
  const bp_copy_args args{sizeof(args), 0, 99, 0, {}, {}, 1};
  context.expect_status("mem_copy of kind 99", context.memory().mem_copy(device, &args),
                        BP_UNSUPPORTED);
}

void errors_come_with_words(AbiContext& context) {
  bp_device* device = context.device();
  context.host().take_reports();
  fail_a_call(context, device);
  const std::vector<HostReport> reports = context.host().take_reports();
  context.require(!reports.empty(), "a report before the slot returns");
  const HostReport& report = reports.back();
  context.expect_status("the report's status", report.status, BP_UNSUPPORTED);
  context.expect(!report.message.empty(), "a sentence");
  context.expect(report.message.find('\0') == std::string::npos, "a text without a zero in it");
  context.expect(report.struct_size >= sizeof(bp_report_info), "a struct_size of the report");
  context.expect(report.thread == std::this_thread::get_id(), "a report on the calling thread");
}

void good_calls_report_nothing(AbiContext& context) {
  bp_device* device = context.device();
  context.host().take_reports();
  expect_working(context, device, "without a report");
  context.expect_equal("reports", context.host().take_reports().size(), 0U);
}

void a_failure_leaves_no_trace(AbiContext& context) {
  bp_device* device = context.device();
  fail_a_call(context, device);
  expect_working(context, device, "after a call that failed");
  fail_a_call(context, device);
  fail_a_call(context, device);
  expect_working(context, device, "after three calls that failed");
}

void reports_reach_their_instance(AbiContext& context) {
  if (is_single(context)) {
    context.expect(true, "one instance only");
    return;
  }
  bp_device* first = context.device();
  RecordingHost other_host;
  RawInstance second(context, other_host);
  second.require();
  RawDevice device(context, second.get(), context.target().device_index);
  context.require_ok("device_open of the second instance", device.status());
  context.host().take_reports();
  other_host.take_reports();
  fail_a_call(context, device.get());
  context.expect_equal("reports to the first host", context.host().take_reports().size(), 0U);
  context.expect(!other_host.take_reports().empty(), "a report to the second host");
  fail_a_call(context, first);
  context.expect(!context.host().take_reports().empty(), "a report to the first host");
  context.expect_equal("reports to the second host", other_host.take_reports().size(), 0U);
}

void two_devices_are_apart(AbiContext& context) {
  const uint32_t other = context.target().device_index == 0 ? 1 : 0;
  RawDevice second(context, context.instance(), other);
  context.require_ok("device_open of the other device", second.status());
  expect_working(context, context.device(), "of the first device");
  expect_working(context, second.get(), "of the second device");
  second.close();
  expect_working(context, context.device(), "of the first device, after the second is closed");
}

/// Streams of one device take events of that device alone.
void events_stay_with_their_device(AbiContext& context) {
  const uint32_t other = context.target().device_index == 0 ? 1 : 0;
  RawDevice second(context, context.instance(), other);
  context.require_ok("device_open of the other device", second.status());
  const bp_stream_api& api = context.stream();
  const bp_stream_args stream_args{sizeof(stream_args), 0};
  const bp_event_args event_args{sizeof(event_args), 0};
  bp_stream* stream = nullptr;
  bp_event* event = nullptr;
  context.require_ok("stream_create", api.stream_create(context.device(), &stream_args, &stream));
  context.require_ok("event_create", api.event_create(second.get(), &event_args, &event));
  context.expect_status("event_record on another device's stream", api.event_record(event, stream),
                        BP_UNSUPPORTED);
  context.expect_status("event_wait on another device's stream", api.event_wait(event, stream),
                        BP_UNSUPPORTED);
  context.expect_ok("stream_sync afterwards", api.stream_sync(stream, BP_TIMEOUT_FOREVER));
  context.expect_ok("event_query afterwards", api.event_query(event));
  context.expect_ok("event_destroy", api.event_destroy(event));
  context.expect_ok("stream_destroy", api.stream_destroy(stream));
}

}  // namespace

void add_instance_cases(CaseList* list) {
  const auto add = [list](const char* id, std::string_view proves, void (*run)(AbiContext&),
                          uint32_t needs = 0) {
    list->add({.id = std::string("L0.") + id, .proves = proves, .needs = needs, .abi = run});
  };
  add("instance.second_beside_the_first", "Several instances work, or the flag says BP_BUSY.",
      second_instance);
  add("instance.first_ends_first", "No instance leans on another one.", first_instance_ends_first);
  add("instance.cycles_leave_nothing", "shutdown joins the plugin's threads.",
      cycles_leave_nothing);
  add("instance.shutdown_without_devices", "An instance may never open a device.",
      shutdown_without_devices);
  add("instance.init_on_another_thread", "init runs on a helper thread of the core.",
      init_on_another_thread);
  add("device.count_is_stable", "Devices are counted, and the tested one is there.",
      device_count_is_stable);
  add("device.opens_again", "After device_close, device_open works again.", device_opens_again);
  add("device.two_are_apart", "There is no current device.", two_devices_are_apart,
      kNeedTwoDevices);
  list->add({.id = "L0.device.events_stay_with_theirs",
             .proves = "event_record and event_wait: event and stream are of one device.",
             .bands = BP_FEATURE_ASYNC_BIT,
             .needs = kNeedTwoDevices,
             .abi = events_stay_with_their_device});
  add("report.errors_come_with_words", "The text goes to report before the return.",
      errors_come_with_words);
  add("report.good_calls_report_nothing", "report explains failures.", good_calls_report_nothing);
  add("report.a_failure_leaves_no_trace", "A call error has no effect.", a_failure_leaves_no_trace);
  add("report.reaches_its_instance", "Host table and context belong to the instance.",
      reports_reach_their_instance);
  for (const int cycles : {1, 2, 10}) {
    list->add({.id = words("L0.instance.init_after_shutdown.", cycles),
               .proves = "After shutdown, init works again without unmapping.",
               .abi = [=](AbiContext& context) { init_after_shutdown(context, cycles); }});
  }
}

}  // namespace bp::conform
