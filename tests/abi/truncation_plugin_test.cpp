// SPDX-License-Identifier: Apache-2.0
//
// What the core hands to a plugin, at every size, to each plugin of this build: argument structs as
// an older core has them, out structs that end early, shorter host tables. Each is allocated at
// exactly the size it claims. A struct that has its required part must work; a shorter one may be
// refused, and nothing beyond it is touched.
#include "plugin_fixture.hpp"

namespace bp::abi {
namespace {

constexpr uint64_t kBytes = 4096;
constexpr uint32_t kHead = 8;

class TruncatedArgs : public PluginTest {};
class TruncatedOut : public PluginTest {};
class TruncatedHost : public PluginTest {};

TEST_P(TruncatedArgs, Init_ConfigOfEverySize_IsReadToItsEnd) {
  bp_config config{};
  config.abi_semantics = BP_ABI_CURRENT;
  for_each_size<bp_config>([&](uint32_t bytes) {
    Truncated<bp_config> args(config, bytes);
    tests::RecordingHost context;
    bp_instance* instance = nullptr;
    const bp_status status =
        root().init(tests::RecordingHost::api(), &context, args.get(), &instance);
    expect_status(status, bytes, BP_UP_TO(bp_config, option_values));
    if (instance != nullptr) {
      EXPECT_EQ(root().shutdown(instance), BP_OK);
    }
  });
}

TEST_P(TruncatedArgs, DeviceOpen_ArgsOfEverySize_AreReadToTheirEnd) {
  const bp_open_args whole{};
  for_each_size<bp_open_args>([&](uint32_t bytes) {
    Truncated<bp_open_args> args(whole, bytes);
    bp_device* opened = nullptr;
    const bp_status status = device_api().device_open(instance(), args.get(), &opened);
    expect_status(status, bytes, BP_UP_TO(bp_open_args, option_values));
    if (opened != nullptr) {
      EXPECT_EQ(device_api().device_close(opened), BP_OK);
    }
  });
}

TEST_P(TruncatedArgs, MemAlloc_ArgsOfEverySize_AreReadToTheirEnd) {
  bp_alloc_args whole{};
  whole.bytes = kBytes;
  whole.alignment_bytes = 64;
  whole.usage = BP_USAGE_WEIGHTS;
  for_each_size<bp_alloc_args>([&](uint32_t bytes) {
    Truncated<bp_alloc_args> args(whole, bytes);
    uint64_t handle = 0;
    const bp_status status = memory().mem_alloc(device(), args.get(), &handle);
    expect_status(status, bytes, BP_UP_TO(bp_alloc_args, alignment_bytes));
    if (status == BP_OK) free(handle);
  });
}

TEST_P(TruncatedArgs, MemCopy_ArgsOfEverySize_AreReadToTheirEnd) {
  const uint64_t handle = alloc(kBytes);
  std::vector<std::byte> host(kBytes, std::byte{0x5c});
  bp_copy_args whole{};
  whole.kind = BP_COPY_HOST_TO_DEVICE;
  whole.dst = {handle, 0};
  whole.src = {reinterpret_cast<uint64_t>(host.data()), 0};
  whole.bytes = kBytes;
  for_each_size<bp_copy_args>([&](uint32_t bytes) {
    Truncated<bp_copy_args> args(whole, bytes);
    expect_status(memory().mem_copy(device(), args.get()), bytes, BP_UP_TO(bp_copy_args, bytes));
  });
  free(handle);
}

TEST_P(TruncatedArgs, MemFill_ArgsOfEverySize_AreReadToTheirEnd) {
  if (!has(BP_FEATURE_FILL_BIT)) GTEST_SKIP() << "the device has no band FILL";
  const uint64_t handle = alloc(kBytes);
  bp_fill_args whole{};
  whole.dst = {handle, 0};
  whole.bytes = kBytes;
  whole.pattern = 0x77;
  whole.pattern_bytes = 4;
  for_each_size<bp_fill_args>([&](uint32_t bytes) {
    Truncated<bp_fill_args> args(whole, bytes);
    expect_status(memory().mem_fill(device(), args.get()), bytes,
                  BP_UP_TO(bp_fill_args, pattern_bytes));
  });
  free(handle);
}

TEST_P(TruncatedArgs, HostAlloc_ArgsOfEverySize_AreReadToTheirEnd) {
  if (!has(BP_FEATURE_PINNED_BIT)) GTEST_SKIP() << "the device has no band PINNED";
  bp_host_alloc_args whole{};
  whole.bytes = kBytes;
  for_each_size<bp_host_alloc_args>([&](uint32_t bytes) {
    Truncated<bp_host_alloc_args> args(whole, bytes);
    void* ptr = nullptr;
    const bp_status status = memory().host_alloc(device(), args.get(), &ptr);
    expect_status(status, bytes, BP_UP_TO(bp_host_alloc_args, bytes));
    if (status == BP_OK) {
      EXPECT_EQ(memory().host_free(device(), ptr), BP_OK);
    }
  });
}

TEST_P(TruncatedArgs, MemMap_ArgsOfEverySize_AreReadToTheirEnd) {
  if (!has(BP_FEATURE_MAP_BIT)) GTEST_SKIP() << "the device has no band MAP";
  const uint64_t handle = alloc(kBytes);
  bp_map_args whole{};
  whole.mem = {handle, 0};
  whole.bytes = kBytes;
  whole.access = BP_MAP_READ_BIT;
  for_each_size<bp_map_args>([&](uint32_t bytes) {
    Truncated<bp_map_args> args(whole, bytes);
    void* mapped = nullptr;
    const bp_status status = memory().mem_map(device(), args.get(), &mapped);
    expect_status(status, bytes, BP_UP_TO(bp_map_args, access));
    if (status == BP_OK) {
      EXPECT_EQ(memory().mem_unmap(device(), mapped), BP_OK);
    }
  });
  free(handle);
}

TEST_P(TruncatedArgs, StreamsAndEvents_ArgsOfEverySize_AreReadToTheirEnd) {
  if (!has(BP_FEATURE_ASYNC_BIT)) GTEST_SKIP() << "the device has no band ASYNC";
  for_each_size<bp_stream_args>([&](uint32_t bytes) {
    Truncated<bp_stream_args> args({}, bytes);
    bp_stream* made = nullptr;
    const bp_status status = stream().stream_create(device(), args.get(), &made);
    expect_status(status, bytes, kHead);
    if (made != nullptr) {
      EXPECT_EQ(stream().stream_destroy(made), BP_OK);
    }
  });
  for_each_size<bp_event_args>([&](uint32_t bytes) {
    Truncated<bp_event_args> args({}, bytes);
    bp_event* made = nullptr;
    const bp_status status = stream().event_create(device(), args.get(), &made);
    expect_status(status, bytes, kHead);
    if (made != nullptr) {
      EXPECT_EQ(stream().event_destroy(made), BP_OK);
    }
  });
}

TEST_P(TruncatedArgs, MemCopyAsync_ArgsOfEverySize_AreReadToTheirEnd) {
  if (!has(BP_FEATURE_ASYNC_BIT)) GTEST_SKIP() << "the device has no band ASYNC";
  const uint64_t handle = alloc(kBytes);
  std::vector<std::byte> host(kBytes);
  bp_copy_args whole{};
  whole.kind = BP_COPY_DEVICE_TO_HOST;
  whole.dst = {reinterpret_cast<uint64_t>(host.data()), 0};
  whole.src = {handle, 0};
  whole.bytes = kBytes;
  for_each_size<bp_copy_args>([&](uint32_t bytes) {
    const bp_stream_args stream_args{.struct_size = sizeof(bp_stream_args), .flags = 0};
    bp_stream* made = nullptr;
    ASSERT_EQ(stream().stream_create(device(), &stream_args, &made), BP_OK);
    Truncated<bp_copy_args> args(whole, bytes);
    bp_status status = stream().mem_copy_async(made, args.get());
    if (status == BP_OK) status = stream().stream_sync(made, 60'000'000'000);
    expect_status(status, bytes, BP_UP_TO(bp_copy_args, bytes));
    EXPECT_EQ(stream().stream_destroy(made), BP_OK);
  });
  free(handle);
}

// --- out structs ---

/// What lies in the struct after the call, and that the plugin left its size alone.
template <class T>
void expect_size_kept(const Truncated<T>& out, uint32_t bytes) {
  EXPECT_EQ(out.struct_size(), bytes);
}

TEST_P(TruncatedOut, DeviceProps_OfEverySize_AreFilledToTheirEnd) {
  bp_device_props full{};
  full.struct_size = sizeof(full);
  ASSERT_EQ(device_api().device_props(device(), &full), BP_OK);
  for_each_size<bp_device_props>([&](uint32_t bytes) {
    Truncated<bp_device_props> out({}, bytes);
    EXPECT_EQ(device_api().device_props(device(), out.get()), BP_OK) << bytes;
    expect_size_kept(out, bytes);
    const bp_device_props found = out.whole();
    const size_t compared = bytes < kHead ? 0 : bytes - bytes % 8 - sizeof(found.struct_size);
    EXPECT_EQ(std::memcmp(&found.flags, &full.flags, compared), 0) << bytes;
  });
}

/// A stream of the plugin's, ended at the end.
class OwnStream {
 public:
  OwnStream(const bp_stream_api& api, bp_device* device) : api_(api) {
    const bp_stream_args args{.struct_size = sizeof(bp_stream_args), .flags = 0};
    EXPECT_EQ(api.stream_create(device, &args, &stream_), BP_OK);
  }
  ~OwnStream() { EXPECT_EQ(api_.stream_destroy(stream_), BP_OK); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  bp_stream* get() const { return stream_; }

 private:
  const bp_stream_api& api_;
  bp_stream* stream_ = nullptr;
};

TEST_P(TruncatedOut, NativeStream_OfEverySize_IsFilledToItsEnd) {
  if (!has(BP_FEATURE_NATIVE_BIT)) GTEST_SKIP() << "the device has no band NATIVE";
  const OwnStream own(stream(), device());
  for_each_size<bp_native_stream>([&](uint32_t bytes) {
    Truncated<bp_native_stream> out({}, bytes);
    const bp_status status = stream().stream_native_handle(own.get(), out.get());
    expect_status(status, bytes, BP_UP_TO(bp_native_stream, kind));
    expect_size_kept(out, bytes);
    const bool has_handle = bytes >= BP_UP_TO(bp_native_stream, handle);
    EXPECT_EQ(out.whole().handle != 0, has_handle && status == BP_OK) << bytes;
  });
}

TEST_P(TruncatedArgs, StreamWrap_ArgsOfEverySize_AreReadToTheirEnd) {
  if (!has(BP_FEATURE_NATIVE_BIT)) GTEST_SKIP() << "the device has no band NATIVE";
  const OwnStream own(stream(), device());
  bp_native_stream native{};
  native.struct_size = sizeof(native);
  ASSERT_EQ(stream().stream_native_handle(own.get(), &native), BP_OK);
  bp_stream_wrap_args whole{};
  whole.handle = native.handle;
  whole.kind = native.kind;
  for_each_size<bp_stream_wrap_args>([&](uint32_t bytes) {
    Truncated<bp_stream_wrap_args> args(whole, bytes);
    bp_stream* wrapped = nullptr;
    const bp_status status = stream().stream_wrap(device(), args.get(), &wrapped);
    expect_status(status, bytes, BP_UP_TO(bp_stream_wrap_args, kind));
    EXPECT_EQ(wrapped != nullptr, status == BP_OK) << bytes;
    if (wrapped != nullptr) {
      EXPECT_EQ(stream().stream_destroy(wrapped), BP_OK);
    }
  });
}

TEST_P(TruncatedOut, KernelList_OfEverySize_IsFilledToItsEnd) {
  for_each_size<bp_kernel_list>([&](uint32_t bytes) {
    Truncated<bp_kernel_list> out({}, bytes);
    EXPECT_EQ(kernel_api().kernel_list(device(), out.get()), BP_OK) << bytes;
    expect_size_kept(out, bytes);
    const bp_kernel_list found = out.whole();
    EXPECT_EQ(found.kernel_count != 0, bytes >= BP_UP_TO(bp_kernel_list, kernel_count)) << bytes;
  });
}

TEST_P(TruncatedOut, Entry_PluginOfEverySize_IsFilledToItsEnd) {
  for_each_size<bp_plugin>([&](uint32_t bytes) {
    Truncated<bp_plugin> out({}, bytes);
    EXPECT_EQ(entry()(BP_ABI_CURRENT, out.get()), BP_OK) << bytes;
    expect_size_kept(out, bytes);
    const bp_plugin found = out.whole();
    EXPECT_EQ(found.root != nullptr, bytes >= BP_UP_TO(bp_plugin, root)) << bytes;
    EXPECT_EQ(found.kernel != nullptr, bytes >= BP_UP_TO(bp_plugin, kernel)) << bytes;
  });
}

// --- the host table ---

TEST_P(TruncatedHost, Init_HostTableOfEverySize_IsReadToItsEnd) {
  bp_config config{};
  config.struct_size = sizeof(config);
  for_each_size<bp_host_api>([&](uint32_t bytes) {
    Truncated<bp_host_api> host(*tests::RecordingHost::api(), bytes);
    tests::RecordingHost context;
    bp_instance* instance = nullptr;
    ASSERT_EQ(root().init(host.get(), &context, &config, &instance), BP_OK) << bytes;
    bp_open_args args{};
    args.struct_size = sizeof(args);
    args.index = 4000;
    bp_device* none = nullptr;
    EXPECT_EQ(device_api().device_open(instance, &args, &none), BP_INVALID_ARGUMENT);
    // Words arrive where the host takes them; without, the status alone tells.
    EXPECT_EQ(!context.reports().empty(), bytes >= BP_UP_TO(bp_host_api, report)) << bytes;
    EXPECT_EQ(root().shutdown(instance), BP_OK);
  });
}

#define BP_FOR_PLUGINS(suite)                                                   \
  INSTANTIATE_TEST_SUITE_P(Plugins, suite, testing::ValuesIn(plugin_folders()), \
                           testing::PrintToStringParamName())
BP_FOR_PLUGINS(TruncatedArgs);
BP_FOR_PLUGINS(TruncatedOut);
BP_FOR_PLUGINS(TruncatedHost);

}  // namespace
}  // namespace bp::abi
