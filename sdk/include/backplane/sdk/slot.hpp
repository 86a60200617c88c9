// SPDX-License-Identifier: Apache-2.0
//
// Slots: versioned arguments in and out, and the guard that turns what a body throws into a status
// with words.
#ifndef BACKPLANE_SDK_SLOT_HPP
#define BACKPLANE_SDK_SLOT_HPP

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "backplane/sdk/host.hpp"
#include "backplane/status.h"

namespace bp::sdk {

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

}  // namespace bp::sdk

#endif
