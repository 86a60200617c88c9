// SPDX-License-Identifier: Apache-2.0
//
// Inside core/api: from opaque handles to the core's objects and back, argument checks, and the
// last error of each thread.
#ifndef BACKPLANE_CORE_API_HANDLES_HPP
#define BACKPLANE_CORE_API_HANDLES_HPP

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backplane/backplane.h"
#include "core/base/fork.hpp"
#include "core/base/status.hpp"
#include "core/execute/session.hpp"
#include "core/runtime/runtime.hpp"
#include "core/runtime/tensor.hpp"

/// A session with its C view of inputs and outputs, made once.
struct bpa_session {
  bp::Ref<bp::Session> session;
  std::vector<std::vector<const char*>> input_dim_names;
  std::vector<std::vector<const char*>> output_dim_names;
};

namespace bp {

inline Runtime* from_handle(bpa_runtime* handle) { return reinterpret_cast<Runtime*>(handle); }
inline Device* from_handle(bpa_device* handle) { return reinterpret_cast<Device*>(handle); }
inline Tensor* from_handle(bpa_tensor* handle) { return reinterpret_cast<Tensor*>(handle); }
inline bpa_runtime* to_handle(Runtime* object) { return reinterpret_cast<bpa_runtime*>(object); }
inline bpa_device* to_handle(Device* object) { return reinterpret_cast<bpa_device*>(object); }
/// Gives this owner to the caller of the API.
inline bpa_tensor* to_handle(Ref<Tensor> tensor) {
  return reinterpret_cast<bpa_tensor*>(tensor.detach());
}

/// Keeps the words for bpa_last_error and answers the code.
bpa_status set_last_error(const Status& status);

inline Status check_pointer(const void* pointer, std::string_view name) {
  if (pointer != nullptr) return {};
  return Status(BP_INVALID_ARGUMENT, "argument " + std::string(name) + " is NULL");
}

/// The caller's versioned struct as this library knows it: members beyond its size are zero.
template <class T>
Result<T> read_struct(const T* given, std::string_view name) {
  T copy{};
  if (given == nullptr) return copy;
  if (given->struct_size < 8) {
    return Status(BP_INVALID_ARGUMENT, "argument " + std::string(name) + ": struct_size is " +
                                           std::to_string(given->struct_size) +
                                           ", expected sizeof of the struct");
  }
  std::memcpy(&copy, given, std::min<size_t>(given->struct_size, sizeof(T)));
  if (copy.flags != 0) {
    return Status(BP_UNSUPPORTED, "argument " + std::string(name) + ": flags " +
                                      std::to_string(copy.flags) + " are not known, expected 0");
  }
  return copy;
}

/// Fills the caller's struct, never past its size.
template <class T>
Status write_struct(T* out, T value, std::string_view name) {
  BP_TRY(check_pointer(out, name));
  if (out->struct_size < 8) {
    return Status(BP_INVALID_ARGUMENT, "argument " + std::string(name) + ": struct_size is " +
                                           std::to_string(out->struct_size) +
                                           ", expected sizeof of the struct");
  }
  value.struct_size = out->struct_size;
  std::memcpy(out, &value, std::min<size_t>(out->struct_size, sizeof(T)));
  return {};
}

/// Runs the body of an API function; nothing it throws leaves the library. In a forked child the
/// body is not run.
template <class Body>
bpa_status guarded(Body&& body) noexcept {
  try {
    if (forked()) [[unlikely]]
      return set_last_error(check_not_forked());
    const Status status = body();
    return status.ok() ? BP_OK : set_last_error(status);
  } catch (const std::bad_alloc&) {
    return set_last_error(Status(BP_OUT_OF_MEMORY, "host memory is exhausted"));
  } catch (const std::exception& error) {
    return set_last_error(Status(BP_INTERNAL, error.what()));
  }
}

/// The same for a function that answers by `out_values`, which are 0 unless the body sets them.
template <class Out, class Body>
bpa_status guarded(Out* out_values, uint64_t count, Body&& body) noexcept {
  if (out_values != nullptr) std::fill_n(out_values, count, Out{});
  return guarded(std::forward<Body>(body));
}

}  // namespace bp

#endif
