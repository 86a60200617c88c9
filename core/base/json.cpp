// SPDX-License-Identifier: Apache-2.0
//
// From the parser's events to values. The library is slow to compile, so no other file of the core
// has it.
#include "core/base/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <utility>

#include "core/base/foreign_text.hpp"
#include "core/base/utf8.hpp"

namespace bp {
namespace {

constexpr size_t kMaxDepth = 16;

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> problem, Args&&... args) {
  throw std::runtime_error(fmt::format(problem, std::forward<Args>(args)...));
}

}  // namespace

/// Of an array or object. Shared by the values in it, so that each knows where it stands even when
/// it was copied out.
struct JsonValue::Place {
  std::shared_ptr<const Place> parent;  // nullptr: it is the text itself
  size_t index = 0;                     // in the parent
  std::vector<std::string> keys;        // of an object

  std::string step_to(size_t value) const {
    return keys.empty() ? std::to_string(value) : foreign_text(keys[value]);
  }
};

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
    Open& object = open_.back();
    if (!object.keys.insert(name).second) {
      refuse("{} stands twice in one object", json_quoted(name));
    }
    object.value->place_->keys.push_back(std::move(name));
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& error) {
    const std::string_view words = error.what();  // "[json.exception.parse_error.101] words"
    refuse("{}", foreign_text(words.substr(words[0] == '[' ? words.find(']') + 2 : 0)));
  }

  JsonValue take() { return std::move(root_); }

 private:
  struct Open {
    JsonValue* value;
    std::set<std::string> keys;  // looked up for each new one, so no list
  };

  JsonValue& make(JsonValue::Kind kind) {
    JsonValue* made = &root_;
    if (!open_.empty()) {
      JsonValue& parent = *open_.back().value;
      made = &parent.values_.emplace_back();
      made->index_ = parent.values_.size() - 1;
      made->place_ = parent.place_;
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
    JsonValue& made = make(kind);
    auto place = std::make_shared<JsonValue::Place>();
    place->index = made.index_;
    place->parent = std::exchange(made.place_, place);
    open_.push_back({&made, {}});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  JsonValue root_;
  std::vector<Open> open_;
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

std::string JsonValue::place() const {
  size_t index = index_;
  const Place* parent = has_values() ? place_->parent.get() : place_.get();
  std::string words;
  for (; parent != nullptr; parent = parent->parent.get()) {
    words.insert(0, "/" + parent->step_to(index));
    index = parent->index;
  }
  return words.empty() ? "the text" : words;
}

const std::vector<std::string>& JsonValue::keys() const {
  static const std::vector<std::string> none;
  return kind_ == Kind::kObject ? place_->keys : none;
}

const std::string& JsonValue::string() const {
  if (kind_ != Kind::kString) {
    refuse("{}: expected a string, found {}", place(), kind_name());
  }
  return text_;
}

std::string JsonValue::quoted() const {
  if (has_values()) return std::string(kind_name());
  return kind_ == Kind::kString ? json_quoted(text_) : foreign_text(text_);
}

const JsonValue* JsonValue::find(std::string_view key) const {
  if (kind_ != Kind::kObject) {
    refuse("{}: expected an object, found {}", place(), kind_name());
  }
  const std::vector<std::string>& names = keys();
  const auto found = std::find(names.begin(), names.end(), key);
  return found == names.end() ? nullptr : &values_[static_cast<size_t>(found - names.begin())];
}

const JsonValue& JsonValue::at(std::string_view key) const {
  const JsonValue* found = find(key);
  if (found == nullptr) refuse("{}: '{}' not found", place(), key);
  return *found;
}

std::string json_quoted(std::string_view text) {
  // Bounded before it is escaped, which may make it six times as long, and once more after.
  constexpr size_t kMostBytes = 1024;
  const std::string escaped = nlohmann::json(text.substr(0, kMostBytes))
                                  .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return '"' + foreign_text(std::string_view(escaped).substr(1, escaped.size() - 2)) + '"';
}

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
