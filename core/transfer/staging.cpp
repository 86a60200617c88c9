// SPDX-License-Identifier: Apache-2.0
//
// Who gets which chunk, and the copies that go through them.
#include "core/transfer/staging.hpp"

#include <algorithm>
#include <cstring>

#include "core/emulation/host_buffer.hpp"
#include "core/runtime/copy_args.hpp"
#include "core/runtime/runtime.hpp"

namespace bp {
namespace {

/// Room for `bytes`; waits for the stream's own copies, if they are in the way,
/// and for no other. None: the copy has to do without. Errors: TIMEOUT; the stream's failure.
Result<Staging::Piece> take_in_turn(Staging& staging, Stream& stream, uint64_t bytes) {
  const Staging::Piece piece = staging.take(stream, bytes);
  if (piece.taken() || !staging.holds_copies_of(stream)) return piece;
  BP_TRY(stream.sync());
  return staging.take(stream, bytes);
}

}  // namespace

Staging& Staging::of(Device& device) {
  return static_cast<Staging&>(device.extension(DevicePart::kTransfer, [&] {
    return std::unique_ptr<DeviceExtension>(new Staging(device));
  }));
}

Staging::~Staging() {
  for (const Chunk& chunk : chunks_) device_.free_host_memory(chunk.data);
}

bool Staging::serves(const Stream& stream) {
  return !stream.is_inline() && !stream.is_wrapped() && !stream.device().runtime().sync_launches();
}

Staging::Piece Staging::take(Stream& stream, uint64_t bytes) {
  std::unique_lock lock(mutex_);
  Chunk* chunk = find_room(stream, bytes);
  if (chunk == nullptr) return {};
  if (chunk->data == nullptr) {
    // The plugin is asked without the lock: others go on with the chunks that there are.
    chunk->stream = &stream;
    lock.unlock();
    void* data = nullptr;
    const Status made = contain([&] { return device_.allocate_host_memory(kChunkBytes, &data); });
    device_.warn_of_detour(made, Slot::kHostAlloc);
    lock.lock();
    chunk->data = static_cast<std::byte*>(data);
    if (!made.ok()) chunk->stream = nullptr;
    if (!made.ok()) return {};
  }
  const Piece piece{static_cast<size_t>(chunk - chunks_.data()), chunk->data + chunk->filled_bytes};
  chunk->stream = &stream;
  chunk->filled_bytes += align_up(bytes);
  ++chunk->pieces_taken;
  return piece;
}

/// The stream's own first, then one that is free, and only then one without memory yet.
Staging::Chunk* Staging::find_room(Stream& stream, uint64_t bytes) {
  Chunk* unused = nullptr;
  Chunk* missing = nullptr;
  for (Chunk& chunk : chunks_) {
    if (chunk.data == nullptr) {
      if (missing == nullptr && chunk.stream == nullptr) missing = &chunk;
      continue;
    }
    if (chunk.stream != nullptr && chunk.filled_bytes > 0 && is_unused(chunk)) {
      chunk.filled_bytes = 0;
      chunk.last_seq = 0;
    }
    if (chunk.stream == &stream && kChunkBytes - chunk.filled_bytes >= bytes) return &chunk;
    if (unused == nullptr && chunk.filled_bytes == 0) unused = &chunk;
  }
  return unused != nullptr ? unused : missing;
}

bool Staging::is_unused(const Chunk& chunk) {
  return chunk.pieces_taken == 0 && chunk.stream->is_over(chunk.last_seq);
}

void Staging::give_back(const Piece& piece, uint64_t seq) {
  const std::lock_guard lock(mutex_);
  Chunk& chunk = chunks_[piece.chunk];
  chunk.last_seq = std::max(chunk.last_seq, seq);
  --chunk.pieces_taken;
}

bool Staging::holds_copies_of(Stream& stream) {
  const std::lock_guard lock(mutex_);
  return std::any_of(chunks_.begin(), chunks_.end(), [&](const Chunk& chunk) {
    return chunk.stream == &stream && chunk.filled_bytes > 0 && chunk.pieces_taken == 0;
  });
}

Status copy_in(Stream& stream, bp_mem dst, const void* src, uint64_t bytes, uint64_t* out_seq) {
  Device& device = stream.device();
  *out_seq = 0;
  if (!Staging::serves(stream) || bytes > Staging::kMostBytes) {
    return device.copy_in(stream, dst, src, bytes);
  }
  Staging& staging = Staging::of(device);
  BP_TRY_ASSIGN(const Staging::Piece piece, take_in_turn(staging, stream, bytes));
  if (!piece.taken()) {
    device.counters().unstaged_copies.fetch_add(1, std::memory_order_relaxed);
    return device.copy_in(stream, dst, src, bytes);
  }
  std::memcpy(piece.data, src, bytes);
  const auto seq =
      stream.enqueue_copy(copy_args(BP_COPY_HOST_TO_DEVICE, dst, host_end(piece.data), bytes));
  staging.give_back(piece, seq.ok() ? *seq : 0);
  BP_TRY(seq);
  *out_seq = *seq;
  device.counters().host_to_device_copies.fetch_add(1, std::memory_order_relaxed);
  return {};
}

Status copy_out(Stream& stream, void* dst, bp_mem src, uint64_t bytes, uint64_t* out_seq) {
  Device& device = stream.device();
  *out_seq = 0;
  if (Staging::serves(stream)) {
    QueuedReads reads(device);
    if (reads.add(stream, dst, src, bytes, out_seq)) {
      BP_TRY(reads.wait());
      reads.take();
      device.counters().device_to_host_copies.fetch_add(1, std::memory_order_relaxed);
      return {};
    }
  }
  return device.copy_out(stream, dst, src, bytes);
}

QueuedReads::~QueuedReads() { drop(); }

void QueuedReads::drop() {
  for (size_t i = 0; i < count_; ++i) {
    Staging::of(device_).give_back(reads_[i].piece, reads_[i].seq);
  }
  count_ = 0;
}

bool QueuedReads::add(Stream& stream, void* dst, bp_mem src, uint64_t bytes, uint64_t* out_seq) {
  if (bytes > Staging::kMostBytes || count_ == reads_.size()) return false;
  Staging& staging = Staging::of(device_);
  const Staging::Piece piece = staging.take(stream, bytes);
  if (!piece.taken()) {
    device_.counters().unstaged_copies.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  const auto seq =
      stream.enqueue_copy(copy_args(BP_COPY_DEVICE_TO_HOST, host_end(piece.data), src, bytes));
  if (!seq.ok()) {
    staging.give_back(piece, 0);
    device_.warn_of_detour(seq.status(), Slot::kMemCopyAsync);
    return false;
  }
  *out_seq = *seq;
  reads_[count_++] = {piece, &stream, *seq, dst, bytes};
  return true;
}

Status QueuedReads::wait() {
  for (size_t i = 0; i < count_; ++i) {
    if (!reads_[i].stream->known_done(reads_[i].seq)) BP_TRY(reads_[i].stream->sync());
  }
  return {};
}

void QueuedReads::take() {
  for (size_t i = 0; i < count_; ++i) {
    std::memcpy(reads_[i].dst, reads_[i].piece.data, reads_[i].bytes);
  }
  drop();
}

}  // namespace bp
