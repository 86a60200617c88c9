// SPDX-License-Identifier: Apache-2.0
//
// One function for each algorithm, for build() alone: `args` was checked, has blocks where the kind
// does, and more than one rank unless the kind is send or recv.
#ifndef BACKPLANE_CCL_SCHEDULE_BUILDERS_HPP
#define BACKPLANE_CCL_SCHEDULE_BUILDERS_HPP

#include "ccl/schedule/build.hpp"
#include "ccl/schedule/writer.hpp"

namespace bp::ccl::builders {

void all_reduce_recursive_doubling(Writer* writer, const BuildArgs& args);
void all_reduce_rabenseifner(Writer* writer, const BuildArgs& args);
void all_reduce_ring(Writer* writer, const BuildArgs& args);
void all_reduce_rank_order(Writer* writer, const BuildArgs& args);
void all_reduce_gathered_rank_order(Writer* writer, const BuildArgs& args);
void all_reduce_hierarchical(Writer* writer, const BuildArgs& args);

void reduce_binomial(Writer* writer, const BuildArgs& args);
void reduce_scatter_gather(Writer* writer, const BuildArgs& args);
void reduce_rank_order(Writer* writer, const BuildArgs& args);

void reduce_scatter_ring(Writer* writer, const BuildArgs& args);
void reduce_scatter_pairwise(Writer* writer, const BuildArgs& args);
void reduce_scatter_recursive_halving(Writer* writer, const BuildArgs& args);
void reduce_scatter_rank_order(Writer* writer, const BuildArgs& args);

void all_gather_ring(Writer* writer, const BuildArgs& args);
void all_gather_bruck(Writer* writer, const BuildArgs& args);
void all_gather_recursive_doubling(Writer* writer, const BuildArgs& args);

void broadcast_binomial(Writer* writer, const BuildArgs& args);
void broadcast_scatter_allgather(Writer* writer, const BuildArgs& args);

void gather_binomial(Writer* writer, const BuildArgs& args);
void gather_direct(Writer* writer, const BuildArgs& args);
void scatter_binomial(Writer* writer, const BuildArgs& args);
void scatter_direct(Writer* writer, const BuildArgs& args);

void all_to_all_pairwise(Writer* writer, const BuildArgs& args);
void all_to_all_bruck(Writer* writer, const BuildArgs& args);

void send_direct(Writer* writer, const BuildArgs& args);
void recv_direct(Writer* writer, const BuildArgs& args);
void barrier_dissemination(Writer* writer, const BuildArgs& args);

}  // namespace bp::ccl::builders

#endif
