// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/config_file.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "core/base/temp_folder_test.hpp"

namespace bp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::StartsWith;

Result<ConfigFile> read(std::string_view text) {
  const TempFolder folder;
  folder.write("config.json", std::string(text));
  return read_config_file(folder.path("config.json"));
}

TEST(ConfigFile, Sections_ScalarsOfEachKind_AreTexts) {
  const auto config = read(
      R"({"options": {"npu.devices": 2, "npu.async": false, "xpu.platform": "Port \"1\""},
          "aliases": {"fast": "cpu:0"}})");
  ASSERT_TRUE(config.ok()) << config.status().to_string();
  std::map<std::string, std::string> options;
  for (const OptionSetting& option : config->plugin_options) options[option.name] = option.value;
  EXPECT_THAT(options, ElementsAre(Pair("npu.async", "false"), Pair("npu.devices", "2"),
                                   Pair("xpu.platform", "Port \"1\"")));
  EXPECT_THAT(config->plugin_options.front().source, StartsWith("configuration file /"));
  EXPECT_THAT(config->aliases, ElementsAre(Pair("fast", "cpu:0")));
}

TEST(ConfigFile, BadFiles_ErrorsNameTheFileAndWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"[]", "expected a JSON object"},
      {"{", "parse error"},
      {R"({"option": {}})", "unknown key 'option'; expected options or aliases"},
      {R"({"options": []})", "'options': expected an object"},
      {R"({"options": {"a.b": 1.5}})",
       "'a.b': expected a text, whole number, true or false, found number"},
      {R"({"aliases": {"a": null}})", "found null"},
      {R"({"aliases": {"cpu:0": "npu:0"}})", "alias 'cpu:0': expected a name that no device"},
      {R"({"aliases": {"fast": "npu:0", "not-loaded:12": "npu:0"}})", "alias 'not-loaded:12'"},
      {R"({"options": {"a.b": 1, "a.b": 2}})", "\"a.b\" stands twice in one object"}};
  for (const auto& [text, words] : cases) {
    const auto config = read(text);
    ASSERT_FALSE(config.ok()) << text;
    EXPECT_EQ(config.status().code(), BP_INVALID_ARGUMENT) << text;
    EXPECT_THAT(config.status().message(), HasSubstr("config.json: ")) << text;
    EXPECT_THAT(config.status().message(), HasSubstr(words)) << text;
  }
}

TEST(ConfigFile, NoFile_CannotBeOpened) {
  const auto config = read_config_file("/nowhere/config.json");
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.status().code(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(config.status().message(),
              StartsWith("configuration file /nowhere/config.json: cannot open the file: No such"));
}

/// A pipe that nobody writes would be waited for, a device read without end.
TEST(ConfigFile, NoRegularFile_RefusedAtOnce) {
  const TempFolder folder;
  const std::string pipe = folder.path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::pair<std::string, const char*> cases[] = {
      {pipe, "special file"}, {"/dev/zero", "special file"}, {folder.path(), "folder"}};
  for (const auto& [path, kind] : cases) {
    const auto config = read_config_file(path);
    ASSERT_FALSE(config.ok()) << path;
    EXPECT_EQ(config.status().code(), BP_INVALID_ARGUMENT) << path;
    EXPECT_EQ(config.status().message(),
              "configuration file " + path + ": expected a regular file, found a " + kind);
  }
}

TEST(ConfigFile, TooLarge_NamesTheLimit) {
  const auto config = read(std::string(1024 * 1024 + 1, ' '));
  EXPECT_THAT(config.status().message(),
              HasSubstr("the file is too large: it has more than 1048576 bytes"));
}

TEST(ConfigFile, LongKeys_AreShortenedInWords) {
  const std::string key(500'000, 'k');
  for (const std::string& text : {"{\"" + key + "\": {}}", "{\"options\": {\"" + key + "\": []}}",
                                  "{\"aliases\": {\"" + key + "\": 1, \"" + key + "\": 1}}"}) {
    const auto config = read(text);
    ASSERT_FALSE(config.ok());
    EXPECT_THAT(config.status().message(), HasSubstr(key.substr(0, 256) + "..."));
    EXPECT_LT(config.status().message().size(), 1000u);
  }
}

}  // namespace
}  // namespace bp
