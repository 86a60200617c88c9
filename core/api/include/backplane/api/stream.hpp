// SPDX-License-Identifier: Apache-2.0
//
// Streams of the C++ API. Included by backplane.hpp.
#ifndef BACKPLANE_API_STREAM_HPP
#define BACKPLANE_API_STREAM_HPP

#include <cstdint>
#include <memory>
#include <string>

#include "backplane/api/runtime.hpp"

namespace bp {
inline namespace api {
namespace detail {

struct StreamDeleter {
  void operator()(bpa_stream* stream) const { bpa_stream_release(stream); }
};

}  // namespace detail

class Tensor;

/// A queue of the vendor's own interface.
struct NativeStream {
  std::string kind;  // what `handle` is: "acme.queue"
  uint64_t handle = 0;
};

/// An ordered queue of one device, to be given to operators and runs. Copies are the same stream.
class Stream {
 public:
  /// None: the default stream of the inputs' device.
  Stream() = default;
  static Stream create(Device device) {
    bpa_stream* handle = nullptr;
    detail::check(bpa_stream_create(device.handle(), &handle));
    return Stream(handle);
  }
  static Stream default_of(Device device) {
    bpa_stream* handle = nullptr;
    detail::check(bpa_stream_get_default(device.handle(), &handle));
    return Stream(handle);
  }

  /// A stream over a queue of the application's: bpa_stream_wrap.
  static Stream wrap(Device device, const std::string& kind, uint64_t native) {
    bpa_stream* handle = nullptr;
    detail::check(bpa_stream_wrap(device.handle(), kind.c_str(), native, &handle));
    return Stream(handle);
  }

  bpa_stream* handle() const { return handle_.get(); }
  /// Waits for all work; its first failure is thrown.
  void sync() const { detail::check(bpa_stream_sync(handle_.get())); }
  /// True if nothing is left to do. Never waits.
  bool done() const {
    const bpa_status status = bpa_stream_query(handle_.get());
    if (status != BP_PENDING) detail::check(status);
    return status == BP_OK;
  }
  /// Ends a failure: waits for the rest, and begins anew. Not on a wrapped stream.
  void reset() const { detail::check(bpa_stream_reset(handle_.get())); }

  /// The vendor's queue behind the stream, until it is reset.
  NativeStream native() const {
    const char* kind = nullptr;
    NativeStream native;
    detail::check(bpa_stream_native_handle(handle_.get(), &kind, &native.handle));
    native.kind = kind;
    return native;
  }
  /// Round work that the application enqueues on the native queue itself: what comes from now on
  /// waits for the tensor; who uses the tensor from now on waits for what came. access:
  /// BPA_ACCESS_*_BIT.
  void acquire(const Tensor& tensor, uint32_t access) const;
  void release(const Tensor& tensor, uint32_t access) const;

 private:
  explicit Stream(bpa_stream* handle) : handle_(handle, detail::StreamDeleter()) {}
  std::shared_ptr<bpa_stream> handle_;
};

}  // namespace api
}  // namespace bp

#endif
