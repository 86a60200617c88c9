// SPDX-License-Identifier: Apache-2.0
//
// Sizes and strides without heap: at most BP_MAX_RANK numbers in place. A size below 0 is not known
// yet: kUnknownDim says nothing about it, lower values are symbols, equal where the size is equal
// ("N" of a model). Shape inference works on both.
#ifndef BACKPLANE_CORE_BASE_DIMS_HPP
#define BACKPLANE_CORE_BASE_DIMS_HPP

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

#include "backplane/types.h"

namespace bp {

inline constexpr int64_t kUnknownDim = -1;
/// The symbol number `index` (0, 1, ...) as a size.
constexpr int64_t symbol_dim(int64_t index) { return -2 - index; }
constexpr bool is_known(int64_t size) { return size >= 0; }
/// The number of the symbol that a size is; nullopt: it is none.
constexpr std::optional<size_t> symbol_index(int64_t size) {
  if (size > symbol_dim(0)) return std::nullopt;
  return static_cast<size_t>(symbol_dim(0) - size);
}

class Dims {
 public:
  Dims() = default;
  Dims(const Dims& other) { *this = other; }
  Dims& operator=(const Dims& other) {
    // Most tensors have few dimensions, and every call copies some.
    if (other.rank_ <= kFew) {
      // By way of registers: what may overlap is moved by a call.
      std::array<int64_t, kFew> few;
      std::memcpy(few.data(), other.values_.data(), sizeof(few));
      std::memcpy(values_.data(), few.data(), sizeof(few));
    } else {
      values_ = other.values_;
    }
    rank_ = other.rank_;
    return *this;
  }
  Dims(std::initializer_list<int64_t> values) : Dims(std::span(values.begin(), values.size())) {}
  /// At most BP_MAX_RANK values; callers check foreign input first.
  explicit Dims(std::span<const int64_t> values) {
    for (int64_t value : values) push_back(value);
  }

  size_t size() const { return rank_; }
  bool empty() const { return rank_ == 0; }
  const int64_t* data() const { return values_.data(); }
  int64_t* data() { return values_.data(); }
  const int64_t* begin() const { return data(); }
  const int64_t* end() const { return data() + rank_; }
  int64_t* begin() { return data(); }
  int64_t* end() { return data() + rank_; }
  int64_t operator[](size_t i) const {
    assert(i < rank_);
    return values_[i];
  }
  int64_t& operator[](size_t i) {
    assert(i < rank_);
    return values_[i];
  }
  int64_t back() const { return values_[rank_ - 1]; }
  void push_back(int64_t value) {
    assert(rank_ < BP_MAX_RANK);
    values_[rank_++] = value;
  }
  void resize(size_t rank, int64_t value = 0) {
    assert(rank <= BP_MAX_RANK);
    for (size_t i = rank_; i < rank && i < BP_MAX_RANK; ++i) values_[i] = value;
    rank_ = static_cast<uint32_t>(rank);
  }
  void clear() { rank_ = 0; }
  friend bool operator==(const Dims& a, const Dims& b) {
    if (a.rank_ != b.rank_) return false;
    for (uint32_t i = 0; i < a.rank_; ++i) {
      if (a.values_[i] != b.values_[i]) return false;
    }
    return true;
  }

 private:
  static constexpr uint32_t kFew = 4;
  std::array<int64_t, BP_MAX_RANK> values_;  // only the first rank_ are ever read
  uint32_t rank_ = 0;
};

/// True if every size is known.
bool all_known(const Dims& sizes);
/// As many elements as a tensor has at most, so that their bytes can be counted in int64.
inline constexpr int64_t kMostElements = INT64_MAX / 16;
/// The product of the sizes above 0; nullopt if it overflows int64. Unknown sizes count as one:
/// what is known already must fit. So do zeros: {0, 2^62, 2^62} has no elements, but strides,
/// slices and other sizes are computed from the rest alone.
std::optional<int64_t> checked_product(std::span<const int64_t> sizes);
/// The number of elements of known sizes; nullopt for a negative size, where
/// checked_product() of them overflows, and beyond kMostElements.
std::optional<int64_t> checked_element_count(std::span<const int64_t> sizes);
/// The product of sizes that were checked before.
int64_t element_count(std::span<const int64_t> sizes);
/// Row-major strides in elements.
Dims contiguous_strides(const Dims& sizes);
/// True if the strides are row-major without gaps; dimensions of size 1 are not looked at, and
/// tensors without elements always are.
bool is_contiguous(const Dims& sizes, const Dims& strides);
/// True if the strides are, exactly, those of a contiguous tensor whose dimensions were then put
/// into another order; dimensions of size 1 are not looked at. For sizes above 0 whose product was
/// checked, and any strides.
bool is_dense(const Dims& sizes, std::span<const int64_t> strides);
/// The elements that lie between the first and the last one of a tensor, ends included.
struct ElementRange {
  int64_t lowest = 0;  // from element [0, ...], never above 0
  int64_t count = 0;
};

/// Of sizes and strides that were checked before.
ElementRange element_range(const Dims& sizes, const Dims& strides);
/// "[2, -1, 3]": numbers as a caller gave them, which may mean nothing.
std::string numbers_text(std::span<const int64_t> numbers);
/// "[2, N?, 3]": unknown sizes as "?", symbols as "s0", "s1"...
std::string to_string(const Dims& sizes);

}  // namespace bp

#endif
