// SPDX-License-Identifier: Apache-2.0
//
// The root object, made by the caller: finds and loads plugins, opens their devices, owns
// everything below. There may be several in one process.
#ifndef BACKPLANE_CORE_RUNTIME_RUNTIME_HPP
#define BACKPLANE_CORE_RUNTIME_RUNTIME_HPP

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/options.hpp"
#include "core/base/owner_uses.hpp"
#include "core/base/ref.hpp"
#include "core/base/spread_counted.hpp"
#include "core/base/status.hpp"
#include "core/op/schema.hpp"
#include "core/plugin/loader.hpp"
#include "core/runtime/device.hpp"
#include "core/runtime/worker_pool.hpp"

namespace bp {

enum class FallbackMode { kAllow, kWarn, kDeny };

struct RuntimeArgs {
  /// Adds the operators; called once. Required.
  std::function<Status(OpRegistry*)> register_ops;
  /// Folders searched before BACKPLANE_PLUGIN_PATH: absolute, and there.
  std::vector<std::string> plugin_path;
  /// Replaces the installed plugin folder, if set: absolute, and there; empty: no folder.
  std::optional<std::string> install_directory;
  /// "<plugin id>.<option>" = value; stronger than the configuration file.
  std::vector<OptionSetting> plugin_options;
  /// Values of BACKPLANE_* options that are stronger than the environment.
  std::vector<OptionSetting> options;
};

/// A device that is not there, and why.
struct MissingDevice {
  std::string name;
  Status reason;
};

/// Something whose work may keep calls and streams waiting for others than this process.
class CloseListener {
 public:
  /// A close has begun and waits for nothing yet: ends such waits. Once or more, on any thread.
  virtual void runtime_closes() noexcept = 0;

 protected:
  ~CloseListener() = default;
};

class Runtime : public SpreadCounted<Runtime> {
 public:
  /// Errors: a folder of `args` that is not there, a bad environment option, configuration file or
  /// plugin option. That no plugin was found is not one: the Runtime then has no devices.
  static Result<Ref<Runtime>> create(const RuntimeArgs& args);
  /// Of the last owner, on a thread of its own where the end would wait for this one.
  static void end(const Runtime* runtime) noexcept;

  const OpRegistry& registry() const { return registry_; }
  const Options& options() const { return options_; }
  const PluginSet& plugins() const { return plugins_; }
  std::span<const Ref<Device>> devices() const { return devices_; }
  std::span<const MissingDevice> missing_devices() const { return missing_devices_; }

  /// By name or alias. Errors: UNAVAILABLE listing what there is, with the nearest match.
  Result<Device*> find_device(std::string_view name) const;
  /// Where fallback runs: the first inline device with host memory; nullptr: none is loaded.
  Device* host_device() const { return host_device_; }

  FallbackMode fallback_mode() const { return fallback_mode_; }
  /// True if the operator is on the BACKPLANE_HOST_OPS list.
  bool is_host_op(OpId op) const { return op < host_ops_.size() && host_ops_[op]; }
  bool sync_launches() const { return sync_launches_; }
  /// A launch that changes how its thread calculates is an error.
  bool checks_arithmetic() const { return checks_arithmetic_; }
  /// No wait of the core is longer.
  std::chrono::nanoseconds wait_timeout() const { return wait_timeout_; }

  /// Counts a fallback that happens, and warns of it.
  void note_fallback(const Device& device, OpId op, std::string_view reason);
  /// Of the first of each device and operator, in FallbackMode::kWarn.
  void warn_of_fallback(const Device& device, OpId op, std::string_view reason);
  /// "cpu:0 ran for npu:0: max_pool 2, ..."; empty: no fallback happened.
  std::string fallback_summary() const;

  /// Where asynchronous runs run. Any thread.
  WorkerPool& workers() { return workers_; }
  /// True from the first stop_runs() on: runs in progress are to end soon.
  const std::atomic<bool>& stopping() const { return stopping_; }
  /// To be called before a run, and end_run() after it, by those that need close() to wait for
  /// them. Errors: GONE from stop_runs() on, and then end_run() is not called.
  Status begin_run();
  void end_run() { runs_.fetch_sub(1); }

  /// Told from now on. Errors: GONE once a close has begun.
  Status add_close_listener(CloseListener* listener);
  /// Not told any more, nor is it being told when this returns. Not from runtime_closes().
  void remove_close_listener(CloseListener* listener);

  /// Closes devices and plugins; later use of anything below answers GONE. Idempotent. Runs that
  /// were begun must have ended, and no other thread be in a call.
  void close();
  /// The same, whatever other threads are doing: begins no more calls and runs, ends runs that no
  /// worker has begun, and waits for the others, and for calls in progress. Later calls on objects
  /// that `owner_of` gives to this Runtime ask closed() after they have noted their use. A second
  /// thread waits for the first. Errors: TIMEOUT, and nothing is closed; BUSY from a worker's task,
  /// and from inside another call on this Runtime. It may be called again. Any thread.
  Status close_amid_calls(OwnerOf owner_of);
  /// From the beginning of the first close on.
  bool closed() const { return closed_.load(std::memory_order_acquire); }
  /// GONE then.
  Status check_open() const;
  /// Ends an object that may reach plugins as it ends: now, or, while another thread closes, when
  /// that is over. Not inside an API call on the object. Any thread.
  void let_go(std::shared_ptr<const void> object) noexcept;

 private:
  friend class RuntimeUse;
  friend class SpreadCounted<Runtime>;
  friend class Ref<Runtime>;
  Runtime() = default;
  ~Runtime();
  Status apply_options(const RuntimeArgs& args);
  Status load(const RuntimeArgs& args);
  void open_devices();
  /// The device of this name, aliases left aside.
  Result<Device*> device_called(std::string_view name) const;
  /// Of the inline devices with host memory, the one with the most kernels; the first of equals.
  void choose_host_device();
  void open_devices_of(const std::shared_ptr<const LoadedPlugin>& plugin);
  void tell_close_listeners();
  Status stop_runs();
  Status end_calls(OwnerOf owner_of);
  Status timed_out(std::string text) const;
  Status take_close_turn();
  void end_close_turn();
  bool is_closed_by_another_thread() const;

  OpRegistry registry_;
  Options options_;
  PluginSet plugins_;
  std::vector<Ref<Device>> devices_;
  std::vector<MissingDevice> missing_devices_;
  std::map<std::string, std::string, std::less<>> aliases_;
  Device* host_device_ = nullptr;
  FallbackMode fallback_mode_ = FallbackMode::kWarn;
  std::vector<bool> host_ops_;
  bool sync_launches_ = false;
  bool checks_arithmetic_ = false;
  std::chrono::nanoseconds wait_timeout_{0};
  std::atomic<bool> closed_{false};    // or being closed
  std::atomic<bool> is_ended_{false};  // close() has begun to end things
  std::atomic<bool> stopping_{false};
  std::atomic<uint32_t> runs_{0};

  mutable std::mutex fallback_mutex_;
  std::map<std::string, std::map<std::string, uint64_t>> fallback_counts_;  // device, operator
  std::set<std::pair<const Device*, OpId>> warned_of_;                      // under fallback_mutex_

  std::mutex listeners_mutex_;
  std::vector<CloseListener*> close_listeners_;

  // While calls are waited for and devices are closed: what tells the closing thread from others.
  std::atomic<const void*> closer_{nullptr};
  std::mutex close_mutex_;
  std::condition_variable close_turn_ended_;
  std::vector<std::shared_ptr<const void>>
      late_;  // under close_mutex_: for the closer to let go of

  WorkerPool workers_;  // destroyed first
};

/// A call that no handle in use stands for: an object that ends and reaches the plugins by that.
class RuntimeUse {
 public:
  explicit RuntimeUse(const Runtime& runtime) noexcept;
  RuntimeUse(const RuntimeUse&) = delete;
  RuntimeUse& operator=(const RuntimeUse&) = delete;
  /// False: the plugins must not be reached, since another thread is closing the Runtime, which
  /// ends all that is theirs; or there is no memory.
  bool granted() const { return granted_; }

 private:
  const HandleUses uses_;
  const bool granted_;
};

}  // namespace bp

#endif
