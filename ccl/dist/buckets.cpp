// SPDX-License-Identifier: Apache-2.0
//
// See buckets.hpp.
#include "ccl/dist/buckets.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "core/base/checked.hpp"
#include "core/base/dtype.hpp"

namespace bp::ccl {
namespace {

/// Of one gradient, with what fills up to the next one.
Result<uint64_t> room_of(size_t index, const Parameter& parameter) {
  const auto refuse = [&](const std::string& what) {
    return Status(BP_INVALID_ARGUMENT, "parameter " + std::to_string(index) + " " + what);
  };
  if (!is_dtype(parameter.dtype) || dtype_bits(parameter.dtype) % 8 != 0) {
    return refuse("has dtype " + std::string(dtype_name(parameter.dtype)) +
                  ", whose elements are no whole bytes");
  }
  const auto count = checked_element_count(parameter.sizes);
  const auto bytes = count && *count >= 0 ? checked_mul<uint64_t>(static_cast<uint64_t>(*count),
                                                                  dtype_bits(parameter.dtype) / 8)
                                          : std::nullopt;
  const auto room = bytes ? checked_align_up(*bytes, kGradientAlignment) : std::nullopt;
  if (!room || *room > kMostBytes) {
    return refuse("has sizes " + numbers_text(parameter.sizes) + ", too large together");
  }
  return *room;
}

}  // namespace

Result<std::vector<BucketLayout>> plan_buckets(std::span<const Parameter> parameters,
                                               BucketLimits limits) {
  std::vector<BucketLayout> buckets;
  std::map<uint32_t, BucketLayout> open;  // by dtype
  const uint64_t most = std::min(limits.bytes, kMostBytes);
  uint64_t limit = std::min(limits.first_bytes, kMostBytes);
  for (size_t index = parameters.size(); index-- > 0;) {
    BP_TRY_ASSIGN(const uint64_t room, room_of(index, parameters[index]));
    BucketLayout& bucket = open[parameters[index].dtype];
    // Both are at most kMostBytes, far from what overflows.
    if (!bucket.entries.empty() && bucket.bytes + room > limit) {
      buckets.push_back(std::move(bucket));
      bucket = {};
      limit = most;
    }
    bucket.dtype = parameters[index].dtype;
    bucket.entries.push_back({index, bucket.bytes});
    bucket.bytes += room;
  }
  for (auto& [dtype, bucket] : open) buckets.push_back(std::move(bucket));
  // The last gradient that a bucket has comes with its first parameter.
  std::sort(buckets.begin(), buckets.end(), [](const BucketLayout& a, const BucketLayout& b) {
    return a.entries.back().parameter > b.entries.back().parameter;
  });
  return buckets;
}

}  // namespace bp::ccl
