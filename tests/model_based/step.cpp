// SPDX-License-Identifier: Apache-2.0
//
// Steps as text: what a failing run prints, and what a replay reads.
#include "tests/model_based/step.hpp"

#include <charconv>

namespace bp::model {
namespace {

constexpr std::array<std::string_view, 21> kNames = {
    "stream_create", "stream_destroy", "stream_sync", "stream_query", "event_create",
    "event_destroy", "event_record",   "event_wait",  "event_sync",   "event_query",
    "event_elapsed", "alloc",          "free",        "write_host",   "copy",
    "fill",          "host_call",      "add",         "relu",         "map",
    "unmap"};

template <class Number>
bool parse_number(std::string_view text, Number* out_number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out_number);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse_place(std::string_view text, Place* out_place) {
  const size_t plus = text.find('+');
  return plus != std::string_view::npos && parse_number(text.substr(0, plus), &out_place->memory) &&
         parse_number(text.substr(plus + 1), &out_place->offset);
}

bool parse_field(std::string_view name, std::string_view text, Step* step) {
  if (name == "stream") return parse_number(text, &step->stream);
  if (name == "event") return parse_number(text, &step->event);
  if (name == "event2") return parse_number(text, &step->event2);
  if (name == "dst") return parse_place(text, &step->dst);
  if (name == "src") return parse_place(text, &step->src);
  if (name == "src2") return parse_place(text, &step->src2);
  if (name == "bytes") return parse_number(text, &step->bytes);
  if (name == "value") return parse_number(text, &step->value);
  if (name == "pattern_bytes") return parse_number(text, &step->pattern_bytes);
  if (name == "flags") return parse_number(text, &step->flags);
  return false;
}

std::string_view take_word(std::string_view* rest) {
  const size_t begin = std::min(rest->find_first_not_of(' '), rest->size());
  const size_t end = std::min(rest->find(' ', begin), rest->size());
  const std::string_view word = rest->substr(begin, end - begin);
  rest->remove_prefix(end);
  return word;
}

}  // namespace

std::string to_text(const Step& step) {
  std::string text(kNames[static_cast<size_t>(step.op)]);
  const auto add_number = [&](std::string_view name, auto value, auto absent) {
    if (value != absent) text += " " + std::string(name) + "=" + std::to_string(value);
  };
  const auto add_place = [&](std::string_view name, const Place& place) {
    if (place == Place()) return;
    text += " " + std::string(name) + "=" + std::to_string(place.memory) + "+" +
            std::to_string(place.offset);
  };
  add_number("stream", step.stream, kNone);
  add_number("event", step.event, kNone);
  add_number("event2", step.event2, kNone);
  add_place("dst", step.dst);
  add_place("src", step.src);
  add_place("src2", step.src2);
  add_number("bytes", step.bytes, 0u);
  add_number("value", step.value, uint64_t{0});
  add_number("pattern_bytes", step.pattern_bytes, 0u);
  add_number("flags", step.flags, 0u);
  return text;
}

std::string to_text(std::span<const Step> steps) {
  std::string text;
  for (const Step& step : steps) text += to_text(step) + "\n";
  return text;
}

std::optional<Step> parse_step(std::string_view line) {
  Step step;
  const std::string_view name = take_word(&line);
  size_t op = 0;
  while (op < kNames.size() && kNames[op] != name) ++op;
  if (op == kNames.size()) return std::nullopt;
  step.op = static_cast<Op>(op);
  for (std::string_view word = take_word(&line); !word.empty(); word = take_word(&line)) {
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos ||
        !parse_field(word.substr(0, equals), word.substr(equals + 1), &step)) {
      return std::nullopt;
    }
  }
  return step;
}

}  // namespace bp::model
