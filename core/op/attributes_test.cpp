// SPDX-License-Identifier: Apache-2.0
//
// Attributes against a schema made here, with a field of every type, so that the core's tests need
// no operator.
#include "core/op/attributes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace bp {
namespace {

using ::testing::HasSubstr;

struct EveryType {
  uint32_t struct_size;
  uint32_t flags;
  int64_t count;
  double scale;
  int64_t enabled;
  int64_t to;
  bp_str mode;
  bp_i64_span pads;
  const bp_tensor* value;
};

constexpr int64_t kPadsDefault[] = {1, -2};
constexpr AttrField kFields[] = {
    {.name = "count",
     .id = 1,
     .since = 1,
     .type = AttrType::kI64,
     .offset_bytes = offsetof(EveryType, count),
     .required = false,
     .default_i64 = 7},
    {.name = "scale",
     .id = 2,
     .since = 1,
     .type = AttrType::kF64,
     .offset_bytes = offsetof(EveryType, scale),
     .required = false,
     .default_f64 = 0.5},
    {.name = "enabled",
     .id = 3,
     .since = 1,
     .type = AttrType::kBool,
     .offset_bytes = offsetof(EveryType, enabled),
     .required = false,
     .default_i64 = 1},
    {.name = "to",
     .id = 4,
     .since = 1,
     .type = AttrType::kDtype,
     .offset_bytes = offsetof(EveryType, to),
     .required = true},
    {.name = "mode",
     .id = 5,
     .since = 1,
     .type = AttrType::kStr,
     .offset_bytes = offsetof(EveryType, mode),
     .required = false,
     .default_str = "fast"},
    {.name = "pads",
     .id = 6,
     .since = 1,
     .type = AttrType::kI64s,
     .offset_bytes = offsetof(EveryType, pads),
     .required = false,
     .default_i64s = kPadsDefault},
    {.name = "value",
     .id = 7,
     .since = 1,
     .type = AttrType::kTensor,
     .offset_bytes = offsetof(EveryType, value),
     .required = false},
};

OpSchema every_type_schema() {
  OpSchema schema{};
  schema.name = "every";
  schema.id = 1;
  schema.attrs = kFields;
  schema.attrs_bytes = sizeof(EveryType);
  return schema;
}

const EveryType& view(const Attributes& attributes) {
  return *static_cast<const EveryType*>(attributes.data());
}

EveryType foreign_struct() {
  EveryType foreign{};
  foreign.struct_size = sizeof(EveryType);
  foreign.count = 3;
  foreign.scale = 2.0;
  foreign.enabled = 0;
  foreign.to = BP_DTYPE_F32;
  return foreign;
}

TEST(Attributes, Fresh_HasDefaults) {
  const Attributes attributes(every_type_schema());
  const EveryType& data = view(attributes);
  EXPECT_EQ(data.struct_size, sizeof(EveryType));
  EXPECT_EQ(data.flags, 0u);
  EXPECT_EQ(data.count, 7);
  EXPECT_EQ(data.scale, 0.5);
  EXPECT_EQ(data.enabled, 1);
  EXPECT_EQ(data.to, BP_DTYPE_NONE);
  EXPECT_EQ(std::string_view(data.mode.ptr, data.mode.len), "fast");
  ASSERT_EQ(data.pads.count, 2u);
  EXPECT_EQ(data.pads.ptr[1], -2);
  EXPECT_EQ(data.value, nullptr);
}

TEST(Attributes, SchemaWithoutAttributes_HasNoData) {
  OpSchema schema{};
  schema.name = "bare";
  Attributes attributes(schema);
  EXPECT_EQ(attributes.data(), nullptr);
  EXPECT_EQ(attributes.to_string(), "");
  EXPECT_TRUE(attributes.validate().ok());
  EXPECT_TRUE(attributes.equals(Attributes()));
  EXPECT_EQ(attributes.set_i64("axis", 1).message(),
            "attribute 'axis' does not exist; there are none");
}

TEST(Attributes, Set_ChangesEveryType) {
  Attributes attributes(every_type_schema());
  const std::array<int64_t, 3> pads{4, 5, 6};
  const std::array<float, 2> values{1.5f, -1.0f};
  const std::array<int64_t, 1> sizes{2};
  ASSERT_TRUE(attributes.set_i64("count", -9).ok());
  ASSERT_TRUE(attributes.set_f64("scale", 0.1).ok());
  ASSERT_TRUE(attributes.set_i64("enabled", 0).ok());
  ASSERT_TRUE(attributes.set_i64("to", BP_DTYPE_I64).ok());
  ASSERT_TRUE(attributes.set_str("mode", "slow").ok());
  ASSERT_TRUE(attributes.set_i64s("pads", pads).ok());
  ASSERT_TRUE(
      attributes.set_tensor("value", BP_DTYPE_F32, sizes, std::as_bytes(std::span(values))).ok());
  EXPECT_TRUE(attributes.validate().ok());
  EXPECT_EQ(attributes.to_string(),
            "count=-9, scale=0.1, enabled=false, to=i64, mode=\"slow\", pads=[4, 5, 6], "
            "value=f32[2]");
  const bp_tensor& tensor = *view(attributes).value;
  EXPECT_EQ(tensor.strides[0], 1);
  EXPECT_EQ(tensor.storage_bytes, 8u);
  EXPECT_EQ(std::memcmp(reinterpret_cast<const void*>(tensor.handle), values.data(), 8), 0);
}

TEST(Attributes, SetUnknownName_NamesTheNearest) {
  Attributes attributes(every_type_schema());
  EXPECT_EQ(attributes.set_i64("cuont", 1).message(),
            "every: attribute 'cuont' does not exist; did you mean 'count'");
  EXPECT_THAT(attributes.set_i64("zzzzzzzz", 1).message(), HasSubstr("there are: count scale"));
}

TEST(Attributes, SetWrongType_NamesBoth) {
  Attributes attributes(every_type_schema());
  EXPECT_EQ(attributes.set_f64("count", 1.5).message(),
            "attribute 'count': expected i64, found 1.5");
  EXPECT_EQ(attributes.set_i64("enabled", 2).message(),
            "attribute 'enabled': expected bool, found 2");
  EXPECT_EQ(attributes.set_i64("to", 63).message(), "attribute 'to': expected dtype, found 63");
  EXPECT_EQ(attributes.set_i64("to", -5).code(), BP_INVALID_ARGUMENT);
  EXPECT_EQ(attributes.set_str("pads", "x").code(), BP_INVALID_ARGUMENT);
}

TEST(Attributes, SetTensorOfWrongBytes_IsRefused) {
  Attributes attributes(every_type_schema());
  const std::array<std::byte, 7> bytes{};
  const std::array<int64_t, 1> two{2};
  const std::array<int64_t, 1> one{1};
  const std::array<int64_t, 2> huge{INT64_MAX, 3};
  EXPECT_EQ(attributes.set_tensor("value", BP_DTYPE_F32, two, bytes).code(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(attributes.set_tensor("value", BP_DTYPE_F32, one, bytes).message(),
              HasSubstr("take 4 bytes, found 7"));
  EXPECT_THAT(attributes.set_tensor("value", BP_DTYPE_F32, huge, bytes).message(),
              HasSubstr("overflow"));
  EXPECT_THAT(attributes.set_tensor("value", 60, one, bytes).message(),
              HasSubstr("dtype code 60 is unknown"));
}

TEST(Attributes, ValidateWithoutRequired_NamesIt) {
  const Attributes attributes(every_type_schema());
  EXPECT_EQ(attributes.validate().message(),
            "attribute 'to' of type dtype is required and was not set");
}

TEST(Attributes, SetWhileShared_IsInternal) {
  Attributes attributes(every_type_schema());
  const Attributes copy = attributes;
  EXPECT_EQ(attributes.set_i64("count", 1).code(), BP_INTERNAL);
  EXPECT_EQ(view(copy).count, 7);
}

TEST(Attributes, CopyFrom_IsDeep) {
  std::array<int64_t, 2> pads{8, 9};
  std::string mode = "mine";
  std::array<int32_t, 2> values{10, 20};
  std::array<int64_t, 1> sizes{2};
  bp_tensor tensor{};
  tensor.handle = reinterpret_cast<uintptr_t>(values.data());
  tensor.storage_bytes = sizeof(values);
  tensor.dtype = BP_DTYPE_I32;
  tensor.rank = 1;
  tensor.sizes = sizes.data();
  EveryType foreign = foreign_struct();
  foreign.pads = {pads.data(), pads.size()};
  foreign.mode = {mode.data(), mode.size()};
  foreign.value = &tensor;
  const auto copy = Attributes::copy_from(every_type_schema(), &foreign);
  ASSERT_TRUE(copy.ok()) << copy.status().to_string();
  pads = {0, 0};
  mode = "gone";
  values = {0, 0};
  sizes = {77};
  EXPECT_TRUE(copy->validate().ok());
  EXPECT_EQ(copy->to_string(),
            "count=3, scale=2, enabled=false, to=f32, mode=\"mine\", pads=[8, 9], value=i32[2]");
  int32_t first = 0;
  std::memcpy(&first, reinterpret_cast<const void*>(view(*copy).value->handle), sizeof(first));
  EXPECT_EQ(first, 10);
}

TEST(Attributes, CopyFromShorterStruct_TakesDefaults) {
  EveryType foreign = foreign_struct();
  foreign.enabled = 99;  // beyond what the struct says it has
  foreign.struct_size = offsetof(EveryType, enabled);
  const auto copy = Attributes::copy_from(every_type_schema(), &foreign);
  ASSERT_TRUE(copy.ok());
  EXPECT_EQ(view(*copy).struct_size, sizeof(EveryType));
  EXPECT_EQ(view(*copy).count, 3);
  EXPECT_EQ(view(*copy).scale, 2.0);
  EXPECT_EQ(view(*copy).enabled, 1);
  EXPECT_EQ(view(*copy).pads.count, 2u);
  EXPECT_EQ(copy->validate().code(), BP_INVALID_ARGUMENT);
}

TEST(Attributes, CopyFromNull_IsAllDefaults) {
  const auto copy = Attributes::copy_from(every_type_schema(), nullptr);
  ASSERT_TRUE(copy.ok());
  EXPECT_TRUE(copy->equals(Attributes(every_type_schema())));
}

TEST(Attributes, CopyFromLongerStruct_IsTakenOnlyIfTheRestIsZero) {
  struct Newer {
    EveryType known;
    int64_t added;
  } newer{foreign_struct(), 0};
  newer.known.struct_size = sizeof(Newer);
  EXPECT_TRUE(Attributes::copy_from(every_type_schema(), &newer).ok());
  newer.added = 1;
  EXPECT_EQ(Attributes::copy_from(every_type_schema(), &newer).status().code(), BP_UNSUPPORTED);
}

TEST(Attributes, CopyFromBadStruct_IsRefused) {
  const OpSchema schema = every_type_schema();
  const auto code = [&](const EveryType& foreign) {
    return Attributes::copy_from(schema, &foreign).status().code();
  };
  EveryType foreign = foreign_struct();
  foreign.struct_size = 7;
  EXPECT_EQ(code(foreign), BP_INVALID_ARGUMENT);
  foreign.struct_size = 0xffffffff;
  EXPECT_EQ(code(foreign), BP_INVALID_ARGUMENT);
  foreign = foreign_struct();
  foreign.pads = {nullptr, 2};
  EXPECT_THAT(Attributes::copy_from(schema, &foreign).status().message(),
              HasSubstr("attribute 'pads': a null list of 2 values"));
  foreign = foreign_struct();
  foreign.mode = {nullptr, 2};
  EXPECT_EQ(code(foreign), BP_INVALID_ARGUMENT);
  foreign = foreign_struct();
  foreign.enabled = 2;
  EXPECT_EQ(code(foreign), BP_INVALID_ARGUMENT);
  foreign = foreign_struct();
  foreign.to = 64;
  EXPECT_EQ(code(foreign), BP_INVALID_ARGUMENT);
}

TEST(Attributes, CopyFromBadTensor_IsRefused) {
  const OpSchema schema = every_type_schema();
  std::array<int64_t, 2> sizes{2, 3};
  std::array<int64_t, 2> strides{3, 1};
  std::array<float, 6> values{};
  bp_tensor good{};
  good.handle = reinterpret_cast<uintptr_t>(values.data());
  good.storage_bytes = sizeof(values);
  good.dtype = BP_DTYPE_F32;
  good.rank = 2;
  good.sizes = sizes.data();
  good.strides = strides.data();
  EveryType foreign = foreign_struct();
  const auto message = [&](const bp_tensor& tensor) {
    foreign.value = &tensor;
    return Attributes::copy_from(schema, &foreign).status().message();
  };
  EXPECT_EQ(message(good), "");
  bp_tensor bad = good;
  bad.handle = 0;
  EXPECT_THAT(message(bad), HasSubstr("needs 24 bytes"));
  bad = good;
  bad.offset_bytes = 4;
  EXPECT_THAT(message(bad), HasSubstr("needs 24 bytes at offset 4, has 24"));
  bad = good;
  bad.rank = 17;
  EXPECT_THAT(message(bad), HasSubstr("rank 17"));
  bad = good;
  bad.sizes = nullptr;
  EXPECT_THAT(message(bad), HasSubstr("without sizes"));
  bad = good;
  bad.layout = 5;
  EXPECT_THAT(message(bad), HasSubstr("strided"));
  strides = {1, 2};
  EXPECT_THAT(message(good), HasSubstr("contiguous"));
  sizes = {-2, 3};
  EXPECT_THAT(message(good), HasSubstr("negative"));
}

TEST(Attributes, EqualValues_HashEqual) {
  const OpSchema schema = every_type_schema();
  EveryType foreign = foreign_struct();
  const std::array<int64_t, 2> pads{1, 2};
  const std::array<int64_t, 2> same_pads{1, 2};
  foreign.pads = {pads.data(), pads.size()};
  EveryType other = foreign;
  other.pads = {same_pads.data(), same_pads.size()};
  EXPECT_TRUE(equal_attributes(schema, &foreign, &other));
  EXPECT_EQ(hash_attributes(schema, &foreign), hash_attributes(schema, &other));
  const auto owned = Attributes::copy_from(schema, &foreign);
  ASSERT_TRUE(owned.ok());
  EXPECT_EQ(owned->hash(), hash_attributes(schema, &foreign));
  EXPECT_EQ(hash_attributes(schema, nullptr), Attributes(schema).hash());
  EXPECT_TRUE(equal_attributes(schema, nullptr, Attributes(schema).data()));
}

TEST(Attributes, EachDifference_IsSeen) {
  const OpSchema schema = every_type_schema();
  const std::array<int64_t, 1> pads{1};
  const std::array<int64_t, 1> one{1};
  const std::array<std::byte, 1> byte{std::byte{1}};
  const std::array<std::byte, 1> other_byte{std::byte{0}};
  std::vector<Attributes> all(8, Attributes());
  for (Attributes& attributes : all) attributes = Attributes(schema);
  ASSERT_TRUE(all[1].set_i64("count", 8).ok());
  ASSERT_TRUE(all[2].set_f64("scale", -0.5).ok());
  ASSERT_TRUE(all[3].set_i64("enabled", 0).ok());
  ASSERT_TRUE(all[4].set_str("mode", "fas").ok());
  ASSERT_TRUE(all[5].set_i64s("pads", pads).ok());
  ASSERT_TRUE(all[6].set_tensor("value", BP_DTYPE_BOOL, one, byte).ok());
  ASSERT_TRUE(all[7].set_tensor("value", BP_DTYPE_BOOL, one, other_byte).ok());
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t k = 0; k < all.size(); ++k) {
      EXPECT_EQ(all[i].equals(all[k]), i == k) << i << " and " << k;
      EXPECT_EQ(all[i].hash() == all[k].hash(), i == k) << i << " and " << k;
    }
  }
}

TEST(ForeignAttributes, CountsThatCannotBe_AreRefusedBeforeAnythingIsRead) {
  const int64_t one = 1;
  for (const uint64_t count :
       {(uint64_t{1} << 20) + 1, uint64_t{1} << 60, (uint64_t{1} << 61) + 1, UINT64_MAX}) {
    EveryType foreign = foreign_struct();
    foreign.pads = {&one, count};
    const Status status = check_attributes(every_type_schema(), &foreign);
    EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT) << count;
    EXPECT_NE(status.message().find("pads"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find(std::to_string(count)), std::string::npos) << status.message();
    foreign = foreign_struct();
    foreign.mode = {"x", count};
    EXPECT_EQ(check_attributes(every_type_schema(), &foreign).code(), BP_INVALID_ARGUMENT) << count;
  }
}

TEST(ForeignAttributes, FlagsAndOddSizes_AreRefused) {
  EveryType foreign = foreign_struct();
  const uint32_t flags = 7;
  std::memcpy(reinterpret_cast<char*>(&foreign) + sizeof(uint32_t), &flags, sizeof(flags));
  EXPECT_EQ(check_attributes(every_type_schema(), &foreign).code(), BP_UNSUPPORTED);
  foreign = foreign_struct();
  foreign.struct_size -= 4;
  EXPECT_EQ(check_attributes(every_type_schema(), &foreign).code(), BP_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace bp
