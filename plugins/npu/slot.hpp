// SPDX-License-Identifier: Apache-2.0
//
// How each slot of this plugin begins: pointers are checked, argument structs are read as far as
// the caller's version of them reaches, and nothing that the body throws crosses the ABI.
#ifndef BACKPLANE_PLUGINS_NPU_SLOT_HPP
#define BACKPLANE_PLUGINS_NPU_SLOT_HPP

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <sstream>
#include <string_view>

#include "backplane/sdk/sdk.hpp"

namespace bp::npu {

using sdk::Failure;

/// Ends a slot, or breaks a stream, with words: refuse("expected ", 3, ", found ", n).
template <class... Parts>
[[noreturn]] void fail(bp_status status, const Parts&... parts) {
  throw Failure{status, (std::ostringstream() << ... << parts).str()};
}
template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  fail(BP_INVALID_ARGUMENT, parts...);
}

/// A copy of a versioned struct that the core allocated: members beyond its struct_size are zero,
/// which means what a core that doesn't know them would do.
template <class Args>
Args read_args(const Args* args) {
  Args copy{};
  std::memcpy(&copy, args, std::min<size_t>(args->struct_size, sizeof(Args)));
  return copy;
}

/// Runs the body of slot `name`. `object` is its first argument; `pointers` are the others that
/// must not be NULL. The body throws Failure, or answers with a status, or has succeeded.
template <class Object, class Body>
bp_status slot(std::string_view name, const Object* object,
               std::initializer_list<const void*> pointers, Body&& body) noexcept {
  if (object == nullptr) return BP_INVALID_ARGUMENT;  // Without an object there is no host to tell.
  return sdk::guard(object->host(), [&]() -> bp_status {
    if (std::find(pointers.begin(), pointers.end(), nullptr) != pointers.end()) {
      refuse(name, ": an argument is NULL");
    }
    if constexpr (!std::is_void_v<decltype(body())>) return body();
    body();
    return BP_OK;
  });
}

}  // namespace bp::npu

#endif
