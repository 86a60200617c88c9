// SPDX-License-Identifier: Apache-2.0
//
// Replaces operator new and delete, and in plain builds malloc and its family and pthread_create.
// Nothing here may allocate.
#include "tests/fault_injection/interposer.hpp"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <unwind.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BP_FAULTS_SANITIZED 1
#else
#define BP_FAULTS_SANITIZED 0
// glibc's own, under names that replacing malloc leaves alone.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* memory);
}
#endif

namespace bp::faults {
namespace {

constexpr uint64_t kOff = 0;
std::atomic<uint64_t> g_alloc_nth{kOff};
std::atomic<bool> g_alloc_from{false};
std::atomic<uint64_t> g_thread_nth{kOff};
std::atomic<uint64_t> g_requests{0};
std::atomic<uint64_t> g_refused{0};
std::atomic<int64_t> g_live{0};

enum class Owner { kBackplane, kCxxLibrary, kOther };

Owner owner_of(void* address) {
  dl_find_object found{};
  if (_dl_find_object(address, &found) != 0 || found.dlfo_link_map == nullptr) {
    return Owner::kOther;
  }
  const char* name = found.dlfo_link_map->l_name;
  if (name[0] == '\0' || std::strstr(name, "libbackplane.so") != nullptr) return Owner::kBackplane;
  // Beside a plugin may lie a library of its vendor, with a version behind its .so.
  const char* plugin = std::strstr(name, "libbackplane_");
  const char* end = plugin != nullptr ? std::strstr(plugin, ".so") : nullptr;
  if (end != nullptr && std::strcmp(end, ".so") == 0) return Owner::kBackplane;
  return std::strstr(name, "libstdc++") != nullptr ? Owner::kCxxLibrary : Owner::kOther;
}

struct Walk {
  void* from;  // frames above this return address are the interposer's
  bool begun = false;
  Owner owner = Owner::kOther;
};

_Unwind_Reason_Code visit(_Unwind_Context* context, void* user) {
  auto& walk = *static_cast<Walk*>(user);
  void* const address = reinterpret_cast<void*>(_Unwind_GetIP(context));
  walk.begun = walk.begun || address == walk.from;
  if (!walk.begun) return _URC_NO_REASON;
  walk.owner = owner_of(address);
  return walk.owner == Owner::kCxxLibrary ? _URC_NO_REASON : _URC_NORMAL_STOP;
}

/// True if the request whose function returns to `caller` is one that can be made to fail.
bool counts(void* caller) {
  const Owner owner = owner_of(caller);
  if (owner != Owner::kCxxLibrary) return owner == Owner::kBackplane;
  Walk walk{.from = caller};
  _Unwind_Backtrace(visit, &walk);
  return walk.owner == Owner::kBackplane;
}

bool refuse(std::atomic<uint64_t>& nth, bool later_too, void* caller) {
  const uint64_t wanted = nth.load(std::memory_order_relaxed);
  if (wanted == kOff || !counts(caller)) return false;
  const uint64_t request = g_requests.fetch_add(1) + 1;
  if (request != wanted && !(later_too && request > wanted)) return false;
  g_refused.fetch_add(1);
  return true;
}

bool refuse_alloc(void* caller) { return refuse(g_alloc_nth, g_alloc_from.load(), caller); }

void* note_live(void* memory) {
  if (memory != nullptr) g_live.fetch_add(1, std::memory_order_relaxed);
  return memory;
}
void note_free(void* memory) {
  if (memory != nullptr) g_live.fetch_sub(1, std::memory_order_relaxed);
}

#if !BP_FAULTS_SANITIZED
/// The system keeps stacks of threads that have ended for new ones, each with memory that its
/// loader asks for: how many there are tells how threads happened to overlap.
bool is_loader(void* caller) {
  static const dl_find_object kLoader = [] {
    dl_find_object found{};
    _dl_find_object(reinterpret_cast<void*>(&_dl_find_object), &found);
    return found;
  }();
  return caller >= kLoader.dlfo_map_start && caller < kLoader.dlfo_map_end;
}
void* note_live_of(void* caller, void* memory) {
  return is_loader(caller) ? memory : note_live(memory);
}
void note_free_of(void* caller, void* memory) {
  if (!is_loader(caller)) note_free(memory);
}
#endif

// What lies below operator new: without the counting of the malloc above it.
void* raw_alloc(size_t bytes, size_t alignment) {
  bytes = bytes == 0 ? 1 : bytes;
#if BP_FAULTS_SANITIZED
  if (alignment == 0) return std::malloc(bytes);
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
#else
  return alignment == 0 ? __libc_malloc(bytes) : __libc_memalign(alignment, bytes);
#endif
}
void raw_free(void* memory) {
#if BP_FAULTS_SANITIZED
  std::free(memory);
#else
  __libc_free(memory);
#endif
}

void* new_or_null(size_t bytes, size_t alignment, void* caller) {
  return refuse_alloc(caller) ? nullptr : note_live(raw_alloc(bytes, alignment));
}
void* new_or_throw(size_t bytes, size_t alignment, void* caller) {
  void* const memory = new_or_null(bytes, alignment, caller);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void delete_any(void* memory) {
  note_free(memory);
  raw_free(memory);
}

}  // namespace

void arm_host(HostFault fault, uint64_t nth) {
  g_requests = 0;
  g_refused = 0;
  g_alloc_from = fault == HostFault::kAllocFrom;
  (fault == HostFault::kThread ? g_thread_nth : g_alloc_nth) = nth;
}

HostCounts disarm_host() {
  g_alloc_nth = kOff;
  g_thread_nth = kOff;
  return {g_requests.load(), g_refused.load()};
}

int64_t live_blocks() { return g_live.load(std::memory_order_relaxed); }

}  // namespace bp::faults

using bp::faults::delete_any;
using bp::faults::new_or_null;
using bp::faults::new_or_throw;

#define CALLER __builtin_extract_return_addr(__builtin_return_address(0))
#define BP_VISIBLE __attribute__((visibility("default"), noinline))

BP_VISIBLE void* operator new(size_t bytes) { return new_or_throw(bytes, 0, CALLER); }
BP_VISIBLE void* operator new[](size_t bytes) { return new_or_throw(bytes, 0, CALLER); }
BP_VISIBLE void* operator new(size_t bytes, std::align_val_t alignment) {
  return new_or_throw(bytes, static_cast<size_t>(alignment), CALLER);
}
BP_VISIBLE void* operator new[](size_t bytes, std::align_val_t alignment) {
  return new_or_throw(bytes, static_cast<size_t>(alignment), CALLER);
}
BP_VISIBLE void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return new_or_null(bytes, 0, CALLER);
}
BP_VISIBLE void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return new_or_null(bytes, 0, CALLER);
}
BP_VISIBLE void* operator new(size_t bytes, std::align_val_t alignment,
                              const std::nothrow_t&) noexcept {
  return new_or_null(bytes, static_cast<size_t>(alignment), CALLER);
}
BP_VISIBLE void* operator new[](size_t bytes, std::align_val_t alignment,
                                const std::nothrow_t&) noexcept {
  return new_or_null(bytes, static_cast<size_t>(alignment), CALLER);
}

BP_VISIBLE void operator delete(void* memory) noexcept { delete_any(memory); }
BP_VISIBLE void operator delete[](void* memory) noexcept { delete_any(memory); }
BP_VISIBLE void operator delete(void* memory, size_t) noexcept { delete_any(memory); }
BP_VISIBLE void operator delete[](void* memory, size_t) noexcept { delete_any(memory); }
BP_VISIBLE void operator delete(void* memory, std::align_val_t) noexcept { delete_any(memory); }
BP_VISIBLE void operator delete[](void* memory, std::align_val_t) noexcept { delete_any(memory); }
BP_VISIBLE void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  delete_any(memory);
}
BP_VISIBLE void operator delete[](void* memory, size_t, std::align_val_t) noexcept {
  delete_any(memory);
}
BP_VISIBLE void operator delete(void* memory, const std::nothrow_t&) noexcept {
  delete_any(memory);
}
BP_VISIBLE void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  delete_any(memory);
}
BP_VISIBLE void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  delete_any(memory);
}
BP_VISIBLE void operator delete[](void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  delete_any(memory);
}

#if !BP_FAULTS_SANITIZED

using bp::faults::note_free_of;
using bp::faults::note_live_of;
using bp::faults::refuse_alloc;

namespace {

void* no_memory() {
  errno = ENOMEM;
  return nullptr;
}

}  // namespace

extern "C" {

BP_VISIBLE void* malloc(size_t bytes) {
  return refuse_alloc(CALLER) ? no_memory() : note_live_of(CALLER, __libc_malloc(bytes));
}
BP_VISIBLE void* calloc(size_t count, size_t bytes) {
  return refuse_alloc(CALLER) ? no_memory() : note_live_of(CALLER, __libc_calloc(count, bytes));
}
BP_VISIBLE void* realloc(void* memory, size_t bytes) {
  if (refuse_alloc(CALLER)) return no_memory();
  void* const moved = __libc_realloc(memory, bytes);
  if (memory == nullptr) return note_live_of(CALLER, moved);
  if (bytes == 0) note_free_of(CALLER, memory);
  return moved;
}
BP_VISIBLE void* memalign(size_t alignment, size_t bytes) {
  return refuse_alloc(CALLER) ? no_memory()
                              : note_live_of(CALLER, __libc_memalign(alignment, bytes));
}
BP_VISIBLE void* aligned_alloc(size_t alignment, size_t bytes) {
  return refuse_alloc(CALLER) ? no_memory()
                              : note_live_of(CALLER, __libc_memalign(alignment, bytes));
}
BP_VISIBLE int posix_memalign(void** out_memory, size_t alignment, size_t bytes) {
  if (refuse_alloc(CALLER)) return ENOMEM;
  void* const memory = note_live_of(CALLER, __libc_memalign(alignment, bytes));
  if (memory == nullptr) return ENOMEM;
  *out_memory = memory;
  return 0;
}
BP_VISIBLE void free(void* memory) {
  note_free_of(CALLER, memory);
  __libc_free(memory);
}

BP_VISIBLE int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*body)(void*), void* user) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto kNext = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  if (bp::faults::refuse(bp::faults::g_thread_nth, false, CALLER)) return EAGAIN;
  return kNext(thread, attributes, body, user);
}

}  // extern "C"

#endif
