// SPDX-License-Identifier: Apache-2.0
//
// libzip reads from our mapping, so a file is opened once and refused with the usual words. Entries
// are unpacked whole: their checksum is only verified at their end.
#include "core/cli/files/npz.hpp"

#include <zip.h>

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
#include "core/base/utf8.hpp"
#include "core/cli/files/npy.hpp"

namespace bp {
namespace {

struct CloseArchive {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct CloseEntry {
  void operator()(zip_file_t* entry) const { zip_fclose(entry); }
};
using Archive = std::unique_ptr<zip_t, CloseArchive>;
using Entry = std::unique_ptr<zip_file_t, CloseEntry>;

Status bad_archive(const std::string& words) { return {BP_INVALID_ARGUMENT, words}; }

Result<Archive> open_archive(std::span<const std::byte> bytes) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  zip_t* archive = source == nullptr ? nullptr : zip_open_from_source(source, ZIP_RDONLY, &error);
  const std::string words = zip_error_strerror(&error);
  zip_error_fini(&error);
  if (archive != nullptr) return Archive(archive);  // it owns the source now
  zip_source_free(source);
  return bad_archive("not a valid .npz file (a zip archive): " + words);
}

/// Reads until `wanted` bytes are there or the entry ends. Answers how many.
Result<uint64_t> unpack(zip_file_t* entry, std::byte* out, uint64_t wanted) {
  uint64_t read_bytes = 0;
  while (read_bytes < wanted) {
    const uint64_t most = std::min<uint64_t>(wanted - read_bytes, uint64_t{1} << 30);
    const int64_t count = zip_fread(entry, out + read_bytes, most);
    if (count < 0) return bad_archive(zip_error_strerror(zip_file_get_error(entry)));
    if (count == 0) break;
    read_bytes += static_cast<uint64_t>(count);
  }
  return read_bytes;
}

/// Reads no more than an array's header, and refuses an entry whose size is not its array's: a few
/// bytes may unpack to gigabytes.
Status check_size(zip_t* archive, uint64_t index, uint64_t size_bytes) {
  const Entry entry(zip_fopen_index(archive, index, 0));
  if (entry == nullptr) return bad_archive(zip_strerror(archive));
  std::vector<std::byte> front(std::min<uint64_t>(size_bytes, kMaxNpyFrontBytes));
  BP_TRY_ASSIGN(const uint64_t read_bytes, unpack(entry.get(), front.data(), front.size()));
  return check_npy_size({front.data(), read_bytes}, size_bytes);
}

/// Unpacks an entry; its checksum is verified when reading meets its end.
Result<HostTensor> read_entry(zip_t* archive, uint64_t index, uint64_t size_bytes) {
  if (size_bytes > kMaxNpyFrontBytes) BP_TRY(check_size(archive, index, size_bytes));
  const Entry entry(zip_fopen_index(archive, index, 0));
  if (entry == nullptr) return bad_archive(zip_strerror(archive));
  // As alignment for the array inside: its header is a multiple of 64 bytes.
  void* memory = std::aligned_alloc(64, (size_bytes / 64 + 1) * 64);
  if (memory == nullptr) {
    return Status(BP_OUT_OF_MEMORY, "no host memory for " + std::to_string(size_bytes) + " bytes");
  }
  const std::shared_ptr<const void> owner(memory,
                                          [](const void* p) { std::free(const_cast<void*>(p)); });
  // One byte more than it should have: that finds the end, and entries that are longer.
  BP_TRY_ASSIGN(const uint64_t read_bytes,
                unpack(entry.get(), static_cast<std::byte*>(memory), size_bytes + 1));
  if (read_bytes != size_bytes) {
    return bad_archive("expected " + std::to_string(size_bytes) + " bytes unpacked, found " +
                       (read_bytes > size_bytes ? "more" : std::to_string(read_bytes)));
  }
  return parse_npy({static_cast<const std::byte*>(memory), size_bytes}, owner);
}

Result<NamedTensors> read_arrays(zip_t* archive, std::optional<std::string_view> only) {
  constexpr std::string_view kSuffix = ".npy";
  NamedTensors tensors;
  std::set<std::string> names;
  uint64_t left_bytes = kMaxUnpackedBytes;
  const int64_t count = zip_get_num_entries(archive, 0);
  for (uint64_t i = 0; i < static_cast<uint64_t>(std::max<int64_t>(count, 0)); ++i) {
    zip_stat_t info;
    if (zip_stat_index(archive, i, 0, &info) != 0) return bad_archive(zip_strerror(archive));
    const uint64_t needed = ZIP_STAT_NAME | ZIP_STAT_SIZE;
    if ((info.valid & needed) != needed || !is_utf8(info.name)) {
      return bad_archive("entry " + std::to_string(i) + " has no name or size");
    }
    const std::string_view name = info.name;
    const std::string label = "array '" + std::string(name) + "'";
    if (!name.ends_with(kSuffix) || name.size() == kSuffix.size()) {
      return bad_archive(label + ": expected only .npy files in the archive");
    }
    const std::string_view array_name = name.substr(0, name.size() - kSuffix.size());
    if (!names.emplace(array_name).second) return bad_archive(label + " is there twice");
    if (info.size > left_bytes) {
      return bad_archive(label + ": the arrays unpack to more than " +
                         std::to_string(kMaxUnpackedBytes) + " bytes");
    }
    left_bytes -= info.size;
    if (only && array_name != *only) {
      tensors.emplace_back(array_name, HostTensor());
      continue;
    }
    auto tensor = read_entry(archive, i, info.size);
    if (!tensor.ok()) return tensor.status().with_prefix(label);
    tensors.emplace_back(array_name, *std::move(tensor));
  }
  if (tensors.empty()) return bad_archive("the archive holds no arrays");
  return tensors;
}

}  // namespace

Result<NamedTensors> read_npz(const std::string& path, std::optional<std::string_view> only) {
  BP_TRY_ASSIGN(const auto file, MappedFile::open(path, std::numeric_limits<int64_t>::max()));
  const auto archive = open_archive(file->bytes());
  if (!archive.ok()) return archive.status().with_prefix(path);
  auto tensors = read_arrays(archive->get(), only);
  if (tensors.ok()) return tensors;
  return tensors.status().with_prefix(path);
}

}  // namespace bp
