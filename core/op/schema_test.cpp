// SPDX-License-Identifier: Apache-2.0
//
// The registry and the checks around inference, with operators made here.
#include "core/op/schema.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace bp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct CopyAttributes {
  uint32_t struct_size;
  uint32_t flags;
  int64_t repeat;
  int64_t to;
};

constexpr TypeVar kTypeVars[] = {
    {"T", BP_DTYPE_BIT(BP_DTYPE_F16) | BP_DTYPE_BIT(BP_DTYPE_F32)},
};
constexpr ArgSchema kInputs[] = {
    {.name = "x",
     .id = 1,
     .since = 1,
     .type_var = 0,
     .fixed_dtype = BP_DTYPE_NONE,
     .type_attr = -1,
     .optional = false,
     .variadic = false,
     .host = HostNeed::kNone},
    {.name = "n",
     .id = 2,
     .since = 1,
     .type_var = -1,
     .fixed_dtype = BP_DTYPE_I64,
     .type_attr = -1,
     .optional = false,
     .variadic = false,
     .host = HostNeed::kInfer},
    {.name = "b",
     .id = 3,
     .since = 1,
     .type_var = 0,
     .fixed_dtype = BP_DTYPE_NONE,
     .type_attr = -1,
     .optional = true,
     .variadic = false,
     .host = HostNeed::kNone},
};
constexpr ArgSchema kVariadicInputs[] = {
    {.name = "parts",
     .id = 1,
     .since = 1,
     .type_var = 0,
     .fixed_dtype = BP_DTYPE_NONE,
     .type_attr = -1,
     .optional = false,
     .variadic = true,
     .host = HostNeed::kNone},
};
constexpr ArgSchema kOutputs[] = {
    {.name = "y",
     .id = 1,
     .since = 1,
     .type_var = 0,
     .fixed_dtype = BP_DTYPE_NONE,
     .type_attr = -1,
     .optional = false,
     .variadic = false,
     .host = HostNeed::kNone},
    {.name = "z",
     .id = 2,
     .since = 1,
     .type_var = -1,
     .fixed_dtype = BP_DTYPE_NONE,
     .type_attr = 1,
     .optional = false,
     .variadic = false,
     .host = HostNeed::kNone},
};
constexpr AttrField kAttrs[] = {
    {.name = "repeat",
     .id = 1,
     .since = 1,
     .type = AttrType::kI64,
     .offset_bytes = offsetof(CopyAttributes, repeat),
     .required = false,
     .default_i64 = 2},
    {.name = "to",
     .id = 2,
     .since = 1,
     .type = AttrType::kDtype,
     .offset_bytes = offsetof(CopyAttributes, to),
     .required = true},
};

/// y has x's sizes with the attribute in front; z is like x.
Status infer_copy(const InferContext& context, std::span<TensorType> out_types) {
  const auto& attributes = *static_cast<const CopyAttributes*>(context.attributes);
  out_types[0].sizes.push_back(attributes.repeat);
  for (int64_t size : context.inputs[0].sizes) out_types[0].sizes.push_back(size);
  if (out_types.size() > 1) out_types[1].sizes = context.inputs[0].sizes;
  return {};
}

OpSchema copy_schema() {
  OpSchema schema{};
  schema.name = "copy";
  schema.id = 40;
  schema.version = 1;
  schema.type_vars = kTypeVars;
  schema.inputs = kInputs;
  schema.outputs = kOutputs;
  schema.attrs = kAttrs;
  schema.attrs_bytes = sizeof(CopyAttributes);
  schema.infer = infer_copy;
  return schema;
}

TensorType type(uint32_t dtype, Dims sizes) {
  return {.dtype = dtype, .has_rank = true, .sizes = sizes};
}

/// "f32[2, 3] f16[3]", or the error.
std::string inferred(const OpSchema& schema, std::vector<TensorType> inputs,
                     const void* attributes) {
  const std::vector<const void*> host_data(inputs.size(), nullptr);
  std::vector<TensorType> outputs;
  const Status status = infer_types(schema, {inputs, host_data, attributes}, &outputs);
  if (!status.ok()) return status.to_string();
  std::string text;
  for (const TensorType& output : outputs) {
    text += std::to_string(output.dtype) + to_string(output.sizes) + " ";
  }
  return text;
}

const TensorType kN = {.dtype = BP_DTYPE_I64, .has_rank = true, .sizes = {}};
constexpr CopyAttributes kAttributes = {sizeof(CopyAttributes), 0, 5, BP_DTYPE_U8};

TEST(OpRegistry, Add_IsFoundByNameAndId) {
  OpRegistry registry;
  OpSchema other = copy_schema();
  other.name = "other";
  other.id = 41;
  ASSERT_TRUE(registry.add(other).ok());
  ASSERT_TRUE(registry.add(copy_schema()).ok());
  EXPECT_EQ(registry.find("copy"), OpId{1});
  EXPECT_EQ(registry.find_by_source_id(41), OpId{0});
  EXPECT_EQ(registry.schema(1).id, 40u);
  EXPECT_EQ(registry.find("none"), std::nullopt);
  EXPECT_EQ(registry.find_by_source_id(40), OpId{1});
  EXPECT_EQ(registry.find_by_source_id(1), std::nullopt);
  EXPECT_EQ(registry.find_by_source_id(42), std::nullopt);
  EXPECT_EQ(registry.find_by_source_id(~0u), std::nullopt);
  EXPECT_THAT(registry.names(), ElementsAre("other", "copy"));
}

TEST(OpRegistry, IdBeyondTheLast_IsRefusedAndChangesNothing) {
  OpRegistry registry;
  OpSchema far = copy_schema();
  far.id = OpRegistry::kMaxSourceId + 1;
  EXPECT_EQ(registry.add(far).message(), "operator 'copy': id 65536, expected at most 65535");
  EXPECT_EQ(registry.size(), 0u);
  far.id = OpRegistry::kMaxSourceId;
  ASSERT_TRUE(registry.add(far).ok());
  EXPECT_EQ(registry.find_by_source_id(65535), OpId{0});
}

TEST(OpRegistry, AddTwice_IsRefusedAndChangesNothing) {
  OpRegistry registry;
  ASSERT_TRUE(registry.add(copy_schema()).ok());
  EXPECT_EQ(registry.add(copy_schema()).message(), "operator 'copy' is registered already");
  OpSchema same_id = copy_schema();
  same_id.name = "twin";
  EXPECT_EQ(registry.add(same_id).message(), "operator 'twin': id 40 belongs to 'copy'");
  EXPECT_EQ(registry.size(), 1u);
}

TEST(InferTypes, OutputDtypes_ComeFromVariableAndAttribute) {
  EXPECT_EQ(inferred(copy_schema(), {type(BP_DTYPE_F32, {2, 3}), kN}, &kAttributes),
            "12[5, 2, 3] 6[2, 3] ");
}

TEST(InferTypes, ShorterAttributes_AreCompleted) {
  OpSchema schema = copy_schema();
  schema.outputs = std::span(kOutputs).first(1);
  schema.attrs = std::span(kAttrs).first(1);
  const CopyAttributes header_only = {8, 0, 99, 0};
  EXPECT_EQ(inferred(schema, {type(BP_DTYPE_F32, {3}), kN}, &header_only), "12[2, 3] ");
  EXPECT_EQ(inferred(schema, {type(BP_DTYPE_F32, {3}), kN}, nullptr), "12[2, 3] ");
  EXPECT_EQ(inferred(copy_schema(), {type(BP_DTYPE_F32, {3}), kN}, nullptr),
            "INVALID_ARGUMENT: copy: attribute 'to' of type dtype is required and was not set");
}

TEST(InferTypes, WrongArity_SaysHowMany) {
  EXPECT_EQ(inferred(copy_schema(), {type(BP_DTYPE_F32, {3})}, &kAttributes),
            "INVALID_ARGUMENT: copy: expected 2 to 3 inputs, found 1");
  EXPECT_THAT(inferred(copy_schema(), {kN, kN, kN, kN}, &kAttributes), HasSubstr("found 4"));
  OpSchema variadic = copy_schema();
  variadic.inputs = kVariadicInputs;
  EXPECT_THAT(inferred(variadic, {}, &kAttributes),
              HasSubstr("expected 1 or more inputs, found 0"));
}

TEST(InferTypes, WrongDtypes_NameTheInput) {
  const TensorType f32 = type(BP_DTYPE_F32, {});
  EXPECT_EQ(inferred(copy_schema(), {kN, kN}, &kAttributes),
            "INVALID_ARGUMENT: copy: input 'x': expected a dtype of {f16, f32}, found i64");
  EXPECT_EQ(inferred(copy_schema(), {f32, f32}, &kAttributes),
            "INVALID_ARGUMENT: copy: input 'n': expected dtype i64, found f32");
  EXPECT_EQ(inferred(copy_schema(), {f32, kN, type(BP_DTYPE_F16, {})}, &kAttributes),
            "INVALID_ARGUMENT: copy: input 'b': expected dtype f32 like input 'x', found f16");
  EXPECT_EQ(inferred(copy_schema(), {TensorType{}, kN}, &kAttributes),
            "INVALID_ARGUMENT: copy: input 'x' is missing");
  EXPECT_THAT(inferred(copy_schema(), {type(9999, {}), kN}, &kAttributes),
              HasSubstr("found unknown"));
}

TEST(InferTypes, AbsentOptionalInput_IsTaken) {
  EXPECT_EQ(inferred(copy_schema(), {type(BP_DTYPE_F16, {}), kN, TensorType{}}, &kAttributes),
            "10[5] 6[] ");
}

TEST(InferTypes, VariadicInputs_ShareTheVariable) {
  OpSchema schema = copy_schema();
  schema.inputs = kVariadicInputs;
  const TensorType f32 = type(BP_DTYPE_F32, {1});
  EXPECT_EQ(inferred(schema, {f32, f32, f32}, &kAttributes), "12[5, 1] 6[1] ");
  EXPECT_THAT(inferred(schema, {f32, f32, kN}, &kAttributes), HasSubstr("input 'parts' number 3"));
}

TEST(InferTypes, BadDtypeAttribute_IsNamed) {
  const CopyAttributes bad = {sizeof(CopyAttributes), 0, 5, 1000};
  EXPECT_EQ(inferred(copy_schema(), {type(BP_DTYPE_F32, {3}), kN}, &bad),
            "INVALID_ARGUMENT: copy: attribute 'to': expected a dtype, found code 1000");
}

TEST(InferTypes, TooManyElements_AreRefused) {
  const CopyAttributes huge = {sizeof(CopyAttributes), 0, int64_t{1} << 40, BP_DTYPE_U8};
  EXPECT_EQ(inferred(copy_schema(), {type(BP_DTYPE_F32, {int64_t{1} << 30}), kN}, &huge),
            "INVALID_ARGUMENT: copy: output 'y': sizes [1099511627776, 1073741824] have more "
            "elements than can be counted");
  EXPECT_THAT(
      inferred(copy_schema(), {type(BP_DTYPE_F32, {kUnknownDim, int64_t{1} << 30}), kN}, &huge),
      HasSubstr("more elements"));
  EXPECT_EQ(inferred(copy_schema(), {type(BP_DTYPE_F32, {kUnknownDim, 4}), kN}, &kAttributes),
            "12[5, ?, 4] 6[?, 4] ");
}

/// Operators compute with single sizes, whatever the others are.
TEST(InferTypes, ZeroBesideHugeSize_IsRefused) {
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max() / 16;
  EXPECT_EQ(inferred(copy_schema(), {type(BP_DTYPE_F32, {0, kLargest + 1}), kN}, &kAttributes),
            "INVALID_ARGUMENT: copy: input 'x': sizes [0, 576460752303423488] have more elements "
            "than can be counted");
  EXPECT_EQ(inferred(copy_schema(), {type(BP_DTYPE_F32, {0, kLargest}), kN}, &kAttributes),
            "INVALID_ARGUMENT: copy: output 'y': sizes [5, 0, 576460752303423487] have more "
            "elements than can be counted");
  const CopyAttributes once = {sizeof(CopyAttributes), 0, 1, BP_DTYPE_U8};
  EXPECT_EQ(inferred(copy_schema(), {type(BP_DTYPE_F32, {0, kLargest}), kN}, &once),
            "12[1, 0, 576460752303423487] 6[0, 576460752303423487] ");
}

}  // namespace
}  // namespace bp
