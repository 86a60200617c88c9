// SPDX-License-Identifier: Apache-2.0
//
// all_reduce where ranks of one host reach each other faster than others. With as many ranks on
// each host every rank carries a part between hosts; otherwise one rank of each host carries
// everything.
#include <algorithm>
#include <utility>
#include <vector>

#include "ccl/schedule/builders.hpp"
#include "ccl/schedule/hosts.hpp"
#include "ccl/schedule/phases.hpp"

namespace bp::ccl::builders {
namespace {

/// `local`: this rank's host; `across`: the ranks with this one's number on their hosts.
void sum_by_parts(Writer* writer, const Team& local, const Team& across, const BuildArgs& args) {
  const uint64_t count = args.operation.count;
  const BlockLayout parts = BlockLayout::even_parts(count, local.size());
  Values values{send_part(count), recv_part(count), 0, args.is_in_place};
  sum_parts_by_ring(writer, local, parts, &values);
  const Block own{parts.first(local.self()), parts.count(local.self())};
  Values part{values.own_part(own), values.sum_part(own), 0, values.is_same};
  sum_by_halving_and_doubling(writer, across, &part);
  gather_to_all_by_ring(writer, local, {Buffer::kRecv, 0, 0, &parts}, part.sum);
}

void sum_by_leaders(Writer* writer, const Team& local, const Team& leaders, uint32_t most_on_host,
                    const BuildArgs& args) {
  const uint64_t count = args.operation.count;
  const Part recv = recv_part(count);
  // Every rank has a recv buffer for its result, and until then for sums.
  Values values{send_part(count), recv, 0, args.is_in_place};
  // Larger hosts take more rounds.
  const uint32_t idle_rounds = doubling_rounds(most_on_host) - doubling_rounds(local.size());
  sum_by_tree(writer, local, &values);
  writer->end_rounds(idle_rounds);
  if (local.self() == 0) {
    sum_by_halving_and_doubling(writer, leaders, &values);
  } else {
    writer->end_rounds(halving_and_doubling_rounds(leaders.size()));
  }
  spread_by_tree(writer, local, recv, recv);
}

}  // namespace

void all_reduce_hierarchical(Writer* writer, const BuildArgs& args) {
  const HostShape shape = host_shape(args.hosts);
  const std::vector<uint32_t> hosts = numbered_hosts(args.hosts);
  const uint32_t rank = args.place.rank;
  const auto self_on_host =
      static_cast<uint32_t>(std::count(hosts.begin(), hosts.begin() + rank, hosts[rank]));
  // Of each host, the number of the rank that this one works with across hosts.
  const uint32_t partner = shape.is_even ? self_on_host : 0;
  std::vector<uint32_t> local;
  std::vector<uint32_t> across(shape.host_count, 0);
  std::vector<uint32_t> seen(shape.host_count, 0);
  for (uint32_t i = 0; i < hosts.size(); ++i) {
    if (hosts[i] == hosts[rank]) local.push_back(i);
    if (seen[hosts[i]]++ == partner) across[hosts[i]] = i;
  }
  const Team local_team(std::move(local), self_on_host);
  const Team across_team(std::move(across), hosts[rank]);
  if (shape.is_even) {
    sum_by_parts(writer, local_team, across_team, args);
  } else {
    sum_by_leaders(writer, local_team, across_team, shape.most_ranks, args);
  }
}

}  // namespace bp::ccl::builders
