// SPDX-License-Identifier: Apache-2.0
//
// Texts, and the services that the core lends an instance, with defaults for what an older core
// lacks.
#ifndef BACKPLANE_SDK_HOST_HPP
#define BACKPLANE_SDK_HOST_HPP

#include <cstddef>
#include <string_view>
#include <type_traits>

#include "backplane/host.h"

/// True if the versioned struct behind `ptr`, as its allocator sized it, has `member`.
#define BP_SDK_HAS(ptr, member) \
  ((ptr)->struct_size >=        \
   offsetof(std::remove_reference_t<decltype(*(ptr))>, member) + sizeof((ptr)->member))

namespace bp::sdk {

constexpr bp_str str(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view view(bp_str text) {
  return {text.ptr, text.ptr ? static_cast<size_t>(text.len) : 0};
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

}  // namespace bp::sdk

#endif
