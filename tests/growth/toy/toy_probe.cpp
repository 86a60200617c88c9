// SPDX-License-Identifier: Apache-2.0
//
// What the core makes of a plugin with the table of toy.h: toy_probe FOLDER. It is built in
// growth_test.py's copy of the tree, against what is generated there, and prints what
// growth_test.py compares.
#include <cstdio>

#include "core/device/features.hpp"
#include "core/device/open_device.hpp"
#include "core/plugin/loader.hpp"

namespace {

/// What a call answered, and its number.
void print(const bp::LoadedPlugin& plugin, const bp::DeviceTable& table, bp::Slot slot,
           bp_status status, uint64_t number) {
  const std::string name = table.gate->call_name(slot);
  const std::string words =
      status == BP_OK ? name + ": OK" : plugin.host().to_status(status, name).message();
  std::printf("%s %llu\n", words.c_str(), static_cast<unsigned long long>(number));
}

void print_calls(const bp::LoadedPlugin& plugin, const bp::DeviceTable& table) {
  for (const uint64_t turn_count : {7, 13}) {
    const bp_toy_args args{.struct_size = sizeof(args), .flags = 0, .turn_count = turn_count};
    print(plugin, table, bp::Slot::kToyWind, table.toy_wind(args), turn_count);
  }
  uint64_t turn_count = 0;
  const bp_status status = table.toy_unwind(&turn_count);
  print(plugin, table, bp::Slot::kToyUnwind, status, turn_count);
}

}  // namespace

int main(int, char** arguments) {
  bp::LoadOptions options;
  options.search_path = {arguments[1]};
  options.install_directory.clear();
  const bp::PluginSet set = bp::load_plugins(options);
  for (const auto& skipped : set.skipped) std::printf("skipped: %s\n", skipped.to_string().c_str());
  for (const auto& plugin : set.plugins) {
    bp::DeviceTable table = bp::open_device(*plugin, 0, {}).value();
    for (const bp::Feature& feature : bp::kFeatures) {
      if (table.has_native(feature.bit)) std::printf("band %s\n", feature.name);
    }
    print_calls(*plugin, table);
    bp::take_bands(BP_FEATURE_TOY_BIT, &table);
    std::printf("without the band\n");
    print_calls(*plugin, table);
    table.device_close();
  }
  return 0;
}
