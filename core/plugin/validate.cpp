// SPDX-License-Identifier: Apache-2.0
//
// Step 7: the plugin's tables become the core's. Sizes and bits are never compared for equality: a
// shorter table is an older plugin, a longer one a newer. Each band is there whole or not at all.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

#include "core/base/utf8.hpp"
#include "core/plugin/load_steps.hpp"

namespace bp {
namespace {

/// Slots that go together; they follow each other in the table.
struct Band {
  std::string_view name;  // empty: required
  uint32_t bit;           // BP_FEATURE_*_BIT
  size_t begin;           // offsets
  size_t end;
  std::string_view slots;
};

// A band ends behind its last slot, never with the table: tables grow, bands do not.
#define BP_FROM(table, slot) offsetof(bp_##table##_api, slot)
#define BP_BEHIND(table, slot) BP_FROM(table, slot) + sizeof(bp_##table##_api::slot)
constexpr Band kRoot[] = {{"", 0, 8, BP_BEHIND(root, shutdown), "init shutdown"}};
constexpr Band kDevice[] = {{"", 0, 8, BP_BEHIND(device, device_props),
                             "device_count device_open device_close device_props"}};
constexpr Band kMemory[] = {{"", 0, 8, BP_FROM(memory, mem_fill), "mem_alloc mem_free mem_copy"},
                            {"FILL", BP_FEATURE_FILL_BIT, BP_FROM(memory, mem_fill),
                             BP_FROM(memory, host_alloc), "mem_fill"},
                            {"PINNED", BP_FEATURE_PINNED_BIT, BP_FROM(memory, host_alloc),
                             BP_FROM(memory, mem_map), "host_alloc host_free"},
                            {"MAP", BP_FEATURE_MAP_BIT, BP_FROM(memory, mem_map),
                             BP_BEHIND(memory, mem_unmap), "mem_map mem_unmap"}};
constexpr Band kStream[] = {
    {"ASYNC", BP_FEATURE_ASYNC_BIT, 8, BP_FROM(stream, event_elapsed),
     "stream_create stream_destroy stream_sync stream_query event_create event_destroy "
     "event_record event_wait event_sync event_query mem_copy_async stream_host_call"},
    {"TIMING", BP_FEATURE_TIMING_BIT, BP_FROM(stream, event_elapsed),
     BP_BEHIND(stream, event_elapsed), "event_elapsed"},
    {"NATIVE", BP_FEATURE_NATIVE_BIT, BP_FROM(stream, stream_native_handle),
     BP_BEHIND(stream, stream_wrap), "stream_native_handle stream_wrap"}};
constexpr Band kKernel[] = {{"", 0, 8, BP_BEHIND(kernel, kernel_list), "kernel_list"}};
#undef BP_BEHIND
#undef BP_FROM

Status check_band(std::string_view table, const Band& band, bool announced, std::byte* bytes) {
  constexpr std::byte kNull[sizeof(void*)] = {};
  const size_t band_bytes = band.end - band.begin;
  std::vector<std::string_view> missing;
  std::string_view names = band.slots;
  for (size_t at = band.begin; at < band.end; at += sizeof(kNull)) {
    const std::string_view name = names.substr(0, names.find(' '));
    names.remove_prefix(std::min(name.size() + 1, names.size()));
    if (std::memcmp(bytes + at, kNull, sizeof(kNull)) == 0) missing.push_back(name);
  }
  const bool absent = missing.size() == band_bytes / sizeof(kNull);
  if (!announced && missing.empty()) std::memset(bytes + band.begin, 0, band_bytes);
  if (missing.empty() || (!announced && absent)) return {};
  const std::string_view verb = announced ? "announces" : "has a part of";
  return fail(BP_INCOMPATIBLE, "table {}{} lacks {}", table,
              band.name.empty() ? "" : fmt::format(" {} band {} but", verb, band.name),
              fmt::join(missing, ", "));
}

template <class Table>
Status read_table(std::string_view name, std::span<const Band> bands,
                  const std::type_identity_t<Table>* theirs, Table* out) {
  const size_t required = bands[0].name.empty() ? bands[0].end : bands[0].begin;
  BP_TRY(copy_versioned(fmt::format("table {}", name), theirs, required, sizeof(Table), out));
  uint32_t known = 0;
  for (const Band& band : bands) {
    const bool announced = band.name.empty() || (out->flags & band.bit) != 0;
    BP_TRY(check_band(name, band, announced, reinterpret_cast<std::byte*>(out)));
    known |= band.bit;
  }
  out->flags &= known;
  return {};
}

/// A table through which a plugin offers work. A new one is a line here.
struct WorkTable {
  std::string_view name;
  const void* (*of)(const bp_plugin& offered);
};
constexpr WorkTable kWorkTables[] = {
    {"kernel", [](const bp_plugin& offered) -> const void* { return offered.kernel; }}};

Status check_offers_work(const bp_plugin& offered) {
  std::vector<std::string_view> names;
  for (const WorkTable& table : kWorkTables) {
    if (table.of(offered) != nullptr) return {};
    names.push_back(table.name);
  }
  return fail(BP_INCOMPATIBLE,
              "the plugin offers no work: expected at least one of these tables: {}; found none",
              fmt::join(names, ", "));
}

Status read_extensions(const bp_plugin& offered, std::vector<PluginExtension>* out) {
  constexpr uint64_t kMaxCount = 256;
  const uint64_t count = offered.extension_count;
  if (count > kMaxCount || (count != 0 && offered.extensions == nullptr)) {
    return fail(BP_INCOMPATIBLE, "extension list: expected at most {}, found {} at {}", kMaxCount,
                count, fmt::ptr(offered.extensions));
  }
  for (const bp_extension* theirs : std::span(offered.extensions, count)) {
    bp_extension own{};
    constexpr size_t kRequired = offsetof(bp_extension, table) + sizeof(own.table);
    BP_TRY(copy_versioned("extension", theirs, kRequired, sizeof(own), &own));
    if (own.table == nullptr || view(own.name).find('.') == std::string_view::npos) {
      return fail(BP_INCOMPATIBLE,
                  "extension '{}': expected a name like vendor.feature and a table",
                  view(own.name));
    }
    out->push_back({std::string(view(own.name)), own.version, own.table});
  }
  return {};
}

}  // namespace

Status copy_versioned(std::string_view what, const void* theirs, size_t required_bytes,
                      size_t our_bytes, void* out) {
  constexpr uint32_t kMaxBytes = 64 * 1024;
  if (theirs == nullptr) return fail(BP_INCOMPATIBLE, "{}: the pointer is null", what);
  uint32_t size = 0;
  std::memcpy(&size, theirs, sizeof(size));
  if (size < required_bytes || size > kMaxBytes || size % 8 != 0) {
    return fail(BP_INCOMPATIBLE, "{}: struct_size is {}, expected a multiple of 8 from {} to {}",
                what, size, required_bytes, kMaxBytes);
  }
  std::memset(out, 0, our_bytes);
  std::memcpy(out, theirs, std::min<size_t>(size, our_bytes));
  size = static_cast<uint32_t>(our_bytes);
  std::memcpy(out, &size, sizeof(size));
  return {};
}

bool is_readable(bp_str text) {
  return text.len == 0 || (text.ptr && text.len <= 4096 && is_utf8({text.ptr, text.len}));
}

std::string_view view(bp_str text) {
  return is_readable(text) ? std::string_view(text.ptr, text.len) : std::string_view();
}

Status validate_tables(Attempt* attempt) {
  const bp_plugin& offered = attempt->offered;
  PluginTables& tables = attempt->parts.tables;
  tables.flags = offered.flags & BP_PLUGIN_SINGLE_INSTANCE_BIT;
  tables.stream.struct_size = sizeof(bp_stream_api);
  BP_TRY(read_table("root", kRoot, offered.root, &tables.root));
  BP_TRY(read_table("device", kDevice, offered.device, &tables.device));
  BP_TRY(read_table("memory", kMemory, offered.memory, &tables.memory));
  if (offered.stream) BP_TRY(read_table("stream", kStream, offered.stream, &tables.stream));
  BP_TRY(check_offers_work(offered));
  if (offered.kernel) BP_TRY(read_table("kernel", kKernel, offered.kernel, &tables.kernel));
  return read_extensions(offered, &tables.extensions);
}

}  // namespace bp
