// SPDX-License-Identifier: Apache-2.0
//
// The mock's executables: a program with its weights in device memory, and the bytes to make it
// again.
#ifndef BACKPLANE_TESTS_SKETCHES_EXECUTABLE_MOCK_EXECUTABLE_HPP
#define BACKPLANE_TESTS_SKETCHES_EXECUTABLE_MOCK_EXECUTABLE_HPP

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device.hpp"
#include "tests/sketches/executable_mock/program.hpp"

namespace bp::sketch {

/// Immutable once made.
class Executable {
 public:
  /// `image` is kept as bytes, weights go to device memory. Throws Failure.
  Executable(bp_device* device, std::vector<std::byte> image,
             std::span<const std::span<const std::byte>> constants);
  ~Executable();
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  bp_device* device() const { return device_; }
  const sdk::Host& host() const { return device_->host(); }
  const Program& program() const { return program_; }
  uint64_t weight_bytes() const { return weight_bytes_; }
  uint64_t workspace_bytes(std::span<const int64_t> symbols) const;
  std::vector<std::byte> serialize() const;

  /// Where each value lies in a run. `places` are the inputs, then the outputs.
  std::vector<bp_mem> places_of(std::span<const int64_t> symbols, std::span<const bp_mem> places,
                                bp_mem workspace) const;
  uint64_t bytes_of(uint32_t value, std::span<const int64_t> symbols) const;

 private:
  bp_device* const device_;
  const std::vector<std::byte> image_;
  Program program_;
  bp_mem weights_{};
  uint64_t weight_bytes_ = 0;
  std::vector<uint64_t> constant_offsets_;
  std::vector<uint64_t> constant_bytes_;
};

/// What a serialised executable begins with.
struct BlobHead {
  char magic[8];
  uint32_t format;
  uint32_t constant_count;
  uint64_t image_bytes;
  uint64_t check;  // over all that follows the head
};

inline constexpr char kBlobMagic[8] = {'B', 'P', 'S', 'K', 'E', 'X', 'E', 'C'};
inline constexpr uint32_t kBlobFormat = 1;

}  // namespace bp::sketch

struct bp_executable final : bp::sketch::Executable {
  using Executable::Executable;
};

namespace bp::sketch {

/// nullptr, or why these bytes cannot be used. The head alone, unless `whole`.
const char* blob_defect(std::span<const std::byte> blob, bool whole);
/// Throws Failure BP_INCOMPATIBLE.
std::unique_ptr<bp_executable> deserialize(bp_device* device, std::span<const std::byte> blob);

}  // namespace bp::sketch

/// Runs share nothing that changes, so a context only watches that its user keeps the rules.
struct bp_executable_context final {
  const bp_executable* executable;
  /// Runs that are queued or running; they outlive a context that is destroyed too early.
  std::shared_ptr<std::atomic<int>> pending = std::make_shared<std::atomic<int>>(0);

  const bp::sdk::Host& host() const { return executable->host(); }
};

#endif
