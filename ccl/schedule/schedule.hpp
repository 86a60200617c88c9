// SPDX-License-Identifier: Apache-2.0
//
// Schedules: what one rank of a host-path operation does, as data. A builder makes the steps of one
// rank from the operation and the rank's place alone, so that all ranks agree without a word. Who
// runs them (ccl/group) knows nothing of algorithms, and the proof (symbolic_test) runs the same
// data.
#ifndef BACKPLANE_CCL_SCHEDULE_SCHEDULE_HPP
#define BACKPLANE_CCL_SCHEDULE_SCHEDULE_HPP

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ccl/operation.hpp"
#include "core/base/status.hpp"

namespace bp::ccl {

/// Where the elements of a step lie on this rank. In place, kSend and kRecv overlap as the ABI
/// allows (collective.h, bp_collective_op).
enum class Buffer : uint8_t { kSend, kRecv, kScratch };

/// Elements of a buffer.
struct Part {
  Buffer buffer = Buffer::kSend;
  uint64_t first = 0;
  uint64_t count = 0;
};

enum class StepKind : uint8_t {
  kSend,    // `from` to `peer`
  kRecv,    // what `peer` sends, into `to`
  kReduce,  // to = to combined with from, in this order, or the other one (is_from_first)
  kCopy,    // to = from
};

/// Steps of one round: all sends and recvs of it may be in progress at once, and their parts do not
/// overlap, but for sends of the same elements. When all are over, its reduces and copies run in
/// their order; then the next round begins. Between two ranks messages arrive in the order in which
/// they are sent. Both ends of a message have the same round; a rank with nothing to do in a round
/// has no steps of it. A send of no elements does not exist, nor does its recv, but where the
/// schedule was asked for them (BuildArgs::sends_empty_blocks).
///
/// Of barrier, which has no dtype, an element is a byte of scratch. What it holds means nothing,
/// and is not written before it is sent. Of avg the steps sum; who runs them divides the results.
struct Step {
  StepKind kind = StepKind::kCopy;
  uint32_t round = 0;
  uint32_t peer = 0;  // of sends and recvs
  /// Of reduces: to = from combined with to. Ranks that combine the same two values do so in one
  /// order, since that of zeros and NaNs shows.
  bool is_from_first = false;
  Part from;
  Part to;
};

struct Schedule {
  std::string_view algorithm;  // "ring"
  uint64_t scratch_count = 0;  // elements
  std::vector<Step> steps;     // by round; in a round sends and recvs first
};

}  // namespace bp::ccl

#endif
