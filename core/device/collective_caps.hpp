// SPDX-License-Identifier: Apache-2.0
//
// What an open device can do with others of its kind, as the core may believe it.
#ifndef BACKPLANE_CORE_DEVICE_COLLECTIVE_CAPS_HPP
#define BACKPLANE_CORE_DEVICE_COLLECTIVE_CAPS_HPP

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backplane/device_api.h"
#include "core/base/status.hpp"
#include "core/device/device_table.hpp"

namespace bp {

class LoadedPlugin;

/// Operations of one kind, every reduction with every dtype. Kinds, reductions and dtypes that this
/// core does not know are left out.
struct CollectiveRow {
  uint32_t kind = 0;        // BP_COLLECTIVE_*
  uint64_t reductions = 0;  // bits; 0 where the kind does not reduce
  uint64_t dtypes = 0;      // bits
  bool is_deterministic = false;
};

/// The core's copy of a device's answer.
struct CollectiveCaps {
  uint32_t flags = 0;      // BP_CAPS_*_BIT, known ones
  std::string domain;      // bytes: not for people
  uint64_t uid_bytes = 0;  // 1 to BP_UID_BYTES_MAX
  uint32_t uid_count_max = 1;
  uint32_t rank_count_max = 0;  // 0: no limit
  std::vector<CollectiveRow> rows;

  /// Whether some row has it; `reduction` counts where the kind reduces.
  bool has(uint32_t kind, uint32_t dtype, uint32_t reduction, bool deterministic) const;
};

/// Its values are combined.
bool collective_reduces(uint32_t kind);

/// Asks an open device. nullopt: it has no collectives that the core can use: no table, no streams
/// of its own, calls one at a time, or it says so. Errors: the plugin's own; INTERNAL for an answer
/// that cannot be. Any thread.
Result<std::optional<CollectiveCaps>> ask_collective_caps(const LoadedPlugin& plugin,
                                                          const DeviceTable& device);
/// The check behind it, for answers that come from elsewhere. `owner`: "npu:0".
Result<CollectiveCaps> check_collective_caps(std::string_view owner,
                                             const bp_collective_caps& caps);

}  // namespace bp

#endif
