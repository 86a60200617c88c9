// SPDX-License-Identifier: Apache-2.0
//
// Level 3 itself: what it tries proves something, and kernels that are wrong in the ways in which
// kernels are wrong do not get past it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.hpp"
#include "ops/register.hpp"
#include "sdk/conform/kernels/trial.hpp"
#include "sdk/conform/runner.hpp"

namespace bp::conform {
namespace {

constexpr size_t kFewOutputs = 16;

/// Outputs of all calls of a trial together.
struct Outputs {
  size_t count = 0;
  size_t nonzero = 0;
  std::set<std::string> different;
};

Outputs outputs_of(const Trial& trial) {
  Outputs all;
  for (const Shot* shot : trial.shots) {
    const auto call = make_call(*trial.schema, *trial.recipe, *shot, trial.dtypes, trial.pass);
    EXPECT_TRUE(call.ok()) << trial.id << ": " << call.status().to_string();
    if (!call.ok()) return all;
    const auto expected = Expectation::of(*call);
    EXPECT_TRUE(expected.ok()) << trial.id << ": " << expected.status().to_string();
    if (!expected.ok()) return all;
    for (const OracleTensor& output : expected->outputs()) {
      const uint64_t bytes = dtype_storage_bytes(output.dtype, 1);
      for (size_t at = 0; at < output.bytes.size(); at += bytes) {
        const std::string element(reinterpret_cast<const char*>(output.bytes.data()) + at, bytes);
        ++all.count;
        all.nonzero += element.find_first_not_of('\0') == std::string::npos ? 0 : 1;
        all.different.insert(element);
      }
    }
  }
  return all;
}

bool has_bool(const Trial& trial) {
  return trial.dtypes.variables.front() == BP_DTYPE_BOOL || trial.dtypes.named == BP_DTYPE_BOOL;
}

/// A result of zeros, or one of a few values, is right by chance too often.
TEST(KernelTrials_Fills, GiveResultsThatProveSomething) {
  for (const Trial& trial : all_trials()) {
    if (trial.manner == Manner::kViews) continue;  // the calls of "borders" again
    const Outputs outputs = outputs_of(trial);
    // What is made of nothing is zeros, where it is not nothing itself.
    const bool is_of_nothing = trial.id.ends_with(".zero");
    if (outputs.count < kFewOutputs || trial.pass == Pass::kSpecial || is_of_nothing) continue;
    const auto count = static_cast<double>(outputs.count);
    EXPECT_GE(static_cast<double>(outputs.nonzero), trial.recipe->least_share * count) << trial.id;
    if (trial.pass != Pass::kExact || has_bool(trial)) continue;
    EXPECT_GE(outputs.different.size(), trial.recipe->least_different) << trial.id;
  }
}

TEST(KernelTrials_List, HasEveryOperatorAndEachIdOnce) {
  std::set<std::string> ids;
  std::set<std::string_view> operators;
  for (const Trial& trial : all_trials()) {
    EXPECT_TRUE(ids.insert(trial.id).second) << trial.id << " is there twice";
    operators.insert(trial.schema->name);
  }
  for (const OpSchema& schema : all_schemas()) {
    EXPECT_EQ(operators.contains(schema.name), !schema.constant && !schema.of_types) << schema.name;
  }
}

/// Three passes: whole numbers, full mantissas, and what is no number. Where nothing is computed
/// from floats the second says it all, since their bits are compared.
TEST(KernelTrials_List, OperatorsThatComputeFloats_HaveAllThreePasses) {
  std::set<std::string_view> computing;
  std::set<std::string_view> special;
  for (const Trial& trial : all_trials()) {
    if (trial.dtypes.name() != "f32") continue;
    const Nearness nearness = trial.recipe->nearness;
    if (nearness == Nearness::kSums || nearness == Nearness::kSoftmax) {
      computing.insert(trial.schema->name);
    }
    if (trial.pass == Pass::kSpecial) special.insert(trial.schema->name);
  }
  EXPECT_GE(computing.size(), 6u);
  for (const std::string_view name : computing) EXPECT_TRUE(special.contains(name)) << name;
}

TEST(KernelTrials_Values, AreTheSameEachTime) {
  const Dims sizes{3, 5};
  for (const uint32_t dtype : {BP_DTYPE_F32, BP_DTYPE_I8}) {
    const Fill fill{FillKind::kFull};
    EXPECT_EQ(make_values(dtype, sizes, fill, 1).bytes, make_values(dtype, sizes, fill, 1).bytes);
    EXPECT_NE(make_values(dtype, sizes, fill, 1).bytes, make_values(dtype, sizes, fill, 2).bytes);
  }
}

Expectation expectation_of(const Call& call) {
  auto expectation = Expectation::of(call);
  EXPECT_TRUE(expectation.ok()) << expectation.status().to_string();
  return std::move(expectation).value();
}

Call call_of(std::string_view op, Pass pass) {
  for (const Trial& trial : all_trials()) {
    if (trial.schema->name != op || trial.pass != pass || trial.dtypes.name() != "f32") continue;
    return *make_call(*trial.schema, *trial.recipe, *trial.shots.front(), trial.dtypes, pass);
  }
  ADD_FAILURE() << "no trial of " << op;
  return {};
}

/// The expected output with its first float changed by `factor`.
std::string judge_changed(std::string_view op, double factor) {
  const Call call = call_of(op, Pass::kPrecision);
  const Expectation expectation = expectation_of(call);
  const OracleTensor& expected = expectation.outputs().front();
  std::vector<double> values = expected.to_f64();
  values[0] *= factor;
  const auto changed = OracleTensor::from_f64(BP_DTYPE_F32, expected.sizes, values);
  return expectation.judge(0, changed, Operand::kUnwritten);
}

TEST(Expectation_Precision, HoldsForEachElement) {
  EXPECT_EQ(judge_changed("exp", 1 + 1e-7), "");
  EXPECT_NE(judge_changed("exp", 1 + 1e-6), "");
  EXPECT_EQ(judge_changed("softmax", 1 + 1e-6), "");
  EXPECT_NE(judge_changed("softmax", 1 + 1e-2), "");
  EXPECT_EQ(judge_changed("matmul", 1), "");
  EXPECT_NE(judge_changed("matmul", 1 + 1e-3), "");
  EXPECT_NE(judge_changed("add", 1 + 1e-7), "") << "one rounding gives one result";
}

TEST(Expectation_Words, NameElementValuesAndWhatWasNeverWritten) {
  const Call call = call_of("relu", Pass::kExact);
  const Expectation expectation = expectation_of(call);
  OracleTensor found = expectation.outputs().front();
  std::fill(found.bytes.end() - 8, found.bytes.end(), Operand::kUnwritten);
  const std::string words = expectation.judge(0, found, Operand::kUnwritten);
  EXPECT_NE(words.find("element [1, 2, 33] is "), std::string::npos) << words;
  EXPECT_NE(words.find("2 of 210 are wrong, 2 were never written"), std::string::npos) << words;
}

TEST(GoldenPoints, EachLineIsACallOfItsOperatorThatTheOracleAgreesWith) {
  std::set<std::string_view> operators;
  for (const GoldenLine& line : golden_lines()) {
    const OpSchema* schema = golden_schema(line);
    ASSERT_NE(schema, nullptr) << line.op;
    ASSERT_NE(find_recipe(line.op), nullptr) << line.op;
    auto golden = golden_call(*schema, *find_recipe(line.op), line);
    ASSERT_TRUE(golden.ok()) << line.op << ": " << golden.status().to_string();
    std::vector<OracleTensor> outputs;
    const Call& call = golden->call;
    ASSERT_TRUE(evaluate(*schema, call.inputs, call.attributes.data(), &outputs).ok()) << line.op;
    const auto expectation = Expectation::golden(call, golden->output);
    ASSERT_TRUE(expectation.ok()) << expectation.status().to_string();
    EXPECT_EQ(expectation->judge(0, outputs.front(), Operand::kUnwritten), "")
        << line.op << " " << line.dtypes;
    operators.insert(line.op);
  }
  EXPECT_GE(operators.size(), 80u);
}

TEST(GoldenPoints, AWrongLineIsToldAndAWrongResultIsFound) {
  const GoldenLine line{"exp", "f32>f32", "2", "0 3f800000\t3f800000 402df854"};
  const OpSchema* schema = golden_schema(line);
  ASSERT_NE(schema, nullptr);
  const Recipe& recipe = *find_recipe("exp");
  auto golden = golden_call(*schema, recipe, line);
  ASSERT_TRUE(golden.ok()) << golden.status().to_string();
  const auto expectation = Expectation::golden(golden->call, golden->output);
  ASSERT_TRUE(expectation.ok());
  const auto judge = [&](double second) {
    const auto found = OracleTensor::from_f64(BP_DTYPE_F32, Dims{2}, std::vector{1.0, second});
    return expectation->judge(0, found, Operand::kUnwritten);
  };
  EXPECT_EQ(judge(2.71828174591064453), "");
  EXPECT_NE(judge(2.7183), "");
  const auto told = [&](std::string_view values) {
    return golden_call(*schema, recipe, {"exp", "f32>f32", "2", values}).status().message();
  };
  EXPECT_EQ(told("0 3f800000"), "golden points of exp: 1 arguments, expected 2");
  EXPECT_EQ(told("0\t3f800000 402df854"), "golden points: 1 values, expected 2");
  EXPECT_EQ(told("0 x\t3f800000 402df854"), "golden points: 'x' is no number");
}

/// What level 3 says of the fake with one fault: words of each case that did not pass.
struct Findings {
  size_t passed = 0;
  std::map<std::string, std::string> failed;
};

Findings find(const Result<Target>& target, const std::vector<std::string>& operators) {
  EXPECT_TRUE(target.ok()) << target.status().to_string();
  RunOptions options;
  options.deadline_s = 60;
  options.filters = {"L3.list.*"};
  for (const std::string& op : operators) options.filters.push_back("L3." + op + ".*");
  const CaseList list = all_cases();
  const auto device = run_cases(list.cases(), *target, options);
  EXPECT_TRUE(device.ok()) << device.status().to_string();
  Findings findings;
  if (!device.ok()) return findings;
  findings.passed = device->count(Verdict::kPass);
  for (const Row& row : device->rows) {
    const Verdict verdict = row.outcome.verdict;
    if (verdict == Verdict::kPass || verdict == Verdict::kUnsupported) continue;
    findings.failed[row.tested->id] = row.outcome.words;
  }
  return findings;
}

Findings find_wrong(const std::string& fault, const std::vector<std::string>& operators,
                    bool host_memory = true, bool is_inline = false) {
  return find(find_target(BP_FAKES_DIR "/wrong_kernels", 0,
                          {{"wrong_kernels.device_fault", fault},
                           {"wrong_kernels.host_memory", host_memory ? "true" : "false"},
                           {"wrong_kernels.inline", is_inline ? "true" : "false"}}),
              operators);
}

// A worker thread would have a copy of the argument.
TEST(Level3_WrongKernels, HostArgument_ReadBehindItsEnd_IsFound) {
  const Findings findings = find_wrong("gather_reads_behind_host", {"gather"}, true, true);
  const auto found = findings.failed.find("L3.gather.f32_i32.borders");
  ASSERT_NE(found, findings.failed.end());
  const std::string said = "a page behind it: host input 1: what lies 0 bytes behind its memory";
  EXPECT_NE(found->second.find(said), std::string::npos) << found->second;
}

/// In a sentence, and not by memory of that size.
TEST(Level3_OddKernels, WorkspaceAboveTheDevicesMemory_IsFound) {
  const Findings findings =
      find(find_target(BP_FAKES_DIR "/odd_kernels", 0, {}), {"reciprocal.f32", "softmax.f32"});
  for (const auto& [id, said] :
       {std::pair("L3.reciprocal.f32.matrix", "found 18446744073709551615"),
        std::pair("L3.softmax.f32.batch", "found 35184372088832")}) {
    const auto found = findings.failed.find(id);
    ASSERT_NE(found, findings.failed.end()) << id;
    EXPECT_NE(found->second.find("workspace_bytes of"), std::string::npos) << found->second;
    EXPECT_NE(found->second.find("the memory of the device, 67108864 bytes, " + std::string(said)),
              std::string::npos)
        << found->second;
  }
}

TEST(Level3_WrongKernels, NoneIsFoundInRightOnes) {
  const Findings findings = find_wrong(
      "none", {"relu.f32", "add.f32", "mul.f32", "matmul.f32", "exp.f32", "batch_norm.f32",
               "reduce_sum.f32", "reduce_max.f32", "gather", "split.f32"});
  EXPECT_GE(findings.passed, 120u);
  for (const auto& [id, words] : findings.failed) ADD_FAILURE() << id << ": " << words;
}

/// Fault, a case that finds it, and what the case says.
class Level3_WrongKernel : public testing::TestWithParam<std::array<const char*, 3>> {};

TEST_P(Level3_WrongKernel, IsFoundByName) {
  const auto& [fault, id, said] = GetParam();
  // "add.f32" of "L3.add.f32.rows": the other dtypes' kernels are right.
  const std::string_view call = std::string_view(id).substr(3);
  const Findings findings = find_wrong(fault, {std::string(call.substr(0, call.rfind('.')))});
  const auto found = findings.failed.find(id);
  ASSERT_NE(found, findings.failed.end())
      << fault << " passed; " << findings.failed.size() << " other cases failed";
#if defined(__SANITIZE_ADDRESS__)
  // The sanitizer may see a kernel's wrong access before the kit sees its values.
  const bool seen_before = found->second.find(": heap-") != std::string::npos;
#else
  const bool seen_before = false;
#endif
  EXPECT_TRUE(seen_before || found->second.find(said) != std::string::npos) << found->second;
  EXPECT_GT(findings.passed, 0u) << "what is right still passes";
}

using Wrong = std::array<const char*, 3>;
INSTANTIATE_TEST_SUITE_P(
    Faults, Level3_WrongKernel,
    testing::Values(
        Wrong{"relu_negates", "L3.relu.f32.matrix", "relu_told, relu of [2, 3, 35] as f32"},
        Wrong{"relu_fails", "L3.relu.f32.matrix",
              "the work of relu_told, relu of [2, 3, 35] as f32: expected OK, found INTERNAL; "
              "the plugin says: "},
        Wrong{"relu_leaves_the_tail", "L3.relu.f32.lengths", "were never written"},
        Wrong{"relu_loses_nan", "L3.relu.f32.special", "expected nan"},
        Wrong{"relu_in_place", "L3.relu.f32.matrix", "input 0 afterwards"},
        Wrong{"relu_writes_behind", "L3.relu.f32.matrix", "nothing is written behind it"},
        Wrong{
            "relu_writes_behind", "L3.relu.f32.borders",
            "a page behind it: output 0: what lies 0 bytes behind its memory was read or written"},
        Wrong{"relu_reads_behind", "L3.relu.f32.borders",
              "relu_told, relu of [2, 3, 35] as f32, dense, a page behind it: input 0: what lies 0 "
              "bytes behind"},
        Wrong{"relu_reads_before", "L3.relu.f32.borders",
              "a page before it: input 0: what lies 4 bytes before"},
        Wrong{"relu_keeps_memory", "L3.relu.f32.again", "were never written"},
        Wrong{"relu_once", "L3.relu.f32.again", "were never written"},
        Wrong{"relu_flushes", "L3.relu.f32.special", "are wrong"},
        Wrong{"relu_clamps", "L3.relu.f32.special", "is 65536, expected"},
        Wrong{"relu_drops_of_128", "L3.relu.f32.lengths", "relu of [128] as f32"},
        Wrong{"relu_of_few", "L3.relu.f32.many", "relu of [65537] as f32"},
        Wrong{"relu_of_8_dimensions", "L3.relu.f32.many", "120 of 120 are wrong"},
        Wrong{"relu_forks", "L3.relu.f32.matrix", "left a process behind"},
        Wrong{"exp_is_narrow", "L3.exp.f32.matrix", "are wrong"},
        Wrong{"batch_norm_without_epsilon", "L3.batch_norm.f32.precision", "epsilon=3"},
        Wrong{"sum_turns_round", "L3.reduce_sum.f32.again", "as DETERMINISTIC says"},
        Wrong{"max_from_the_lowest", "L3.reduce_max.f32.special", "expected -inf"},
        Wrong{"gather_cuts_indices", "L3.gather.bool_i64.special", "are wrong"},
        Wrong{"gather_faults_behind", "L3.gather.f32_i32.special",
              "gather_told: the fault word: nothing is written behind it"},
        Wrong{"gather_tells_zeros", "L3.gather.f32_i32.special",
              "the fault word's extent: expected "},
        Wrong{"gather_zeros_a_pair", "L3.gather.f32_i64.middle", "are wrong"},
        Wrong{"add_looks_at_one", "L3.add.f32.gaps", "dense and gaps: output 0: element"},
        Wrong{"add_takes_strides_of_one", "L3.add.f32.mixed", "dense and gaps: output 0: element"},
        Wrong{"add_broadcasts_dense", "L3.add.f32.gaps", "add of [2, 1, 5, 7], [3, 1, 7]"},
        Wrong{"add_takes_offset_of_one", "L3.add.f32.matrix", "are wrong"},
        Wrong{"add_shares_scratch", "L3.add.f32.threads", "are wrong"},
        Wrong{"add_reads_whole_rows", "L3.add.f32.rows",
              "rows, a page behind it: input 0: what lies"},
        Wrong{"add_ignores_strides", "L3.add.f32.gaps", "gaps: output 0: element"},
        Wrong{"add_drops_the_last", "L3.add.f32.matrix", "element [1, 2, 34]"},
        Wrong{"mul_adds_one", "L3.mul.f32.matrix", "are wrong"},
        Wrong{"matmul_shortens", "L3.matmul.f32.precision", "are wrong"},
        Wrong{"matmul_clamps", "L3.matmul.f32.special", "expected inf"},
        Wrong{"relu_turns_in_place", "L3.relu.f32.in_place", "in the memory of input 0"},
        Wrong{"relu_keeps_values", "L3.relu.f32.recorded", "are wrong"},
        Wrong{"mul_writes_dense", "L3.mul.f32.into_views",
              "mul_told, mul of [2, 3, 35], [2, 3, 35] as f32, dense into rows, numbers round it: "
              "output 0: element [0, 1, 0] is "},
        Wrong{"mul_writes_whole_rows", "L3.mul.f32.into_views",
              "dense into rows, numbers round it: output 0: what lies between its elements: byte "
              "140 of 904: expected 167, found 0; 60 bytes differ"},
        Wrong{"mul_ignores_signs", "L3.mul.f32.into_views",
              "mul_told, mul of [2, 3, 35], [2, 3, 35] as f32, dense into reversed, numbers round "
              "it: output 0: element [0, 0, 0] is "},
        Wrong{"mul_rounds_down", "L3.mul.f32.into_views",
              "dense into offset, numbers round it: output 0: nothing is written in front of it"},
        Wrong{"mul_plans_dense", "L3.mul.f32.into_views",
              "output 0 of sizes [2, 3, 35] by strides [115, 38, 1], as it was shown, found "
              "strides [105, 35, 1]"},
        Wrong{"split_looks_at_one", "L3.split.f32.into_views",
              "dense into dense and rows and dense: output 1: element "},
        Wrong{"relu_takes_outside", "L3.relu.f32.matrix",
              "of which supports says that it takes 0 to 128 elements of input 0, found 210: "
              "expected UNSUPPORTED, found OK"},
        Wrong{"relu_refuses_within", "L3.relu.f32.matrix", "expected OK, found UNSUPPORTED"},
        Wrong{"relu_ranges_of_nothing", "L3.relu.f32.matrix",
              "that fit it: its range 0 is of argument 9; there are 2"},
        Wrong{"matmul_packs_what_varies", "L3.matmul.f32.packed",
              "packed input 1: one that was shown as a constant"},
        Wrong{"matmul_packs_to_48", "L3.matmul.f32.packed", "a power of two up to 256"},
        Wrong{"matmul_form_changes", "L3.matmul.f32.packed", "the same form"},
        Wrong{"matmul_packs_by_rows", "L3.matmul.f32.packed", "are wrong"},
        Wrong{"matmul_packs_short", "L3.matmul.f32.packed", "are wrong"},
        Wrong{"matmul_packs_behind", "L3.matmul.f32.packed", "nothing is written behind it"},
        Wrong{"pack_fails", "L3.matmul.f32.packed", "the packer jammed"},
        Wrong{"matmul_refuses", "L3.matmul.each_dtype_is_taken", "takes two matrices"}),
    [](const auto& fault) {
      const std::string id = fault.param[1];
      return std::string(fault.param[0]) + "_" + id.substr(id.rfind('.') + 1);
    });

/// Those that write into views are run, and those that do not say so are left alone.
TEST(Level3_WrongKernels, IntoViews_ThoseThatSaySoAreTried) {
  const auto target = find_target(BP_FAKES_DIR "/wrong_kernels", 0, {});
  ASSERT_TRUE(target.ok());
  RunOptions options;
  options.deadline_s = 60;
  options.filters = {"L3.mul.f32.into_views", "L3.relu.f32.into_views", "L3.split.f32.into_views"};
  const CaseList list = all_cases();
  const auto device = run_cases(list.cases(), *target, options);
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  ASSERT_EQ(device->rows.size(), 3u);
  for (const Row& row : device->rows) {
    const bool is_relu = row.tested->id == "L3.relu.f32.into_views";
    EXPECT_EQ(row.outcome.verdict, is_relu ? Verdict::kUnsupported : Verdict::kPass)
        << row.tested->id << ": " << row.outcome.words;
    if (is_relu) EXPECT_EQ(row.outcome.words, "relu_told writes contiguous outputs only");
  }
}

/// Where the host cannot reach the memory there are no pages, but what lies round it is compared.
TEST(Level3_WrongKernels, MemoryOutOfTheHostsReach_WritesBehindItAreFound) {
  EXPECT_TRUE(find_wrong("none", {"relu.f32"}, false).failed.empty());
  const Findings findings = find_wrong("relu_writes_behind", {"relu.f32"}, false);
  const auto found = findings.failed.find("L3.relu.f32.borders");
  ASSERT_NE(found, findings.failed.end());
  EXPECT_NE(found->second.find("numbers round it: output 0: nothing is written behind it"),
            std::string::npos)
      << found->second;
}

/// Lower precision is not to be seen in whole numbers: that is what the other pass is for.
TEST(Level3_WrongKernels, ShortMantissasPassWholeNumbers) {
  const Findings findings = find_wrong("matmul_shortens", {"matmul.f32"});
  EXPECT_FALSE(findings.failed.contains("L3.matmul.f32.matrix"));
}

TEST(Level3_KernelList, RefusedDescriptorFails) {
  const auto target = find_target(BP_FAKES_DIR "/good", 0, {});
  ASSERT_TRUE(target.ok());
  RunOptions options;
  options.deadline_s = 60;
  options.filters = {"L3.list.none_is_refused"};
  const CaseList list = all_cases();
  const auto device = run_cases(list.cases(), *target, options);
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  EXPECT_EQ(device->rows.at(0).outcome.verdict, Verdict::kFail);
  EXPECT_NE(device->rows.at(0).outcome.words.find("broken"), std::string::npos);
}

}  // namespace
}  // namespace bp::conform
