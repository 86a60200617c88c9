// SPDX-License-Identifier: Apache-2.0
//
// What a folder holds. std::filesystem's own iterator ends the process where memory runs out (its
// step is noexcept, and asks for some), so it is not used.
#ifndef BACKPLANE_CORE_BASE_FOLDER_HPP
#define BACKPLANE_CORE_BASE_FOLDER_HPP

#include <string>
#include <vector>

#include "core/base/status.hpp"

namespace bp {

/// The names of all entries but . and .., sorted. Errors: UNAVAILABLE naming the folder and why it
/// cannot be read.
Result<std::vector<std::string>> names_in_folder(const std::string& path);

}  // namespace bp

#endif
