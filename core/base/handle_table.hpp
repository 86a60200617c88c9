// SPDX-License-Identifier: Apache-2.0
//
// What an opaque handle of the C API really is: a number with a kind, a slot and the slot's
// generation in it. A handle is checked without following it, so that NULL, a released object,
// another type's object and any address that this library never gave out are told apart and none of
// them is touched. A check is two loads and two compares; slots are recycled per thread.
//
// Slots are never given back to the system: a stale handle must find its slot's newer generation.
// The table is a process-wide object, since a handle is all that a caller gives (ADR 0011).
#ifndef BACKPLANE_CORE_BASE_HANDLE_TABLE_HPP
#define BACKPLANE_CORE_BASE_HANDLE_TABLE_HPP

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string_view>

#include "core/base/status.hpp"

namespace bp {

enum class HandleKind : uint32_t { kRuntime = 1, kDevice, kTensor, kSession, kStream, kCancel };

namespace detail {

// 1 | kind 3 | generation 36 | slot 24. With the highest bit set no user-space address is a handle.
inline constexpr uint32_t kSlotBits = 24;
inline constexpr uint32_t kGenerationBits = 36;
inline constexpr uint32_t kKindShift = kSlotBits + kGenerationBits;
inline constexpr uint32_t kSlabBits = 10;
inline constexpr uint64_t kGenerationMask = (uint64_t{1} << kGenerationBits) - 1;
// A slot's state: generation 36 | owners 28, in one word so that retain and release are exact.
inline constexpr uint32_t kOwnerBits = 64 - kGenerationBits;
inline constexpr uint64_t kOwnersMask = (uint64_t{1} << kOwnerBits) - 1;
static_assert(sizeof(void*) == sizeof(uint64_t), "handles carry 64 bits");

struct alignas(64) HandleSlot {  // a cache line each: neighbours belong to different threads
  std::atomic<uint64_t> state{0};
  void* object = nullptr;
  std::atomic<bool> exclusive{false};
  uint32_t index = 0;
  HandleSlot* next_unused = nullptr;
};

inline constexpr size_t kSlabSlots = size_t{1} << kSlabBits;
inline constexpr size_t kMaxSlabs = size_t{1} << (kSlotBits - kSlabBits);
extern std::atomic<HandleSlot*> g_handle_slabs[kMaxSlabs];

/// The slot of a live handle of that kind; nullptr: it is none.
inline HandleSlot* find_slot(const void* handle, HandleKind kind) {
  const auto value = reinterpret_cast<uint64_t>(handle);
  if (value >> kKindShift != (8 | static_cast<uint64_t>(kind))) [[unlikely]]
    return nullptr;
  const uint64_t index = value & ((uint64_t{1} << kSlotBits) - 1);
  HandleSlot* slab = g_handle_slabs[index >> kSlabBits].load(std::memory_order_acquire);
  if (slab == nullptr) [[unlikely]]
    return nullptr;
  HandleSlot& slot = slab[index % kSlabSlots];
  const uint64_t state = slot.state.load(std::memory_order_acquire);
  const bool live =
      state >> kOwnerBits == ((value >> kSlotBits) & kGenerationMask) && (state & kOwnersMask) != 0;
  return live ? &slot : nullptr;
}

}  // namespace detail

/// A new handle with one owner. nullptr: out of host memory, or 16 million handles live. Any
/// thread.
void* make_handle(HandleKind kind, void* object);

/// The object of a live handle; nullptr: it is none, and explain_handle says why. Any thread; the
/// caller sees to it that the handle is not released meanwhile.
inline void* handle_object(const void* handle, HandleKind kind) {
  const detail::HandleSlot* slot = detail::find_slot(handle, kind);
  return slot != nullptr ? slot->object : nullptr;
}

/// One more owner. False: no live handle. Any thread.
bool retain_handle(const void* handle, HandleKind kind);

struct ReleasedHandle {
  bool found = false;      // false: it was no live handle
  void* object = nullptr;  // set: the last owner is gone, and the handle with it
};
/// One owner less. Of several threads that release the last owner, one gets the object. Any thread.
ReleasedHandle release_handle(const void* handle, HandleKind kind);

/// INVALID_ARGUMENT naming the argument and what it is instead: NULL, released, another kind, or
/// nothing of this library.
Status explain_handle(const void* handle, HandleKind kind, std::string_view argument);

/// The handle of an object that has it as a member: they end together.
class OwnedHandle {
 public:
  OwnedHandle(HandleKind kind, void* object) : kind_(kind), handle_(make_handle(kind, object)) {
    if (handle_ == nullptr) throw std::bad_alloc();
  }
  ~OwnedHandle() { release_handle(handle_, kind_); }
  OwnedHandle(const OwnedHandle&) = delete;
  OwnedHandle& operator=(const OwnedHandle&) = delete;
  void* get() const { return handle_; }

 private:
  const HandleKind kind_;
  void* const handle_;
};

/// Marks a live handle's object as used by one call alone. Any thread.
class ExclusiveUse {
 public:
  ExclusiveUse() = default;
  ExclusiveUse(const ExclusiveUse&) = delete;
  ExclusiveUse& operator=(const ExclusiveUse&) = delete;
  ExclusiveUse(ExclusiveUse&& other) noexcept : slot_(other.slot_) { other.slot_ = nullptr; }
  ExclusiveUse& operator=(ExclusiveUse&&) = delete;
  ~ExclusiveUse() { end(); }
  void end() {
    if (slot_ != nullptr) slot_->exclusive.store(false, std::memory_order_release);
    slot_ = nullptr;
  }
  /// False: another call has it.
  bool take(const void* handle, HandleKind kind) {
    detail::HandleSlot* slot = detail::find_slot(handle, kind);
    if (slot == nullptr || slot->exclusive.exchange(true, std::memory_order_acq_rel)) return false;
    slot_ = slot;
    return true;
  }

 private:
  detail::HandleSlot* slot_ = nullptr;
};

}  // namespace bp

#endif
