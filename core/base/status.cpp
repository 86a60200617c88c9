// SPDX-License-Identifier: Apache-2.0
//
// Names of status codes and the out-of-line half of Status.
#include "core/base/status.hpp"

#include <cstddef>
#include <exception>
#include <new>
#include <system_error>

#include "core/base/foreign_text.hpp"

namespace bp {
namespace {

const std::string& no_text() {
  static const std::string empty;
  return empty;
}

}  // namespace

bp_status known_status(bp_status code) {
  return code >= BP_OK && code <= BP_INTERNAL ? code : BP_INTERNAL;
}

bool can_fail_work(bp_status code) {
  return code != BP_OK && code != BP_PENDING && code != BP_TIMEOUT && code != BP_GONE &&
         code != BP_FORKED;
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

Status::Status(bp_status code, std::string message) noexcept {
  if (code == BP_OK) return;
  code = known_status(code);
  try {
    error_ = new Error{code, one_line(std::move(message))};
  } catch (const std::bad_alloc&) {
    error_ = wordless(code);
  }
}

const Status::Error* Status::wordless(bp_status code) noexcept {
  // Made in place, of words so short that they need no heap, and never destroyed: each has an owner
  // here for ever.
  struct Spares {
    alignas(Error) std::byte memory[BP_INTERNAL + 1][sizeof(Error)];
    Spares() {
      for (bp_status i = BP_OK; i <= BP_INTERNAL; ++i) new (memory[i]) Error{i, "no host memory"};
    }
  };
  static const Spares kSpares;
  const auto* error = reinterpret_cast<const Error*>(kSpares.memory[code]);
  error = std::launder(error);
  error->owners.fetch_add(1, std::memory_order_relaxed);
  return error;
}

void Status::let_go(const Error* error) noexcept {
  if (error->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete error;
}

Status status_of_exception() noexcept {
  // None of the first three takes a heap.
  try {
    throw;
  } catch (const NoMemory& named) {
    return named.status();
  } catch (const std::bad_alloc&) {
    return Status(BP_OUT_OF_MEMORY, "no host memory");
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again) {
      return Status(BP_OUT_OF_MEMORY, "no more threads");
    }
    return contain([&] { return Status(BP_INTERNAL, error.what()); });
  } catch (const std::exception& error) {
    return contain([&] { return Status(BP_INTERNAL, error.what()); });
  } catch (...) {
    return Status(BP_INTERNAL, "unknown error");
  }
}

const std::string& Status::message() const { return ok() ? no_text() : error_->message; }

const std::string& Status::op() const { return ok() ? no_text() : error_->op; }

std::string Status::to_string() const {
  if (ok()) return "OK";
  return std::string(status_name(code())) + ": " + error_->message;
}

Status Status::with_prefix(std::string_view prefix) const {
  if (ok()) return *this;
  const std::string front = std::string(prefix) + ": ";
  if (error_->message.starts_with(front)) return *this;
  return Status(code(), front + error_->message).with_op(error_->op);
}

Status Status::with_op(std::string_view name) const noexcept {
  if (ok() || name.empty() || !error_->op.empty()) return *this;
  Status named;
  try {
    named.error_ = new Error{error_->code, error_->message, std::string(name)};
  } catch (const std::bad_alloc&) {
    return *this;
  }
  return named;
}

}  // namespace bp
