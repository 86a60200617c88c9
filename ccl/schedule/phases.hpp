// SPDX-License-Identifier: Apache-2.0
//
// What algorithms are made of. Every function writes the steps of this rank in one phase, and ends
// as many rounds on every member of the team.
#ifndef BACKPLANE_CCL_SCHEDULE_PHASES_HPP
#define BACKPLANE_CCL_SCHEDULE_PHASES_HPP

#include "ccl/schedule/team.hpp"
#include "ccl/schedule/writer.hpp"

namespace bp::ccl {

// Sums of the values of all members. What a phase summed is in values->sum, and `is_same` is set.

/// Members that leave (Team::folded()) add their values to those of others: one round.
void fold_in(Writer* writer, const Team& team, Values* values);
/// They get the sums: one round.
void fold_out(Writer* writer, const Team& team, const Values& values);
/// Everyone sums everything; of a power of two. doubling_rounds().
void sum_by_doubling(Writer* writer, const Team& team, Values* values);
/// Member i sums part i; of a power of two. doubling_rounds().
void sum_parts_by_halving(Writer* writer, const Team& team, const BlockLayout& parts,
                          Values* values);
/// Member i sums part i. size - 1 rounds.
void sum_parts_by_ring(Writer* writer, const Team& team, const BlockLayout& parts, Values* values);
/// Everyone sums everything, by halving and then gather_to_all_by_doubling() of who is left after a
/// fold. halving_and_doubling_rounds().
void sum_by_halving_and_doubling(Writer* writer, const Team& team, Values* values);
uint32_t halving_and_doubling_rounds(uint32_t size);
/// Member i sums its block of `own` into `sum`, in the order of ranks, for which all members'
/// blocks come into scratch. size - 1 rounds.
void sum_block_in_rank_order(Writer* writer, const Team& team, const Places& own, const Part& sum,
                             bool is_same);
/// Member 0 sums everything; the others end with sums of some. doubling_rounds().
void sum_by_tree(Writer* writer, const Team& team, Values* values);

// Movements. Parts and blocks are those of the members.

/// Everyone has its part in `places` and gets the others; of a power of two, parts one behind the
/// other. doubling_rounds().
void gather_to_all_by_doubling(Writer* writer, const Team& team, const Places& places);
/// Everyone has its part in `own` and gets the others into `places`. size - 1 rounds.
void gather_to_all_by_ring(Writer* writer, const Team& team, const Places& places, const Part& own);
/// Everyone has its block in `own`. It gets those of all into scratch, which is answered: first its
/// own, then that of the member after it, and so on. `blocks`: of the ranks. 1 + doubling_rounds().
Part gather_to_all_rotated(Writer* writer, const Team& team, const BlockLayout& blocks,
                           const Part& own);
/// Member 0 has everything in `from`, which the others get into `to`. doubling_rounds().
void spread_by_tree(Writer* writer, const Team& team, const Part& from, const Part& to);
/// Member 0 has all parts in `from`. A member gets those of its part of the tree into `to`, its own
/// among them. doubling_rounds().
void scatter_parts_by_tree(Writer* writer, const Team& team, const Places& from, const Places& to);
/// Everyone has its part in `places`, and member 0 gets all parts there; other members need room
/// there for their part of the tree. doubling_rounds().
void gather_parts_by_tree(Writer* writer, const Team& team, const Places& places);

/// How many members, this one first, are this one's part of a binomial tree.
uint32_t members_below(uint32_t member, uint32_t size);

}  // namespace bp::ccl

#endif
