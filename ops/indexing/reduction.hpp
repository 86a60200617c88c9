// SPDX-License-Identifier: Apache-2.0
//
// The reductions of the scatter operators, by name; inference and the oracle share the words.
#ifndef BACKPLANE_OPS_INDEXING_REDUCTION_HPP
#define BACKPLANE_OPS_INDEXING_REDUCTION_HPP

#include <optional>
#include <string_view>

namespace bp::ops {

enum class ScatterReduction { kNone, kAdd, kMul, kMax, kMin };

inline std::optional<ScatterReduction> scatter_reduction(std::string_view name) {
  if (name == "none") return ScatterReduction::kNone;
  if (name == "add") return ScatterReduction::kAdd;
  if (name == "mul") return ScatterReduction::kMul;
  if (name == "max") return ScatterReduction::kMax;
  if (name == "min") return ScatterReduction::kMin;
  return std::nullopt;
}

}  // namespace bp::ops

#endif
