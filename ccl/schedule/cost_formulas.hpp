// SPDX-License-Identifier: Apache-2.0
//
// One function for each algorithm, for cost_of() alone: there are elements, and more than one rank.
#ifndef BACKPLANE_CCL_SCHEDULE_COST_FORMULAS_HPP
#define BACKPLANE_CCL_SCHEDULE_COST_FORMULAS_HPP

#include "ccl/schedule/cost.hpp"

namespace bp::ccl::formulas {

Cost all_reduce_recursive_doubling(const CostArgs& args);
Cost all_reduce_rabenseifner(const CostArgs& args);
Cost all_reduce_ring(const CostArgs& args);
Cost all_reduce_rank_order(const CostArgs& args);
Cost all_reduce_gathered_rank_order(const CostArgs& args);
Cost all_reduce_hierarchical(const CostArgs& args);

Cost reduce_binomial(const CostArgs& args);
Cost reduce_scatter_gather(const CostArgs& args);
Cost reduce_rank_order(const CostArgs& args);

Cost reduce_scatter_by_blocks(const CostArgs& args);  // ring and pairwise
Cost reduce_scatter_recursive_halving(const CostArgs& args);
Cost reduce_scatter_rank_order(const CostArgs& args);

Cost all_gather_ring(const CostArgs& args);
Cost all_gather_bruck(const CostArgs& args);
Cost all_gather_recursive_doubling(const CostArgs& args);

Cost broadcast_binomial(const CostArgs& args);
Cost broadcast_scatter_allgather(const CostArgs& args);

Cost rooted_binomial(const CostArgs& args);  // gather and scatter
Cost rooted_direct(const CostArgs& args);

Cost all_to_all_pairwise(const CostArgs& args);
Cost all_to_all_bruck(const CostArgs& args);

Cost one_message(const CostArgs& args);  // send and recv
Cost barrier_dissemination(const CostArgs& args);

}  // namespace bp::ccl::formulas

#endif
