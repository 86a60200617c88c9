// SPDX-License-Identifier: Apache-2.0
//
// The options that the user set, from a bp_config or a bp_open_args.
#ifndef BACKPLANE_SDK_OPTIONS_HPP
#define BACKPLANE_SDK_OPTIONS_HPP

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

#include "backplane/sdk/slot.hpp"

namespace bp::sdk {

/// The value of a user option in a bp_config or bp_open_args, if the user set it.
template <class Args>
std::optional<std::string_view> option(const Args* args, std::string_view name) {
  if (!BP_SDK_HAS(args, option_values)) return std::nullopt;
  for (uint32_t i = 0; i < args->option_count; ++i) {
    if (view(args->option_names[i]) == name) return view(args->option_values[i]);
  }
  return std::nullopt;
}

/// An i64 or bytes option; `fallback` where the user set none. The core has checked the text
/// against the manifest, so text that is no number is the core's bug.
template <class Args>
int64_t option_i64(const Args* args, std::string_view name, int64_t fallback) {
  const auto text = option(args, name);
  if (!text) return fallback;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size()) {
    refuse("option ", name, ": '", *text, "' is not an integer");
  }
  return value;
}

template <class Args>
bool option_bool(const Args* args, std::string_view name, bool fallback) {
  const auto text = option(args, name);
  if (!text) return fallback;
  if (*text != "true" && *text != "false") {
    refuse("option ", name, ": '", *text, "' is neither true nor false");
  }
  return *text == "true";
}

}  // namespace bp::sdk

#endif
