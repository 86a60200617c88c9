// SPDX-License-Identifier: Apache-2.0
//
// What the file of a store has: a header that says whose it is, and behind it each change, in
// order. Only bytes.
#ifndef BACKPLANE_CCL_STORE_FILE_LOG_HPP
#define BACKPLANE_CCL_STORE_FILE_LOG_HPP

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ccl/store/store.hpp"
#include "core/base/status.hpp"

namespace bp::ccl {

struct LogHeader {
  uint64_t store = 0;       // by chance, the same in all files that follow each other
  uint64_t generation = 0;  // of those files
  std::string job;
  size_t bytes = 0;  // of the header itself, when it was read
};
inline constexpr size_t kMostLogHeaderBytes = 512;
/// Of one change.
inline constexpr size_t kMostChangeBytes = 32 + Store::kMostKeyBytes + Store::kMostValueBytes;

std::string encode_log_header(const LogHeader& header);
/// nullopt: the begin of one, as of a process that was killed while it wrote. Errors:
/// INVALID_ARGUMENT for the begin of another file.
Result<std::optional<LogHeader>> decode_log_header(std::string_view bytes);

struct LogChange {
  std::string_view key;
  std::optional<std::string_view> value;  // nullopt: the key was removed
  size_t bytes = 0;                       // of the change itself, when it was read
};
std::string encode_change(std::string_view key, std::optional<std::string_view> value);
/// The first change of the bytes; nullopt: not all of it is there. Errors: INVALID_ARGUMENT for
/// bytes that nobody wrote so.
Result<std::optional<LogChange>> next_change(std::string_view bytes);

}  // namespace bp::ccl

#endif
