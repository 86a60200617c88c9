// SPDX-License-Identifier: Apache-2.0
//
// Decoding of keys, varints and lengths; see https://protobuf.dev/programming-guides/encoding.
#include "ops/onnx/wire.hpp"

#include "core/base/utf8.hpp"

namespace bp::onnx {

Status WireReader::error(const std::string& problem) const {
  return Status(BP_INVALID_ARGUMENT, "not a valid ONNX file: " + std::string(message_) +
                                         " at byte " + std::to_string(rest_.data() - file_.data()) +
                                         ": " + problem);
}

Result<uint64_t> WireReader::varint() {
  uint64_t value = 0;
  for (uint32_t shift = 0; shift < 64; shift += 7) {
    if (rest_.empty()) return error("truncated: the bytes end inside a number");
    const auto byte = std::to_integer<uint64_t>(rest_.front());
    if (shift == 63 && byte > 1) break;  // the tenth byte holds bit 63 only
    rest_ = rest_.subspan(1);
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return error("a number is longer than 64 bits");
}

Result<std::span<const std::byte>> WireReader::take(uint64_t count) {
  if (count > rest_.size()) {
    return error("truncated: expected " + std::to_string(count) + " more bytes, found " +
                 std::to_string(rest_.size()));
  }
  const auto taken = rest_.first(count);
  rest_ = rest_.subspan(count);
  return taken;
}

Result<uint64_t> WireReader::number(WireType type) {
  if (type == WireType::kVarint) return varint();
  BP_TRY_ASSIGN(const auto bytes, take(type == WireType::kFixed32 ? 4 : 8));
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    value |= std::to_integer<uint64_t>(bytes[i]) << (8 * i);
  }
  return value;
}

Result<bool> WireReader::next(WireField* out_field) {
  if (rest_.empty()) return false;
  BP_TRY_ASSIGN(const uint64_t key, varint());
  const uint64_t number_in_key = key >> 3;
  if (number_in_key == 0 || number_in_key >= uint64_t{1} << 29) {
    return error("field number " + std::to_string(number_in_key) + " is out of range");
  }
  *out_field = {static_cast<uint32_t>(number_in_key), static_cast<WireType>(key & 7), 0, {}};
  switch (out_field->type) {
    case WireType::kBytes: {
      BP_TRY_ASSIGN(const uint64_t length, varint());
      BP_TRY_ASSIGN(out_field->bytes, take(length));
      return true;
    }
    case WireType::kVarint:
    case WireType::kFixed32:
    case WireType::kFixed64: {
      BP_TRY_ASSIGN(out_field->value, number(out_field->type));
      return true;
    }
  }
  return error("field " + std::to_string(number_in_key) + " has wire type " +
               std::to_string(key & 7) + ", which ONNX never uses");
}

Status WireReader::expect(const WireField& field, WireType type) const {
  if (field.type == type) return {};
  return error("field " + std::to_string(field.number) + " has wire type " +
               std::to_string(static_cast<uint32_t>(field.type)) + ", expected " +
               std::to_string(static_cast<uint32_t>(type)));
}

Status WireReader::elements(const WireField& field, WireType type,
                            const std::function<Status(uint64_t bits)>& on_bits) const {
  if (field.type == type) return on_bits(field.value);
  BP_TRY_ASSIGN(WireReader list, nested(field));
  while (!list.rest_.empty()) {
    BP_TRY_ASSIGN(const uint64_t bits, list.number(type));
    BP_TRY(on_bits(bits));
  }
  return {};
}

Result<WireReader> WireReader::nested(const WireField& field) const {
  BP_TRY(expect(field, WireType::kBytes));
  WireReader reader = *this;
  reader.rest_ = field.bytes;
  return reader;
}

Result<std::string_view> WireReader::text(const WireField& field) const {
  BP_TRY(expect(field, WireType::kBytes));
  const std::string_view text(reinterpret_cast<const char*>(field.bytes.data()),
                              field.bytes.size());
  if (!is_utf8(text)) {
    return error("the text in field " + std::to_string(field.number) + " is not valid UTF-8");
  }
  // It could not be given or asked for through the C API, whose texts end there.
  if (text.find('\0') != std::string_view::npos) {
    return error("the text in field " + std::to_string(field.number) + " has a NUL character");
  }
  return text;
}

}  // namespace bp::onnx
