// SPDX-License-Identifier: Apache-2.0
//
// Every call that must be refused is: by an error, before anything is launched, that names the
// operator, the argument, what was expected and what was found.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "backplane/backplane.h"
#include "core/base/dtype.hpp"
#include "ops/register.hpp"
#include "tests/negative/cases.hpp"

namespace bp::negative {
namespace {

constexpr size_t kFewestCases = 600;

/// A Runtime with cpu:0, and tensors that are released with it.
class NegativeCalls : public testing::Test {
 protected:
  void SetUp() override {
    static constexpr const char* kNames[] = {"BACKPLANE_FALLBACK"};
    static constexpr const char* kValues[] = {"allow"};
    bpa_runtime_args args{};
    args.struct_size = sizeof(args);
    args.install_dir = BP_PLUGIN_DIR;
    args.option_names = kNames;
    args.option_values = kValues;
    args.option_count = 1;
    ASSERT_EQ(bpa_runtime_create(&args, &runtime_), BP_OK) << bpa_last_error();
    ASSERT_EQ(bpa_runtime_find_device(runtime_, "cpu:0", &device_), BP_OK) << bpa_last_error();
  }
  void TearDown() override { bpa_runtime_release(runtime_); }

  uint64_t launches() const {
    bpa_device_info info{};
    info.struct_size = sizeof(info);
    EXPECT_EQ(bpa_device_get_info(device_, &info), BP_OK);
    return info.launch_count;
  }

  bpa_status call(const Case& tested) {
    std::vector<bpa_tensor*> inputs;
    for (const OracleTensor& input : tested.inputs) inputs.push_back(tensor_of(input));
    const auto count = output_count(*tested.schema, tested.attributes.data());
    std::vector<bpa_tensor*> outputs(count.ok() ? *count : 1, nullptr);
    const bpa_status status = bpa_op_call(
        runtime_, tested.schema->id, inputs.data(), static_cast<uint32_t>(inputs.size()),
        tested.attributes.data(), 0, outputs.data(), static_cast<uint32_t>(outputs.size()));
    words_ = status == BP_OK ? "" : bpa_last_error();
    for (bpa_tensor* tensor : inputs) bpa_tensor_release(tensor);
    for (bpa_tensor* tensor : outputs) bpa_tensor_release(tensor);
    return status;
  }

  bpa_tensor* tensor_of(const OracleTensor& value) {
    bpa_tensor* tensor = nullptr;
    if (value.dtype == BP_DTYPE_NONE) return tensor;
    EXPECT_EQ(bpa_tensor_from_host(device_, value.dtype, value.sizes.data(),
                                   static_cast<uint32_t>(value.sizes.size()), value.bytes.data(),
                                   value.bytes.size(), &tensor),
              BP_OK)
        << bpa_last_error();
    return tensor;
  }

  /// What is wrong with the answer; empty: nothing.
  std::string fault_of(const Case& tested, bpa_status status) const {
    if (status == BP_OK) return "it was computed";
    if (status != BP_INVALID_ARGUMENT) return "status " + std::to_string(status) + ": " + words_;
    const auto has = [this](std::string_view text) { return words_.find(text) != words_.npos; };
    for (const std::string& each : {std::string(tested.schema->name), tested.names}) {
      if (!has(each)) return "no \"" + each + "\" in: " + words_;
    }
    const bool names_argument =
        has("input '") || has("inputs '") || has("attribute '") || has(" inputs, found ");
    if (!names_argument) return "no argument in: " + words_;
    // What is not there, and what is beyond all numbers, is told in other words.
    const bool is_told = has("expected ") && has("found ");
    const bool is_absent = has(" is missing") && tested.id.ends_with(" missing");
    const bool is_beyond =
        has("than can be counted") && tested.id.find(std::to_string(INT64_MAX)) != tested.id.npos;
    if (is_told || is_absent || is_beyond) return "";
    return "nothing expected or found in: " + words_;
  }

  bpa_runtime* runtime_ = nullptr;
  bpa_device* device_ = nullptr;
  std::string words_;
};

TEST_F(NegativeCalls, EachIsRefusedBeforeALaunchWithAllNames) {
  const std::vector<Case> cases = all_cases();
  EXPECT_GE(cases.size(), kFewestCases);
  size_t refused = 0;
  std::set<std::string> ids;
  for (const Case& tested : cases) {
    EXPECT_TRUE(ids.insert(tested.id).second) << tested.id << " is there twice";
    const uint64_t before = launches();
    const std::string fault = fault_of(tested, call(tested));
    EXPECT_EQ(fault, "") << tested.id;
    EXPECT_EQ(launches(), before) << tested.id;
    refused += fault.empty() ? 1 : 0;
  }
  std::printf("negative: %zu calls of %zu refused with all names\n", refused, cases.size());
}

/// Otherwise a case could be refused for what is wrong with the call that it was made from.
TEST_F(NegativeCalls, TheCallsThatTheyAreMadeFromAreRight) {
  for (const OpSchema& schema : all_schemas()) {
    if (schema.constant || schema.of_types) continue;
    const conform::Call base = base_call(schema);
    ASSERT_NE(base.schema, nullptr) << schema.name;
    const Case right{.id = std::string(schema.name),
                     .schema = &schema,
                     .inputs = base.inputs,
                     .attributes = base.attributes,
                     .names = {}};
    EXPECT_EQ(call(right), BP_OK) << schema.name << ": " << words_;
  }
}

TEST(NegativeRules, EachValueIsACase) {
  std::set<std::string> ids;
  for (const Case& each : all_cases()) ids.insert(each.id);
  for (const OpSchema& schema : all_schemas()) {
    if (schema.constant || conform::find_recipe(schema.name) == nullptr) continue;
    for (const AttrField& field : schema.attrs) {
      for (const AttributeRule& rule : attribute_rules()) {
        if (!is_rule_of(rule, schema.name, field.name)) continue;
        const std::string start =
            std::string(schema.name) + ": attribute " + std::string(field.name) + " = ";
        const auto count = std::count_if(
            ids.begin(), ids.end(), [&](const std::string& id) { return id.starts_with(start); });
        EXPECT_GE(count, static_cast<std::ptrdiff_t>(rule.values.size())) << start;
      }
    }
  }
}

TEST(NegativeRules, EachAttributeHasOneOrIsListedAsFree) {
  const std::vector<AttributeRule> rules = attribute_rules();
  const std::vector<std::string_view> free = free_attributes();
  for (const OpSchema& schema : all_schemas()) {
    for (const AttrField& field : schema.attrs) {
      const bool is_typed = field.type == AttrType::kBool || field.type == AttrType::kDtype;
      const bool has_rule = std::any_of(rules.begin(), rules.end(), [&](const auto& rule) {
        return is_rule_of(rule, schema.name, field.name);
      });
      const bool is_free = std::find(free.begin(), free.end(), field.name) != free.end();
      EXPECT_TRUE(is_typed || has_rule || is_free) << schema.name << ": " << field.name;
    }
  }
}

}  // namespace
}  // namespace bp::negative
