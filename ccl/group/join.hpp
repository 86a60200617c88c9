// SPDX-License-Identifier: Apache-2.0
//
// How ranks become a group: each leaves a card in the store, reads those of the others, and all
// come to the same plan from the same cards.
#ifndef BACKPLANE_CCL_GROUP_JOIN_HPP
#define BACKPLANE_CCL_GROUP_JOIN_HPP

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ccl/operation.hpp"
#include "ccl/store/store.hpp"
#include "ccl/store/told_wait.hpp"
#include "core/device/collective_caps.hpp"

namespace bp::ccl {

/// What a rank says of itself.
struct RankCard {
  std::string engine;            // BACKPLANE_CCL_ENGINE
  std::string join;              // of this card and no other
  std::string device;            // "npu:0"
  std::string process;           // of no other process: host, process number, and more
  std::string host;              // whose processes share memory
  std::string algorithms;        // BACKPLANE_CCL_ALGORITHM; that of rank 0 counts
  bool has_host_memory = false;  // the host may touch its device's memory
  uint64_t chunk_bytes = 0;      // BACKPLANE_CCL_CHUNK; that of rank 0 counts
  uint32_t checks = 0;           // BACKPLANE_CCL_CHECK
  std::string domain;            // of its device's own collectives; empty: none
  uint32_t caps_flags = 0;
  uint32_t rank_count_max = 0;
  uint64_t uid_bytes = 0;
  std::vector<CollectiveRow> rows;
  uint64_t divided_dtypes = 0;  // bits: its device can divide what these rows sum
};
std::string encode(const RankCard& card);
/// Errors: INVALID_ARGUMENT for what is none.
Result<RankCard> decode_card(std::string_view bytes);

/// How a rank waits for others while it joins.
struct JoinWait {
  std::string what;  // is joined: "group test"
  Store::Clock::time_point deadline;
  Telling telling = {};  // of ranks that have not come
};

/// Ranks whose devices are linked: two or more, or the only one.
struct Island {
  std::vector<uint32_t> ranks;      // rising
  std::vector<CollectiveRow> rows;  // those that all of them have; not empty
  uint64_t divided_dtypes = 0;      // ... and can divide

  /// The rank that the plugin knows by a number; none where there is no such one.
  std::vector<uint32_t> rank_of(std::optional<uint32_t> number) const {
    if (!number || *number >= ranks.size()) return {};
    return {ranks[*number]};
  }
};

/// What all ranks conclude.
struct Agreement {
  std::vector<RankCard> cards;
  std::vector<std::string> names;  // "rank 2 (npu:0)"
  uint64_t group = 0;              // what headers carry
  std::vector<Island> islands;     // one of all ranks where the group is native
  std::string why_not_native;      // for people; empty where it is
  bool checks = false;             // native collectives; where one rank asks for it
  /// Of messages: larger buffers go in chunks of this size. 0: all go whole, for no rank is staged.
  uint64_t chunk_bytes = 0;
  bool is_native() const { return islands.size() == 1 && islands[0].ranks.size() == cards.size(); }
  /// nullptr: the rank is in none.
  const Island* island_of(uint32_t rank) const;
};

/// What carries messages between ranks.
struct EngineChoice {
  std::string name;             // "loop"
  bool is_within_hosts = true;  // some ranks share one
  bool spans_hosts = false;     // some do not
};
/// Pure. Errors: INVALID_ARGUMENT, naming ranks that want what others do not, or what cannot be.
Result<EngineChoice> choose_engine(const std::vector<RankCard>& cards);

/// Leaves word for the others that this rank cannot join, in place of its card. Answers `why`.
Status refuse_to_join(Store& store, uint32_t rank, const Status& why);
/// Leaves word wherever others may wait for a rank that has given up in the middle of joining, also
/// through a store whose server is slow: for half a second at most.
void tell_given_up(std::shared_ptr<Store> store, RankPlace place, const Status& why) noexcept;
/// Leaves the card and reads all. `name`: of the group, the same on all ranks. Errors:
/// INVALID_ARGUMENT for a rank that is there already, or another rank count, naming both sides, on
/// either of them; TIMEOUT naming who is missing; UNAVAILABLE with the words of a rank that cannot
/// join; the store's.
Result<Agreement> exchange_cards(Store& store, std::string_view name, const RankCard& own,
                                 RankPlace place, const JoinWait& wait);
/// Pure: from the cards alone.
Agreement conclude(std::vector<RankCard> cards, std::string_view name);

/// Says that this rank is ready, or why it is not, and waits for all. Errors: as above; UNAVAILABLE
/// with the words of a rank that is not.
Status meet(Store& store, std::string_view what, const Status& own, RankPlace place,
            const JoinWait& wait);

/// Removes what this rank has left in the store of a group that has a part of it for itself: all
/// keys of joining, when all ranks are done with that. Where the last stage is over on this rank
/// alone, its word of that has to stay. A store that is gone is none to fill. Never throws.
void forget_joining(Store& store, uint32_t rank, bool is_over_on_all) noexcept;

/// A key of the store that each rank has for itself.
std::string key_of(std::string_view what, uint32_t rank);

/// The host of each rank, by numbers; empty: all share one.
std::vector<uint32_t> hosts_of(const std::vector<RankCard>& cards);
/// Of this process on this host, and of no other that lives now.
std::string process_identity();
/// Of all processes of this user that can share memory with this one, until the system starts anew.
/// Errors: UNAVAILABLE where it cannot be read, as without descriptors.
Result<std::string> host_identity();
/// Unpredictable.
std::string new_join();

}  // namespace bp::ccl

#endif
