// SPDX-License-Identifier: Apache-2.0
//
// The journey with the fakes of tests/fakes: each refusal with its words, that one bad plugin never
// stops the others, precedence, and life and death of instances.
#include "core/plugin/loader.hpp"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "core/plugin/plugin_tree_test.hpp"

namespace bp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Refusal {
  const char* fake;
  PluginStep step;
  bp_status code;
  const char* words;
};

void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.fake; }

class LoaderRefusal : public testing::TestWithParam<Refusal> {};

TEST_P(LoaderRefusal, LoadPlugins_OneBadAmongGood_OnlyTheBadIsSkipped) {
  const Refusal& expected = GetParam();
  PluginTree tree;
  const std::string bad = tree.add(expected.fake);
  tree.add("good");
  ManifestText last;
  last.id = "zz_last";
  tree.add("good", "zz", "zz", last);
  LogCapture log;
  const PluginSet set = load_plugins(tree.options());
  ASSERT_EQ(set.plugins.size(), 2u);
  EXPECT_EQ(set.plugins[0]->id(), "good");
  EXPECT_EQ(set.plugins[1]->id(), "zz_last");
  ASSERT_EQ(set.skipped.size(), 1u);
  const SkippedPlugin& skipped = set.skipped[0];
  EXPECT_EQ(skipped.id, expected.fake);
  EXPECT_EQ(skipped.path, bad);
  EXPECT_EQ(step_name(skipped.step), step_name(expected.step));
  EXPECT_EQ(skipped.reason.code(), expected.code) << skipped.reason.to_string();
  EXPECT_THAT(skipped.reason.message(), HasSubstr(expected.words));
  EXPECT_FALSE(skipped.next_action().empty());
  const bool no_error = expected.code == BP_UNAVAILABLE && expected.step == PluginStep::kInit;
  EXPECT_EQ(log.count(no_error ? BP_LOG_INFO : BP_LOG_WARNING, skipped.to_string()), 1);
}

INSTANTIATE_TEST_SUITE_P(
    Fakes, LoaderRefusal,
    testing::Values(
        Refusal{"no_entry", PluginStep::kOpen, BP_UNAVAILABLE, "undefined symbol: bp_plugin_entry"},
        Refusal{"throwing_entry", PluginStep::kEntry, BP_INTERNAL,
                "plugin throwing_entry: bp_plugin_entry threw: thrown by entry (INTERNAL, status "
                "14)"},
        Refusal{"refusing_entry", PluginStep::kEntry, BP_INCOMPATIBLE,
                "plugin refusing_entry: bp_plugin_entry: the plugin refused this core "
                "(INCOMPATIBLE, status 13)"},
        Refusal{"no_kernels", PluginStep::kValidate, BP_INCOMPATIBLE,
                "the plugin offers no work: expected at least one of these tables: kernel, "
                "collective; found none"},
        Refusal{"missing_slot", PluginStep::kValidate, BP_INCOMPATIBLE,
                "table memory lacks mem_free"},
        Refusal{"half_band", PluginStep::kValidate, BP_INCOMPATIBLE,
                "table memory announces band MAP but lacks mem_unmap"},
        Refusal{"empty_band", PluginStep::kValidate, BP_INCOMPATIBLE,
                "table memory announces band PINNED but lacks host_alloc, host_free"},
        Refusal{"huge_table", PluginStep::kValidate, BP_INCOMPATIBLE, "struct_size is 65544"},
        Refusal{"odd_table", PluginStep::kValidate, BP_INCOMPATIBLE, "struct_size is 65"},
        Refusal{"tiny_table", PluginStep::kValidate, BP_INCOMPATIBLE,
                "struct_size is 16, expected a multiple of 8 from 32 to 65536"},
        Refusal{"bad_extension", PluginStep::kValidate, BP_INCOMPATIBLE,
                "extension 'nodot': expected a name like vendor.feature and a table"},
        Refusal{"absent", PluginStep::kInit, BP_UNAVAILABLE,
                "plugin absent: init: no fake accelerator is plugged in (UNAVAILABLE, status 3)"}),
    [](const auto& test) { return std::string(test.param.fake); });

struct Fault {
  const char* fault;
  PluginStep step;
  bp_status code;
  const char* words;
};

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.fault; }

class LoaderFault : public testing::TestWithParam<Fault> {};

TEST_P(LoaderFault, LoadPlugins_FaultAtStart_IsSkippedWithThePluginsWords) {
  PluginTree tree;
  tree.add("good");
  LoadOptions options = tree.options();
  options.plugin_options = {{"good.fault", GetParam().fault}};
  const PluginSet set = load_plugins(options);
  EXPECT_TRUE(set.plugins.empty());
  ASSERT_EQ(set.skipped.size(), 1u);
  EXPECT_EQ(step_name(set.skipped[0].step), step_name(GetParam().step));
  EXPECT_EQ(set.skipped[0].reason.code(), GetParam().code);
  EXPECT_EQ(set.skipped[0].reason.message(), GetParam().words);
}

INSTANTIATE_TEST_SUITE_P(
    Faults, LoaderFault,
    testing::Values(
        Fault{"init_throws", PluginStep::kInit, BP_INTERNAL,
              "plugin good: init threw: thrown by init (INTERNAL, status 14)"},
        Fault{"init_gives_nothing", PluginStep::kInit, BP_INTERNAL,
              "plugin good: init answered OK and NULL (INTERNAL, status 14)"},
        Fault{"init_unknown_status", PluginStep::kInit, BP_INTERNAL,
              "plugin good: init answered status 4711, which is new to this core (INTERNAL, status "
              "4711)"},
        Fault{"count_unavailable", PluginStep::kDevices, BP_UNAVAILABLE,
              "plugin good: device_count: the bus answers nothing (UNAVAILABLE, status 3)"},
        Fault{"count_huge", PluginStep::kDevices, BP_INTERNAL,
              "plugin good: device_count: expected at most 4096, found 4000000000"}),
    [](const auto& test) { return std::string(test.param.fault); });

TEST(Loader, LoadPlugins_GoodPlugin_IsPublishedWhole) {
  PluginTree tree;
  const std::string library = tree.add("good");
  const PluginSet set = load_plugins(tree.options());
  ASSERT_EQ(set.plugins.size(), 1u);
  EXPECT_TRUE(set.skipped.empty());
  EXPECT_TRUE(set.option_errors.empty());
  ASSERT_EQ(set.searched.size(), 1u);
  EXPECT_EQ(set.searched[0].path, tree.path());
  EXPECT_EQ(set.searched[0].words(), "1 plugin");
  const LoadedPlugin& plugin = *set.plugins[0];
  EXPECT_EQ(set.find("good"), &plugin);
  EXPECT_EQ(set.find("goo"), nullptr);
  EXPECT_EQ(plugin.path(), library);
  EXPECT_EQ(plugin.manifest().version, "1.0");
  EXPECT_EQ(plugin.device_count(), 1u);
  EXPECT_EQ(plugin.abi_semantics(), BP_ABI_CURRENT);
  EXPECT_NE(plugin.instance(), nullptr);
  const PluginTables& tables = plugin.tables();
  EXPECT_EQ(tables.flags, 0u);
  EXPECT_NE(tables.root.init, nullptr);
  EXPECT_NE(tables.memory.mem_copy, nullptr);
  EXPECT_EQ(tables.memory.mem_fill, nullptr);
  EXPECT_EQ(tables.stream.struct_size, sizeof(bp_stream_api));
  EXPECT_EQ(tables.stream.stream_create, nullptr);
  EXPECT_NE(tables.kernel.kernel_list, nullptr);
  EXPECT_TRUE(tables.extensions.empty());
}

TEST(Loader, LoadPlugins_ShortTables_LoadAsAnOlderPlugin) {
  PluginTree tree;
  tree.add("short_tables");
  const PluginSet set = load_plugins(tree.options());
  ASSERT_EQ(set.plugins.size(), 1u);
  const bp_memory_api& memory = set.plugins[0]->tables().memory;
  EXPECT_EQ(memory.struct_size, sizeof(bp_memory_api));
  EXPECT_NE(memory.mem_copy, nullptr);
  EXPECT_EQ(memory.mem_unmap, nullptr);
}

TEST(Loader, LoadPlugins_FuturePlugin_LoadsWithUnknownBitsMasked) {
  PluginTree tree;
  tree.add("future");
  const PluginSet set = load_plugins(tree.options());
  ASSERT_EQ(set.plugins.size(), 1u);
  const PluginTables& tables = set.plugins[0]->tables();
  EXPECT_EQ(tables.flags, 0u);
  EXPECT_EQ(tables.memory.flags, 0u);
  EXPECT_EQ(tables.memory.struct_size, sizeof(bp_memory_api));
  ASSERT_EQ(tables.extensions.size(), 1u);
  EXPECT_EQ(tables.extensions[0].name, "fake.extra");
  EXPECT_EQ(tables.extensions[0].version, 3u);
  EXPECT_EQ(*static_cast<const int*>(tables.extensions[0].table), 42);
}

TEST(Loader, LoadPlugins_SlotsWithoutTheirBit_AreZeroed) {
  PluginTree tree;
  tree.add("silent_band");
  const PluginSet set = load_plugins(tree.options());
  ASSERT_EQ(set.plugins.size(), 1u);
  EXPECT_EQ(set.plugins[0]->tables().memory.mem_fill, nullptr);
}

TEST(Loader, LoadPlugins_OnlyThoseNamed_LeavesOutTheOthers) {
  PluginTree tree;
  tree.add("good");
  tree.add("silent_band");
  LoadOptions options = tree.options();
  options.only = {"good"};
  options.plugin_options = {{"silent_band.any", "1"}};  // of a plugin that is left out: no mistake
  const PluginSet set = load_plugins(options);
  ASSERT_EQ(set.plugins.size(), 1u);
  EXPECT_EQ(set.plugins[0]->id(), "good");
  EXPECT_EQ(set.left_out, std::vector<std::string>{"silent_band"});
  EXPECT_TRUE(set.skipped.empty());
  EXPECT_TRUE(set.option_errors.empty());
}

TEST(Loader, LoadPlugins_OnlyOneThatIsNotThere_IsAnError) {
  PluginTree tree;
  tree.add("good");
  LoadOptions options = tree.options();
  options.only = {"goot"};
  const PluginSet set = load_plugins(options);
  ASSERT_EQ(set.option_errors.size(), 1u);
  EXPECT_EQ(set.option_errors[0].message(),
            "BACKPLANE_PLUGINS: no plugin is called 'goot' (did you mean 'good'?)");
}

TEST(Loader, LoadPlugins_NothingThere_IsEmptyAndNamesWhatWasSearched) {
  PluginTree tree;
  LoadOptions options = tree.options();
  options.install_directory = tree.path("not_there");
  const PluginSet set = load_plugins(options);
  EXPECT_TRUE(set.plugins.empty());
  EXPECT_TRUE(set.skipped.empty());
  ASSERT_EQ(set.searched.size(), 2u);
  EXPECT_EQ(set.searched[0].path, tree.path());
  EXPECT_EQ(set.searched[0].words(), "no manifest of a plugin");
  EXPECT_EQ(set.searched[1].path, tree.path("not_there"));
  EXPECT_EQ(set.searched[1].words(), "not there");
}

TEST(Loader, LoadPlugins_LibraryWithoutAManifest_IsNamedWithTheFolder) {
  PluginTree tree;
  const std::string library = tree.add("good");
  const std::string bare = tree.path("libbackplane_bare.so");
  std::filesystem::copy_file(library, bare);
  const PluginSet set = load_plugins(tree.options());
  ASSERT_EQ(set.plugins.size(), 1u);
  ASSERT_EQ(set.searched.size(), 1u);
  EXPECT_EQ(set.searched[0].words(), "1 plugin; " + bare + " has no manifest beside it");
}

TEST(Loader, LoadPlugins_FilesThatAreNoLibraries_AreSkippedWithTheLoadersText) {
  PluginTree tree;
  ManifestText text;
  text.id = "words";
  tree.write("a/libwords.backplane.json", text.text());
  tree.write("a/libwords.so", "These are words, not machine code. " + std::string(100, '.'));
  text.id = "nothing";
  tree.write("b/libnothing.backplane.json", text.text());
  tree.write("b/libnothing.so", "");
  text.id = "gone";
  tree.write("c/libgone.backplane.json", text.text());
  text.id = "folder";
  tree.write("d/libfolder.backplane.json", text.text());
  tree.write("d/libfolder.so/inside", "x");
  const PluginSet set = load_plugins(tree.options());
  ASSERT_EQ(set.skipped.size(), 4u);
  EXPECT_EQ(set.skipped[0].step, PluginStep::kOpen);
  EXPECT_THAT(set.skipped[0].reason.message(),
              testing::EndsWith("libwords.so: invalid ELF header"));
  EXPECT_EQ(set.skipped[1].step, PluginStep::kOpen);
  EXPECT_THAT(set.skipped[1].reason.message(), HasSubstr("file too short"));
  EXPECT_EQ(set.skipped[2].step, PluginStep::kAdmit);
  EXPECT_THAT(set.skipped[2].reason.message(), HasSubstr("libgone.so: No such file"));
  EXPECT_EQ(set.skipped[2].next_action(), "Reinstall the plugin.");
  EXPECT_EQ(set.skipped[3].step, PluginStep::kAdmit);
  EXPECT_THAT(set.skipped[3].reason.message(), HasSubstr("is not a regular file"));
}

TEST(Loader, LoadPlugins_HalfWrittenLibrary_IsSkippedInsteadOfCrashing) {
  PluginTree tree;
  const std::string library = tree.add("good");
  for (const uintmax_t size : {100u, 1000u, 4096u, 8192u}) {
    tree.add_library("good", "good", "backplane_good");
    std::filesystem::resize_file(library, size);
    const PluginSet set = load_plugins(tree.options());
    ASSERT_EQ(set.skipped.size(), 1u) << size;
    EXPECT_EQ(set.skipped[0].step, PluginStep::kOpen);
    EXPECT_EQ(set.skipped[0].reason.code(), BP_UNAVAILABLE);
  }
}

TEST(Loader, LoadPlugins_BadManifest_IsSkippedByPath) {
  PluginTree tree;
  tree.write("libbad.backplane.json", R"({"manifest": 1, "id": "bad", "id": "worse"})");
  tree.write("liblarge.backplane.json", std::string(65 * 1024, ' '));
  ASSERT_EQ(mkfifo(tree.path("libpipe.backplane.json").c_str(), 0600), 0);
  std::filesystem::create_symlink("libloop.backplane.json", tree.path("libloop.backplane.json"));
  std::filesystem::create_directory(tree.path("libfolder.backplane.json"));
  tree.add("good");
  const PluginSet set = load_plugins(tree.options());
  EXPECT_EQ(set.plugins.size(), 1u);
  ASSERT_EQ(set.skipped.size(), 5u);
  const char* const words[] = {"\"id\" stands twice", "is not a regular file",
                               "more than 65536 bytes", "Too many levels of symbolic links",
                               "is not a regular file"};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(set.skipped[i].step, PluginStep::kManifest);
    EXPECT_EQ(set.skipped[i].id, "");
    EXPECT_THAT(set.skipped[i].reason.message(), HasSubstr(words[i]));
    EXPECT_THAT(set.skipped[i].reason.message(), HasSubstr(set.skipped[i].path));
  }
}

TEST(Loader, LoadPlugins_UnknownManifestField_IsWarnedAboutByName) {
  PluginTree tree;
  ManifestText text;
  text.extra = R"(, "colour": "red")";
  tree.add("good", "", "good", text);
  LogCapture log;
  const PluginSet set = load_plugins(tree.options());
  EXPECT_EQ(set.plugins.size(), 1u);
  EXPECT_EQ(log.count(BP_LOG_WARNING, "the unknown field \"colour\" is ignored"), 1);
}

TEST(Loader, LoadPlugins_SearchPath_PrecedesInstallAndFoldersPrecedeSubfolders) {
  PluginTree first;
  PluginTree installed;
  ManifestText text;
  const auto add = [&](const PluginTree& tree, const std::string& folder, const std::string& name) {
    text.id = name;
    tree.add("good", folder, name, text);
  };
  add(installed, "", "d");
  add(first, "sub_b", "c");
  add(first, "sub_a", "b");
  add(first, "", "a");
  add(first, "sub_a/deeper", "never");
  LoadOptions options = first.options();
  options.install_directory = installed.path();
  const PluginSet set = load_plugins(options);
  std::vector<std::string> ids;
  for (const auto& plugin : set.plugins) ids.push_back(plugin->id());
  EXPECT_THAT(ids, ElementsAre("a", "b", "c", "d"));
  EXPECT_TRUE(set.skipped.empty());
}

TEST(Loader, LoadPlugins_DuplicateId_FirstInSearchOrderWins) {
  PluginTree first;
  PluginTree second;
  const std::string winner = first.add("good");
  const std::string loser = second.add("good");
  LoadOptions options = first.options();
  options.search_path.push_back(second.path());
  const PluginSet set = load_plugins(options);
  ASSERT_EQ(set.plugins.size(), 1u);
  EXPECT_EQ(set.plugins[0]->path(), winner);
  ASSERT_EQ(set.skipped.size(), 1u);
  EXPECT_EQ(set.skipped[0].path, loser);
  EXPECT_EQ(set.skipped[0].step, PluginStep::kAdmit);
  EXPECT_EQ(set.skipped[0].reason.message(),
            "the id 'good' is taken by " + winner + ", which comes first in the search order");
  EXPECT_EQ(set.skipped[0].next_action(), "Remove one, or change the search order.");
}

TEST(Loader, LoadPlugins_DuplicateOfOneThatFailedToStart_IsStillADuplicate) {
  PluginTree tree;
  ManifestText text;
  text.id = "twin";
  const std::string first = tree.add("absent", "a", "twin", text);
  tree.add("good", "b", "twin", text);
  const PluginSet set = load_plugins(tree.options());
  EXPECT_TRUE(set.plugins.empty());
  ASSERT_EQ(set.skipped.size(), 2u);
  EXPECT_EQ(set.skipped[0].step, PluginStep::kInit);
  EXPECT_EQ(set.skipped[1].step, PluginStep::kAdmit);
  EXPECT_THAT(set.skipped[1].reason.message(), HasSubstr(first));
}

TEST(Loader, LoadPlugins_IncompatibleTwinFirst_DoesNotKeepTheGoodOneOut) {
  PluginTree tree;
  ManifestText text;
  text.id = "twin";
  tree.add("good", "b", "twin", text);
  text.abi_min = text.abi_built = "9.0";
  tree.add("good", "a", "twin", text);
  const PluginSet set = load_plugins(tree.options());
  ASSERT_EQ(set.plugins.size(), 1u);
  EXPECT_EQ(set.plugins[0]->path(), tree.path("b/libtwin.so"));
}

TEST(Loader, LoadPlugins_OneFolderTwice_IsOnePlugin) {
  PluginTree tree;
  tree.add("good");
  std::filesystem::create_directory_symlink(".", tree.path("again"));
  LoadOptions options = tree.options();
  options.search_path.push_back(tree.path() + "/");
  options.install_directory = tree.path("good/..");
  const PluginSet set = load_plugins(options);
  EXPECT_EQ(set.plugins.size(), 1u);
  EXPECT_TRUE(set.skipped.empty());
}

TEST(Loader, LoadPlugins_OptionsOfPlugin_ReachInitInLastWinsOrder) {
  PluginTree tree;
  tree.add("good");
  LoadOptions options = tree.options();
  options.plugin_options = {{"good.devices", "2"}, {"good.memory", "1MiB"}, {"good.devices", "3"}};
  const PluginSet set = load_plugins(options);
  ASSERT_EQ(set.plugins.size(), 1u);
  EXPECT_TRUE(set.option_errors.empty());
  EXPECT_EQ(set.plugins[0]->device_count(), 3u);
  ASSERT_EQ(set.plugins[0]->device_options().size(), 1u);
  EXPECT_EQ(set.plugins[0]->device_options()[0].name, "memory");
  EXPECT_EQ(set.plugins[0]->device_options()[0].value, "1048576");
}

TEST(Loader, LoadPlugins_BadOption_IsAnErrorAndSkipsThePlugin) {
  PluginTree tree;
  tree.add("good");
  LoadOptions options = tree.options();
  options.plugin_options = {{"good.device", "2", "--option"}};
  PluginSet set = load_plugins(options);
  EXPECT_TRUE(set.plugins.empty());
  ASSERT_EQ(set.skipped.size(), 1u);
  EXPECT_EQ(set.skipped[0].step, PluginStep::kOptions);
  ASSERT_EQ(set.option_errors.size(), 1u);
  EXPECT_EQ(set.option_errors[0].message(),
            "--option: plugin good has no option 'device' (did you mean 'devices'?)");

  options.plugin_options = {{"god.devices", "2", "a file"}, {"devices", "2"}};
  const PluginSet other = load_plugins(options);
  EXPECT_EQ(other.plugins.size(), 1u);
  ASSERT_EQ(other.option_errors.size(), 2u);
  EXPECT_EQ(other.option_errors[0].message(),
            "a file: option 'god.devices': no plugin is called 'god' (did you mean 'good'?)");
  EXPECT_EQ(other.option_errors[1].message(), "option 'devices': expected <plugin id>.<option>");
}

TEST(Loader, LoadPlugins_OptionOfASkippedPlugin_IsNoMistake) {
  PluginTree tree;
  tree.add("absent");
  LoadOptions options = tree.options();
  options.plugin_options = {{"absent.devices", "2"}};
  const PluginSet set = load_plugins(options);
  EXPECT_TRUE(set.plugins.empty());
  EXPECT_TRUE(set.option_errors.empty());
}

TEST(Loader, LoadPlugins_HangingInit_IsAbandonedAndShutDownWhenItReturns) {
  PluginTree tree;
  tree.add("good");
  const std::string signal = tree.path("signal");
  LoadOptions options = tree.options();
  // The deadline of bp_plugin_entry as well, which returns.
  options.call_timeout = std::chrono::milliseconds(2000);
  options.plugin_options = {{"good.fault", "init_hangs"}, {"good.signal_file", signal}};
  LogCapture log;
  const PluginSet set = load_plugins(options);
  EXPECT_TRUE(set.plugins.empty());
  ASSERT_EQ(set.skipped.size(), 1u);
  EXPECT_EQ(set.skipped[0].step, PluginStep::kInit);
  EXPECT_EQ(set.skipped[0].reason.to_string(),
            "DEVICE_LOST: plugin good: init: plugin good is abandoned: init did not return within "
            "2000 ms (DEVICE_LOST, status 10)");
  EXPECT_EQ(log.count(BP_LOG_ERROR, "plugin good is abandoned: init did not return"), 1);
  EXPECT_EQ(log.count(BP_LOG_WARNING, "abandoned"), 0) << "it is told once";
  tree.write("signal", "go on");
  // The stray thread ends the instance that nobody waits for.
  for (int i = 0; i < 6000 && !std::filesystem::exists(signal + ".down"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(std::filesystem::exists(signal + ".down"));
}

TEST(Loader, LoadPlugins_HangingShutdown_IsAbandonedByName) {
  PluginTree tree;
  tree.add("good");
  const std::string signal = tree.path("signal");
  LoadOptions options = tree.options();
  options.call_timeout = std::chrono::milliseconds(2000);
  options.plugin_options = {{"good.fault", "shutdown_hangs"}, {"good.signal_file", signal}};
  LogCapture log;
  {
    const PluginSet set = load_plugins(options);
    ASSERT_EQ(set.plugins.size(), 1u);
  }
  EXPECT_EQ(
      log.count(BP_LOG_ERROR, "plugin good is abandoned: shutdown did not return within 2000"), 1);
  EXPECT_EQ(log.count(BP_LOG_WARNING, "shutdown"), 0) << "it is told once";
  tree.write("signal", "go on");
  for (int i = 0; i < 6000 && !std::filesystem::exists(signal + ".down"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(std::filesystem::exists(signal + ".down"));
}

TEST(Loader, PluginSet_Destroyed_ShutsInstancesDownInReverse) {
  PluginTree tree;
  ManifestText text;
  text.options = R"({"name": "signal_file", "type": "str", "scope": "instance", "help": "h"})";
  LoadOptions options = tree.options();
  for (const std::string id : {"a", "b"}) {
    text.id = id;
    tree.add("good", "", id, text);
    options.plugin_options.push_back({id + ".signal_file", tree.path(id)});
  }
  std::shared_ptr<const LoadedPlugin> kept;
  {
    const PluginSet set = load_plugins(options);
    ASSERT_EQ(set.plugins.size(), 2u);
    kept = set.plugins[1];
    EXPECT_FALSE(std::filesystem::exists(tree.path("a.down")));
  }
  // The last owner decides, so that a device never outlives its plugin.
  EXPECT_TRUE(std::filesystem::exists(tree.path("a.down")));
  EXPECT_FALSE(std::filesystem::exists(tree.path("b.down")));
  kept.reset();
  EXPECT_TRUE(std::filesystem::exists(tree.path("b.down")));
}

TEST(Loader, LoadPlugins_TwiceAtOnceAndAgain_GivesSeparateInstances) {
  PluginTree tree;
  tree.add("good");
  for (int round = 0; round < 3; ++round) {
    const PluginSet one = load_plugins(tree.options());
    const PluginSet two = load_plugins(tree.options());
    ASSERT_EQ(one.plugins.size(), 1u);
    ASSERT_EQ(two.plugins.size(), 1u);
    EXPECT_NE(one.plugins[0]->instance(), two.plugins[0]->instance());
  }
}

TEST(Loader, LoadedPlugin_DestroyedInForkedChild_MakesNoCall) {
  PluginTree tree;
  tree.add("good");
  LoadOptions options = tree.options();
  options.plugin_options = {{"good.signal_file", tree.path("signal")}};
  auto set = std::make_unique<PluginSet>(load_plugins(options));
  ASSERT_EQ(set->plugins.size(), 1u);
  const pid_t child = fork();
  if (child == 0) {
    set.reset();
    _exit(std::filesystem::exists(tree.path("signal.down")) ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  set.reset();
  EXPECT_TRUE(std::filesystem::exists(tree.path("signal.down")));
}

}  // namespace
}  // namespace bp
