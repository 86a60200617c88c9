// SPDX-License-Identifier: Apache-2.0
//
// Level 2: fills, now and in a stream's order.
#include "sdk/conform/context.hpp"

namespace bp::conform {
namespace {

constexpr uint64_t kPattern = 0xf1e2d3c4b5a69788;
constexpr std::byte kOld{0x11};
constexpr size_t kSlack = 64;

/// `bytes` of the pattern at `offset` in a block of old bytes.
Bytes filled(size_t block_bytes, size_t offset, size_t bytes, uint32_t pattern_bytes) {
  Bytes content(block_bytes, kOld);
  for (size_t i = 0; i < bytes; ++i) {
    content[offset + i] = static_cast<std::byte>(kPattern >> (8 * (i % pattern_bytes)));
  }
  return content;
}

struct Fill {
  uint32_t pattern_bytes;
  size_t offset;
  size_t count;  // of patterns
  bool in_stream;
};

void fills(Context& context, const Fill& fill) {
  const size_t bytes = fill.count * fill.pattern_bytes;
  const size_t block_bytes = bytes + fill.offset + kSlack;
  const Memory memory(context, Bytes(block_bytes, kOld));
  const Stream stream(context);
  context.expect_ok("mem_fill",
                    context.fill(fill.in_stream ? stream.get() : nullptr, memory.at(fill.offset),
                                 bytes, kPattern, fill.pattern_bytes));
  if (fill.in_stream) stream.finish();
  memory.expect("the fill and what is round it",
                filled(block_bytes, fill.offset, bytes, fill.pattern_bytes));
}

void bad_pattern(Context& context, uint32_t pattern_bytes) {
  const Memory memory(context, Bytes(240, kOld));
  context.expect_status(words("mem_fill with a pattern of ", pattern_bytes, " bytes"),
                        context.fill(nullptr, memory.at(), 240, kPattern, pattern_bytes),
                        BP_INVALID_ARGUMENT);
  memory.expect("the memory after a refused fill", Bytes(240, kOld));
}

void half_a_pattern(Context& context, uint32_t pattern_bytes) {
  const Memory memory(context, Bytes(64, kOld));
  context.expect_status(
      "mem_fill of a broken pattern",
      context.fill(nullptr, memory.at(), pattern_bytes * 3 - 1, kPattern, pattern_bytes),
      BP_INVALID_ARGUMENT);
  memory.expect("the memory after a refused fill", Bytes(64, kOld));
}

void outside(Context& context, uint64_t offset, uint64_t bytes) {
  const Memory memory(context, Bytes(64, kOld));
  context.expect_status(words("mem_fill of ", bytes, " bytes at offset ", offset),
                        context.fill(nullptr, memory.at(offset), bytes, kPattern, 1),
                        BP_INVALID_ARGUMENT);
  memory.expect("the memory after a refused fill", Bytes(64, kOld));
}

/// Larger than any piece that a fill may be done in: the good pieces must not be written either.
void outside_by_little(Context& context, bool in_stream) {
  constexpr size_t kLarge = (size_t{3} << 20) + 8;
  const Memory memory(context, Bytes(kLarge, kOld));
  const Stream stream(context);
  const bp_status call =
      context.fill(in_stream ? stream.get() : nullptr, memory.at(8), kLarge, kPattern, 8);
  const bp_status status = in_stream && call == BP_OK ? stream.sync() : call;
  context.expect_status("mem_fill of one pattern too much", status, BP_INVALID_ARGUMENT);
  memory.expect("the memory after a refused fill", Bytes(kLarge, kOld));
}

void without_memory(Context& context) {
  context.expect_status("mem_fill of handle 0", context.fill(nullptr, {0, 0}, 8, kPattern, 1),
                        BP_INVALID_ARGUMENT);
  context.expect_ok("mem_fill of no bytes", context.fill(nullptr, {0, 0}, 0, kPattern, 1));
}

/// Arguments are the caller's again when the call returns.
void pattern_is_consumed(Context& context) {
  const Memory memory(context, Bytes(4096, kOld));
  const Stream stream(context);
  Gate gate(context, stream);
  bp_fill_args args{sizeof(args), 0, memory.at(), 4096, kPattern, 8, 0, stream.get()};
  const DeviceTable& table = context.table();
  context.expect_ok("mem_fill", table.mem_fill(args));
  args = {};
  gate.open();
  stream.finish();
  memory.expect("the memory", filled(4096, 0, 4096, 8));
}

void many_in_a_stream(Context& context) {
  constexpr size_t kFills = 200;
  const Memory memory(context, Bytes(kFills * 16, kOld));
  const Stream stream(context);
  Bytes expected;
  for (size_t i = 0; i < kFills; ++i) {
    context.expect_ok("mem_fill", context.fill(stream.get(), memory.at(i * 16), 16, i, 1));
    expected.insert(expected.end(), 16, static_cast<std::byte>(i));
  }
  stream.finish();
  memory.expect("the memory", expected);
}

void freed_after_its_stream_is_done(Context& context) {
  const Stream stream(context);
  for (int i = 0; i < 50; ++i) {
    Memory memory(context, 3000);
    context.expect_ok("mem_fill", context.fill(stream.get(), memory.at(), 3000, kPattern, 4));
    stream.finish();
    memory.free();
  }
}

}  // namespace

void add_fill_cases(CaseList* list) {
  const auto add = [list](const std::string& name, std::string_view proves, uint64_t bands,
                          std::function<void(Context&)> run) {
    list->add({.id = "L2.fill." + name,
               .proves = proves,
               .bands = BP_FEATURE_FILL_BIT | bands,
               .run = std::move(run)});
  };
  constexpr std::string_view kFill = "mem_fill repeats the pattern in these bytes and no other.";
  for (const bool in_stream : {false, true}) {
    const std::string way = in_stream ? "async" : "now";
    const uint64_t bands = in_stream ? BP_FEATURE_ASYNC_BIT : 0;
    for (const uint32_t width : {1u, 2u, 4u, 8u}) {
      const auto add_fill = [&](const std::string& name, size_t offset, size_t count) {
        const Fill fill{width, offset, count, in_stream};
        add(words(way, ".pattern.", width, name), kFill, bands,
            [=](Context& context) { fills(context, fill); });
      };
      for (const size_t offset : {0u, 1u, 3u, 7u, 15u})
        add_fill(words(".offset.", offset), offset, 37);
      for (const size_t count : {0u, 1u, 3u, 1021u}) add_fill(words(".count.", count), 0, count);
      // Beyond any staging buffer, and not a multiple of one.
      add_fill(".large", 5, (size_t{3} << 20) / width + 11);
    }
  }
  for (const uint32_t width : {0U, 3U, 5U, 16U, UINT32_MAX}) {
    add(words("bad_pattern.", width), "pattern_bytes is 1, 2, 4 or 8.", 0,
        [=](Context& context) { bad_pattern(context, width); });
  }
  for (const uint32_t width : {2u, 4u, 8u}) {
    add(words("half_a_pattern.", width), "bytes is a multiple of pattern_bytes.", 0,
        [=](Context& context) { half_a_pattern(context, width); });
  }
  struct Range {
    const char* name;
    uint64_t offset;
    uint64_t bytes;
  };
  for (const Range& range : {Range{"one_too_long", 0, 65}, Range{"behind_the_end", 65, 1},
                             Range{"wraps", 8, UINT64_MAX - 7}, Range{"everything", 0, UINT64_MAX},
                             Range{"offset_wraps", UINT64_MAX - 3, 8}}) {
    add(std::string("outside.") + range.name, "BP_INVALID_ARGUMENT for a range outside its memory.",
        0, [=](Context& context) { outside(context, range.offset, range.bytes); });
  }
  constexpr std::string_view kNothing = "A refused fill has written nothing.";
  add("now.outside_by_little", kNothing, 0, [](Context& c) { outside_by_little(c, false); });
  add("async.outside_by_little", kNothing, BP_FEATURE_ASYNC_BIT,
      [](Context& c) { outside_by_little(c, true); });
  add("without_memory", "handle 0 means no memory; 0 bytes do nothing.", 0, without_memory);
  add("pattern_is_consumed", "Arguments are read during the call.", BP_FEATURE_ASYNC_BIT,
      pattern_is_consumed);
  add("many_in_a_stream", "Fills of one stream keep their order.", BP_FEATURE_ASYNC_BIT,
      many_in_a_stream);
  add("freed_after_its_stream_is_done", "After stream_sync nothing uses the memory.",
      BP_FEATURE_ASYNC_BIT, freed_after_its_stream_is_done);
}

}  // namespace bp::conform
