// SPDX-License-Identifier: Apache-2.0
//
// The generated table as the registry takes it.
#include "ops/register.hpp"

#include <gtest/gtest.h>

#include "backplane/ops/attributes.h"
#include "core/op/attributes.hpp"

namespace bp {
namespace {

TEST(RegisterOps, FreshRegistry_GetsEveryOperator) {
  OpRegistry registry;
  ASSERT_TRUE(register_ops(&registry).ok());
  EXPECT_EQ(registry.size(), all_schemas().size());
  const auto conv = registry.find("conv");
  ASSERT_TRUE(conv.has_value());
  EXPECT_EQ(registry.find_by_source_id(BP_OP_CONV), conv);
  const OpSchema& schema = registry.schema(*conv);
  EXPECT_EQ(schema.attrs_bytes, sizeof(bp_attrs_conv));
  EXPECT_EQ(schema.attrs[3].name, "group");
  EXPECT_EQ(schema.attrs[3].offset_bytes, offsetof(bp_attrs_conv, group));
  EXPECT_EQ(schema.attrs[3].default_i64, 1);
  EXPECT_TRUE(schema.inputs[2].optional);
  EXPECT_TRUE(schema.primitive);
}

TEST(RegisterOps, Twice_IsRefused) {
  OpRegistry registry;
  ASSERT_TRUE(register_ops(&registry).ok());
  EXPECT_EQ(register_ops(&registry).code(), BP_INVALID_ARGUMENT);
}

TEST(AllSchemas, Defaults_AreThoseOfTheCStructs) {
  for (const OpSchema& schema : all_schemas()) {
    EXPECT_NE(schema.infer, nullptr) << schema.name;
    EXPECT_GE(schema.version, 1u) << schema.name;
  }
  const bp_attrs_max_pool pool = bp_attrs_max_pool_defaults();
  const bp_attrs_batch_norm norm = bp_attrs_batch_norm_defaults();
  const bp_attrs_gemm gemm = bp_attrs_gemm_defaults();
  OpRegistry registry;
  ASSERT_TRUE(register_ops(&registry).ok());
  const auto equal = [&](uint32_t id, const void* defaults) {
    const OpSchema& schema = registry.schema(*registry.find_by_source_id(id));
    return equal_attributes(schema, defaults, nullptr);
  };
  EXPECT_TRUE(equal(BP_OP_MAX_POOL, &pool));
  EXPECT_TRUE(equal(BP_OP_BATCH_NORM, &norm));
  EXPECT_TRUE(equal(BP_OP_GEMM, &gemm));
}

TEST(AllSchemas, Marks_AreRead) {
  OpRegistry registry;
  ASSERT_TRUE(register_ops(&registry).ok());
  const auto schema = [&](std::string_view name) { return registry.schema(*registry.find(name)); };
  EXPECT_TRUE(schema("constant").constant);
  EXPECT_TRUE(schema("non_zero").extents);
  EXPECT_NE(schema("reshape").view, nullptr);
  EXPECT_EQ(schema("reshape").inputs[1].host, HostNeed::kInfer);
  EXPECT_EQ(schema("reshape").inputs[1].fixed_dtype, BP_DTYPE_I64);
  EXPECT_NE(schema("softmax").decompose, nullptr);
  EXPECT_EQ(schema("max").decompose, nullptr);
  EXPECT_EQ(schema("cast").outputs[0].type_attr, 0);
}

}  // namespace
}  // namespace bp
