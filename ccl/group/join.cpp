// SPDX-License-Identifier: Apache-2.0
//
// See join.hpp.
#include "ccl/group/join.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <compare>
#include <cstring>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <thread>
#include <tuple>

#include "ccl/store/bytes.hpp"
#include "ccl/watch/words.hpp"
#include "core/base/hash.hpp"
#include "core/base/log.hpp"
#include "core/base/quoted.hpp"

namespace bp::ccl {
namespace {

constexpr uint32_t kCardVersion = 6;
constexpr std::string_view kNoCard = "no card: ";     // and words, in place of a card
constexpr std::string_view kDisagree = "disagree: ";  // the same
constexpr std::string_view kReady = "ready";
constexpr uint64_t kMostText = 8192;
constexpr uint32_t kMostRows = 1024;

void put_text(std::string* out, std::string_view text) {
  put(out, uint64_t{text.size()});
  out->append(text);
}

std::string take_text(Cursor* cursor) {
  const auto size = cursor->take<uint64_t>();
  return std::string(cursor->take_bytes(std::min(size, kMostText + 1)));
}

/// The ranks without a value, as far as the store tells.
Status tell_missing(Store& store, std::string_view what, uint32_t rank_count,
                    std::string_view set_by) {
  constexpr uint32_t kMostNames = 16;
  std::string missing;
  uint32_t count = 0;
  const auto ranks =
      missing_numbers(store, 0, rank_count, [&](uint32_t rank) { return key_of(what, rank); });
  if (!ranks.ok()) return ranks.status().with_prefix("ranks did not come in time");
  for (const uint32_t rank : *ranks) {
    if (++count <= kMostNames) missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
  }
  if (count > kMostNames) missing += " and " + std::to_string(count - kMostNames) + " more";
  return Status(BP_TIMEOUT, "of " + std::to_string(rank_count) +
                                " ranks these did not come in time: " + missing + " (" +
                                std::string(set_by) + "; store " + store.name() + ")");
}

/// What each rank leaves under one name, asked for one rank after the other.
class Arrivals {
 public:
  Arrivals(Store& store, std::string_view what, RankPlace place, const JoinWait& wait)
      : store_(store),
        what_(what),
        place_(place),
        title_(wait.what + ": rank " + std::to_string(place.rank)),
        set_by_(wait.telling.set_by),
        wait_(wait.deadline, wait.telling, [this] { return words(); }) {}
  Arrivals(const Arrivals&) = delete;
  Arrivals& operator=(const Arrivals&) = delete;

  Result<std::string> of(uint32_t rank) {
    awaited_ = rank;
    auto value = wait_.get(store_, key_of(what_, rank));
    if (!value.ok() && value.status().code() == BP_TIMEOUT) {
      return tell_missing(store_, what_, place_.rank_count, set_by_);
    }
    return value;
  }

 private:
  /// "group test: rank 1 waits for ranks 2 and 3 of 4, which have not come".
  std::string words() const {
    const uint32_t end = awaited_ + std::min(kMostLooks, place_.rank_count - awaited_);
    const auto missing = missing_numbers(store_, awaited_, end,
                                         [this](uint32_t rank) { return key_of(what_, rank); });
    if (!missing.ok()) return unknown_words(title_, missing.status());
    if (missing->empty()) return {};
    std::string words =
        title_ + " waits for " + ranks_words(*missing) + " of " + std::to_string(place_.rank_count);
    words += beyond_words(end, place_.rank_count);
    words += not_come_words(missing->size());
    if (what_ != "card") words += " as far as '" + what_ + "'";
    return words;
  }

  Store& store_;
  const std::string what_;
  const RankPlace place_;
  const std::string title_;
  const std::string_view set_by_;
  uint32_t awaited_ = 0;
  ToldWait wait_;
};

Status cannot_join(uint32_t rank, const std::string& why) {
  return Status(BP_UNAVAILABLE, "rank " + std::to_string(rank) + " cannot join: " + why);
}

/// Who was told of another rank's failure has left, and that may be all that is wrong here.
Status first_cause(Store& store, std::string_view what, const Status& own, RankPlace place) {
  for (uint32_t rank = 0; rank < place.rank_count; ++rank) {
    const auto theirs = store.try_get(key_of(what, rank));
    if (!theirs.ok()) return own;
    if (*theirs && **theirs != kReady) return cannot_join(rank, **theirs);
  }
  return own;
}

bool shares_a_device(std::span<const RankCard> cards) {
  std::set<std::pair<std::string, std::string>> devices;
  for (const RankCard& card : cards) devices.emplace(card.process, card.device);
  return devices.size() < cards.size();
}

/// Why the plugin's own collectives cannot serve; empty: they can.
std::string why_not_native(std::span<const RankCard> cards) {
  for (size_t rank = 0; rank < cards.size(); ++rank) {
    const RankCard& card = cards[rank];
    const std::string who = "rank " + std::to_string(rank) + " (" + card.device + ")";
    if (card.domain.empty()) return who + " has no collectives of its own";
    if (card.domain != cards[0].domain || card.uid_bytes != cards[0].uid_bytes) {
      return who + " is not linked with rank 0 (" + cards[0].device + ")";
    }
    if (card.rank_count_max != 0 && card.rank_count_max < cards.size()) {
      return who + " serves groups of " + std::to_string(card.rank_count_max) + " at most";
    }
    if (shares_a_device(cards) && (card.caps_flags & BP_CAPS_SHARED_DEVICE_BIT) == 0) {
      return "two ranks are on one device";
    }
  }
  return {};
}

/// What rows offer: the dtypes of each kind, with each reduction (a bit; 0: it does not reduce), as
/// a deterministic operation or as any.
struct Offer {
  uint32_t kind;
  uint64_t reduction;
  bool is_deterministic;
  auto operator<=>(const Offer&) const = default;
};
using Offers = std::map<Offer, uint64_t>;

Offers offers_of(const std::vector<CollectiveRow>& rows) {
  Offers offers;
  for (const CollectiveRow& row : rows) {
    uint64_t left = collective_reduces(row.kind) ? row.reductions : 0;
    if (left == 0 && collective_reduces(row.kind)) continue;
    do {
      const uint64_t reduction = left & -left;
      left ^= reduction;
      offers[{row.kind, reduction, false}] |= row.dtypes;
      if (row.is_deterministic) offers[{row.kind, reduction, true}] |= row.dtypes;
    } while (left != 0);
  }
  return offers;
}

/// What both have. Rows may overlap: pairs of them would be more with each rank.
std::vector<CollectiveRow> intersect(const std::vector<CollectiveRow>& a,
                                     const std::vector<CollectiveRow>& b) {
  const Offers ours = offers_of(a);
  const Offers theirs = offers_of(b);
  const auto both = [&](const Offer& offer) -> uint64_t {
    const auto left = ours.find(offer), right = theirs.find(offer);
    return left != ours.end() && right != theirs.end() ? left->second & right->second : 0;
  };
  std::map<std::tuple<uint32_t, bool, uint64_t>, uint64_t> reductions;  // by all else of a row
  for (const auto& [offer, unused] : ours) {
    const uint64_t dtypes = both(offer);
    const bool is_told =
        !offer.is_deterministic && dtypes == both({offer.kind, offer.reduction, true});
    if (dtypes == 0 || is_told) continue;
    reductions[{offer.kind, !offer.is_deterministic, dtypes}] |= offer.reduction;
  }
  std::vector<CollectiveRow> common;
  for (const auto& [row, bits] : reductions) {
    const auto& [kind, is_any, dtypes] = row;
    common.push_back({kind, bits, dtypes, !is_any});
  }
  return common;
}

/// Those that are linked with `first`.
Island island_from(const std::vector<RankCard>& cards, uint32_t first) {
  Island island;
  std::vector<RankCard> linked;
  for (uint32_t rank = first; rank < cards.size(); ++rank) {
    if (cards[rank].domain != cards[first].domain) continue;
    island.ranks.push_back(rank);
    linked.push_back(cards[rank]);
  }
  const size_t least = std::min<size_t>(2, cards.size());
  if (linked.size() < least || !why_not_native(linked).empty()) return {};
  island.rows = linked[0].rows;
  island.divided_dtypes = linked[0].divided_dtypes;
  for (const RankCard& card : linked) {
    island.rows = intersect(island.rows, card.rows);
    island.divided_dtypes &= card.divided_dtypes;
  }
  return island;
}

std::vector<Island> find_islands(const std::vector<RankCard>& cards) {
  std::vector<Island> islands;
  std::set<std::string> seen;
  for (uint32_t rank = 0; rank < cards.size(); ++rank) {
    if (cards[rank].domain.empty() || !seen.insert(cards[rank].domain).second) continue;
    Island island = island_from(cards, rank);
    if (!island.rows.empty()) islands.push_back(std::move(island));
  }
  return islands;
}

std::string random_word() {
  std::random_device random;
  return std::to_string(uint64_t{random()} << 32 | random());
}

/// The first rank whose text is another than rank 0's.
std::optional<size_t> find_other(std::span<const RankCard> cards, std::string RankCard::*text) {
  for (size_t rank = 1; rank < cards.size(); ++rank) {
    if (cards[rank].*text != cards[0].*text) return rank;
  }
  return std::nullopt;
}

std::string words_of(uint32_t rank, const Status& why) {
  return "rank " + std::to_string(rank) + " cannot join: " + why.to_string();
}

/// OK: it is one, or is to be read as one.
Status check_card(std::string_view bytes) {
  if (bytes.starts_with(kDisagree)) {
    return Status(BP_INVALID_ARGUMENT, std::string(bytes.substr(kDisagree.size())));
  }
  if (!bytes.starts_with(kNoCard)) return {};
  return Status(BP_UNAVAILABLE, std::string(bytes.substr(kNoCard.size())));
}

/// Where ranks meet, in their order.
constexpr const char* kStages[] = {"engine",       "connected",    "uid-made",
                                   "native-begun", "native-ready", "ready"};

/// Cards are waited for one after the other: words stand in the place of all that have not come.
Status leave_for_cards(Store& store, uint32_t rank_count, const std::string& words) {
  for (uint32_t rank = 0; rank < rank_count; ++rank) {
    BP_TRY(store.compare_set(key_of("card", rank), std::nullopt, words));
  }
  return {};
}

Status leave_words(Store& store, RankPlace place, const Status& why) {
  for (const char* const stage : kStages) {
    BP_TRY(store.compare_set(key_of(stage, place.rank), std::nullopt, why.to_string()));
  }
  const std::string no_card = std::string(kNoCard) + words_of(place.rank, why);
  return leave_for_cards(store, place.rank_count, no_card);
}

/// Before cards: of ranks that were told of different numbers, each may wait for one that nobody
/// else expects. The first number counts, and who has another leaves word of both.
Status agree_on_rank_count(Store& store, RankPlace place) {
  const std::string own = std::to_string(place.rank_count);
  const std::string rank = std::to_string(place.rank);
  BP_TRY_ASSIGN(const std::string there,
                store.compare_set("rank_count", std::nullopt, own + " " + rank));
  const size_t space = std::min(there.find(' '), there.size() - 1);
  const std::string theirs = there.substr(0, space);
  if (theirs == own) return {};
  const Status disagree(BP_INVALID_ARGUMENT,
                        "rank " + rank + " was told of " + own + " ranks, rank " +
                            there.substr(space + 1) + " of " + theirs +
                            ": expected as many on each, and a new name for each group in a store");
  uint32_t most = 0;
  std::from_chars(theirs.data(), theirs.data() + theirs.size(), most);
  most = std::max(most, place.rank_count);
  const Status told = leave_for_cards(store, most, std::string(kDisagree) + disagree.message());
  if (!told.ok()) log(BP_LOG_INFO, told.with_prefix("the other ranks were not told").to_string());
  return disagree;
}

}  // namespace

std::string key_of(std::string_view what, uint32_t rank) {
  return std::string(what) + "/" + std::to_string(rank);
}

std::string encode(const RankCard& card) {
  std::string bytes;
  put(&bytes, kCardVersion);
  for (const std::string* text : {&card.engine, &card.join, &card.device, &card.process, &card.host,
                                  &card.algorithms, &card.domain}) {
    put_text(&bytes, *text);
  }
  put(&bytes, static_cast<uint32_t>(card.has_host_memory));
  put(&bytes, card.chunk_bytes);
  put(&bytes, card.checks);
  put(&bytes, card.caps_flags);
  put(&bytes, card.rank_count_max);
  put(&bytes, card.uid_bytes);
  put(&bytes, card.divided_dtypes);
  put(&bytes, static_cast<uint32_t>(card.rows.size()));
  for (const CollectiveRow& row : card.rows) {
    put(&bytes, row.kind);
    put(&bytes, row.reductions);
    put(&bytes, row.dtypes);
    put(&bytes, static_cast<uint32_t>(row.is_deterministic));
  }
  return bytes;
}

Result<RankCard> decode_card(std::string_view bytes) {
  Cursor cursor(bytes);
  RankCard card;
  const auto version = cursor.take<uint32_t>();
  for (std::string* text : {&card.engine, &card.join, &card.device, &card.process, &card.host,
                            &card.algorithms, &card.domain}) {
    *text = take_text(&cursor);
  }
  card.has_host_memory = cursor.take<uint32_t>() != 0;
  card.chunk_bytes = cursor.take<uint64_t>();
  card.checks = cursor.take<uint32_t>();
  card.caps_flags = cursor.take<uint32_t>();
  card.rank_count_max = cursor.take<uint32_t>();
  card.uid_bytes = cursor.take<uint64_t>();
  card.divided_dtypes = cursor.take<uint64_t>();
  const auto row_count = cursor.take<uint32_t>();
  for (uint32_t i = 0; i < std::min(row_count, kMostRows) && cursor.ok(); ++i) {
    CollectiveRow row;
    row.kind = cursor.take<uint32_t>();
    row.reductions = cursor.take<uint64_t>();
    row.dtypes = cursor.take<uint64_t>();
    row.is_deterministic = cursor.take<uint32_t>() != 0;
    card.rows.push_back(row);
  }
  if (version != kCardVersion || !cursor.ended_well()) {
    return Status(BP_INVALID_ARGUMENT,
                  "the store has a rank's card that this version of the library cannot read");
  }
  return card;
}

Agreement conclude(std::vector<RankCard> cards, std::string_view name) {
  Agreement agreement;
  uint64_t hash = content_hash(std::as_bytes(std::span(name.data(), name.size())));
  for (size_t rank = 0; rank < cards.size(); ++rank) {
    const std::string words = cards[rank].process + " " + cards[rank].join;
    hash = mix(hash, content_hash(std::as_bytes(std::span(words.data(), words.size()))));
    agreement.names.push_back("rank " + std::to_string(rank) + " (" + cards[rank].device + ")");
  }
  agreement.group = hash;
  agreement.checks = std::any_of(cards.begin(), cards.end(),
                                 [](const RankCard& card) { return card.checks != 0; });
  agreement.why_not_native = why_not_native(cards);
  agreement.islands = find_islands(cards);
  const bool is_linked = agreement.why_not_native.empty();
  if (is_linked && agreement.islands.empty()) {
    agreement.why_not_native = "the ranks have no operation in common";
  }
  const bool has_staged = std::any_of(cards.begin(), cards.end(),
                                      [](const RankCard& card) { return !card.has_host_memory; });
  if (has_staged) agreement.chunk_bytes = cards[0].chunk_bytes;
  agreement.cards = std::move(cards);
  return agreement;
}

const Island* Agreement::island_of(uint32_t rank) const {
  for (const Island& island : islands) {
    if (std::binary_search(island.ranks.begin(), island.ranks.end(), rank)) return &island;
  }
  return nullptr;
}

Result<EngineChoice> choose_engine(const std::vector<RankCard>& cards) {
  const auto refuse = [](const std::string& words) {
    return Status(BP_INVALID_ARGUMENT, words + " (BACKPLANE_CCL_ENGINE)");
  };
  EngineChoice choice;
  const auto elsewhere = find_other(cards, &RankCard::process);
  std::string wanted_by;
  for (size_t rank = 0; rank < cards.size(); ++rank) {
    const std::string& wanted = cards[rank].engine;
    const std::string who = "rank " + std::to_string(rank);
    if (wanted == "auto") continue;
    if (wanted != "loop" && wanted != "ucx") {
      return refuse(who + " wants the engine " + quoted(wanted) + ": expected auto, loop or ucx");
    }
    if (!choice.name.empty() && choice.name != wanted) {
      return refuse(wanted_by + " wants the engine " + choice.name + ", " + who + " wants " +
                    wanted + ": expected the same, or auto");
    }
    if (wanted == "loop" && elsewhere) {
      return refuse(who +
                    " wants the engine loop, which serves threads of one process; rank 0 and "
                    "rank " +
                    std::to_string(*elsewhere) + " are two: expected auto or ucx");
    }
    choice.name = wanted;
    wanted_by = who;
  }
  if (choice.name.empty()) choice.name = elsewhere ? "ucx" : "loop";
  std::set<std::string> hosts;
  for (const RankCard& card : cards) hosts.insert(card.host);
  choice.spans_hosts = hosts.size() > 1;
  choice.is_within_hosts = hosts.size() < cards.size() || cards.size() == 1;
  return choice;
}

std::vector<uint32_t> hosts_of(const std::vector<RankCard>& cards) {
  std::map<std::string_view, uint32_t> numbers;
  std::vector<uint32_t> hosts;
  for (const RankCard& card : cards) {
    const auto number = static_cast<uint32_t>(numbers.size());
    hosts.push_back(numbers.try_emplace(card.host, number).first->second);
  }
  if (numbers.size() <= 1) hosts.clear();
  return hosts;
}

Status refuse_to_join(Store& store, uint32_t rank, const Status& why) {
  const Status told = store.set(key_of("card", rank), std::string(kNoCard) + words_of(rank, why));
  if (!told.ok()) log(BP_LOG_INFO, told.with_prefix("the other ranks were not told").to_string());
  return why;
}

void tell_given_up(std::shared_ptr<Store> store, RankPlace place, const Status& why) noexcept {
  static constexpr auto kLongest = std::chrono::milliseconds(500);
  const Status told = contain([&]() -> Status {
    std::promise<void> done;
    std::thread watchdog([store, ended = done.get_future()] {
      if (ended.wait_for(kLongest) == std::future_status::timeout) store->abort();
    });
    Status status = contain([&] { return leave_words(*store, place, why); });
    done.set_value();
    watchdog.join();
    return status;
  });
  [[maybe_unused]] const Status logged = contain([&] {
    if (!told.ok()) log(BP_LOG_INFO, told.with_prefix("the other ranks were not told").to_string());
  });
}

void forget_joining(Store& store, uint32_t rank, bool is_over_on_all) noexcept {
  const Status removed = contain([&]() -> Status {
    for (const char* const what : {"card", "address", "uid"}) {
      BP_TRY(store.remove(key_of(what, rank)));
    }
    for (const std::string_view stage : kStages) {
      if (stage != "ready" || is_over_on_all) BP_TRY(store.remove(key_of(stage, rank)));
    }
    if (rank != 0) return {};
    BP_TRY(store.remove("rank_count"));
    return as_status(store.remove("token"));
  });
  [[maybe_unused]] const Status logged = contain([&] {
    if (!removed.ok()) log(BP_LOG_DEBUG, removed.with_prefix("keys of joining stay").to_string());
  });
}

Result<Agreement> exchange_cards(Store& store, std::string_view name, const RankCard& own,
                                 RankPlace place, const JoinWait& wait) {
  BP_TRY(agree_on_rank_count(store, place));
  const std::string text = encode(own);
  const std::string key = key_of("card", place.rank);
  BP_TRY_ASSIGN(const std::string there, store.compare_set(key, std::nullopt, text));
  BP_TRY(check_card(there));
  if (there != text) {
    return Status(BP_INVALID_ARGUMENT, "rank " + std::to_string(place.rank) +
                                           " is in the group already: expected each rank once, "
                                           "and a new name for each group in a store");
  }
  Arrivals arrivals(store, "card", place, wait);
  std::vector<RankCard> cards;
  for (uint32_t rank = 0; rank < place.rank_count; ++rank) {
    BP_TRY_ASSIGN(const std::string bytes, arrivals.of(rank));
    BP_TRY(check_card(bytes));
    BP_TRY_ASSIGN(RankCard card, decode_card(bytes));
    cards.push_back(std::move(card));
  }
  return conclude(std::move(cards), name);
}

Status meet(Store& store, std::string_view what, const Status& own, RankPlace place,
            const JoinWait& wait) {
  const Status cause = own.code() == BP_UNAVAILABLE ? first_cause(store, what, own, place) : own;
  BP_TRY(store.set(key_of(what, place.rank), cause.ok() ? std::string(kReady) : cause.to_string()));
  BP_TRY(cause);
  Arrivals arrivals(store, what, place, wait);
  for (uint32_t rank = 0; rank < place.rank_count; ++rank) {
    BP_TRY_ASSIGN(const std::string theirs, arrivals.of(rank));
    if (theirs != kReady) return cannot_join(rank, theirs);
  }
  return {};
}

std::string process_identity() {
  // Never destroyed: groups may be made as late as static objects end.
  static const auto* const identity = [] {
    std::array<char, 256> host{};
    gethostname(host.data(), host.size() - 1);
    return new std::string(std::string(host.data()) + "/" + std::to_string(getpid()) + "/" +
                           random_word());
  }();
  return *identity;
}

Result<std::string> host_identity() {
  constexpr const char* kBoot = "/proc/sys/kernel/random/boot_id";
  std::string identity;
  errno = 0;
  std::ifstream boot(kBoot);
  // Where there is none the host has no better name; but one that cannot be read now would make
  // this host look like another one.
  if (!boot && errno != ENOENT && errno != EACCES) {
    return Status(BP_UNAVAILABLE, "the name of this host's boot, " + std::string(kBoot) + ": " +
                                      std::strerror(errno));
  }
  boot >> identity;
  // Containers of one system share memory only where they share all of these.
  for (const char* const space : {"ipc", "net", "pid", "user"}) {
    std::array<char, 64> name{};
    const std::string link = std::string("/proc/self/ns/") + space;
    const ssize_t size = readlink(link.c_str(), name.data(), name.size());
    identity += "/" + std::string(name.data(), size > 0 ? static_cast<size_t>(size) : 0);
  }
  return identity + "/" + std::to_string(geteuid());
}

std::string new_join() { return random_word() + "-" + random_word(); }

}  // namespace bp::ccl
