// SPDX-License-Identifier: Apache-2.0
//
// What is put to the test: one device of one plugin, described by its manifest. Nothing here maps
// the plugin; children do that (device.hpp, abi.hpp).
#ifndef BACKPLANE_SDK_CONFORM_TARGET_HPP
#define BACKPLANE_SDK_CONFORM_TARGET_HPP

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "backplane/device_api.h"
#include "core/base/status.hpp"
#include "core/device/features.hpp"
#include "core/plugin/manifest.hpp"

namespace bp::conform {

struct Target {
  std::string folder;
  std::string library_path;
  Manifest manifest;
  uint32_t device_index = 0;
  std::vector<OptionSetting> options;  // "<plugin id>.<option>"

  std::string device_name() const { return manifest.id + ":" + std::to_string(device_index); }
  /// Those of one scope, without the plugin's id, in the plugin's form.
  Result<std::vector<OptionSetting>> options_of(OptionScope scope) const;
};

/// A plugin by its library, whose manifest lies beside it, or by its folder; the folder must hold
/// exactly one manifest, since the loader maps all that it finds there. INVALID_ARGUMENT: none, or
/// several, or an option that its manifest refuses. Options of other plugins are left out.
Result<Target> find_target(const std::string& plugin, uint32_t device_index,
                           const std::vector<OptionSetting>& options);

/// No band of the ABI's: it takes BP_DEVICE_CONCURRENT_BIT from the device, so that the core makes
/// one call at a time.
inline constexpr uint64_t kOneCallAtATime = uint64_t{1} << 63;
/// Bands as reports and the command line call them: the core's, and that one.
inline constexpr auto kBands = [] {
  std::array<Feature, std::size(kFeatures) + 1> bands{};
  std::copy(std::begin(kFeatures), std::end(kFeatures), bands.begin());
  bands.back() = {"one_call", kOneCallAtATime};
  return bands;
}();
/// Where these are missing, cases of theirs are UNSUPPORTED: the core has nothing in their place.
inline constexpr uint64_t kNeverEmulated = BP_FEATURE_NATIVE_BIT;

/// "async,fill"; empty for none.
std::string band_names(uint64_t bands);
/// The reverse; INVALID_ARGUMENT names what there is.
Result<uint64_t> parse_bands(std::string_view names);

}  // namespace bp::conform

#endif
