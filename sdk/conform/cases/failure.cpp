// SPDX-License-Identifier: Apache-2.0
//
// Level 1: failures. A copy whose range is outside its memory is what most devices can be made to
// fail by. Where the call itself refuses, it has had no effect and the stream is healthy; where it
// was taken, the stream fails and stays so, and everybody who depends on it hears of it once.
#include <atomic>
#include <chrono>
#include <thread>

#include "sdk/conform/adder.hpp"

namespace bp::conform {
namespace {

constexpr size_t kBytes = 256;

/// A stream that was given a copy beyond the end of its memory. Where the call refuses that, its
/// driver fails a good copy, if the plugin offers bp.test_inject; else nothing here fails later,
/// and the case does not apply.
class Broken {
 public:
  explicit Broken(Context& context)
      : context_(context),
        memory_(context, Bytes(kBytes)),
        source_(make_bytes(2 * kBytes, 9)),
        stream_(context) {
    const bp_status beyond = copy(2 * kBytes);
    context.expect(beyond == BP_OK || beyond == BP_INVALID_ARGUMENT,
                   "a copy beyond its memory to be taken or refused with INVALID_ARGUMENT; found " +
                       status_words(beyond));
    if (beyond != BP_OK) break_by_driver();
  }

  const Stream& stream() const { return stream_; }
  Memory& memory() { return memory_; }
  void destroy() { stream_.destroy(); }

  /// The failure that a sync answers, once the stream has come to it.
  bp_status expect_failure() {
    const bp_status status = stream_.sync();
    context_.expect_status("stream_sync of a stream that failed", status, BP_INVALID_ARGUMENT);
    return status;
  }

 private:
  bp_status copy(uint64_t bytes) {
    return context_.copy_async(stream_.get(), BP_COPY_HOST_TO_DEVICE, memory_.at(),
                               host_end(source_.data()), bytes);
  }

  /// The first driver call of a copy that fails after the call.
  void break_by_driver() {
    const Injection& injection = context_.injection();
    if (!injection.is_offered()) {
      throw NotApplicable{
          "the device refuses a copy beyond its memory at the call, and the plugin offers no "
          "bp.test_inject: nothing fails later"};
    }
    constexpr uint64_t kMostCalls = 8;
    for (uint64_t nth = 1; nth <= kMostCalls; ++nth) {
      injection.arm(context_, nth);
      if (copy(kBytes) == BP_OK && fails_soon()) return;
      injection.arm(context_, 0);
    }
    throw NotApplicable{"no driver call of a copy fails after the call"};
  }

  bool fails_soon() {
    constexpr auto kSoon = std::chrono::milliseconds(200);
    const auto end = std::chrono::steady_clock::now() + kSoon;
    while (!context_.injection().has_failed(context_)) {
      if (std::chrono::steady_clock::now() >= end) return false;
      std::this_thread::yield();
    }
    return true;
  }

  Context& context_;
  Memory memory_;
  const Bytes source_;
  Stream stream_;
};

void nothing_was_written(Context& context) {
  const Memory memory(context, Bytes(kBytes));
  const Bytes source = make_bytes(2 * kBytes, 1);
  const Stream stream(context);
  const bp_status call = context.copy_async(stream.get(), BP_COPY_HOST_TO_DEVICE, memory.at(),
                                            host_end(source.data()), source.size());
  static_cast<void>(stream.sync());
  memory.expect("the memory", Bytes(kBytes));
  if (call == BP_OK) return;
  const Bytes bytes = make_bytes(kBytes, 2);
  stream.upload(memory, bytes);
  stream.finish();
  memory.expect("the memory by a stream whose call was refused", bytes);
}

void sync_repeats_the_first(Context& context) {
  Broken broken(context);
  const bp_status first = broken.expect_failure();
  for (int i = 0; i < 3; ++i) {
    context.expect_status("stream_sync again", broken.stream().sync(), first);
    context.expect_status("stream_query", broken.stream().query(), first);
  }
}

void failed_is_never_late(Context& context) {
  Broken broken(context);
  const bp_status first = broken.expect_failure();
  for (const uint64_t timeout_ns : {uint64_t{0}, uint64_t{1}}) {
    context.expect_status("stream_sync with a deadline of " + std::to_string(timeout_ns) + " ns",
                          context.stream_api().stream_sync(broken.stream().get(), timeout_ns),
                          first);
  }
  context.expect_status("stream_query", broken.stream().query(), first);
}

void enqueues_are_poisoned(Context& context) {
  Broken broken(context);
  broken.expect_failure();
  const Bytes bytes(kBytes);
  const Event event(context);
  context.expect_status("mem_copy_async",
                        context.copy_async(broken.stream().get(), BP_COPY_HOST_TO_DEVICE,
                                           broken.memory().at(), host_end(bytes.data()), kBytes),
                        BP_POISONED);
  context.expect_status("event_record",
                        context.stream_api().event_record(event.get(), broken.stream().get()),
                        BP_POISONED);
  context.expect_status("event_wait",
                        context.stream_api().event_wait(event.get(), broken.stream().get()),
                        BP_POISONED);
}

void fill_is_poisoned(Context& context) {
  Broken broken(context);
  broken.expect_failure();
  context.expect_status("mem_fill",
                        context.fill(broken.stream().get(), broken.memory().at(), kBytes, 0, 1),
                        BP_POISONED);
}

void launch_is_poisoned(Context& context) {
  Broken broken(context);
  broken.expect_failure();
  const Memory y(context, Bytes(kBytes));
  Adder adder(context, kBytes / sizeof(float));
  context.expect_status("launch",
                        adder.launch(broken.stream().get(), broken.memory(), broken.memory(), y),
                        BP_POISONED);
}

void work_behind_does_not_run(Context& context) {
  const Memory memory(context, Bytes(kBytes));
  const Bytes bytes = make_bytes(kBytes, 2);
  const Bytes large(2 * kBytes);
  const Stream stream(context);
  bp_status call = BP_OK;
  {
    Gate gate(context, stream);
    call = context.copy_async(stream.get(), BP_COPY_HOST_TO_DEVICE, memory.at(),
                              host_end(large.data()), large.size());
    stream.upload(memory, bytes);
    gate.open();
  }
  const bp_status status = stream.sync();
  if (call != BP_OK) {
    context.expect_ok("stream_sync after a refused call", status);
    memory.expect("the memory after a refused call", bytes);
    throw NotApplicable{"the device refuses a copy beyond its memory at the call"};
  }
  context.expect_status("stream_sync", status, BP_INVALID_ARGUMENT);
  memory.expect("the memory behind a failure", Bytes(kBytes));
}

// The queue ahead of the failing work still runs, whenever the failure becomes known.
void answered_when_nothing_runs(Context& context) {
  const Memory memory(context, Bytes(kBytes));
  const Bytes large(2 * kBytes);
  const Stream stream(context);
  bp_status call = BP_OK;
  {
    Gate gate(context, stream);
    context.expect(gate.reached(), "the host call to begin");
    call = context.copy_async(stream.get(), BP_COPY_HOST_TO_DEVICE, memory.at(),
                              host_end(large.data()), large.size());
    context.expect_status("stream_query while earlier work runs", stream.query(), BP_PENDING);
    context.expect_status("stream_sync for 1 ms while earlier work runs",
                          context.stream_api().stream_sync(stream.get(), 1'000'000), BP_TIMEOUT);
    gate.open();
  }
  context.expect_status("stream_sync afterwards", stream.sync(),
                        call == BP_OK ? BP_INVALID_ARGUMENT : BP_OK);
}

struct Told {
  std::atomic<int> count{0};
  std::atomic<bp_status> status{BP_OK};

  static void call(void* user, bp_status stream_status) {
    auto* self = static_cast<Told*>(user);
    self->status = stream_status;
    ++self->count;
  }
};

void host_calls_are_told_once(Context& context) {
  Told told;
  Broken broken(context);
  const bp_status first = broken.expect_failure();
  broken.stream().call(Told::call, &told);
  static_cast<void>(broken.stream().sync());
  broken.destroy();
  context.expect_equal("calls on a failed stream", told.count.load(), 1);
  context.expect_status("their stream_status", told.status, first);
}

void waiters_fail_too(Context& context) {
  Broken broken(context);
  // The record is ahead of the failure's discovery or not; either way it carries the failure.
  const Event event(context);
  const bp_status recorded = context.stream_api().event_record(event.get(), broken.stream().get());
  if (recorded == BP_POISONED) {
    context.expect_ok("event_query of an event whose record was refused", event.query());
    return;
  }
  const Stream waiter(context);
  event.wait_on(waiter);
  context.expect_status("stream_sync of the waiter", waiter.sync(), BP_INVALID_ARGUMENT);
  context.expect_status("event_sync", event.sync(context.patience_ns()), BP_INVALID_ARGUMENT);
  context.expect_status("event_query", event.query(), BP_INVALID_ARGUMENT);
}

void others_stay_healthy(Context& context) {
  Broken broken(context);
  static_cast<void>(broken.stream().sync());
  const Memory memory(context, Bytes(kBytes));
  const Bytes bytes = make_bytes(kBytes, 3);
  const Stream other(context);
  other.upload(memory, bytes);
  other.finish();
  memory.expect("the memory by another stream", bytes);
  context.expect_ok("mem_copy now",
                    context.copy(BP_COPY_HOST_TO_DEVICE, memory.at(), host_end(bytes.data()), 1));
}

void a_new_stream_works(Context& context) {
  {
    Broken broken(context);
    static_cast<void>(broken.stream().sync());
  }
  const Memory memory(context, Bytes(kBytes));
  const Bytes bytes = make_bytes(kBytes, 4);
  const Stream next(context);
  next.upload(memory, bytes);
  next.finish();
  memory.expect("the memory by a new stream", bytes);
}

void destroyed_without_a_sync(Context& context) {
  Broken broken(context);
  broken.destroy();
  broken.memory().expect("the memory", Bytes(kBytes));
}

void elapsed_of_failed_work(Context& context) {
  Broken broken(context);
  const Event start(context, BP_EVENT_TIMING_BIT);
  const Event end(context, BP_EVENT_TIMING_BIT);
  const Stream good(context);
  start.record(good);
  good.finish();
  if (context.stream_api().event_record(end.get(), broken.stream().get()) != BP_OK) return;
  static_cast<void>(end.sync(context.patience_ns()));
  uint64_t time_ns = 0;
  const bp_status status = context.stream_api().event_elapsed(start.get(), end.get(), &time_ns);
  context.expect_status("event_elapsed to work that failed", status, BP_INVALID_ARGUMENT);
}

/// Call errors, each on its own: the status, and a stream that is healthy afterwards.
void refused_calls_leave_the_stream(Context& context) {
  const Memory memory(context, Bytes(kBytes));
  const Bytes bytes = make_bytes(kBytes, 5);
  const Stream stream(context);
  context.expect_status(
      "mem_copy_async of an unknown kind",
      context.copy_async(stream.get(), 77, memory.at(), host_end(bytes.data()), 1), BP_UNSUPPORTED);
  context.expect_status("mem_fill of a pattern of 3 bytes",
                        context.fill(stream.get(), memory.at(), 3, 0, 3), BP_INVALID_ARGUMENT);
  context.expect_status("mem_fill of half a pattern",
                        context.fill(stream.get(), memory.at(), 6, 0, 4), BP_INVALID_ARGUMENT);
  context.expect_status("stream_host_call of NULL",
                        context.stream_api().stream_host_call(stream.get(), nullptr, nullptr),
                        BP_INVALID_ARGUMENT);
  stream.upload(memory, bytes);
  stream.finish();
  memory.expect("the memory after refused calls", bytes);
}

}  // namespace

void add_failure_cases(CaseList* list) {
  const auto add = [list](const std::string& name, std::string_view proves,
                          std::function<void(Context&)> run, uint64_t bands = 0,
                          uint32_t needs = 0) {
    list->add({.id = "L1.failure." + name,
               .proves = proves,
               .bands = BP_FEATURE_ASYNC_BIT | bands,
               .needs = needs,
               .run = std::move(run)});
  };
  add("nothing_was_written", "A range outside its memory is not written.", nothing_was_written);
  add("sync_repeats_the_first", "stream_sync repeats the first error.", sync_repeats_the_first);
  add("failed_is_never_late",
      "A failed stream answers its failure, never BP_TIMEOUT or BP_PENDING.", failed_is_never_late);
  constexpr std::string_view kPoisoned = "Later enqueues answer BP_POISONED.";
  add("enqueues_are_poisoned", kPoisoned, enqueues_are_poisoned);
  add("fill_is_poisoned", kPoisoned, fill_is_poisoned, BP_FEATURE_FILL_BIT);
  add("launch_is_poisoned", kPoisoned, launch_is_poisoned, 0, kNeedAdd);
  add("work_behind_does_not_run", "Later work on a failed stream is not run.",
      work_behind_does_not_run);
  add("answered_when_nothing_runs",
      "A failure is answered once nothing of the stream uses memory any more.",
      answered_when_nothing_runs);
  add("host_calls_are_told_once", "A host call works on a poisoned stream, with its failure.",
      host_calls_are_told_once);
  add("waiters_fail_too", "If the recorded work failed, the waiting stream fails too.",
      waiters_fail_too);
  add("others_stay_healthy", "A failure is its stream's alone.", others_stay_healthy);
  add("a_new_stream_works", "stream_destroy ends a failure.", a_new_stream_works);
  add("destroyed_without_a_sync", "A failed stream can be destroyed.", destroyed_without_a_sync);
  add("elapsed_of_failed_work", "event_elapsed has two finished records, or no answer.",
      elapsed_of_failed_work, BP_FEATURE_TIMING_BIT);
  add("refused_calls_leave_the_stream", "A call error has no effect; the stream is healthy.",
      refused_calls_leave_the_stream, BP_FEATURE_FILL_BIT);
}

}  // namespace bp::conform
