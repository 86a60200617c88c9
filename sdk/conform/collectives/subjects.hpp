// SPDX-License-Identifier: Apache-2.0
//
// What is computed on level 4: kinds with their reductions and dtypes, on groups of some sizes.
// Every kind and reduction meets every dtype; with the sizes of groups it meets by pairs. Counts,
// places, roots and ways to enqueue are steps of each case.
#ifndef BACKPLANE_SDK_CONFORM_COLLECTIVES_SUBJECTS_HPP
#define BACKPLANE_SDK_CONFORM_COLLECTIVES_SUBJECTS_HPP

#include <cstdint>
#include <string>
#include <vector>

#include "sdk/conform/collectives/ranks.hpp"
#include "sdk/conform/collectives/values.hpp"

namespace bp::conform {

inline constexpr uint32_t kMostRanks = 5;

/// BP_COLLECTIVE_SEND and BP_COLLECTIVE_RECV at once: each rank sends to one and receives from one.
inline constexpr uint32_t kExchange = BP_COLLECTIVE_SEND;

/// How much of a buffer a rank has.
enum class Part { kNone, kBlock, kBlocks, kBlockAtRoot, kBlocksAtRoot };

struct KindShape {
  uint32_t kind;
  std::string_view name;
  Part send;
  Part recv;
  bool reduces;
  bool has_root;
  bool may_lie_in_place;
};
/// Of each kind, RECV left out.
const std::vector<KindShape>& kind_shapes();

struct Subject {
  const KindShape* shape;
  uint32_t reduction;
  uint32_t dtype;
  uint32_t rank_count;

  /// "L4.all_reduce.sum.f32.p3".
  std::string id() const;
};
std::vector<Subject> all_subjects();

/// Throws NotApplicable where no row has it, once it has seen that it is refused then.
void run_subject(Context& context, const Subject& subject);
/// Two ranks, each with copies before and behind the operation in its stream.
void run_in_streams(Context& context, const KindShape& shape);

}  // namespace bp::conform

#endif
