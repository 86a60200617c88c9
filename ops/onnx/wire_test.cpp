// SPDX-License-Identifier: Apache-2.0
//
// The wire format: what is read, and every way in which foreign bytes can be wrong.
#include "ops/onnx/wire.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/utf8.hpp"

namespace bp::onnx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::span<const std::byte> bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

Status first_error(const std::string& text) {
  WireReader reader(bytes(text));
  WireField field;
  while (true) {
    const auto more = reader.next(&field);
    if (!more.ok()) return more.status();
    if (!*more) return {};
  }
}

TEST(WireReader, AllWireTypes_Read) {
  const std::string text(
      "\x08\x96\x01\x12\x02hi\x1d\x01\x00\x00\x80\x21\x02\x00\x00\x00\x00\x00\x00\x01", 21);
  WireReader reader(bytes(text));
  WireField field;
  ASSERT_TRUE(*reader.next(&field));
  EXPECT_EQ(field.number, 1u);
  EXPECT_EQ(field.value, 150u);
  ASSERT_TRUE(*reader.next(&field));
  EXPECT_EQ(field.number, 2u);
  EXPECT_EQ(*reader.text(field), "hi");
  ASSERT_TRUE(*reader.next(&field));
  EXPECT_EQ(field.type, WireType::kFixed32);
  EXPECT_EQ(field.value, 0x80000001u);
  ASSERT_TRUE(*reader.next(&field));
  EXPECT_EQ(field.type, WireType::kFixed64);
  EXPECT_EQ(field.value, 0x0100000000000002u);
  EXPECT_FALSE(*reader.next(&field));
}

TEST(WireReader, LargestVarint_Read) {
  const std::string text = "\x08" + std::string(9, '\xff') + "\x01";
  WireReader reader(bytes(text));
  WireField field;
  ASSERT_TRUE(*reader.next(&field));
  EXPECT_EQ(field.value, UINT64_MAX);
}

TEST(WireReader, BrokenBytes_NamedWithPosition) {
  const struct {
    std::string text;
    const char* words;
  } cases[] = {
      {"\x08", "at byte 1: truncated: the bytes end inside a number"},
      {"\x08\x80", "truncated: the bytes end inside a number"},
      {"\x80", "truncated: the bytes end inside a number"},
      {"\x08" + std::string(9, '\xff') + "\x02", "a number is longer than 64 bits"},
      {"\x08" + std::string(11, '\x80'), "a number is longer than 64 bits"},
      {"\x12\x05"
       "abc",
       "truncated: expected 5 more bytes, found 3"},
      {"\x12" + std::string(9, '\xff') + "\x01" + "abc", "expected 18446744073709551615 more"},
      {"\x0d"
       "abc",
       "truncated: expected 4 more bytes, found 3"},
      {"\x09"
       "abcdefg",
       "truncated: expected 8 more bytes, found 7"},
      {std::string(1, '\0'), "field number 0 is out of range"},
      {"\x80\x80\x80\x80\x10\x01", "is out of range"},
      {"\x0b", "field 1 has wire type 3, which ONNX never uses"},
      {"\x0c", "field 1 has wire type 4, which ONNX never uses"},
      {"\x0f", "field 1 has wire type 7, which ONNX never uses"},
  };
  for (const auto& each : cases) {
    const Status status = first_error(each.text);
    EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT) << each.words;
    EXPECT_THAT(status.message(), HasSubstr(each.words));
    EXPECT_THAT(status.message(), HasSubstr("not a valid ONNX file"));
  }
}

TEST(WireReader, WrongWireType_Named) {
  const std::string text = "\x08\x01";
  WireReader reader(bytes(text));
  WireField field;
  ASSERT_TRUE(*reader.next(&field));
  EXPECT_THAT(reader.text(field).status().message(),
              HasSubstr("field 1 has wire type 0, expected 2"));
  EXPECT_FALSE(reader.nested(field).ok());
}

TEST(WireReader, Elements_PackedAndSingle_Same) {
  const std::string text("\x0a\x03\x01\x96\x01\x08\x07", 7);
  WireReader reader(bytes(text));
  WireField field;
  std::vector<uint64_t> found;
  const auto collect = [&](uint64_t value) {
    found.push_back(value);
    return Status();
  };
  while (*reader.next(&field)) {
    ASSERT_TRUE(reader.elements(field, WireType::kVarint, collect).ok());
  }
  EXPECT_THAT(found, ElementsAre(1u, 150u, 7u));
}

TEST(WireReader, Elements_PackedFloatsOfOddLength_Truncated) {
  const std::string text(
      "\x0a\x05"
      "abcde",
      7);
  WireReader reader(bytes(text));
  WireField field;
  ASSERT_TRUE(*reader.next(&field));
  const Status status =
      reader.elements(field, WireType::kFixed32, [](uint64_t) { return Status(); });
  EXPECT_THAT(status.message(), HasSubstr("expected 4 more bytes, found 1"));
}

TEST(WireReader, TextNotUtf8_Named) {
  const std::string text = "\x0a\x02\xc0\x80";
  WireReader reader(bytes(text));
  WireField field;
  ASSERT_TRUE(*reader.next(&field));
  EXPECT_THAT(reader.text(field).status().message(),
              HasSubstr("the text in field 1 is not valid UTF-8"));
}

TEST(WireReader, TextWithNul_Named) {
  const std::string text("\x0a\x03x\0y", 5);
  WireReader reader(bytes(text));
  WireField field;
  ASSERT_TRUE(*reader.next(&field));
  EXPECT_THAT(reader.text(field).status().message(),
              HasSubstr("the text in field 1 has a NUL character"));
}

}  // namespace
}  // namespace bp::onnx
