// SPDX-License-Identifier: Apache-2.0
//
// Files that somebody else may have arranged: each mode at each depth, things that are no files,
// files that change under the loader's eyes, libraries planted where the system might look first,
// and manifests as large and as odd as the limits allow.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "core/plugin/load_steps.hpp"
#include "core/plugin/plugin_tree_test.hpp"

namespace bp {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

struct BadMode {
  mode_t mode;
  gid_t group;        // needs root if it is not ours
  const char* words;  // "" : trusted
};

void PrintTo(const BadMode& bad, std::ostream* out) { *out << std::oct << bad.mode; }

class HostileMode : public testing::TestWithParam<BadMode> {
 protected:
  /// The only plugin's refusal with `place` as the parameter says; empty: it was loaded.
  static std::string refusal(const LoadOptions& options, const std::string& place) {
    struct stat before {};
    EXPECT_EQ(stat(place.c_str(), &before), 0);
    if (GetParam().group != 0) {
      EXPECT_EQ(chown(place.c_str(), 0, GetParam().group), 0);
    }
    EXPECT_EQ(chmod(place.c_str(), GetParam().mode), 0);
    const PluginSet set = load_plugins(options);
    EXPECT_EQ(chown(place.c_str(), before.st_uid, before.st_gid), 0);
    EXPECT_EQ(chmod(place.c_str(), before.st_mode & 07777), 0);
    EXPECT_EQ(set.plugins.size() + set.skipped.size(), 1u);
    return set.skipped.empty() ? "" : set.skipped[0].reason.message();
  }
  static void expect_refused(const std::string& found, const std::string& place) {
    const std::string words = GetParam().words;
    if (words.empty()) {
      EXPECT_EQ(found, "") << place;
    } else {
      EXPECT_THAT(found, HasSubstr("not trusted: " + place + " " + words));
    }
  }
};

TEST_P(HostileMode, LoadPlugins_FolderAtAnyDepthBelowTheEntry_IsCheckedByItsMode) {
  if (GetParam().group != 0 && geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  PluginTree tree;
  const std::string library = tree.add("good");
  for (const std::string& place : {tree.path(), tree.path("good")}) {
    expect_refused(refusal(tree.options(), place), place);
  }
  const std::string manifest = library.substr(0, library.size() - 3) + ".backplane.json";
  for (const std::string& place : {library, manifest}) {
    // A sticky bit on a file protects nothing.
    const std::string found = refusal(tree.options(), place);
    EXPECT_THAT(found, HasSubstr("not trusted: " + place + " can be written by")) << found;
  }
}

/// The real folder of a link lies elsewhere: every folder up to the root counts.
TEST_P(HostileMode, LoadPlugins_FolderOnTheWayToALinkedLibrary_IsCheckedByItsMode) {
  if (GetParam().group != 0 && geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  PluginTree tree;
  PluginTree elsewhere;
  const std::string library = tree.add("good");
  const std::string target = elsewhere.add_library("good", "a/b/c", "real");
  std::filesystem::remove(library);
  std::filesystem::create_symlink(target, library);
  for (const char* depth : {"", "a", "a/b", "a/b/c"}) {
    const std::string place = elsewhere.path(depth);
    expect_refused(refusal(tree.options(), place), place);
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, HostileMode,
                         testing::Values(BadMode{0777, 0, "can be written by everyone (mode 0777)"},
                                         BadMode{0757, 0, "can be written by everyone (mode 0757)"},
                                         BadMode{0703, 0, "can be written by everyone (mode 0703)"},
                                         BadMode{0775, kNobody,
                                                 "can be written by group 65534 (mode 0775)"},
                                         BadMode{01777, 0, ""}, BadMode{01775, kNobody, ""}),
                         [](const auto& test) {
                           char name[16];
                           std::snprintf(name, sizeof(name), "Mode%04o", test.param.mode);
                           return std::string(name);
                         });

TEST(HostileFiles, LoadPlugins_LinkedFolder_IsTrustedByWhereItLeads) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  PluginTree tree;
  PluginTree elsewhere;
  elsewhere.add("good");
  std::filesystem::create_symlink(elsewhere.path("good"), tree.path("linked"));
  EXPECT_EQ(load_plugins(tree.options()).plugins.size(), 1u);
  ASSERT_EQ(chown(elsewhere.path().c_str(), kNobody, 0), 0);
  const PluginSet set = load_plugins(tree.options());
  ASSERT_EQ(set.skipped.size(), 1u);
  EXPECT_THAT(set.skipped[0].reason.message(),
              HasSubstr("not trusted: " + elsewhere.path() + " belongs to user 65534"));
}

TEST(HostileFiles, LoadPlugins_HardLinkToAnothersFile_IsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  PluginTree tree;
  PluginTree theirs;
  const std::string library = tree.add("good");
  const std::string evil = theirs.add("good");
  ASSERT_EQ(chown(evil.c_str(), kNobody, 0), 0);
  std::filesystem::remove(library);
  std::filesystem::create_hard_link(evil, library);
  const PluginSet set = load_plugins(tree.options());
  ASSERT_EQ(set.skipped.size(), 1u);
  EXPECT_THAT(set.skipped[0].reason.message(), HasSubstr(library + " belongs to user 65534"));
}

/// Each thing of the file system that is no regular file, under both names.
void make_special(const std::string& kind, const std::string& path) {
  if (kind == "folder") {
    std::filesystem::create_directory(path);
  } else if (kind == "pipe") {
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  } else if (kind == "device") {
    std::filesystem::create_symlink("/dev/zero", path);
  } else if (kind == "socket") {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    ASSERT_LT(path.size(), sizeof(address.sun_path));
    path.copy(address.sun_path, path.size());
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    close(fd);
  }
}

class HostileKind : public testing::TestWithParam<const char*> {};

TEST_P(HostileKind, LoadPlugins_LibraryThatIsNoRegularFile_IsRefusedWithoutOpeningIt) {
  PluginTree tree;
  const std::string library = tree.add("good");
  std::filesystem::remove(library);
  make_special(GetParam(), library);
  const PluginSet set = load_plugins(tree.options());
  ASSERT_EQ(set.skipped.size(), 1u);
  EXPECT_EQ(set.skipped[0].step, PluginStep::kAdmit);
  // /dev/zero may be written by everyone: its mode is looked at first.
  EXPECT_THAT(set.skipped[0].reason.message(),
              AnyOf(HasSubstr("is not a regular file"), HasSubstr("/dev/zero can be")));
}

TEST_P(HostileKind, LoadPlugins_ManifestThatIsNoRegularFile_IsRefusedWithoutOpeningIt) {
  PluginTree tree;
  tree.add("good");
  make_special(GetParam(), tree.path("libodd.backplane.json"));
  const PluginSet set = load_plugins(tree.options());
  EXPECT_EQ(set.plugins.size(), 1u);
  ASSERT_EQ(set.skipped.size(), 1u);
  EXPECT_EQ(set.skipped[0].step, PluginStep::kManifest);
  EXPECT_THAT(set.skipped[0].reason.message(), HasSubstr("is not a regular file"));
}

INSTANTIATE_TEST_SUITE_P(Kinds, HostileKind, testing::Values("folder", "pipe", "device", "socket"),
                         [](const auto& test) { return std::string(test.param); });

/// Two files change places while the loader works. It loads the one that its manifest means, or
/// says what it met: the other one, whole, which init tells by its words; or a change under its
/// eyes.
TEST(HostileFiles, LoadPlugins_SwappedAgainAndAgain_NeverTakesOneForTheOther) {
  PluginTree tree;
  const std::string library = tree.add("good");
  const std::string other = tree.add_library("absent", "other", "other");
  const auto swap = [&] {
    return syscall(SYS_renameat2, AT_FDCWD, library.c_str(), AT_FDCWD, other.c_str(),
                   RENAME_EXCHANGE) == 0;
  };
  if (!swap() || !swap()) GTEST_SKIP() << "this file system cannot exchange two files";
  std::atomic<bool> stop{false};
  std::atomic<int> swaps{0};
  std::thread swapper([&] {
    while (!stop && swap()) {
      std::this_thread::sleep_for(std::chrono::microseconds(++swaps % 16 * 100));
    }
  });
  int loaded = 0;
  int others = 0;
  int caught = 0;
  for (int i = 0; i < 200; ++i) {
    const PluginSet set = load_plugins(tree.options());
    loaded += static_cast<int>(set.plugins.size());
    for (const SkippedPlugin& skipped : set.skipped) {
      const std::string words = skipped.reason.message();
      const bool is_other = words.find("no fake accelerator") != std::string::npos;
      EXPECT_TRUE(is_other || words.ends_with("was replaced between its check and its opening"))
          << words;
      others += is_other ? 1 : 0;
      caught += is_other ? 0 : 1;
    }
  }
  stop = true;
  swapper.join();
  std::printf("%d swaps, %d loaded, %d others, %d caught\n", swaps.load(), loaded, others, caught);
  EXPECT_EQ(loaded + others + caught, 200);
  // Whatever was mapped on the way, now each path is the file that it is.
  const bool is_good = load_plugins(tree.options()).plugins.size() == 1;
  ASSERT_TRUE(swap());
  EXPECT_EQ(load_plugins(tree.options()).plugins.size(), is_good ? 0u : 1u);
}

/// The file that is looked at need not be the one that is opened: a pipe would be waited for.
TEST(HostileFiles, ReadManifest_SwappedWithAPipe_NeverWaits) {
  PluginTree tree;
  tree.add("good");
  PluginSet set;
  const LoadOptions options = tree.options();
  std::vector<Attempt> attempts = discover(options, &set);
  ASSERT_EQ(attempts.size(), 1u);
  const std::string manifest = attempts[0].manifest_path;
  const std::string pipe = tree.path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const auto swap = [&] {
    return syscall(SYS_renameat2, AT_FDCWD, manifest.c_str(), AT_FDCWD, pipe.c_str(),
                   RENAME_EXCHANGE) == 0;
  };
  if (!swap() || !swap()) GTEST_SKIP() << "this file system cannot exchange two files";
  std::atomic<bool> stop{false};
  std::thread swapper([&] {
    while (!stop && swap()) {
    }
  });
  int caught = 0;
  for (int i = 0; i < 50'000 && caught < 3; ++i) {
    const std::string words = read_manifest(&attempts[0]).message();
    EXPECT_THAT(words, AnyOf("", HasSubstr("regular file")));
    caught += words.ends_with("expected a regular file, found a special file") ? 1 : 0;
  }
  stop = true;
  swapper.join();
  std::printf("%d pipes opened\n", caught);
}

/// The system remembers what it has mapped by name.
TEST(HostileFiles, LoadPlugins_ReplacedSinceAnEarlierLoad_RunsTheNewFile) {
  PluginTree tree;
  const std::string library = tree.add("good");
  const PluginSet before = load_plugins(tree.options());
  ASSERT_EQ(before.plugins.size(), 1u);
  EXPECT_TRUE(before.plugins[0]->tables().extensions.empty());
  std::filesystem::rename(tree.add_library("future", "new", "new"), library);
  for (int i = 0; i < 2; ++i) {
    const PluginSet after = load_plugins(tree.options());
    ASSERT_EQ(after.plugins.size(), 1u);
    EXPECT_EQ(after.plugins[0]->tables().extensions.size(), 1u) << "the future fake has one";
    EXPECT_EQ(after.plugins[0]->path(), library);
  }
}

TEST(HostileFiles, LoadPlugins_SwappedOnceAndRestored_DoesNotRunWhatWasRefused) {
  PluginTree tree;
  const std::string library = tree.add("good");
  const std::string kept = library + ".kept";
  {
    PluginSet set;
    const LoadOptions options = tree.options();
    std::vector<Attempt> attempts = discover(options, &set);
    ASSERT_EQ(attempts.size(), 1u);
    ASSERT_TRUE(read_manifest(&attempts[0]).ok());
    ASSERT_TRUE(admit(&attempts[0]).ok());
    std::filesystem::rename(library, kept);
    std::filesystem::rename(tree.add_library("absent", "new", "new"), library);
    ASSERT_FALSE(open_library(&attempts[0]).ok());
  }
  std::filesystem::rename(kept, library);
  EXPECT_EQ(load_plugins(tree.options()).plugins.size(), 1u) << "not 'absent', which is mapped";
}

/// The same name in the working folder and on the system's search path must not be found.
TEST(HostileFiles, LoadPlugins_PlantedByTheSameName_OpensTheOneByItsPath) {
  PluginTree tree;
  const std::string library = tree.add("good");
  PluginTree planted;
  planted.add_library("absent", "", "backplane_good");
  planted.write("libbackplane_good.backplane.json", ManifestText().text());
  const auto here = std::filesystem::current_path();
  std::filesystem::current_path(planted.path());
  const PluginSet set = load_plugins(tree.options());
  std::filesystem::current_path(here);
  ASSERT_EQ(set.plugins.size(), 1u);
  EXPECT_EQ(set.plugins[0]->path(), library);
  EXPECT_TRUE(set.skipped.empty());
}

#if defined(BP_INSTRUMENTED_PLUGIN)
/// Mapping this library into a plain process ends it: the sanitizer's runtime insists on being
/// first. That the test goes on is the proof that it was refused before.
TEST(HostileFiles, LoadPlugins_InstrumentedPluginInAPlainCore_IsRefusedBeforeItIsMapped) {
  PluginTree tree;
  ManifestText text;
  text.id = "instrumented";
  text.sanitizer = "address";
  tree.write("a/libinstrumented.backplane.json", text.text());
  std::filesystem::copy_file(BP_INSTRUMENTED_PLUGIN, tree.path("a/libinstrumented.so"));
  tree.add("good");
  const PluginSet set = load_plugins(tree.options());
  EXPECT_EQ(set.plugins.size(), 1u);
  ASSERT_EQ(set.skipped.size(), 1u);
  EXPECT_EQ(set.skipped[0].step, PluginStep::kAdmit);
  EXPECT_EQ(set.skipped[0].reason.to_string(),
            "INCOMPATIBLE: the plugin was built with sanitizer address by " + text.compiler +
                ", this core with none by " + text.compiler);
}

/// The flags were the compiler's alone, and the manifest knows nothing of them.
TEST(HostileFiles, LoadPlugins_RuntimeThatOnlyTheFileNames_IsRefusedBeforeItIsMapped) {
  PluginTree tree;
  ManifestText text;
  if (text.compiler != "gcc") GTEST_SKIP() << "clang's plugins do not name the runtime";
  text.id = "instrumented";
  tree.write("a/libinstrumented.backplane.json", text.text());
  std::filesystem::copy_file(BP_INSTRUMENTED_PLUGIN, tree.path("a/libinstrumented.so"));
  const PluginSet set = load_plugins(tree.options());
  ASSERT_EQ(set.skipped.size(), 1u);
  EXPECT_EQ(set.skipped[0].step, PluginStep::kOpen);
  EXPECT_THAT(
      set.skipped[0].to_string(),
      testing::MatchesRegex(".*INCOMPATIBLE: the plugin needs libasan.* Build it without.*"));
}
#endif

std::string many_keys(size_t count) {
  ManifestText text;
  for (size_t i = 0; i < count; ++i) text.extra += ",\"" + std::to_string(i) + "\":0";
  return text.text();
}

TEST(HostileManifest, ParseManifest_HundredThousandKeys_AreTooLarge) {
  const auto manifest = parse_manifest(many_keys(100'000));
  ASSERT_FALSE(manifest.ok());
  EXPECT_THAT(manifest.status().message(), HasSubstr("more than 65536 bytes"));
}

TEST(HostileManifest, ParseManifest_AsManyKeysAsFit_NamesTheFirstOnly) {
  const std::string text = many_keys(6000);
  ASSERT_LE(text.size(), 65536u);
  const auto manifest = parse_manifest(text);
  ASSERT_TRUE(manifest.ok()) << manifest.status().to_string();
  EXPECT_EQ(manifest->unknown_fields.size(), 16u);
}

TEST(HostileManifest, ParseManifest_LongNameOfAnUnknownField_IsShortened) {
  ManifestText text;
  text.extra = ", \"" + std::string(32'000, 'k') + "\": [0";
  for (int i = 0; i < 15'000; ++i) text.extra += ",0";
  text.extra += "]";
  const auto manifest = parse_manifest(text.text());
  ASSERT_TRUE(manifest.ok()) << manifest.status().to_string();
  ASSERT_EQ(manifest->unknown_fields.size(), 1u);
  EXPECT_EQ(manifest->unknown_fields[0], "\"" + std::string(256, 'k') + "...\"");
  text.extra.clear();
  text.id = std::string(60'000, 'a');
  EXPECT_LT(parse_manifest(text.text()).status().message().size(), 400u);
}

TEST(HostileManifest, ParseManifest_HugeTextAndNumbers_AreRefusedOrKept) {
  ManifestText text;
  text.extra = ", \"x\": " + std::string(60'000, '9');  // a number of 60,000 digits
  EXPECT_FALSE(parse_manifest(text.text()).ok());
  text.extra = ", \"x\": 0." + std::string(60'000, '9');
  EXPECT_TRUE(parse_manifest(text.text()).ok());
  text.extra = ", \"description\": \"" + std::string(60'000, 'a') + "\"";
  const auto manifest = parse_manifest(text.text());
  ASSERT_TRUE(manifest.ok()) << manifest.status().to_string();
  EXPECT_EQ(manifest->description.size(), 60'000u);
  text.id = std::string(33, 'a');
  EXPECT_FALSE(parse_manifest(text.text()).ok());
}

/// Every single byte replaced by each of a few that mean something: accepted or refused with words,
/// and what is accepted keeps the rules.
TEST(HostileManifest, ParseManifest_AnyByteReplaced_IsRefusedOrKeepsTheRules) {
  ManifestText text;
  text.options =
      R"({"name": "n", "type": "i64", "default": 12, "min": 1, "scope": "device", "help": "h"})";
  const std::string whole = text.text();
  ASSERT_TRUE(parse_manifest(whole).ok());
  int accepted = 0;
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const char byte :
         {'\0', '"', '\\', '{', '}', '[', ']', ',', ':', '-', '9', '\xff', '\n'}) {
      std::string changed = whole;
      changed[at] = byte;
      const auto manifest = parse_manifest(changed);
      if (!manifest.ok()) {
        ASSERT_FALSE(manifest.status().message().empty());
        continue;
      }
      ++accepted;
      ASSERT_FALSE(manifest->id.empty());
      ASSERT_LE(manifest->abi_min, manifest->abi_built);
      for (const OptionDecl& option : manifest->options) {
        if (!option.default_value) continue;
        ASSERT_TRUE(parse_option_value(option, *option.default_value).ok()) << changed;
      }
    }
  }
  EXPECT_GT(accepted, 0);
}

/// While one plugin hangs in init, those before and after it in the search order work.
TEST(HostileFiles, LoadPlugins_OneHangsInInit_TheOthersWork) {
  PluginTree tree;
  LoadOptions options = tree.options();
  // The deadline of every call of the sound ones, too.
  options.call_timeout = std::chrono::milliseconds(3000);
  const std::string choice = R"(, "scope": "instance", "help": "h"})";
  ManifestText text;
  text.options = R"({"name": "fault", "type": "str")" + choice +
                 R"(, {"name": "signal_file", "type": "str")" + choice;
  for (const std::string id : {"a", "b", "c"}) {
    text.id = id;
    tree.add("good", "", id, text);
  }
  options.plugin_options = {{"b.fault", "init_hangs"}, {"b.signal_file", tree.path("signal")}};
  const PluginSet set = load_plugins(options);
  ASSERT_EQ(set.plugins.size(), 2u);
  EXPECT_EQ(set.plugins[0]->id(), "a");
  EXPECT_EQ(set.plugins[1]->id(), "c");
  ASSERT_EQ(set.skipped.size(), 1u);
  EXPECT_EQ(set.skipped[0].id, "b");
  EXPECT_EQ(set.skipped[0].reason.code(), BP_DEVICE_LOST);
  tree.write("signal", "go on");
  for (int i = 0; i < 6000 && !std::filesystem::exists(tree.path("signal.down")); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(std::filesystem::exists(tree.path("signal.down")));
}

}  // namespace
}  // namespace bp
