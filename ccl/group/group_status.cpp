// SPDX-License-Identifier: Apache-2.0
//
// What a group tells who asks for it at the process's status socket.
#include "ccl/group/group.hpp"

namespace bp::ccl {

/// Early: a path that cannot be is told before other ranks wait for this one.
Status ProcessGroup::open_status() {
  const std::string& path = runtime_->options().text("BACKPLANE_CCL_STATUS");
  if (path.empty()) return {};
  heard_ns_ = std::make_unique<std::atomic<int64_t>[]>(args_.place.rank_count);
  auto server = StatusServer::open(path);
  if (!server.ok()) return server.status().with_prefix("BACKPLANE_CCL_STATUS");
  status_server_ = *std::move(server);
  return {};
}

/// As exact as it is driven: to read the clock for each message would cost more than the rest.
void ProcessGroup::note_heard(uint32_t peer) noexcept {
  if (heard_ns_ == nullptr) return;
  const std::chrono::nanoseconds time = driven_.time_since_epoch();
  heard_ns_[peer].store(time.count(), std::memory_order_relaxed);
}

void ProcessGroup::note_lost(uint32_t peer, const Status& why) {
  if (heard_ns_ == nullptr) return;
  const std::lock_guard lock(state_mutex_);
  lost_peers_.emplace(peer, why.message());
}

GroupStatus ProcessGroup::status() const {
  GroupStatus status;
  status.name = args_.name;
  status.epoch = epoch();
  status.place = args_.place;
  status.device = device().name();
  const RankDump dump = recorder_.dump(info());
  status.last = dump.last;
  status.error = dump.group.error;
  for (const Record& record : dump.records) {
    if (record.state == RecordState::kCompleted || record.state == RecordState::kFailed) continue;
    status.operation = describe(record.entry.operation);
    status.sequence = record.entry.sequence;
    status.since_ns = record.created_ns;
    break;
  }
  if (heard_ns_ == nullptr) return status;
  const std::chrono::nanoseconds steady = Clock::now().time_since_epoch();
  const std::lock_guard lock(state_mutex_);
  for (uint32_t rank = 0; rank < args_.place.rank_count; ++rank) {
    if (rank == args_.place.rank) continue;
    if (status.peers.size() == GroupStatus::kMostPeers) break;
    const int64_t heard_ns = heard_ns_[rank].load(std::memory_order_relaxed);
    PeerStatus& peer = status.peers.emplace_back();
    peer.rank = rank;
    if (heard_ns != 0) peer.heard_ns = dump.dumped_ns - (steady.count() - heard_ns);
    if (const auto lost = lost_peers_.find(rank); lost != lost_peers_.end()) {
      peer.lost = lost->second;
    }
  }
  return status;
}

}  // namespace bp::ccl
