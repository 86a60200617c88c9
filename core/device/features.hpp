// SPDX-License-Identifier: Apache-2.0
//
// The bands that this core knows, as people call them, and how a device has each. A new band is one
// line here.
#ifndef BACKPLANE_CORE_DEVICE_FEATURES_HPP
#define BACKPLANE_CORE_DEVICE_FEATURES_HPP

#include <cstdint>

#include "core/device/device_table.hpp"

namespace bp {

struct Feature {
  const char* name;
  uint64_t bit;  // BP_FEATURE_*_BIT
};

inline constexpr Feature kFeatures[] = {
    {"async", BP_FEATURE_ASYNC_BIT}, {"timing", BP_FEATURE_TIMING_BIT},
    {"fill", BP_FEATURE_FILL_BIT},   {"pinned", BP_FEATURE_PINNED_BIT},
    {"map", BP_FEATURE_MAP_BIT},     {"native_streams", BP_FEATURE_NATIVE_BIT}};

constexpr uint64_t known_features() {
  uint64_t bits = 0;
  for (const Feature& feature : kFeatures) bits |= feature.bit;
  return bits;
}

enum class FeatureState { kNative, kEmulated, kAbsent };

inline FeatureState state_of(const Feature& feature, const DeviceTable& table) {
  if (table.has_native(feature.bit)) return FeatureState::kNative;
  return (table.emulated & feature.bit) != 0 ? FeatureState::kEmulated : FeatureState::kAbsent;
}

}  // namespace bp

#endif
