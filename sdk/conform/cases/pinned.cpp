// SPDX-License-Identifier: Apache-2.0
//
// Level 2: host memory of the device.
#include <algorithm>
#include <thread>

#include "sdk/conform/context.hpp"

namespace bp::conform {
namespace {

class Pinned {
 public:
  Pinned(Context& context, size_t bytes) : context_(context), bytes_(bytes) {
    void* ptr = nullptr;
    context_.require_ok(words("host_alloc of ", bytes, " bytes"), context_.host_alloc(bytes, &ptr));
    context_.require(ptr != nullptr, "a pointer that is not NULL");
    data_ = static_cast<std::byte*>(ptr);
  }
  ~Pinned() { free(); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  Pinned(Pinned&& other) noexcept
      : context_(other.context_),
        bytes_(other.bytes_),
        data_(std::exchange(other.data_, nullptr)) {}

  std::byte* data() const { return data_; }
  std::span<const std::byte> view() const { return {data_, bytes_}; }
  void write(const Bytes& content) { std::copy(content.begin(), content.end(), data_); }
  void free() {
    std::byte* data = std::exchange(data_, nullptr);
    if (data != nullptr) context_.expect_ok("host_free", context_.host_free(data));
  }

 private:
  Context& context_;
  size_t bytes_;
  std::byte* data_ = nullptr;
};

void of_size(Context& context, size_t bytes) {
  Pinned pinned(context, bytes);
  const Bytes content = make_bytes(bytes, 1);
  pinned.write(content);
  context.expect_bytes("the memory", pinned.view(), content);
  context.expect_equal("the address modulo 64", reinterpret_cast<uintptr_t>(pinned.data()) % 64,
                       0U);
}

void copies_both_ways(Context& context, size_t bytes, size_t offset) {
  Pinned source(context, bytes + offset);
  const Pinned destination(context, bytes + offset);
  source.write(make_bytes(bytes + offset, 2));
  const Memory memory(context, bytes);
  context.expect_ok("mem_copy from pinned memory",
                    context.copy(BP_COPY_HOST_TO_DEVICE, memory.at(),
                                 {host_end(source.data()).handle, offset}, bytes));
  context.expect_ok(
      "mem_copy to pinned memory",
      context.copy(BP_COPY_DEVICE_TO_HOST, {host_end(destination.data()).handle, offset},
                   memory.at(), bytes));
  context.expect_bytes("what came back", destination.view().subspan(offset),
                       source.view().subspan(offset));
}

void copies_in_a_stream(Context& context, size_t bytes) {
  Pinned source(context, bytes);
  const Pinned destination(context, bytes);
  source.write(make_bytes(bytes, 3));
  const Memory memory(context, bytes);
  const Stream stream(context);
  context.expect_ok("mem_copy_async from pinned memory",
                    context.copy_async(stream.get(), BP_COPY_HOST_TO_DEVICE, memory.at(),
                                       host_end(source.data()), bytes));
  context.expect_ok("mem_copy_async to pinned memory",
                    context.copy_async(stream.get(), BP_COPY_DEVICE_TO_HOST,
                                       host_end(destination.data()), memory.at(), bytes));
  stream.finish();
  context.expect_bytes("what came back", destination.view(), source.view());
}

void of_no_bytes(Context& context) {
  void* ptr = nullptr;
  context.expect_status("host_alloc of 0 bytes", context.host_alloc(0, &ptr), BP_INVALID_ARGUMENT);
  context.expect(ptr == nullptr, "no pointer after a failure");
}

void too_much(Context& context, uint64_t bytes) {
  void* ptr = nullptr;
  context.expect_status(words("host_alloc of ", bytes, " bytes"), context.host_alloc(bytes, &ptr),
                        BP_OUT_OF_MEMORY);
  context.expect(ptr == nullptr, "no pointer after a failure");
  of_size(context, 64);
}

void free_of_null(Context& context) {
  context.expect_status("host_free of NULL", context.host_free(nullptr), BP_INVALID_ARGUMENT);
}

void many_apart(Context& context, size_t count) {
  std::vector<Pinned> blocks;
  for (size_t i = 0; i < count; ++i) {
    blocks.emplace_back(context, 100);
    blocks.back().write(Bytes(100, static_cast<std::byte>(i)));
  }
  for (size_t i = 0; i < count; ++i) {
    context.expect_bytes(words("block ", i), blocks[i].view(),
                         Bytes(100, static_cast<std::byte>(i)));
  }
  for (Pinned& block : blocks) block.free();
}

void on_two_threads(Context& context) {
  std::unique_ptr<Pinned> pinned;
  std::thread([&] { pinned = std::make_unique<Pinned>(context, 4096); }).join();
  pinned->write(Bytes(4096, std::byte{1}));
  std::thread([&] { pinned->free(); }).join();
  context.expect(true, "memory of one thread, freed by another");
}

void on_many_threads(Context& context) {
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 8; ++t) {
    threads.emplace_back([&context, t] {
      try {
        for (uint32_t i = 0; i < 20; ++i) {
          Pinned pinned(context, 100 + i);
          const Bytes content = make_bytes(100 + i, t * 100 + i);
          pinned.write(content);
          context.expect_bytes("a thread's memory", pinned.view(), content);
        }
      } catch (const Stop&) {
        return;  // noted
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void again_and_again(Context& context) {
  for (int i = 0; i < 500; ++i) {
    Pinned pinned(context, 4096);
    pinned.data()[4095] = std::byte{1};
  }
  of_size(context, 64);
}

}  // namespace

void add_pinned_cases(CaseList* list) {
  const auto add = [list](const std::string& name, std::string_view proves,
                          std::function<void(Context&)> run, uint64_t bands = 0) {
    list->add({.id = "L2.pinned." + name,
               .proves = proves,
               .bands = BP_FEATURE_PINNED_BIT | bands,
               .run = std::move(run)});
  };
  constexpr std::string_view kSize = "host_alloc gives host memory, aligned to 64 bytes at least.";
  for (const size_t bytes : {1u, 63u, 64u, 65u, 4096u, 1048577u}) {
    add(words("size.", bytes), kSize, [=](Context& context) { of_size(context, bytes); });
    add(
        words("copies_async.", bytes), "Both ends of copies in a stream may be pinned memory.",
        [=](Context& context) { copies_in_a_stream(context, bytes); }, BP_FEATURE_ASYNC_BIT);
  }
  for (const size_t offset : {0u, 1u, 64u}) {
    add(words("copies_both_ways.offset.", offset), "Both ends of copies may be pinned memory.",
        [=](Context& context) { copies_both_ways(context, 5000, offset); });
  }
  add("no_bytes", "host_alloc of 0 bytes is BP_INVALID_ARGUMENT.", of_no_bytes);
  for (const uint64_t bytes : {UINT64_MAX, UINT64_MAX - 63, uint64_t{1} << 63}) {
    add(words("too_much.", bytes), "BP_OUT_OF_MEMORY for more than there is; nothing wraps.",
        [=](Context& context) { too_much(context, bytes); });
  }
  add("free_of_null", "host_free of NULL is BP_INVALID_ARGUMENT.", free_of_null);
  for (const size_t count : {2u, 200u}) {
    add(words("apart.", count), "Memories do not overlap.",
        [=](Context& context) { many_apart(context, count); });
  }
  add("on_two_threads", "host_free is any-thread.", on_two_threads);
  add("on_many_threads", "host_alloc is any-thread.", on_many_threads);
  add("again_and_again", "host_free gives memory back.", again_and_again);
}

}  // namespace bp::conform
