// SPDX-License-Identifier: Apache-2.0
//
// From a core graph to the image that a plugin gets (sketch/executable.h).
#ifndef BACKPLANE_TESTS_SKETCHES_IMAGE_WRITER_HPP
#define BACKPLANE_TESTS_SKETCHES_IMAGE_WRITER_HPP

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backplane/sketch/executable.h"
#include "core/graph/graph.hpp"

namespace bp {

struct GraphImage {
  std::vector<uint64_t> words;  // the image; aligned to 8 bytes
  std::vector<bp_constant> constants;
  std::vector<std::shared_ptr<const HostTensor>> owners;  // of the constants' bytes
  uint64_t node_count = 0;
  uint64_t symbol_count = 0;

  const void* data() const { return words.data(); }
  uint64_t bytes() const { return words.size() * sizeof(uint64_t); }
};

/// Attributes that are at their defaults are left out. Regions and tensor attributes have no place
/// in the sketch: a graph with them is UNSUPPORTED.
Result<GraphImage> write_image(const Graph& graph);

}  // namespace bp

#endif
