// SPDX-License-Identifier: Apache-2.0
//
// The fixture and small helpers of the xpu tests.
#include "xpu_test_support.hpp"

#include <cstddef>
#include <filesystem>

#include "tests/living_threads.hpp"

namespace bp::xpu_test {
namespace {

size_t entry_count(const char* folder) {
  const std::filesystem::directory_iterator begin(folder);
  return static_cast<size_t>(std::distance(begin, std::filesystem::directory_iterator()));
}

}  // namespace

tests::Entry load_entry() { return tests::load_entry(BP_XPU_PLUGIN_PATH); }

bp_plugin load_plugin() { return tests::load_plugin(BP_XPU_PLUGIN_PATH); }

void XpuTest::SetUp() {
  plugin_ = load_plugin();
  ASSERT_NE(plugin_.root, nullptr);
  instance_.emplace(plugin_, kWithoutCache);
  if (instance_->status() == BP_UNAVAILABLE) GTEST_SKIP() << services().last_message();
  ASSERT_EQ(instance_->status(), BP_OK) << services().last_message();
  ASSERT_EQ(instance_->open(0, {}, &device_), BP_OK) << services().last_message();
}

void XpuTest::TearDown() {
  if (device_ != nullptr) {
    EXPECT_EQ(plugin_.device->device_close(device_), BP_OK);
  }
  instance_.reset();
}

uint64_t XpuTest::alloc(uint64_t bytes) {
  const bp_alloc_args args{.struct_size = sizeof(bp_alloc_args),
                           .flags = 0,
                           .bytes = bytes,
                           .alignment_bytes = 0,
                           .usage = BP_USAGE_ACTIVATIONS,
                           .reserved = 0};
  uint64_t handle = 0;
  EXPECT_EQ(plugin_.memory->mem_alloc(device_, &args, &handle), BP_OK) << services().last_message();
  return handle;
}

void XpuTest::free(uint64_t handle) {
  EXPECT_EQ(plugin_.memory->mem_free(device_, handle), BP_OK) << services().last_message();
}

bp_status XpuTest::copy(uint32_t kind, bp_mem dst, bp_mem src, uint64_t bytes, bp_stream* stream) {
  const bp_copy_args args{.struct_size = sizeof(bp_copy_args),
                          .flags = 0,
                          .kind = kind,
                          .reserved = 0,
                          .dst = dst,
                          .src = src,
                          .bytes = bytes};
  return stream != nullptr ? plugin_.stream->mem_copy_async(stream, &args)
                           : plugin_.memory->mem_copy(device_, &args);
}

bp_status XpuTest::upload(bp_mem dst, const void* src, uint64_t bytes, bp_stream* stream) {
  return copy(BP_COPY_HOST_TO_DEVICE, dst, host_mem(src), bytes, stream);
}

bp_status XpuTest::download(void* dst, bp_mem src, uint64_t bytes, bp_stream* stream) {
  return copy(BP_COPY_DEVICE_TO_HOST, host_mem(dst), src, bytes, stream);
}

bp_status XpuTest::fill(bp_mem dst, uint64_t bytes, uint64_t pattern, uint32_t pattern_bytes,
                        bp_stream* stream) {
  const bp_fill_args args{.struct_size = sizeof(bp_fill_args),
                          .flags = 0,
                          .dst = dst,
                          .bytes = bytes,
                          .pattern = pattern,
                          .pattern_bytes = pattern_bytes,
                          .reserved = 0,
                          .stream = stream};
  return plugin_.memory->mem_fill(device_, &args);
}

bp_status XpuTest::host_alloc(uint64_t bytes, void** out_ptr) {
  const bp_host_alloc_args args{
      .struct_size = sizeof(bp_host_alloc_args), .flags = 0, .bytes = bytes};
  return plugin_.memory->host_alloc(device_, &args, out_ptr);
}

bp_stream* XpuTest::make_stream() {
  const bp_stream_args args{.struct_size = sizeof(bp_stream_args), .flags = 0};
  bp_stream* stream = nullptr;
  EXPECT_EQ(plugin_.stream->stream_create(device_, &args, &stream), BP_OK)
      << services().last_message();
  return stream;
}

bp_event* XpuTest::make_event(uint32_t flags) {
  const bp_event_args args{.struct_size = sizeof(bp_event_args), .flags = flags};
  bp_event* event = nullptr;
  EXPECT_EQ(plugin_.stream->event_create(device_, &args, &event), BP_OK)
      << services().last_message();
  return event;
}

const bp_kernel* XpuTest::find_kernel(std::string_view op) {
  bp_kernel_list list{};
  list.struct_size = sizeof(list);
  EXPECT_EQ(plugin_.kernel->kernel_list(device_, &list), BP_OK);
  for (uint64_t i = 0; i < list.kernel_count; ++i) {
    if (tests::text_of(list.kernels[i]->op) == op) return list.kernels[i];
  }
  ADD_FAILURE() << "no kernel for " << op;
  return nullptr;
}

std::vector<uint8_t> XpuTest::read_bytes(uint64_t handle, uint64_t bytes) {
  std::vector<uint8_t> data(bytes);
  EXPECT_EQ(download(data.data(), {handle, 0}, bytes), BP_OK) << services().last_message();
  return data;
}

size_t open_file_count() { return entry_count("/proc/self/fd"); }

size_t thread_count() { return tests::living_threads().size(); }

}  // namespace bp::xpu_test
