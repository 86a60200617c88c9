// SPDX-License-Identifier: Apache-2.0
//
// What the inference functions share: words of errors, arithmetic on sizes that may be unknown or
// symbols, broadcasting, axes. Attributes are complete when they arrive here (infer_types sees to
// it), so a struct can be read as it is.
#ifndef BACKPLANE_OPS_INFER_COMMON_HPP
#define BACKPLANE_OPS_INFER_COMMON_HPP

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "backplane/types.h"
#include "core/base/dims.hpp"
#include "core/base/status.hpp"
#include "core/op/schema.hpp"

namespace bp::ops {

template <class T>
const T& attrs(const void* attributes) {
  return *static_cast<const T*>(attributes);
}

inline std::span<const int64_t> values(bp_i64_span list) {
  return {list.ptr, static_cast<size_t>(list.count)};
}

inline std::string_view text(bp_str text) { return {text.ptr, text.len}; }

/// INVALID_ARGUMENT "input 'x': words".
Status input_error(std::string_view input, std::string_view words);
/// INVALID_ARGUMENT "attribute 'axis': words".
Status attribute_error(std::string_view attribute, std::string_view words);
/// "expected 2, found 3"
std::string expected_found(std::string_view expected, std::string_view found);
std::string expected_found(std::string_view expected, int64_t found);
std::string expected_found(std::string_view expected, const Dims& found);

/// Makes `*size` the better known of two sizes that must be equal. False: they cannot be.
bool unify(int64_t other, int64_t* size);

/// NumPy's rule for one dimension. nullopt: the sizes do not go together. A known size above 1 wins
/// over an unknown one, 1 gives way to anything, different unknowns give unknown.
std::optional<int64_t> broadcast_size(int64_t a, int64_t b);
/// ... for all, aligned at the end. `what` names the two in the error.
Result<Dims> broadcast(const Dims& a, const Dims& b, std::string_view what);

/// The product of sizes: known if it can be (0 wins over unknown), a symbol if all else is 1, else
/// unknown. nullopt: overflow.
std::optional<int64_t> size_product(const Dims& sizes);

/// A dimension from 0 to rank - 1; negative ones count from the end. `attribute` is for the error.
Result<size_t> resolve_axis(std::string_view attribute, int64_t axis, size_t rank);
/// Bit i is set for dimension i; an empty list means all. Errors: as above, and doubles.
Result<uint32_t> resolve_axes(std::string_view attribute, std::span<const int64_t> axes,
                              size_t rank);

/// The same for axes that are an input's values; an empty list means none.
Result<uint32_t> resolve_axes_of_input(std::string_view input, std::span<const int64_t> axes,
                                       size_t rank);

/// An input that is a list of i64, read on the host.
struct HostList {
  bool is_given = false;        // false: an optional input that is absent
  bool is_known = false;        // its values are there
  int64_t count = kUnknownDim;  // of values; may be known before they are
  std::span<const int64_t> values;
};
/// Errors: input_error for a rank that is not 1, and for more than `most` values.
Result<HostList> host_list(const InferContext& context, size_t index, std::string_view input,
                           int64_t most = BP_MAX_RANK);

/// The output of an operator that keeps the sizes of its input.
void same_sizes(const TensorType& input, TensorType* out_type);
/// The output of which not even the rank is known.
void unknown_rank(TensorType* out_type);
/// A type's sizes with a rank set: all unknown where the type has no rank.
/// Errors: input_error for another rank.
Result<Dims> sizes_of_rank(std::string_view input, const TensorType& type, size_t rank);

}  // namespace bp::ops

#endif
