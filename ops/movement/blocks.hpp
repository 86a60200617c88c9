// SPDX-License-Identifier: Apache-2.0
//
// The modes of depth_to_space and space_to_depth. Private to ops/movement.
#ifndef BACKPLANE_OPS_MOVEMENT_BLOCKS_HPP
#define BACKPLANE_OPS_MOVEMENT_BLOCKS_HPP

#include <string_view>

namespace bp::ops {

/// Which of the dimensions that channels are made of comes first.
inline constexpr std::string_view kDepthLast = "DCR";   // rows and columns of blocks
inline constexpr std::string_view kDepthFirst = "CRD";  // the depth that is left

}  // namespace bp::ops

#endif
