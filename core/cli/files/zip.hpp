// SPDX-License-Identifier: Apache-2.0
//
// Zip archives as NumPy writes them: entries that are stored or deflated, in one file, with the
// 64-bit sizes of large ones. Of zlib alone: a library for archives of all kinds would bring its
// ciphers into the Python wheel.
#ifndef BACKPLANE_CORE_CLI_FILES_ZIP_HPP
#define BACKPLANE_CORE_CLI_FILES_ZIP_HPP

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/status.hpp"

namespace bp {

struct ZipEntry {
  std::string name;
  uint64_t size_bytes = 0;  // unpacked, as the archive claims

  std::span<const std::byte> packed{};
  bool is_deflated = false;
  uint32_t checksum = 0;
};

/// What the archive holds, in its order. The entries lie in `bytes`. Errors: INVALID_ARGUMENT
/// saying what is wrong with it.
Result<std::vector<ZipEntry>> zip_entries(std::span<const std::byte> bytes);

/// Unpacks from the beginning until `out` is full or the entry ends. Answers how many bytes.
/// Errors: INVALID_ARGUMENT for damaged ones.
Result<uint64_t> unpack(const ZipEntry& entry, std::span<std::byte> out);

/// INVALID_ARGUMENT unless `bytes` are all of the entry.
Status check_unpacked(const ZipEntry& entry, std::span<const std::byte> bytes);

}  // namespace bp

#endif
