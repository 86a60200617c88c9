// SPDX-License-Identifier: Apache-2.0
//
// Random sequences on every device against the model. A failure is shrunk and printed with its
// seed. BP_MODEL_STEPS: steps in all; BP_MODEL_SEED: where to begin; BP_MODEL_REPLAY: a file of
// steps to run instead.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iostream>

#include "tests/environment.hpp"
#include "tests/model_based/generate.hpp"
#include "tests/model_based/planted.hpp"
#include "tests/model_based/runner.hpp"
#include "tests/model_based/shrink.hpp"
#include "tests/plugins.hpp"

namespace bp::model {
namespace {

// Long enough for histories to build up, short enough to shrink fast.
constexpr size_t kSequenceSteps = 250;
// What races does not fail every time.
constexpr int kTries = 5;
constexpr uint64_t kFirstSeed = 4;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr uint64_t kDefaultSteps = 20'000;
#else
constexpr uint64_t kDefaultSteps = 100'000;
#endif

/// One device, opened anew after each failure, since a failure may leave anything behind.
class Harness {
 public:
  explicit Harness(TargetConfig config, Sabotage sabotage = {})
      : config_(std::move(config)), sabotage_(std::move(sabotage)) {}
  ~Harness() { close(); }
  Harness(const Harness&) = delete;
  Harness& operator=(const Harness&) = delete;

  Status open() {
    if (target_ != nullptr) return {};
    BP_TRY_ASSIGN(target_, Target::open(config_, sabotage_));
    return {};
  }
  void close() {
    if (sabotage_) unplant();
    target_.reset();
  }
  const TargetConfig& config() const { return config_; }
  Traits traits() const { return target_->traits(); }

  /// Sums over all runs.
  uint64_t executed_count() const { return executed_count_; }
  uint64_t compared_byte_count() const { return compared_byte_count_; }

  std::optional<Mismatch> run(std::span<const Step> steps) {
    EXPECT_TRUE(open().ok());
    std::optional<Mismatch> mismatch;
    {
      Runner runner(*target_);
      mismatch = runner.run(steps);
      executed_count_ += runner.executed_count();
      compared_byte_count_ += runner.compared_byte_count();
    }
    if (mismatch) close();
    return mismatch;
  }

  std::optional<Mismatch> run_often(std::span<const Step> steps) {
    std::optional<Mismatch> mismatch;
    for (int i = 0; i < kTries && !mismatch; ++i) mismatch = run(steps);
    return mismatch;
  }

  /// The smallest sequence that still fails.
  std::vector<Step> minimal(std::vector<Step> steps, const Mismatch& mismatch) {
    if (mismatch.step < steps.size()) steps.resize(mismatch.step + 1);
    return smaller(std::move(steps));
  }
  std::vector<Step> smaller(std::vector<Step> steps) {
    return shrink(std::move(steps),
                  [this](const std::vector<Step>& rest) { return run_often(rest).has_value(); });
  }

 private:
  const TargetConfig config_;
  const Sabotage sabotage_;
  std::unique_ptr<Target> target_;
  uint64_t executed_count_ = 0;
  uint64_t compared_byte_count_ = 0;
};

std::string explain(Harness& harness, uint64_t seed, const std::vector<Step>& steps,
                    const Mismatch& mismatch) {
  std::vector<Step> minimal = harness.minimal(steps, mismatch);
  const std::optional<Mismatch> again = harness.run_often(minimal);
  return "seed " + std::to_string(seed) + " on " + harness.config().name + ": step " +
         std::to_string(mismatch.step) + ": " + mismatch.what +
         "\nrun it again: BP_MODEL_SEED=" + std::to_string(seed) +
         " BP_MODEL_STEPS=1 model_based_test --gtest_filter='*/" + harness.config().name +
         "'\nsmallest sequence that fails (save it, BP_MODEL_REPLAY=FILE): " +
         (again ? again->what : "not every time") + "\n" + to_text(minimal);
}

class ModelTest : public testing::TestWithParam<TargetConfig> {
 protected:
  void SetUp() override {
    const Status status = harness_.open();
    if (tests::is_absent(GetParam().plugin, status.code())) GTEST_SKIP() << status.to_string();
    ASSERT_TRUE(status.ok()) << status.to_string();
  }

  void replay(const char* path) {
    std::ifstream file(path);
    ASSERT_TRUE(file.good()) << path;
    std::vector<Step> steps;
    for (std::string line; std::getline(file, line);) {
      const auto step = parse_step(line);
      ASSERT_TRUE(step.has_value()) << line;
      steps.push_back(*step);
    }
    const std::optional<Mismatch> mismatch = harness_.run_often(steps);
    if (mismatch) FAIL() << "step " << mismatch->step << ": " << mismatch->what;
  }

  Harness harness_{GetParam()};
};

TEST_P(ModelTest, RandomSequence_LegalCalls_AgreesWithTheModel) {
  if (const char* path = std::getenv("BP_MODEL_REPLAY"); path != nullptr) return replay(path);
  const uint64_t steps_in_all = tests::number_from_environment("BP_MODEL_STEPS", kDefaultSteps);
  const uint64_t steps_here = (steps_in_all + all_targets().size() - 1) / all_targets().size();
  uint64_t seed = tests::number_from_environment("BP_MODEL_SEED", kFirstSeed);
  for (; harness_.executed_count() < steps_here; ++seed) {
    const std::vector<Step> steps = generate(seed, kSequenceSteps, harness_.traits());
    const std::optional<Mismatch> mismatch = harness_.run(steps);
    if (mismatch) FAIL() << explain(harness_, seed, steps, *mismatch);
  }
  std::cout << harness_.executed_count() << " steps, " << harness_.compared_byte_count()
            << " bytes compared\n";
  // A model that expects nothing agrees with anything.
  EXPECT_GE(harness_.compared_byte_count(), 100 * harness_.executed_count());
}

INSTANTIATE_TEST_SUITE_P(Devices, ModelTest, testing::ValuesIn(all_targets()),
                         [](const auto& test) { return test.param.name; });

// --- The harness itself ---

struct Defect {
  std::string name;
  void (*plant)(DeviceTable*);
  Op needed;  // a call that the smallest sequence cannot do without
};

void PrintTo(const Defect& defect, std::ostream* out) { *out << defect.name; }

class PlantedTest : public testing::TestWithParam<Defect> {};

/// Runs sequences until one fails; empty if none of many does.
std::vector<Step> first_failure(Harness& harness) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    std::vector<Step> steps = generate(seed, kSequenceSteps, harness.traits());
    const std::optional<Mismatch> mismatch = harness.run(steps);
    if (mismatch) return harness.minimal(std::move(steps), *mismatch);
    EXPECT_TRUE(harness.open().ok());
  }
  return {};
}

TEST_P(PlantedTest, Defect_RandomSequences_FoundAndShrunk) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the planted defects are data races, which end the process here";
#endif
  for (const std::string name : {"npu_native", "cpu_native"}) {
    SCOPED_TRACE(name);
    const auto targets = all_targets();
    const auto config = std::find_if(targets.begin(), targets.end(),
                                     [&](const auto& target) { return target.name == name; });
    ASSERT_NE(config, targets.end());
    Harness broken(*config, GetParam().plant);
    ASSERT_TRUE(broken.open().ok());
    std::vector<Step> minimal = first_failure(broken);
    ASSERT_FALSE(minimal.empty()) << "no sequence failed";
    // A busy machine hides a race at times, and then too much is kept: it is tried again, and more
    // often where the list is still too long to pass.
    for (int i = 0; i < 40 && minimal.size() > (i < 5 ? 12u : 25u); ++i) {
      minimal = broken.smaller(std::move(minimal));
    }
    std::cout << to_text(minimal);
    EXPECT_LE(minimal.size(), 25u);
    EXPECT_TRUE(std::any_of(minimal.begin(), minimal.end(),
                            [](const Step& step) { return step.op == GetParam().needed; }));
    broken.close();
    Harness healthy(*config);
    const std::optional<Mismatch> mismatch = healthy.run_often(minimal);
    EXPECT_FALSE(mismatch.has_value()) << mismatch->what;
  }
}

INSTANTIATE_TEST_SUITE_P(Defects, PlantedTest,
                         testing::Values(Defect{"dropped_wait", plant_dropped_wait, Op::kEventWait},
                                         Defect{"early_record", plant_early_record,
                                                Op::kEventRecord},
                                         Defect{"early_free", plant_early_free, Op::kCopy}),
                         [](const auto& test) { return test.param.name; });

TEST(Generate, SameSeed_GivesTheSameLegalSteps) {
  const std::vector<Step> steps = generate(7, 400, {});
  EXPECT_EQ(steps, generate(7, 400, {}));
  EXPECT_NE(steps, generate(8, 400, {}));
  const std::vector<Step> many = generate(7, 4000, {});
  for (int op = 0; op <= static_cast<int>(Op::kUnmap); ++op) {
    EXPECT_TRUE(std::any_of(many.begin(), many.end(),
                            [&](const Step& step) { return static_cast<int>(step.op) == op; }))
        << "no step of kind " << op;
  }
}

TEST(Step, Text_ReadBack_IsTheSameStep) {
  for (const Step& step : generate(9, 1000, {})) {
    const auto parsed = parse_step(to_text(step));
    ASSERT_TRUE(parsed.has_value()) << to_text(step);
    EXPECT_EQ(*parsed, step) << to_text(step);
  }
  for (const char* bad : {"", "copy dst", "copy dst=1", "copy size=4", "dance", "fill bytes=-1"}) {
    EXPECT_FALSE(parse_step(bad).has_value()) << bad;
  }
}

TEST(Shrink, ListThatFailsByTwoElements_KeepsThoseTwo) {
  std::vector<int> list(100);
  for (int i = 0; i < 100; ++i) list[static_cast<size_t>(i)] = i;
  const auto has = [](const std::vector<int>& rest, int wanted) {
    return std::find(rest.begin(), rest.end(), wanted) != rest.end();
  };
  EXPECT_EQ(shrink(list, [&](const auto& rest) { return has(rest, 13) && has(rest, 77); }),
            (std::vector<int>{13, 77}));
}

}  // namespace
}  // namespace bp::model
