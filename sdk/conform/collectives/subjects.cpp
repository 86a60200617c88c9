// SPDX-License-Identifier: Apache-2.0
//
// The list of subjects, and one subject on a group: what ranks send, what they must receive.
#include "sdk/conform/collectives/subjects.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "core/base/dtype.hpp"
#include "core/base/hash.hpp"
#include "sdk/conform/step.hpp"

namespace bp::conform {
namespace {

constexpr uint64_t kLargeCount = 65537;
// From one size of groups to the other of a subject: each kind meets all sizes within few dtypes.
constexpr uint32_t kSizeStep = 2;

/// Of its id, so that a case repeats itself wherever it runs.
uint64_t seed_of(const std::string& id) {
  uint64_t seed = 0;
  for (const char each : id) seed = mix(seed, static_cast<uint8_t>(each) + uint64_t{1});
  return seed % 1'000'000'000;  // to be read by people
}

struct Variant {
  uint64_t count = 0;
  bool in_place = false;
  uint32_t root = 0;  // exchange: how far a rank sends
  bool by_threads = false;
  bool deterministic = false;
  bool shifted = false;  // by an element from an aligned address
  Elements elements = Elements::kExact;
  uint64_t seed = 0;

  std::string words() const {
    return conform::words("count ", count, in_place ? ", in place" : "", ", root ", root,
                          by_threads ? ", a thread for each rank" : ", one array",
                          deterministic ? ", deterministic" : "", shifted ? ", shifted" : "",
                          elements == Elements::kFull ? ", full mantissas" : "", ", seed ", seed);
  }
};

/// All counts, each in place and not where the kind can; the rest goes round at different speeds.
std::vector<Variant> variants_of(const Subject& subject, bool has_deterministic) {
  const uint32_t ranks = subject.rank_count;
  const uint64_t seed = seed_of(subject.id());
  std::vector<Variant> variants;
  uint64_t number = seed % 12;
  for (const uint64_t count :
       std::set<uint64_t>{0, 1, 3, ranks - 1, ranks, ranks + 1, 1000, kLargeCount}) {
    for (const bool in_place : {false, true}) {
      if (in_place && !subject.shape->may_lie_in_place) continue;
      ++number;
      if (count == kLargeCount && in_place != (number % 2 == 0) &&
          subject.shape->may_lie_in_place) {
        continue;
      }
      variants.push_back({.count = count,
                          .in_place = in_place,
                          .root = static_cast<uint32_t>(number % ranks),
                          .by_threads = number / 2 % 2 == 0,
                          .deterministic = has_deterministic && number % 3 == 0,
                          .shifted = number / 3 % 2 == 0,
                          .elements = number / 2 % 3 == 0 ? Elements::kExact : Elements::kFull,
                          .seed = seed + number});
    }
  }
  return variants;
}

/// A variant on a group.
class Try {
 public:
  Try(Group& group, const Subject& subject, const Variant& variant);

  void run();
  /// The same with work before and behind it in the streams, which begin only once all is there.
  void run_in_streams();

 private:
  uint32_t ranks() const { return subject_.rank_count; }
  uint64_t block_bytes() const { return variant_.count * element_bytes(subject_.dtype); }
  uint64_t blocks(Part part, uint32_t rank) const;
  Bytes sent_by(uint32_t rank) const;
  void place(uint32_t rank);
  Operations operations_of(uint32_t rank) const;
  void check(uint32_t rank);
  void check_moved(uint32_t rank, const Bytes& found);
  Bytes moved_to(uint32_t rank) const;
  std::string at(uint32_t rank) const { return words("rank ", rank, ", ", variant_.words()); }

  Group& group_;
  const Subject& subject_;
  const Variant& variant_;
  const Combination how_;
  std::vector<Bytes> sent_;
  // By rank; in place both are one.
  struct Place {
    std::optional<Fenced> send;
    std::optional<Fenced> recv;
    uint64_t send_offset = 0;
    uint64_t recv_offset = 0;
  };
  std::vector<Place> places_;
  std::vector<Bytes> first_results_;
};

Try::Try(Group& group, const Subject& subject, const Variant& variant)
    : group_(group),
      subject_(subject),
      variant_(variant),
      how_{subject.dtype, subject.reduction, variant.elements, subject.rank_count} {
  for (uint32_t rank = 0; rank < ranks(); ++rank) sent_.push_back(sent_by(rank));
}

uint64_t Try::blocks(Part part, uint32_t rank) const {
  const bool is_at_root = part == Part::kBlockAtRoot || part == Part::kBlocksAtRoot;
  if (part == Part::kNone || (is_at_root && rank != variant_.root)) return 0;
  return part == Part::kBlock || part == Part::kBlockAtRoot ? 1 : ranks();
}

Bytes Try::sent_by(uint32_t rank) const {
  const uint64_t count = blocks(subject_.shape->send, rank) * variant_.count;
  if (subject_.shape->reduces) return make_elements(how_, variant_.seed, rank, count);
  Bytes made = make_bytes(count * element_bytes(subject_.dtype),
                          static_cast<uint32_t>(variant_.seed * kMostRanks + rank));
  if (subject_.dtype == BP_DTYPE_BOOL) {
    for (std::byte& each : made) each &= std::byte{1};
  }
  return made;
}

/// Room for what the rank sends, and for what it receives, which holds something else before.
void Try::place(uint32_t rank) {
  constexpr std::byte kUnwritten{0x77};
  Context& context = group_.ranks().on(rank);
  const uint64_t shift = variant_.shifted ? element_bytes(subject_.dtype) : 0;
  const uint64_t send_bytes = sent_[rank].size();
  const uint64_t recv_bytes = blocks(subject_.shape->recv, rank) * block_bytes();
  const uint64_t own_block = rank * block_bytes();
  Place& place = places_.emplace_back();
  const bool in_place = variant_.in_place && send_bytes > 0 && recv_bytes > 0;
  if (!in_place) {
    if (send_bytes > 0) place.send.emplace(context, sent_[rank], shift);
    if (recv_bytes > 0) place.recv.emplace(context, Bytes(recv_bytes, kUnwritten), shift);
    return;
  }
  Bytes content(std::max(send_bytes, recv_bytes), kUnwritten);
  place.send_offset = send_bytes < recv_bytes ? own_block : 0;
  place.recv_offset = recv_bytes < send_bytes ? own_block : 0;
  std::copy(sent_[rank].begin(), sent_[rank].end(),
            content.begin() + static_cast<std::ptrdiff_t>(place.send_offset));
  place.recv.emplace(context, content, shift);
}

Operations Try::operations_of(uint32_t rank) const {
  const Place& place = places_[rank];
  bp_mem send{};
  bp_mem recv{};
  if (place.recv) recv = place.recv->at(place.recv_offset);
  if (place.send) send = place.send->at();
  const bool in_place = !place.send && variant_.in_place && !sent_[rank].empty() && place.recv;
  if (in_place) send = place.recv->at(place.send_offset);
  if (subject_.shape->kind == kExchange) {
    const uint32_t to = (rank + variant_.root) % ranks();
    const uint32_t from = (rank + ranks() - variant_.root) % ranks();
    return {operation(BP_COLLECTIVE_RECV, subject_.dtype, variant_.count, {}, recv, 0, from),
            operation(BP_COLLECTIVE_SEND, subject_.dtype, variant_.count, send, {}, 0, to)};
  }
  bp_collective_op op = operation(subject_.shape->kind, subject_.dtype, variant_.count, send, recv,
                                  subject_.reduction, subject_.shape->has_root ? variant_.root : 0);
  if (variant_.deterministic) op.flags = BP_OPERATION_DETERMINISTIC_BIT;
  return {op};
}

/// What a rank receives where nothing is combined.
Bytes Try::moved_to(uint32_t rank) const {
  const auto block = [&](uint32_t from, uint32_t index) {
    const auto begin = sent_[from].begin() + static_cast<std::ptrdiff_t>(index * block_bytes());
    return Bytes(begin, begin + static_cast<std::ptrdiff_t>(block_bytes()));
  };
  Bytes all;
  const auto take = [&](uint32_t from, uint32_t index) {
    const Bytes part = block(from, index);
    all.insert(all.end(), part.begin(), part.end());
  };
  switch (subject_.shape->kind) {
    case BP_COLLECTIVE_BROADCAST:
      take(variant_.root, 0);
      break;
    case BP_COLLECTIVE_SCATTER:
      take(variant_.root, rank);
      break;
    case kExchange:
      take((rank + ranks() - variant_.root) % ranks(), 0);
      break;
    case BP_COLLECTIVE_ALL_TO_ALL:
      for (uint32_t from = 0; from < ranks(); ++from) take(from, rank);
      break;
    default:  // all_gather and gather
      for (uint32_t from = 0; from < ranks(); ++from) take(from, 0);
  }
  return all;
}

void Try::check(uint32_t rank) {
  Context& context = group_.ranks().context();
  const Place& place = places_[rank];
  if (place.send) {
    context.expect_bytes(words("what was sent by ", at(rank)), place.send->read("what is sent"),
                         sent_[rank]);
  }
  Bytes found;
  if (place.recv) {
    const Bytes all = place.recv->read(words("what is received by ", at(rank)));
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(place.recv_offset);
    const uint64_t bytes = blocks(subject_.shape->recv, rank) * block_bytes();
    found.assign(begin, begin + static_cast<std::ptrdiff_t>(bytes));
  }
  const bool is_again = rank < first_results_.size();
  if (is_again) {
    context.expect_bytes(words("what the second of two equal operations gives ", at(rank)), found,
                         first_results_[rank]);
    return;
  }
  first_results_.push_back(found);
  if (found.empty()) return;
  if (!subject_.shape->reduces) {
    context.expect_bytes(words("what is received by ", at(rank)), found, moved_to(rank));
    return;
  }
  std::vector<Bytes> parts = sent_;
  if (subject_.shape->send == Part::kBlocks) {
    for (Bytes& part : parts) {
      const auto begin = part.begin() + static_cast<std::ptrdiff_t>(rank * block_bytes());
      part = Bytes(begin, begin + static_cast<std::ptrdiff_t>(block_bytes()));
    }
  }
  expect_combined(context, words("what is received by ", at(rank)), how_, parts, found);
  // Reduced once for each rank, or once for all: the bits are the same.
  if (subject_.shape->kind == BP_COLLECTIVE_ALL_REDUCE && rank > 0) {
    context.expect_bytes(words("what is received, beside rank 0, by ", at(rank)), found,
                         first_results_[0]);
  }
}

void Try::run() {
  const int rounds = variant_.deterministic ? 2 : 1;
  for (int round = 0; round < rounds; ++round) {
    places_.clear();
    std::vector<Operations> of_ranks;
    for (uint32_t rank = 0; rank < ranks(); ++rank) place(rank);
    for (uint32_t rank = 0; rank < ranks(); ++rank) of_ranks.push_back(operations_of(rank));
    if (variant_.by_threads) {
      group_.enqueue_by_threads(of_ranks);
    } else {
      group_.enqueue_together(of_ranks);
    }
    group_.finish();
    for (uint32_t rank = 0; rank < ranks(); ++rank) check(rank);
  }
}

void Try::run_in_streams() {
  std::vector<Operations> of_ranks;
  for (uint32_t rank = 0; rank < ranks(); ++rank) place(rank);
  for (uint32_t rank = 0; rank < ranks(); ++rank) of_ranks.push_back(operations_of(rank));
  std::vector<Bytes> received(ranks());
  std::vector<std::unique_ptr<Gate>> gates;
  for (uint32_t rank = 0; rank < ranks(); ++rank) {
    Context& context = group_.ranks().on(rank);
    const Stream& stream = group_[rank].stream();
    Place& place = places_[rank];
    if (place.send) place.send->write(Bytes(sent_[rank].size()));  // until the stream comes to it
    gates.push_back(std::make_unique<Gate>(context, stream));
    if (place.send) place.send->upload(stream, sent_[rank]);
    context.require_ok(words("collective_enqueue behind other work, of rank ", rank),
                       group_[rank].enqueue(of_ranks[rank]));
    if (place.recv) place.recv->download(stream, &received[rank]);
  }
  while (!gates.empty()) gates.pop_back();  // the last rank begins first
  group_.finish();
  for (uint32_t rank = 0; rank < ranks(); ++rank) {
    check(rank);
    if (!places_[rank].recv) continue;
    group_.ranks().context().expect_bytes(
        words("what a copy behind the operation reads, of ", at(rank)), received[rank],
        places_[rank].recv->read("what is received"));
  }
}

bool is_claimed(const CollectiveCaps& caps, const Subject& subject, bool deterministic) {
  const uint32_t kind = subject.shape->kind;
  if (!caps.has(kind, subject.dtype, subject.reduction, deterministic)) return false;
  return kind != kExchange || caps.has(BP_COLLECTIVE_RECV, subject.dtype, 0, false);
}

/// Refused in a group that goes on as if nothing had been asked.
void expect_refused(Group& group, const Subject& subject) {
  Context& context = group.ranks().context();
  const auto op = operation(subject.shape->kind, subject.dtype, 0, {}, {}, subject.reduction);
  context.expect_status("collective_enqueue of what no row has", group[0].enqueue({op}),
                        BP_UNSUPPORTED);
  group.enqueue_together(std::vector<Operations>(group.count(), {group.ranks().nothing()}));
  group.finish();
}

}  // namespace

const std::vector<KindShape>& kind_shapes() {
  static const std::vector<KindShape> kShapes = {
      {BP_COLLECTIVE_ALL_REDUCE, "all_reduce", Part::kBlock, Part::kBlock, true, false, true},
      {BP_COLLECTIVE_ALL_GATHER, "all_gather", Part::kBlock, Part::kBlocks, false, false, true},
      {BP_COLLECTIVE_REDUCE_SCATTER, "reduce_scatter", Part::kBlocks, Part::kBlock, true, false,
       true},
      {BP_COLLECTIVE_BROADCAST, "broadcast", Part::kBlockAtRoot, Part::kBlock, false, true, true},
      {kExchange, "send_recv", Part::kBlock, Part::kBlock, false, false, false},
      {BP_COLLECTIVE_REDUCE, "reduce", Part::kBlock, Part::kBlockAtRoot, true, true, true},
      {BP_COLLECTIVE_GATHER, "gather", Part::kBlock, Part::kBlocksAtRoot, false, true, true},
      {BP_COLLECTIVE_SCATTER, "scatter", Part::kBlocksAtRoot, Part::kBlock, false, true, true},
      {BP_COLLECTIVE_ALL_TO_ALL, "all_to_all", Part::kBlocks, Part::kBlocks, false, false, false}};
  return kShapes;
}

std::string Subject::id() const {
  std::string text = "L4." + std::string(shape->name) + ".";
  if (shape->reduces) text += std::string(reduction_name(reduction)) + ".";
  return text + std::string(dtype_name(dtype)) + words(".p", rank_count);
}

std::vector<Subject> all_subjects() {
  std::vector<Subject> all;
  uint32_t row = 0;
  for (const KindShape& shape : kind_shapes()) {
    const uint32_t reductions = shape.reduces ? BP_REDUCTION_AVG + 1 : 1;
    for (uint32_t reduction = 0; reduction < reductions; ++reduction, ++row) {
      uint32_t column = 0;
      for (const uint32_t dtype : kMovedDtypes) {
        if (shape.reduces && !can_be_reduced(dtype, reduction)) continue;
        const uint32_t first = (row + column++) % kMostRanks;
        for (const uint32_t size : {first, (first + kSizeStep) % kMostRanks}) {
          all.push_back({&shape, reduction, dtype, size + 1});
        }
      }
    }
  }
  return all;
}

void run_subject(Context& context, const Subject& subject) {
  Ranks ranks(context, subject.rank_count);
  Group group(ranks);
  if (!is_claimed(ranks.caps(), subject, false)) {
    expect_refused(group, subject);
    throw NotApplicable{"no row has this kind, reduction and dtype"};
  }
  const bool reduces = subject.shape->reduces;
  const bool has_deterministic = reduces && is_claimed(ranks.caps(), subject, true);
  for (const Variant& variant : variants_of(subject, has_deterministic)) {
    note_step(variant.words());
    Try(group, subject, variant).run();
    if (ranks.has_failures()) return;  // one is enough, and the next would say the same
  }
  note_step({});
}

void run_in_streams(Context& context, const KindShape& shape) {
  Ranks ranks(context, 2);
  const auto has = [&](uint32_t dtype) {
    return is_claimed(ranks.caps(), {&shape, BP_REDUCTION_SUM, dtype, 2}, false);
  };
  uint32_t dtype = BP_DTYPE_F32;
  for (const uint32_t each : kMovedDtypes) {
    if (!has(dtype)) dtype = each;
  }
  if (!has(dtype)) throw NotApplicable{words("no row has a sum by ", shape.name)};
  const Subject subject{&shape, BP_REDUCTION_SUM, dtype, 2};
  Group group(ranks);
  for (const uint32_t root : {0u, 1u}) {
    Variant variant;
    variant.count = 1000;
    variant.root = root;
    variant.seed = root + 1;
    Try(group, subject, variant).run_in_streams();
  }
}

}  // namespace bp::conform
