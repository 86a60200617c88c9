// SPDX-License-Identifier: Apache-2.0
//
// The bands that this core knows, as people call them, and how a device has each. The list is made
// from the headers.
#ifndef BACKPLANE_CORE_DEVICE_FEATURES_HPP
#define BACKPLANE_CORE_DEVICE_FEATURES_HPP

#include <array>
#include <cstdint>

#include "core/device/device_table.hpp"

namespace bp {

struct Feature {
  const char* name;
  uint64_t bit;  // BP_FEATURE_*_BIT
};

inline constexpr auto kFeatures = [] {
  std::array<Feature, kFeatureBands.size()> features{};
  for (size_t i = 0; i < features.size(); ++i) {
    features[i] = {kFeatureBands[i].word, kFeatureBands[i].bit};
  }
  return features;
}();

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
