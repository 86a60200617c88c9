// SPDX-License-Identifier: Apache-2.0
//
// What schedules cost, by formulas: which algorithm is the fastest must be known without building
// one. The proof holds each formula against the steps.
#ifndef BACKPLANE_CCL_SCHEDULE_COST_HPP
#define BACKPLANE_CCL_SCHEDULE_COST_HPP

#include <cstdint>

#include "ccl/operation.hpp"
#include "ccl/schedule/build.hpp"
#include "ccl/schedule/hosts.hpp"

namespace bp::ccl {

/// What the rank with the most to do in a round does in it, summed over all rounds. Sends and recvs
/// are at work at once: the larger of both counts. Nobody works in place.
struct Cost {
  uint64_t messages = 0;
  uint64_t moved = 0;  // elements, by messages
  /// Of phases within hosts, which are not in those above. Of `hierarchical` alone.
  uint64_t host_messages = 0;
  uint64_t host_moved = 0;
  uint64_t reduced = 0;  // elements
  uint64_t copied = 0;   // elements

  friend bool operator==(const Cost&, const Cost&) = default;
};

struct CostArgs {
  Kind kind = Kind::kBarrier;
  uint64_t count = 0;  // as in Operation
  uint32_t rank_count = 1;
  uint32_t root = 0;
  HostShape hosts = {};
};

Cost cost_of(const Algorithm& algorithm, const CostArgs& args);

/// How fast things go.
struct CostModel {
  double alpha_ns = 0;           // for each message
  double beta_ns_per_byte = 0;   // moved by messages
  double gamma_ns_per_byte = 0;  // reduced or copied
  /// Of messages within a host, in phases that have no others.
  double host_alpha_ns = 0;
  double host_beta_ns_per_byte = 0;
};
/// Of engine ucx among processes of one host, fitted to what two ranks took with each algorithm and
/// 4 B to 64 MiB (tests/perf/ccl). What decides is where algorithms cross, which is the same on
/// machines that are slower in all.
inline constexpr CostModel kWithinHost = {4'000, 0.13, 0.055, 4'000, 0.13};
/// Between hosts: of sockets.
inline constexpr CostModel kBetweenHosts = {35'000, 0.7, 0.055, 4'000, 0.13};

/// `element_bytes`: of the dtype; 1 for barrier.
double estimated_ns(const Cost& cost, uint64_t element_bytes, const CostModel& model);

}  // namespace bp::ccl

#endif
