// SPDX-License-Identifier: Apache-2.0
//
// A process that has more rights than its user: everything that the user controls is set to lead to
// a planted plugin, and none of it may be looked at. Needs root, to make the set-user-ID copy.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "core/base/temp_folder_test.hpp"
#include "tests/lifecycle/child.hpp"

namespace bp::life {
namespace {

using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

constexpr uid_t kNobody = 65534;

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// <folder>/bin/probe with an installation beside it that has the plugin `good`, and <folder>/evil
/// with the same plugin by the name `silent_band`: nobody's business to load it.
class Privileges : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
    fs::create_directories(folder_.path("bin"));
    fs::copy_file(BP_PRIVILEGE_PROBE, probe_);
    fs::create_directories(install_);
    fs::copy(BP_FAKES_DIR "/good", install_ + "/good");
    fs::copy(BP_FAKES_DIR "/silent_band", folder_.path("evil"));
    folder_.write("evil/config.json", R"({"options": {"nobody.knows": "1"}})");
  }

  static void give_to_nobody(const std::string& program) {
    ASSERT_EQ(chown(program.c_str(), kNobody, kNobody), 0);
    ASSERT_EQ(chmod(program.c_str(), 04755), 0);
  }
  void raise() {
    if (geteuid() != 0) GTEST_SKIP() << "only root can make a set-user-ID copy for another user";
    give_to_nobody(probe_);
    if (run({}).output.find("secure 1\n") == std::string::npos) {
      GTEST_SKIP() << "the set-user-ID bit has no effect in " << folder_.path()
                   << " (mounted nosuid, or no new privileges)";
    }
  }

  /// With every variable leading to the planted plugin, or to an error.
  ChildResult run_misled(const std::string& plugin_path = "") {
    ChildArgs args;
    args.environment = {{"BACKPLANE_PLUGIN_PATH", folder_.path("evil")},
                        {"BACKPLANE_CONFIG", folder_.path("evil/config.json")},
                        {"BACKPLANE_PLUGIN_OPTIONS", "good.fault=init_throws"},
                        {"BACKPLANE_FALLBACK", "no such mode"},
                        {"LD_LIBRARY_PATH", folder_.path("evil")},
                        {"HOME", folder_.path("evil")},
                        {"XDG_CONFIG_HOME", folder_.path("evil")},
                        {"XDG_DATA_HOME", folder_.path("evil")}};
    if (!plugin_path.empty()) args.command.push_back(plugin_path);
    return run(std::move(args));
  }
  ChildResult run(ChildArgs args) {
    args.command.insert(args.command.begin(), probe_);
    return run_here(std::move(args));
  }
  ChildResult run_here(ChildArgs args) {
    args.folder = folder_.path("evil");
    // A process with raised privileges cannot be traced, and so not searched for leaks.
    args.environment.emplace_back("ASAN_OPTIONS", "detect_leaks=0");
    return run_child(args);
  }

  const TempFolder folder_;
  const std::string probe_ = folder_.path("bin/probe");
  const std::string install_ = folder_.path("lib/backplane/plugins");
};

/// The control: without raised privileges the environment is obeyed.
TEST_F(Privileges, Environment_OfAnOrdinaryProcess_IsObeyed) {
  ChildArgs args;
  args.environment = {{"BACKPLANE_PLUGIN_PATH", folder_.path("evil")}};
  const ChildResult plain = run(std::move(args));
  EXPECT_THAT(plain.output, HasSubstr("secure 0\n"));
  EXPECT_THAT(plain.output, HasSubstr("device silent_band:0\n"));
  EXPECT_THAT(plain.output, HasSubstr("device good:0\n"));
  const ChildResult misled = run_misled();
  EXPECT_EQ(misled.exit_code, 1) << misled.describe();
  EXPECT_THAT(misled.output, HasSubstr("BACKPLANE_FALLBACK: expected one of"));
}

/// A library that is found by its bare name, on the system's path or in the working folder, is not
/// the one beside the manifest.
TEST_F(Privileges, LibraryPath_WithALibraryOfTheSameName_IsNotSearched) {
  fs::copy_file(BP_FAKES_DIR "/absent/libbackplane_absent.so",
                folder_.path("evil/libbackplane_good.so"));
  ChildArgs args;
  args.environment = {{"LD_LIBRARY_PATH", folder_.path("evil") + ":.:"}};
  const ChildResult result = run(std::move(args));
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  EXPECT_THAT(result.output, HasSubstr("device good:0\n"));
}

TEST_F(Privileges, Environment_OfARaisedProcess_IsIgnoredWithOneLine) {
  raise();
  if (IsSkipped() || HasFatalFailure()) return;
  const ChildResult result = run_misled();
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  EXPECT_THAT(result.output, HasSubstr("secure 1\n"));
  EXPECT_THAT(result.output, HasSubstr("device good:0\n"));
  EXPECT_THAT(result.output, Not(HasSubstr("silent_band")));
  EXPECT_EQ(count(result.output, "raised privileges"), 1u) << result.output;
  EXPECT_THAT(result.output, HasSubstr("BACKPLANE_* environment variables are ignored"));
}

TEST_F(Privileges, PluginPathOfTheApplication_IsNotSearchedAndSaysSo) {
  raise();
  if (IsSkipped() || HasFatalFailure()) return;
  ChildArgs args;
  args.command = {folder_.path("evil")};
  const ChildResult result = run(std::move(args));
  EXPECT_EQ(result.exit_code, 0) << result.describe();
  EXPECT_THAT(result.output, HasSubstr("skipped " + folder_.path("evil") +
                                       " skipped at discover: INVALID_ARGUMENT: " +
                                       folder_.path("evil") + " is not searched"));
  EXPECT_THAT(result.output, Not(HasSubstr("device silent_band")));
}

/// The effective user's own files are not root's.
TEST_F(Privileges, InstalledPlugin_OfTheEffectiveUser_IsRefused) {
  raise();
  if (IsSkipped() || HasFatalFailure()) return;
  const std::string library = install_ + "/good/libbackplane_good.so";
  ASSERT_EQ(chown(library.c_str(), kNobody, 0), 0);
  const ChildResult result = run({});
  EXPECT_THAT(result.output, Not(HasSubstr("device good:0")));
  EXPECT_THAT(result.output,
              HasSubstr("libbackplane_good.so belongs to user 65534, expected root"));
}

TEST_F(Privileges, FolderAboveTheInstallation_AtAnyDepth_IsChecked) {
  raise();
  if (IsSkipped() || HasFatalFailure()) return;
  for (const char* depth :
       {"", "lib", "lib/backplane", "lib/backplane/plugins", "lib/backplane/plugins/good"}) {
    const std::string place = *depth == 0 ? folder_.path() : folder_.path(depth);
    ASSERT_EQ(chmod(place.c_str(), 0777), 0);
    const ChildResult result = run({});
    ASSERT_EQ(chmod(place.c_str(), 0755), 0);
    EXPECT_THAT(result.output, Not(HasSubstr("device good:0"))) << place;
    EXPECT_THAT(result.output,
                HasSubstr("not trusted: " + place + " can be written by everyone (mode 0777)"));
  }
  EXPECT_THAT(run({}).output, HasSubstr("device good:0"));
}

/// In a copy of this program, with a copy of libbackplane.so beside it: what a process is told that
/// asks which rank it is.
TEST(PrivilegedJob, DISABLED_IsAskedFor) {
  const fs::path library = fs::read_symlink("/proc/self/exe").replace_filename("libbackplane.so");
  void* const opened = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(opened, nullptr) << dlerror();
  const auto create = reinterpret_cast<int32_t (*)(void**)>(dlsym(opened, "bpa_ccl_job_create"));
  const auto last_error = reinterpret_cast<const char* (*)()>(dlsym(opened, "bpa_last_error"));
  void* job = nullptr;
  const int32_t status = create(&job);
  std::printf("secure %d, job %d: %s\n", getauxval(AT_SECURE) != 0 ? 1 : 0, status,
              status == 0 ? "made" : last_error());
}

/// A launcher's variables would name a folder, a file and a host to go to.
TEST_F(Privileges, JobOfALauncher_IsNotAskedForInARaisedProcess) {
  const std::string program = folder_.path("bin/job");
  fs::copy_file(fs::read_symlink("/proc/self/exe"), program);
  fs::copy_file(BP_LIBRARY, folder_.path("bin/libbackplane.so"));
  const auto ask = [&](const char* rank) {
    ChildArgs args;
    args.command = {program, "--gtest_also_run_disabled_tests", "--gtest_filter=PrivilegedJob.*"};
    args.environment = {{"BACKPLANE_CCL_RANK", rank}, {"BACKPLANE_CCL_RANK_COUNT", "1"}};
    return run_here(std::move(args)).output;
  };
  EXPECT_THAT(ask("0"), HasSubstr("secure 0, job 0: made"));
  EXPECT_THAT(ask("77"), HasSubstr("BACKPLANE_CCL_RANK"));
  raise();
  if (IsSkipped() || HasFatalFailure()) return;
  give_to_nobody(program);
  for (const char* const rank : {"0", "77"}) {
    EXPECT_THAT(ask(rank),
                HasSubstr("secure 1, job " + std::to_string(BP_UNAVAILABLE) +
                          ": the process runs with raised privileges, so that its environment"));
  }
}

}  // namespace
}  // namespace bp::life
