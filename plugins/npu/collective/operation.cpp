// SPDX-License-Identifier: Apache-2.0
//
// See operation.hpp. Every kind is: gather what ranks send, perhaps reduce it, hand out the parts.
#include "collective/operation.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "device.hpp"
#include "kernels/elements.hpp"

namespace bp::npu {
namespace {

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

constexpr auto kRows = [] {
  std::array<bp_collective_row, kKinds.size() + 3> rows{};
  size_t count = 0;
  for (uint32_t kind = 0; kind < kKinds.size(); ++kind) {
    if (!kKinds[kind].reduces) {
      rows[count++] = row(kind, 0, kMovedDtypes);
      continue;
    }
    rows[count++] = row(kind, kOrdered, Numbers::kMask);
    rows[count++] = row(kind, BP_REDUCTION_BIT(BP_REDUCTION_AVG), Floats::kMask);
  }
  return rows;
}();

bool has_row(const bp_collective_op& what) {
  if (what.dtype >= 64 || what.reduction >= 64) return false;
  return std::any_of(kRows.begin(), kRows.end(), [&](const bp_collective_row& row) {
    const bool reduces = row.reductions == 0 || (row.reductions & BP_REDUCTION_BIT(what.reduction));
    return row.kind == what.kind && (row.dtypes & BP_DTYPE_BIT(what.dtype)) != 0 && reduces;
  });
}

/// How many times `count` elements a buffer has.
uint64_t block_count(Extent extent, const bp_collective_op& what, RankPlace place) {
  if (extent == Extent::kNone) return 0;
  const bool is_at_peer = extent == Extent::kOneAtPeer || extent == Extent::kAllAtPeer;
  if (is_at_peer && what.peer != place.rank) return 0;
  return extent == Extent::kAll || extent == Extent::kAllAtPeer ? place.rank_count : 1;
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

/// `total` of `count` elements of all ranks, in their order.
template <class T>
void reduce(std::span<const Operation> of_ranks, uint64_t count, std::byte* total) {
  const uint32_t reduction = of_ranks[0].what.reduction;
  T* const results = reinterpret_cast<T*>(total);
  for (uint64_t i = 0; i < count; ++i) {
    const auto value_of = [i](const Operation& operation) {
      return load_running(reinterpret_cast<const T*>(operation.send)[i]);
    };
    Running<T> value = value_of(of_ranks[0]);
    for (const Operation& operation : of_ranks.subspan(1)) {
      value = combined<T>(value, value_of(operation), reduction);
    }
    if constexpr (kIsFloat<T>) {
      if (reduction == BP_REDUCTION_AVG) value /= static_cast<Running<T>>(of_ranks.size());
    }
    results[i] = store_running<T>(value);
  }
}

/// Where block `index` of a buffer begins.
const std::byte* block(const std::byte* buffer, uint64_t index, uint64_t bytes) {
  return buffer + index * bytes;
}

/// What all ranks send, reduced, or one behind the other.
std::vector<std::byte> collect(std::span<const Operation> of_ranks) {
  const bp_collective_op& what = of_ranks[0].what;
  const auto rank_count = static_cast<uint32_t>(of_ranks.size());
  const Kind& kind = kKinds[what.kind];
  std::vector<std::byte> all;
  if (kind.reduces) {
    const uint64_t blocks = kind.send == Extent::kAll ? rank_count : 1;
    all.resize(blocks * block_bytes(what));
    Numbers::with_type(what.dtype,
                       [&]<class T>(T) { reduce<T>(of_ranks, blocks * what.count, all.data()); });
    return all;
  }
  for (uint32_t rank = 0; rank < rank_count; ++rank) {
    const Operation& operation = of_ranks[rank];
    const uint64_t blocks = block_count(kind.send, operation.what, {rank, rank_count});
    all.insert(all.end(), operation.send, operation.send + blocks * block_bytes(what));
  }
  return all;
}

}  // namespace

bool is_between_two(uint32_t kind) {
  return kind == BP_COLLECTIVE_SEND || kind == BP_COLLECTIVE_RECV;
}

std::span<const bp_collective_row> collective_rows() { return kRows; }

void check_operation(const bp_collective_op& what, RankPlace place) {
  if ((what.flags & ~BP_OPERATION_DETERMINISTIC_BIT) != 0 || !has_row(what)) {
    fail(BP_UNSUPPORTED, "collective_enqueue: no row for kind ", what.kind, ", dtype ", what.dtype,
         ", reduction ", what.reduction, ", flags ", what.flags);
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

std::string describe(const bp_collective_op& what) {
  const Kind& kind = kKinds[what.kind];
  std::ostringstream words;
  words << kind.name << " of " << what.count << " elements of dtype " << what.dtype;
  if (kind.reduces) words << ", reduction " << what.reduction;
  if (kind.has_peer && !is_between_two(what.kind)) words << ", root " << what.peer;
  if (what.flags != 0) words << ", deterministic";
  return words.str();
}

bool fit_together(const bp_collective_op& a, const bp_collective_op& b) {
  if (a.count != b.count || a.dtype != b.dtype) return false;
  if (is_between_two(a.kind)) return is_between_two(b.kind) && a.kind != b.kind;
  return a.kind == b.kind && a.flags == b.flags && a.reduction == b.reduction && a.peer == b.peer;
}

void run_together(const Operation& send, const Operation& recv) {
  if (send.what.count > 0) std::memmove(recv.recv, send.send, block_bytes(send.what));
}

void run_together(std::span<const Operation> of_ranks) {
  const bp_collective_op& what = of_ranks[0].what;
  if (what.count == 0) return;
  const Kind& kind = kKinds[what.kind];
  const uint64_t bytes = block_bytes(what);
  const std::vector<std::byte> all = collect(of_ranks);
  for (uint32_t rank = 0; rank < of_ranks.size(); ++rank) {
    const Operation& operation = of_ranks[rank];
    if (operation.recv == nullptr) continue;
    if (what.kind == BP_COLLECTIVE_ALL_TO_ALL) {  // block `rank` of every sender
      for (uint32_t from = 0; from < of_ranks.size(); ++from) {
        const uint64_t index = from * of_ranks.size() + rank;
        std::memcpy(operation.recv + from * bytes, block(all.data(), index, bytes), bytes);
      }
    } else if (kind.recv == Extent::kOne && all.size() > bytes) {  // its own block
      std::memcpy(operation.recv, block(all.data(), rank, bytes), bytes);
    } else {
      std::memcpy(operation.recv, all.data(), all.size());
    }
  }
}

}  // namespace bp::npu
