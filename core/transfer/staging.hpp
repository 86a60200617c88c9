// SPDX-License-Identifier: Apache-2.0
//
// Host memory that copies of a queued device go through, so that they can be queued: a source is
// reusable when the call returns, and only reads wait. Bounded; where it cannot serve,
// copies are done by the time the call returns, as on a device without a queue (ADR 22).
#ifndef BACKPLANE_CORE_TRANSFER_STAGING_HPP
#define BACKPLANE_CORE_TRANSFER_STAGING_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "core/base/status.hpp"
#include "core/runtime/device.hpp"
#include "core/runtime/stream.hpp"

namespace bp {

/// The staging memory of a device: chunks of pinned memory, each taken at its first use and kept.
/// A chunk belongs to one stream at a time, whose copies share it until it is full. Any thread.
class Staging : public DeviceExtension {
 public:
  static constexpr uint64_t kChunkBytes = 256 << 10;
  static constexpr size_t kChunks = 16;
  static constexpr uint64_t kAllBytes = kChunks * kChunkBytes;
  /// A longer copy is better off with a wait than with a second copy (ADR 22).
  static constexpr uint64_t kMostBytes = 64 << 10;

  /// Room in a chunk. The taker alone touches it until give_back().
  struct Piece {
    size_t chunk = kChunks;  // kChunks: none
    std::byte* data = nullptr;
    bool taken() const { return data != nullptr; }
  };

  /// Of the device; made at the first call.
  static Staging& of(Device& device);
  ~Staging() override;

  /// Whether copies on the stream may be queued: not where work runs inline, or is waited for after
  /// each launch, or on a queue of the application's, which it may be filling at the same time.
  static bool serves(const Stream& stream);

  /// Room for a copy of `bytes` (at most kMostBytes) on `stream`. None: all chunks are in use, or
  /// there is no memory for another one. Never waits.
  Piece take(Stream& stream, uint64_t bytes);
  /// The host has done with the piece. Copy `seq` of the stream that took it may still use it; 0:
  /// nothing does.
  void give_back(const Piece& piece, uint64_t seq);
  /// Copies of the stream are in some chunk, so that a wait for it makes room.
  bool holds_copies_of(Stream& stream);

 private:
  struct Chunk {
    std::byte* data = nullptr;
    Stream* stream = nullptr;  // nullptr: free; without data: its memory is being made
    uint64_t last_seq = 0;     // the latest copy that uses it
    uint64_t filled_bytes = 0;
    uint32_t pieces_taken = 0;
  };

  explicit Staging(Device& device) : device_(device) {}
  Chunk* find_room(Stream& stream, uint64_t bytes);
  static bool is_unused(const Chunk& chunk);

  Device& device_;
  std::mutex mutex_;
  std::array<Chunk, kChunks> chunks_;
};

/// Copies host memory to the device behind the stream's work so far; the source is the caller's
/// again on return. `*out_seq`: the copy's number on the stream; 0: it is not in the queue. Errors:
/// POISONED; TIMEOUT; the plugin's. A failure of queued work is the stream's. Counted.
Status copy_in(Stream& stream, bp_mem dst, const void* src, uint64_t bytes, uint64_t* out_seq);
/// Copies device memory to the host behind the stream's work so far, and waits. `*out_seq` as
/// above, for who gives up waiting. Errors: TIMEOUT; the stream's failure; the plugin's. Counted.
Status copy_out(Stream& stream, void* dst, bp_mem src, uint64_t bytes, uint64_t* out_seq);

/// Reads that are queued one by one and share one wait. On one device.
class QueuedReads {
 public:
  explicit QueuedReads(Device& device) : device_(device) {}
  /// What was not taken is dropped.
  ~QueuedReads();
  QueuedReads(const QueuedReads&) = delete;
  QueuedReads& operator=(const QueuedReads&) = delete;

  /// Queues a read behind the stream's work so far. False: it cannot be queued. `*out_seq` as in
  /// copy_in(). Not counted.
  bool add(Stream& stream, void* dst, bp_mem src, uint64_t bytes, uint64_t* out_seq);
  /// Waits for all that were added. Errors: TIMEOUT; a stream's failure.
  Status wait();
  /// Puts them where they are wanted. After wait().
  void take();

 private:
  struct Read {
    Staging::Piece piece;
    Stream* stream;
    uint64_t seq;
    void* dst;
    uint64_t bytes;
  };
  void drop();

  Device& device_;
  static constexpr size_t kMostReads = 64;
  std::array<Read, kMostReads> reads_;
  size_t count_ = 0;
};

}  // namespace bp

#endif
