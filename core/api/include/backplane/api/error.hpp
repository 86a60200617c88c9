// SPDX-License-Identifier: Apache-2.0
//
// Errors of the C++ API and what its parts share. Included by backplane.hpp.
#ifndef BACKPLANE_API_ERROR_HPP
#define BACKPLANE_API_ERROR_HPP

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "backplane/backplane.h"

#if __cplusplus < 202002L
#error "Backplane's C++ API needs C++20: compile with -std=c++20 or later"
#endif

namespace bp {
inline namespace api {

/// The one exception type: what a bpa_ function answered, with its words.
class Error : public std::runtime_error {
 public:
  Error(bpa_status status, const std::string& message, std::string op = {})
      : std::runtime_error(std::string(bpa_status_name(status)) + ": " + message),
        status_(status),
        op_(std::make_shared<const std::string>(std::move(op))) {}
  /// BP_* of backplane/status.h.
  bpa_status status() const { return status_; }
  /// As bpa_last_error_op: "matmul"; empty where the error is about no operator.
  const std::string& op() const { return *op_; }

 private:
  bpa_status status_;
  std::shared_ptr<const std::string> op_;  // shared: copies of exceptions must not throw
};

/// Drops log lines above the level: 0 drops all; 1 shows errors, 2 also warnings, 3 also info,
/// 4 also debug. The sink is set by bpa_log_set_sink.
inline void set_log_level(uint32_t level);

namespace detail {

inline void check(bpa_status status) {
  if (status != BP_OK) throw Error(status, bpa_last_error(), bpa_last_error_op());
}

inline std::string text(bp_str value) {
  return value.ptr == nullptr ? std::string() : std::string(value.ptr, value.len);
}

template <class T>
inline constexpr uint32_t kDtypeOf = BP_DTYPE_NONE;
template <>
inline constexpr uint32_t kDtypeOf<float> = BP_DTYPE_F32;
template <>
inline constexpr uint32_t kDtypeOf<double> = BP_DTYPE_F64;
template <>
inline constexpr uint32_t kDtypeOf<int8_t> = BP_DTYPE_I8;
template <>
inline constexpr uint32_t kDtypeOf<int16_t> = BP_DTYPE_I16;
template <>
inline constexpr uint32_t kDtypeOf<int32_t> = BP_DTYPE_I32;
template <>
inline constexpr uint32_t kDtypeOf<int64_t> = BP_DTYPE_I64;
template <>
inline constexpr uint32_t kDtypeOf<uint8_t> = BP_DTYPE_U8;
template <>
inline constexpr uint32_t kDtypeOf<uint16_t> = BP_DTYPE_U16;
template <>
inline constexpr uint32_t kDtypeOf<uint32_t> = BP_DTYPE_U32;
template <>
inline constexpr uint32_t kDtypeOf<uint64_t> = BP_DTYPE_U64;
template <>
inline constexpr uint32_t kDtypeOf<bool> = BP_DTYPE_BOOL;

/// The dtype code of a C++ type.
template <class T>
constexpr uint32_t dtype_of() {
  static_assert(kDtypeOf<std::remove_const_t<T>> != BP_DTYPE_NONE, "no dtype for this type");
  return kDtypeOf<std::remove_const_t<T>>;
}

}  // namespace detail

inline void set_log_level(uint32_t level) { detail::check(bpa_log_set_level(level)); }

}  // namespace api
}  // namespace bp

#endif
