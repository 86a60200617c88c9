// SPDX-License-Identifier: Apache-2.0
//
// What callers may set: options and flags. The core has checked options against the manifest; a key
// that this build of the plugin does not read means that the manifest beside the library is another
// one's. Such a key, or a flag from a newer ABI, is refused by name rather than ignored.
#ifndef BACKPLANE_PLUGINS_XPU_OPTIONS_HPP
#define BACKPLANE_PLUGINS_XPU_OPTIONS_HPP

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>

#include "backplane/sdk/sdk.hpp"

namespace bp::xpu {

/// Throws sdk::Failure with BP_INVALID_ARGUMENT for an option that is not in `known`.
template <class Args>
void check_options(const Args* args, std::initializer_list<std::string_view> known) {
  for (uint32_t i = 0; i < args->option_count; ++i) {
    const std::string_view name = sdk::view(args->option_names[i]);
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw sdk::Failure{BP_INVALID_ARGUMENT, "unknown option '" + std::string(name) + "'"};
    }
  }
}

/// Throws sdk::Failure with BP_UNSUPPORTED if a struct's `flags` have a bit that is not in `known`.
inline void check_flags(uint32_t flags, uint32_t known, const char* name) {
  if ((flags & ~known) == 0) return;
  throw sdk::Failure{BP_UNSUPPORTED, std::string(name) + ": flags " + std::to_string(flags) +
                                         "; this device knows " + std::to_string(known)};
}

}  // namespace bp::xpu

#endif
