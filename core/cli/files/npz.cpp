// SPDX-License-Identifier: Apache-2.0
//
// Entries are unpacked whole: their checksum is only verified at their end.
#include "core/cli/files/npz.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/mapped_file.hpp"
#include "core/cli/files/npy.hpp"
#include "core/cli/files/zip.hpp"

namespace bp {
namespace {

Status bad_archive(const std::string& words) { return {BP_INVALID_ARGUMENT, words}; }

/// Reads no more than an array's header, and refuses an entry whose size is not its array's: a few
/// bytes may unpack to gigabytes.
Status check_size(const ZipEntry& entry) {
  std::vector<std::byte> front(std::min<uint64_t>(entry.size_bytes, kMaxNpyFrontBytes));
  BP_TRY_ASSIGN(const uint64_t found_bytes, unpack(entry, front));
  return check_npy_size({front.data(), found_bytes}, entry.size_bytes);
}

Result<HostTensor> read_entry(const ZipEntry& entry) {
  const uint64_t size_bytes = entry.size_bytes;
  if (size_bytes > kMaxNpyFrontBytes) BP_TRY(check_size(entry));
  // As alignment for the array inside: its header is a multiple of 64 bytes.
  void* memory = std::aligned_alloc(64, (size_bytes / 64 + 1) * 64);
  if (memory == nullptr) {
    return Status(BP_OUT_OF_MEMORY, "no host memory for " + std::to_string(size_bytes) + " bytes");
  }
  const std::shared_ptr<const void> owner(memory,
                                          [](const void* p) { std::free(const_cast<void*>(p)); });
  // One byte more than it should have: that finds entries that are longer.
  auto* bytes = static_cast<std::byte*>(memory);
  BP_TRY_ASSIGN(const uint64_t found_bytes, unpack(entry, {bytes, size_bytes + 1}));
  BP_TRY(check_unpacked(entry, {bytes, found_bytes}));
  return parse_npy({bytes, size_bytes}, owner);
}

Result<NamedTensors> read_arrays(std::span<const ZipEntry> entries,
                                 std::optional<std::string_view> only) {
  constexpr std::string_view kSuffix = ".npy";
  NamedTensors tensors;
  std::set<std::string> names;
  uint64_t left_bytes = kMaxUnpackedBytes;
  for (const ZipEntry& entry : entries) {
    const std::string_view name = entry.name;
    const std::string label = "array '" + std::string(name) + "'";
    if (!name.ends_with(kSuffix) || name.size() == kSuffix.size()) {
      return bad_archive(label + ": expected only .npy files in the archive");
    }
    const std::string_view array_name = name.substr(0, name.size() - kSuffix.size());
    if (!names.emplace(array_name).second) return bad_archive(label + " is there twice");
    if (entry.size_bytes > left_bytes) {
      return bad_archive(label + ": the arrays unpack to more than " +
                         std::to_string(kMaxUnpackedBytes) + " bytes");
    }
    left_bytes -= entry.size_bytes;
    if (only && array_name != *only) {
      tensors.emplace_back(array_name, HostTensor());
      continue;
    }
    auto tensor = read_entry(entry);
    if (!tensor.ok()) return tensor.status().with_prefix(label);
    tensors.emplace_back(array_name, *std::move(tensor));
  }
  if (tensors.empty()) return bad_archive("the archive holds no arrays");
  return tensors;
}

}  // namespace

Result<NamedTensors> read_npz(const std::string& path, std::optional<std::string_view> only) {
  BP_TRY_ASSIGN(const auto file, MappedFile::open(path, std::numeric_limits<int64_t>::max()));
  const auto entries = zip_entries(file->bytes());
  if (!entries.ok()) {
    return entries.status().with_prefix(path + ": not a valid .npz file (a zip archive)");
  }
  auto tensors = read_arrays(*entries, only);
  if (tensors.ok()) return tensors;
  return tensors.status().with_prefix(path);
}

}  // namespace bp
