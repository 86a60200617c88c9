// SPDX-License-Identifier: Apache-2.0
//
// A graph of ranks and of waits: from a rank to the waits that it is in, and from a wait to the
// ranks that have not come. So it has no edge for each pair of ranks.
#include "ccl/watch/wait_cycles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <tuple>

#include "ccl/watch/words.hpp"

namespace bp::ccl {
namespace {

constexpr size_t kNone = SIZE_MAX;

class WaitGraph {
 public:
  explicit WaitGraph(const std::vector<Wait>& waits);

  /// Nodes of the shortest cycle through some rank, beginning with the lowest; empty: none is left.
  std::vector<size_t> next_cycle();
  /// Its ranks are in no later one.
  void remove(const std::vector<size_t>& cycle);
  Finding finding(const std::vector<size_t>& cycle) const;

 private:
  struct Edge {
    size_t to;
    Waiter waiter;  // of an edge from a rank
  };
  struct Node {
    std::vector<Edge> edges;
    std::vector<size_t> from;
    const RankDump* dump = nullptr;  // nullptr: a wait
    size_t alive_edges = 0;
    bool is_alive = true;
  };

  size_t rank_node(const RankDump* dump);
  void connect(size_t from, size_t to, Waiter waiter);
  void kill(size_t node);
  size_t on_a_cycle() const;
  std::vector<size_t> shortest_through(size_t start) const;
  const Waiter& waiter_of(size_t rank, size_t wait) const;

  std::vector<Node> nodes_;
  // A rank of the job is one process, whatever two jobs call theirs.
  std::map<std::tuple<uint32_t, std::string, uint64_t>, size_t> ranks_;
};

WaitGraph::WaitGraph(const std::vector<Wait>& waits) {
  for (const Wait& wait : waits) {
    const size_t node = nodes_.size();
    nodes_.emplace_back();
    for (const Waiter& waiter : wait.waiters) connect(rank_node(waiter.dump), node, waiter);
    for (const RankDump* dump : wait.awaited) connect(node, rank_node(dump), {});
  }
  for (Node& node : nodes_) node.alive_edges = node.edges.size();
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].alive_edges == 0) kill(i);
  }
}

size_t WaitGraph::rank_node(const RankDump* dump) {
  const uint32_t job_rank = dump->group.job_rank(dump->group.place.rank);
  const auto [place, is_new] =
      ranks_.try_emplace({job_rank, dump->host, dump->process_id}, nodes_.size());
  if (is_new) nodes_.emplace_back().dump = dump;
  return place->second;
}

void WaitGraph::connect(size_t from, size_t to, Waiter waiter) {
  nodes_[from].edges.push_back({to, waiter});
  nodes_[to].from.push_back(from);
}

/// Takes a node away, and all that thereby wait for nothing: those that are left all lead on.
void WaitGraph::kill(size_t node) {
  std::vector<size_t> dying = {node};
  while (!dying.empty()) {
    const size_t at = dying.back();
    dying.pop_back();
    if (!nodes_[at].is_alive) continue;
    nodes_[at].is_alive = false;
    for (const size_t before : nodes_[at].from) {
      if (--nodes_[before].alive_edges == 0) dying.push_back(before);
    }
  }
}

void WaitGraph::remove(const std::vector<size_t>& cycle) {
  for (const size_t node : cycle) {
    if (nodes_[node].dump != nullptr) kill(node);
  }
}

/// A node that is on some cycle; kNone where there is none.
size_t WaitGraph::on_a_cycle() const {
  size_t at = 0;
  while (at < nodes_.size() && !nodes_[at].is_alive) ++at;
  if (at == nodes_.size()) return kNone;
  std::vector<bool> is_seen(nodes_.size(), false);
  while (!is_seen[at]) {
    is_seen[at] = true;
    const auto& edges = nodes_[at].edges;
    at = std::find_if(edges.begin(), edges.end(), [this](const Edge& edge) {
           return nodes_[edge.to].is_alive;
         })->to;
  }
  return at;
}

std::vector<size_t> WaitGraph::shortest_through(size_t start) const {
  std::vector<size_t> before(nodes_.size(), kNone);
  std::deque<size_t> queue = {start};
  while (before[start] == kNone) {
    const size_t at = queue.front();
    queue.pop_front();
    for (const Edge& edge : nodes_[at].edges) {
      if (!nodes_[edge.to].is_alive || before[edge.to] != kNone) continue;
      before[edge.to] = at;
      queue.push_back(edge.to);
    }
  }
  std::vector<size_t> cycle = {start};
  for (size_t at = before[start]; at != start; at = before[at]) cycle.push_back(at);
  std::reverse(cycle.begin(), cycle.end());
  return cycle;
}

std::vector<size_t> WaitGraph::next_cycle() {
  const size_t start = on_a_cycle();
  if (start == kNone) return {};
  std::vector<size_t> cycle = shortest_through(start);
  const auto key = [this](size_t node) {
    const RankDump* const dump = nodes_[node].dump;
    return dump == nullptr ? UINT64_MAX : uint64_t{dump->group.job_rank(dump->group.place.rank)};
  };
  const auto lowest = std::min_element(cycle.begin(), cycle.end(),
                                       [&](size_t a, size_t b) { return key(a) < key(b); });
  std::rotate(cycle.begin(), lowest, cycle.end());
  return cycle;
}

const Waiter& WaitGraph::waiter_of(size_t rank, size_t wait) const {
  const auto& edges = nodes_[rank].edges;
  return std::find_if(edges.begin(), edges.end(),
                      [wait](const Edge& edge) { return edge.to == wait; })
      ->waiter;
}

Finding WaitGraph::finding(const std::vector<size_t>& cycle) const {
  Finding finding;
  finding.kind = FindingKind::kCycle;
  // Ranks and waits take turns, and the first is a rank.
  for (size_t i = 0; i < cycle.size(); i += 2) {
    const Waiter& waiter = waiter_of(cycle[i], cycle[i + 1]);
    const GroupInfo& group = waiter.dump->group;
    const RankDump* const other = nodes_[cycle[(i + 2) % cycle.size()]].dump;
    const uint32_t awaited = other->group.job_rank(other->group.place.rank);
    uint32_t other_rank = 0;  // in this group
    while (group.job_rank(other_rank) != awaited) ++other_rank;
    finding.ranks.push_back(group.job_rank(group.place.rank));
    if (i > 0) finding.words += ", ";
    finding.words +=
        fmt::format("{} waits for {} in group {} seq {} {}", rank_words(group, group.place.rank),
                    rank_words(group, other_rank), group_words(group.name, group.epoch),
                    waiter.record->entry.sequence, operation_words(waiter.record->entry.operation));
  }
  std::sort(finding.ranks.begin(), finding.ranks.end());
  return finding;
}

}  // namespace

std::vector<Finding> find_cycles(const std::vector<Wait>& waits) {
  WaitGraph graph(waits);
  std::vector<Finding> findings;
  for (auto cycle = graph.next_cycle(); !cycle.empty(); cycle = graph.next_cycle()) {
    findings.push_back(graph.finding(cycle));
    graph.remove(cycle);
  }
  return findings;
}

}  // namespace bp::ccl
