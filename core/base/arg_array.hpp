// SPDX-License-Identifier: Apache-2.0
//
// Room for the arguments of one call: a few in place, more on the heap, for operators with many are
// rare.
#ifndef BACKPLANE_CORE_BASE_ARG_ARRAY_HPP
#define BACKPLANE_CORE_BASE_ARG_ARRAY_HPP

#include <array>
#include <cstddef>
#include <memory>
#include <span>

namespace bp {

inline constexpr size_t kLocalArgs = 8;

/// Throws std::bad_alloc for more than kLocalArgs.
template <class T>
class ArgArray {
 public:
  explicit ArgArray(size_t size) : size_(size) {
    if (size <= kLocalArgs) [[likely]]
      return;
    heap_ = std::make_unique<T[]>(size);
    data_ = heap_.get();
  }
  ArgArray(const ArgArray&) = delete;
  ArgArray& operator=(const ArgArray&) = delete;
  T& operator[](size_t i) { return data_[i]; }
  T* data() { return data_; }
  std::span<T> span() { return {data_, size_}; }

 private:
  const size_t size_;
  // Not value-initialised: that would write kilobytes of sizes and strides that are never read.
  std::array<T, kLocalArgs> local_;
  std::unique_ptr<T[]> heap_;
  T* data_ = local_.data();
};

}  // namespace bp

#endif
