// SPDX-License-Identifier: Apache-2.0
//
// Level 2: objects of a device end in any order, once no work uses them.
#include <algorithm>
#include <array>
#include <memory>

#include "sdk/conform/adder.hpp"

namespace bp::conform {
namespace {

constexpr std::string_view kNames[] = {"memory", "stream", "event", "pinned"};

/// One of each, all of which some work has used.
struct Objects {
  explicit Objects(Context& c)
      : context(c),
        memory(std::make_unique<Memory>(c, Bytes(512))),
        stream(std::make_unique<Stream>(c)),
        event(std::make_unique<Event>(c)) {
    context.require_ok("host_alloc", context.host_alloc(512, &pinned));
  }

  void end(size_t which) {
    if (which == 0) memory->free();
    if (which == 1) stream->destroy();
    if (which == 2) event->destroy();
    if (which == 3) context.expect_ok("host_free", context.host_free(pinned));
  }

  Context& context;
  std::unique_ptr<Memory> memory;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Event> event;
  void* pinned = nullptr;
};

void in_order(Context& context, const std::array<size_t, 4>& order) {
  Objects objects(context);
  context.expect_ok("mem_copy_async",
                    context.copy_async(objects.stream->get(), BP_COPY_HOST_TO_DEVICE,
                                       objects.memory->at(), host_end(objects.pinned), 512));
  objects.event->record(*objects.stream);
  objects.stream->finish();
  for (const size_t which : order) objects.end(which);
  Memory again(context, Bytes(512, std::byte{1}));
  again.expect("memory afterwards", Bytes(512, std::byte{1}));
}

/// Stream and event may go while work is ahead; memory stays until the stream is gone. Who waited
/// for work that was abandoned hears of it.
void with_work_ahead(Context& context, bool event_first) {
  const Bytes source = make_bytes(512, 1);
  Memory memory(context, Bytes(512));
  Stream stream(context);
  Stream other(context);
  Event event(context);
  Gate gate(context, stream);
  stream.upload(memory, source);
  event.record(stream);
  event.wait_on(other);
  if (event_first) event.destroy();
  gate.open();
  stream.destroy();
  event.destroy();
  const bp_status status = other.sync();
  context.expect(status == BP_OK || status == BP_CANCELLED,
                 "OK, or CANCELLED for abandoned work; found " + status_words(status));
  const Bytes content = memory.read();
  context.expect(content == source || content == Bytes(512), "the copy done whole, or not at all");
}

void cycles(Context& context, int count) {
  const Bytes source(512);  // outlives the copies that read it
  for (int i = 0; i < count; ++i) {
    Objects objects(context);
    objects.stream->upload(*objects.memory, source);
    objects.event->record(*objects.stream);
    objects.stream->finish();
    objects.end(3);
  }
}

void kernels_end_with_the_rest(Context& context) {
  for (int i = 0; i < 10; ++i) {
    const Memory memory(context, to_bytes(Floats(64, 1.0F)));
    const Memory sum(context, to_bytes(Floats(64, 0.0F)));
    Stream stream(context);
    Adder adder(context, 64);
    context.expect_ok("launch", adder.launch(stream.get(), memory, memory, sum));
    stream.finish();
    if (i % 2 == 0) stream.destroy();
  }
}

}  // namespace

void add_teardown_cases(CaseList* list) {
  constexpr std::string_view kAnyOrder = "Objects end in any order once no work uses them.";
  constexpr uint64_t kBoth = BP_FEATURE_ASYNC_BIT | BP_FEATURE_PINNED_BIT;
  std::array<size_t, 4> order{0, 1, 2, 3};
  do {
    std::string name;
    for (const size_t which : order) name += "." + std::string(kNames[which]);
    list->add({.id = "L2.teardown" + name,
               .proves = kAnyOrder,
               .bands = kBoth,
               .run = [=](Context& context) { in_order(context, order); }});
  } while (std::next_permutation(order.begin(), order.end()));
  const auto add = [list](const std::string& name, std::string_view proves, uint64_t bands,
                          std::function<void(Context&)> run, uint32_t needs = 0) {
    list->add({.id = "L2.teardown." + name,
               .proves = proves,
               .bands = bands,
               .needs = needs,
               .run = std::move(run)});
  };
  add("work_ahead.event_first", kAnyOrder, BP_FEATURE_ASYNC_BIT,
      [](Context& context) { with_work_ahead(context, true); });
  add("work_ahead.stream_first", kAnyOrder, BP_FEATURE_ASYNC_BIT,
      [](Context& context) { with_work_ahead(context, false); });
  for (const int count : {1, 100}) {
    add(words("cycles.", count), "Nothing stays behind.", kBoth,
        [=](Context& context) { cycles(context, count); });
  }
  add("kernels", "Plans and states end when no launch uses them.", BP_FEATURE_ASYNC_BIT,
      kernels_end_with_the_rest, kNeedAdd);
}

}  // namespace bp::conform
