// SPDX-License-Identifier: Apache-2.0
//
// How a group is made from another: what its ranks tell each other in their store, under keys of
// the group that they come from, so that no name has to be thought of, and none can clash.
#ifndef BACKPLANE_CCL_GROUP_DESCENT_HPP
#define BACKPLANE_CCL_GROUP_DESCENT_HPP

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ccl/group/join.hpp"
#include "ccl/operation.hpp"
#include "ccl/store/store.hpp"

namespace bp::ccl {

/// What a group has of the one that it was made from.
struct Descent {
  std::string path;  // of its keys in the store; empty: by its name
  uint64_t epoch = 0;
  /// By rank: the rank of the first group, from which all others descend. Empty: equal numbers.
  std::vector<uint32_t> job_ranks;
};

/// Of a group's parts in the store: all keys of groups that are made from others begin with this.
inline constexpr const char* kDescentPrefix = "ccl-of/";

/// One rank of the group that others are made from, while it talks to the other ranks.
struct Relatives {
  Store& store;                           // its keys begin with kDescentPrefix
  uint64_t group;                         // the number that all ranks of the group have
  uint32_t rank;                          // of this end
  const std::vector<std::string>& names;  // of its ranks: "rank 2 (npu:0)"
  JoinWait wait;
  /// Why waiting is of no use any more; ok(): it is. Asked often.
  std::function<Status()> check;
};

struct RebuildArgs {
  uint64_t epoch = 0;  // above those of the group and of earlier tries
  /// Those that go on, by their ranks in the group: the new ones are the places here.
  std::span<const uint32_t> members;
  /// How long members are waited for, and the new group's. 0: the group's.
  std::chrono::nanoseconds timeout{0};
};

/// The ranks of a group that go on together, by their numbers there; a rank's new number is its
/// place. Errors: INVALID_ARGUMENT naming what is wrong: none, one out of range, one twice, this
/// rank not among them.
Status check_members(std::span<const uint32_t> members, RankPlace place);

/// Tells the others what this rank was told, and waits for all members to have been told the same.
/// An epoch is good for one call. Errors: INVALID_ARGUMENT naming a rank that was told otherwise,
/// and both sides; TIMEOUT naming the members that did not come; the store's; those of `check`.
Status agree_on_members(const Relatives& relatives, uint64_t epoch,
                        std::span<const uint32_t> members);
/// The path of the group that they make, in the store.
std::string path_of_rebuilt(uint64_t group, uint64_t epoch, std::span<const uint32_t> members);

/// Where a rank goes when its group is split.
struct SplitChoice {
  int64_t color = 0;  // ranks of one color make a group; kNoColor: none
  int64_t key = 0;    // by which they are ordered there; of equal ones, by their ranks
};
inline constexpr int64_t kNoColor = -1;

struct SplitArgs {
  int64_t color = 0;  // not negative; kNoColor: this rank is in none of the groups
  int64_t key = 0;
  std::chrono::nanoseconds timeout{0};  // as in RebuildArgs
};

/// What all ranks chose when their group was split for the `number`th time, by rank. Errors:
/// TIMEOUT naming who did not come, and then these are *out_missing; the store's; those of `check`.
Result<std::vector<SplitChoice>> exchange_choices(const Relatives& relatives, uint64_t number,
                                                  SplitChoice own,
                                                  std::vector<uint32_t>* out_missing);
/// Removes what this rank chose then, when all have begun to split it once more. Errors: the
/// store's.
Status forget_choice(const Relatives& relatives, uint64_t number);
/// The ranks of one color, in the order of the group that they make.
std::vector<uint32_t> members_of(std::span<const SplitChoice> choices, int64_t color);
std::string path_of_split(uint64_t group, uint64_t number, int64_t color);

}  // namespace bp::ccl

#endif
