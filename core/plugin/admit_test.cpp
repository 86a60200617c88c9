// SPDX-License-Identifier: Apache-2.0
//
// What is refused before foreign code runs: versions, sanitizers, and files that others could have
// put there. Tests that need another owner run only as root.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/plugin/load_steps.hpp"
#include "core/plugin/plugin_tree_test.hpp"

namespace bp {
namespace {

using testing::HasSubstr;

struct AbiCase {
  const char* plugin_min;
  const char* plugin_built;
  uint32_t core_min;
  uint32_t core_max;
  uint32_t semantics;  // 0: refused
  const char* words;
};

class AdmitAbi : public testing::TestWithParam<AbiCase> {};

TEST_P(AdmitAbi, LoadPlugins_AbiRanges_OverlapOrAreRefused) {
  const AbiCase& c = GetParam();
  PluginTree tree;
  ManifestText text;
  text.abi_min = c.plugin_min;
  text.abi_built = c.plugin_built;
  tree.add("good", "", "good", text);
  LoadOptions options = tree.options();
  options.abi_min = c.core_min;
  options.abi_max = c.core_max;
  const PluginSet set = load_plugins(options);
  if (c.semantics != 0) {
    ASSERT_EQ(set.plugins.size(), 1u);
    EXPECT_EQ(set.plugins[0]->abi_semantics(), c.semantics);
    return;
  }
  ASSERT_EQ(set.skipped.size(), 1u);
  EXPECT_EQ(set.skipped[0].step, PluginStep::kAdmit);
  EXPECT_EQ(set.skipped[0].reason.code(), BP_INCOMPATIBLE);
  EXPECT_EQ(set.skipped[0].reason.message(), c.words);
  EXPECT_EQ(set.skipped[0].next_action(), "Install releases that fit together.");
}

INSTANTIATE_TEST_SUITE_P(
    Ranges, AdmitAbi,
    testing::Values(
        AbiCase{"0.2", "0.2", BP_ABI_VERSION(0, 2), BP_ABI_VERSION(0, 2), BP_ABI_VERSION(0, 2), ""},
        AbiCase{"0.1", "3.0", BP_ABI_VERSION(0, 1), BP_ABI_VERSION(1, 2), BP_ABI_VERSION(1, 2), ""},
        AbiCase{"0.1", "0.9", BP_ABI_VERSION(0, 9), BP_ABI_VERSION(1, 2), BP_ABI_VERSION(0, 9), ""},
        AbiCase{"1.2", "3.0", BP_ABI_VERSION(0, 1), BP_ABI_VERSION(1, 2), BP_ABI_VERSION(1, 2), ""},
        AbiCase{"1.3", "3.0", BP_ABI_VERSION(0, 1), BP_ABI_VERSION(1, 2), 0,
                "the plugin needs ABI 1.3 or newer, this core has up to 1.2"},
        AbiCase{"0.1", "0.8", BP_ABI_VERSION(0, 9), BP_ABI_VERSION(1, 2), 0,
                "the plugin was built for ABI 0.8, this core has 0.9 and newer"},
        AbiCase{"0.1", "0.1", BP_ABI_CORE_MIN, BP_ABI_CURRENT, 0,
                "the plugin was built for ABI 0.1, this core has 0.2 and newer"},
        AbiCase{"0.1", "0.2", BP_ABI_CORE_MIN, BP_ABI_CURRENT, BP_ABI_VERSION(0, 2), ""}));

PluginSet load_with_kinds(const BuildKind& plugin, const BuildKind& core) {
  PluginTree tree;
  ManifestText text;
  text.sanitizer = plugin.sanitizer;
  text.compiler = plugin.compiler;
  tree.add("good", "", "good", text);
  LoadOptions options = tree.options();
  options.build = core;
  return load_plugins(options);
}

TEST(Admit, LoadPlugins_SanitizerOfAnotherKindOrCompiler_IsRefused) {
  const BuildKind core[] = {{"none", "gcc"}, {"thread", "gcc"}, {"address", "clang"}};
  for (const BuildKind& kind : core) {
    const PluginSet set = load_with_kinds({"address", "gcc"}, kind);
    ASSERT_EQ(set.skipped.size(), 1u);
    EXPECT_EQ(set.skipped[0].reason.to_string(),
              "INCOMPATIBLE: the plugin was built with sanitizer address by gcc, this core with " +
                  kind.sanitizer + " by " + kind.compiler);
  }
}

TEST(Admit, LoadPlugins_PlainOrAlikePlugin_Loads) {
  // The fake of a sanitizer's build really needs that sanitizer.
  const std::string real = BP_TEST_SANITIZER;
  const std::string core = real == "none" ? "address" : real;
  EXPECT_EQ(load_with_kinds({"none", "clang"}, {core, "gcc"}).plugins.size(), 1u);
  EXPECT_EQ(load_with_kinds({core, "clang"}, {core, "clang"}).plugins.size(), 1u);
}

TEST(Admit, CoreBuildKind_InThisBuild_AgreesWithCMake) {
  EXPECT_EQ(core_build_kind().sanitizer, BP_TEST_SANITIZER);
  EXPECT_EQ(core_build_kind().compiler, BP_TEST_COMPILER);
}

class AdmitTrust : public testing::Test {
 protected:
  AdmitTrust() : library_(tree_.add("good")), manifest_(library_) {
    manifest_.replace(manifest_.size() - 3, 3, ".backplane.json");
  }
  /// The only plugin's refusal; empty: it was loaded.
  std::string refusal(bool privileged = false) {
    LoadOptions options = tree_.options();
    if (privileged) {
      options.privileged = true;
      options.install_directory = tree_.path();
      options.search_path.clear();
    }
    const PluginSet set = load_plugins(options);
    if (set.skipped.empty()) return "";
    EXPECT_EQ(set.skipped[0].step, PluginStep::kAdmit);
    EXPECT_EQ(set.skipped[0].id, "good");
    return set.skipped[0].reason.message() + ". " + set.skipped[0].next_action();
  }
  PluginTree tree_;
  std::string library_;
  std::string manifest_;
};

TEST_F(AdmitTrust, LoadPlugins_WritableByEveryone_IsRefusedAnywhereUpToTheEntry) {
  EXPECT_EQ(refusal(), "");
  const std::string places[] = {library_, manifest_, tree_.path("good"), tree_.path()};
  for (const std::string& place : places) {
    const bool is_folder = std::filesystem::is_directory(place);
    ASSERT_EQ(chmod(place.c_str(), 0777), 0);
    EXPECT_EQ(refusal(), "not trusted: " + place +
                             " can be written by everyone (mode 0777). If you trust it, correct "
                             "owner and mode (chown, chmod); else remove it.");
    ASSERT_EQ(chmod(place.c_str(), is_folder ? 0755 : 0644), 0);
  }
  EXPECT_EQ(refusal(), "");
}

TEST_F(AdmitTrust, LoadPlugins_StickyFolder_IsTrustedButAStickyFileIsNot) {
  ASSERT_EQ(chmod(tree_.path("good").c_str(), 01777), 0);
  EXPECT_EQ(refusal(), "");
  ASSERT_EQ(chmod(library_.c_str(), 01666), 0);
  EXPECT_THAT(refusal(), HasSubstr("can be written by everyone (mode 1666)"));
}

TEST_F(AdmitTrust, LoadPlugins_FolderAboveTheEntry_DoesNotMatter) {
  ASSERT_EQ(chmod(tree_.path().c_str(), 0777), 0);
  LoadOptions options = tree_.options();
  options.search_path = {tree_.path("good")};
  EXPECT_EQ(load_plugins(options).plugins.size(), 1u);
}

TEST_F(AdmitTrust, LoadPlugins_ForeignOwner_IsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  for (const std::string& place : {library_, manifest_, tree_.path("good"), tree_.path()}) {
    ASSERT_EQ(chown(place.c_str(), kNobody, 0), 0);
    EXPECT_THAT(refusal(), HasSubstr("not trusted: " + place +
                                     " belongs to user 65534, expected root, the current user or "
                                     "Backplane's owner"));
    ASSERT_EQ(chown(place.c_str(), 0, 0), 0);
  }
}

TEST_F(AdmitTrust, LoadPlugins_ForeignGroup_MayReadButNotWrite) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  ASSERT_EQ(chown(library_.c_str(), 0, kNobody), 0);
  EXPECT_EQ(refusal(), "");
  ASSERT_EQ(chmod(library_.c_str(), 0664), 0);
  EXPECT_THAT(refusal(), HasSubstr("can be written by group 65534 (mode 0664)"));
  ASSERT_EQ(chown(library_.c_str(), 0, 0), 0);
  EXPECT_EQ(refusal(), "") << "root's own group may write";
}

TEST_F(AdmitTrust, LoadPlugins_Link_IsCheckedWhereItLeads) {
  PluginTree elsewhere;
  const std::string target = elsewhere.add_library("good", "x", "real");
  std::filesystem::remove(library_);
  std::filesystem::create_symlink(target, library_);
  ASSERT_EQ(chmod(elsewhere.path("x").c_str(), 0777), 0);
  EXPECT_THAT(refusal(), HasSubstr("not trusted: " + elsewhere.path("x") + " can be written"));
  ASSERT_EQ(chmod(elsewhere.path("x").c_str(), 0755), 0);
  const PluginSet set = load_plugins(tree_.options());
  ASSERT_EQ(set.plugins.size(), 1u);
  EXPECT_EQ(set.plugins[0]->path(), target);
}

TEST_F(AdmitTrust, LoadPlugins_LinkLoop_IsRefused) {
  std::filesystem::remove(library_);
  std::filesystem::create_symlink(library_ + "2", library_);
  std::filesystem::create_symlink(library_, library_ + "2");
  EXPECT_THAT(refusal(), HasSubstr("Too many levels of symbolic links"));
}

TEST_F(AdmitTrust, LoadPlugins_Privileged_IgnoresTheSearchPath) {
  LoadOptions options = tree_.options();
  options.privileged = true;
  const PluginSet set = load_plugins(options);
  EXPECT_TRUE(set.plugins.empty());
  ASSERT_EQ(set.skipped.size(), 1u);
  EXPECT_EQ(set.skipped[0].step, PluginStep::kDiscover);
  EXPECT_EQ(set.skipped[0].reason.message(),
            tree_.path() + " is not searched: the process runs with raised privileges");
}

TEST_F(AdmitTrust, LoadPlugins_Privileged_ChecksUpToTheRootForRootOnly) {
  if (geteuid() != 0) {
    EXPECT_THAT(refusal(true), HasSubstr("expected root"));
    GTEST_SKIP() << "the rest needs files that belong to root";
  }
  PluginTree outer;  // a place above the entry that is not trusted
  std::filesystem::create_directory(outer.path("mid"));
  std::filesystem::rename(tree_.path("good"), outer.path("mid/good"));
  ASSERT_EQ(chmod(outer.path().c_str(), 0777), 0);
  LoadOptions options;
  options.install_directory = outer.path("mid");
  options.privileged = true;
  PluginSet set = load_plugins(options);
  ASSERT_EQ(set.skipped.size(), 1u);
  EXPECT_THAT(set.skipped[0].reason.message(), HasSubstr(outer.path() + " can be written"));
  ASSERT_EQ(chmod(outer.path().c_str(), 0755), 0);
  const PluginSet trusted = load_plugins(options);
  EXPECT_EQ(trusted.plugins.size(), 1u)
      << (trusted.skipped.empty() ? "" : trusted.skipped[0].to_string());
}

TEST_F(AdmitTrust, OpenLibrary_SwappedAfterItsCheck_IsRefused) {
  PluginSet set;
  const LoadOptions options = tree_.options();
  std::vector<Attempt> attempts = discover(options, &set);
  ASSERT_EQ(attempts.size(), 1u);
  Attempt& attempt = attempts[0];
  ASSERT_TRUE(read_manifest(&attempt).ok());
  ASSERT_TRUE(admit(&attempt).ok());
  const std::string other = tree_.add_library("absent", "good", "other");
  std::filesystem::rename(other, library_);
  const Status status = open_library(&attempt);
  EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT);
  EXPECT_EQ(status.message(), library_ + " was replaced between its check and its opening");
}

TEST(Discover, Discover_RelativeEntry_IsRefusedByName) {
  PluginTree tree;
  tree.add("good");
  const auto here = std::filesystem::current_path();
  std::filesystem::current_path(tree.path());  // planted in the working directory
  LoadOptions options = tree.options();
  options.search_path = {".", "good", ""};
  const PluginSet set = load_plugins(options);
  std::filesystem::current_path(here);
  EXPECT_TRUE(set.plugins.empty());
  ASSERT_EQ(set.skipped.size(), 3u);
  EXPECT_EQ(set.skipped[0].to_string(),
            ". skipped at discover: INVALID_ARGUMENT: '.' is not an absolute path. Correct the "
            "search path.");
  EXPECT_EQ(set.skipped[1].reason.message(), "'good' is not an absolute path");
  EXPECT_EQ(set.skipped[2].reason.message(), "'' is not an absolute path");
}

TEST(Discover, Discover_UnusableEntries_AreSkippedAndOthersSearched) {
  PluginTree tree;
  tree.add("good");
  tree.write("file", "x");
  std::filesystem::create_symlink("loop", tree.path("loop"));
  LoadOptions options = tree.options();
  options.search_path = {tree.path("missing"), tree.path("file"), tree.path("loop"), tree.path()};
  const PluginSet set = load_plugins(options);
  EXPECT_EQ(set.plugins.size(), 1u);
  ASSERT_EQ(set.skipped.size(), 3u);
  EXPECT_THAT(set.skipped[0].reason.message(), HasSubstr("No such file"));
  EXPECT_THAT(set.skipped[1].reason.message(), HasSubstr("Not a directory"));
  EXPECT_THAT(set.skipped[2].reason.message(), HasSubstr("Too many levels of symbolic links"));
}

TEST(Discover, DefaultInstallDirectory_OfAProgramInBin_IsBesideBin) {
  const std::filesystem::path program = std::filesystem::canonical("/proc/self/exe");
  std::filesystem::path bin = program.parent_path();
  while (bin.has_relative_path() && bin.filename() != "bin") bin = bin.parent_path();
  EXPECT_EQ(default_install_directory(),
            (bin.parent_path() / "lib" / "backplane" / "plugins").string());
}

}  // namespace
}  // namespace bp
