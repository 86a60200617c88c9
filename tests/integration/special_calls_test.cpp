// SPDX-License-Identifier: Apache-2.0
//
// Every operator on every device with NaN, infinities and the largest numbers among its inputs, as
// the kit has them for kernels: here also where the device has none, and the operator is decomposed
// or falls back. What is NaN or infinite, and what is not, is the oracle's to say.
#include "core/base/dtype.hpp"
#include "sdk/conform/kernels/trial.hpp"
#include "tests/integration/device_fixture.hpp"
#include "tests/near_elements.hpp"

namespace bp {
namespace {

using conform::Call;
using conform::DtypeChoice;
using conform::FillKind;
using conform::Recipe;
using conform::Shot;

class SpecialCallsTest : public DeviceTest {
 protected:
  /// How many calls were made.
  size_t check(const OpSchema& schema, const Recipe& recipe) {
    size_t count = 0;
    for (const DtypeChoice& dtypes : conform::dtype_choices(schema)) {
      if (!dtypes.has_float() || dtypes.is_further) continue;
      if (recipe.takes != nullptr && !recipe.takes(dtypes.variables.front(), dtypes.named))
        continue;
      for (const Shot& shot : recipe.specials) {
        const auto call = conform::make_call(schema, recipe, shot, dtypes, conform::Pass::kSpecial);
        EXPECT_TRUE(call.ok()) << schema.name << ": " << call.status().to_string();
        if (!call.ok()) continue;
        SCOPED_TRACE(call->words());
        expect_as_oracle(*call);
        ++count;
      }
    }
    return count;
  }

  void expect_as_oracle(const Call& call) {
    std::vector<OracleTensor> expected;
    ASSERT_TRUE(evaluate(*call.schema, call.inputs, call.attributes.data(), &expected).ok());
    std::vector<Ref<Tensor>> inputs;
    std::vector<Tensor*> pointers;
    for (const OracleTensor& input : call.inputs) {
      inputs.push_back(input.dtype == BP_DTYPE_NONE ? nullptr : upload(input));
      pointers.push_back(inputs.back().get());
    }
    std::vector<Ref<Tensor>> outputs(expected.size());
    const CallArgs args{.op = op(call.schema->name),
                        .inputs = pointers,
                        .attributes = call.attributes.data(),
                        .stream = nullptr,
                        .device = device_};
    const Status status = bp::call(*runtime_, args, outputs);
    ASSERT_TRUE(status.ok()) << status.to_string();
    for (size_t i = 0; i < expected.size(); ++i) {
      near_.expect(download(outputs[i]), expected[i], "output " + std::to_string(i));
    }
  }

  tests::NearElements near_{tests::usual_size};
};

TEST_P(SpecialCallsTest, EveryOperator_MatchesOracle) {
  size_t count = 0;
  const OpRegistry& registry = runtime_->registry();
  for (OpId id = 0; id < registry.size(); ++id) {
    const OpSchema& schema = registry.schema(id);
    const Recipe* recipe = conform::find_recipe(schema.name);
    if (recipe == nullptr) continue;
    // Places out of range are told, and are no values.
    const auto& fills = recipe->special_fills;
    if (std::find(fills.begin(), fills.end(), FillKind::kBadIndex) != fills.end()) continue;
    count += check(schema, *recipe);
  }
  EXPECT_GE(count, 400u);
  near_.print("special calls on " + GetParam());
}

INSTANTIATE_TEST_SUITE_P(Devices, SpecialCallsTest, testing::ValuesIn(tests::device_names()),
                         device_test_name);

}  // namespace
}  // namespace bp
