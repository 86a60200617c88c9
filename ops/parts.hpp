// SPDX-License-Identifier: Apache-2.0
//
// What decompositions are made of, as the rows say.
#ifndef BACKPLANE_OPS_PARTS_HPP
#define BACKPLANE_OPS_PARTS_HPP

#include <span>
#include <string_view>

namespace bp {

struct OperatorPart {
  std::string_view op;
  std::string_view part;  // a primitive or a view
};

/// Of all operators, those of one after each other.
std::span<const OperatorPart> all_parts();

}  // namespace bp

#endif
