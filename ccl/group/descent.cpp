// SPDX-License-Identifier: Apache-2.0
//
// See descent.hpp.
#include "ccl/group/descent.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <numeric>
#include <optional>
#include <utility>

#include "ccl/store/bytes.hpp"
#include "ccl/watch/words.hpp"

namespace bp::ccl {
namespace {

/// How long a wait lasts before it is asked whether it is of any use.
constexpr auto kSlice = std::chrono::milliseconds(50);

std::string key_of_rank(const Relatives& relatives, const std::string& what, uint32_t rank) {
  return std::to_string(relatives.group) + "/" + what + "/" + std::to_string(rank);
}

/// What a rank was told; or why it has given up since.
struct Told {
  Status status;
  std::vector<uint32_t> members;
};

std::string encode(const Told& told) {
  constexpr size_t kMostWords = 4096;
  std::string bytes;
  put(&bytes, static_cast<uint32_t>(told.status.code()));
  if (!told.status.ok()) return bytes + told.status.message().substr(0, kMostWords);
  for (const uint32_t rank : told.members) put(&bytes, rank);
  return bytes;
}

Told decode(std::string_view bytes) {
  Cursor cursor(bytes);
  const auto code = cursor.take<uint32_t>();
  const std::string_view rest = cursor.take_rest();
  if (code != BP_OK) {
    return {Status(known_status(static_cast<bp_status>(code)), std::string(rest)), {}};
  }
  Cursor ranks(rest);
  std::vector<uint32_t> members(rest.size() / sizeof(uint32_t));
  for (uint32_t& member : members) member = ranks.take<uint32_t>();
  return {{}, std::move(members)};
}

/// The epoch that a rank was told of last; nullopt: none so far.
Result<std::optional<uint64_t>> latest_epoch(const Relatives& relatives, uint32_t rank) {
  // Asked again and again while a member is waited for.
  const auto store = relatives.store.share(kLookPatience);
  BP_TRY_ASSIGN(const auto text, store->try_get(key_of_rank(relatives, "epoch", rank)));
  if (!text) return std::optional<uint64_t>();
  uint64_t epoch = 0;
  std::from_chars(text->data(), text->data() + text->size(), epoch);
  return std::optional(epoch);
}

Status refuse_epoch(const Relatives& relatives, uint64_t epoch, uint32_t other, uint64_t theirs) {
  return {BP_INVALID_ARGUMENT, relatives.names[other] + " was told of epoch " +
                                   std::to_string(theirs) + ", " + relatives.names[relatives.rank] +
                                   " of epoch " + std::to_string(epoch)};
}

/// Values that ranks will leave under one name, waited for one after the other.
class AwaitedValues {
 public:
  /// `purpose`: "rebuild it".
  AwaitedValues(const Relatives& relatives, std::string what, std::span<const uint32_t> ranks,
                std::string purpose)
      : relatives_(relatives),
        what_(std::move(what)),
        ranks_(ranks),
        purpose_(std::move(purpose)),
        told_(relatives.wait.deadline, relatives.wait.telling, [this] { return words(); }) {}
  AwaitedValues(const AwaitedValues&) = delete;
  AwaitedValues& operator=(const AwaitedValues&) = delete;

  /// That of ranks[place]; nullopt: not in time. Errors: the store's; those of `check`, and of
  /// `look`, which is asked now and then, but for TIMEOUT.
  Result<std::optional<std::string>> at(size_t place, const std::function<Status()>& look) {
    place_ = place;
    const std::string key = key_of_rank(relatives_, what_, ranks_[place]);
    for (;;) {
      const auto now = Store::Clock::now();
      if (now >= relatives_.wait.deadline) return look_at_last(key);
      auto value = relatives_.store.get(key, std::min(now + kSlice, relatives_.wait.deadline));
      if (value.ok()) return std::optional(*std::move(value));
      if (value.status().code() != BP_TIMEOUT) return value.status();
      BP_TRY(relatives_.check());
      // A store that does not answer may do so yet.
      if (const Status looked = look(); looked.code() != BP_TIMEOUT) BP_TRY(looked);
      told_.look();
    }
  }

 private:
  /// At the deadline. A store that does not answer is an error then: it does not say that the rank
  /// has not come.
  Result<std::optional<std::string>> look_at_last(const std::string& key) const {
    BP_TRY_ASSIGN(auto value, relatives_.store.share(kLookPatience)->try_get(key));
    if (!value) BP_TRY(relatives_.check());
    return value;
  }

  /// "group test: rank 1 (cpu:0) waits for ranks 2 and 3, which have not come to rebuild it".
  std::string words() const {
    const auto begin = static_cast<uint32_t>(place_);
    const auto end = static_cast<uint32_t>(std::min(ranks_.size(), place_ + kMostLooks));
    const auto places = missing_numbers(relatives_.store, begin, end, [this](uint32_t place) {
      return key_of_rank(relatives_, what_, ranks_[place]);
    });
    const std::string own = relatives_.wait.what + ": " + relatives_.names[relatives_.rank];
    if (!places.ok()) return unknown_words(own, places.status());
    if (places->empty()) return {};
    std::vector<uint32_t> missing;
    for (const uint32_t place : *places) missing.push_back(ranks_[place]);
    std::sort(missing.begin(), missing.end());
    return own + " waits for " + ranks_words(missing) +
           (end < ranks_.size() ? ", and maybe for others" : "") + not_come_words(missing.size()) +
           " to " + purpose_;
  }

  const Relatives& relatives_;
  const std::string what_;
  const std::span<const uint32_t> ranks_;
  const std::string purpose_;
  size_t place_ = 0;
  ToldWait told_;
};

}  // namespace

Status check_members(std::span<const uint32_t> members, RankPlace place) {
  const auto refuse = [](const std::string& words) {
    return Status(BP_INVALID_ARGUMENT, "members: " + words);
  };
  if (members.empty()) return refuse("there are none, expected at least this rank");
  std::vector<bool> is_there(place.rank_count);
  for (const uint32_t member : members) {
    if (member >= place.rank_count) {
      return refuse("expected ranks from 0 to " + std::to_string(place.rank_count - 1) +
                    ", found " + std::to_string(member));
    }
    if (is_there[member]) return refuse("rank " + std::to_string(member) + " is there twice");
    is_there[member] = true;
  }
  if (!is_there[place.rank]) {
    return refuse("this rank, " + std::to_string(place.rank) + ", is not among " +
                  ranks_words(members));
  }
  return {};
}

namespace {

/// What members[place] was told is what this rank was. False: it did not come.
Result<bool> is_agreed(const Relatives& relatives, uint64_t epoch, AwaitedValues* awaited,
                       std::span<const uint32_t> members, size_t place) {
  const uint32_t member = members[place];
  const auto look = [&]() -> Status {
    BP_TRY_ASSIGN(const auto latest, latest_epoch(relatives, member));
    if (latest && *latest > epoch) return refuse_epoch(relatives, epoch, member, *latest);
    return {};
  };
  BP_TRY_ASSIGN(const auto there, awaited->at(place, look));
  if (!there) {
    // A lower one may have been of an earlier try, while there was time.
    BP_TRY_ASSIGN(const auto latest, latest_epoch(relatives, member));
    if (latest) return refuse_epoch(relatives, epoch, member, *latest);
    return false;
  }
  const Told theirs = decode(*there);
  if (!theirs.status.ok()) {
    return theirs.status.with_prefix(relatives.names[member] + " has given up epoch " +
                                     std::to_string(epoch));
  }
  if (std::equal(members.begin(), members.end(), theirs.members.begin(), theirs.members.end())) {
    return true;
  }
  return Status(BP_INVALID_ARGUMENT, relatives.names[member] + " was told of the members " +
                                         ranks_words(theirs.members) + ", " +
                                         relatives.names[relatives.rank] + " of " +
                                         ranks_words(members));
}

Status agree_with_all(const Relatives& relatives, uint64_t epoch, const std::string& what,
                      std::span<const uint32_t> members) {
  std::vector<uint32_t> missing;
  AwaitedValues awaited(relatives, what, members, "rebuild it as epoch " + std::to_string(epoch));
  for (size_t place = 0; place < members.size(); ++place) {
    BP_TRY_ASSIGN(const bool agrees, is_agreed(relatives, epoch, &awaited, members, place));
    if (!agrees) missing.push_back(members[place]);
  }
  if (missing.empty()) return {};
  return {BP_TIMEOUT, "of the members " + ranks_words(members) + " these did not come in time: " +
                          ranks_words(missing) + " (store " + relatives.store.name() + ")"};
}

}  // namespace

Status agree_on_members(const Relatives& relatives, uint64_t epoch,
                        std::span<const uint32_t> members) {
  const std::string what = "members-" + std::to_string(epoch);
  const std::string key = key_of_rank(relatives, what, relatives.rank);
  Store& store = relatives.store;
  BP_TRY(store.set(key, encode(Told{{}, {members.begin(), members.end()}})));
  // After that: who finds another epoch need not wait for this one.
  BP_TRY(store.set(key_of_rank(relatives, "epoch", relatives.rank), std::to_string(epoch)));
  const Status agreed = agree_with_all(relatives, epoch, what, members);
  // Who comes later would wait for this rank. Where that cannot be told, it does.
  if (!agreed.ok()) {
    const auto last = store.share(kLookPatience);  // the deadline may have passed
    [[maybe_unused]] const Status told = last->set(key, encode(Told{agreed, {}}));
  }
  return agreed;
}

Status forget_choice(const Relatives& relatives, uint64_t number) {
  const std::string what = "split-" + std::to_string(number);
  return as_status(relatives.store.remove(key_of_rank(relatives, what, relatives.rank)));
}

std::string path_of_rebuilt(uint64_t group, uint64_t epoch, std::span<const uint32_t> members) {
  // Of groups of one epoch, which know nothing of each other, each has another first member.
  return kDescentPrefix + std::to_string(group) + "/epoch-" + std::to_string(epoch) + "/" +
         std::to_string(members[0]) + "/";
}

Result<std::vector<SplitChoice>> exchange_choices(const Relatives& relatives, uint64_t number,
                                                  SplitChoice own,
                                                  std::vector<uint32_t>* out_missing) {
  const std::string what = "split-" + std::to_string(number);
  std::string bytes;
  put(&bytes, static_cast<uint64_t>(own.color));
  put(&bytes, static_cast<uint64_t>(own.key));
  BP_TRY(relatives.store.set(key_of_rank(relatives, what, relatives.rank), bytes));
  std::vector<SplitChoice> choices;
  std::vector<uint32_t> ranks(relatives.names.size());
  std::iota(ranks.begin(), ranks.end(), 0u);
  AwaitedValues awaited(relatives, what, ranks, "split it");
  for (const uint32_t rank : ranks) {
    BP_TRY_ASSIGN(const auto theirs, awaited.at(rank, [] { return Status(); }));
    if (!theirs) out_missing->push_back(rank);
    Cursor cursor(theirs ? *theirs : bytes);
    SplitChoice& choice = choices.emplace_back();
    choice.color = static_cast<int64_t>(cursor.take<uint64_t>());
    choice.key = static_cast<int64_t>(cursor.take<uint64_t>());
    if (!cursor.ended_well()) {
      return Status(BP_INVALID_ARGUMENT, "the store has a choice of " + relatives.names[rank] +
                                             " that this version of the library cannot read");
    }
  }
  if (out_missing->empty()) return choices;
  return Status(BP_TIMEOUT,
                "to split it, these did not come in time: " + ranks_words(*out_missing) +
                    " (store " + relatives.store.name() + ")");
}

std::vector<uint32_t> members_of(std::span<const SplitChoice> choices, int64_t color) {
  std::vector<uint32_t> members;
  for (uint32_t rank = 0; rank < choices.size(); ++rank) {
    if (choices[rank].color == color) members.push_back(rank);
  }
  std::stable_sort(members.begin(), members.end(),
                   [&](uint32_t a, uint32_t b) { return choices[a].key < choices[b].key; });
  return members;
}

std::string path_of_split(uint64_t group, uint64_t number, int64_t color) {
  return kDescentPrefix + std::to_string(group) + "/split-" + std::to_string(number) + "/color-" +
         std::to_string(color) + "/";
}

}  // namespace bp::ccl
