// SPDX-License-Identifier: Apache-2.0
#include "ops/onnx/external_data.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "core/base/quoted.hpp"

namespace bp::onnx {
namespace {

Status bad_place(const std::string& words) {
  return {BP_INVALID_ARGUMENT, "external data: " + words};
}

// In the order of kKeys.
enum Key { kLocation, kOffset, kLength, kChecksum, kKeyCount };
constexpr std::array<std::string_view, kKeyCount> kKeys = {"location", "offset", "length",
                                                           "checksum"};

using Entries = std::array<std::optional<std::string_view>, kKeyCount>;

Result<Entries> read_entries(std::span<const StringEntryProto> given) {
  Entries entries;
  for (const StringEntryProto& entry : given) {
    const auto key = std::find(kKeys.begin(), kKeys.end(), entry.key);
    if (key == kKeys.end()) {
      return bad_place("key " + quoted(entry.key) +
                       " is not known, only location, offset, length and checksum");
    }
    auto& place = entries[static_cast<size_t>(key - kKeys.begin())];
    if (place) return bad_place(std::string(entry.key) + " is given twice");
    place = entry.value;
  }
  if (!entries[kLocation]) return bad_place("location is missing");
  return entries;
}

/// Digits only: a sign would wrap.
Result<uint64_t> number(const Entries& entries, Key key, uint64_t default_value) {
  if (!entries[key]) return default_value;
  const std::string_view text = *entries[key];
  uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec == std::errc() && parsed.ptr == text.data() + text.size()) return value;
  return bad_place(std::string(kKeys[key]) + " is " + quoted(text) +
                   ", expected a whole number of bytes");
}

/// Where the files lie that a model names.
std::string folder_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return std::string(slash == 0 ? "/" : path.substr(0, slash));
}

}  // namespace

ExternalData::ExternalData(const std::string& model_path, FileAccess access)
    : path_(folder_of(model_path)),
      store_(ClosedFolder::behind_link(model_path)),
      access_(std::move(access)) {}

Result<FileBytes> ExternalData::file(std::string_view location) {
  const auto known = files_.find(location);
  if (known != files_.end()) return known->second;
  if (folder_ == nullptr) {
    BP_TRY_ASSIGN(folder_, ClosedFolder::open(path_));
  }
  auto found = folder_->bytes(location, access_);
  if (!found.ok() && !store_.empty() && folder_->is_link(location)) {
    found = folder_->link_bytes(location, store_, access_);
  }
  BP_TRY(found);
  files_.emplace(std::string(location), *found);
  return found;
}

Result<ExternalBytes> ExternalData::find(std::span<const StringEntryProto> given,
                                         uint64_t wanted_bytes) {
  BP_TRY_ASSIGN(const Entries entries, read_entries(given));
  BP_TRY_ASSIGN(const uint64_t offset, number(entries, kOffset, 0));
  BP_TRY_ASSIGN(const uint64_t length, number(entries, kLength, wanted_bytes));
  auto found = file(*entries[kLocation]);
  if (!found.ok()) return found.status().with_prefix("external data");
  const std::span<const std::byte> all = found->bytes;
  if (offset > all.size() || length > all.size() - offset) {
    return bad_place("expected " + std::to_string(length) + " bytes at byte " +
                     std::to_string(offset) + " of " + quoted(*entries[kLocation]) +
                     ", which has " + std::to_string(all.size()));
  }
  return ExternalBytes{all.subspan(offset, length), found->owner, found->mapped};
}

}  // namespace bp::onnx
