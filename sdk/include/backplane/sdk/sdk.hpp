// SPDX-License-Identifier: Apache-2.0
//
// What a plugin written in C++ needs on its side of the ABI, header-only: an exception guard, the
// host services with defaults for what an older core lacks, and small builders for tables and
// descriptors. It depends on the ABI headers and the standard library alone.
#ifndef BACKPLANE_SDK_SDK_HPP
#define BACKPLANE_SDK_SDK_HPP

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <new>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "backplane/device_api.h"

/// True if the versioned struct behind `ptr`, as its allocator sized it, has `member`.
#define BP_SDK_HAS(ptr, member) \
  ((ptr)->struct_size >=        \
   offsetof(std::remove_reference_t<decltype(*(ptr))>, member) + sizeof((ptr)->member))

namespace bp::sdk {

constexpr bp_str str(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view view(bp_str text) {
  return {text.ptr, text.ptr ? static_cast<size_t>(text.len) : 0};
}

/// A set of dtypes for bp_kernel.dtype_masks.
constexpr uint64_t dtypes(std::initializer_list<uint32_t> codes) {
  uint64_t mask = 0;
  for (uint32_t code : codes) mask |= BP_DTYPE_BIT(code);
  return mask;
}

/// Bytes of one element; 0 for sub-byte and unknown dtypes.
constexpr uint64_t dtype_bytes(uint32_t dtype) {
  switch (dtype) {
    case BP_DTYPE_BOOL:
    case BP_DTYPE_I8:
    case BP_DTYPE_U8:
    case BP_DTYPE_F8E4M3FN:
    case BP_DTYPE_F8E5M2:
    case BP_DTYPE_F8E4M3FNUZ:
    case BP_DTYPE_F8E5M2FNUZ:
    case BP_DTYPE_F8E8M0:
      return 1;
    case BP_DTYPE_I16:
    case BP_DTYPE_U16:
    case BP_DTYPE_F16:
    case BP_DTYPE_BF16:
      return 2;
    case BP_DTYPE_I32:
    case BP_DTYPE_U32:
    case BP_DTYPE_F32:
      return 4;
    case BP_DTYPE_I64:
    case BP_DTYPE_U64:
    case BP_DTYPE_F64:
    case BP_DTYPE_C64:
      return 8;
    case BP_DTYPE_C128:
      return 16;
    default:
      return 0;
  }
}

inline int64_t element_count(const bp_tensor& tensor) {
  int64_t count = 1;
  for (uint32_t i = 0; i < tensor.rank; ++i) count *= tensor.sizes[i];
  return count;
}

/// Writes `value` over a versioned struct that the core allocated, never past its struct_size,
/// which stays as the core set it. Sizes are multiples of 8: half a pointer is not written.
template <class T>
void write_out(T* out, const T& value) {
  const uint32_t size = out->struct_size;
  std::memcpy(out, &value, std::min<size_t>(size - size % 8, sizeof(T)));
  out->struct_size = size;
}

/// A copy of a versioned struct that the core allocated: members beyond its struct_size are zero,
/// which means what a core that doesn't know them would do. Half a pointer is not read.
template <class Args>
Args read_args(const Args* args) {
  Args copy{};
  const uint32_t size = args->struct_size;
  std::memcpy(&copy, args, std::min<size_t>(size - size % 8, sizeof(Args)));
  return copy;
}

/// A failure on its way to the guard: the status for the core and the words for its user.
struct Failure {
  bp_status status;
  std::string message;
  int64_t vendor_code = 0;
};

/// Ends a slot with words: fail(BP_UNSUPPORTED, "mem_copy: kind ", kind).
template <class... Parts>
[[noreturn]] void fail(bp_status status, const Parts&... parts) {
  throw Failure{status, (std::ostringstream() << ... << parts).str()};
}
/// The call is wrong: refuse("expected ", 3, ", found ", n).
template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  fail(BP_INVALID_ARGUMENT, parts...);
}

/// The same for arguments whose flags ask for something: one that the plugin doesn't know asks for
/// what it can't do.
template <class Args>
Args read_args(const Args* args, uint32_t known_flags) {
  const Args copy = read_args(args);
  if ((copy.flags & ~known_flags) != 0) {
    fail(BP_UNSUPPORTED, "arguments with flags ", copy.flags, "; this plugin knows ", known_flags);
  }
  return copy;
}

/// The core's services for one instance. Copyable; valid until that instance's shutdown.
class Host {
 public:
  Host() = default;
  Host(const bp_host_api* api, void* context) : api_(api), context_(context) {}

  void report(bp_status status, std::string_view message, int64_t vendor_code = 0,
              uint64_t op_seq = 0, bp_stream* stream = nullptr) const {
    if (api_ == nullptr || !BP_SDK_HAS(api_, report) || api_->report == nullptr) return;
    const bp_report_info info{.struct_size = sizeof(bp_report_info),
                              .flags = 0,
                              .status = status,
                              .reserved = 0,
                              .vendor_code = vendor_code,
                              .op_seq = op_seq,
                              .stream = stream,
                              .message = str(message)};
    api_->report(context_, &info);
  }

  void log(uint32_t level, std::string_view message) const {
    if (api_ == nullptr || !BP_SDK_HAS(api_, log) || api_->log == nullptr) return;
    api_->log(context_, level, str(message));
  }

  /// Reports and returns `status`: `return host.fail(BP_UNSUPPORTED, "...");`
  bp_status fail(bp_status status, std::string_view message, int64_t vendor_code = 0) const {
    report(status, message, vendor_code);
    return status;
  }

 private:
  const bp_host_api* api_ = nullptr;
  void* context_ = nullptr;
};

/// Runs the body of a slot. Nothing it throws crosses the ABI: a Failure becomes its status, lack
/// of memory or threads BP_OUT_OF_MEMORY, anything else BP_INTERNAL, each with its words reported.
template <class Body>
bp_status guard(const Host& host, Body&& body) noexcept {
  try {
    return body();
  } catch (const Failure& failure) {
    return host.fail(failure.status, failure.message, failure.vendor_code);
  } catch (const std::bad_alloc&) {
    return host.fail(BP_OUT_OF_MEMORY, "host memory exhausted inside the plugin");
  } catch (const std::system_error& error) {
    const bool is_thread = error.code() == std::errc::resource_unavailable_try_again;
    return host.fail(is_thread ? BP_OUT_OF_MEMORY : BP_INTERNAL, error.what());
  } catch (const std::exception& error) {
    return host.fail(BP_INTERNAL, error.what());
  } catch (...) {
    return host.fail(BP_INTERNAL, "unknown exception inside the plugin");
  }
}

/// Runs the body of slot `name`. `object` is its first argument, with a member function host();
/// `pointers` are the others that must not be NULL. The body throws Failure, or answers with a
/// status, or has succeeded.
template <class Object, class Body>
bp_status slot(std::string_view name, const Object* object,
               std::initializer_list<const void*> pointers, Body&& body) noexcept {
  if (object == nullptr) return BP_INVALID_ARGUMENT;  // Without an object there is no host to tell.
  return guard(object->host(), [&]() -> bp_status {
    if (std::find(pointers.begin(), pointers.end(), nullptr) != pointers.end()) {
      refuse(name, ": an argument is NULL");
    }
    if constexpr (!std::is_void_v<decltype(body())>) return body();
    body();
    return BP_OK;
  });
}

/// The value of a user option in a bp_config or bp_open_args, if the user set it.
template <class Args>
std::optional<std::string_view> option(const Args* args, std::string_view name) {
  if (!BP_SDK_HAS(args, option_values)) return std::nullopt;
  for (uint32_t i = 0; i < args->option_count; ++i) {
    if (view(args->option_names[i]) == name) return view(args->option_values[i]);
  }
  return std::nullopt;
}

/// An i64 or bytes option; `fallback` where the user set none. The core has checked the text
/// against the manifest, so text that is no number is the core's bug.
template <class Args>
int64_t option_i64(const Args* args, std::string_view name, int64_t fallback) {
  const auto text = option(args, name);
  if (!text) return fallback;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size()) {
    refuse("option ", name, ": '", *text, "' is not an integer");
  }
  return value;
}

template <class Args>
bool option_bool(const Args* args, std::string_view name, bool fallback) {
  const auto text = option(args, name);
  if (!text) return fallback;
  if (*text != "true" && *text != "false") {
    refuse("option ", name, ": '", *text, "' is neither true nor false");
  }
  return *text == "true";
}

}  // namespace bp::sdk

#endif
