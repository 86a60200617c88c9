// SPDX-License-Identifier: Apache-2.0
//
// The two sides of the table: how data with a fault comes to be, and what is done with it.
#ifndef BACKPLANE_TESTS_FAULT_MARKS_CELLS_HPP
#define BACKPLANE_TESTS_FAULT_MARKS_CELLS_HPP

#include <string>
#include <vector>

#include "tests/fault_marks/world.hpp"

namespace bp::marks {

/// Makes f32 [4] on the device under test out of a lookup whose index 99 is out of range. What the
/// device knows by then is its error.
struct Producer {
  std::string name;
  Result<Ref<Tensor>> (*make)(World&);
  /// Operators that go to the host device meanwhile, each with a comma before it.
  std::string host_ops;
};
const std::vector<Producer>& producers();

/// Uses such a tensor, and answers what is to be read; nullptr: it read all itself.
struct Consumer {
  std::string name;
  Result<Ref<Tensor>> (*use)(World&, const Ref<Tensor>&);
};
const std::vector<Consumer>& consumers();

}  // namespace bp::marks

#endif
