// SPDX-License-Identifier: Apache-2.0
//
// Tables of every size and content, allocated at exactly the size they claim, so that an address
// sanitizer sees one byte read too many.
#include <gmock/gmock.h>

#include <cstring>
#include <memory>

#include "core/plugin/load_steps.hpp"

namespace bp {
namespace {

using testing::HasSubstr;

/// Memory whose every slot is set (to a value that nobody calls), of exactly `bytes`.
struct RawTable {
  RawTable(uint32_t bytes, uint32_t flags) : memory(new std::byte[bytes]) {
    std::memset(memory.get(), 0x5a, bytes);
    std::memcpy(memory.get(), &bytes, sizeof(bytes));
    std::memcpy(memory.get() + 4, &flags, sizeof(flags));
  }
  template <class Table>
  const Table* as() const {
    return reinterpret_cast<const Table*>(memory.get());
  }
  void clear(size_t offset) { std::memset(memory.get() + offset, 0, sizeof(void*)); }

  std::unique_ptr<std::byte[]> memory;
};

struct Tables {
  RawTable root{sizeof(bp_root_api), 0};
  RawTable device{sizeof(bp_device_api), 0};
  RawTable memory{sizeof(bp_memory_api),
                  BP_FEATURE_FILL_BIT | BP_FEATURE_PINNED_BIT | BP_FEATURE_MAP_BIT};
  RawTable stream{sizeof(bp_stream_api),
                  BP_FEATURE_ASYNC_BIT | BP_FEATURE_TIMING_BIT | BP_FEATURE_NATIVE_BIT};
  RawTable kernel{sizeof(bp_kernel_api), 0};

  Status validate(PluginTables* out) const {
    const LoadOptions options;
    const PluginSet set;
    Attempt attempt{.options = options, .earlier = set, .entry_folder = "", .manifest_path = ""};
    attempt.offered.root = root.as<bp_root_api>();
    attempt.offered.device = device.as<bp_device_api>();
    attempt.offered.memory = memory.as<bp_memory_api>();
    attempt.offered.stream = stream.as<bp_stream_api>();
    attempt.offered.kernel = kernel.as<bp_kernel_api>();
    const Status status = validate_tables(&attempt);
    *out = attempt.parts.tables;
    return status;
  }
  std::string error() const {
    PluginTables out;
    return validate(&out).message();
  }
};

TEST(ValidateTables, ValidateTables_WholeTables_AreCopied) {
  const Tables tables;
  PluginTables out;
  ASSERT_TRUE(tables.validate(&out).ok());
  EXPECT_EQ(std::memcmp(&out.root, tables.root.memory.get(), sizeof(out.root)), 0);
  EXPECT_EQ(std::memcmp(&out.device, tables.device.memory.get(), sizeof(out.device)), 0);
  EXPECT_EQ(std::memcmp(&out.memory, tables.memory.memory.get(), sizeof(out.memory)), 0);
  EXPECT_EQ(std::memcmp(&out.stream, tables.stream.memory.get(), sizeof(out.stream)), 0);
  EXPECT_EQ(std::memcmp(&out.kernel, tables.kernel.memory.get(), sizeof(out.kernel)), 0);
}

TEST(ValidateTables, ValidateTables_MemoryTableOfEverySize_IsCopiedOrRefused) {
  for (uint32_t bytes = 8; bytes <= sizeof(bp_memory_api) + 64; bytes += 8) {
    Tables tables;
    tables.memory = RawTable(bytes, 0);
    PluginTables out;
    const Status status = tables.validate(&out);
    const bool has_required = bytes >= offsetof(bp_memory_api, mem_fill);
    const bool splits_band =
        bytes == offsetof(bp_memory_api, host_free) || bytes == offsetof(bp_memory_api, mem_unmap);
    EXPECT_EQ(status.ok(), has_required && !splits_band) << bytes << status.to_string();
    if (!status.ok()) continue;
    EXPECT_EQ(out.memory.struct_size, sizeof(bp_memory_api));
    EXPECT_NE(out.memory.mem_copy, nullptr);
    EXPECT_EQ(out.memory.mem_fill, nullptr) << "not announced";
    EXPECT_EQ(out.memory.mem_unmap, nullptr);
  }
}

TEST(ValidateTables, ValidateTables_StreamTableOfEverySize_NeedsTheWholeBand) {
  for (uint32_t bytes = 8; bytes <= sizeof(bp_stream_api) + 64; bytes += 8) {
    Tables tables;
    tables.stream = RawTable(bytes, BP_FEATURE_ASYNC_BIT);
    PluginTables out;
    const bool splits_band = bytes == offsetof(bp_stream_api, stream_wrap);
    const bool whole = bytes >= offsetof(bp_stream_api, event_elapsed) && !splits_band;
    EXPECT_EQ(tables.validate(&out).ok(), whole) << bytes;
    if (whole) {
      EXPECT_NE(out.stream.stream_host_call, nullptr);
    }
    if (whole) {
      EXPECT_EQ(out.stream.event_elapsed, nullptr);
      EXPECT_EQ(out.stream.stream_wrap, nullptr) << "not announced";
    }
  }
}

TEST(ValidateTables, ValidateTables_TableThatIsNotAligned_IsRefusedUnread) {
  Tables tables;
  const std::unique_ptr<std::byte[]> whole = std::move(tables.device.memory);
  tables.device.memory.reset(whole.get() + 4);
  EXPECT_EQ(tables.error(), "table device: the pointer is not aligned to 8 bytes");
  static_cast<void>(tables.device.memory.release());
}

TEST(ValidateTables, ValidateTables_EachSlotMissing_IsNamed) {
  const std::pair<size_t, std::string> slots[] = {
      {offsetof(bp_memory_api, mem_alloc), "table memory lacks mem_alloc"},
      {offsetof(bp_memory_api, mem_copy), "table memory lacks mem_copy"},
      {offsetof(bp_memory_api, mem_fill), "table memory announces band FILL but lacks mem_fill"},
      {offsetof(bp_memory_api, host_free),
       "table memory announces band PINNED but lacks host_free"},
      {offsetof(bp_memory_api, mem_map), "table memory announces band MAP but lacks mem_map"}};
  for (const auto& [offset, words] : slots) {
    Tables tables;
    tables.memory.clear(offset);
    EXPECT_EQ(tables.error(), words);
  }
  Tables tables;
  tables.device.clear(offsetof(bp_device_api, device_open));
  tables.device.clear(offsetof(bp_device_api, device_props));
  EXPECT_EQ(tables.error(), "table device lacks device_open, device_props");
  Tables streams;
  streams.stream.clear(offsetof(bp_stream_api, event_query));
  EXPECT_EQ(streams.error(), "table stream announces band ASYNC but lacks event_query");
  Tables queues;
  queues.stream.clear(offsetof(bp_stream_api, stream_wrap));
  EXPECT_EQ(queues.error(), "table stream announces band NATIVE but lacks stream_wrap");
  queues.stream.clear(offsetof(bp_stream_api, stream_native_handle));
  EXPECT_EQ(queues.error(),
            "table stream announces band NATIVE but lacks stream_native_handle, stream_wrap");
}

TEST(ValidateTables, ValidateTables_PartOfABandThatIsNotAnnounced_IsRefused) {
  Tables tables;
  tables.memory = RawTable(sizeof(bp_memory_api), 0);
  tables.memory.clear(offsetof(bp_memory_api, host_alloc));
  EXPECT_EQ(tables.error(), "table memory has a part of band PINNED but lacks host_alloc");
}

TEST(ValidateTables, ValidateTables_UnknownBits_AreMasked) {
  Tables tables;
  tables.memory = RawTable(sizeof(bp_memory_api), ~uint32_t{0});
  tables.kernel = RawTable(sizeof(bp_kernel_api), ~uint32_t{0});
  PluginTables out;
  ASSERT_TRUE(tables.validate(&out).ok());
  EXPECT_EQ(out.memory.flags, BP_FEATURE_FILL_BIT | BP_FEATURE_PINNED_BIT | BP_FEATURE_MAP_BIT);
  EXPECT_EQ(out.kernel.flags, 0u);
}

TEST(ValidateTables, ValidateTables_ForeignSizes_AreRefused) {
  for (const uint32_t size : {0u, 4u, 7u, 12u, 65u, 65544u, 0xffffffffu}) {
    Tables tables;
    std::memcpy(tables.root.memory.get(), &size, sizeof(size));
    EXPECT_EQ(tables.error(), "table root: struct_size is " + std::to_string(size) +
                                  ", expected a multiple of 8 from 24 to 65536");
  }
}

TEST(ValidateTables, ValidateTables_ForeignExtensionLists_AreRefused) {
  const LoadOptions options;
  const PluginSet set;
  const Tables tables;
  Attempt attempt{.options = options, .earlier = set, .entry_folder = "", .manifest_path = ""};
  attempt.offered.root = tables.root.as<bp_root_api>();
  attempt.offered.device = tables.device.as<bp_device_api>();
  attempt.offered.memory = tables.memory.as<bp_memory_api>();
  attempt.offered.kernel = tables.kernel.as<bp_kernel_api>();
  attempt.offered.extension_count = 1;
  EXPECT_EQ(validate_tables(&attempt).message(),
            "extension list: extension_count is 1, but extensions is NULL");
  const bp_extension* const none[] = {nullptr};
  attempt.offered.extensions = none;
  EXPECT_EQ(validate_tables(&attempt).message(), "extension: the pointer is null");
  attempt.offered.extension_count = uint64_t{1} << 60;
  EXPECT_EQ(validate_tables(&attempt).message(),
            "extension list: expected at most 256, found 1152921504606846976");
  const int table = 0;
  bp_extension extension{sizeof(bp_extension), 0, {"a.b", 3}, 1, 0, &table};
  const bp_extension* const one[] = {&extension};
  attempt.offered.extensions = one;
  attempt.offered.extension_count = 1;
  EXPECT_TRUE(validate_tables(&attempt).ok());
  extension.name = {nullptr, 3};
  EXPECT_THAT(validate_tables(&attempt).message(), HasSubstr("extension ''"));
  extension.name = {"a.b", uint64_t{1} << 40};
  EXPECT_THAT(validate_tables(&attempt).message(), HasSubstr("extension ''"));
  extension.struct_size = 16;
  EXPECT_THAT(validate_tables(&attempt).message(), HasSubstr("struct_size is 16"));
}

}  // namespace
}  // namespace bp
