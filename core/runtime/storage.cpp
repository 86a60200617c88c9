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
  return is_over(uses_.latest) && std::all_of(uses_.others.begin(), uses_.others.end(),
                                              [this](const Mark& mark) { return is_over(mark); });
}

/// Whether that has happened before the deadline.
bool Storage::let_work_end() {
  if (is_unused()) return true;
  const RuntimeUse use(*runtime_);  // a release is in no call
  if (!use.granted()) return false;
  bool ended = let_work_end(uses_.latest);
  for (const Mark& mark : uses_.others) ended = let_work_end(mark) && ended;
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
                           std::shared_ptr<const void> owner, uint64_t lead_bytes) {
  auto storage = Ref<Storage>::make(device, handle, uint64_t{0}, bytes);
  storage->lead_bytes_ = lead_bytes;
  storage->owner_ = std::move(owner);
  return storage;
}

Storage::Uses Storage::uses() {
  if (!is_marked()) return {};
  std::lock_guard lock(marks_mutex_);
  return uses_;
}

template <class Visit>
Status Storage::visit(const Uses& uses, Visit visit_one) {
  if (uses.latest.stream != nullptr) BP_TRY(visit_one(uses.latest));
  for (const Use& use : uses.others) BP_TRY(visit_one(use));
  return {};
}

Status Storage::order_after_marks(Stream& stream, Access access) {
  const Uses before = uses();
  BP_TRY(visit(before, [&](const Use& use) -> Status {
    const uint64_t seq = access == Access::kRead ? use.written_seq : use.seq;
    if (seq != 0) BP_TRY(stream.wait_for(*use.stream, seq));
    if (use.written_seq == 0) return {};
    const Status lost = use.stream->check_lost(use.written_seq);
    return access == Access::kOverwrite ? Status() : lost;
  }));
  if (access != Access::kRead && !before.are_of(stream)) note_waits(before, stream);
  // What a stream without a queue reads is told to the call that reads it.
  return access == Access::kRead && stream.is_inline() ? report_faults() : Status();
}

/// Uses that came meanwhile are not among them, nor are later ones of the same streams.
void Storage::note_waits(const Uses& before, Stream& stream) {
  std::lock_guard lock(marks_mutex_);
  const auto note = [&](Use& use) {
    const Use* waited = before.of(use.stream);
    if (waited == nullptr || waited->seq < use.seq) return;
    use.waiter = &stream;
    use.waiter_seq = stream.issued_seq();
  };
  note(uses_.latest);
  std::ranges::for_each(uses_.others, note);
  // What will be noted of the work itself must not fail.
  uses_.others.reserve(uses_.others.size() + 1);
}

void Storage::note_use(Stream& stream, uint64_t seq, bool write) {
  if (stream.is_inline()) return;
  std::lock_guard lock(marks_mutex_);
  is_marked_.store(true, std::memory_order_release);
  if (write) forget_before(stream, seq);
  Use& own = use_of(stream);
  own.seq = std::max(own.seq, seq);
  own.waiter = nullptr;
  if (!write) return;
  own.written_seq = std::max(own.written_seq, seq);
  if (&own != &uses_.latest) std::swap(own, uses_.latest);
}

/// Made where there is none, of no work.
Storage::Use& Storage::use_of(Stream& stream) {
  if (const Use* own = uses_.of(&stream); own != nullptr) return *const_cast<Use*>(own);
  if (uses_.latest.stream == nullptr) return uses_.latest = Use{{&stream, 0}};
  return uses_.others.emplace_back(Use{{&stream, 0}});
}

const Storage::Use* Storage::Uses::of(const Stream* stream) const {
  if (stream != nullptr && latest.stream == stream) return &latest;
  const auto found = std::ranges::find(others, stream, [](const Use& use) { return use.stream; });
  return found == others.end() ? nullptr : &*found;
}

/// What a write, work `seq` of the stream, came after, or what is over. Other uses have come since
/// the stream was ordered for it, through other views.
void Storage::forget_before(const Stream& stream, uint64_t seq) {
  const auto is_behind = [&](const Use& use) {
    if (use.stream == &stream) return false;
    if (use.waiter == &stream && use.waiter_seq < seq) return true;
    // A write that failed is told to readers of what it should have written.
    return use.written_seq == 0 ? use.stream->is_over(use.seq) : use.stream->known_done(use.seq);
  };
  std::erase_if(uses_.others, is_behind);
  if (uses_.latest.stream == nullptr || !is_behind(uses_.latest)) return;
  uses_.latest = {};
  if (uses_.others.empty()) return;
  uses_.latest = uses_.others.back();
  uses_.others.pop_back();
}

void Storage::note_host_write(const Stream& stream) {
  if (!is_marked()) return;
  std::lock_guard lock(marks_mutex_);
  forget_before(stream, UINT64_MAX);
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
  const auto is_unfinished = [](const Use& use) {
    return use.stream != nullptr && !use.stream->known_done(use.written_seq);
  };
  if (std::ranges::any_of(uses_.others, is_unfinished)) return nullptr;
  return is_unfinished(uses_.latest) ? uses_.latest.stream : nullptr;
}

Status Storage::wait_on_host(bool write) {
  BP_TRY(visit(uses(), [write](const Use& use) -> Status {
    if (!use.stream->known_done(write ? use.seq : use.written_seq)) BP_TRY(use.stream->sync());
    return use.written_seq == 0 ? Status() : use.stream->check_lost(use.written_seq);
  }));
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
