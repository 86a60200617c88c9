// SPDX-License-Identifier: Apache-2.0
//
// TensorProto values in every form, and every way in which they can disagree with their sizes.
#include "ops/onnx/tensor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/temp_folder_test.hpp"
#include "ops/onnx/onnx_bytes_test.hpp"

namespace bp {
namespace {

using namespace testing_onnx;
using onnx::dtype_from_onnx;
using testing::ElementsAre;
using testing::HasSubstr;

Result<HostTensor> read(const Message& message) {
  const auto owner = std::make_shared<const std::string>(message.bytes());
  const auto proto = onnx::parse_tensor(std::as_bytes(std::span(*owner)));
  if (!proto.ok()) return proto.status();
  return onnx::tensor_values(*proto, {owner});
}

std::string words(const Message& message) { return read(message).status().message(); }

Message packed(std::string_view name, const std::vector<int64_t>& dims, int type, uint32_t field,
               const std::vector<int64_t>& values) {
  Message list;
  for (int64_t value : values) list.raw_varint(static_cast<uint64_t>(value));
  return tensor_header(name, dims, type).text(field, list.bytes());
}

TEST(TensorValues, Raw_Read) {
  const auto tensor = read(floats("w", {2, 2}, {1, 2, 3, 4}));
  ASSERT_TRUE(tensor.ok()) << tensor.status().to_string();
  EXPECT_EQ(tensor->dtype, BP_DTYPE_F32);
  EXPECT_EQ(tensor->sizes, (Dims{2, 2}));
  EXPECT_THAT(values_of<float>(*tensor), ElementsAre(1, 2, 3, 4));
}

TEST(TensorValues, ScalarAndEmpty_Read) {
  const auto scalar = read(floats("w", {}, {5}));
  ASSERT_TRUE(scalar.ok());
  EXPECT_EQ(scalar->sizes.size(), 0u);
  EXPECT_THAT(values_of<float>(*scalar), ElementsAre(5));
  const auto empty = read(tensor_header("w", {0, 3}, kFloatType));
  ASSERT_TRUE(empty.ok()) << empty.status().to_string();
  EXPECT_EQ(empty->bytes, 0u);
}

TEST(TensorValues, Lists_ReadIntoTheirDtype) {
  EXPECT_THAT(values_of<int32_t>(*read(packed("w", {2}, kInt32Type, 5, {-7, 8}))),
              ElementsAre(-7, 8));
  EXPECT_THAT(values_of<int64_t>(*read(packed("w", {2}, kInt64Type, 7, {-1, INT64_MAX}))),
              ElementsAre(-1, INT64_MAX));
  EXPECT_THAT(values_of<uint8_t>(*read(packed("w", {2}, kUint8Type, 5, {0, 255}))),
              ElementsAre(0, 255));
  EXPECT_THAT(values_of<int8_t>(*read(packed("w", {2}, 3, 5, {-128, 127}))),
              ElementsAre(-128, 127));
  EXPECT_THAT(values_of<uint8_t>(*read(packed("w", {2}, kBoolType, 5, {1, 0}))), ElementsAre(1, 0));
  EXPECT_THAT(values_of<uint16_t>(*read(packed("w", {1}, 10, 5, {0x3c00}))), ElementsAre(0x3c00));
  EXPECT_THAT(values_of<uint32_t>(*read(packed("w", {1}, 12, 11, {4294967295}))),
              ElementsAre(4294967295u));
  EXPECT_THAT(values_of<float>(
                  *read(tensor_header("w", {2}, kFloatType).text(4, bytes_of<float>({1.5f, -2})))),
              ElementsAre(1.5f, -2));
  EXPECT_THAT(values_of<double>(
                  *read(tensor_header("w", {1}, kDoubleType).text(10, bytes_of<double>({0.1})))),
              ElementsAre(0.1));
  EXPECT_THAT(values_of<float>(*read(tensor_header("w", {1}, 14).text(4, bytes_of<float>({1, 2})))),
              ElementsAre(1, 2));
}

TEST(TensorValues, UnpackedList_Read) {
  const Message single = tensor_header("w", {2}, kFloatType).f32(4, 1).f32(4, 2);
  EXPECT_THAT(values_of<float>(*read(single)), ElementsAre(1, 2));
}

TEST(TensorValues, ValuesOutOfRange_Named) {
  EXPECT_EQ(words(packed("w", {1}, kUint8Type, 5, {256})), "tensor 'w': value 256 does not fit u8");
  EXPECT_EQ(words(packed("w", {1}, kUint8Type, 5, {-1})), "tensor 'w': value -1 does not fit u8");
  EXPECT_EQ(words(packed("w", {1}, 3, 5, {128})), "tensor 'w': value 128 does not fit i8");
  EXPECT_EQ(words(packed("w", {1}, kInt32Type, 5, {int64_t{1} << 31})),
            "tensor 'w': value 2147483648 does not fit i32");
  EXPECT_EQ(words(packed("w", {1}, kBoolType, 5, {2})), "tensor 'w': value 2 does not fit bool");
  EXPECT_EQ(words(tensor("w", {3}, kBoolType, std::string("\x01\x00\x02", 3))),
            "tensor 'w': element 2 of dtype bool: expected 0 or 1, found 2");
}

TEST(TensorValues, CountsDiffer_Named) {
  EXPECT_EQ(words(packed("w", {3}, kInt64Type, 7, {1, 2})),
            "tensor 'w': sizes [3] of i64 need 3 values, found 2");
  EXPECT_EQ(words(tensor_header("w", {3}, kFloatType)),
            "tensor 'w': sizes [3] of f32 need 3 values, found 0");
  EXPECT_EQ(words(tensor("w", {2}, kFloatType, "abcdefghi")),
            "tensor 'w': sizes [2] of f32 need 8 bytes, found 9");
  EXPECT_THAT(words(tensor_header("w", {2}, kFloatType).text(4, "abcdefghi")),
              HasSubstr("truncated: expected 4 more bytes, found 1"));
}

TEST(TensorValues, HugeClaim_RefusedBeforeAllocation) {
  EXPECT_EQ(words(packed("w", {int64_t{1} << 40}, kInt64Type, 7, {1})),
            "tensor 'w': sizes [1099511627776] of i64 need 1099511627776 values, found 1");
}

TEST(TensorValues, ValuesInWrongField_Named) {
  EXPECT_EQ(words(packed("w", {1}, kInt64Type, 5, {1})),
            "tensor 'w': values in field 5, expected them in field 7");
  EXPECT_EQ(words(floats("w", {1}, {1}).f32(4, 1)),
            "tensor 'w': values in field 4, expected them in raw_data only");
}

TEST(TensorValues, ExternalDataWithoutAFolder_Unsupported) {
  Message external = tensor_header("w", {1}, kFloatType);
  external.message(13, Message().text(1, "location").text(2, "w.bin")).varint(14, 1);
  EXPECT_EQ(read(external).status().code(), BP_UNSUPPORTED);
  EXPECT_EQ(read(external).status().message(),
            "tensor 'w': its values are in another file (external data), and a model in memory has "
            "no folder");
}

TEST(TensorValues, RankOver16_Unsupported) {
  const auto tensor = read(floats("w", std::vector<int64_t>(17, 1), {1}));
  EXPECT_EQ(tensor.status().code(), BP_UNSUPPORTED);
  EXPECT_EQ(tensor.status().message(), "tensor 'w': rank 17: expected at most 16");
}

TEST(TensorValues, Segment_Refused) {
  EXPECT_THAT(words(floats("w", {1}, {1}).message(3, Message())), HasSubstr("TensorProto at byte"));
}

TEST(DtypeFromOnnx, KnownAndUnknown) {
  EXPECT_EQ(*dtype_from_onnx(1), BP_DTYPE_F32);
  EXPECT_EQ(*dtype_from_onnx(16), BP_DTYPE_BF16);
  EXPECT_EQ(*dtype_from_onnx(20), BP_DTYPE_F8E5M2FNUZ);
  EXPECT_EQ(*dtype_from_onnx(22), BP_DTYPE_I4);
  EXPECT_EQ(dtype_from_onnx(0).status().code(), BP_INVALID_ARGUMENT) << "UNDEFINED";
  for (int32_t code : {-1, 8, 23, 28, 29, INT32_MAX, INT32_MIN}) {
    EXPECT_EQ(dtype_from_onnx(code).status().code(), BP_UNSUPPORTED) << code;
  }
  EXPECT_EQ(dtype_from_onnx(23).status().message(), "dtype FLOAT4E2M1 is not supported");
}

TEST(LoadTensorProto, File_Read) {
  const TempFolder folder;
  const auto tensor = load_tensor_proto(folder.write("w.pb", floats("w", {2}, {1, 2}).bytes()));
  ASSERT_TRUE(tensor.ok()) << tensor.status().to_string();
  EXPECT_THAT(values_of<float>(*tensor), ElementsAre(1, 2));
}

TEST(LoadTensorProto, BadFile_Named) {
  const TempFolder folder;
  const std::string bytes = floats("w", {2}, {1, 2}).bytes();
  const auto cut = load_tensor_proto(folder.write("cut.pb", bytes.substr(0, bytes.size() - 1)));
  EXPECT_EQ(cut.status().code(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(cut.status().message(), HasSubstr("cut.pb: not a valid ONNX file: TensorProto"));
  const auto text = load_tensor_proto(folder.write("text.pb", "hello world"));
  EXPECT_THAT(text.status().message(), HasSubstr("text.pb: not a valid ONNX file"));
}

}  // namespace
}  // namespace bp
