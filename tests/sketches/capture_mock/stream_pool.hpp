// SPDX-License-Identifier: Apache-2.0
//
// Memory in the order of streams. A block that a stream freed serves that stream at once, and
// others when the work before the free is done; blocks of captures serve the captures that are
// begun on the same stream, whose launches follow each other.
#ifndef BACKPLANE_TESTS_SKETCHES_CAPTURE_MOCK_STREAM_POOL_HPP
#define BACKPLANE_TESTS_SKETCHES_CAPTURE_MOCK_STREAM_POOL_HPP

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "device.hpp"

namespace bp::sketch {

struct PoolBlock {
  uint64_t handle;
  uint64_t bytes;
};

/// A block that a captured stream freed at node `node`.
struct FreedBlock {
  PoolBlock block;
  size_t node;
};

/// One device's. Any-thread.
class StreamPool {
 public:
  explicit StreamPool(npu::Device& device) : device_(device) {}
  /// Gives everything back to the device; no work uses it any more.
  ~StreamPool();
  StreamPool(const StreamPool&) = delete;
  StreamPool& operator=(const StreamPool&) = delete;

  uint64_t alloc(const bp_stream* stream, uint64_t bytes, uint64_t alignment_bytes);
  /// `done` turns true when the work before the free is. Throws for a foreign handle.
  void free(const bp_stream* stream, uint64_t handle, std::shared_ptr<std::atomic<bool>> done);

  /// For captures that begin on `origin`.
  PoolBlock take_for_capture(const bp_stream* origin, uint64_t bytes, uint64_t alignment_bytes);
  void give_from_capture(const bp_stream* origin, const PoolBlock& block);
  void forget_stream(const bp_stream* stream);

 private:
  struct Idle {
    PoolBlock block;
    const bp_stream* stream;
    std::shared_ptr<std::atomic<bool>> done;
  };
  PoolBlock take_new(uint64_t bytes, uint64_t alignment_bytes);

  npu::Device& device_;
  std::mutex mutex_;
  std::map<uint64_t, uint64_t> all_;   // handle, bytes
  std::map<uint64_t, uint64_t> used_;  // outside captures
  std::vector<Idle> idle_;
  std::multimap<const bp_stream*, PoolBlock> of_captures_;
};

}  // namespace bp::sketch

#endif
