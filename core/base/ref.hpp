// SPDX-License-Identifier: Apache-2.0
//
// Counted ownership for the objects that several owners really share (tensors, storages, devices,
// the runtime), and recycled memory for the ones made on every call.
#ifndef BACKPLANE_CORE_BASE_REF_HPP
#define BACKPLANE_CORE_BASE_REF_HPP

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "core/base/fork.hpp"

namespace bp {

/// Base of counted objects; they start with one owner, whom Ref<T>::adopt takes over.
template <class T>
class Counted {
 public:
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  void retain() const { count_.fetch_add(1, std::memory_order_relaxed); }
  /// For the owner who asks: nobody else has the object, nor can get it but from this owner.
  bool has_one_owner() const { return count_.load(std::memory_order_acquire) == 1; }
  void release() const {
    // The only owner races with no other, so it needs no atomic subtraction.
    if (count_.load(std::memory_order_acquire) != 1 &&
        count_.fetch_sub(1, std::memory_order_acq_rel) != 1) {
      return;
    }
    // In a forked child what a destructor would end is not there, and its locks may be held.
    if (!forked()) [[likely]]
      T::dispose(static_cast<const T*>(this));
  }

 protected:
  /// The last owner has gone. A class that may have to stay a while has one of its own.
  static void dispose(const T* object) { delete object; }
  Counted() = default;
  ~Counted() = default;

 private:
  mutable std::atomic<int64_t> count_{1};
};

template <class T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}
  explicit Ref(T* object) : object_(object) {
    if (object_ != nullptr) object_->retain();
  }
  Ref(const Ref& other) : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr) object_->release();
  }

  /// Takes over the owner that the object started with (or that detach gave out).
  static Ref adopt(T* object) {
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  template <class... Arguments>
  static Ref make(Arguments&&... arguments) {
    return adopt(new T(std::forward<Arguments>(arguments)...));
  }
  /// Gives this owner out; somebody has to adopt it.
  T* detach() { return std::exchange(object_, nullptr); }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  friend bool operator==(const Ref& a, const Ref& b) { return a.object_ == b.object_; }

 private:
  T* object_ = nullptr;
};

/// Gives T a per-thread list of recycled memory: a warm call then reaches no heap and no lock.
template <class T>
class Recycled {
 public:
  static void* operator new(std::size_t bytes) {
    Cache& cache = local_cache();
    if (bytes == sizeof(T) && cache.head != nullptr) {
      --cache.count;
      return std::exchange(cache.head, cache.head->next);
    }
    return ::operator new(bytes);
  }
  static void operator delete(void* memory, std::size_t bytes) {
    Cache& cache = local_cache();
    if (bytes != sizeof(T) || (cache.count >= cache.limit && !open(cache))) [[unlikely]] {
      ::operator delete(memory);
      return;
    }
    cache.head = ::new (memory) Item{cache.head};
    ++cache.count;
  }

 private:
  static constexpr uint32_t kCacheLimit = 256;
  struct Item {
    Item* next;
  };
  // Without constructor and destructor, so that reaching it needs no check that it is there.
  struct Cache {
    Item* head = nullptr;
    uint32_t count = 0;
    uint32_t limit = 0;   // 0: not open yet, or the thread is ending: objects go to the heap
    bool opened = false;  // once
  };
  struct Emptier {
    Emptier() { local_cache().limit = kCacheLimit; }
    ~Emptier() {
      Cache& cache = local_cache();
      cache.limit = 0;
      cache.count = 0;
      while (cache.head != nullptr) {
        ::operator delete(std::exchange(cache.head, cache.head->next));
      }
    }
  };
  static Cache& local_cache() {
    static constinit thread_local Cache cache;
    return cache;
  }
  /// The first time on a thread: whether objects are kept from now on.
  static bool open(Cache& cache) {
    if (std::exchange(cache.opened, true)) return false;
    static thread_local const Emptier emptier;
    return true;
  }
};

}  // namespace bp

#endif
