// SPDX-License-Identifier: Apache-2.0
//
// NumPy's .npz files: zip archives of .npy files, read through libzip.
#ifndef BACKPLANE_CORE_CLI_FILES_NPZ_HPP
#define BACKPLANE_CORE_CLI_FILES_NPZ_HPP

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/status.hpp"
#include "core/graph/graph.hpp"

namespace bp {

using NamedTensors = std::vector<std::pair<std::string, HostTensor>>;

/// What the arrays of one archive may take together when unpacked: a small archive can claim any
/// amount.
inline constexpr uint64_t kMaxUnpackedBytes = uint64_t{4} << 30;

/// The arrays by name, in the archive's order. Errors name the file and the array: as read_npy,
/// and INVALID_ARGUMENT for an archive that is damaged, holds anything but .npy files, or unpacks
/// to more than kMaxUnpackedBytes. `only`: the other arrays are not unpacked, and have no values.
Result<NamedTensors> read_npz(const std::string& path,
                              std::optional<std::string_view> only = std::nullopt);

}  // namespace bp

#endif
