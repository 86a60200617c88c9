// SPDX-License-Identifier: Apache-2.0
//
// POSIX: an open descriptor that an object owns.
#ifndef BACKPLANE_CCL_STORE_DESCRIPTOR_HPP
#define BACKPLANE_CCL_STORE_DESCRIPTOR_HPP

#include <unistd.h>

#include <string>
#include <system_error>
#include <utility>

namespace bp::ccl {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Descriptor() { close(); }

  int get() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }
  /// It is no longer this object's.
  int release() { return std::exchange(descriptor_, -1); }
  void close() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
  }

 private:
  int descriptor_ = -1;
};

/// The system's words for an error number.
inline std::string reason_of(int error) { return std::generic_category().message(error); }

}  // namespace bp::ccl

#endif
