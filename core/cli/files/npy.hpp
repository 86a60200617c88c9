// SPDX-License-Identifier: Apache-2.0
//
// NumPy's .npy files, versions 1 to 3: one array behind a short header.
#ifndef BACKPLANE_CORE_CLI_FILES_NPY_HPP
#define BACKPLANE_CORE_CLI_FILES_NPY_HPP

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "core/base/status.hpp"
#include "core/graph/graph.hpp"

namespace bp {

/// The array in a file. It points into the mapped file where it lies there aligned and row-major;
/// else it is a copy. Dtypes: bool, integers, f16, f32, f64, complex, all little-endian.
/// Errors name the file: UNAVAILABLE (cannot be opened), INVALID_ARGUMENT (no valid .npy file, or
/// not as many bytes as its shape needs), UNSUPPORTED (dtype, byte order, rank).
Result<HostTensor> read_npy(const std::string& path);

/// The same for bytes that `owner` keeps alive. Errors name no file.
Result<HostTensor> parse_npy(std::span<const std::byte> bytes,
                             const std::shared_ptr<const void>& owner);

/// As many bytes of a file's front as its header can need, and more.
inline constexpr uint64_t kMaxNpyFrontBytes = 128 << 10;
/// Whether a file of `file_bytes` bytes that begins like this has the size that its header tells
/// of. Errors: as of parse_npy().
Status check_npy_size(std::span<const std::byte> front, uint64_t file_bytes);

/// Writes version 1, replacing the file whole: arrays that are still mapped from it stay as they
/// are. Errors name the file, which then is as it was: UNSUPPORTED for a dtype that NumPy does not
/// have, UNAVAILABLE if it cannot be written.
Status write_npy(const std::string& path, const HostTensor& tensor);

}  // namespace bp

#endif
