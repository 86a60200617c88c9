// SPDX-License-Identifier: Apache-2.0
//
// One case: an operation that all ranks of a group call, with what it is to be run by.
#ifndef BACKPLANE_TESTS_CCL_CASE_HPP
#define BACKPLANE_TESTS_CCL_CASE_HPP

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "ccl/schedule/build.hpp"
#include "tests/ccl/formats.hpp"

namespace bp::ccl::cases {

/// What values ranks put in.
enum class Fill : uint8_t {
  kExact,    // of floating point: so few that every order of sums gives the same bits
  kPrecise,  // ... with all digits
};

/// What must come of it.
enum class Verdict : uint8_t {
  kPassed,
  kFailed,
  kUnsupported,  // refused as it must be, or run by another schedule than was asked for
  kNotRun,
};

struct Case {
  uint32_t number = 0;
  /// kSend: each rank sends to one and receives from another, in one call.
  Kind kind = Kind::kAllReduce;
  std::string_view algorithm = {};  // forced; empty: the group's choice
  const Format* format = nullptr;   // null: barrier
  Reduction reduction = Reduction::kSum;
  bool is_in_place = false;
  uint64_t count = 0;  // as in Operation
  uint32_t rank_count = 1;
  uint32_t host_count = 1;  // that the ranks are on, in turns
  uint32_t root = 0;        // of kSend: how much further the receiver is
  Fill fill = Fill::kExact;
  bool has_counts = false;  // blocks differ in size, about `count`

  bool reduces() const { return kind_info(kind).reduces; }
  uint32_t host_of(uint32_t rank) const { return rank % host_count; }
  Operation operation(uint32_t rank) const {
    Operation operation;
    operation.kind = kind;
    operation.dtype = format != nullptr ? format->dtype : BP_DTYPE_NONE;
    if (reduces()) operation.reduction = reduction;
    if (kind_info(kind).has_root) operation.root = root;
    if (kind == Kind::kSend) operation.root = (rank + root) % rank_count;
    operation.count = count;
    return operation;
  }
  /// kSend: the other half of what a rank calls.
  Operation recv_operation(uint32_t rank) const {
    Operation operation = this->operation(rank);
    operation.kind = Kind::kRecv;
    operation.root = sender_to(rank);
    return operation;
  }
  uint32_t sender_to(uint32_t rank) const { return (rank + rank_count - root) % rank_count; }
  /// Elements of the block of rank `of`; of all_to_all, of what `from` has for it.
  uint64_t block_count(uint32_t of, uint32_t from) const {
    if (!has_counts) return count;
    const uint64_t turn = uint64_t{number} + of + (kind == Kind::kAllToAll ? 2 * from : 0);
    return turn % 3 == 0 ? 0 : count + turn % 5;
  }
  /// By rank: the blocks of what `rank` sends, or receives, where it is of blocks.
  std::vector<uint64_t> send_counts(uint32_t rank) const {
    std::vector<uint64_t> counts;
    for (uint32_t other = 0; other < rank_count; ++other) {
      counts.push_back(block_count(other, rank));
    }
    return counts;
  }
  std::vector<uint64_t> recv_counts(uint32_t rank) const {
    std::vector<uint64_t> counts;
    for (uint32_t other = 0; other < rank_count; ++other) {
      counts.push_back(kind == Kind::kAllToAll ? block_count(rank, other)
                                               : block_count(other, rank));
    }
    return counts;
  }
  /// Elements before the block with this number.
  static uint64_t first_of(const std::vector<uint64_t>& counts, uint64_t block) {
    uint64_t first = 0;
    for (uint64_t i = 0; i < block; ++i) first += counts[i];
    return first;
  }
  uint64_t elements_of(Extent extent, const std::vector<uint64_t>& counts, uint32_t rank) const {
    if (extent == Extent::kBlocksAtRoot && rank != root) return 0;
    return extent == Extent::kCount ? block_count(rank, rank) : first_of(counts, rank_count);
  }
  uint64_t sent_elements(uint32_t rank) const {
    if (has_counts) return elements_of(kind_info(kind).send, send_counts(rank), rank);
    return send_count(operation(rank), {rank, rank_count});
  }
  uint64_t received_elements(uint32_t rank) const {
    if (kind == Kind::kSend) return count;
    if (has_counts) return elements_of(kind_info(kind).recv, recv_counts(rank), rank);
    return recv_count(operation(rank), {rank, rank_count});
  }
  std::string words() const {
    std::string text = kind == Kind::kSend
                           ? "send and recv " + std::string(format->name) + " " +
                                 std::to_string(count) + " to rank + " + std::to_string(root)
                           : describe(operation(0));
    if (has_counts) text += ", blocks of other sizes";
    if (is_in_place) text += " in place";
    if (fill == Fill::kPrecise) text += ", all digits";
    text += ", " + std::to_string(rank_count) + " ranks";
    if (host_count > 1) text += " on " + std::to_string(host_count) + " hosts";
    return text + (algorithm.empty() ? "" : ", " + std::string(algorithm));
  }
};

/// Why a case cannot run as it stands, by rules that are written down here and nowhere computed.
enum class Limit : uint8_t {
  kNone,
  kNoReduction,  // INVALID_ARGUMENT: the dtype is not reduced so
  kNoKernel,     // UNSUPPORTED: nothing that computes on the host adds numbers of the dtype
  kNoSuchPlace,  // INVALID_ARGUMENT: the kind is never in place; kSend: it has one buffer
  kNoSuchGroup,  // another schedule serves: this one needs what the group has not
};

inline bool is_reduced(const Format& format, Reduction reduction) {
  switch (format.of) {
    case Class::kFloat:
      return true;
    case Class::kSigned:
    case Class::kUnsigned:
      return reduction != Reduction::kAvg;
    case Class::kComplex:
      return reduction != Reduction::kMin && reduction != Reduction::kMax;
    case Class::kBool:
    case Class::kScale:
      break;
  }
  return false;
}

/// Operators take neither 8-bit floating point nor complex numbers, whose sums are those of their
/// parts.
inline bool has_kernel(const Format& format, Reduction reduction) {
  const bool is_small = format.of == Class::kFloat && format.bytes == 1;
  return !is_small && (format.of != Class::kComplex || reduction != Reduction::kProd);
}

inline bool is_ever_in_place(Kind kind) { return kind != Kind::kAllToAll && kind != Kind::kSend; }

/// `is_deterministic` is never asked for.
inline bool serves_group(const Algorithm& algorithm, uint32_t rank_count, uint32_t host_count) {
  const bool is_power_of_two = (rank_count & (rank_count - 1)) == 0;
  return (!algorithm.needs_hosts || host_count > 1) &&
         (!algorithm.needs_power_of_two || is_power_of_two);
}

inline Limit limit_of(const Case& c) {
  if (c.reduces() && !is_reduced(*c.format, c.reduction)) return Limit::kNoReduction;
  if (c.reduces() && !has_kernel(*c.format, c.reduction)) return Limit::kNoKernel;
  if (c.is_in_place && !is_ever_in_place(c.kind)) return Limit::kNoSuchPlace;
  if (c.algorithm.empty()) return Limit::kNone;
  const Algorithm* const algorithm = *find_algorithm(c.kind, c.algorithm);
  return serves_group(*algorithm, c.rank_count, c.host_count) ? Limit::kNone : Limit::kNoSuchGroup;
}

/// The call answers an error, and nothing begins.
inline bool is_refused(Limit limit) {
  return limit == Limit::kNoReduction || limit == Limit::kNoKernel || limit == Limit::kNoSuchPlace;
}

/// By what a rank's operations go.
enum class Way : uint8_t {
  kMessages,  // also of ranks that are linked with none, in groups of which others are
  kIslands,   // by the device's own collectives among some ranks, and by messages between these
  kNative,    // by the device's own collectives
};

/// What the counter of native operations goes up by on a rank of `npu`, which adds numbers alone.
inline uint64_t native_operations(const Case& c, Way way) {
  const bool may_be =
      c.format != nullptr && !c.has_counts && (!c.reduces() || c.format->of != Class::kComplex);
  if (way == Way::kMessages || !may_be) return 0;
  if (way == Way::kNative) return c.kind == Kind::kSend ? 2 : 1;  // that, and recv
  if (c.kind == Kind::kAllReduce) return 2;                       // to the leader, and from it
  return c.kind == Kind::kBroadcast ? 1 : 0;
}

inline std::string_view limit_words(Limit limit) {
  switch (limit) {
    case Limit::kNoReduction:
      return "the dtype is not reduced so";
    case Limit::kNoKernel:
      return "no kernel for the dtype";
    case Limit::kNoSuchPlace:
      return "never in place";
    case Limit::kNoSuchGroup:
      return "the schedule is not for this group";
    case Limit::kNone:
      break;
  }
  return "";
}

}  // namespace bp::ccl::cases

#endif
