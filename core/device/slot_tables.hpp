// SPDX-License-Identifier: Apache-2.0
//
// What the typed calls of an open device stand on: the plugin's slots as this device has them, the
// emulated ones that stand in for others, and the gate that every call of a plugin goes through.
#ifndef BACKPLANE_CORE_DEVICE_SLOT_TABLES_HPP
#define BACKPLANE_CORE_DEVICE_SLOT_TABLES_HPP

#include <algorithm>
#include <cstdint>
#include <memory>

#include "backplane/device_api.h"
#include "core/plugin/api_tables.hpp"
#include "core/plugin/call_gate.hpp"

namespace bp {

/// Plain data, filled once when a device is opened and never changed after emulate_missing(). Slots
/// of bands that this device does not have are null in the plugin's tables; those of emulated_ ones
/// are null where the plugin's serve. The core never calls through these tables, nor through the
/// plugin's own: DeviceTable has a call for each slot.
struct SlotTables : DeviceTables {
  bp_device* device = nullptr;  // the plugin's
  bp_device_props props{};
  std::shared_ptr<const void> texts;  // what the texts of `props` are kept in; copies share it
  // Where emulated slots put their failures in words, just as the plugin does; NULL: nowhere.
  const bp_host_api* host = nullptr;
  void* host_ctx = nullptr;
  /// Copies of the tables share it.
  std::shared_ptr<CallGate> gate = std::make_shared<CallGate>();

  // Set by emulate_missing(), as the emulated_ tables are: what their slots take in place of the
  // device.
  bp_device* emulation = nullptr;
  /// Bands that the core emulates for this device (BP_FEATURE_*_BIT).
  uint64_t emulated = 0;

  bool has_native(uint64_t feature) const { return (props.features & ~emulated & feature) != 0; }
  bool stream_emulated() const { return (emulated & BP_FEATURE_ASYNC_BIT) != 0; }
  /// Logs a call that failed and that nobody is told of otherwise, with this thread's report of it.
  /// Not after the device was abandoned, which was told. Never throws. In open_device.cpp.
  void warn(Slot slot, bp_status status) const;
};

// --- checks of answers: a slot that needs one of its own has an overload here ---

template <Slot slot>
struct SlotTag {};

template <Slot slot, class... Arguments>
AnswerDefect answer_defect(SlotTag<slot>, const SlotTables&, const Arguments&...) {
  return {};
}

inline AnswerDefect answer_defect(SlotTag<Slot::kMemAlloc>, const SlotTables& tables,
                                  const bp_alloc_args& args, uint64_t* const& out_handle) {
  if ((tables.props.flags & BP_DEVICE_ADDRESS_BIT) == 0) return {};
  const uint64_t alignment = std::max({args.alignment_bytes, tables.props.alignment_bytes,  //
                                       uint64_t{1}});
  if (*out_handle % alignment == 0) return {};
  return {"answered an address that is not aligned as asked", true};
}

template <class Arguments>
AnswerDefect answer_defect(SlotTag<Slot::kHostAlloc>, const SlotTables&, const Arguments&,
                           void** const& out_ptr) {
  constexpr uint64_t kAlignment = 64;
  if (live_value(*out_ptr) % kAlignment == 0) return {};
  return {"answered memory that is not aligned to 64 bytes", true};
}

}  // namespace bp

#endif
