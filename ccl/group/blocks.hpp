// SPDX-License-Identifier: Apache-2.0
//
// Where the blocks of an operation lie, if they differ in size.
#ifndef BACKPLANE_CCL_GROUP_BLOCKS_HPP
#define BACKPLANE_CCL_GROUP_BLOCKS_HPP

#include "ccl/schedule/block_layout.hpp"

namespace bp::ccl {

/// One block for each rank, one behind the other.
struct Blocks {
  BlockLayout all;   // of the larger buffer, alike on all ranks; of all_to_all, of this rank's recv
  BlockLayout send;  // of all_to_all alone: of this rank's send

  bool operator==(const Blocks&) const = default;
};

}  // namespace bp::ccl

#endif
