// SPDX-License-Identifier: Apache-2.0
//
// Aligned host memory: stands in for pinned memory, and stages fills, mappings and copied launches.
#ifndef BACKPLANE_CORE_EMULATION_HOST_BUFFER_HPP
#define BACKPLANE_CORE_EMULATION_HOST_BUFFER_HPP

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace bp {

inline constexpr uint64_t kHostAlignmentBytes = 64;

/// `bytes` rounded up to kHostAlignmentBytes. The caller has checked that it fits.
constexpr uint64_t align_up(uint64_t bytes) {
  return (bytes + kHostAlignmentBytes - 1) / kHostAlignmentBytes * kHostAlignmentBytes;
}

/// The address that the handle of host memory is.
inline std::byte* host_address(uint64_t handle) { return std::bit_cast<std::byte*>(handle); }

/// nullptr: out of memory. 0 bytes are legal and give an address of their own. Any thread.
void* aligned_host_alloc(uint64_t bytes);
/// nullptr does nothing. Any thread.
void aligned_host_free(void* ptr);

/// Owns memory of aligned_host_alloc; empty after a failed allocation.
class HostBuffer {
 public:
  HostBuffer() = default;
  explicit HostBuffer(uint64_t bytes) : data_(static_cast<std::byte*>(aligned_host_alloc(bytes))) {}
  HostBuffer(HostBuffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  HostBuffer& operator=(HostBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~HostBuffer() { aligned_host_free(data_); }

  std::byte* data() const { return data_; }
  bool empty() const { return data_ == nullptr; }
  /// The memory is the caller's now.
  void* release() { return std::exchange(data_, nullptr); }

 private:
  std::byte* data_ = nullptr;
};

}  // namespace bp

#endif
