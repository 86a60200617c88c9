// SPDX-License-Identifier: Apache-2.0
//
// Which gradients are reduced together. Pure.
#ifndef BACKPLANE_CCL_DIST_BUCKETS_HPP
#define BACKPLANE_CCL_DIST_BUCKETS_HPP

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/dims.hpp"
#include "core/base/status.hpp"

namespace bp::ccl {

/// A parameter, and so its gradient.
struct Parameter {
  uint32_t dtype = 0;
  Dims sizes;
};

/// At most so many bytes are in a bucket, but for a gradient that has more itself.
struct BucketLimits {
  uint64_t bytes = uint64_t{25} << 20;
  /// Of the bucket that is full first: communication begins early.
  uint64_t first_bytes = uint64_t{1} << 20;
};

struct BucketLayout {
  struct Entry {
    size_t parameter = 0;
    uint64_t offset_bytes = 0;  // a multiple of kGradientAlignment
  };
  uint32_t dtype = 0;
  uint64_t bytes = 0;  // of the whole, a multiple of kGradientAlignment
  std::vector<Entry> entries;
};

/// Kernels take such places as they are.
inline constexpr uint64_t kGradientAlignment = 256;

/// `parameters`: in the order of the forward pass, so that gradients come in the reverse order. A
/// bucket has one dtype. In the order in which buckets are full then. Errors: INVALID_ARGUMENT
/// naming the parameter for sizes or a dtype that cannot be.
Result<std::vector<BucketLayout>> plan_buckets(std::span<const Parameter> parameters,
                                               BucketLimits limits);

}  // namespace bp::ccl

#endif
