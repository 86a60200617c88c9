// SPDX-License-Identifier: Apache-2.0
//
// One table of kinds and one of reductions; every question about an operation is a look-up in them.
#include "ccl/operation.hpp"

#include <array>
#include <cstdio>
#include <limits>

#include "core/base/checked.hpp"
#include "core/base/dtype.hpp"

namespace bp::ccl {
namespace {

constexpr uint64_t kIntegers = BP_DTYPE_BIT(BP_DTYPE_I8) | BP_DTYPE_BIT(BP_DTYPE_I16) |
                               BP_DTYPE_BIT(BP_DTYPE_I32) | BP_DTYPE_BIT(BP_DTYPE_I64) |
                               BP_DTYPE_BIT(BP_DTYPE_U8) | BP_DTYPE_BIT(BP_DTYPE_U16) |
                               BP_DTYPE_BIT(BP_DTYPE_U32) | BP_DTYPE_BIT(BP_DTYPE_U64);
// f8e8m0 is a scale: it has neither zero nor sign, and moves only.
constexpr uint64_t kFloats = BP_DTYPE_BIT(BP_DTYPE_F16) | BP_DTYPE_BIT(BP_DTYPE_BF16) |
                             BP_DTYPE_BIT(BP_DTYPE_F32) | BP_DTYPE_BIT(BP_DTYPE_F64) |
                             BP_DTYPE_BIT(BP_DTYPE_F8E4M3FN) | BP_DTYPE_BIT(BP_DTYPE_F8E5M2) |
                             BP_DTYPE_BIT(BP_DTYPE_F8E4M3FNUZ) | BP_DTYPE_BIT(BP_DTYPE_F8E5M2FNUZ);
constexpr uint64_t kComplex = BP_DTYPE_BIT(BP_DTYPE_C64) | BP_DTYPE_BIT(BP_DTYPE_C128);

constexpr std::array<KindInfo, kKindCount> kKinds = {{
    {"all_reduce", Extent::kCount, Extent::kCount, true, false, false},
    {"all_gather", Extent::kCount, Extent::kBlocks, false, false, false},
    {"reduce_scatter", Extent::kBlocks, Extent::kCount, true, false, false},
    {"broadcast", Extent::kCountAtRoot, Extent::kCount, false, true, false},
    {"send", Extent::kCount, Extent::kNone, false, false, true},
    {"recv", Extent::kNone, Extent::kCount, false, false, true},
    {"reduce", Extent::kCount, Extent::kCountAtRoot, true, true, false},
    {"gather", Extent::kCount, Extent::kBlocksAtRoot, false, true, false},
    {"scatter", Extent::kBlocksAtRoot, Extent::kCount, false, true, false},
    {"all_to_all", Extent::kBlocks, Extent::kBlocks, false, false, false},
    {"barrier", Extent::kNone, Extent::kNone, false, false, false},
}};
static_assert(static_cast<uint32_t>(Kind::kBarrier) + 1 == kKindCount);

struct ReductionInfo {
  std::string_view name;
  uint64_t dtypes;
};

constexpr std::array<ReductionInfo, kReductionCount> kReductions = {{
    {"sum", kIntegers | kFloats | kComplex},
    {"prod", kIntegers | kFloats | kComplex},
    {"min", kIntegers | kFloats},
    {"max", kIntegers | kFloats},
    {"avg", kFloats | kComplex},
}};

uint64_t count_of(Extent extent, const Operation& operation, RankPlace place) {
  const bool is_at_root = extent == Extent::kCountAtRoot || extent == Extent::kBlocksAtRoot;
  if (extent == Extent::kNone || (is_at_root && operation.root != place.rank)) return 0;
  if (extent == Extent::kCount || extent == Extent::kCountAtRoot) return operation.count;
  return checked_mul<uint64_t>(operation.count, place.rank_count)
      .value_or(std::numeric_limits<uint64_t>::max());
}

/// The words of an error begin with the operation.
Status refuse(const Operation& operation, const std::string& problem) {
  return {BP_INVALID_ARGUMENT, describe(operation) + ": " + problem};
}

Status check_dtype(const Operation& operation) {
  if (operation.kind == Kind::kBarrier) {
    if (operation.dtype == BP_DTYPE_NONE && operation.count == 0) return {};
    return refuse(operation, "a barrier has dtype none and count 0, found dtype " +
                                 std::string(dtype_name(operation.dtype)) + " and count " +
                                 std::to_string(operation.count));
  }
  if (!is_dtype(operation.dtype)) {
    return refuse(operation, "dtype " + std::to_string(operation.dtype) + " is none");
  }
  if (dtype_bits(operation.dtype) % 8 != 0) {
    return refuse(operation, std::string(dtype_name(operation.dtype)) +
                                 " is smaller than a byte; only whole bytes are moved. Send what "
                                 "holds it as u8");
  }
  return {};
}

Status check_reduction(const Operation& operation) {
  const KindInfo& kind = kind_info(operation.kind);
  const auto index = static_cast<uint32_t>(operation.reduction);
  if (!kind.reduces) {
    if (index == 0) return {};
    return refuse(operation, "this kind does not reduce, expected reduction 0, found " +
                                 std::to_string(index));
  }
  if (index >= kReductionCount) {
    return refuse(operation, "reduction " + std::to_string(index) + " is none");
  }
  if ((kReductions[index].dtypes & BP_DTYPE_BIT(operation.dtype)) != 0) return {};
  return refuse(operation, std::string(kReductions[index].name) + " takes " +
                               dtype_set_name(kReductions[index].dtypes) + ", found " +
                               std::string(dtype_name(operation.dtype)));
}

Status check_root(const Operation& operation, RankPlace place) {
  const KindInfo& kind = kind_info(operation.kind);
  const bool has_other = kind.has_root || kind.is_of_two;
  if (operation.root < (has_other ? place.rank_count : 1)) return {};
  if (!has_other) {
    return refuse(operation,
                  "this kind has no root, expected 0, found " + std::to_string(operation.root));
  }
  return refuse(operation, "there is no rank " + std::to_string(operation.root) +
                               " in a group of " + std::to_string(place.rank_count));
}

Status check_blocks(const Operation& operation) {
  if (operation.blocks == 0) return {};
  if (!has_blocks(operation.kind)) return refuse(operation, "this kind has no blocks");
  if (operation.kind != Kind::kAllToAll ||
      (operation.blocks == kOwnBlocks && operation.count == 0)) {
    return {};
  }
  return refuse(operation, "no rank knows the blocks of all others");
}

/// The larger buffer that any rank has, whichever this one is.
Status check_size(const Operation& operation, RankPlace place) {
  const bool is_of_equal_blocks = has_blocks(operation.kind) && operation.blocks == 0;
  const uint64_t blocks = is_of_equal_blocks ? place.rank_count : 1;
  const auto elements = checked_mul(operation.count, blocks);
  if (elements && *elements <= kMostBytes &&
      *elements * (dtype_bits(operation.dtype) / 8) <= kMostBytes) {
    return {};
  }
  return refuse(operation, "a buffer of " + std::to_string(blocks) + " times " +
                               std::to_string(operation.count) +
                               " elements is larger than any device");
}

}  // namespace

const KindInfo& kind_info(Kind kind) { return kKinds[static_cast<uint32_t>(kind)]; }

bool is_of_blocks(Extent extent) {
  return extent == Extent::kBlocks || extent == Extent::kBlocksAtRoot;
}

bool has_blocks(Kind kind) {
  return is_of_blocks(kind_info(kind).send) || is_of_blocks(kind_info(kind).recv);
}

uint64_t reduced_dtypes(Reduction reduction) {
  return kReductions[static_cast<uint32_t>(reduction)].dtypes;
}

std::string_view reduction_name(Reduction reduction) {
  const auto index = static_cast<uint32_t>(reduction);
  return index < kReductionCount ? kReductions[index].name : "unknown";
}

uint64_t send_count(const Operation& operation, RankPlace place) {
  return count_of(kind_info(operation.kind).send, operation, place);
}

uint64_t recv_count(const Operation& operation, RankPlace place) {
  return count_of(kind_info(operation.kind).recv, operation, place);
}

Status check_operation(const Operation& operation, RankPlace place) {
  if (static_cast<uint32_t>(operation.kind) >= kKindCount) {
    return {
        BP_INVALID_ARGUMENT,
        "collective kind " + std::to_string(static_cast<uint32_t>(operation.kind)) + " is none"};
  }
  if (place.rank >= place.rank_count) {
    return refuse(operation, "there is no rank " + std::to_string(place.rank) + " in a group of " +
                                 std::to_string(place.rank_count));
  }
  BP_TRY(check_dtype(operation));
  BP_TRY(check_reduction(operation));
  BP_TRY(check_root(operation, place));
  BP_TRY(check_blocks(operation));
  return check_size(operation, place);
}

std::string form_name(const Operation& operation) {
  std::string name(kind_info(operation.kind).name);
  if (operation.blocks != 0) name += "_v";
  return name;
}

std::string blocks_words(const Operation& operation) {
  if (operation.blocks == 0 || operation.blocks == kOwnBlocks) return "";
  constexpr size_t kDigits = 8;
  std::array<char, kDigits + 1> text{};
  std::snprintf(text.data(), text.size(), "%08x", static_cast<uint32_t>(operation.blocks >> 32));
  return std::string(" blocks ") + text.data();
}

std::string describe(const Operation& operation) {
  const KindInfo& kind = kind_info(operation.kind);
  std::string words = form_name(operation);
  if (kind.reduces) words += " " + std::string(reduction_name(operation.reduction));
  if (operation.kind != Kind::kBarrier) words += " " + std::string(dtype_name(operation.dtype));
  if (operation.kind != Kind::kBarrier && operation.blocks != kOwnBlocks) {
    words += " " + std::to_string(operation.count);
  }
  words += blocks_words(operation);
  if (kind.has_root) words += " root " + std::to_string(operation.root);
  if (kind.is_of_two) {
    words += (operation.kind == Kind::kSend ? " to " : " from ") + std::to_string(operation.root);
  }
  if (operation.is_deterministic) words += " deterministic";
  return words;
}

}  // namespace bp::ccl
