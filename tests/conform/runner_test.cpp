// SPDX-License-Identifier: Apache-2.0
//
// The runner itself: planted cases that fail in every way there is, on a fake whose device is
// sound. This process never maps a plugin, as the runner asks for.
#include "sdk/conform/runner.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "core/base/temp_folder_test.hpp"
#include "sdk/conform/abi.hpp"
#include "sdk/conform/child.hpp"
#include "sdk/conform/context.hpp"
#include "sdk/conform/report.hpp"

namespace bp::conform {
namespace {

Target sound_fake() {
  auto target = find_target(BP_FAKES_DIR "/sound", 0, {});
  EXPECT_TRUE(target.ok()) << target.status().to_string();
  return *target;
}

void passes(Context& context) { context.expect(true, "nothing"); }

Case device_case(const std::string& name, std::function<void(Context&)> run, uint64_t bands = 0,
                 uint32_t needs = 0) {
  return {.id = "L1.planted." + name,
          .proves = "planted",
          .bands = bands,
          .needs = needs,
          .run = std::move(run)};
}

RunOptions test_options() {
  RunOptions options;
  options.deadline_s = 60;
  return options;
}

DeviceRows run(const std::vector<Case>& cases, const RunOptions& options = test_options()) {
  auto device = run_cases(cases, sound_fake(), options);
  EXPECT_TRUE(device.ok()) << device.status().to_string();
  return *device;
}

/// The outcome of one case that is run between two good ones, which must stay good.
Outcome outcome_between_good_ones(std::function<void(Context&)> body,
                                  const RunOptions& options = test_options()) {
  const std::vector<Case> cases = {device_case("before", passes),
                                   device_case("tested", std::move(body)),
                                   device_case("after", passes)};
  const DeviceRows device = run(cases, options);
  EXPECT_EQ(device.rows.size(), 3u);
  EXPECT_EQ(device.rows[0].outcome.verdict, Verdict::kPass) << device.rows[0].outcome.words;
  EXPECT_EQ(device.rows[2].outcome.verdict, Verdict::kPass) << device.rows[2].outcome.words;
  return device.rows[1].outcome;
}

TEST(Runner_Verdicts, GoodCase_Passes) {
  EXPECT_EQ(outcome_between_good_ones(passes).verdict, Verdict::kPass);
}

TEST(Runner_Verdicts, FailedCheck_SaysExpectedAndFound) {
  const Outcome outcome = outcome_between_good_ones(
      [](Context& context) { context.expect_status("the call", BP_OK, BP_BUSY); });
  EXPECT_EQ(outcome.verdict, Verdict::kFail);
  EXPECT_EQ(outcome.words, "the call: expected BUSY, found OK");
}

TEST(Runner_Verdicts, Require_EndsTheCase) {
  const Outcome outcome = outcome_between_good_ones([](Context& context) {
    context.require(false, "the impossible");
    context.fail("this is never reached");
  });
  EXPECT_EQ(outcome.verdict, Verdict::kFail);
  EXPECT_EQ(outcome.words, "expected the impossible");
}

TEST(Runner_Verdicts, NoCheckAtAll_Fails) {
  EXPECT_EQ(outcome_between_good_ones([](Context&) {}).verdict, Verdict::kFail);
}

TEST(Runner_Verdicts, Exception_Fails) {
  const Outcome outcome =
      outcome_between_good_ones([](Context&) { throw std::runtime_error("out of ideas"); });
  EXPECT_EQ(outcome.verdict, Verdict::kFail);
  EXPECT_NE(outcome.words.find("out of ideas"), std::string::npos);
}

TEST(Runner_Verdicts, Crash_NamesTheSignalAndTheLastOutput) {
  const Outcome outcome = outcome_between_good_ones([](Context& context) {
    context.expect(true, "nothing");
    std::fputs("about to go\n", stderr);
    std::raise(SIGKILL);
  });
  EXPECT_EQ(outcome.verdict, Verdict::kCrash);
  EXPECT_NE(outcome.words.find("signal 9"), std::string::npos) << outcome.words;
  EXPECT_NE(outcome.words.find("about to go"), std::string::npos) << outcome.words;
}

TEST(Runner_Verdicts, ProcessEnd_IsACrash) {
  const Outcome outcome = outcome_between_good_ones([](Context&) { std::_Exit(7); });
  EXPECT_EQ(outcome.verdict, Verdict::kCrash);
  EXPECT_NE(outcome.words.find("exit code 7"), std::string::npos) << outcome.words;
}

TEST(Runner_Verdicts, BadExitCodeAfterTheCase_IsACrash) {
  const Outcome outcome = outcome_between_good_ones([](Context& context) {
    context.expect(true, "nothing");
    std::atexit([] { std::_Exit(9); });
  });
  EXPECT_EQ(outcome.verdict, Verdict::kCrash) << outcome.words;
  EXPECT_NE(outcome.words.find("after the case"), std::string::npos) << outcome.words;
}

TEST(Runner_Verdicts, Hang_TimesOut) {
  // The good cases get the same deadline, so they are left out here.
  RunOptions options = test_options();
  options.deadline_s = 3;
  const DeviceRows device = run({device_case("hangs",
                                             [](Context&) {
                                               for (;;) std::this_thread::yield();
                                             })},
                                options);
  EXPECT_EQ(device.rows.at(0).outcome.verdict, Verdict::kTimeout);
  EXPECT_EQ(device.failed_count(), 1u);
}

TEST(Runner_FailFast, LeavesTheRest) {
  RunOptions options = test_options();
  options.fail_fast = true;
  for (const size_t batch : {1u, 32u}) {
    options.batch = batch;
    const DeviceRows device =
        run({device_case("before", passes),
             device_case("fails", [](Context& context) { context.fail("planned"); }),
             device_case("waits",
                         [](Context&) { std::this_thread::sleep_for(std::chrono::hours(1)); })},
            options);
    EXPECT_EQ(device.rows[0].outcome.verdict, Verdict::kPass);
    EXPECT_EQ(device.rows[1].outcome.verdict, Verdict::kFail);
    EXPECT_EQ(device.rows[1].outcome.words, "planned");
    EXPECT_EQ(device.rows[2].outcome.verdict, Verdict::kNotRun) << device.rows[2].outcome.words;
    EXPECT_EQ(device.failed_count(), 2u);
  }
}

TEST(Runner_Verdicts, ThreadLeftBehind_Leaks) {
  const Outcome outcome = outcome_between_good_ones([](Context& context) {
    std::thread([] { std::this_thread::sleep_for(std::chrono::hours(1)); }).detach();
    context.expect(true, "nothing");
  });
  EXPECT_EQ(outcome.verdict, Verdict::kLeak) << outcome.words;
}

TEST(Runner_Verdicts, FileLeftOpen_Leaks) {
  const Outcome outcome = outcome_between_good_ones([](Context& context) {
    context.expect(std::fopen("/dev/null", "r") != nullptr, "a file that opens");
  });
  EXPECT_EQ(outcome.verdict, Verdict::kLeak) << outcome.words;
}

TEST(Runner_Verdicts, MadeOnceAtFirstUse_IsNoLeak) {
  const Outcome outcome = outcome_between_good_ones([](Context& context) {
    static std::FILE* const file = std::fopen("/dev/null", "r");
    context.expect(file != nullptr, "a file that opens");
  });
  EXPECT_EQ(outcome.verdict, Verdict::kPass) << outcome.words;
}

TEST(Runner_Verdicts, MemoryLeftOnTheDevice_Leaks) {
  const Outcome outcome = outcome_between_good_ones([](Context& context) {
    uint64_t handle = 0;
    context.expect_ok("mem_alloc", context.mem_alloc(64, 0, &handle));
  });
  EXPECT_EQ(outcome.verdict, Verdict::kLeak) << outcome.words;
}

TEST(Runner_Verdicts, FailureInABatchThatPassesAlone_IsAFailure) {
  const auto leave_a_mark = [](Context& context) {
    setenv("BP_TEST_MARK", "1", 1);
    context.expect(true, "nothing");
  };
  const auto find_the_mark = [](Context& context) {
    context.expect(std::getenv("BP_TEST_MARK") == nullptr, "no mark");
  };
  const DeviceRows device =
      run({device_case("leaves", leave_a_mark), device_case("finds", find_the_mark)});
  EXPECT_EQ(device.rows[0].outcome.verdict, Verdict::kPass);
  EXPECT_EQ(device.rows[1].outcome.verdict, Verdict::kFail);
  EXPECT_NE(device.rows[1].outcome.words.find("PASS alone"), std::string::npos);
}

TEST(Runner_Verdicts, NeedThatIsNotMet_IsUnsupportedAndNotRun) {
  const DeviceRows device = run({device_case(
      "needs_two", [](Context& context) { context.fail("it ran"); }, 0, kNeedTwoDevices)});
  EXPECT_EQ(device.rows.at(0).outcome.verdict, Verdict::kUnsupported);
  EXPECT_EQ(device.executed_count(), 0u);
  EXPECT_EQ(device.failed_count(), 0u);
}

TEST(Runner_Modes, BandThatTheDeviceLacks_RunsOnceAndEmulated) {
  const DeviceRows device = run({device_case("fills", passes, BP_FEATURE_FILL_BIT)});
  ASSERT_EQ(device.rows.size(), 1u);
  EXPECT_TRUE(device.rows[0].emulated);
  EXPECT_EQ(device.rows[0].masked, 0u);
}

TEST(Runner_Modes, EachBand_AlsoMakesOneCallAtATime) {
  RunOptions options = test_options();
  options.each_band = true;
  const DeviceRows device =
      run({device_case("plain", [](Context& context) { context.expect_ok("nothing", BP_OK); })},
          options);
  ASSERT_EQ(device.rows.size(), 2u);
  EXPECT_EQ(device.rows[1].masked, kOneCallAtATime);
}

TEST(Runner_Modes, AbiCaseOfABandThatThePluginLacks_IsUnsupported) {
  const std::vector<Case> cases = {{.id = "L0.planted.fill",
                                    .proves = "planted",
                                    .bands = BP_FEATURE_FILL_BIT,
                                    .abi = [](AbiContext& context) { context.fail("it ran"); }}};
  const DeviceRows device = run(cases);
  EXPECT_EQ(device.rows.at(0).outcome.verdict, Verdict::kUnsupported);
}

TEST(Runner_Batches, ManyCasesInSmallBatches_AllRunOnce) {
  std::vector<Case> cases;
  for (int i = 0; i < 25; ++i) cases.push_back(device_case(words("case_", i), passes));
  RunOptions options = test_options();
  options.batch = 4;
  options.jobs = 3;
  const DeviceRows device = run(cases, options);
  EXPECT_EQ(device.count(Verdict::kPass), 25u);
}

TEST(Runner_BadInput, UnknownFilter_IsRefusedByName) {
  RunOptions options = test_options();
  options.filters = {"L1.planted.good", "L1.planted.bda"};
  const auto device =
      run_cases(std::vector<Case>{device_case("good", passes)}, sound_fake(), options);
  EXPECT_EQ(device.status().code(), BP_INVALID_ARGUMENT);
  EXPECT_NE(device.status().message().find("L1.planted.bda"), std::string::npos);
}

TEST(Runner_BadInput, AbsentHardware_IsSaidAndNothingRuns) {
  const auto target = find_target(BP_FAKES_DIR "/absent", 0, {});
  ASSERT_TRUE(target.ok());
  const auto device =
      run_cases(std::vector<Case>{device_case("good", passes)}, *target, test_options());
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  EXPECT_NE(device->absent.find("no fake accelerator is plugged in"), std::string::npos);
  EXPECT_TRUE(device->rows.empty());
}

TEST(Runner_BadInput, PluginThatCannotBeLoaded_IsAnError) {
  const auto target = find_target(BP_FAKES_DIR "/no_entry", 0, {});
  ASSERT_TRUE(target.ok());
  const auto device =
      run_cases(std::vector<Case>{device_case("good", passes)}, *target, test_options());
  EXPECT_EQ(device.status().code(), BP_INTERNAL) << device.status().to_string();
}

TEST(Runner_BadInput, FolderWithoutOnePlugin_IsRefused) {
  EXPECT_EQ(find_target("/nowhere/at/all", 0, {}).status().code(), BP_INVALID_ARGUMENT);
  EXPECT_EQ(find_target(BP_FAKES_DIR, 0, {}).status().code(), BP_INVALID_ARGUMENT);
}

TEST(Runner_BadInput, ManifestThatIsNoFile_IsRefusedUnread) {
  const TempFolder pipes;
  const std::string pipe = pipes.path() + "/a.backplane.json";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(find_target(pipes.path(), 0, {}).status().message(), pipe + " is not a regular file");
  const TempFolder endless;
  const std::string link = endless.path() + "/a.backplane.json";
  std::filesystem::create_symlink("/dev/zero", link);
  EXPECT_EQ(find_target(endless.path(), 0, {}).status().message(), link + " is not a regular file");
  const TempFolder folders;
  const std::string folder = folders.path() + "/a.backplane.json";
  std::filesystem::create_directory(folder);
  EXPECT_EQ(find_target(folders.path(), 0, {}).status().message(),
            folder + " is not a regular file");
}

TEST(Runner_BadInput, UnknownBand_IsRefusedByName) {
  EXPECT_EQ(*parse_bands("async,map"), BP_FEATURE_ASYNC_BIT | BP_FEATURE_MAP_BIT);
  EXPECT_EQ(*parse_bands(""), 0u);
  const auto bands = parse_bands("async,telepathy");
  EXPECT_EQ(bands.status().code(), BP_INVALID_ARGUMENT);
  EXPECT_NE(bands.status().message().find("telepathy"), std::string::npos);
}

TEST(Runner_Filters, Star_StandsForAnyText) {
  EXPECT_TRUE(matches("L1.a.b", "L1.a.b"));
  EXPECT_FALSE(matches("L1.a", "L1.a.b"));
  EXPECT_TRUE(matches("L1.*", "L1.a.b"));
  EXPECT_TRUE(matches("*.b", "L1.a.b"));
  EXPECT_TRUE(matches("L1.*.b", "L1.a.b"));
  EXPECT_FALSE(matches("L1.*.c", "L1.a.b"));
  EXPECT_TRUE(matches("*", ""));
}

TEST(Runner_Messages, Line_ReadsBackAsWritten) {
  const Message message{Message::Kind::kEnd, 17, Verdict::kLeak, "two words\nand a line"};
  std::string line = message.to_line();
  ASSERT_EQ(line.back(), '\n');
  line.pop_back();
  const auto read = Message::parse(line);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->kind, Message::Kind::kEnd);
  EXPECT_EQ(read->number, 17u);
  EXPECT_EQ(read->verdict, Verdict::kLeak);
  EXPECT_EQ(read->words, "two words and a line");
  EXPECT_FALSE(Message::parse("what a plugin printed").has_value());
  EXPECT_FALSE(Message::parse("").has_value());
}

TEST(Runner_Report, Json_CountsEveryRow) {
  const std::vector<Case> cases = {device_case("good", passes),
                                   device_case("bad", [](Context& c) { c.fail("so it is"); }),
                                   device_case("needs_two", passes, 0, kNeedTwoDevices)};
  const DeviceRows device = run(cases);
  const std::string json = report_json({&device, 1}, 3);
  for (const char* part : {"\"passed\": 1", "\"failed\": 1", "\"unsupported\": 1", "\"total\": 3",
                           "\"words\": \"so it is\"", "bp-conform "}) {
    EXPECT_NE(json.find(part), std::string::npos) << part << " in " << json;
  }
  const std::string text = report_markdown({&device, 1}, 3);
  EXPECT_NE(text.find("so it is"), std::string::npos) << text;
}

int exit_code_of(const std::string& arguments) {
  const std::string command = std::string(BP_CONFORM) + " " + arguments + " >/dev/null 2>&1";
  return WEXITSTATUS(std::system(command.c_str()));
}

std::string output_of(const std::string& arguments) {
  const std::string command = std::string(BP_CONFORM) + " " + arguments + " 2>&1";
  std::FILE* const pipe = popen(command.c_str(), "r");
  EXPECT_NE(pipe, nullptr);
  std::string text;
  for (int c = 0; pipe != nullptr && (c = std::fgetc(pipe)) != EOF;) text += static_cast<char>(c);
  if (pipe != nullptr) pclose(pipe);
  return text;
}

constexpr char kSound[] = BP_FAKES_DIR "/sound --slowness 6 ";

TEST(Runner_Progress, EndsWithAllRows) {
  RunOptions options = test_options();
  std::vector<std::pair<size_t, size_t>> told;
  options.on_progress = [&](size_t done, size_t total) { told.emplace_back(done, total); };
  const DeviceRows device = run({device_case("one", passes), device_case("two", passes)}, options);
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.back(), std::make_pair(device.rows.size(), device.rows.size()));
  for (const auto& [done, total] : told) {
    EXPECT_LE(done, total);
    EXPECT_EQ(total, device.rows.size());
  }
}

TEST(Runner_Report, OutputThatIsNoUtf8_IsReplaced) {
  const std::vector<Case> cases = {device_case("garbage", [](Context&) {
    std::fputs("\xff\xfe", stderr);
    std::raise(SIGKILL);
  })};
  const DeviceRows device = run(cases);
  const nlohmann::json report = nlohmann::json::parse(report_json({&device, 1}, 1));
  const std::string words = report["devices"][0]["failures"][0]["words"];
  EXPECT_NE(words.find("\xef\xbf\xbd"), std::string::npos) << words;
}

TEST(Command_ExitCode, IsTheDesigns) {
  const std::string sound = kSound;
  EXPECT_EQ(exit_code_of(sound + "--filter L0.entry.null_out"), 0);
  EXPECT_EQ(exit_code_of(BP_FAKES_DIR "/sound/libbackplane_sound.so --filter L0.entry"), 0);
  EXPECT_EQ(exit_code_of(sound + "--filter 'L2.copy.overlapping.*' --emulate one_call"), 0);
  EXPECT_EQ(exit_code_of(sound + "--filter L0.device.two_are_apart"), 1) << "nothing was run";
  EXPECT_EQ(exit_code_of(sound + "--filter L9.no.such_case"), 2);
  EXPECT_EQ(exit_code_of(sound + "--level 1 --filter L0.entry.null_out"), 2) << "of no level given";
  EXPECT_EQ(exit_code_of(sound + "--level 9"), 2);
  EXPECT_EQ(exit_code_of(sound + "--emulate telepathy"), 2);
  EXPECT_EQ(exit_code_of(sound + "--options no_such=1"), 2);
  EXPECT_EQ(exit_code_of(sound + "--options devices=many"), 2);
  EXPECT_EQ(exit_code_of(sound + "--filter L0.entry.null_out --device 9"), 2);
  EXPECT_EQ(exit_code_of(sound + "--filter L0.entry.null_out --options other.devices=1"), 2);
  EXPECT_EQ(exit_code_of("/nowhere"), 2);
  EXPECT_EQ(exit_code_of(BP_FAKES_DIR "/sound/libbackplane_sound.backplane.json"), 2);
  EXPECT_EQ(exit_code_of("--no-such-option"), 2);
  EXPECT_EQ(exit_code_of(""), 2);
  EXPECT_EQ(exit_code_of(BP_FAKES_DIR "/absent"), 3);
  EXPECT_EQ(exit_code_of(sound + "--filter L0.entry.null_out --junit /no/such/folder/x.xml"), 3);
  EXPECT_EQ(exit_code_of(BP_FAKES_DIR "/half_band"), 1);
}

TEST(Command_Errors, NameWhatIsUnknown) {
  const std::string sound = kSound;
  for (const char* word : {"L9.no.such_case", "telepathy", "no_such"}) {
    const std::string given = std::string(word);
    const std::string option = given == "telepathy" ? "--emulate "
                               : given == "no_such" ? "--options no_such=1 "
                                                    : "--filter ";
    const std::string output = output_of(sound + option + (given == "no_such" ? "" : given));
    EXPECT_NE(output.find(word), std::string::npos) << output;
  }
}

TEST(Command_Errors, AreInOurWords) {
  const std::string sound = kSound;
  const std::string see = "\nSee `bp-conform --help`.\n";
  EXPECT_EQ(output_of("--leve 3"),
            "bp-conform: unknown option '--leve'; did you mean --level?" + see);
  EXPECT_EQ(output_of(sound + "--level 9"),
            "bp-conform: --level: expected a whole number from 0 to 4, found '9'" + see);
  EXPECT_EQ(output_of(sound + "--jobs many"),
            "bp-conform: --jobs: expected a whole number from 1 to 64, found 'many'" + see);
  EXPECT_EQ(output_of(sound + "--deadline 0"),
            "bp-conform: --deadline: expected a number above 0, found '0'" + see);
  EXPECT_EQ(output_of(""), "bp-conform: PLUGIN is missing" + see);
  EXPECT_NE(output_of(sound + "--options devics=2").find("did you mean devices?"),
            std::string::npos);
}

TEST(Command_Help, HasVersionAndDefaults) {
  EXPECT_TRUE(output_of("--version").starts_with("bp-conform 0."));
  const std::string help = output_of("--help");
  for (const char* word : {"--version", "--jobs N=1 ", "--deadline NUMBER=10 ",
                           "--slowness NUMBER=1 ", "--batch N=32 ", "--device N=0 "}) {
    EXPECT_NE(help.find(word), std::string::npos) << help;
  }
}

TEST(Command_Errors, PluginThatTheCoreLeavesOut_HasOneStatusAndTheReason) {
  const std::string output = output_of(BP_FAKES_DIR "/half_band");
  EXPECT_TRUE(
      output.starts_with("bp-conform: INTERNAL: the core leaves half_band out at step "
                         "validate: table memory"))
      << output;
  EXPECT_EQ(output.find("tell its vendor"), std::string::npos) << output;
}

TEST(Command_List, FollowsLevelsAndFilters) {
  const std::string level3 = output_of("--list --level 3 --filter L3.relu.f32");
  EXPECT_TRUE(level3.starts_with("L3.relu.f32.matrix\n")) << level3;
  EXPECT_EQ(level3.find("L0."), std::string::npos);
}

TEST(Command_Json, CountsLevelsAndNamesTheWrongKernel) {
  const auto report = nlohmann::json::parse(
      output_of(BP_FAKES_DIR "/wrong_kernels --slowness 6 --level 3 --json --filter L3.relu.f32 "
                             "--filter L3.add.f32 --options device_fault=relu_negates"));
  const nlohmann::json& device = report["devices"].at(0);
  EXPECT_GT(report["failed"], 0);
  EXPECT_GT(report["passed"], 0);
  EXPECT_EQ(device["level_3"]["total"], report["total"]);
  EXPECT_EQ(device["level_0"]["total"], 0);
  const std::string repeat = device["failures"].at(0)["repeat"];
  EXPECT_NE(repeat.find("--filter L3.relu.f32.matrix --options wrong_kernels.device_fault=relu"),
            std::string::npos)
      << repeat;
}

TEST(Command_JUnit, HasARowForEachCase) {
  const TempFolder folder;
  const std::string path = folder.path("junit.xml");
  EXPECT_EQ(
      exit_code_of(kSound + ("--filter L0.entry --filter L0.device.two_are_apart --junit " + path)),
      0);
  std::ifstream file(path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT_NE(text.find("<testsuite name=\"sound:0\""), std::string::npos) << text;
  EXPECT_NE(text.find("name=\"L0.entry.null_out\"/>"), std::string::npos) << text;
  EXPECT_NE(text.find("<skipped message=\"UNSUPPORTED: "), std::string::npos) << text;
}

}  // namespace
}  // namespace bp::conform
