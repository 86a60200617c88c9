// SPDX-License-Identifier: Apache-2.0
//
// Level 2: device memory comes and goes.
#include <algorithm>
#include <deque>
#include <set>
#include <thread>

#include "sdk/conform/context.hpp"

namespace bp::conform {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

void of_size(Context& context, uint64_t bytes) {
  Memory memory(context, bytes);
  const Bytes content = make_bytes(bytes, static_cast<uint32_t>(bytes));
  memory.write(content);
  memory.expect("the whole memory", content);
}

void of_no_bytes(Context& context) {
  uint64_t handle = 0;
  context.expect_status("mem_alloc of 0 bytes", context.mem_alloc(0, 0, &handle),
                        BP_INVALID_ARGUMENT);
  context.expect_equal("the handle after a failure", handle, 0U);
}

void aligned(Context& context, uint64_t alignment) {
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{100}, 3 * alignment + 1}) {
    Memory memory(context, bytes, alignment);
    const bool has_address = (context.table().props.flags & BP_DEVICE_ADDRESS_BIT) != 0;
    context.expect(
        !has_address || memory.handle() % alignment == 0,
        words("an address that is a multiple of ", alignment, "; found ", memory.handle()));
    const Bytes content = make_bytes(bytes, 1);
    memory.write(content);
    memory.expect("the memory", content);
  }
}

/// props say what mem_alloc gives at least.
void own_alignment(Context& context) {
  const uint64_t alignment = context.table().props.alignment_bytes;
  std::vector<Memory> memories;
  for (const uint64_t bytes : {1u, 3u, 65u, 1000u, 4097u}) {
    memories.emplace_back(context, bytes);
    context.expect_equal(words("the address of ", bytes, " bytes modulo ", alignment),
                         memories.back().handle() % alignment, 0U);
  }
}

void bad_alignment(Context& context, uint64_t alignment) {
  uint64_t handle = 0;
  context.expect_status(words("mem_alloc aligned to ", alignment),
                        context.mem_alloc(64, alignment, &handle), BP_INVALID_ARGUMENT);
  context.expect_equal("the handle after a failure", handle, 0U);
}

void too_much(Context& context, uint64_t bytes) {
  uint64_t handle = 0;
  context.expect_status(words("mem_alloc of ", bytes, " bytes"),
                        context.mem_alloc(bytes, 0, &handle), BP_OUT_OF_MEMORY);
  context.expect_equal("the handle after a failure", handle, 0U);
  of_size(context, 64);
}

void more_than_there_is(Context& context) {
  const bp_device_props& props = context.table().props;
  context.require(props.memory_bytes != 0 || props.max_alloc_bytes != 0, "a limit in the props");
  if (props.memory_bytes != 0) too_much(context, props.memory_bytes + 1);
  if (props.max_alloc_bytes != 0) too_much(context, props.max_alloc_bytes + 1);
}

/// Sums of size and alignment that wrap round.
void too_much_with_alignment(Context& context, uint64_t alignment) {
  uint64_t handle = 0;
  context.expect_status(words("mem_alloc of 2^64 - 1 bytes aligned to ", alignment),
                        context.mem_alloc(UINT64_MAX, alignment, &handle), BP_OUT_OF_MEMORY);
  context.expect_status(words("mem_alloc of 2^64 - ", alignment, " bytes"),
                        context.mem_alloc(UINT64_MAX - alignment + 1, alignment, &handle),
                        BP_OUT_OF_MEMORY);
  of_size(context, 64);
}

void all_apart(Context& context, size_t count) {
  std::vector<Memory> memories;
  std::vector<Bytes> contents;
  std::set<uint64_t> handles;
  for (size_t i = 0; i < count; ++i) {
    const size_t bytes = 1 + i * 37 % 500;
    contents.push_back(make_bytes(bytes, static_cast<uint32_t>(i)));
    memories.emplace_back(context, contents.back());
    handles.insert(memories.back().handle());
  }
  context.expect_equal("different handles", handles.size(), count);
  for (size_t i = 0; i < count; ++i) memories[i].expect(words("memory ", i), contents[i]);
}

void free_of_nothing(Context& context) {
  context.expect_status("mem_free of handle 0", context.mem_free(0), BP_INVALID_ARGUMENT);
}

void free_twice(Context& context) {
  uint64_t handle = 0;
  context.require_ok("mem_alloc", context.mem_alloc(64, 0, &handle));
  context.expect_ok("mem_free", context.mem_free(handle));
  context.expect_status("mem_free again", context.mem_free(handle), BP_INVALID_ARGUMENT);
  of_size(context, 64);
}

void free_of_the_middle(Context& context) {
  Memory memory(context, Bytes(4096, std::byte{1}));
  context.expect_status("mem_free of a handle + 64", context.mem_free(memory.handle() + 64),
                        BP_INVALID_ARGUMENT);
  memory.expect("the memory", Bytes(4096, std::byte{1}));
}

void free_on_another_thread(Context& context) {
  uint64_t handle = 0;
  std::thread([&] { context.require_ok("mem_alloc", context.mem_alloc(64, 0, &handle)); }).join();
  std::thread([&] { context.expect_ok("mem_free", context.mem_free(handle)); }).join();
}

void in_any_order(Context& context) {
  constexpr size_t kCount = 60;
  std::deque<Memory> memories;
  for (size_t i = 0; i < kCount; ++i) memories.emplace_back(context, 100 + i);
  for (size_t i = 0; i < kCount; i += 2) memories[i].free();
  for (size_t i = kCount - 1; i < kCount; i -= 2) memories[i].free();
  of_size(context, 1000);
}

void again_and_again(Context& context, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    Memory memory(context, 1000 + static_cast<uint64_t>(i) % 7);
    memory.write(Bytes(16, static_cast<std::byte>(i)));
  }
  of_size(context, 64);
}

void on_many_threads(Context& context) {
  constexpr uint32_t kThreads = 8;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&context, t] {
      try {
        for (uint32_t i = 0; i < 50; ++i) {
          const Bytes content = make_bytes(1 + i * 13, t * 1000 + i);
          const Memory memory(context, content);
          memory.expect("a thread's memory", content);
        }
      } catch (const Stop&) {
        return;  // noted
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// Every second piece is given back; what stays keeps its bytes, and the gaps are used again.
void fragmented(Context& context) {
  constexpr size_t kPieces = 32;
  std::deque<Memory> pieces;
  for (size_t i = 0; i < kPieces; ++i) {
    pieces.emplace_back(context, Bytes(64 * 1024, static_cast<std::byte>(i)));
  }
  for (size_t i = 0; i < kPieces; i += 2) pieces[i].free();
  std::deque<Memory> more;
  for (size_t i = 0; i < kPieces; ++i)
    more.emplace_back(context, Bytes(32 * 1024, std::byte{0x77}));
  for (size_t i = 1; i < kPieces; i += 2) {
    pieces[i].expect(words("piece ", i), Bytes(64 * 1024, static_cast<std::byte>(i)));
  }
}

/// Blocks until the device is full, at most 2,000.
std::deque<Memory> fill_up(Context& context, uint64_t block_bytes, bp_status* out_last) {
  std::deque<Memory> blocks;
  constexpr size_t kMostBlocks = 2000;
  for (*out_last = BP_OK; *out_last == BP_OK && blocks.size() < kMostBlocks;) {
    uint64_t handle = 0;
    *out_last = context.mem_alloc(block_bytes, 0, &handle);
    if (*out_last != BP_OK) break;
    context.require_ok("mem_free", context.mem_free(handle));
    blocks.emplace_back(context, block_bytes);
  }
  return blocks;
}

/// Up to the last byte, twice: the second time there is as much as the first time.
void until_it_is_full(Context& context) {
  const uint64_t block_bytes = context.table().props.memory_bytes / 16;
  size_t counts[2] = {};
  for (size_t& count : counts) {
    bp_status last = BP_OK;
    const std::deque<Memory> blocks = fill_up(context, block_bytes, &last);
    context.expect_status("mem_alloc of a full device", last, BP_OUT_OF_MEMORY);
    count = blocks.size();
  }
  context.expect(counts[0] > 0, "blocks before the device is full");
  context.expect_equal("blocks the second time", counts[1], counts[0]);
}

/// A part is given back in single blocks; then as many fit again.
void full_and_partly_free(Context& context, size_t free_percent) {
  const uint64_t block_bytes = context.table().props.memory_bytes / 64;
  bp_status last = BP_OK;
  std::deque<Memory> blocks = fill_up(context, block_bytes, &last);
  const size_t count = blocks.size();
  size_t freed = 0;
  for (size_t i = 0; i < count; ++i) {
    if ((i + 1) * free_percent / 100 == freed) continue;
    blocks[i].free();
    ++freed;
  }
  const std::deque<Memory> again = fill_up(context, block_bytes, &last);
  context.expect_equal("blocks that fit after some were given back", again.size(), freed);
}

void largest_fits(Context& context) {
  const bp_device_props& props = context.table().props;
  const uint64_t bytes = props.max_alloc_bytes != 0 ? props.max_alloc_bytes : props.memory_bytes;
  Memory memory(context, bytes);
  const Bytes content = make_bytes(64, 1);
  memory.write(content, bytes - content.size());
  Bytes found(content.size());
  context.expect_ok("mem_copy of the last bytes",
                    context.copy(BP_COPY_DEVICE_TO_HOST, host_end(found.data()),
                                 memory.at(bytes - content.size()), content.size()));
  context.expect_bytes("the last bytes", found, content);
}

/// The allocator of the core asks for such hints.
void with_usage(Context& context, uint32_t usage) {
  const bp_alloc_args args{sizeof(args), 0, 128, 0, usage, 0};
  uint64_t handle = 0;
  const DeviceTable& table = context.table();
  context.require_ok(words("mem_alloc for usage ", usage), table.mem_alloc(args, &handle));
  context.expect_ok("mem_free", context.mem_free(handle));
}

/// On a device whose memory the host reaches, its bytes are behind the address itself.
void host_reaches_it(Context& context) {
  Memory memory(context, Bytes(256));
  auto* bytes = reinterpret_cast<std::byte*>(memory.handle());
  const Bytes content = make_bytes(256, 6);
  std::copy(content.begin(), content.end(), bytes);
  memory.expect("what the host wrote", content);
  memory.write(Bytes(256, std::byte{9}));
  context.expect_bytes("what the host reads", {bytes, 256}, Bytes(256, std::byte{9}));
}

void add_sizes(CaseList* list) {
  const auto add = [list](const std::string& name, std::string_view proves,
                          std::function<void(Context&)> run) {
    list->add({.id = "L2.alloc." + name, .proves = proves, .run = std::move(run)});
  };
  for (const uint64_t bytes :
       {uint64_t{1}, uint64_t{2}, uint64_t{3}, uint64_t{7}, uint64_t{8}, uint64_t{63}, uint64_t{64},
        uint64_t{65}, uint64_t{255}, uint64_t{256}, uint64_t{257}, uint64_t{4095}, uint64_t{4096},
        uint64_t{4097}, uint64_t{65535}, uint64_t{65537}, kMiB, kMiB + 1, 16 * kMiB}) {
    add(words("size.", bytes), "mem_alloc gives memory of that size.",
        [=](Context& context) { of_size(context, bytes); });
  }
  for (uint64_t alignment = 1; alignment <= 4096; alignment *= 2) {
    add(words("alignment.", alignment), "alignment_bytes: any power of two.",
        [=](Context& context) { aligned(context, alignment); });
  }
  for (const uint64_t alignment : {3u, 5u, 6u, 7u, 12u, 24u, 48u, 100u, 4095u}) {
    add(words("bad_alignment.", alignment), "alignment_bytes is a power of two.",
        [=](Context& context) { bad_alignment(context, alignment); });
  }
  constexpr std::string_view kTooMuch = "BP_OUT_OF_MEMORY for more than there is; nothing wraps.";
  for (const uint64_t less : {uint64_t{0}, uint64_t{1}, uint64_t{63}, uint64_t{255}, uint64_t{4095},
                              UINT64_MAX / 2, UINT64_MAX - (uint64_t{1} << 48)}) {
    add(words("too_much.", UINT64_MAX - less), kTooMuch,
        [=](Context& context) { too_much(context, UINT64_MAX - less); });
  }
  for (const uint64_t alignment : {1u, 64u, 256u, 4096u}) {
    add(words("too_much_with_alignment.", alignment), kTooMuch,
        [=](Context& context) { too_much_with_alignment(context, alignment); });
  }
}

}  // namespace

void add_alloc_cases(CaseList* list) {
  const auto add = [list](const std::string& name, std::string_view proves,
                          std::function<void(Context&)> run, uint32_t needs = 0) {
    list->add({.id = "L2.alloc." + name, .proves = proves, .needs = needs, .run = std::move(run)});
  };
  add_sizes(list);
  add("no_bytes", "mem_alloc of 0 bytes is BP_INVALID_ARGUMENT.", of_no_bytes);
  add("own_alignment", "alignment_bytes is what mem_alloc gives at least.", own_alignment,
      kNeedAddress);
  add("more_than_there_is", "BP_OUT_OF_MEMORY for more than there is.", more_than_there_is);
  for (const size_t count : {2u, 100u, 1000u}) {
    add(words("all_apart.", count), "Handles differ, and memories do not overlap.",
        [=](Context& context) { all_apart(context, count); });
  }
  constexpr std::string_view kFree = "BP_INVALID_ARGUMENT for a handle that is not allocated.";
  add("free_of_nothing", kFree, free_of_nothing);
  add("free_twice", kFree, free_twice);
  add("free_of_the_middle", kFree, free_of_the_middle);
  add("free_on_another_thread", "mem_free is any-thread.", free_on_another_thread);
  add("in_any_order", "Memory is given back in any order.", in_any_order);
  for (const int rounds : {10, 1000}) {
    add(words("again_and_again.", rounds), "mem_free gives memory back.",
        [=](Context& context) { again_and_again(context, rounds); });
  }
  add("on_many_threads", "mem_alloc and mem_free are any-thread.", on_many_threads);
  add("fragmented", "What stays keeps its bytes.", fragmented);
  constexpr std::string_view kFull = "After BP_OUT_OF_MEMORY and mem_free, mem_alloc works again.";
  add("until_it_is_full", kFull, until_it_is_full, kNeedSmallMemory);
  for (const size_t percent : {50u, 90u, 99u}) {
    add(
        words("full_and_partly_free.", percent), kFull,
        [=](Context& context) { full_and_partly_free(context, percent); }, kNeedSmallMemory);
  }
  add("largest_fits", "The largest mem_alloc of the props is one that works.", largest_fits,
      kNeedSmallMemory);
  for (const uint32_t usage :
       {BP_USAGE_ACTIVATIONS, BP_USAGE_WEIGHTS, BP_USAGE_IO, BP_USAGE_COMM, 77U}) {
    add(words("usage.", usage), "usage is a hint.",
        [=](Context& context) { with_usage(context, usage); });
  }
  add("host_reaches_it", "HOST_MEMORY: the host may read and write there directly.",
      host_reaches_it, kNeedHostMemory);
}

}  // namespace bp::conform
