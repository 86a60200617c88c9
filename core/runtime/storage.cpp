// SPDX-License-Identifier: Apache-2.0
//
// Marks are kept only for queued work; note_use of an inline stream is no work at all.
#include "core/runtime/storage.hpp"

#include <algorithm>
#include <utility>

#include "core/runtime/device.hpp"
#include "core/runtime/runtime.hpp"
#include "core/runtime/stream.hpp"

namespace bp {

constinit thread_local int LeavesStorages::count_ = 0;

Storage::Storage(Device* device, uint64_t handle, uint64_t offset_bytes, uint64_t bytes)
    : runtime_(device != nullptr ? &device->runtime() : nullptr),
      device_(device),
      handle_(handle),
      offset_bytes_(offset_bytes),
      bytes_(bytes) {}

Storage::~Storage() {
  // After close() blocks are back with their allocator.
  if (block_ != nullptr && !device_->closed()) device_->allocator().free(block_);
}

void Storage::dispose(const Storage* storage) {
  auto* const late = const_cast<Storage*>(storage);
  if (late->may_go()) {
    delete late;
    return;
  }
  Device& device = *late->device_;
  const Ref<Runtime> runtime = std::move(late->runtime_);  // which may end with this holder
  device.deferred_free().keep(late);
  if (device.closed()) device.deferred_free().clear();  // else it would stay for ever
}

/// Whether no work uses it, waiting for that at most until the deadline.
bool Storage::may_go() {
  // After close() no work is left.
  if (device_ == nullptr || device_->closed()) return true;
  if (block_ == nullptr && owner_ == nullptr) return true;
  if (!is_marked() || device_->lost()) return true;
  return let_work_end();
}

bool Storage::is_unused() const {
  return is_over(last_write_) && std::all_of(last_reads_.begin(), last_reads_.end(),
                                             [this](const Mark& mark) { return is_over(mark); });
}

/// Whether that has happened before the deadline.
bool Storage::let_work_end() {
  if (is_unused()) return true;
  const RuntimeUse use(*runtime_);  // a release is in no call
  if (!use.granted()) return false;
  bool ended = let_work_end(last_write_);
  for (const Mark& mark : last_reads_) ended = let_work_end(mark) && ended;
  return ended;
}

/// ... for the block's next user, as far as can be told without a call. Work that failed uses the
/// memory no more; readers of its results are told.
bool Storage::is_over(const Mark& mark) const {
  return mark.stream == nullptr || mark.stream == home_ || mark.stream->is_over(mark.seq);
}

bool Storage::let_work_end(const Mark& mark) {
  if (is_over(mark)) return true;
  // An inline stream waits by the host.
  if (LeavesStorages::here() && (block_ == nullptr || home_->is_inline())) return false;
  if (block_ != nullptr) {
    // The block's home stream waits, so that the next owner of the block on that stream comes
    // after other streams' work. If that wait cannot be enqueued, the host waits.
    const Status ordered = contain([&] { return home_->wait_for(*mark.stream, mark.seq); });
    if (ordered.ok()) return true;
    if (ordered.code() == BP_TIMEOUT || LeavesStorages::here()) return false;
  }
  const Status ended = contain([&] { return mark.stream->sync(); });
  // Where memory is short it may not even have begun to wait.
  if (ended.code() == BP_OUT_OF_MEMORY) return is_over(mark);
  return ended.code() != BP_TIMEOUT;
}

Result<Ref<Storage>> Storage::allocate(Device& device, uint64_t bytes, MemoryTag tag,
                                       Stream& home) {
  BP_TRY_ASSIGN(Block * block, device.allocator().allocate(bytes, tag, home.pool()));
  Ref<Storage> storage;
  const Status made = contain(
      [&] { storage = Ref<Storage>::make(&device, block->handle, block->offset_bytes, bytes); });
  if (!made.ok()) {
    device.allocator().free(block);
    return made;
  }
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

Storage::Marks Storage::marks(bool write) {
  if (!is_marked()) return {};
  std::lock_guard lock(marks_mutex_);
  if (write) return {last_write_, written_seq_, last_reads_};
  return {{last_write_.stream, written_seq_}, written_seq_, {}};
}

Status Storage::order_after_marks(Stream& stream, Access access) {
  const Marks before = marks(access != Access::kRead);
  if (Stream* writer = before.last_write.stream; writer != nullptr) {
    BP_TRY(stream.wait_for(*writer, before.last_write.seq));
    const Status lost = writer->check_lost(before.written_seq);
    if (access != Access::kOverwrite) BP_TRY(lost);
  }
  for (const Mark& reader : before.last_reads) {
    BP_TRY(stream.wait_for(*reader.stream, reader.seq));
  }
  // What a stream without a queue reads is told to the call that reads it.
  return access == Access::kRead && stream.is_inline() ? report_faults() : Status();
}

void Storage::note_use(Stream& stream, uint64_t seq, bool write) {
  if (stream.is_inline()) return;
  std::lock_guard lock(marks_mutex_);
  is_marked_.store(true, std::memory_order_release);
  if (write) {
    last_write_ = {&stream, seq};
    written_seq_ = seq;
    last_reads_.clear();  // the write came after them, by order_before
    return;
  }
  if (last_write_.stream == &stream) {
    last_write_.seq = std::max(last_write_.seq, seq);  // a later wait for the write covers the read
    return;
  }
  for (Mark& mark : last_reads_) {
    if (mark.stream == &stream) {
      mark.seq = std::max(mark.seq, seq);
      return;
    }
  }
  last_reads_.push_back({&stream, seq});
}

void Storage::note_host_write() {
  if (!is_marked()) return;
  std::lock_guard lock(marks_mutex_);
  last_write_ = {};
  last_reads_.clear();
}

Status FaultOrigin::report() const {
  return contents != nullptr ? contents->report_faults() : stream->claim_fault(seq, seq);
}

void Storage::note_launch_fault(Stream& stream, uint64_t seq) {
  std::lock_guard lock(marks_mutex_);
  fault_marks_.add(stream, seq, seq);
  is_marked_.store(true, std::memory_order_release);
  may_fault_.store(true, std::memory_order_release);
}

void Storage::copy_fault_marks(Storage& source) {
  FaultMarks inherited;
  {
    std::lock_guard lock(source.marks_mutex_);
    inherited = source.fault_marks_;
  }
  add_fault_marks(inherited);
}

void Storage::add_fault_marks(const FaultMarks& marks) {
  if (marks.empty()) return;
  std::lock_guard lock(marks_mutex_);
  fault_marks_.add(marks);
  is_marked_.store(true, std::memory_order_release);
  may_fault_.store(true, std::memory_order_release);
}

void Storage::hand_fault_marks(Stream& stream) {
  FaultMarks marks;
  {
    std::lock_guard lock(marks_mutex_);
    marks = fault_marks_;
  }
  stream.add_unseen_faults(marks);
}

void Storage::note_unseen_write(Stream& stream) { add_fault_marks(stream.unseen_faults()); }

void Storage::forget_faults() {
  std::lock_guard lock(marks_mutex_);
  fault_marks_.clear();
  may_fault_.store(false, std::memory_order_release);
}

Stream* Storage::unfinished_writer() {
  if (!is_marked_.load(std::memory_order_acquire)) return nullptr;
  std::lock_guard lock(marks_mutex_);
  Stream* writer = last_write_.stream;
  return writer == nullptr || writer->known_done(written_seq_) ? nullptr : writer;
}

Status Storage::wait_on_host(bool write) {
  const Marks before = marks(write);
  const auto wait = [](const Mark& mark) {
    return mark.stream->known_done(mark.seq) ? Status() : mark.stream->sync();
  };
  if (Stream* writer = before.last_write.stream; writer != nullptr) {
    BP_TRY(wait(before.last_write));
    BP_TRY(writer->check_lost(before.written_seq));
  }
  for (const Mark& reader : before.last_reads) BP_TRY(wait(reader));
  return report_faults();
}

Status Storage::take_faults() {
  FaultMarks marks;
  {
    std::lock_guard lock(marks_mutex_);
    marks = fault_marks_;
  }
  // A wait that ends too early must lose no fault.
  BP_TRY(marks.wait());
  {
    std::lock_guard lock(marks_mutex_);
    std::swap(marks, fault_marks_);
    fault_marks_.clear();
    may_fault_.store(false, std::memory_order_release);
  }
  const Status status = marks.take();
  if (status.code() == BP_TIMEOUT) {  // of a launch that was marked since the first wait
    add_fault_marks(marks);
  }
  return status;
}

}  // namespace bp
