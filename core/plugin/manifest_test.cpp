// SPDX-License-Identifier: Apache-2.0
//
// Manifests: what is read, and that hostile text is refused in words instead of being believed.
#include "core/plugin/manifest.hpp"

#include <gmock/gmock.h>

#include "backplane/version.h"
#include "core/plugin/plugin_tree_test.hpp"

namespace bp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string with_option(const std::string& option) {
  ManifestText text;
  text.options = option;
  return text.text();
}

std::string error_of(std::string_view text) {
  const auto manifest = parse_manifest(text);
  if (manifest.ok()) return "accepted";
  EXPECT_EQ(manifest.status().code(), BP_INVALID_ARGUMENT);
  return manifest.status().message();
}

TEST(Manifest, ParseManifest_AllFields_AreRead) {
  const auto manifest = parse_manifest(R"({"manifest": 1, "id": "npu2", "version": "0.3",
      "description": "A chip", "abi_min": "0.1", "abi_built": "2.17", "sanitizer": "thread",
      "compiler": "clang", "options": [
        {"name": "memory", "type": "bytes", "default": "256MiB", "min": 4096, "max": "1GiB",
         "scope": "device", "help": "how much"},
        {"name": "mode", "type": "str", "default": "fast", "choices": ["fast", "exact"],
         "scope": "instance", "help": "which"},
        {"name": "on", "type": "bool", "default": true, "scope": "instance", "help": "whether"},
        {"name": "n", "type": "i64", "scope": "instance", "help": "count"}]})");
  ASSERT_TRUE(manifest.ok()) << manifest.status().to_string();
  EXPECT_EQ(manifest->id, "npu2");
  EXPECT_EQ(manifest->version, "0.3");
  EXPECT_EQ(manifest->description, "A chip");
  EXPECT_EQ(manifest->abi_min, BP_ABI_VERSION(0, 1));
  EXPECT_EQ(manifest->abi_built, BP_ABI_VERSION(2, 17));
  EXPECT_EQ(manifest->sanitizer, "thread");
  EXPECT_EQ(manifest->compiler, "clang");
  ASSERT_EQ(manifest->options.size(), 4u);
  const OptionDecl& memory = manifest->options[0];
  EXPECT_EQ(memory.type, OptionType::kBytes);
  EXPECT_EQ(memory.scope, OptionScope::kDevice);
  EXPECT_EQ(memory.default_value, "268435456");
  EXPECT_EQ(memory.min, 4096);
  EXPECT_EQ(memory.max, 1 << 30);
  EXPECT_EQ(memory.help, "how much");
  EXPECT_THAT(manifest->options[1].choices, ElementsAre("fast", "exact"));
  EXPECT_EQ(manifest->options[1].default_value, "fast");
  EXPECT_EQ(manifest->options[2].default_value, "true");
  EXPECT_EQ(manifest->options[3].default_value, std::nullopt);
  EXPECT_TRUE(manifest->unknown_fields.empty());
}

TEST(Manifest, ParseManifest_WithoutOptionalFields_HasDefaults) {
  const auto manifest = parse_manifest(
      R"({"manifest": 1, "id": "a", "version": "1", "abi_min": "0.1", "abi_built": "0.1"})");
  ASSERT_TRUE(manifest.ok()) << manifest.status().to_string();
  EXPECT_EQ(manifest->sanitizer, "none");
  EXPECT_EQ(manifest->compiler, "");
  EXPECT_TRUE(manifest->options.empty());
}

TEST(Manifest, ParseManifest_AnotherFormat_IsRefused) {
  for (const std::string found : {"2", "0", "-1", "1.5", "\"1\"", "true"}) {
    EXPECT_EQ(error_of(R"({"manifest": )" + found +
                       R"(, "id": "a", "version": "1", "abi_min": "0.1", "abi_built": "0.1"})"),
              "field 'manifest': expected 1, the format that this core reads, found " + found);
  }
}

TEST(Manifest, ParseManifest_UnknownFields_AreListedByName) {
  ManifestText text;
  text.options = R"({"name": "n", "type": "i64", "scope": "device", "help": "h", "unit": "s"})";
  text.extra = R"(, "colour": "red")";
  const auto manifest = parse_manifest(text.text());
  ASSERT_TRUE(manifest.ok()) << manifest.status().to_string();
  EXPECT_THAT(manifest->unknown_fields, ElementsAre("option n, \"unit\"", "\"colour\""));
}

TEST(Manifest, ParseManifest_MissingField_IsNamed) {
  const std::string whole = ManifestText().text();
  for (const std::string name : {"manifest", "id", "version", "abi_min", "abi_built"}) {
    std::string text = whole;
    text.replace(text.find("\"" + name + "\""), name.size() + 2, "\"other\"");
    EXPECT_THAT(error_of(text), HasSubstr("'" + name + "' not found"));
  }
}

TEST(Manifest, ParseManifest_WrongType_IsNamedWithItsPlace) {
  EXPECT_THAT(error_of("[]"), HasSubstr("expected an object, found array"));
  EXPECT_THAT(error_of("17"), HasSubstr("expected an object, found number"));
  ManifestText text;
  text.extra = R"(, "description": 5)";
  EXPECT_THAT(error_of(text.text()), HasSubstr("/description: expected a string, found number"));
  EXPECT_THAT(error_of(with_option("5")),
              HasSubstr("/options/0: expected an object, found number"));
  EXPECT_THAT(error_of(with_option(R"({"name": ["x"]})")),
              HasSubstr("/options/0/name: expected a string, found array"));
}

TEST(Manifest, ParseManifest_BadId_IsRefused) {
  const std::string long_id(33, 'a');
  for (const std::string id :
       {"Npu", "2npu", "n pu", "_n", "n:0", "n.x", "../n", long_id.c_str()}) {
    ManifestText text;
    text.id = id;
    EXPECT_THAT(error_of(text.text()), HasSubstr("found '" + id + "'")) << id;
  }
  ManifestText empty;
  empty.id = "";
  EXPECT_THAT(error_of(empty.text()), HasSubstr("'id' is empty"));
}

TEST(Manifest, ParseManifest_BadAbiVersion_IsRefused) {
  for (const std::string version : {"0", "0.", ".1", "0.1x", "-1.0", "70000.0", "0.1.2", "0,1"}) {
    ManifestText text;
    text.abi_built = version;
    EXPECT_THAT(error_of(text.text()), HasSubstr("expected a version like 0.1")) << version;
  }
  ManifestText text;
  text.abi_min = "0.9";
  text.abi_built = "0.8";
  EXPECT_THAT(error_of(text.text()), HasSubstr("'abi_min' is above abi_built"));
}

TEST(Manifest, ParseManifest_BadBuildKind_IsRefused) {
  ManifestText text;
  text.sanitizer = "memory";
  EXPECT_THAT(error_of(text.text()), HasSubstr("expected one of none, address, thread"));
  text.sanitizer = "none";
  text.compiler = "icc";
  EXPECT_THAT(error_of(text.text()), HasSubstr("expected one of gcc, clang, found 'icc'"));
  EXPECT_THAT(error_of(R"({"manifest": 1, "id": "a", "version": "1", "abi_min": "0.1",
                           "abi_built": "0.1", "sanitizer": "address"})"),
              HasSubstr("'compiler' not found"));
}

TEST(Manifest, ParseManifest_DuplicateKey_IsRefusedAtAnyLevel) {
  ManifestText text;
  text.extra = R"(, "id": "evil")";
  EXPECT_THAT(error_of(text.text()), HasSubstr("\"id\" stands twice"));
  EXPECT_THAT(error_of(R"({"a": {"b": 1, "c": {}, "b": 2}})"), HasSubstr("\"b\" stands twice"));
  EXPECT_THAT(error_of(R"({"a": [{}, {"x": [], "x": 2}]})"), HasSubstr("\"x\" stands twice"));
  EXPECT_THAT(error_of(R"({"\u0069d": 1, "id": 2})"), HasSubstr("\"id\" stands twice"));
  // The same key in two objects is no duplicate.
  text.extra = R"(, "a": {"k": 1, "b": {"k": 2}}, "c": [{"k": 1}, {"k": 1}])";
  EXPECT_EQ(error_of(text.text()), "accepted");
}

TEST(Manifest, ParseManifest_TooDeep_IsRefused) {
  const auto nested = [](size_t levels) {
    ManifestText text;
    text.extra = ", \"x\": " + std::string(levels, '[') + std::string(levels, ']');
    return text.text();
  };
  EXPECT_EQ(error_of(nested(15)), "accepted");
  EXPECT_THAT(error_of(nested(16)), HasSubstr("nested deeper than 16 levels"));
  EXPECT_THAT(error_of(nested(30'000)), HasSubstr("nested deeper than 16 levels"));
  EXPECT_THAT(error_of(std::string(60'000, '[')), HasSubstr("nested deeper than 16 levels"));
}

TEST(Manifest, ParseManifest_TooLarge_IsRefused) {
  ManifestText text;
  const size_t room = 64 * 1024 - text.text().size();
  EXPECT_EQ(error_of(text.text() + std::string(room, ' ')), "accepted");
  EXPECT_THAT(error_of(text.text() + std::string(room + 1, ' ')), HasSubstr("65536 bytes"));
}

TEST(Manifest, ParseManifest_TruncatedAnywhere_IsRefused) {
  const std::string whole =
      with_option(R"({"name": "n", "type": "i64", "default": 12, "scope": "device", "help": "h"})");
  ASSERT_EQ(error_of(whole), "accepted");
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(error_of(whole.substr(0, size)), "accepted") << size;
  }
}

TEST(Manifest, ParseManifest_ZeroBytes_AreRefused) {
  using std::string_literals::operator""s;
  const std::string whole = ManifestText().text();
  EXPECT_THAT(error_of(whole + "\0"s), HasSubstr("zero byte"));
  EXPECT_THAT(error_of(whole + "\0{\"id\": \"evil\"}"s), HasSubstr("zero byte"));
  EXPECT_THAT(error_of("\0"s), HasSubstr("zero byte"));
  ManifestText text;
  text.extra = R"(, "description": "a\u0000b")";
  EXPECT_THAT(error_of(text.text()), HasSubstr("'description' is empty, or has control"));
}

TEST(Manifest, ParseManifest_ForeignCharacters_AreRefused) {
  ManifestText text;
  text.extra = R"(, "description": "red \u001b[31m")";
  EXPECT_THAT(error_of(text.text()), HasSubstr("control characters"));
  text.extra = ", \"description\": \"caf\xe9\"";
  EXPECT_THAT(error_of(text.text()), HasSubstr("not UTF-8"));
  text.extra = ", \"description\": \"caf\xc3\xa9\"";
  EXPECT_EQ(error_of(text.text()), "accepted");
}

TEST(Manifest, ParseManifest_NumbersOutOfRange_AreRefused) {
  EXPECT_THAT(error_of(R"({"manifest": 1e999})"), HasSubstr("number overflow"));
  const auto with_default = [](const std::string& type, const std::string& value) {
    return error_of(with_option(R"({"name": "n", "scope": "device", "help": "h", "type": ")" +
                                type + R"(", "default": )" + value + "}"));
  };
  EXPECT_EQ(with_default("i64", "9223372036854775807"), "accepted");
  EXPECT_THAT(with_default("i64", "9223372036854775808"), HasSubstr("-2^63 to 2^63 - 1"));
  EXPECT_THAT(with_default("i64", "18446744073709551616"), HasSubstr("not of the option's type"));
  EXPECT_THAT(with_default("i64", "1.5"), HasSubstr("not of the option's type"));
  EXPECT_THAT(with_default("i64", "true"), HasSubstr("not of the option's type"));
  EXPECT_THAT(with_default("bytes", "-1"), HasSubstr("expected 0 to 2^63 - 1"));
  EXPECT_THAT(with_default("bytes", "\"8589934592GiB\""), HasSubstr("expected 0 to 2^63 - 1"));
  EXPECT_THAT(with_default("bool", "1"), HasSubstr("not of the option's type"));
  EXPECT_THAT(with_default("str", "null"), HasSubstr("not of the option's type"));
}

TEST(Manifest, ParseManifest_BadOptionDeclaration_IsRefused) {
  const std::string head = R"({"name": "n", "scope": "device", "help": "h", )";
  EXPECT_THAT(error_of(with_option(head + R"("type": "int"})")),
              HasSubstr("'type': expected one of i64, bytes, bool, str, found 'int'"));
  EXPECT_THAT(error_of(with_option(R"({"name": "n", "type": "i64", "help": "h", "scope": "all"})")),
              HasSubstr("'scope': expected one of instance, device"));
  EXPECT_THAT(error_of(with_option(head + R"("type": "str", "min": 1})")),
              HasSubstr("only i64 and bytes have limits"));
  EXPECT_THAT(error_of(with_option(head + R"("type": "i64", "min": 5, "max": 4})")),
              HasSubstr("'max': expected at least 5, found '4'"));
  EXPECT_THAT(error_of(with_option(head + R"("type": "i64", "max": 4, "default": 5})")),
              HasSubstr("'default': expected at most 4, found '5'"));
  EXPECT_THAT(error_of(with_option(head + R"("type": "str", "choices": "a"})")),
              HasSubstr("choices is no list"));
  EXPECT_THAT(
      error_of(with_option(head + R"("type": "str", "choices": ["a", "b"], "default": "c"})")),
      HasSubstr("expected one of a, b, found 'c'"));
  const std::string good = head + R"("type": "i64"})";
  EXPECT_THAT(error_of(with_option(good + ", " + good)), HasSubstr("'n' is declared twice"));
  EXPECT_THAT(error_of(R"({"manifest": 1, "id": "a", "version": "1", "abi_min": "0.1",
                           "abi_built": "0.1", "options": {}})"),
              HasSubstr("'options' is no list"));
}

}  // namespace
}  // namespace bp
