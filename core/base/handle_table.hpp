// SPDX-License-Identifier: Apache-2.0
//
// What an opaque handle of the C API really is: a number with a kind, an entry and the entry's
// generation in it. A handle is checked without following it, so that NULL, a released object,
// another type's object and any address that this library never gave out are told apart and none of
// them is touched. A check is two loads and two compares; entries are recycled per thread.
//
// A call that uses an object says so first, and a release that finds the object in use leaves it to
// the last user to destroy: one thread may release what another one uses. The thread that made a
// handle uses and releases it most; it notes its uses by plain stores in a list of its own, and
// another thread that releases the handle pays for a process_fence(). All others count themselves
// in the entry. Others can look through a thread's uses of either kind, so that who ends what
// objects stand on can wait for the calls that use them, at no cost to those (owner_uses.hpp).
//
// Entries are never given back to the system: a stale handle must find its entry's newer
// generation. The table is a process-wide object, since a handle is all that a caller gives (ADR
// 0011).
#ifndef BACKPLANE_CORE_BASE_HANDLE_TABLE_HPP
#define BACKPLANE_CORE_BASE_HANDLE_TABLE_HPP

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string_view>

#include "core/base/status.hpp"

namespace bp {

enum class HandleKind : uint32_t {
  kRuntime = 1,
  kDevice,
  kTensor,
  kSession,
  kStream,
  kCancel,
  kStore,
  kGroup,
  kWork,
  kJob,
  kMesh,
  kDataParallel
};

namespace detail {

// 1 | kind 4 | generation 35 | entry 24. With the highest bit set no user-space address is a
// handle.
inline constexpr uint32_t kEntryBits = 24;
inline constexpr uint32_t kGenerationBits = 35;
inline constexpr uint32_t kKindShift = kEntryBits + kGenerationBits;
inline constexpr uint64_t kKinds = 16;  // also the highest bit, in front of the kind
inline constexpr uint32_t kSlabBits = 10;
inline constexpr uint64_t kGenerationMask = (uint64_t{1} << kGenerationBits) - 1;
// An entry's state: generation 35 | owners 29, in one word so that retain and release are exact.
inline constexpr uint32_t kOwnerBits = 64 - kGenerationBits;
inline constexpr uint64_t kOwnersMask = (uint64_t{1} << kOwnerBits) - 1;
static_assert(sizeof(void*) == sizeof(uint64_t), "handles carry 64 bits");

struct ThreadUses;

struct alignas(64) HandleEntry {  // a cache line each: neighbours belong to different threads
  std::atomic<uint64_t> state{0};
  std::atomic<void*> object{nullptr};
  std::atomic<ThreadUses*> home{nullptr};  // of the thread that made the handle; nullptr: all count
  std::atomic<uint32_t> counted_uses{0};   // also of stale handles, for a moment
  std::atomic<bool> exclusive{false};
  std::atomic<uint8_t> kind{0};  // of the latest handle
  // Set when a release found the object in use: the generation, plus 1. Who takes it destroys.
  std::atomic<uint64_t> doomed{0};
  std::atomic<void (*)(void*)> destroy{nullptr};
  uint32_t index = 0;
  HandleEntry* next_unused = nullptr;
};
static_assert(sizeof(HandleEntry) == 64);

/// A stack of one thread, which any other thread may look through. Keeps its memory for ever.
class UseStack {
 public:
  uint32_t size() const { return size_; }
  /// Throws std::bad_alloc, with no effect. `order`: of the one store.
  void push(uintptr_t word, std::memory_order order) {
    const Place place = place_of(size_);
    if (blocks_[place.block].load(std::memory_order_relaxed) == nullptr) [[unlikely]]
      add_block(place.block);
    at(place).store(word, order);
    ++size_;
  }
  uintptr_t top() const { return at(place_of(size_ - 1)).load(std::memory_order_relaxed); }
  void pop() { at(place_of(--size_)).store(0, std::memory_order_release); }

  /// Every place that was ever used, with what is in it now; 0: nothing. Any thread.
  template <class Look>
  void for_each_place(Look look) const {
    for (size_t block = 0; block < kBlocks; ++block) {
      const Word* words = blocks_[block].load(std::memory_order_acquire);
      if (words == nullptr) return;
      for (size_t i = 0; i < size_t{kFirst} << block; ++i) look(words[i]);
    }
  }

 private:
  using Word = std::atomic<uintptr_t>;
  static constexpr uint32_t kFirst = 32;  // words in the first block; each further one has double
  static constexpr size_t kBlocks = 27;
  struct Place {
    size_t block;
    size_t index;
  };
  static Place place_of(uint32_t number) {
    const uint32_t shifted = number + kFirst;
    const auto block = static_cast<size_t>(std::bit_width(shifted)) - std::bit_width(kFirst);
    return {block, shifted - (size_t{kFirst} << block)};
  }
  Word& at(const Place& place) const {
    return blocks_[place.block].load(std::memory_order_relaxed)[place.index];
  }
  void add_block(size_t block);

  std::array<std::atomic<Word*>, kBlocks> blocks_{};
  uint32_t size_ = 0;
};

/// The handles that one thread has in use. Never freed, since an entry may name it for ever; a
/// thread that ends leaves it to another one.
struct ThreadUses {
  static constexpr size_t kMostHeld = 32;
  std::array<std::atomic<HandleEntry*>, kMostHeld> held{};  // entries whose home this is
  uint32_t held_count = 0;
  bool can_be_home = false;  // others can make sure that they see what this thread holds
  bool is_ending = false;    // the thread is, and no longer keeps this for a later call
  uint32_t destroying = 0;   // objects whose end this thread is in, within the end of a use
  // Entries that this thread has counted itself in; and, with kOwnerBit, what an announced use is
  // of.
  UseStack counted;
  static constexpr uintptr_t kOwnerBit = 1;
  // Outermost calls that ended with an error, as all do that come after a close began.
  std::atomic<uint64_t> failed_calls{0};
  ThreadUses* next_unused = nullptr;
  ThreadUses* next = nullptr;  // of all that were ever made
};
extern constinit thread_local ThreadUses* this_thread_uses;  // nullptr: none yet
/// Throws std::bad_alloc.
ThreadUses& make_thread_uses();
void give_back_thread_uses(ThreadUses* uses);
/// Of all that were ever made.
ThreadUses* first_thread_uses();

inline constexpr size_t kSlabEntries = size_t{1} << kSlabBits;
inline constexpr size_t kMaxSlabs = size_t{1} << (kEntryBits - kSlabBits);
extern std::atomic<HandleEntry*> g_handle_slabs[kMaxSlabs];

/// Whether the handle whose entry this is lives.
inline bool is_live(const HandleEntry& entry, const void* handle, std::memory_order order) {
  const auto value = reinterpret_cast<uint64_t>(handle);
  const uint64_t state = entry.state.load(order);
  return state >> kOwnerBits == ((value >> kEntryBits) & kGenerationMask) &&
         (state & kOwnersMask) != 0;
}

/// The entry of a handle of that kind, live or not; nullptr: it is none.
inline HandleEntry* any_entry(const void* handle, HandleKind kind) {
  const auto value = reinterpret_cast<uint64_t>(handle);
  if (value >> kKindShift != (kKinds | static_cast<uint64_t>(kind))) [[unlikely]]
    return nullptr;
  const uint64_t index = value & ((uint64_t{1} << kEntryBits) - 1);
  HandleEntry* slab = g_handle_slabs[index >> kSlabBits].load(std::memory_order_acquire);
  if (slab == nullptr) [[unlikely]]
    return nullptr;
  return &slab[index % kSlabEntries];
}

/// The entry of a live handle of that kind; nullptr: it is none.
inline HandleEntry* find_entry(const void* handle, HandleKind kind) {
  HandleEntry* entry = any_entry(handle, kind);
  const bool live = entry != nullptr && is_live(*entry, handle, std::memory_order_acquire);
  return live ? entry : nullptr;
}

/// Destroys the object of an entry that was released while in use, if no thread uses it any more.
void destroy_doomed(HandleEntry& entry);
/// Ends a counted use; the last one after a release destroys the object.
void count_down(HandleEntry& entry);

}  // namespace detail

/// A new handle with one owner. nullptr: out of host memory, or 16 million handles live. Any
/// thread.
void* make_handle(HandleKind kind, void* object);

/// The uses that a thread began since are over when this ends. One in another is fine.
class HandleUses {
 public:
  HandleUses() noexcept {
    if (const detail::ThreadUses* uses = detail::this_thread_uses; uses != nullptr) {
      held_before_ = uses->held_count;
      counted_before_ = uses->counted.size();
    }
  }
  ~HandleUses() {
    if (detail::this_thread_uses != nullptr) end(*detail::this_thread_uses);
  }
  HandleUses(const HandleUses&) = delete;
  HandleUses& operator=(const HandleUses&) = delete;

  /// The object of a live handle, which stays until the HandleUses round this call ends, whoever
  /// releases the handle; nullptr: it is none, and explain_handle says why. Any thread. Throws
  /// std::bad_alloc.
  [[gnu::always_inline]] static void* begin(const void* handle, HandleKind kind) {
    detail::ThreadUses* uses = detail::this_thread_uses;
    if (uses == nullptr) [[unlikely]]
      uses = &detail::make_thread_uses();
    detail::HandleEntry* entry = detail::any_entry(handle, kind);
    if (entry == nullptr) [[unlikely]]
      return nullptr;
    if (entry->home.load(std::memory_order_relaxed) != uses ||
        uses->held_count == detail::ThreadUses::kMostHeld) [[unlikely]] {
      return begin_counted(*uses, *entry, handle);
    }
    // The note comes before the look: a release does it the other way round.
    uses->held[uses->held_count].store(entry, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (!detail::is_live(*entry, handle, std::memory_order_acquire)) [[unlikely]] {
      drop(*entry, &uses->held[uses->held_count]);
      return nullptr;
    }
    ++uses->held_count;
    return entry->object.load(std::memory_order_relaxed);
  }

  /// A use of `owner` that no handle stands for; of an address, which is not followed. Any thread.
  /// Throws std::bad_alloc.
  static void announce(const void* owner);
  /// The outermost call on this thread has ended with an error, but for the ends of its uses.
  static void note_failed_call() noexcept;

 private:
  static void* begin_counted(detail::ThreadUses& uses, detail::HandleEntry& entry,
                             const void* handle);
  static void end_counted(detail::ThreadUses& uses);
  static void push(detail::ThreadUses& uses, uintptr_t word);
  /// Also of a handle that turned out dead: a release may have taken the note for a use.
  static void drop(detail::HandleEntry& entry, std::atomic<detail::HandleEntry*>* place) {
    place->store(nullptr, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (entry.doomed.load(std::memory_order_relaxed) != 0) [[unlikely]]
      detail::destroy_doomed(entry);
  }

  void end(detail::ThreadUses& uses) const {
    while (uses.held_count > held_before_) {
      std::atomic<detail::HandleEntry*>& place = uses.held[--uses.held_count];
      drop(*place.load(std::memory_order_relaxed), &place);
    }
    while (uses.counted.size() > counted_before_) end_counted(uses);
    if (uses.is_ending && uses.held_count == 0 && uses.counted.size() == 0) [[unlikely]] {
      // An object's end within the end of a use may be a call itself: the outer one goes on here.
      if (uses.destroying == 0) detail::give_back_thread_uses(&uses);
    }
  }

  uint32_t held_before_ = 0;
  uint32_t counted_before_ = 0;
};

/// One more owner. False: no live handle. Any thread.
bool retain_handle(const void* handle, HandleKind kind);

/// One owner less. After the last one the handle is gone, and `destroy` gets the object: at once,
/// or from the last call that uses it. False: it was no live handle. Any thread.
bool release_handle(const void* handle, HandleKind kind, void (*destroy)(void*));

/// INVALID_ARGUMENT naming the argument and what it is instead: NULL, released, another kind, or
/// nothing of this library.
Status explain_handle(const void* handle, HandleKind kind, std::string_view argument);

/// The handle of an object that has it as a member: they end together.
class OwnedHandle {
 public:
  OwnedHandle(HandleKind kind, void* object) : kind_(kind), handle_(make_handle(kind, object)) {
    if (handle_ == nullptr) throw std::bad_alloc();
  }
  /// Waits until no Peek is left.
  ~OwnedHandle();
  OwnedHandle(const OwnedHandle&) = delete;
  OwnedHandle& operator=(const OwnedHandle&) = delete;
  void* get() const { return handle_; }

  /// Keeps the object of a live OwnedHandle while it lives itself: long enough to take a reference,
  /// and no longer, since the object's end waits for it. Any thread.
  class Peek {
   public:
    Peek(const void* handle, HandleKind kind);
    ~Peek();
    Peek(const Peek&) = delete;
    Peek& operator=(const Peek&) = delete;
    /// nullptr: no live handle.
    void* object() const { return object_; }

   private:
    std::atomic<detail::HandleEntry*>* held_ = nullptr;  // its place with this thread, or
    detail::HandleEntry* counted_ = nullptr;
    void* object_ = nullptr;
  };

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
  ExclusiveUse(ExclusiveUse&& other) noexcept : entry_(other.entry_) { other.entry_ = nullptr; }
  ExclusiveUse& operator=(ExclusiveUse&&) = delete;
  ~ExclusiveUse() { end(); }
  void end() {
    if (entry_ != nullptr) entry_->exclusive.store(false, std::memory_order_release);
    entry_ = nullptr;
  }
  /// False: another call has it.
  bool take(const void* handle, HandleKind kind) {
    detail::HandleEntry* entry = detail::find_entry(handle, kind);
    if (entry == nullptr || entry->exclusive.exchange(true, std::memory_order_acq_rel))
      return false;
    entry_ = entry;
    return true;
  }

 private:
  detail::HandleEntry* entry_ = nullptr;
};

}  // namespace bp

#endif
