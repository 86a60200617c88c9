// SPDX-License-Identifier: Apache-2.0
//
// From the parser's events to values. The library is slow to compile, so no other file of the core
// has it.
#include "core/base/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "core/base/utf8.hpp"

namespace bp {
namespace {

constexpr size_t kMaxDepth = 16;

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> problem, Args&&... args) {
  throw std::runtime_error(fmt::format(problem, std::forward<Args>(args)...));
}

std::string_view place_name(const std::string& place) {
  return place.empty() ? std::string_view("the text") : std::string_view(place);
}

}  // namespace

/// What the parser calls. Pointers into values_ hold, as only the innermost open value grows.
class JsonBuilder {
 public:
  using Number = nlohmann::json::number_float_t;

  bool null() { return add(JsonValue::Kind::kNull, "null"); }
  bool boolean(bool value) { return add(JsonValue::Kind::kBool, value ? "true" : "false"); }
  bool number_integer(int64_t value) {
    return add(JsonValue::Kind::kInteger, std::to_string(value));
  }
  bool number_unsigned(uint64_t value) {
    return add(JsonValue::Kind::kInteger, std::to_string(value));
  }
  bool number_float(Number, const std::string& text) { return add(JsonValue::Kind::kNumber, text); }
  bool string(std::string& text) { return add(JsonValue::Kind::kString, std::move(text)); }
  bool binary(nlohmann::json::binary_t&) { return false; }
  bool start_object(size_t) { return open(JsonValue::Kind::kObject); }
  bool start_array(size_t) { return open(JsonValue::Kind::kArray); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    std::vector<std::string>& keys = open_.back()->keys_;
    if (std::find(keys.begin(), keys.end(), name) != keys.end()) {
      refuse("{} stands twice in one object", json_quoted(name));
    }
    keys.push_back(std::move(name));
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& error) {
    const std::string_view words = error.what();  // "[json.exception.parse_error.101] words"
    refuse("{}", words.substr(words[0] == '[' ? words.find(']') + 2 : 0));
  }

  JsonValue take() { return std::move(root_); }

 private:
  JsonValue& make(JsonValue::Kind kind) {
    JsonValue* made = &root_;
    if (!open_.empty()) {
      JsonValue& parent = *open_.back();
      made = &parent.values_.emplace_back();
      made->place_ =
          parent.place_ + "/" +
          (parent.kind_ == JsonValue::Kind::kObject ? parent.keys_.back()
                                                    : std::to_string(parent.values_.size() - 1));
    }
    made->kind_ = kind;
    return *made;
  }
  bool add(JsonValue::Kind kind, std::string text) {
    make(kind).text_ = std::move(text);
    return true;
  }
  bool open(JsonValue::Kind kind) {
    if (open_.size() == kMaxDepth) refuse("nested deeper than {} levels", kMaxDepth);
    open_.push_back(&make(kind));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  JsonValue root_;
  std::vector<JsonValue*> open_;
};

std::string_view JsonValue::kind_name() const {
  switch (kind_) {
    case Kind::kNull:
      return "null";
    case Kind::kBool:
      return "boolean";
    case Kind::kInteger:
    case Kind::kNumber:
      return "number";
    case Kind::kString:
      return "string";
    case Kind::kArray:
      return "array";
    case Kind::kObject:
      return "object";
  }
  return "value";
}

bool JsonValue::is_integer_from(int64_t least) const {
  if (kind_ != Kind::kInteger) return false;
  if (text_[0] != '-') return least <= 0 || std::stoull(text_) >= static_cast<uint64_t>(least);
  return std::stoll(text_) >= least;
}

const std::string& JsonValue::string() const {
  if (kind_ != Kind::kString) {
    refuse("{}: expected a string, found {}", place_name(place_), kind_name());
  }
  return text_;
}

std::string JsonValue::quoted() const {
  if (kind_ == Kind::kArray || kind_ == Kind::kObject) return std::string(kind_name());
  return kind_ == Kind::kString ? json_quoted(text_) : text_;
}

const JsonValue* JsonValue::find(std::string_view key) const {
  if (kind_ != Kind::kObject) {
    refuse("{}: expected an object, found {}", place_name(place_), kind_name());
  }
  const auto found = std::find(keys_.begin(), keys_.end(), key);
  return found == keys_.end() ? nullptr : &values_[static_cast<size_t>(found - keys_.begin())];
}

const JsonValue& JsonValue::at(std::string_view key) const {
  const JsonValue* found = find(key);
  if (found == nullptr) refuse("{}: '{}' not found", place_name(place_), key);
  return *found;
}

std::string json_quoted(const std::string& text) { return nlohmann::json(text).dump(); }

JsonValue parse_json(std::string_view text, size_t max_bytes) {
  if (text.size() > max_bytes) refuse("more than {} bytes", max_bytes);
  if (!is_utf8(text)) refuse("the text is not UTF-8");
  // The parser takes a zero byte for the end of the text and ignores what follows.
  if (text.find('\0') != std::string_view::npos) refuse("there is a zero byte in the text");
  JsonBuilder builder;
  nlohmann::json::sax_parse(text, &builder);
  return builder.take();
}

}  // namespace bp
