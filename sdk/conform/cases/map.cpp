// SPDX-License-Identifier: Apache-2.0
//
// Level 2: device memory in the host's reach.
#include <algorithm>
#include <thread>

#include "sdk/conform/context.hpp"

namespace bp::conform {
namespace {

constexpr uint32_t kBoth = BP_MAP_READ_BIT | BP_MAP_WRITE_BIT;

/// A mapping; its end is checked.
class Mapped {
 public:
  Mapped(Context& context, const Memory& memory, uint64_t offset, size_t bytes, uint32_t access)
      : context_(context), bytes_(bytes) {
    void* ptr = nullptr;
    context_.require_ok(words("mem_map of ", bytes, " bytes at offset ", offset),
                        context_.map(memory.at(offset), bytes, access, &ptr));
    context_.require(ptr != nullptr, "a pointer that is not NULL");
    data_ = static_cast<std::byte*>(ptr);
  }
  ~Mapped() { end(); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  Mapped(Mapped&& other) noexcept
      : context_(other.context_),
        bytes_(other.bytes_),
        data_(std::exchange(other.data_, nullptr)) {}

  std::byte* data() const { return data_; }
  std::span<const std::byte> view() const { return {data_, bytes_}; }
  void write(const Bytes& content) { std::copy(content.begin(), content.end(), data_); }
  void end() {
    std::byte* data = std::exchange(data_, nullptr);
    if (data != nullptr) context_.expect_ok("mem_unmap", context_.unmap(data));
  }

 private:
  Context& context_;
  size_t bytes_;
  std::byte* data_ = nullptr;
};

struct Range {
  size_t offset;
  size_t bytes;
};
constexpr size_t kBlock = 8192;

void reads(Context& context, Range range) {
  const Bytes content = make_bytes(kBlock, 1);
  const Memory memory(context, content);
  Mapped mapped(context, memory, range.offset, range.bytes, BP_MAP_READ_BIT);
  const auto begin = content.begin() + static_cast<std::ptrdiff_t>(range.offset);
  context.expect_bytes("the mapping", mapped.view(),
                       Bytes(begin, begin + static_cast<std::ptrdiff_t>(range.bytes)));
  mapped.end();
  memory.expect("the memory afterwards", content);
}

void writes(Context& context, Range range, uint32_t access) {
  Bytes content = make_bytes(kBlock, 2);
  const Memory memory(context, content);
  Mapped mapped(context, memory, range.offset, range.bytes, access);
  const Bytes written = make_bytes(range.bytes, 3);
  mapped.write(written);
  mapped.end();
  std::copy(written.begin(), written.end(),
            content.begin() + static_cast<std::ptrdiff_t>(range.offset));
  memory.expect("the written part and what is round it", content);
}

/// Bytes that the host leaves alone keep what the device had, for writing only as well.
void writes_a_part(Context& context, uint32_t access) {
  Bytes content = make_bytes(512, 4);
  const Memory memory(context, content);
  Mapped mapped(context, memory, 0, 512, access);
  mapped.data()[100] = std::byte{0xab};
  mapped.end();
  content[100] = std::byte{0xab};
  memory.expect("the memory", content);
}

void mapped_twice(Context& context) {
  const Bytes content = make_bytes(256, 5);
  const Memory memory(context, content);
  Mapped first(context, memory, 0, 256, BP_MAP_READ_BIT);
  Mapped second(context, memory, 0, 256, BP_MAP_READ_BIT);
  context.expect_bytes("the first mapping", first.view(), content);
  first.end();
  context.expect_bytes("the second mapping, after the first has ended", second.view(), content);
}

void parts_apart(Context& context) {
  Bytes content(512);
  const Memory memory(context, content);
  Mapped low(context, memory, 0, 256, kBoth);
  Mapped high(context, memory, 256, 256, kBoth);
  low.write(Bytes(256, std::byte{1}));
  high.write(Bytes(256, std::byte{2}));
  high.end();
  low.end();
  std::fill_n(content.begin(), 256, std::byte{1});
  std::fill(content.begin() + 256, content.end(), std::byte{2});
  memory.expect("both parts", content);
}

void many_at_once(Context& context, size_t count) {
  std::vector<Memory> memories;
  std::vector<Mapped> mappings;
  for (size_t i = 0; i < count; ++i) {
    memories.emplace_back(context, Bytes(64));
    mappings.emplace_back(context, memories.back(), 0, 64, kBoth);
  }
  for (size_t i = 0; i < count; ++i) mappings[i].write(Bytes(64, static_cast<std::byte>(i)));
  for (Mapped& mapped : mappings) mapped.end();
  for (size_t i = 0; i < count; ++i) {
    memories[i].expect(words("memory ", i), Bytes(64, static_cast<std::byte>(i)));
  }
}

void again_and_again(Context& context) {
  const Memory memory(context, Bytes(128));
  for (int i = 0; i < 200; ++i) {
    Mapped mapped(context, memory, 0, 128, kBoth);
    mapped.write(Bytes(128, static_cast<std::byte>(i)));
    mapped.end();
    memory.expect(words("round ", i), Bytes(128, static_cast<std::byte>(i)));
  }
}

/// Between two mappings the device writes: the second shows it.
void shows_what_a_stream_wrote(Context& context) {
  const Memory memory(context, Bytes(256));
  const Stream stream(context);
  for (uint32_t i = 0; i < 10; ++i) {
    const Bytes content = make_bytes(256, i);
    stream.upload(memory, content);
    stream.finish();
    Mapped mapped(context, memory, 0, 256, BP_MAP_READ_BIT);
    context.expect_bytes(words("the mapping in round ", i), mapped.view(), content);
  }
}

void a_stream_sees_what_was_written(Context& context) {
  const Memory memory(context, Bytes(256));
  const Stream stream(context);
  for (uint32_t i = 0; i < 10; ++i) {
    const Bytes content = make_bytes(256, i);
    Mapped mapped(context, memory, 0, 256, BP_MAP_WRITE_BIT);
    mapped.write(content);
    mapped.end();
    Bytes found(256);
    stream.download(&found, memory);
    stream.finish();
    context.expect_bytes(words("what the stream read in round ", i), found, content);
  }
}

void refused(Context& context, Range range, uint32_t access, bp_status expected) {
  const Memory memory(context, Bytes(64));
  void* ptr = nullptr;
  context.expect_status(
      words("mem_map of ", range.bytes, " bytes at offset ", range.offset, " with access ", access),
      context.map(memory.at(range.offset), range.bytes, access, &ptr), expected);
  context.expect(ptr == nullptr, "no pointer after a failure");
}

void without_memory(Context& context) {
  void* ptr = nullptr;
  context.expect_status("mem_map of handle 0", context.map({0, 0}, 8, BP_MAP_READ_BIT, &ptr),
                        BP_INVALID_ARGUMENT);
}

void unmap_of_nothing(Context& context) {
  int somewhere = 0;
  context.expect_status("mem_unmap of a pointer that is not mapped", context.unmap(&somewhere),
                        BP_INVALID_ARGUMENT);
  context.expect_status("mem_unmap of NULL", context.unmap(nullptr), BP_INVALID_ARGUMENT);
}

void unmap_twice(Context& context) {
  const Memory memory(context, Bytes(64));
  void* ptr = nullptr;
  context.require_ok("mem_map", context.map(memory.at(), 64, kBoth, &ptr));
  context.expect_ok("mem_unmap", context.unmap(ptr));
  context.expect_status("mem_unmap again", context.unmap(ptr), BP_INVALID_ARGUMENT);
}

void unmap_on_another_thread(Context& context) {
  const Memory memory(context, Bytes(64));
  Mapped mapped(context, memory, 0, 64, kBoth);
  std::thread([&] {
    mapped.write(Bytes(64, std::byte{3}));
    mapped.end();
  }).join();
  memory.expect("the memory", Bytes(64, std::byte{3}));
}

}  // namespace

void add_map_cases(CaseList* list) {
  const auto add = [list](const std::string& name, std::string_view proves,
                          std::function<void(Context&)> run, uint64_t bands = 0) {
    list->add({.id = "L2.map." + name,
               .proves = proves,
               .bands = BP_FEATURE_MAP_BIT | bands,
               .run = std::move(run)});
  };
  for (const Range& range : {Range{0, 1}, Range{0, kBlock}, Range{1, 4095}, Range{64, 64},
                             Range{4097, 100}, Range{kBlock - 1, 1}}) {
    const std::string part = words(range.offset, ".", range.bytes);
    add("reads." + part, "The host reads device memory at *out_ptr.",
        [=](Context& context) { reads(context, range); });
    add("writes." + part, "Writes are in device memory after mem_unmap.",
        [=](Context& context) { writes(context, range, BP_MAP_WRITE_BIT); });
    add("reads_and_writes." + part, "Writes are in device memory after mem_unmap.",
        [=](Context& context) { writes(context, range, kBoth); });
  }
  constexpr std::string_view kPart = "What the host doesn't write stays.";
  add("writes_a_part", kPart, [](Context& c) { writes_a_part(c, BP_MAP_WRITE_BIT); });
  add("reads_and_writes_a_part", kPart, [](Context& c) { writes_a_part(c, kBoth); });
  add("twice", "Memory may be mapped more than once.", mapped_twice);
  add("parts_apart", "Parts of one memory may be mapped.", parts_apart);
  for (const size_t count : {2u, 50u}) {
    add(words("at_once.", count), "Many memories may be mapped.",
        [=](Context& context) { many_at_once(context, count); });
  }
  add("again_and_again", "Each mapping shows the memory as it is.", again_and_again);
  add("shows_what_a_stream_wrote", "After stream_sync a mapping shows the bytes.",
      shows_what_a_stream_wrote, BP_FEATURE_ASYNC_BIT);
  add("a_stream_sees_what_was_written", "After mem_unmap a stream reads the bytes.",
      a_stream_sees_what_was_written, BP_FEATURE_ASYNC_BIT);
  constexpr std::string_view kOutside = "BP_INVALID_ARGUMENT for a range outside its memory.";
  const auto add_refused = [&](const char* name, std::string_view proves, Range range,
                               uint32_t access, bp_status expected) {
    add(std::string("refused.") + name, proves,
        [=](Context& context) { refused(context, range, access, expected); });
  };
  add_refused("one_too_long", kOutside, {0, 65}, kBoth, BP_INVALID_ARGUMENT);
  add_refused("behind_the_end", kOutside, {65, 1}, kBoth, BP_INVALID_ARGUMENT);
  add_refused("wraps", kOutside, {8, SIZE_MAX - 7}, kBoth, BP_INVALID_ARGUMENT);
  add_refused("offset_wraps", kOutside, {SIZE_MAX - 3, 8}, kBoth, BP_INVALID_ARGUMENT);
  add_refused("no_bytes", "bytes is more than 0.", {0, 0}, kBoth, BP_INVALID_ARGUMENT);
  add_refused("no_access", "At least one BP_MAP_*_BIT.", {0, 8}, 0, BP_INVALID_ARGUMENT);
  add_refused("unknown_access", "An unknown bit is BP_UNSUPPORTED.", {0, 8}, 1U << 20 | kBoth,
              BP_UNSUPPORTED);
  add("without_memory", "handle 0 means no memory.", without_memory);
  constexpr std::string_view kUnmap = "BP_INVALID_ARGUMENT for a pointer that is not mapped.";
  add("unmap_of_nothing", kUnmap, unmap_of_nothing);
  add("unmap_twice", kUnmap, unmap_twice);
  add("unmap_on_another_thread", "mem_unmap is any-thread.", unmap_on_another_thread);
}

}  // namespace bp::conform
