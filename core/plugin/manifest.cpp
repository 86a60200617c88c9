// SPDX-License-Identifier: Apache-2.0
//
// Step 2: reads one manifest. It is foreign text, so it is bounded in bytes and depth while it is
// parsed, and a duplicate key is refused: the JSON library would silently keep the last one. That
// library is slow to compile, so no other file has it; it throws, and with this macro says where.
#define JSON_DIAGNOSTICS 1
#include "core/plugin/manifest.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "core/base/log.hpp"
#include "core/base/utf8.hpp"
#include "core/plugin/steps.hpp"

namespace bp {
namespace {

using nlohmann::json;

constexpr size_t kMaxBytes = 64 * 1024;
constexpr int kMaxDepth = 16;
constexpr size_t kMaxNamed = 16;  // unknown fields; each is a line in the log

template <class... Args>
void expect(bool condition, fmt::format_string<Args...> problem, Args&&... args) {
  if (!condition) throw std::runtime_error(fmt::format(problem, std::forward<Args>(args)...));
}

// Called by the parser as it goes; what it throws ends the parse.
struct ShapeCheck {
  bool operator()(int depth, json::parse_event_t event, json& parsed) {
    const auto level = static_cast<size_t>(depth);
    if (event == json::parse_event_t::key) {
      expect(keys[level].insert(parsed).second, "{} stands twice in one object", parsed.dump());
    } else if (event != json::parse_event_t::value) {
      const bool opens =
          event == json::parse_event_t::object_start || event == json::parse_event_t::array_start;
      expect(!opens || depth < kMaxDepth, "nested deeper than {} levels", kMaxDepth);
      keys.resize(level + 1);
      keys.emplace_back();
    }
    return true;
  }
  std::vector<std::set<std::string>> keys;  // of the open object at each depth
};

json parse_json(std::string_view text) {
  expect(text.size() <= kMaxBytes, "more than {} bytes", kMaxBytes);
  expect(is_utf8(text), "the text is not UTF-8");
  // The JSON library takes a zero byte for the end of the text and ignores what follows.
  expect(text.find('\0') == std::string_view::npos, "there is a zero byte in the text");
  json root = json::parse(text, ShapeCheck());
  expect(root.is_object(), "expected an object, found {}", root.type_name());
  return root;
}

// These texts reach logs and terminals: no control characters, so no escape sequences.
std::string text_of(const json& object, const std::string& name) {
  const std::string text = object.at(name);
  const bool plain = std::none_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  expect(plain && !text.empty(), "field '{}' is empty, or has control characters in it", name);
  return text;
}

std::string identifier_of(const json& object, const std::string& name) {
  const std::string text = text_of(object, name);
  const bool valid =
      text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789") == std::string::npos;
  expect(valid && text[0] >= 'a' && text.size() <= 32,
         "field '{}': expected at most 32 of a-z, 0-9 and _, a letter first, found '{}'", name,
         text);
  return text;
}

size_t word_of(const json& object, const std::string& name, const std::vector<std::string>& words) {
  const std::string text = text_of(object, name);
  const auto at = std::find(words.begin(), words.end(), text);
  expect(at != words.end(), "field '{}': expected one of {}, found '{}'", name,
         fmt::join(words, ", "), text);
  return static_cast<size_t>(at - words.begin());
}

uint32_t abi_of(const json& object, const std::string& name) {
  const std::string text = text_of(object, name);
  const char* const end = text.data() + text.size();
  uint16_t major = 0;
  uint16_t minor = 0;
  const auto first = std::from_chars(text.data(), end, major);
  const bool has_dot = first.ec == std::errc() && first.ptr != end && *first.ptr == '.';
  const auto second = std::from_chars(has_dot ? first.ptr + 1 : end, end, minor);
  expect(second.ec == std::errc() && second.ptr == end,
         "field '{}': expected a version like 0.1, found '{}'", name, text);
  return BP_ABI_VERSION(major, minor);
}

// A default, limit or choice: JSON of the option's type, or a text as users write it.
std::string value_of(const json& value, const OptionDecl& decl, const std::string& name) {
  const bool is_number = decl.type == OptionType::kI64 || decl.type == OptionType::kBytes;
  const bool fits = value.is_string() || (is_number && value.is_number_integer()) ||
                    (decl.type == OptionType::kBool && value.is_boolean());
  expect(fits, "option '{}', field '{}': {} is not of the option's type", decl.name, name,
         value.dump());
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  const auto parsed = parse_option_value(decl, text);
  expect(parsed.ok(), "option '{}', field '{}': {}", decl.name, name, parsed.status().message());
  return *parsed;
}

std::optional<int64_t> limit_of(const json& object, const std::string& name,
                                const OptionDecl& decl) {
  if (!object.contains(name)) return std::nullopt;
  expect(decl.type == OptionType::kI64 || decl.type == OptionType::kBytes,
         "option '{}': only i64 and bytes have limits", decl.name);
  return std::stoll(value_of(object[name], decl, name));
}

void list_unknown(const json& object, const std::string& where, const std::set<std::string>& known,
                  std::vector<std::string>* out) {
  for (const auto& [name, value] : object.items()) {
    if (known.contains(name) || out->size() == kMaxNamed) continue;
    out->push_back(where + json(name).dump());
  }
}

OptionDecl read_option(const json& object) {
  OptionDecl decl;
  decl.name = identifier_of(object, "name");
  decl.type = static_cast<OptionType>(word_of(object, "type", {"i64", "bytes", "bool", "str"}));
  decl.scope = static_cast<OptionScope>(word_of(object, "scope", {"instance", "device"}));
  decl.help = text_of(object, "help");
  decl.min = limit_of(object, "min", decl);
  decl.max = limit_of(object, "max", decl);
  const json none = json::array();
  const json& choices = object.contains("choices") ? object["choices"] : none;
  expect(choices.is_array(), "option '{}': choices is no list", decl.name);
  std::vector<std::string> allowed;
  for (const json& choice : choices) allowed.push_back(value_of(choice, decl, "choices"));
  decl.choices = std::move(allowed);
  if (object.contains("default")) decl.default_value = value_of(object["default"], decl, "default");
  return decl;
}

Manifest read_fields(const json& root) {
  Manifest manifest;
  // Later formats only add fields, so a larger number is not refused.
  expect(root.at("manifest").is_number_unsigned() && root["manifest"] > 0,
         "field 'manifest': expected a whole number from 1");
  manifest.id = identifier_of(root, "id");
  manifest.version = text_of(root, "version");
  if (root.contains("description")) manifest.description = text_of(root, "description");
  manifest.abi_min = abi_of(root, "abi_min");
  manifest.abi_built = abi_of(root, "abi_built");
  expect(manifest.abi_min <= manifest.abi_built, "field 'abi_min' is above abi_built");
  const std::vector<std::string> sanitizers = {"none", "address", "thread"};
  const std::vector<std::string> compilers = {"gcc", "clang"};
  const size_t kind = root.contains("sanitizer") ? word_of(root, "sanitizer", sanitizers) : 0;
  manifest.sanitizer = sanitizers[kind];
  if (root.contains("compiler") || kind != 0)
    manifest.compiler = compilers[word_of(root, "compiler", compilers)];
  const json none = json::array();
  const json& options = root.contains("options") ? root["options"] : none;
  expect(options.is_array(), "field 'options' is no list");
  std::set<std::string> names;
  for (const json& item : options) {
    const OptionDecl& decl = manifest.options.emplace_back(read_option(item));
    expect(names.insert(decl.name).second, "the option '{}' is declared twice", decl.name);
    list_unknown(item, "option " + decl.name + ", ",
                 {"name", "type", "default", "scope", "help", "min", "max", "choices"},
                 &manifest.unknown_fields);
  }
  list_unknown(root, "",
               {"manifest", "id", "version", "description", "abi_min", "abi_built", "sanitizer",
                "compiler", "options"},
               &manifest.unknown_fields);
  return manifest;
}

}  // namespace

Result<Manifest> parse_manifest(std::string_view text) {
  try {
    return read_fields(parse_json(text));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    const std::string_view words = error.what();  // "[json.exception.type_error.302] words"
    return fail(BP_INVALID_ARGUMENT, "{}", words.substr(words[0] == '[' ? words.find(']') + 2 : 0));
  }
}

Status read_manifest(Attempt* attempt) {
  const std::string& path = attempt->manifest_path;
  BP_TRY_ASSIGN(const FileInfo info, file_info(path));
  if (!info.is_regular) return fail(BP_INVALID_ARGUMENT, "{} is not a regular file", path);
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (!file.is_open() || file.bad()) return fail(BP_UNAVAILABLE, "{} cannot be read", path);
  Result<Manifest> manifest = parse_manifest(text);
  if (!manifest.ok()) return manifest.status().with_prefix(path);
  for (const std::string& field : manifest->unknown_fields) {
    log(BP_LOG_WARNING, fmt::format("{}: the unknown field {} is ignored", path, field));
  }
  attempt->parts.manifest = std::move(manifest).value();
  return {};
}

}  // namespace bp
