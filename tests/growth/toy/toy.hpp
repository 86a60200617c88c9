// SPDX-License-Identifier: Apache-2.0
//
// The table of toy.h in a copy of the template's plugin, which includes this behind its own slots.
// TOY_HALF leaves one slot out.
#pragma once

#include <atomic>
#include <stdexcept>

namespace {

std::atomic<uint64_t> turns;

/// 13 turns break the spring: the plugin forgets its guard.
bp_status toy_wind(bp_device* device, const bp_toy_args* args) {
  if (args->turn_count == 13) throw std::runtime_error("the spring is broken");
  return sdk::slot("toy_wind", device, {args},
                   [&] { turns += sdk::read_args(args, 0).turn_count; });
}

[[maybe_unused]] bp_status toy_unwind(bp_device* device, uint64_t* out_turn_count) {
  return sdk::slot("toy_unwind", device, {out_turn_count},
                   [&] { *out_turn_count = turns.exchange(0); });
}

#if defined(TOY_HALF)
constexpr bp_toy_api kToy{sizeof(kToy), BP_FEATURE_TOY_BIT, toy_wind, nullptr};
#else
constexpr bp_toy_api kToy{sizeof(kToy), BP_FEATURE_TOY_BIT, toy_wind, toy_unwind};
#endif

}  // namespace
