// SPDX-License-Identifier: Apache-2.0
//
// Entries: made in slabs, handed out from a list per thread, which trades with one shared list only
// when it is empty or long.
#include "core/base/handle_table.hpp"

#include <algorithm>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "core/base/fork.hpp"
#include "core/base/process_fence.hpp"

namespace bp {

namespace detail {
constinit std::atomic<HandleEntry*> g_handle_slabs[kMaxSlabs] = {};
constinit thread_local ThreadUses* this_thread_uses = nullptr;
}  // namespace detail

namespace {

using detail::HandleEntry;
using detail::ThreadUses;

constexpr uint32_t kLocalLimit = 256;  // one more, and half of them go to the shared list

struct SharedEntries {
  std::mutex mutex;
  HandleEntry* unused = nullptr;
  uint32_t slab_count = 0;
};
constinit SharedEntries g_shared;

// Two copies of this library in one process must not take each other's handles for their own.
uint64_t first_generation() {
  return (reinterpret_cast<uint64_t>(&g_shared) >> 4) & detail::kGenerationMask;
}

// Under the mutex.
bool add_slab() {
  if (g_shared.slab_count == detail::kMaxSlabs) return false;
  auto* slab = new (std::nothrow) HandleEntry[detail::kSlabEntries];
  if (slab == nullptr) return false;
  for (size_t i = 0; i < detail::kSlabEntries; ++i) {
    slab[i].state.store(first_generation() << detail::kOwnerBits, std::memory_order_relaxed);
    slab[i].index = static_cast<uint32_t>(g_shared.slab_count * detail::kSlabEntries + i);
    slab[i].next_unused = i + 1 < detail::kSlabEntries ? &slab[i + 1] : g_shared.unused;
  }
  g_shared.unused = slab;
  detail::g_handle_slabs[g_shared.slab_count].store(slab, std::memory_order_release);
  ++g_shared.slab_count;
  return true;
}

struct LocalEntries {
  HandleEntry* unused = nullptr;
  uint32_t count = 0;
  bool closed = false;  // the thread is ending: entries go straight to the shared list

  HandleEntry* take() {
    if (unused == nullptr && !refill()) return nullptr;
    --count;
    return std::exchange(unused, unused->next_unused);
  }
  void give(HandleEntry* entry) {
    entry->next_unused = std::exchange(unused, entry);
    if (++count > (closed ? 0 : kLocalLimit)) share(closed ? count : count / 2);
  }
  void share(uint32_t many) {
    const std::lock_guard lock(g_shared.mutex);
    for (; many > 0; --many, --count) {
      HandleEntry* entry = std::exchange(unused, unused->next_unused);
      entry->next_unused = std::exchange(g_shared.unused, entry);
    }
  }
  bool refill() {
    const std::lock_guard lock(g_shared.mutex);
    if (g_shared.unused == nullptr && !add_slab()) return false;
    for (; count < kLocalLimit / 2 && g_shared.unused != nullptr; ++count) {
      HandleEntry* entry = std::exchange(g_shared.unused, g_shared.unused->next_unused);
      entry->next_unused = std::exchange(unused, entry);
    }
    return true;
  }
  ~LocalEntries() {
    closed = true;
    if (!forked()) share(count);  // in a forked child the mutex may be held for ever
  }
};

LocalEntries& local_entries() {
  static thread_local LocalEntries table;
  return table;
}

constexpr std::string_view kKindNames[] = {"",
                                           "a runtime",
                                           "a device",
                                           "a tensor",
                                           "a session",
                                           "a stream",
                                           "a cancel token",
                                           "a store",
                                           "a group",
                                           "a work",
                                           "a job",
                                           "a mesh",
                                           "a data parallel object"};

std::string_view kind_name(uint64_t kind) {
  return kind < std::size(kKindNames) ? kKindNames[kind] : std::string_view();
}

struct SharedUses {
  std::mutex mutex;
  ThreadUses* unused = nullptr;
  ThreadUses* all = nullptr;
};
constinit SharedUses g_uses;

/// Keeps a thread's uses from its first call to its end.
struct UsesOwner {
  bool closed = false;
  ~UsesOwner() {
    closed = true;
    ThreadUses* uses = detail::this_thread_uses;
    if (uses == nullptr || forked()) return;
    if (uses->held_count == 0 && uses->counted.size() == 0) {
      detail::give_back_thread_uses(uses);
    } else {
      uses->is_ending = true;  // the thread ends within a call
    }
  }
};

bool is_held(const ThreadUses& uses, const HandleEntry& entry) {
  return std::any_of(uses.held.begin(), uses.held.end(), [&](const auto& held) {
    return held.load(std::memory_order_acquire) == &entry;
  });
}

/// Whether a call uses an entry that is dead already, or might in a moment.
[[gnu::always_inline]] inline bool is_in_use(const HandleEntry& entry) {
  if (entry.counted_uses.load(std::memory_order_seq_cst) != 0) return true;
  const ThreadUses* home = entry.home.load(std::memory_order_relaxed);
  if (home == nullptr) return false;
  if (home == detail::this_thread_uses) return home->held_count > 0 && is_held(*home, entry);
  process_fence();
  return is_held(*home, entry);
}

struct Released {
  HandleEntry* entry = nullptr;  // nullptr: no live handle
  bool was_last = false;         // the handle is dead; the entry is the caller's to give back
  uint64_t generation = 0;
};

[[gnu::always_inline]] inline Released let_go(const void* handle, HandleKind kind) {
  HandleEntry* entry = detail::any_entry(handle, kind);
  if (entry == nullptr) return {};
  const uint64_t generation =
      (reinterpret_cast<uint64_t>(handle) >> detail::kEntryBits) & detail::kGenerationMask;
  uint64_t state = entry->state.load(std::memory_order_acquire);
  uint64_t next = 0;
  do {
    const uint64_t owners = state & detail::kOwnersMask;
    if (state >> detail::kOwnerBits != generation || owners == 0) return {};
    const bool last = owners == 1;
    next = last ? ((generation + 1) & detail::kGenerationMask) << detail::kOwnerBits : state - 1;
  } while (!entry->state.compare_exchange_weak(state, next, std::memory_order_seq_cst));
  return {entry, (next & detail::kOwnersMask) == 0, generation};
}

}  // namespace

namespace detail {

ThreadUses& make_thread_uses() {
  static thread_local UsesOwner owner;
  ThreadUses* uses = nullptr;
  {
    const std::lock_guard lock(g_uses.mutex);
    uses = g_uses.unused;
    if (uses != nullptr) g_uses.unused = uses->next_unused;
  }
  if (uses == nullptr) {
    uses = new ThreadUses;
    const std::lock_guard lock(g_uses.mutex);
    uses->next = std::exchange(g_uses.all, uses);
  }
  uses->is_ending = owner.closed;
  uses->can_be_home = has_process_fence();
  this_thread_uses = uses;
  return *uses;
}

void give_back_thread_uses(ThreadUses* uses) {
  this_thread_uses = nullptr;
  const std::lock_guard lock(g_uses.mutex);
  uses->next_unused = std::exchange(g_uses.unused, uses);
}

ThreadUses* first_thread_uses() {
  const std::lock_guard lock(g_uses.mutex);
  return g_uses.all;
}

void UseStack::add_block(size_t block) {
  if (block == kBlocks) throw std::bad_alloc();
  blocks_[block].store(new Word[size_t{kFirst} << block]{}, std::memory_order_release);
}

void count_down(HandleEntry& entry) {
  entry.counted_uses.fetch_sub(1, std::memory_order_seq_cst);
  if (entry.doomed.load(std::memory_order_seq_cst) != 0) destroy_doomed(entry);
}

// Each thread that ends a use after the release comes by here, so the last finds no other use. That
// the entry is still the same generation's is what taking `doomed` shows: till then nothing here
// relies on what was read.
void destroy_doomed(HandleEntry& entry) {
  uint64_t doomed = entry.doomed.load(std::memory_order_seq_cst);
  if (doomed == 0 || forked() || is_in_use(entry)) return;
  void* object = entry.object.load(std::memory_order_relaxed);
  const auto destroy = entry.destroy.load(std::memory_order_relaxed);
  if (!entry.doomed.compare_exchange_strong(doomed, 0, std::memory_order_seq_cst)) return;
  local_entries().give(&entry);
  ThreadUses* const uses = this_thread_uses;
  if (uses != nullptr) ++uses->destroying;
  destroy(object);
  if (uses != nullptr) --uses->destroying;
}

}  // namespace detail

void* make_handle(HandleKind kind, void* object) {
  HandleEntry* entry = local_entries().take();
  if (entry == nullptr) return nullptr;
  entry->object.store(object, std::memory_order_relaxed);
  ThreadUses* uses = detail::this_thread_uses;
  entry->home.store(uses != nullptr && uses->can_be_home ? uses : nullptr,
                    std::memory_order_relaxed);
  entry->kind.store(static_cast<uint8_t>(kind), std::memory_order_relaxed);
  const uint64_t state = entry->state.load(std::memory_order_relaxed);  // no owners
  const uint64_t generation = state >> detail::kOwnerBits;
  entry->state.store(state + 1, std::memory_order_release);
  return reinterpret_cast<void*>((detail::kKinds | static_cast<uint64_t>(kind))
                                     << detail::kKindShift |
                                 generation << detail::kEntryBits | entry->index);
}

void HandleUses::note_failed_call() noexcept {
  ThreadUses* uses = detail::this_thread_uses;
  if (uses == nullptr) return;
  const uint64_t before = uses->failed_calls.load(std::memory_order_relaxed);
  uses->failed_calls.store(before + 1, std::memory_order_release);
}

// The note comes before the look, as in begin().
void HandleUses::push(ThreadUses& uses, uintptr_t word) {
  uses.counted.push(word, uses.can_be_home ? std::memory_order_relaxed : std::memory_order_seq_cst);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

void* HandleUses::begin_counted(ThreadUses& uses, HandleEntry& entry, const void* handle) {
  // First, since it may throw, and since a wait for uses must find it.
  push(uses, reinterpret_cast<uintptr_t>(&entry));
  entry.counted_uses.fetch_add(1, std::memory_order_seq_cst);
  if (detail::is_live(entry, handle, std::memory_order_seq_cst)) {
    return entry.object.load(std::memory_order_relaxed);
  }
  end_counted(uses);
  return nullptr;
}

void HandleUses::end_counted(ThreadUses& uses) {
  const uintptr_t word = uses.counted.top();
  uses.counted.pop();
  if ((word & ThreadUses::kOwnerBit) == 0)
    detail::count_down(*reinterpret_cast<HandleEntry*>(word));
}

void HandleUses::announce(const void* owner) {
  ThreadUses* uses = detail::this_thread_uses;
  if (uses == nullptr) uses = &detail::make_thread_uses();
  push(*uses, reinterpret_cast<uintptr_t>(owner) | ThreadUses::kOwnerBit);
}

bool retain_handle(const void* handle, HandleKind kind) {
  HandleEntry* entry = detail::find_entry(handle, kind);
  if (entry == nullptr) return false;
  const uint64_t generation =
      (reinterpret_cast<uint64_t>(handle) >> detail::kEntryBits) & detail::kGenerationMask;
  uint64_t state = entry->state.load(std::memory_order_relaxed);
  do {
    if (state >> detail::kOwnerBits != generation || (state & detail::kOwnersMask) == 0)
      return false;
  } while (!entry->state.compare_exchange_weak(state, state + 1, std::memory_order_relaxed));
  return true;
}

bool release_handle(const void* handle, HandleKind kind, void (*destroy)(void*)) {
  const Released released = let_go(handle, kind);
  if (!released.was_last) return released.entry != nullptr;
  HandleEntry& entry = *released.entry;
  if (!is_in_use(entry)) {
    void* object = entry.object.load(std::memory_order_relaxed);
    local_entries().give(&entry);
    destroy(object);
    return true;
  }
  entry.destroy.store(destroy, std::memory_order_relaxed);
  entry.doomed.store(released.generation + 1, std::memory_order_seq_cst);
  detail::destroy_doomed(entry);  // the last use may have ended meanwhile
  return true;
}

OwnedHandle::~OwnedHandle() {
  const Released released = let_go(handle_, kind_);
  while (is_in_use(*released.entry)) std::this_thread::yield();
  local_entries().give(released.entry);
}

OwnedHandle::Peek::Peek(const void* handle, HandleKind kind) {
  HandleEntry* const entry = detail::any_entry(handle, kind);
  if (entry == nullptr) return;
  ThreadUses* const uses = detail::this_thread_uses;
  if (uses != nullptr && entry->home.load(std::memory_order_relaxed) == uses &&
      uses->held_count < ThreadUses::kMostHeld) {
    // The note comes before the look, as in HandleUses::begin().
    held_ = &uses->held[uses->held_count++];
    held_->store(entry, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    counted_ = entry;
    entry->counted_uses.fetch_add(1, std::memory_order_seq_cst);
  }
  if (!detail::is_live(*entry, handle, std::memory_order_seq_cst)) return;
  object_ = entry->object.load(std::memory_order_relaxed);
}

// A note of a handle that is none of an OwnedHandle may have been taken for a use, as in drop().
OwnedHandle::Peek::~Peek() {
  if (counted_ != nullptr) detail::count_down(*counted_);
  if (held_ == nullptr) return;
  HandleEntry& entry = *held_->load(std::memory_order_relaxed);
  --detail::this_thread_uses->held_count;
  held_->store(nullptr, std::memory_order_release);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (entry.doomed.load(std::memory_order_relaxed) != 0) [[unlikely]]
    detail::destroy_doomed(entry);
}

Status explain_handle(const void* handle, HandleKind kind, std::string_view argument) {
  const std::string name = "argument " + std::string(argument);
  if (handle == nullptr) return Status(BP_INVALID_ARGUMENT, name + " is NULL");
  const std::string expected = ", expected " + std::string(kind_name(static_cast<uint64_t>(kind)));
  const auto value = reinterpret_cast<uint64_t>(handle);
  const uint64_t found = value >> detail::kKindShift & (detail::kKinds - 1);
  const uint64_t slab = (value & ((uint64_t{1} << detail::kEntryBits) - 1)) >> detail::kSlabBits;
  const bool ours = value >> 63 != 0 && !kind_name(found).empty() &&
                    detail::g_handle_slabs[slab].load(std::memory_order_acquire) != nullptr;
  if (!ours) {
    return Status(BP_INVALID_ARGUMENT, name + " is no handle of this library" + expected);
  }
  if (detail::find_entry(handle, static_cast<HandleKind>(found)) == nullptr) {
    return Status(BP_INVALID_ARGUMENT,
                  name + " is " + std::string(kind_name(found)) + " that was released" + expected);
  }
  return Status(BP_INVALID_ARGUMENT, name + " is " + std::string(kind_name(found)) + expected);
}

}  // namespace bp
