// SPDX-License-Identifier: Apache-2.0
//
// The protobuf wire format, read in place. No protobuf library: two versions of it in one process
// clash, and it copies every weight. Every length is checked against what is left before it is
// used; nothing here allocates and nothing recurses, so foreign bytes cannot exhaust either.
#ifndef BACKPLANE_OPS_ONNX_WIRE_HPP
#define BACKPLANE_OPS_ONNX_WIRE_HPP

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/status.hpp"

namespace bp::onnx {

enum class WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

/// One field of a message. `bytes` points into the input.
struct WireField {
  uint32_t number = 0;
  WireType type = WireType::kVarint;
  uint64_t value = 0;                // all types but kBytes
  std::span<const std::byte> bytes;  // kBytes
};

/// Walks the fields of one message. Errors are INVALID_ARGUMENT with message and file position.
class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> file) : rest_(file), file_(file) {}

  /// Names the message in errors.
  void set_message(std::string_view message) { message_ = message; }

  /// The next field, or false at the end. Errors: a truncated field, a varint over 64 bits, a field
  /// number or a wire type that ONNX never uses.
  Result<bool> next(WireField* out_field);
  /// Calls `on_bits` with the elements of a repeated number of `type`, packed or one by one: floats
  /// as their bits, integers sign-extended. Returns the first error.
  Status elements(const WireField& field, WireType type,
                  const std::function<Status(uint64_t bits)>& on_bits) const;
  std::span<const std::byte> rest() const { return rest_; }

  /// The content of a kBytes field: a message, a text. Errors: another wire type, invalid UTF-8,
  /// a NUL in a text.
  Result<WireReader> nested(const WireField& field) const;
  Result<std::string_view> text(const WireField& field) const;
  Status expect(const WireField& field, WireType type) const;
  Status error(const std::string& problem) const;

 private:
  Result<uint64_t> varint();
  Result<uint64_t> number(WireType type);  // not kBytes
  Result<std::span<const std::byte>> take(uint64_t count);

  std::span<const std::byte> rest_;
  std::span<const std::byte> file_;
  std::string_view message_ = "message";
};

}  // namespace bp::onnx

#endif
