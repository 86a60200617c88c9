// SPDX-License-Identifier: Apache-2.0
//
// Compiled programs on disk, so that the next process need not compile them: one file per program
// in a folder of the user's own. A file is believed only if it is whole, the user's own, and made
// from exactly the same source, options, device and driver; any other is compiled anew and
// replaced.
#ifndef BACKPLANE_PLUGINS_XPU_PROGRAM_CACHE_HPP
#define BACKPLANE_PLUGINS_XPU_PROGRAM_CACHE_HPP

#include <atomic>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backplane/sdk/sdk.hpp"

namespace bp::xpu {

/// Any thread, and any number of processes.
class ProgramCache {
 public:
  /// `option`: a folder's absolute path, "off", or "" for $XDG_CACHE_HOME/backplane, or else
  /// ~/.cache/backplane (off where neither is set, or the process runs with raised privileges).
  /// Throws sdk::Failure with BP_INVALID_ARGUMENT for a relative path.
  ProgramCache(sdk::Host host, std::string_view option);

  bool is_on() const { return !folder_.empty(); }
  /// What was written for `key`; empty: nothing that can be believed.
  std::vector<unsigned char> read(std::string_view key) const;
  /// Replaces what was there. What goes wrong is logged, the first time.
  void write(std::string_view key, std::span<const unsigned char> binary) const;

 private:
  std::string path_of(std::string_view key) const;
  void make_room() const;
  void complain(const std::string& what) const;

  sdk::Host host_;
  std::string folder_;  // empty: off
  mutable std::atomic<bool> complained_{false};
};

}  // namespace bp::xpu

#endif
