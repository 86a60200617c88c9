// SPDX-License-Identifier: Apache-2.0
//
// Names of status codes and the out-of-line half of Status.
#include "core/base/status.hpp"

namespace bp {

bp_status known_status(bp_status code) {
  return code >= BP_OK && code <= BP_INTERNAL ? code : BP_INTERNAL;
}

std::string_view status_name(bp_status code) {
  switch (code) {
    case BP_OK:
      return "OK";
    case BP_INVALID_ARGUMENT:
      return "INVALID_ARGUMENT";
    case BP_UNSUPPORTED:
      return "UNSUPPORTED";
    case BP_UNAVAILABLE:
      return "UNAVAILABLE";
    case BP_OUT_OF_MEMORY:
      return "OUT_OF_MEMORY";
    case BP_PENDING:
      return "PENDING";
    case BP_TIMEOUT:
      return "TIMEOUT";
    case BP_CANCELLED:
      return "CANCELLED";
    case BP_BUSY:
      return "BUSY";
    case BP_POISONED:
      return "POISONED";
    case BP_DEVICE_LOST:
      return "DEVICE_LOST";
    case BP_GONE:
      return "GONE";
    case BP_FORKED:
      return "FORKED";
    case BP_INCOMPATIBLE:
      return "INCOMPATIBLE";
    default:
      return "INTERNAL";
  }
}

Status::Status(bp_status code, std::string message) {
  if (code == BP_OK) return;
  if (code < BP_OK || code > BP_INTERNAL) code = BP_INTERNAL;  // the ABI's rule for unknown codes
  error_ = std::make_shared<const Error>(Error{code, std::move(message)});
}

const std::string& Status::message() const {
  static const std::string empty;
  return error_ ? error_->message : empty;
}

std::string Status::to_string() const {
  if (ok()) return "OK";
  return std::string(status_name(code())) + ": " + error_->message;
}

Status Status::with_prefix(std::string_view prefix) const {
  if (ok()) return *this;
  return Status(code(), std::string(prefix) + ": " + error_->message);
}

}  // namespace bp
