// SPDX-License-Identifier: Apache-2.0
//
// Level 1: launches. What a kernel computes is level 3's; here it is when it runs, and what it may
// look at later.
#include <array>
#include <cstring>
#include <limits>
#include <thread>

#include "sdk/conform/adder.hpp"

namespace bp::conform {
namespace {

constexpr int64_t kCount = 1000;

/// a = 1.5, b = 2, y = -1 everywhere.
struct Operands {
  explicit Operands(Context& context, int64_t count = kCount)
      : a(context, to_bytes(Floats(static_cast<size_t>(count), 1.5F))),
        b(context, to_bytes(Floats(static_cast<size_t>(count), 2.0F))),
        y(context, to_bytes(Floats(static_cast<size_t>(count), -1.0F))),
        sum(to_bytes(Floats(static_cast<size_t>(count), 3.5F))) {}

  Memory a;
  Memory b;
  Memory y;
  Bytes sum;
};

void on_a_stream(Context& context, int64_t count) {
  Operands operands(context, count);
  Adder adder(context, count);
  const Stream stream(context);
  context.expect_ok("launch", adder.launch(stream.get(), operands.a, operands.b, operands.y));
  stream.finish();
  operands.y.expect("the sum", operands.sum);
}

void without_a_stream(Context& context, int64_t count) {
  Operands operands(context, count);
  Adder adder(context, count);
  context.expect_ok("launch", adder.launch(nullptr, operands.a, operands.b, operands.y));
  operands.y.expect("the sum when launch has returned", operands.sum);
}

void at_an_offset(Context& context, uint64_t offset) {
  constexpr int64_t kPart = 64;
  Operands operands(context);
  Adder adder(context, kPart);
  const Stream stream(context);
  context.expect_ok("launch",
                    adder.launch(stream.get(), operands.a, operands.b, operands.y, 1, offset));
  stream.finish();
  Floats expected(kCount, -1.0F);
  for (size_t i = 0; i < kPart; ++i) expected[offset + i] = 3.5F;
  operands.y.expect("the output and what is round it", to_bytes(expected));
}

/// The caller overwrites tensors, sizes and strides as soon as launch has returned.
void arguments_are_consumed(Context& context) {
  Operands operands(context);
  Adder adder(context, kCount);
  const Stream stream(context);
  {
    Gate gate(context, stream);
    std::array<bp_tensor, 3> tensors{adder.tensor(operands.a), adder.tensor(operands.b),
                                     adder.tensor(operands.y)};
    int64_t sizes[] = {kCount};
    int64_t strides[] = {1};
    for (bp_tensor& tensor : tensors) {
      tensor.sizes = sizes;
      tensor.strides = strides;
    }
    context.expect_ok("launch", adder.launch(stream.get(), tensors.data(), 1));
    sizes[0] = -1;
    strides[0] = std::numeric_limits<int64_t>::max();
    std::memset(tensors.data(), 0xee, sizeof(tensors));
    gate.open();
  }
  stream.finish();
  operands.y.expect("the sum", operands.sum);
}

void no_elements(Context& context, bool with_stream) {
  Operands operands(context);
  Adder adder(context, 0);
  const Stream stream(context);
  const Event event(context);
  context.expect_ok("launch of no elements", adder.launch(with_stream ? stream.get() : nullptr,
                                                          operands.a, operands.b, operands.y));
  event.record(stream);
  context.expect_ok("event_sync", event.sync(context.patience_ns()));
  operands.y.expect("the output", to_bytes(Floats(kCount, -1.0F)));
  Adder whole(context, kCount);
  context.expect_ok("the next launch",
                    whole.launch(stream.get(), operands.a, operands.b, operands.y));
  stream.finish();
  operands.y.expect("the sum", operands.sum);
}

void does_not_wait(Context& context) {
  Operands operands(context);
  Adder adder(context, kCount);
  const Stream stream(context);
  Gate gate(context, stream);
  context.expect_ok("launch on a held stream",
                    adder.launch(stream.get(), operands.a, operands.b, operands.y));
  context.expect_status("stream_query", stream.query(), BP_PENDING);
  operands.y.expect("the output while the stream is held", to_bytes(Floats(kCount, -1.0F)));
  gate.open();
  stream.finish();
  operands.y.expect("the sum", operands.sum);
}

void after_an_event(Context& context) {
  Operands operands(context);
  Adder adder(context, kCount);
  const Bytes later = to_bytes(Floats(kCount, 10.0F));
  const Stream producer(context);
  const Stream stream(context);
  const Event event(context);
  Gate gate(context, producer);
  producer.upload(operands.a, later);
  event.record(producer);
  event.wait_on(stream);
  context.expect_ok("launch", adder.launch(stream.get(), operands.a, operands.b, operands.y));
  gate.open();
  stream.finish();
  producer.finish();
  operands.y.expect("the sum of what was written before", to_bytes(Floats(kCount, 12.0F)));
}

void many_times(Context& context, int times) {
  Operands operands(context);
  Adder adder(context, kCount);
  const Stream stream(context);
  for (int i = 0; i < times; ++i) {
    context.expect_ok("launch", adder.launch(stream.get(), operands.a, operands.b, operands.y,
                                             static_cast<uint64_t>(i) + 1));
  }
  stream.finish();
  operands.y.expect("the sum", operands.sum);
}

void same_bits_each_time(Context& context) {
  Floats a(kCount);
  Floats b(kCount);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = 1.0F / static_cast<float>(i + 3);
    b[i] = 1e4F / static_cast<float>(i + 7);
  }
  const Memory left(context, to_bytes(a));
  const Memory right(context, to_bytes(b));
  Bytes first;
  for (int i = 0; i < 5; ++i) {
    const Memory y(context, to_bytes(Floats(kCount, -1.0F)));
    Adder adder(context, kCount);
    const Stream stream(context);
    context.expect_ok("launch", adder.launch(stream.get(), left, right, y));
    stream.finish();
    if (i == 0) first = y.read();
    y.expect(words("the sum in run ", i), first);
  }
}

void inputs_stay(Context& context) {
  Operands operands(context);
  const Bytes a = operands.a.read();
  const Bytes b = operands.b.read();
  Adder adder(context, kCount);
  const Stream stream(context);
  context.expect_ok("launch", adder.launch(stream.get(), operands.a, operands.b, operands.y));
  stream.finish();
  operands.a.expect("input a", a);
  operands.b.expect("input b", b);
}

void inputs_may_be_one(Context& context) {
  Operands operands(context);
  Adder adder(context, kCount);
  const Stream stream(context);
  context.expect_ok("launch", adder.launch(stream.get(), operands.a, operands.a, operands.y));
  stream.finish();
  operands.y.expect("the sum", to_bytes(Floats(kCount, 3.0F)));
}

void one_stream_per_thread(Context& context) {
  constexpr size_t kThreads = 8;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&context] {
      try {
        Operands operands(context);
        Adder adder(context, kCount);
        const Stream stream(context);
        for (uint64_t i = 1; i <= 20; ++i) {
          context.expect_ok("launch",
                            adder.launch(stream.get(), operands.a, operands.b, operands.y, i));
        }
        stream.finish();
        operands.y.expect("the sum of a thread", operands.sum);
      } catch (const Stop&) {
        return;  // noted
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void any_op_seq(Context& context) {
  Operands operands(context);
  Adder adder(context, kCount);
  const Stream stream(context);
  for (const uint64_t op_seq : {uint64_t{0}, uint64_t{1} << 40, UINT64_MAX}) {
    context.expect_ok(words("launch with op_seq ", op_seq),
                      adder.launch(stream.get(), operands.a, operands.b, operands.y, op_seq));
  }
  stream.finish();
  operands.y.expect("the sum", operands.sum);
}

/// Host memory must not be needed by anything but the copy; the kernel reads what a copy brought.
void sees_each_upload(Context& context, int rounds) {
  Operands operands(context);
  Adder adder(context, kCount);
  const Stream stream(context);
  for (int i = 0; i < rounds; ++i) {
    const Bytes source = to_bytes(Floats(kCount, static_cast<float>(i)));
    Bytes found(operands.sum.size());
    stream.upload(operands.a, source);
    context.expect_ok("launch", adder.launch(stream.get(), operands.a, operands.b, operands.y));
    stream.download(&found, operands.y);
    stream.finish();
    context.expect_bytes(words("the sum in round ", i), found,
                         to_bytes(Floats(kCount, static_cast<float>(i) + 2)));
  }
}

/// Both ways to the same data: what mem_copy wrote a launch sees, and the reverse.
void sees_mem_copy(Context& context, int rounds) {
  Operands operands(context);
  Adder adder(context, kCount);
  const Stream stream(context);
  for (int i = 0; i < rounds; ++i) {
    operands.a.write(to_bytes(Floats(kCount, static_cast<float>(i))));
    context.expect_ok("launch", adder.launch(stream.get(), operands.a, operands.b, operands.y));
    stream.finish();
    operands.y.expect(words("the sum in round ", i),
                      to_bytes(Floats(kCount, static_cast<float>(i) + 2)));
  }
}

}  // namespace

void add_launch_cases(CaseList* list) {
  const auto add = [list](const std::string& name, std::string_view proves,
                          std::function<void(Context&)> run) {
    list->add({.id = "L1.launch." + name,
               .proves = proves,
               .bands = BP_FEATURE_ASYNC_BIT,
               .needs = kNeedAdd,
               .run = std::move(run)});
  };
  for (const int64_t count : {1, 7, 64, 1000, 100003}) {
    add(words("on_a_stream.", count), "A launch is enqueued on its stream.",
        [=](Context& context) { on_a_stream(context, count); });
    add(words("without_a_stream.", count), "stream NULL: run now, on this thread.",
        [=](Context& context) { without_a_stream(context, count); });
  }
  for (const uint64_t offset : {1u, 3u, 16u, 936u}) {
    add(words("at_offset.", offset), "A tensor begins at offset_bytes; nothing else is touched.",
        [=](Context& context) { at_an_offset(context, offset); });
  }
  constexpr std::string_view kConsumes =
      "launch consumes every descriptor, attribute and host argument before it returns.";
  add("arguments_are_consumed", kConsumes, arguments_are_consumed);
  add("no_elements_on_a_stream", "Zero sizes are legal, and the stream goes on.",
      [](Context& c) { no_elements(c, true); });
  add("no_elements_without_a_stream", "Zero sizes are legal.",
      [](Context& c) { no_elements(c, false); });
  add("does_not_wait", "launch never waits for a device.", does_not_wait);
  add("after_an_event", "A launch waits for what its stream waits for.", after_an_event);
  for (const int times : {2, 500}) {
    add(words("many_times.", times), "A plan is immutable and launched any number of times.",
        [=](Context& context) { many_times(context, times); });
  }
  add("same_bits_each_time", "An elementwise kernel gives bitwise equal reruns.",
      same_bits_each_time);
  add("inputs_stay", "Inputs are read only.", inputs_stay);
  add("inputs_may_be_one", "Two inputs may be the same memory.", inputs_may_be_one);
  add("one_stream_per_thread", "Launches on different streams run at once.", one_stream_per_thread);
  add("any_op_seq", "op_seq names a launch, and is nothing else.", any_op_seq);
  for (const int rounds : {1, 100}) {
    add(words("sees_each_upload.", rounds), "Kernels and copies of one stream see each other.",
        [=](Context& context) { sees_each_upload(context, rounds); });
    add(words("sees_mem_copy.", rounds), "mem_copy is done when it returns.",
        [=](Context& context) { sees_mem_copy(context, rounds); });
  }
}

}  // namespace bp::conform
