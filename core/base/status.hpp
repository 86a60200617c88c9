// SPDX-License-Identifier: Apache-2.0
//
// Errors inside the core: a code from the ABI, words, and the operator that failed, where one did.
// A success carries nothing and costs one pointer compare: every function on the way of a call
// answers one. Words say what failed, what was expected, what was found and what to do next.
#ifndef BACKPLANE_CORE_BASE_STATUS_HPP
#define BACKPLANE_CORE_BASE_STATUS_HPP

#include <atomic>
#include <cassert>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "backplane/status.h"

namespace bp {

/// The code as its ABI name without the prefix: "OUT_OF_MEMORY". Unknown codes are "INTERNAL".
std::string_view status_name(bp_status code);
/// A code from foreign code: INTERNAL for one that this ABI does not have.
bp_status known_status(bp_status code);
/// What work can have failed with. Other codes tell of a wait, or of who asks.
bool can_fail_work(bp_status code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  /// The words become one line of clean UTF-8 (one_line()). Needs memory for them, and does without
  /// them where there is none.
  Status(bp_status code, std::string message) noexcept;
  Status(const Status& other) noexcept : error_(other.error_) {
    if (error_ != nullptr) [[unlikely]]
      error_->owners.fetch_add(1, std::memory_order_relaxed);
  }
  Status(Status&& other) noexcept : error_(std::exchange(other.error_, nullptr)) {}
  Status& operator=(Status other) noexcept {
    std::swap(error_, other.error_);
    return *this;
  }
  ~Status() {
    if (error_ != nullptr) [[unlikely]]
      let_go(error_);
  }

  bool ok() const { return error_ == nullptr; }
  bp_status code() const { return error_ != nullptr ? error_->code : BP_OK; }
  /// Empty on success.
  const std::string& message() const;
  /// "OUT_OF_MEMORY: words", or "OK".
  std::string to_string() const;
  /// The same code with words put in front: "loading m.onnx: ...". Not once more where they stand
  /// there: several layers name the operator.
  Status with_prefix(std::string_view prefix) const;
  /// The operator that failed; empty on success, and where the error is about none.
  const std::string& op() const;
  /// The same error, of that operator unless it has one: the innermost is the one that failed. The
  /// words stay. Without memory for it the error stays as it is.
  Status with_op(std::string_view name) const noexcept;

 private:
  struct Error {
    bp_status code;
    std::string message;
    std::string op = {};
    mutable std::atomic<uint64_t> owners{1};
  };
  static const Error* wordless(bp_status code) noexcept;
  static void let_go(const Error* error) noexcept;

  const Error* error_ = nullptr;  // shared: a sticky error is handed out many times
};

/// A value or the Status that explains why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) { assert(!status_.ok()); }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return std::move(*value_); }

 private:
  std::optional<T> value_;
  Status status_;
};

inline const Status& as_status(const Status& status) { return status; }
template <class T>
const Status& as_status(const Result<T>& result) {
  return result.status();
}

/// Lack of memory that a status names, where no status can be answered.
class NoMemory final : public std::bad_alloc {
 public:
  explicit NoMemory(Status status) : status_(std::move(status)) {}
  const Status& status() const noexcept { return status_; }
  const char* what() const noexcept override { return status_.message().c_str(); }

 private:
  Status status_;
};

/// For a catch block: what is being thrown as a status. Exhaustion of memory or threads is
/// OUT_OF_MEMORY, all else INTERNAL.
Status status_of_exception() noexcept;

/// What `body` answers (a Status or a Result; OK if it answers nothing), or what it throws as a
/// status: for destructors, threads and other places that no exception may leave.
template <class Body>
auto contain(Body&& body) noexcept {
  using Answer = decltype(body());
  using Outcome = std::conditional_t<std::is_void_v<Answer>, Status, Answer>;
  try {
    if constexpr (std::is_void_v<Answer>) {
      body();
      return Outcome();
    } else {
      return Outcome(body());
    }
  } catch (...) {
    return Outcome(status_of_exception());
  }
}

}  // namespace bp

/// Returns the error of a Status or Result expression from the enclosing function.
#define BP_TRY(expression)                    \
  do {                                        \
    const auto& bp_try_result = (expression); \
    if (!bp_try_result.ok()) [[unlikely]]     \
      return ::bp::as_status(bp_try_result);  \
  } while (false)

#define BP_TRY_JOIN2(a, b) a##b
#define BP_TRY_JOIN(a, b) BP_TRY_JOIN2(a, b)
/// `BP_TRY_ASSIGN(auto file, open(path));` - the value, or return the error.
#define BP_TRY_ASSIGN(declaration, expression)           \
  auto BP_TRY_JOIN(bp_try_, __LINE__) = (expression);    \
  if (!BP_TRY_JOIN(bp_try_, __LINE__).ok()) [[unlikely]] \
    return BP_TRY_JOIN(bp_try_, __LINE__).status();      \
  declaration = std::move(BP_TRY_JOIN(bp_try_, __LINE__)).value()

#endif
