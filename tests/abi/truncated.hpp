// SPDX-License-Identifier: Apache-2.0
//
// A versioned struct as a side would allocate it that knows only its first bytes. The memory ends
// where the struct does, so that an address sanitizer sees one byte read or written too many.
#ifndef BACKPLANE_TESTS_ABI_TRUNCATED_HPP
#define BACKPLANE_TESTS_ABI_TRUNCATED_HPP

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <set>

#include "struct_table.hpp"

namespace bp::abi {

/// The sizes at which each struct of kStructs was handed over; at the end of a run,
/// truncation_coverage.cpp compares them with the description of the ABI.
inline std::array<std::set<uint32_t>, std::size(kStructs)> tried_sizes;

template <class T>
void note_size(uint32_t bytes) {
  tried_sizes[kPlaceOf<T>].insert(bytes);
}

template <class T>
class Truncated {
 public:
  /// struct_size is `bytes`; it is there even if nothing else is.
  Truncated(const T& whole, uint32_t bytes)
      : bytes_(bytes), memory_(new std::byte[std::max<size_t>(bytes, sizeof(bytes))]) {
    note_size<T>(bytes);
    std::memcpy(memory_.get(), &whole, std::min<size_t>(bytes, sizeof(T)));
    std::memcpy(memory_.get(), &bytes, sizeof(bytes));
  }
  T* get() { return reinterpret_cast<T*>(memory_.get()); }

  /// The struct as a side sees it that knows all of it: zero beyond its end.
  T whole() const {
    T copy{};
    std::memcpy(&copy, memory_.get(), std::min<size_t>(bytes_, sizeof(T)));
    return copy;
  }
  uint32_t struct_size() const {
    uint32_t size = 0;
    std::memcpy(&size, memory_.get(), sizeof(size));
    return size;
  }

 private:
  const uint32_t bytes_;
  const std::unique_ptr<std::byte[]> memory_;
};

/// Bytes up to and with a member, as a compiler would end the struct there: sizes are multiples
/// of 8.
#define BP_UP_TO(type, member) \
  static_cast<uint32_t>((offsetof(type, member) + sizeof(type::member) + 7) / 8 * 8)

/// Calls body(bytes) for each size from 0 to that of T.
template <class T, class Body>
void for_each_size(Body body) {
  for (uint32_t bytes = 0; bytes <= sizeof(T); bytes += 4) body(bytes);
}

}  // namespace bp::abi

#endif
