// SPDX-License-Identifier: Apache-2.0
//
// Delta debugging: leaves out what a failure does not need, in ever smaller pieces, until no single
// element can go.
#ifndef BACKPLANE_TESTS_MODEL_BASED_SHRINK_HPP
#define BACKPLANE_TESTS_MODEL_BASED_SHRINK_HPP

#include <algorithm>
#include <cstddef>
#include <vector>

namespace bp::model {

/// `fails(list)`: does this list still show the failure? It does for `list` itself.
template <class Element, class Fails>
std::vector<Element> shrink(std::vector<Element> list, Fails fails) {
  size_t piece = std::max<size_t>(list.size() / 2, 1);
  for (;;) {
    bool removed = false;
    for (size_t begin = 0; begin < list.size();) {
      const auto first = list.begin() + static_cast<std::ptrdiff_t>(begin);
      const size_t end = std::min(begin + piece, list.size());
      std::vector<Element> rest(list.begin(), first);
      rest.insert(rest.end(), list.begin() + static_cast<std::ptrdiff_t>(end), list.end());
      if (fails(rest)) {
        list = std::move(rest);
        removed = true;
      } else {
        begin = end;
      }
    }
    if (piece > 1) {
      piece = (piece + 1) / 2;
    } else if (!removed) {
      return list;
    }
  }
}

}  // namespace bp::model

#endif
