// SPDX-License-Identifier: Apache-2.0
//
// Inside core/cli/files: the header of a .npy file, a Python dictionary with three keys. Only what
// NumPy itself writes there is read; nothing is evaluated.
#ifndef BACKPLANE_CORE_CLI_FILES_NPY_HEADER_HPP
#define BACKPLANE_CORE_CLI_FILES_NPY_HEADER_HPP

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/base/dims.hpp"
#include "core/base/status.hpp"

namespace bp {

struct NpyHeader {
  uint32_t dtype = BP_DTYPE_NONE;
  bool fortran_order = false;  // column-major
  Dims sizes;
  size_t data_offset_bytes = 0;
};

/// Errors: INVALID_ARGUMENT for anything but a valid header, UNSUPPORTED for a dtype, byte order
/// or rank that we do not have.
Result<NpyHeader> parse_npy_header(std::span<const std::byte> file);

/// The whole header, up to the data. UNSUPPORTED for a dtype that NumPy does not have.
Result<std::string> make_npy_header(uint32_t dtype, const Dims& sizes);

}  // namespace bp

#endif
