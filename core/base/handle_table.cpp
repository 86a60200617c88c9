// SPDX-License-Identifier: Apache-2.0
//
// Slots: made in slabs, handed out from a list per thread, which trades with one shared list only
// when it is empty or long.
#include "core/base/handle_table.hpp"

#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "core/base/fork.hpp"

namespace bp {

namespace detail {
constinit std::atomic<HandleSlot*> g_handle_slabs[kMaxSlabs] = {};
}

namespace {

using detail::HandleSlot;

constexpr uint32_t kLocalLimit = 256;  // one more, and half of them go to the shared list

struct SharedSlots {
  std::mutex mutex;
  HandleSlot* unused = nullptr;
  uint32_t slab_count = 0;
};
constinit SharedSlots g_shared;

// Two copies of this library in one process must not take each other's handles for their own.
uint64_t first_generation() {
  return (reinterpret_cast<uint64_t>(&g_shared) >> 4) & detail::kGenerationMask;
}

// Under the mutex.
bool add_slab() {
  if (g_shared.slab_count == detail::kMaxSlabs) return false;
  auto* slab = new (std::nothrow) HandleSlot[detail::kSlabSlots];
  if (slab == nullptr) return false;
  for (size_t i = 0; i < detail::kSlabSlots; ++i) {
    slab[i].state.store(first_generation() << detail::kOwnerBits, std::memory_order_relaxed);
    slab[i].index = static_cast<uint32_t>(g_shared.slab_count * detail::kSlabSlots + i);
    slab[i].next_unused = i + 1 < detail::kSlabSlots ? &slab[i + 1] : g_shared.unused;
  }
  g_shared.unused = slab;
  detail::g_handle_slabs[g_shared.slab_count].store(slab, std::memory_order_release);
  ++g_shared.slab_count;
  return true;
}

struct LocalSlots {
  HandleSlot* unused = nullptr;
  uint32_t count = 0;
  bool closed = false;  // the thread is ending: slots go straight to the shared list

  HandleSlot* take() {
    if (unused == nullptr && !refill()) return nullptr;
    --count;
    return std::exchange(unused, unused->next_unused);
  }
  void give(HandleSlot* slot) {
    slot->next_unused = std::exchange(unused, slot);
    if (++count > (closed ? 0 : kLocalLimit)) share(closed ? count : count / 2);
  }
  void share(uint32_t many) {
    const std::lock_guard lock(g_shared.mutex);
    for (; many > 0; --many, --count) {
      HandleSlot* slot = std::exchange(unused, unused->next_unused);
      slot->next_unused = std::exchange(g_shared.unused, slot);
    }
  }
  bool refill() {
    const std::lock_guard lock(g_shared.mutex);
    if (g_shared.unused == nullptr && !add_slab()) return false;
    for (; count < kLocalLimit / 2 && g_shared.unused != nullptr; ++count) {
      HandleSlot* slot = std::exchange(g_shared.unused, g_shared.unused->next_unused);
      slot->next_unused = std::exchange(unused, slot);
    }
    return true;
  }
  ~LocalSlots() {
    closed = true;
    if (!forked()) share(count);  // in a forked child the mutex may be held for ever
  }
};

LocalSlots& local_slots() {
  static thread_local LocalSlots table;
  return table;
}

constexpr std::string_view kKindNames[] = {"",          "a runtime", "a device",      "a tensor",
                                           "a session", "a stream",  "a cancel token"};

std::string_view kind_name(uint64_t kind) {
  return kind < std::size(kKindNames) ? kKindNames[kind] : std::string_view();
}

}  // namespace

void* make_handle(HandleKind kind, void* object) {
  HandleSlot* slot = local_slots().take();
  if (slot == nullptr) return nullptr;
  slot->object = object;
  const uint64_t generation = slot->state.load(std::memory_order_relaxed) >> detail::kOwnerBits;
  slot->state.store(generation << detail::kOwnerBits | 1, std::memory_order_release);
  return reinterpret_cast<void*>((8 | static_cast<uint64_t>(kind)) << detail::kKindShift |
                                 generation << detail::kSlotBits | slot->index);
}

bool retain_handle(const void* handle, HandleKind kind) {
  HandleSlot* slot = detail::find_slot(handle, kind);
  if (slot == nullptr) return false;
  const uint64_t generation =
      (reinterpret_cast<uint64_t>(handle) >> detail::kSlotBits) & detail::kGenerationMask;
  uint64_t state = slot->state.load(std::memory_order_relaxed);
  do {
    if (state >> detail::kOwnerBits != generation) return false;
  } while (!slot->state.compare_exchange_weak(state, state + 1, std::memory_order_relaxed));
  return true;
}

ReleasedHandle release_handle(const void* handle, HandleKind kind) {
  HandleSlot* slot = detail::find_slot(handle, kind);
  if (slot == nullptr) return {};
  const uint64_t generation =
      (reinterpret_cast<uint64_t>(handle) >> detail::kSlotBits) & detail::kGenerationMask;
  uint64_t state = slot->state.load(std::memory_order_relaxed);
  uint64_t next = 0;
  do {
    if (state >> detail::kOwnerBits != generation) return {};
    const bool last = (state & detail::kOwnersMask) == 1;
    next = last ? ((generation + 1) & detail::kGenerationMask) << detail::kOwnerBits : state - 1;
  } while (!slot->state.compare_exchange_weak(state, next, std::memory_order_acq_rel));
  if ((next & detail::kOwnersMask) != 0) return {.found = true, .object = nullptr};
  void* object = slot->object;
  local_slots().give(slot);
  return {.found = true, .object = object};
}

Status explain_handle(const void* handle, HandleKind kind, std::string_view argument) {
  const std::string name = "argument " + std::string(argument);
  if (handle == nullptr) return Status(BP_INVALID_ARGUMENT, name + " is NULL");
  const std::string expected = ", expected " + std::string(kind_name(static_cast<uint64_t>(kind)));
  const auto value = reinterpret_cast<uint64_t>(handle);
  const uint64_t found = value >> detail::kKindShift & 7;
  const uint64_t slab = (value & ((uint64_t{1} << detail::kSlotBits) - 1)) >> detail::kSlabBits;
  const bool ours = value >> 63 != 0 && !kind_name(found).empty() &&
                    detail::g_handle_slabs[slab].load(std::memory_order_acquire) != nullptr;
  if (!ours) {
    return Status(BP_INVALID_ARGUMENT, name + " is no handle of this library" + expected);
  }
  if (detail::find_slot(handle, static_cast<HandleKind>(found)) == nullptr) {
    return Status(BP_INVALID_ARGUMENT,
                  name + " is " + std::string(kind_name(found)) + " that was released" + expected);
  }
  return Status(BP_INVALID_ARGUMENT, name + " is " + std::string(kind_name(found)) + expected);
}

}  // namespace bp
