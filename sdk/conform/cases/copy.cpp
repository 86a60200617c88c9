// SPDX-License-Identifier: Apache-2.0
//
// Level 2: copies, now and in a stream's order. Both ends lie inside larger blocks whose other
// bytes must stay as they are.
#include <thread>

#include "sdk/conform/context.hpp"

namespace bp::conform {
namespace {

constexpr size_t kSlack = 64;
constexpr std::byte kOld{0xee};

struct Kind {
  const char* name;
  uint32_t kind;
};
constexpr Kind kKinds[] = {{"to_device", BP_COPY_HOST_TO_DEVICE},
                           {"to_host", BP_COPY_DEVICE_TO_HOST},
                           {"within_device", BP_COPY_DEVICE_TO_DEVICE}};
constexpr size_t kSizes[] = {0, 1, 3, 4, 63, 64, 65, 4095, 4097, 65535, 65537};
constexpr size_t kOffsets[] = {0, 1, 3, 7, 15};

/// One end of a copy: a block on the host or on the device.
class End {
 public:
  End(Context& context, bool on_device, const Bytes& content)
      : context_(context),
        host_(content),
        memory_(context, on_device ? content : Bytes(1)),
        on_device_(on_device) {}

  bp_mem at(size_t offset) const {
    return on_device_ ? memory_.at(offset)
                      : bp_mem{reinterpret_cast<uint64_t>(host_.data()), offset};
  }
  void expect(std::string_view what, const Bytes& content) const {
    if (on_device_) memory_.expect(what, content);
    if (!on_device_) context_.expect_bytes(what, host_, content);
  }

 private:
  Context& context_;
  Bytes host_;
  Memory memory_;
  bool on_device_;
};

struct Ends {
  Ends(Context& context, uint32_t kind, size_t bytes)
      : source(context, kind != BP_COPY_HOST_TO_DEVICE, make_bytes(bytes + kSlack, 5)),
        destination(context, kind != BP_COPY_DEVICE_TO_HOST, Bytes(bytes + kSlack, kOld)) {}

  End source;
  End destination;
};

/// What the destination holds after a copy of `bytes` between these offsets.
Bytes expected(size_t bytes, size_t to, size_t from) {
  const Bytes source = make_bytes(bytes + kSlack, 5);
  Bytes result(bytes + kSlack, kOld);
  std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(from), bytes,
              result.begin() + static_cast<std::ptrdiff_t>(to));
  return result;
}

/// One size, between all pairs of offsets that have one of them in common.
void copies(Context& context, uint32_t kind, size_t bytes, size_t offset) {
  for (const auto& [to, from] :
       {std::pair{offset, size_t{0}}, std::pair{size_t{0}, offset}, std::pair{offset, offset}}) {
    const Ends ends(context, kind, bytes);
    context.expect_ok(words("mem_copy from offset ", from, " to ", to),
                      context.copy(kind, ends.destination.at(to), ends.source.at(from), bytes));
    ends.destination.expect("the destination and what is round it", expected(bytes, to, from));
    ends.source.expect("the source", make_bytes(bytes + kSlack, 5));
  }
}

void copies_in_a_stream(Context& context, uint32_t kind, size_t bytes) {
  const Stream stream(context);
  for (const size_t to : kOffsets) {
    for (const size_t from : {kOffsets[0], kOffsets[2], kOffsets[4]}) {
      const Ends ends(context, kind, bytes);
      context.expect_ok("mem_copy_async",
                        context.copy_async(stream.get(), kind, ends.destination.at(to),
                                           ends.source.at(from), bytes));
      stream.finish();
      ends.destination.expect("the destination and what is round it", expected(bytes, to, from));
    }
  }
}

constexpr size_t kPart = 128;

struct Range {
  const char* name;
  size_t offset;
  uint64_t bytes;
};
/// Ranges outside a block of kPart + kSlack bytes. The host's end is as large as wanted, to the
/// plugin's knowledge; it is not touched.
constexpr Range kRanges[] = {
    {"one_too_long", 0, kPart + kSlack + 1}, {"from_behind_the_end", kPart + kSlack + 1, 1},
    {"over_the_end", kSlack + 1, kPart},     {"end_wraps", kSlack, UINT64_MAX - kSlack + 8},
    {"offset_wraps", SIZE_MAX - 7, 16},      {"everything", 0, UINT64_MAX}};

/// The given end is wrong, the other one is at its beginning.
void outside(Context& context, uint32_t kind, const Range& range, bool wrong_destination) {
  const Ends ends(context, kind, kPart);
  const bp_mem to = ends.destination.at(wrong_destination ? range.offset : 0);
  const bp_mem from = ends.source.at(wrong_destination ? 0 : range.offset);
  context.expect_status(words("mem_copy of ", range.bytes, " bytes at offset ", range.offset),
                        context.copy(kind, to, from, range.bytes), BP_INVALID_ARGUMENT);
  ends.destination.expect("the destination after a refused copy", Bytes(kPart + kSlack, kOld));
  context.expect_ok("mem_copy afterwards",
                    context.copy(kind, ends.destination.at(0), ends.source.at(0), kPart));
}

void without_memory(Context& context, uint32_t kind, bool destination) {
  const Ends ends(context, kind, kPart);
  const bp_mem none{0, 0};
  context.expect_status("mem_copy with handle 0",
                        context.copy(kind, destination ? none : ends.destination.at(0),
                                     destination ? ends.source.at(0) : none, kPart),
                        BP_INVALID_ARGUMENT);
  ends.destination.expect("the destination after a refused copy", Bytes(kPart + kSlack, kOld));
}

void no_bytes_need_no_memory(Context& context, uint32_t kind) {
  context.expect_ok("mem_copy of 0 bytes", context.copy(kind, {0, 0}, {0, 0}, 0));
}

void overlapping(Context& context, size_t to, size_t from, size_t bytes) {
  const Memory memory(context, make_bytes(256, 3));
  context.expect_status(
      words("mem_copy of ", bytes, " bytes from ", from, " to ", to),
      context.copy(BP_COPY_DEVICE_TO_DEVICE, memory.at(to), memory.at(from), bytes),
      BP_INVALID_ARGUMENT);
  memory.expect("the memory after a refused copy", make_bytes(256, 3));
}

void within_one_memory(Context& context) {
  const Memory memory(context, make_bytes(256, 4));
  Bytes content = make_bytes(256, 4);
  context.expect_ok("mem_copy of neighbours",
                    context.copy(BP_COPY_DEVICE_TO_DEVICE, memory.at(128), memory.at(0), 128));
  std::copy_n(content.begin(), 128, content.begin() + 128);
  memory.expect("the memory", content);
}

void source_is_free_on_return(Context& context) {
  const Memory memory(context, Bytes(65536));
  Bytes source = make_bytes(65536, 5);
  for (int i = 0; i < 20; ++i) {
    source.assign(source.size(), static_cast<std::byte>(i));
    context.expect_ok("mem_copy", context.copy(BP_COPY_HOST_TO_DEVICE, memory.at(),
                                               host_end(source.data()), source.size()));
    source.assign(source.size(), std::byte{0xff});
    memory.expect(words("the memory in round ", i),
                  Bytes(source.size(), static_cast<std::byte>(i)));
  }
}

void visible_each_time(Context& context, uint32_t rounds) {
  const Memory memory(context, Bytes(64));
  for (uint32_t i = 0; i < rounds; ++i) {
    const Bytes content = make_bytes(64, i);
    context.expect_ok("mem_copy", context.copy(BP_COPY_HOST_TO_DEVICE, memory.at(),
                                               host_end(content.data()), 64));
    memory.expect(words("the memory in round ", i), content);
  }
}

void visible_after_each_sync(Context& context, uint32_t rounds) {
  const Memory memory(context, Bytes(64));
  const Stream stream(context);
  for (uint32_t i = 0; i < rounds; ++i) {
    const Bytes content = make_bytes(64, i);
    stream.upload(memory, content);
    stream.finish();
    memory.expect(words("the memory in round ", i), content);
  }
}

void large(Context& context) {
  constexpr size_t kLarge = (8U << 20) + 13;
  const Bytes content = make_bytes(kLarge, 6);
  const Memory first(context, content);
  const Memory second(context, kLarge);
  context.expect_ok("mem_copy within the device",
                    context.copy(BP_COPY_DEVICE_TO_DEVICE, second.at(), first.at(), kLarge));
  second.expect("the copy", content);
}

void on_many_threads(Context& context) {
  constexpr uint32_t kThreads = 8;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&context, t] {
      try {
        const Memory memory(context, Bytes(4096));
        for (uint32_t i = 0; i < 50; ++i) {
          const Bytes content = make_bytes(4096, t * 1000 + i);
          context.expect_ok("mem_copy", context.copy(BP_COPY_HOST_TO_DEVICE, memory.at(),
                                                     host_end(content.data()), 4096));
          memory.expect("a thread's memory", content);
        }
      } catch (const Stop&) {
        return;  // noted
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void add_kind(CaseList* list, const Kind& kind) {
  const auto add = [&](const std::string& name, std::string_view proves, uint64_t bands,
                       std::function<void(Context&)> run) {
    list->add({.id = words("L2.copy.", kind.name, ".", name),
               .proves = proves,
               .bands = bands,
               .run = std::move(run)});
  };
  const uint32_t code = kind.kind;
  for (const size_t bytes : kSizes) {
    for (const size_t offset : kOffsets) {
      add(words("size.", bytes, ".offset.", offset), "mem_copy copies these bytes and no other.", 0,
          [=](Context& context) { copies(context, code, bytes, offset); });
    }
    add(words("async.size.", bytes), "mem_copy_async is mem_copy in the stream's order.",
        BP_FEATURE_ASYNC_BIT, [=](Context& context) { copies_in_a_stream(context, code, bytes); });
  }
  constexpr std::string_view kOutside = "BP_INVALID_ARGUMENT for a range outside its memory.";
  for (const Range& range : kRanges) {
    if (code != BP_COPY_DEVICE_TO_HOST) {
      add(words("outside.destination.", range.name), kOutside, 0,
          [=](Context& context) { outside(context, code, range, true); });
    }
    if (code != BP_COPY_HOST_TO_DEVICE) {
      add(words("outside.source.", range.name), kOutside, 0,
          [=](Context& context) { outside(context, code, range, false); });
    }
  }
  add("destination_without_memory", "handle 0 means no memory.", 0,
      [=](Context& context) { without_memory(context, code, true); });
  add("source_without_memory", "handle 0 means no memory.", 0,
      [=](Context& context) { without_memory(context, code, false); });
  add("no_bytes_need_no_memory", "0 bytes are legal and do nothing.", 0,
      [=](Context& context) { no_bytes_need_no_memory(context, code); });
}

}  // namespace

void add_copy_cases(CaseList* list) {
  for (const Kind& kind : kKinds) add_kind(list, kind);
  const auto add = [list](const std::string& name, std::string_view proves,
                          std::function<void(Context&)> run, uint64_t bands = 0) {
    list->add({.id = "L2.copy." + name, .proves = proves, .bands = bands, .run = std::move(run)});
  };
  constexpr std::string_view kOverlap =
      "BP_INVALID_ARGUMENT for ranges of one memory that overlap.";
  add("overlapping.forwards", kOverlap, [](Context& c) { overlapping(c, 1, 0, 64); });
  add("overlapping.backwards", kOverlap, [](Context& c) { overlapping(c, 0, 63, 64); });
  add("overlapping.same", kOverlap, [](Context& c) { overlapping(c, 0, 0, 64); });
  add("within_one_memory", "Ranges of one memory that do not overlap are fine.", within_one_memory);
  add("source_is_free_on_return", "mem_copy is done when it returns.", source_is_free_on_return);
  for (const uint32_t rounds : {1u, 1000u}) {
    add(words("visible_each_time.", rounds), "mem_copy is done when it returns.",
        [=](Context& context) { visible_each_time(context, rounds); });
    add(
        words("visible_after_each_sync.", rounds), "After stream_sync the bytes are there.",
        [=](Context& context) { visible_after_each_sync(context, rounds); }, BP_FEATURE_ASYNC_BIT);
  }
  add("large", "mem_copy has no size that it cannot do.", large);
  add("on_many_threads", "mem_copy is any-thread.", on_many_threads);
}

}  // namespace bp::conform
