// SPDX-License-Identifier: Apache-2.0
//
// A device as the core calls it, opened with some of its bands switched off, so that the same calls
// meet the plugin's own functions in one run and the emulation's in the next.
#ifndef BACKPLANE_TESTS_MODEL_BASED_TARGET_HPP
#define BACKPLANE_TESTS_MODEL_BASED_TARGET_HPP

#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "core/device/device_table.hpp"
#include "core/device/kernel_list.hpp"
#include "core/emulation/emulate_missing.hpp"
#include "core/plugin/loader.hpp"
#include "tests/model_based/model.hpp"

namespace bp::model {

struct TargetConfig {
  std::string name;  // of the test case: "npu_native"
  std::string plugin;
  std::vector<OptionSetting> options = {};  // device scope
  uint64_t masked_features = 0;             // BP_FEATURE_*_BIT to switch off
  bool one_call_at_a_time = false;          // switches BP_DEVICE_CONCURRENT_BIT off
};

/// The name of a test's parameter, for GoogleTest.
inline void PrintTo(const TargetConfig& config, std::ostream* out) { *out << config.name; }

/// Changes the completed slots, to plant a defect. Empty: none.
using Sabotage = std::function<void(DeviceTable*)>;

class Target {
 public:
  /// Errors: what open_device answers; UNAVAILABLE if the plugin is not there.
  static Result<std::unique_ptr<Target>> open(const TargetConfig& config, const Sabotage& sabotage);
  ~Target();
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  const DeviceTable& table() const { return table_; }
  Traits traits() const;
  /// Runs add (two inputs) or relu (one) on contiguous f32 ranges; the output comes last. `token`
  /// is held as call_launch() holds its keep_alive.
  bp_status launch(Op op, bp_stream* stream, const std::vector<bp_tensor>& tensors,
                   std::shared_ptr<const void> token);

 private:
  struct Planned;
  Target(std::shared_ptr<const LoadedPlugin> plugin, DeviceTable table, EmulationPtr emulation);
  const KernelRecord* find_kernel(std::string_view op) const;
  Planned* plan(const KernelRecord& record, const std::vector<bp_tensor>& tensors);

  std::shared_ptr<const LoadedPlugin> plugin_;
  DeviceTable table_;
  EmulationPtr emulation_;
  KernelList kernels_;
  const KernelRecord* add_ = nullptr;
  const KernelRecord* relu_ = nullptr;
  std::map<std::pair<const KernelRecord*, int64_t>, std::unique_ptr<Planned>> plans_;
};

/// Every device of this build, with its own bands and with some or all of them emulated.
std::vector<TargetConfig> all_targets();

}  // namespace bp::model

#endif
