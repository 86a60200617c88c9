// SPDX-License-Identifier: Apache-2.0
//
// POSIX: files and folders that only this user may read, as tokens and the store of one host have
// them. Everything is asked of the open file and not of its name, which may change meanwhile.
#ifndef BACKPLANE_CCL_STORE_PRIVATE_FILE_HPP
#define BACKPLANE_CCL_STORE_PRIVATE_FILE_HPP

#include <cstdint>
#include <string>
#include <string_view>

#include "ccl/store/descriptor.hpp"
#include "core/base/status.hpp"

namespace bp::ccl {

/// "path: cannot ACTION the file: REASON", with the reason that errno has.
Status file_error(const std::string& path, const char* action);

/// Refuses an open file that is no regular file, not this user's, or open to its group or to
/// others: INVALID_ARGUMENT with path, and with the mode that was found.
Status check_private(int descriptor, const std::string& path);

/// The whole of a small file. Errors: UNAVAILABLE if it cannot be opened or read; those of
/// check_private(); INVALID_ARGUMENT if it has more than `most_bytes`.
Result<std::string> read_private_file(const std::string& path, uint64_t most_bytes);

/// Makes a file. Errors: UNAVAILABLE, also where there is one.
Status write_private_file(const std::string& path, std::string_view content);

/// Writes all of it at that place. Errors: UNAVAILABLE with the path.
Status write_at(int descriptor, const std::string& path, std::string_view content,
                uint64_t offset_bytes);
/// As many bytes from that place as there are, at most `most_bytes`. Errors: as write_at().
Result<std::string> read_at(int descriptor, const std::string& path, uint64_t offset_bytes,
                            uint64_t most_bytes);

}  // namespace bp::ccl

#endif
