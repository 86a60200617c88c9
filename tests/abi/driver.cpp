// SPDX-License-Identifier: Apache-2.0
//
// The fixed program that every pair of core and plugin generation runs: driver FOLDER ID GENERATION
// loads the one plugin below FOLDER and uses all of it that the ABI has. Prints a line
// "FAIL <what>" for each check that does not hold, then "checks <count>".
#include "driver.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "core/device/open_device.hpp"
#include "core/emulation/emulate_missing.hpp"

namespace bp::abi {

void Checks::expect_status(HostContext& host, bp_status code, bp_status expected,
                           std::string_view what) {
  const Status status = host.to_status(code, what);
  expect(status.code() == expected, std::string(what) + ": expected " +
                                        std::string(status_name(expected)) + ", found " +
                                        std::to_string(code) + " " + status.to_string());
  if (!status.ok()) {
    expect(status.message().find("the plugin gave no words") == std::string::npos,
           std::string(what) + ": no words with the error");
  }
}

namespace {

constexpr uint32_t kKnownMemoryBits =
    BP_FEATURE_FILL_BIT | BP_FEATURE_PINNED_BIT | BP_FEATURE_MAP_BIT;

/// Whether the core took from the tables what it knows, and nothing else.
void check_tables(const LoadedPlugin& plugin, Generation generation, Checks* checks) {
  const PluginTables& tables = plugin.tables();
  checks->expect(tables.memory.struct_size == sizeof(bp_memory_api), "memory table: its size");
  checks->expect((tables.memory.flags & ~kKnownMemoryBits) == 0, "memory table: unknown bits");
  checks->expect((tables.flags & ~BP_PLUGIN_SINGLE_INSTANCE_BIT) == 0, "plugin: unknown bits");
  const uint32_t newest = BP_ABI_CURRENT;
  checks->expect(plugin.abi_semantics() == std::min(plugin.manifest().abi_built, newest),
                 "abi_semantics is the older side's version");
  const bool is_future = generation == Generation::kFuture;
  const auto is_sample = [](const PluginExtension& extension) {
    return extension.name == "future.sample" && extension.version == 7;
  };
  const auto sample_count =
      std::count_if(tables.extensions.begin(), tables.extensions.end(), is_sample);
  checks->expect(sample_count == (is_future ? 1 : 0), "extension of the future plugin");
#if defined(BP_GENERATION_FUTURE)
  checks->expect((tables.memory.future_first != nullptr) == is_future, "appended slot: copied");
#endif
}

void check_props(const Subject& subject) {
  const bp_device_props& props = subject.table.props;
  constexpr uint64_t kBands =
      BP_FEATURE_ASYNC_BIT | BP_FEATURE_TIMING_BIT | BP_FEATURE_NATIVE_BIT | kKnownMemoryBits;
  constexpr uint32_t kFlags =
      BP_DEVICE_CONCURRENT_BIT | BP_DEVICE_ADDRESS_BIT | BP_DEVICE_HOST_MEMORY_BIT;
  Checks& checks = subject.checks;
  checks.expect((props.features & ~kBands) == 0, "device_props: unknown bands");
  checks.expect((props.flags & ~kFlags) == 0, "device_props: unknown flags");
  checks.expect(props.name.len > 0 && props.vendor.len > 0, "device_props: name and vendor");
#if !defined(BP_GENERATION_PAST)
  const bool has_number =
      subject.plugin.manifest().id == "good" && subject.plugin_generation != Generation::kPast;
  checks.expect(props.dlpack_device_id == (has_number ? 7 : 0),
                "device_props: dlpack_device_id, new to this ABI");
#endif
#if defined(BP_GENERATION_FUTURE)
  const uint64_t number =
      subject.plugin_generation == Generation::kFuture ? BP_FUTURE_NUMBER : uint64_t{0};
  checks.expect(props.future_number == number, "device_props: the appended number");
#endif
}

void check_device(const LoadedPlugin& plugin, Generation generation, uint32_t index,
                  Checks* checks) {
  Result<DeviceTable> opened = open_device(plugin, index, {});
  checks->expect(opened.ok(), "open_device: " + as_status(opened).to_string());
  if (!opened.ok()) return;
  DeviceTable& table = *opened;
  const Subject subject{plugin, generation, table, *checks};
  check_props(subject);
  {
    const EmulationPtr emulation = emulate_missing(&table);
    checks->expect(emulation != nullptr, "complete");
    check_memory(subject);
    check_errors(subject);
    check_streams(subject);
    check_kernels(subject);
    check_attributes(subject);
    check_collectives(subject);
  }
  checks->expect_ok(plugin.host(), table.device_close(), "device_close");
}

void check_plugin(const std::string& folder, const std::string& id, Generation generation,
                  Checks* checks) {
  LoadOptions options;
  options.search_path = {folder};
  options.install_directory.clear();
  const PluginSet set = load_plugins(options);
  for (const SkippedPlugin& skipped : set.skipped) checks->expect(false, skipped.to_string());
  checks->expect(set.plugins.size() == 1 && set.find(id) != nullptr, "the plugin is loaded");
  if (set.find(id) == nullptr) return;
  const LoadedPlugin& plugin = *set.find(id);
  check_tables(plugin, generation, checks);
  checks->expect(plugin.device_count() > 0, "there is a device");
  for (uint32_t i = 0; i < plugin.device_count(); ++i) {
    check_device(plugin, generation, i, checks);
  }
  const Result<DeviceTable> beyond = open_device(plugin, plugin.device_count(), {});
  checks->expect(as_status(beyond).code() == BP_INVALID_ARGUMENT, "open_device: index too large");
}

}  // namespace
}  // namespace bp::abi

int main(int argc, char** argv) {
  using bp::abi::Generation;
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s FOLDER ID past|now|future\n", argv[0]);
    return 2;
  }
  const std::string_view word = argv[3];
  const Generation generation = word == "past"  ? Generation::kPast
                                : word == "now" ? Generation::kNow
                                                : Generation::kFuture;
  bp::abi::Checks checks;
  bp::abi::check_plugin(argv[1], argv[2], generation, &checks);
  for (const std::string& failure : checks.failures()) std::printf("FAIL %s\n", failure.c_str());
  std::printf("checks %zu\n", checks.count());
  return checks.failures().empty() ? 0 : 1;
}
