// SPDX-License-Identifier: Apache-2.0
//
// How ranks and nodes are listed for people.
#ifndef BACKPLANE_CCL_LAUNCH_NUMBER_LIST_HPP
#define BACKPLANE_CCL_LAUNCH_NUMBER_LIST_HPP

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace bp::ccl {

/// "rank 3", "ranks 3, 4", and of more than 16 "ranks 0, 1, ... and 23 more"; "" of none. `noun`:
/// "rank".
std::string number_list(std::string_view noun, std::span<const uint32_t> numbers);

}  // namespace bp::ccl

#endif
