// SPDX-License-Identifier: Apache-2.0
//
// `backplane devices`: what there is, in the order in which names and defaults are looked up.
#include <fmt/format.h>

#include "core/cli/cli.hpp"
#include "core/cli/environment.hpp"
#include "core/cli/text.hpp"
#include "core/dispatch/dispatcher.hpp"

namespace bp::cli {
namespace {

std::string_view execution_name(const Device& device) {
  return device.is_inline() ? "inline" : "queued";
}

/// Errors: a list of kernels that the plugin has no memory for.
Result<size_t> kernel_count_of(Device& device) {
  return contain([&]() -> Result<size_t> { return Dispatcher::of(device).kernel_count(); });
}

std::string devices_json(const Runtime& runtime) {
  JsonWriter json;
  json.begin_object().key("devices").begin_array();
  for (const Ref<Device>& device : runtime.devices()) {
    const bp_device_props& props = device->table().props;
    const LoadedPlugin& plugin = device->plugin();
    json.begin_object()
        .field("name", device->name())
        .field("full_name", text_of(props.name))
        .field("vendor", text_of(props.vendor))
        .field("driver", text_of(props.driver))
        .field("plugin", plugin.id())
        .field("plugin_version", plugin.manifest().version)
        .field("plugin_path", plugin.path())
        .field("execution", execution_name(*device))
        .field("memory_bytes", props.memory_bytes)
        .field("compute_unit_count", props.compute_unit_count)
        .field("dlpack_device_type", props.dlpack_device_type)
        .field("dlpack_device_id", int64_t{props.dlpack_device_id});
    const Result<size_t> kernel_count = kernel_count_of(*device);
    if (kernel_count.ok()) {
      json.field("kernel_count", *kernel_count);
    } else {
      json.field("kernels_unknown", kernel_count.status().to_string());
    }
    json.key("features").begin_object();
    for (const BandState& band : band_states(*device)) json.field(band.band, band.state);
    json.end_object().end_object();
  }
  json.end_array();
  write_missing(runtime, &json);
  write_skipped(runtime.plugins(), &json);
  return json.end_object().take();
}

void print_devices(const Runtime& runtime) {
  Table table({"device", "is", "memory", "execution", "kernels", "plugin"}, {2, 4});
  std::string unknown;
  for (const Ref<Device>& device : runtime.devices()) {
    const bp_device_props& props = device->table().props;
    const Manifest& manifest = device->plugin().manifest();
    const std::string memory = props.memory_bytes == 0 ? "?" : bytes_text(props.memory_bytes);
    const Result<size_t> kernel_count = kernel_count_of(*device);
    if (!kernel_count.ok()) {
      unknown += fmt::format("\nThe kernels of {} are not known: {}\n", device->name(),
                             visible(kernel_count.status().to_string()));
    }
    table.add({device->name(), text_of(props.name), memory, std::string(execution_name(*device)),
               kernel_count.ok() ? std::to_string(*kernel_count) : "?",
               manifest.id + " " + manifest.version});
  }
  print(table.empty() ? "No device. `backplane doctor` tells why.\n" : table.to_string(""));
  print(unknown);
}

/// Some drivers list all that they were built with; --json has what the core keeps of it, which is
/// cleaned and at most 256 bytes (foreign_text.hpp).
constexpr size_t kDriverBytes = 44;

void print_features(const Runtime& runtime) {
  if (runtime.devices().empty()) return;
  std::vector<std::string> titles{"device"};
  for (const BandState& band : band_states(*runtime.devices().front())) {
    titles.emplace_back(band.band);
  }
  titles.insert(titles.end(), {"vendor", "driver"});
  Table table(std::move(titles));
  for (const Ref<Device>& device : runtime.devices()) {
    std::vector<std::string> cells{device->name()};
    for (const BandState& band : band_states(*device)) cells.emplace_back(band.state);
    cells.push_back(text_of(device->table().props.vendor));
    cells.push_back(shortened(text_of(device->table().props.driver), kDriverBytes));
    table.add(std::move(cells));
  }
  print("\n" + table.to_string(""));
}

void print_left_out(const Runtime& runtime) {
  for (const MissingDevice& missing : runtime.missing_devices()) {
    print(fmt::format("\n{} could not be opened: {}\n", missing.name,
                      visible(missing.reason.to_string())));
  }
  for (const SkippedPlugin& skipped : runtime.plugins().skipped) {
    print("\n" + visible(skipped.to_string()) + "\n");
  }
}

}  // namespace

int run_devices(const GlobalArgs& global, const DevicesArgs& args) {
  auto runtime = open_runtime(global);
  if (!runtime.ok()) {
    return fail("devices", runtime.status().message(), open_failure_code(global, runtime.status()));
  }
  if (args.json) {
    print(devices_json(**runtime));
    return kExitOk;
  }
  print_devices(**runtime);
  if (args.verbose) {
    print_features(**runtime);
    print_left_out(**runtime);
  }
  return kExitOk;
}

}  // namespace bp::cli
