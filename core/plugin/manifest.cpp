// SPDX-License-Identifier: Apache-2.0
//
// Step 2: reads one manifest. It is foreign text, so it is bounded in bytes and depth while it is
// parsed, a duplicate key is refused, and every error names its field.
#include "core/plugin/manifest.hpp"

#include <algorithm>
#include <charconv>
#include <set>
#include <span>
#include <stdexcept>

#include "core/base/foreign_text.hpp"
#include "core/base/json.hpp"
#include "core/base/log.hpp"
#include "core/base/mapped_file.hpp"
#include "core/plugin/load_steps.hpp"

namespace bp {
namespace {

constexpr size_t kMaxBytes = 64 * 1024;
constexpr size_t kMaxNamed = 16;  // unknown fields; each is a line in the log

template <class... Args>
void expect(bool condition, fmt::format_string<Args...> problem, Args&&... args) {
  if (!condition) throw std::runtime_error(fmt::format(problem, std::forward<Args>(args)...));
}

// These texts reach logs and terminals: no control characters, so no escape sequences.
std::string text_of(const JsonValue& object, const std::string& name) {
  const std::string text = object.at(name).string();
  const bool plain = std::none_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  expect(plain && !text.empty(), "field '{}' is empty, or has control characters in it", name);
  return text;
}

std::string identifier_of(const JsonValue& object, const std::string& name) {
  const std::string text = text_of(object, name);
  const bool valid =
      text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789") == std::string::npos;
  expect(valid && text[0] >= 'a' && text.size() <= 32,
         "field '{}': expected at most 32 of a-z, 0-9 and _, a letter first, found '{}'", name,
         foreign_text(text));
  return text;
}

size_t word_of(const JsonValue& object, const std::string& name,
               const std::vector<std::string>& words) {
  const std::string text = text_of(object, name);
  const auto at = std::find(words.begin(), words.end(), text);
  expect(at != words.end(), "field '{}': expected one of {}, found '{}'", name,
         fmt::join(words, ", "), foreign_text(text));
  return static_cast<size_t>(at - words.begin());
}

uint32_t abi_of(const JsonValue& object, const std::string& name) {
  const std::string text = text_of(object, name);
  const char* const end = text.data() + text.size();
  uint16_t major = 0;
  uint16_t minor = 0;
  const auto first = std::from_chars(text.data(), end, major);
  const bool has_dot = first.ec == std::errc() && first.ptr != end && *first.ptr == '.';
  const auto second = std::from_chars(has_dot ? first.ptr + 1 : end, end, minor);
  expect(second.ec == std::errc() && second.ptr == end,
         "field '{}': expected a version like 0.1, found '{}'", name, foreign_text(text));
  return BP_ABI_VERSION(major, minor);
}

// A default, limit or choice: JSON of the option's type, or a text as users write it.
std::string value_of(const JsonValue& value, const OptionDecl& decl, const std::string& name) {
  using Kind = JsonValue::Kind;
  const bool is_number = decl.type == OptionType::kI64 || decl.type == OptionType::kBytes;
  const bool fits = value.kind() == Kind::kString ||
                    (is_number && value.kind() == Kind::kInteger) ||
                    (decl.type == OptionType::kBool && value.kind() == Kind::kBool);
  expect(fits, "option '{}', field '{}': {} is not of the option's type", decl.name, name,
         value.quoted());
  const auto parsed = parse_option_value(decl, value.text());
  expect(parsed.ok(), "option '{}', field '{}': {}", decl.name, name, parsed.status().message());
  return *parsed;
}

std::optional<int64_t> limit_of(const JsonValue& object, const std::string& name,
                                const OptionDecl& decl) {
  const JsonValue* limit = object.find(name);
  if (limit == nullptr) return std::nullopt;
  expect(decl.type == OptionType::kI64 || decl.type == OptionType::kBytes,
         "option '{}': only i64 and bytes have limits", decl.name);
  return std::stoll(value_of(*limit, decl, name));
}

void list_unknown(const JsonValue& object, const std::string& where,
                  const std::set<std::string>& known, std::vector<std::string>* out) {
  for (const std::string& name : object.keys()) {
    if (known.contains(name) || out->size() == kMaxNamed) continue;
    out->push_back(where + json_quoted(name));
  }
}

// An absent list is an empty one.
std::span<const JsonValue> elements_of(const JsonValue* list, const std::string& what) {
  if (list == nullptr) return {};
  expect(list->kind() == JsonValue::Kind::kArray, "{} is no list", what);
  return list->values();
}

OptionDecl read_option(const JsonValue& object) {
  OptionDecl decl;
  decl.name = identifier_of(object, "name");
  decl.type = static_cast<OptionType>(word_of(object, "type", {"i64", "bytes", "bool", "str"}));
  decl.scope = static_cast<OptionScope>(word_of(object, "scope", {"instance", "device"}));
  decl.help = text_of(object, "help");
  decl.min = limit_of(object, "min", decl);
  decl.max = limit_of(object, "max", decl);
  std::vector<std::string> allowed;
  const std::string choices = "option '" + decl.name + "': choices";
  for (const JsonValue& choice : elements_of(object.find("choices"), choices)) {
    allowed.push_back(value_of(choice, decl, "choices"));
  }
  decl.choices = std::move(allowed);
  if (const JsonValue* value = object.find("default")) {
    decl.default_value = value_of(*value, decl, "default");
  }
  return decl;
}

Manifest read_fields(const JsonValue& root) {
  Manifest manifest;
  // Another format may mean something else by these fields.
  const JsonValue& format = root.at("manifest");
  expect(format.kind() == JsonValue::Kind::kInteger && format.text() == "1",
         "field 'manifest': expected 1, the format that this core reads, found {}",
         format.quoted());
  manifest.id = identifier_of(root, "id");
  manifest.version = text_of(root, "version");
  if (root.find("description") != nullptr) manifest.description = text_of(root, "description");
  manifest.abi_min = abi_of(root, "abi_min");
  manifest.abi_built = abi_of(root, "abi_built");
  expect(manifest.abi_min <= manifest.abi_built, "field 'abi_min' is above abi_built");
  const std::vector<std::string> sanitizers = {"none", "address", "thread"};
  const std::vector<std::string> compilers = {"gcc", "clang"};
  const size_t kind =
      root.find("sanitizer") != nullptr ? word_of(root, "sanitizer", sanitizers) : 0;
  manifest.sanitizer = sanitizers[kind];
  if (root.find("compiler") != nullptr || kind != 0)
    manifest.compiler = compilers[word_of(root, "compiler", compilers)];
  std::set<std::string> names;
  for (const JsonValue& item : elements_of(root.find("options"), "field 'options'")) {
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
    const JsonValue root = parse_json(text, kMaxBytes);
    expect(root.kind() == JsonValue::Kind::kObject, "expected an object, found {}",
           root.kind_name());
    return read_fields(root);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    return fail(BP_INVALID_ARGUMENT, "{}", error.what());
  }
}

Result<Manifest> read_manifest(const std::string& path) {
  BP_TRY_ASSIGN(const FileInfo info, file_info(path));
  // Before it is opened, as opening a device may do something; read_file() asks the open file
  // again.
  if (!info.is_regular) return fail(BP_INVALID_ARGUMENT, "{} is not a regular file", path);
  BP_TRY_ASSIGN(const std::string text, read_file(path, kMaxBytes));
  Result<Manifest> manifest = parse_manifest(text);
  if (!manifest.ok()) return manifest.status().with_prefix(path);
  for (const std::string& field : manifest->unknown_fields) {
    log(BP_LOG_WARNING, fmt::format("{}: the unknown field {} is ignored", path, field));
  }
  return manifest;
}

Status read_manifest(Attempt* attempt) {
  BP_TRY_ASSIGN(attempt->parts.manifest, read_manifest(attempt->manifest_path));
  return {};
}

}  // namespace bp
