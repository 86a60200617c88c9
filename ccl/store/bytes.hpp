// SPDX-License-Identifier: Apache-2.0
//
// Numbers and texts as bytes, for what goes over a wire or into a file: little-endian, and read
// with every length checked.
#ifndef BACKPLANE_CCL_STORE_BYTES_HPP
#define BACKPLANE_CCL_STORE_BYTES_HPP

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace bp::ccl {

template <std::unsigned_integral T>
void put(std::string* out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    out->push_back(static_cast<char>(static_cast<uint64_t>(value) >> (8 * i)));
  }
}

/// Takes values from the front of foreign bytes. What is not there reads as zero or empty, and ok()
/// is false from then on: so it is asked once, after the last value.
class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : left_(bytes) {}

  template <std::unsigned_integral T>
  T take() {
    const std::string_view bytes = take_bytes(sizeof(T));
    uint64_t value = 0;
    for (size_t i = 0; i < bytes.size(); ++i) {
      value |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    }
    return static_cast<T>(value);
  }

  std::string_view take_bytes(uint64_t count) {
    if (count > left_.size()) {
      is_ok_ = false;
      left_ = {};
      return {};
    }
    const std::string_view bytes = left_.substr(0, count);
    left_.remove_prefix(count);
    return bytes;
  }

  std::string_view take_rest() { return take_bytes(left_.size()); }
  bool ok() const { return is_ok_; }
  /// All values were there, and nothing comes after them.
  bool ended_well() const { return is_ok_ && left_.empty(); }

 private:
  std::string_view left_;
  bool is_ok_ = true;
};

}  // namespace bp::ccl

#endif
