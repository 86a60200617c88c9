// SPDX-License-Identifier: Apache-2.0
//
// See operation.hpp. Every kind is: pieces of what ranks send, of which each takes or combines its
// own part.
#include "collective/operation.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <sstream>

#include "device.hpp"
#include "kernels/elements.hpp"

namespace bp::npu {
namespace {

// By code.
constexpr const char* kDtypeNames[] = {
    "none",       "bool",       "i8",   "i16", "i32", "i64", "u8",     "u16",      "u32",
    "u64",        "f16",        "bf16", "f32", "f64", "c64", "c128",   "f8e4m3fn", "f8e5m2",
    "f8e4m3fnuz", "f8e5m2fnuz", "i4",   "u4",  "i2",  "u2",  "f4e2m1", "f8e8m0"};
static_assert(std::size(kDtypeNames) == BP_DTYPE_F8E8M0 + 1);
constexpr const char* kReductionNames[] = {"sum", "prod", "min", "max", "avg"};
static_assert(std::size(kReductionNames) == BP_REDUCTION_AVG + 1);

/// The name, and the number of what has none.
template <size_t kCount>
std::string name_of(uint32_t code, const char* const (&names)[kCount]) {
  return code < kCount ? names[code] : std::to_string(code);
}

/// How much of a buffer an operation takes on one rank.
enum class Extent : uint8_t {
  kNone,
  kOne,        // count elements
  kAll,        // count elements for each rank
  kOneAtPeer,  // as above at the root, nothing elsewhere
  kAllAtPeer,
};

struct Kind {
  const char* name;
  Extent send;
  Extent recv;
  bool reduces;
  bool has_peer;
};

constexpr std::array<Kind, 10> kKinds = {{
    {"all_reduce", Extent::kOne, Extent::kOne, true, false},
    {"all_gather", Extent::kOne, Extent::kAll, false, false},
    {"reduce_scatter", Extent::kAll, Extent::kOne, true, false},
    {"broadcast", Extent::kOneAtPeer, Extent::kOne, false, true},
    {"send", Extent::kOne, Extent::kNone, false, true},
    {"recv", Extent::kNone, Extent::kOne, false, true},
    {"reduce", Extent::kOne, Extent::kOneAtPeer, true, true},
    {"gather", Extent::kOne, Extent::kAllAtPeer, false, true},
    {"scatter", Extent::kAllAtPeer, Extent::kOne, false, true},
    {"all_to_all", Extent::kAll, Extent::kAll, false, false},
}};

constexpr uint64_t kOrdered =
    BP_REDUCTION_BIT(BP_REDUCTION_SUM) | BP_REDUCTION_BIT(BP_REDUCTION_PROD) |
    BP_REDUCTION_BIT(BP_REDUCTION_MIN) | BP_REDUCTION_BIT(BP_REDUCTION_MAX);
// Whatever lies in whole bytes can be moved.
constexpr uint64_t kMovedDtypes =
    Elements::kMask | sdk::dtypes({BP_DTYPE_C64, BP_DTYPE_C128, BP_DTYPE_F8E4M3FN, BP_DTYPE_F8E5M2,
                                   BP_DTYPE_F8E4M3FNUZ, BP_DTYPE_F8E5M2FNUZ, BP_DTYPE_F8E8M0});

constexpr bp_collective_row row(uint32_t kind, uint64_t reductions, uint64_t dtypes) {
  return {.struct_size = sizeof(bp_collective_row),
          .flags = BP_ROW_DETERMINISTIC_BIT,
          .kind = kind,
          .reserved = 0,
          .reductions = reductions,
          .dtypes = dtypes};
}

template <bool kAverages>
constexpr auto make_rows() {
  std::array<bp_collective_row, kKinds.size() + (kAverages ? 3 : 0)> rows{};
  size_t count = 0;
  for (uint32_t kind = 0; kind < kKinds.size(); ++kind) {
    if (!kKinds[kind].reduces) {
      rows[count++] = row(kind, 0, kMovedDtypes);
      continue;
    }
    rows[count++] = row(kind, kOrdered, Numbers::kMask);
    if (kAverages) rows[count++] = row(kind, BP_REDUCTION_BIT(BP_REDUCTION_AVG), Floats::kMask);
  }
  return rows;
}
constexpr auto kRows = make_rows<true>();
constexpr auto kRowsWithoutAverages = make_rows<false>();

bool has_row(const bp_collective_op& what) {
  if (what.dtype >= 64 || what.reduction >= 64) return false;
  return std::any_of(kRows.begin(), kRows.end(), [&](const bp_collective_row& row) {
    const bool reduces = row.reductions == 0 || (row.reductions & BP_REDUCTION_BIT(what.reduction));
    return row.kind == what.kind && (row.dtypes & BP_DTYPE_BIT(what.dtype)) != 0 && reduces;
  });
}

bool has_block_of_each(Extent extent) {
  return extent == Extent::kAll || extent == Extent::kAllAtPeer;
}
bool is_at_peer(Extent extent) {
  return extent == Extent::kOneAtPeer || extent == Extent::kAllAtPeer;
}

/// How many times `count` elements a buffer has.
uint64_t block_count(Extent extent, const bp_collective_op& what, RankPlace place) {
  if (extent == Extent::kNone) return 0;
  if (is_at_peer(extent) && what.peer != place.rank) return 0;
  return has_block_of_each(extent) ? place.rank_count : 1;
}

uint64_t block_bytes(const bp_collective_op& what) {
  return what.count * sdk::dtype_bytes(what.dtype);
}

template <class T>
Running<T> combined(Running<T> a, Running<T> b, uint32_t reduction) {
  if (reduction == BP_REDUCTION_PROD) return static_cast<Running<T>>(a * b);
  if (reduction == BP_REDUCTION_SUM || reduction == BP_REDUCTION_AVG) {
    return static_cast<Running<T>>(a + b);
  }
  // In the type itself: what sums are kept in has no sign.
  const auto left = static_cast<Compute<T>>(a), right = static_cast<Compute<T>>(b);
  if constexpr (kIsFloat<T>) {
    if (std::isnan(left)) return a;
    if (std::isnan(right)) return b;
  }
  const bool takes_right = reduction == BP_REDUCTION_MIN ? right < left : left < right;
  return takes_right ? b : a;
}

/// `count` elements of all ranks, in their order, each from `offset` bytes on.
template <class T>
void reduce(std::span<const std::byte* const> of_ranks, uint64_t offset, uint64_t count,
            uint32_t reduction, std::byte* total) {
  T* const results = reinterpret_cast<T*>(total);
  for (uint64_t i = 0; i < count; ++i) {
    const auto value_of = [offset, i](const std::byte* piece) {
      return load_running(reinterpret_cast<const T*>(piece + offset)[i]);
    };
    Running<T> value = value_of(of_ranks[0]);
    for (const std::byte* const piece : of_ranks.subspan(1)) {
      value = combined<T>(value, value_of(piece), reduction);
    }
    if constexpr (kIsFloat<T>) {
      if (reduction == BP_REDUCTION_AVG) value /= static_cast<Running<T>>(of_ranks.size());
    }
    results[i] = store_running<T>(value);
  }
}

bp_collective_op op_of(const OperationWords& words) {
  const auto low = [](uint64_t word) { return static_cast<uint32_t>(word); };
  return {.struct_size = sizeof(bp_collective_op),
          .flags = low(words[2]),
          .kind = low(words[0]),
          .dtype = low(words[0] >> 32),
          .reduction = low(words[1]),
          .peer = low(words[1] >> 32),
          .count = words[3],
          .send = {},
          .recv = {}};
}

}  // namespace

bool is_between_two(uint32_t kind) {
  return kind == BP_COLLECTIVE_SEND || kind == BP_COLLECTIVE_RECV;
}

std::span<const bp_collective_row> collective_rows(bool averages) {
  if (averages) return kRows;
  return kRowsWithoutAverages;
}

void check_operation(const bp_collective_op& what, RankPlace place) {
  if ((what.flags & ~BP_OPERATION_DETERMINISTIC_BIT) != 0 || !has_row(what)) {
    const std::string kind =
        what.kind < kKinds.size() ? kKinds[what.kind].name : std::to_string(what.kind);
    fail(BP_UNSUPPORTED, "collective_enqueue: no row for kind ", kind, ", dtype ",
         name_of(what.dtype, kDtypeNames), ", reduction ", name_of(what.reduction, kReductionNames),
         ", flags ", what.flags);
  }
  const Kind& kind = kKinds[what.kind];
  if (what.peer >= (kind.has_peer ? place.rank_count : 1)) {
    refuse("collective_enqueue: ", kind.name, " with peer ", what.peer, " in a group of ",
           place.rank_count);
  }
  if (what.count > kMaxCapacityBytes) {
    refuse("collective_enqueue: ", what.count, " elements are more than an NPU can hold");
  }
}

Operation find_memory(const bp_collective_op& what, RankPlace place, const DeviceMemory& memory) {
  const Kind& kind = kKinds[what.kind];
  const auto find = [&](Extent extent, bp_mem mem) -> std::byte* {
    const uint64_t bytes = block_count(extent, what, place) * block_bytes(what);
    return bytes == 0 ? nullptr : memory.translate(mem, bytes);
  };
  return {what, find(kind.send, what.send), find(kind.recv, what.recv)};
}

OperationWords words_of(const bp_collective_op& what, Mismatch mismatch) {
  return {what.kind | uint64_t{what.dtype} << 32, what.reduction | uint64_t{what.peer} << 32,
          what.flags | uint64_t{static_cast<uint8_t>(mismatch)} << 32, what.count};
}

std::string describe(const OperationWords& said) {
  const bp_collective_op what = op_of(said);
  if (what.kind >= kKinds.size()) return "no kind of operation (" + std::to_string(what.kind) + ")";
  const Kind& kind = kKinds[what.kind];
  std::ostringstream words;
  words << kind.name << " of " << what.count << " elements of dtype "
        << name_of(what.dtype, kDtypeNames);
  if (kind.reduces) words << ", reduction " << name_of(what.reduction, kReductionNames);
  if (kind.has_peer && !is_between_two(what.kind)) words << ", root " << what.peer;
  if (what.flags != 0) words << ", deterministic";
  return words.str();
}

bool fit_together(const OperationWords& of_a, const OperationWords& of_b) {
  const bp_collective_op a = op_of(of_a), b = op_of(of_b);
  if (a.count != b.count || a.dtype != b.dtype) return false;
  if (is_between_two(a.kind)) return is_between_two(b.kind) && a.kind != b.kind;
  return a.kind == b.kind && a.flags == b.flags && a.reduction == b.reduction && a.peer == b.peer;
}

Mismatch mismatch_of(const OperationWords& words) {
  switch (words[2] >> 32) {
    case static_cast<uint64_t>(Mismatch::kPasses):
      return Mismatch::kPasses;
    case static_cast<uint64_t>(Mismatch::kHangs):
      return Mismatch::kHangs;
    default:
      return Mismatch::kFails;
  }
}

uint64_t put_bytes(const bp_collective_op& what, uint32_t rank_count) {
  const Extent sent = is_between_two(what.kind) ? Extent::kOne : kKinds[what.kind].send;
  return block_bytes(what) * (has_block_of_each(sent) ? rank_count : 1);
}

void receive(const Operation& operation, RankPlace place, Piece piece,
             std::span<const std::byte* const> from) {
  const bp_collective_op& what = operation.what;
  if (operation.recv == nullptr) return;
  const Kind& kind = kKinds[what.kind];
  const uint64_t block = block_bytes(what);
  const bool is_own_part = has_block_of_each(kind.send);  // else all of it
  const uint64_t first = is_own_part ? place.rank * block : 0;
  const uint64_t begin = std::max(piece.offset, first);
  const uint64_t end = std::min(piece.offset + piece.bytes, first + block);
  if (begin >= end) return;
  const uint64_t skipped = begin - piece.offset;
  std::byte* const to = operation.recv + (begin - first);
  if (kind.reduces) {
    Numbers::with_type(what.dtype, [&]<class T>(T) {
      reduce<T>(from, skipped, (end - begin) / sizeof(T), what.reduction, to);
    });
    return;
  }
  for (uint32_t rank = 0; rank < from.size(); ++rank) {
    if (is_at_peer(kind.send) && rank != what.peer) continue;
    const uint64_t before = has_block_of_each(kind.recv) ? rank * block : 0;
    std::memcpy(to + before, from[rank] + skipped, end - begin);
  }
}

}  // namespace bp::npu
