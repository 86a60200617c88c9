// SPDX-License-Identifier: Apache-2.0
//
// What a collective operation is: its kind, how much of each buffer it takes on each rank, and what
// all ranks must agree on. Pure values; every other folder of ccl speaks of operations by these.
#ifndef BACKPLANE_CCL_OPERATION_HPP
#define BACKPLANE_CCL_OPERATION_HPP

#include <cstdint>
#include <string>
#include <string_view>

#include "backplane/collective.h"
#include "core/base/status.hpp"

namespace bp::ccl {

/// The kinds of the ABI, in its order. Barrier is a kind of the host path alone.
enum class Kind : uint32_t {
  kAllReduce = BP_COLLECTIVE_ALL_REDUCE,
  kAllGather = BP_COLLECTIVE_ALL_GATHER,
  kReduceScatter = BP_COLLECTIVE_REDUCE_SCATTER,
  kBroadcast = BP_COLLECTIVE_BROADCAST,
  kSend = BP_COLLECTIVE_SEND,
  kRecv = BP_COLLECTIVE_RECV,
  kReduce = BP_COLLECTIVE_REDUCE,
  kGather = BP_COLLECTIVE_GATHER,
  kScatter = BP_COLLECTIVE_SCATTER,
  kAllToAll = BP_COLLECTIVE_ALL_TO_ALL,
  kBarrier,
};
inline constexpr uint32_t kKindCount = 11;

enum class Reduction : uint32_t {
  kSum = BP_REDUCTION_SUM,
  kProd = BP_REDUCTION_PROD,
  kMin = BP_REDUCTION_MIN,
  kMax = BP_REDUCTION_MAX,
  kAvg = BP_REDUCTION_AVG,
};
inline constexpr uint32_t kReductionCount = 5;

/// How much of a buffer an operation takes on one rank, where blocks have one size.
enum class Extent : uint8_t {
  kNone,
  kCount,         // count elements
  kBlocks,        // a block of count elements for each rank
  kCountAtRoot,   // count elements at the root, nothing elsewhere
  kBlocksAtRoot,  // blocks at the root, nothing elsewhere
};

struct KindInfo {
  std::string_view name;  // "all_reduce"
  Extent send;
  Extent recv;
  bool reduces;
  bool has_root;   // `root` names a rank of the group
  bool is_of_two;  // `root` is the other rank, and sequences are counted for each pair
};
const KindInfo& kind_info(Kind kind);
/// A block for each rank.
bool is_of_blocks(Extent extent);
/// One of its buffers is of blocks, which may differ in size.
bool has_blocks(Kind kind);
/// Dtypes that are reduced so, as bits.
uint64_t reduced_dtypes(Reduction reduction);
/// "sum".
std::string_view reduction_name(Reduction reduction);

/// A rank and the size of its group.
struct RankPlace {
  uint32_t rank = 0;
  uint32_t rank_count = 1;
};

/// An operation as all its ranks see it.
struct Operation {
  Kind kind = Kind::kBarrier;
  uint32_t dtype = BP_DTYPE_NONE;  // of barrier: NONE
  Reduction reduction = Reduction::kSum;
  uint32_t root = 0;  // the root, or the other rank; else 0
  /// Elements of a block where the kind has blocks, else of the whole. Where blocks differ in size:
  /// of all of them together; of all_to_all, whose ranks know their own ones alone, 0.
  uint64_t count = 0;
  bool is_deterministic = false;
  /// Blocks differ in size: a digest of their counts, or kOwnBlocks. 0: they do not.
  uint64_t blocks = 0;

  bool operator==(const Operation&) const = default;
};
/// Of all_to_all: each rank has counts of its own.
inline constexpr uint64_t kOwnBlocks = 1;

/// Elements of the buffer that the rank sends, or receives, of blocks of one size. Saturates at
/// UINT64_MAX.
uint64_t send_count(const Operation& operation, RankPlace place);
uint64_t recv_count(const Operation& operation, RankPlace place);

/// What is wrong with the operation on any rank, whatever its buffers: root out of range, a dtype
/// that cannot be reduced so. Errors: INVALID_ARGUMENT naming the operation.
Status check_operation(const Operation& operation, RankPlace place);

/// "all_gather", or "all_gather_v" where blocks differ in size.
std::string form_name(const Operation& operation);

/// " blocks 5c0f31aa": a digest of their counts, which all ranks have alike. Empty: there is none.
std::string blocks_words(const Operation& operation);

/// "all_reduce sum f32 3", "broadcast i8 16 root 2", "send f32 8 to 1", "all_gather_v f32 7 blocks
/// 5c0f31aa": for people, and for the recorder.
std::string describe(const Operation& operation);

}  // namespace bp::ccl

#endif
