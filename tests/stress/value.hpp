// SPDX-License-Identifier: Apache-2.0
//
// Tensors that know what they must hold: small whole numbers, so that every device computes them
// exactly and in any order.
#ifndef BACKPLANE_TESTS_STRESS_VALUE_HPP
#define BACKPLANE_TESTS_STRESS_VALUE_HPP

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <mutex>
#include <optional>
#include <random>
#include <vector>

#include "backplane/ops.hpp"

namespace bp::stress {

using Numbers = std::vector<float>;
using Sizes = std::vector<int64_t>;

/// Products of two, and sums of products over a row, stay exact in f32.
inline constexpr float kLargest = 256;

struct Value {
  Tensor tensor;
  Numbers expected;  // row-major
  Sizes sizes;
  int device = -1;  // index; -1: host memory
};

inline size_t count_of(const Sizes& sizes) {
  size_t count = 1;
  for (const int64_t size : sizes) count *= static_cast<size_t>(size);
  return count;
}

inline float largest(const Numbers& numbers) {
  float most = 0;
  for (const float number : numbers) most = std::max(most, std::fabs(number));
  return most;
}

template <class Function>
Numbers elementwise(const Numbers& a, const Numbers& b, Function function) {
  Numbers result(a.size());
  for (size_t i = 0; i < a.size(); ++i) result[i] = function(a[i], b.size() == 1 ? b[0] : b[i]);
  return result;
}

inline Numbers transposed(const Numbers& numbers, const Sizes& sizes) {
  const auto rows = static_cast<size_t>(sizes[0]);
  const auto columns = static_cast<size_t>(sizes[1]);
  Numbers result(numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    result[i % columns * rows + i / columns] = numbers[i];
  }
  return result;
}

inline Numbers multiplied(const Numbers& a, const Numbers& b, size_t n) {
  Numbers result(n * n);
  for (size_t i = 0; i < n * n; ++i) {
    for (size_t k = 0; k < n; ++k) result[i] += a[i / n * n + k] * b[k * n + i % n];
  }
  return result;
}

inline Numbers row_sums(const Numbers& numbers, const Sizes& sizes) {
  Numbers result(static_cast<size_t>(sizes[0]));
  const auto columns = static_cast<size_t>(sizes[1]);
  for (size_t i = 0; i < numbers.size(); ++i) result[i / columns] += numbers[i];
  return result;
}

/// What all threads take from and put into. A tensor is read by many at once and let go by whoever
/// comes last.
class Pool {
 public:
  std::optional<Value> take(std::mt19937_64& random) {
    Slot& slot = slots_[random() % slots_.size()];
    const std::lock_guard lock(slot.mutex);
    return slot.value;
  }
  /// What was there before is released by the caller's thread, outside the lock.
  void put(std::mt19937_64& random, std::optional<Value> value) {
    Slot& slot = slots_[random() % slots_.size()];
    const std::lock_guard lock(slot.mutex);
    slot.value.swap(value);
  }
  void clear() {
    for (Slot& slot : slots_) slot.value.reset();
  }

 private:
  struct Slot {
    std::mutex mutex;
    std::optional<Value> value;
  };
  std::array<Slot, 96> slots_;
};

}  // namespace bp::stress

#endif
