// SPDX-License-Identifier: Apache-2.0
//
// The line by which a group tells how it communicates, and why so.
#ifndef BACKPLANE_CCL_GROUP_INTRODUCTION_HPP
#define BACKPLANE_CCL_GROUP_INTRODUCTION_HPP

#include <chrono>
#include <string>
#include <string_view>

#include "ccl/group/join.hpp"

namespace bp::ccl {

struct Introduction {
  std::string group;  // "test epoch 2"
  const Agreement& agreement;
  std::string_view engine;          // "ucx"
  std::string_view interface_name;  // BACKPLANE_CCL_INTERFACE
  std::chrono::nanoseconds timeout;
};

/// Pure. "group test: 2 ranks by messages: rank 1 (cpu:0) has no collectives of its own; engine
/// ucx; no interface, shared memory alone, since all ranks are on one host; algorithms by the cost
/// model; an operation fails after 30 s".
std::string introduce(const Introduction& group);

}  // namespace bp::ccl

#endif
