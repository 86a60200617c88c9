// SPDX-License-Identifier: Apache-2.0
//
// Every operator, with the calls that the kit tries kernels with, on devices that may not fall
// back: what a vendor gets who has the primitives and nothing else. In all dtypes on a device that
// has only primitives, in f32 on others, which may compile a program for each.
#include <cstdio>
#include <set>

#include "core/base/dtype.hpp"
#include "sdk/conform/kernels/trial.hpp"
#include "tests/integration/device_fixture.hpp"
#include "tests/near_elements.hpp"

namespace bp {
namespace {

using conform::Call;
using conform::DtypeChoice;
using conform::Recipe;
using conform::Shot;

// The simulated device stands for what a vendor begins with: it has the primitives and no more.
constexpr std::string_view kBareDevice = "npu:0";
constexpr size_t kFewestOperators = 140;
constexpr size_t kFewestCallsOfBare = 25000;  // in all dtypes, with all shots

bool is_plain(const DtypeChoice& choice) {
  return choice.variables.empty() || choice.variables.front() == BP_DTYPE_F32;
}

class BareDeviceTest : public DeviceTest {
 protected:
  void SetUp() override {
    RuntimeArgs args = test_runtime_args();
    args.options = {{"BACKPLANE_FALLBACK", "deny"}};
    open(args);
  }

  /// Whether all that the device has are primitives.
  bool is_bare() const {
    const auto& kernels = Dispatcher::of(*device_).kernels().kernels;
    return std::ranges::all_of(kernels, [this](const KernelRecord& record) {
      return runtime_->registry().schema(op(record.op)).primitive;
    });
  }

  std::vector<DtypeChoice> choices_of(const OpSchema& schema, const Recipe& recipe) const {
    std::vector<DtypeChoice> choices = conform::dtype_choices(schema);
    std::erase_if(choices, [&](const DtypeChoice& choice) {
      return recipe.takes != nullptr && !recipe.takes(choice.variables.front(), choice.named);
    });
    if (is_bare()) return choices;
    const auto plain = std::ranges::find_if(choices, is_plain);
    return {plain != choices.end() ? *plain : choices.front()};
  }

  std::vector<const Shot*> shots_of(const Recipe& recipe, const DtypeChoice& choice) const {
    if (choice.is_further || !is_bare()) return {&recipe.variants.front().shots.front()};
    std::vector<const Shot*> shots = conform::all_shots(recipe);
    if (choice.has_float()) {
      for (const Shot& shot : recipe.inexact) shots.push_back(&shot);
    }
    return shots;
  }

  void try_one(const Call& made) {
    std::vector<OracleTensor> expected;
    const Status known = evaluate(*made.schema, made.inputs, made.attributes.data(), &expected);
    ASSERT_TRUE(known.ok()) << made.words() << ": " << known.to_string();
    std::vector<Ref<Tensor>> inputs;
    std::vector<Tensor*> pointers;
    for (const OracleTensor& input : made.inputs) {
      inputs.push_back(input.dtype == BP_DTYPE_NONE ? Ref<Tensor>() : upload(input));
      pointers.push_back(inputs.back().get());
    }
    std::vector<Ref<Tensor>> outputs(expected.size());
    const CallArgs args{.op = op(made.schema->name),
                        .inputs = pointers,
                        .attributes = made.attributes.data(),
                        .stream = nullptr,
                        .device = device_};
    const Status status = call(*runtime_, args, outputs);
    ASSERT_TRUE(status.ok()) << made.words() << ": " << status.to_string();
    for (size_t i = 0; i < expected.size(); ++i) {
      near_.expect(download(outputs[i]), expected[i],
                   made.words() + ", output " + std::to_string(i));
    }
    ++count_;
  }

  size_t count_ = 0;
  tests::NearElements near_{tests::largest_size};
};

TEST_P(BareDeviceTest, EveryOperator_RunsWithoutTheHost) {
  // Otherwise one more kernel there would leave nothing but f32 of this test.
  if (GetParam() == kBareDevice) ASSERT_TRUE(is_bare()) << "it has a kernel of what decomposes";
  std::set<std::string_view> tried;
  for (const OpSchema& schema : all_schemas()) {
    const Recipe* recipe = conform::find_recipe(schema.name);
    if (recipe == nullptr) continue;
    for (const DtypeChoice& choice : choices_of(schema, *recipe)) {
      for (const Shot* shot : shots_of(*recipe, choice)) {
        const auto made =
            conform::make_call(schema, *recipe, *shot, choice, conform::Pass::kPrecision);
        ASSERT_TRUE(made.ok()) << schema.name << ": " << made.status().to_string();
        try_one(*made);
      }
    }
    tried.insert(schema.name);
  }
  Device* const host = runtime_->host_device();
  ASSERT_NE(host, nullptr);
  EXPECT_EQ(host->counters().launches.load(), 0u) << "something ran on the host device";
  EXPECT_GE(tried.size(), kFewestOperators);
  EXPECT_GE(count_, is_bare() ? kFewestCallsOfBare : kFewestOperators);
  std::printf("%s%s: %zu calls of %zu operators, none elsewhere\n", GetParam().c_str(),
              is_bare() ? ", primitives only" : "", count_, tried.size());
  near_.print(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Devices, BareDeviceTest, testing::ValuesIn(tests::queued_device_names()),
                         device_test_name);

}  // namespace
}  // namespace bp
