// SPDX-License-Identifier: Apache-2.0
//
// Marks are kept only for queued work; note_use of an inline stream is no work at all.
#include "core/runtime/storage.hpp"

#include <algorithm>

#include "core/runtime/device.hpp"
#include "core/runtime/runtime.hpp"
#include "core/runtime/stream.hpp"

namespace bp {

Storage::Storage(Device* device, uint64_t handle, uint64_t offset_bytes, uint64_t bytes)
    : runtime_(device != nullptr ? &device->runtime() : nullptr),
      device_(device),
      handle_(handle),
      offset_bytes_(offset_bytes),
      bytes_(bytes) {}

Storage::~Storage() {
  // After close() the memory is already back with the device, and the block with its allocator.
  if (block_ == nullptr || device_->closed()) return;
  // Other streams may still use the block: its home stream waits for them, so that whoever gets the
  // block next on that stream comes after them. If that wait cannot be enqueued the host waits; a
  // foreign stream that failed touches nothing any more, and its own user learns of the failure.
  const auto settle = [&](const Mark& mark) {
    if (mark.stream == nullptr || mark.stream == home_) return;
    if (home_->wait_for(*mark.stream, mark.seq).ok()) return;
    [[maybe_unused]] const Status status = mark.stream->sync();
  };
  settle(last_write_);
  for (const Mark& mark : last_reads_) settle(mark);
  device_->allocator().free(block_);
}

Result<Ref<Storage>> Storage::allocate(Device& device, uint64_t bytes, MemoryTag tag,
                                       Stream& home) {
  BP_TRY_ASSIGN(Block * block, device.allocator().allocate(bytes, tag, &home));
  auto storage = Ref<Storage>::make(&device, block->handle, block->offset_bytes, block->bytes);
  storage->block_ = block;
  storage->home_ = &home;
  return storage;
}

Ref<Storage> Storage::wrap(Device* device, uint64_t handle, uint64_t bytes,
                           std::shared_ptr<const void> owner) {
  auto storage = Ref<Storage>::make(device, handle, uint64_t{0}, bytes);
  storage->owner_ = std::move(owner);
  return storage;
}

Status Storage::order_before(Stream& stream, bool write) {
  if (device_ != nullptr && device_->is_inline() && last_write_.stream == nullptr &&
      last_reads_.empty()) {
    return {};
  }
  Mark writer;
  std::vector<Mark> readers;
  {
    std::lock_guard lock(marks_mutex_);
    writer = last_write_;
    if (write) readers = last_reads_;
  }
  if (writer.stream != nullptr) BP_TRY(stream.wait_for(*writer.stream, writer.seq));
  for (const Mark& reader : readers) BP_TRY(stream.wait_for(*reader.stream, reader.seq));
  return {};
}

void Storage::note_use(Stream& stream, uint64_t seq, bool write) {
  if (stream.is_inline()) return;
  std::lock_guard lock(marks_mutex_);
  if (write) {
    last_write_ = {&stream, seq};
    last_reads_.clear();  // the write came after them, by order_before
    return;
  }
  for (Mark& mark : last_reads_) {
    if (mark.stream == &stream) {
      mark.seq = seq;
      return;
    }
  }
  if (last_write_.stream == &stream) {
    last_write_.seq = std::max(last_write_.seq, seq);  // a later wait for the write covers the read
    return;
  }
  last_reads_.push_back({&stream, seq});
}

Status Storage::wait_on_host(bool write) {
  Mark writer;
  std::vector<Mark> readers;
  {
    std::lock_guard lock(marks_mutex_);
    writer = last_write_;
    if (write) readers = last_reads_;
  }
  if (writer.stream != nullptr && !writer.stream->known_done(writer.seq)) {
    BP_TRY(writer.stream->sync());
  }
  for (const Mark& reader : readers) {
    if (!reader.stream->known_done(reader.seq)) BP_TRY(reader.stream->sync());
  }
  return {};
}

}  // namespace bp
