// SPDX-License-Identifier: Apache-2.0
//
// Inside core/api: the one way into an API function (fork, exceptions, last error), from opaque
// handles to the core's objects and back, and the checks of arguments. Every check names its
// argument.
#ifndef BACKPLANE_CORE_API_HANDLES_HPP
#define BACKPLANE_CORE_API_HANDLES_HPP

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backplane/backplane.h"
#include "core/base/fork.hpp"
#include "core/base/handle_table.hpp"
#include "core/base/log.hpp"
#include "core/base/status.hpp"
#include "core/execute/session.hpp"
#include "core/runtime/runtime.hpp"
#include "core/runtime/tensor.hpp"

namespace bp {

/// A session with its C view of inputs and outputs, made once.
struct ApiSession : Counted<ApiSession> {
  ~ApiSession();
  Ref<Session> session;
  std::vector<std::vector<const char*>> input_dim_names;
  std::vector<std::vector<const char*>> output_dim_names;
};

/// A token. Each of its generations is a flag of its own, which runs share: a run looks at the flag
/// of the generation that it began in, so that a reset takes back no request, not even one that the
/// run has not looked at yet. Any thread.
class ApiCancel : public Counted<ApiCancel> {
 public:
  using Flag = std::atomic<bool>;

  /// For a run that begins now; it need not keep the token.
  std::shared_ptr<const Flag> flag() const {
    const std::lock_guard lock(mutex_);
    return flag_;
  }
  void request() const {
    const std::lock_guard lock(mutex_);
    flag_->store(true, std::memory_order_relaxed);
  }
  /// Begins a generation, if the present one was requested. Throws std::bad_alloc, with no effect.
  void reset() {
    const std::lock_guard lock(mutex_);
    if (flag_->load(std::memory_order_relaxed)) flag_ = std::make_shared<Flag>(false);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<Flag> flag_ = std::make_shared<Flag>(false);
};

/// Counted: runs in progress keep it. A stream of the caller's goes back to its device at the end.
struct ApiStream : Counted<ApiStream> {
  ApiStream(Stream& owned_or_default, bool is_owned)
      : runtime(&owned_or_default.device().runtime()), stream(owned_or_default), owned(is_owned) {}
  ~ApiStream();
  /// The kind of the native queue as a text for the caller; it never changes.
  const char* keep_kind(std::string kind) {
    const std::lock_guard lock(kind_mutex);
    if (native_kind.empty()) native_kind = std::move(kind);
    return native_kind.c_str();
  }
  const Ref<Runtime> runtime;  // keeps the device, which keeps the stream
  Stream& stream;
  const bool owned;
  std::mutex kind_mutex;
  std::string native_kind;
};

/// Which object a handle type stands for.
template <class Handle>
struct HandleTraits;
template <>
struct HandleTraits<bpa_runtime> {
  using Object = Runtime;
  static constexpr HandleKind kKind = HandleKind::kRuntime;
};
template <>
struct HandleTraits<bpa_tensor> {
  using Object = Tensor;
  static constexpr HandleKind kKind = HandleKind::kTensor;
};
template <>
struct HandleTraits<bpa_session> {
  using Object = ApiSession;
  static constexpr HandleKind kKind = HandleKind::kSession;
};
template <>
struct HandleTraits<bpa_cancel> {
  using Object = ApiCancel;
  static constexpr HandleKind kKind = HandleKind::kCancel;
};
template <>
struct HandleTraits<bpa_stream> {
  using Object = ApiStream;
  static constexpr HandleKind kKind = HandleKind::kStream;
};
template <class Handle>
using ObjectOf = typename HandleTraits<Handle>::Object;

/// What an object in use keeps from being closed.
const void* owner_of(HandleKind kind, const void* object);

/// Of a device in use: GONE from the beginning of its Runtime's close on. To be asked once all
/// objects of the call are found: that one whose use it was is waited for from then on.
inline Status check_open(const Device& device) {
  BP_TRY(device.check_open());
  return device.runtime().check_open();
}
/// ... of what the tensor lies on, if that is a device.
inline Status check_open(const Tensor& tensor) {
  return tensor.device() != nullptr ? check_open(*tensor.device()) : Status();
}

/// The object of a live handle, which stays until the ApiScope round this ends, whoever releases
/// the handle; nullptr: it is none.
template <class Handle>
[[gnu::always_inline]] inline ObjectOf<Handle>* find_object(const Handle* handle) {
  return static_cast<ObjectOf<Handle>*>(HandleUses::begin(handle, HandleTraits<Handle>::kKind));
}

/// ... or why it is none, naming the argument.
template <class Handle>
Result<ObjectOf<Handle>*> object_of(const Handle* handle, std::string_view name) {
  ObjectOf<Handle>* object = find_object(handle);
  if (object == nullptr) return explain_handle(handle, HandleTraits<Handle>::kKind, name);
  return object;
}

/// A device in use, and the Runtime that keeps it.
class DeviceUse {
 public:
  DeviceUse() = default;
  DeviceUse(Ref<Runtime> runtime, Device& device)
      : runtime_(std::move(runtime)), device_(&device) {}
  Device* get() const { return device_; }
  Device* operator->() const { return device_; }
  Device& operator*() const { return *device_; }

 private:
  Ref<Runtime> runtime_;
  Device* device_ = nullptr;
};

/// Another thread may release the last handle of its Runtime meanwhile.
Result<DeviceUse> object_of(const bpa_device* handle, std::string_view name);

/// A new handle for the caller, which owns `object` from now on; on an error it has no owner yet.
template <class Handle>
Status make_api_handle(ObjectOf<Handle>* object, Handle** out_handle) {
  void* handle = make_handle(HandleTraits<Handle>::kKind, object);
  if (handle == nullptr) return Status(BP_OUT_OF_MEMORY, "no room for another handle");
  *out_handle = static_cast<Handle*>(handle);
  return {};
}

/// Gives the tensors to the caller of the API: all, or on an error none.
Status give_tensors(std::span<Ref<Tensor>> tensors, bpa_tensor** out_tensors);
inline Status give_tensor(Ref<Tensor> tensor, bpa_tensor** out_tensor) {
  BP_TRY(make_api_handle(tensor.get(), out_tensor));
  tensor.detach();
  return {};
}

inline bpa_device* to_handle(const Device* device) {
  return device != nullptr ? static_cast<bpa_device*>(device->handle()) : nullptr;
}

/// Keeps the words for bpa_last_error and the operator for bpa_last_error_op, and answers the code.
bpa_status set_last_error(const Status& status);
bpa_status set_last_error(bpa_status code, const char* words, const char* op) noexcept;
inline constexpr size_t kLastErrorBytes = 4096;  // longer words are cut
inline constexpr size_t kLastErrorOpBytes = 64;  // longer names too
const char* last_error_text();
const char* last_error_op();

/// Hands the lines of an API call to the sink, whose own calls leave the last error as it is.
void deliver_lines(LogScope* lines) noexcept;

/// Round each API call, while no lock is held: its log lines come at the end of the outermost one
/// on this thread, since the sink may call the API.
/// The objects that the call has found stay till then.
class ApiScope {
 public:
  ApiScope() = default;
  ApiScope(const ApiScope&) = delete;
  ApiScope& operator=(const ApiScope&) = delete;

  /// set_last_error(), at the end of a call's body.
  bpa_status fail(const Status& status) const;

 private:
  struct Lines {
    ~Lines() {
      if (scope.has_lines()) [[unlikely]]
        deliver_lines(&scope);
    }
    LogScope scope;
  };
  Lines lines_;
  HandleUses uses_;  // ends first: what it destroys may log
};

/// Logs what a function of the application's threw, which has no call to answer it: "a deleter".
void report_throw(std::string_view function, const Status& thrown) noexcept;

/// Logs a release of what is no live handle.
void report_bad_release(const void* handle, HandleKind kind, std::string_view function) noexcept;

/// The handle's end.
template <class Object>
void let_go_of(Object* object) {
  object->release();
}
inline void let_go_of(Runtime* runtime) {
  runtime->gather();
  runtime->release();
}

/// One owner less of a handle. After the last the object loses its owner too, when no call uses it
/// any more. What is no live handle is logged and otherwise left alone; in a forked child
/// everything is.
template <class Handle>
void release(Handle* handle, std::string_view function) {
  if (handle == nullptr || forked()) return;
  const ApiScope scope;
  const auto destroy = [](void* object) { let_go_of(static_cast<ObjectOf<Handle>*>(object)); };
  const bool found = release_handle(handle, HandleTraits<Handle>::kKind, destroy);
  if (!found) report_bad_release(handle, HandleTraits<Handle>::kKind, function);
}

inline Status bad_argument(std::string_view name, const std::string& what) {
  return Status(BP_INVALID_ARGUMENT, "argument " + std::string(name) + " " + what);
}

inline Status check_pointer(const void* pointer, std::string_view name) {
  if (pointer != nullptr) return {};
  return bad_argument(name, "is NULL");
}

/// A terminated UTF-8 text.
Status check_text(const char* text, std::string_view name);

/// Counts beyond this are mistakes, refused before anything is read or written.
inline constexpr uint64_t kMaxArrayCount = uint64_t{1} << 20;
/// `array` may be NULL if there are none.
Status check_array(const void* array, uint64_t count, std::string_view name);

/// struct_size as the caller says: room for the first two members, within reason.
Status check_struct_size(uint32_t struct_size, std::string_view name);
/// Members that this library does not know must be 0, for what they ask cannot be done.
Status check_unknown_members(const void* given, size_t struct_size, size_t known_size,
                             std::string_view name);
/// The argument is called name + member.
Status check_flags(uint64_t flags, uint64_t known, std::string_view name,
                   std::string_view member = {});

/// The caller's versioned struct as this library knows it: members beyond its size are zero.
template <class T>
Result<T> read_struct(const T* given, std::string_view name, uint64_t known_flags = 0) {
  T copy{};
  if (given == nullptr) return copy;
  BP_TRY(check_struct_size(given->struct_size, name));
  std::memcpy(&copy, given, std::min<size_t>(given->struct_size, sizeof(T)));
  BP_TRY(check_unknown_members(given, given->struct_size, sizeof(T), name));
  BP_TRY(check_flags(copy.flags, known_flags, name, ".flags"));
  return copy;
}

/// Fills the caller's struct, never past its size.
template <class T>
Status write_struct(T* out, T value, std::string_view name) {
  BP_TRY(check_pointer(out, name));
  BP_TRY(check_struct_size(out->struct_size, name));
  BP_TRY(check_flags(out->flags, 0, name, ".flags"));
  value.struct_size = out->struct_size;
  std::memcpy(out, &value, std::min<size_t>(out->struct_size, sizeof(T)));
  return {};
}

/// Runs the body of an API function; nothing it throws leaves the library. In a forked child the
/// body is not run.
template <class Body>
bpa_status guarded(Body&& body) noexcept {
  const ApiScope scope;
  try {
    if (forked()) [[unlikely]]
      return set_last_error(check_not_forked());
    const Status status = body();
    return status.ok() ? BP_OK : scope.fail(status);
  } catch (...) {
    return scope.fail(status_of_exception());
  }
}

/// The same for a function that answers by `out_values`, which are 0 unless the body sets them. A
/// count that cannot be is left to the body, which refuses it.
template <class Out, class Body>
bpa_status guarded(Out* out_values, uint64_t count, Body&& body) noexcept {
  if (out_values != nullptr && count == 1) [[likely]] {
    *out_values = Out{};
  } else if (out_values != nullptr && count <= kMaxArrayCount) {
    std::fill_n(out_values, count, Out{});
  }
  return guarded(std::forward<Body>(body));
}

}  // namespace bp

#endif
