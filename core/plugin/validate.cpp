// SPDX-License-Identifier: Apache-2.0
//
// Step 7: the plugin's tables become the core's. Sizes and bits are never compared for equality: a
// shorter table is an older plugin, a longer one a newer. Each band is there whole or not at all.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "core/base/foreign_text.hpp"
#include "core/base/utf8.hpp"
#include "core/plugin/load_steps.hpp"
#include "core/plugin/slots.hpp"

namespace bp {
namespace {

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
  const std::string_view band_name = band.name;
  const bool absent = missing.size() == band_bytes / sizeof(kNull);
  if (!announced && missing.empty()) std::memset(bytes + band.begin, 0, band_bytes);
  if (missing.empty() || (!announced && absent)) return {};
  const std::string_view verb = announced ? "announces" : "has a part of";
  return fail(BP_INCOMPATIBLE, "table {}{} lacks {}", table,
              band_name.empty() ? "" : fmt::format(" {} band {} but", verb, band_name),
              fmt::join(missing, ", "));
}

/// The core's copy of a table; `own` is ApiTables' member. What the plugin may leave out is a table
/// without slots.
Status read_table(const TableInfo& table, const void* theirs, std::byte* own) {
  const auto bytes = static_cast<uint32_t>(table.bytes);
  std::memcpy(own, &bytes, sizeof(bytes));
  if (theirs == nullptr && !table.is_required) return {};
  BP_TRY(copy_versioned(fmt::format("table {}", table.name), theirs, alignof(void*),
                        table.required_bytes, table.bytes, own));
  uint32_t flags = 0;
  std::memcpy(&flags, own + sizeof(bytes), sizeof(flags));
  uint32_t known = 0;
  for (const Band& band : table.bands) {
    const bool announced = *band.name == 0 || (flags & band.bit) != 0;
    BP_TRY(check_band(table.name, band, announced, own));
    known |= static_cast<uint32_t>(band.bit);
  }
  flags &= known;
  std::memcpy(own + sizeof(bytes), &flags, sizeof(flags));
  return {};
}

Status check_offers_work(const bp_plugin& offered) {
  std::vector<std::string_view> names;
  for (const TableInfo& table : kTables) {
    if (!table.offers_work) continue;
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
  if (count > kMaxCount) {
    return fail(BP_INCOMPATIBLE, "extension list: expected at most {}, found {}", kMaxCount, count);
  }
  if (count != 0 && offered.extensions == nullptr) {
    return fail(BP_INCOMPATIBLE, "extension list: extension_count is {}, but extensions is NULL",
                count);
  }
  if (!is_aligned(offered.extensions)) {
    return fail(BP_INCOMPATIBLE, "extension list: extensions is not aligned to {} bytes",
                alignof(const bp_extension*));
  }
  for (const bp_extension* theirs : std::span(offered.extensions, count)) {
    bp_extension own{};
    BP_TRY(copy_versioned("extension", theirs, kRequiredBytes<bp_extension>, &own));
    if (own.table == nullptr || view(own.name).find('.') == std::string_view::npos) {
      return fail(BP_INCOMPATIBLE,
                  "extension '{}': expected a name like vendor.feature and a table",
                  foreign_text(view(own.name)));
    }
    out->push_back({std::string(view(own.name)), own.version, own.table});
  }
  return {};
}

}  // namespace

Status copy_versioned(std::string_view what, const void* theirs, size_t alignment_bytes,
                      size_t required_bytes, size_t our_bytes, void* out) {
  constexpr uint32_t kMaxBytes = 64 * 1024;
  if (theirs == nullptr) return fail(BP_INCOMPATIBLE, "{}: the pointer is null", what);
  if (reinterpret_cast<uintptr_t>(theirs) % alignment_bytes != 0) {
    return fail(BP_INCOMPATIBLE, "{}: the pointer is not aligned to {} bytes", what,
                alignment_bytes);
  }
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
  auto* const own = reinterpret_cast<std::byte*>(static_cast<ApiTables*>(&tables));
  for (const TableInfo& table : kTables) {
    BP_TRY(read_table(table, table.of(offered), own + table.offset));
  }
  BP_TRY(check_offers_work(offered));
  return read_extensions(offered, &tables.extensions);
}

}  // namespace bp
