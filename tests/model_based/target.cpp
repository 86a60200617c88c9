// SPDX-License-Identifier: Apache-2.0
//
// Loads plugins once per process, opens devices as often as asked, and launches kernels without the
// dispatcher, which would bring its own streams and memory.
#include "tests/model_based/target.hpp"

#include "core/device/kernel_list.hpp"
#include "core/device/open_device.hpp"
#include "core/emulation/emulate_missing.hpp"
#include "tests/plugins.hpp"

namespace bp::model {
namespace {

constexpr uint64_t kAllFeatures = BP_FEATURE_ASYNC_BIT | BP_FEATURE_TIMING_BIT |
                                  BP_FEATURE_FILL_BIT | BP_FEATURE_PINNED_BIT | BP_FEATURE_MAP_BIT;

/// One set for the process: plugins stay mapped anyway.
const PluginSet& plugins() {
  static const PluginSet kLoaded = [] {
    LoadOptions options;
    options.install_directory = BP_PLUGIN_DIR;
    for (const char* fake : {"good", "future", "short_tables", "silent_band"}) {
      options.search_path.push_back(std::string(BP_FAKES_DIR) + "/" + fake);
    }
    return load_plugins(options);
  }();
  return kLoaded;
}

/// A query for contiguous vectors of f32, with what the kernel's plans depend on.
struct VectorQuery {
  VectorQuery(const KernelRecord& record, size_t count, int64_t elements)
      : shown((record.kernel.depends_on & BP_DEPENDS_SIZES_BIT) != 0 ? elements : -1), args(count) {
    for (bp_arg_info& info : args) {
      info.struct_size = sizeof(info);
      info.dtype = BP_DTYPE_F32;
      info.rank = 1;
      info.sizes = &shown;
      if ((record.kernel.depends_on & BP_DEPENDS_STRIDES_BIT) != 0) info.strides = &kStride;
    }
    query.struct_size = sizeof(query);
    query.kernel = record.original;
    query.op_version = 1;
    query.input_count = static_cast<uint32_t>(count) - 1;
    query.output_count = 1;
    query.arg_stride_bytes = sizeof(bp_arg_info);
    query.args = args.data();
  }
  VectorQuery(const VectorQuery&) = delete;
  VectorQuery& operator=(const VectorQuery&) = delete;

  static constexpr int64_t kStride = 1;
  int64_t shown;
  std::vector<bp_arg_info> args;
  bp_kernel_query query{};
};

}  // namespace

/// A kernel's plan for one size, with one state for each launch at a time.
struct Target::Planned {
  Planned(const DeviceTable& device, const KernelRecord& kernel) : table(device), record(kernel) {}
  Planned(const Planned&) = delete;
  Planned& operator=(const Planned&) = delete;
  ~Planned() {
    for (bp_kernel_state* state : states) table.state_destroy(record.kernel, state);
    if (plan != nullptr) table.plan_free(record.kernel, plan);
  }
  /// One per stream, and one for launches without.
  bp_status state_for(bp_stream* stream, bp_kernel_state** out_state) {
    if (record.kernel.state_create == nullptr) return BP_OK;
    if (const auto found = by_stream.find(stream); found != by_stream.end()) {
      *out_state = found->second;
      return BP_OK;
    }
    const bp_status status = table.state_create(record.kernel, record.original, plan, out_state);
    if (status != BP_OK) return status;
    states.push_back(*out_state);
    by_stream[stream] = *out_state;
    return BP_OK;
  }

  const DeviceTable& table;
  const KernelRecord& record;
  bp_kernel_plan* plan = nullptr;
  std::vector<bp_kernel_state*> states;
  std::map<bp_stream*, bp_kernel_state*> by_stream;
};

Target::Target(std::shared_ptr<const LoadedPlugin> plugin, DeviceTable table,
               EmulationPtr emulation)
    : plugin_(std::move(plugin)), table_(table), emulation_(std::move(emulation)) {}

Target::~Target() {
  plans_.clear();
  emulation_.reset();
  table_.device_close();
}

Result<std::unique_ptr<Target>> Target::open(const TargetConfig& config, const Sabotage& sabotage) {
  for (const auto& plugin : plugins().plugins) {
    if (plugin->id() != config.plugin || plugin->device_count() == 0) continue;
    BP_TRY_ASSIGN(DeviceTable table, open_device(*plugin, 0, config.options));
    take_bands(config.masked_features, &table);
    if (config.one_call_at_a_time) table.props.flags &= ~BP_DEVICE_CONCURRENT_BIT;
    EmulationPtr emulation = emulate_missing(&table);
    if (sabotage) sabotage(&table);
    std::unique_ptr<Target> target(new Target(plugin, table, std::move(emulation)));
    BP_TRY_ASSIGN(target->kernels_, list_kernels(*plugin, target->table_));
    target->add_ = target->find_kernel("add");
    target->relu_ = target->find_kernel("relu");
    return target;
  }
  std::string why = "the plugin " + config.plugin + " gives no device here";
  for (const SkippedPlugin& skipped : plugins().skipped) why += "\n" + skipped.to_string();
  return Status(BP_UNAVAILABLE, why);
}

const KernelRecord* Target::find_kernel(std::string_view op) const {
  for (const KernelRecord& record : kernels_.kernels) {
    const bool takes_f32 = !record.dtype_masks.empty() &&
                           (record.dtype_masks.front() & BP_DTYPE_BIT(BP_DTYPE_F32)) != 0;
    if (record.op == op && takes_f32) return &record;
  }
  return nullptr;
}

Traits Target::traits() const {
  Traits traits{.has_add = add_ != nullptr, .has_relu = relu_ != nullptr};
  for (const KernelRecord* record : {add_, relu_}) {
    if (record == nullptr) continue;
    for (const bp_arg_rule& rule : record->arg_rules) {
      traits.launch_alignment = std::max(traits.launch_alignment, rule.alignment_bytes);
    }
  }
  return traits;
}

Target::Planned* Target::plan(const KernelRecord& record, const std::vector<bp_tensor>& tensors) {
  const int64_t elements = tensors.front().sizes[0];
  auto& entry = plans_[{&record, elements}];
  if (entry != nullptr) return entry.get();
  auto planned = std::make_unique<Planned>(table_, record);
  if (record.kernel.plan != nullptr) {
    const VectorQuery query(record, tensors.size(), elements);
    bp_plan_info info{};
    info.struct_size = sizeof(info);
    const bp_status status = table_.plan(record.kernel, query.query, &info, &planned->plan);
    if (status != BP_OK || info.workspace_bytes != 0) return nullptr;
  }
  entry = std::move(planned);
  return entry.get();
}

bp_status Target::launch(Op op, bp_stream* stream, const std::vector<bp_tensor>& tensors,
                         std::shared_ptr<const void> token) {
  const KernelRecord& record = op == Op::kAdd ? *add_ : *relu_;
  Planned* planned = plan(record, tensors);
  if (planned == nullptr) return BP_INTERNAL;
  bp_launch_args args{};
  args.struct_size = sizeof(args);
  args.device = table_.device;
  args.kernel = record.original;
  args.plan = planned->plan;
  const bp_status status = planned->state_for(stream, &args.state);
  if (status != BP_OK) return status;
  args.stream = stream;
  args.tensors = tensors.data();
  args.input_count = static_cast<uint32_t>(tensors.size()) - 1;
  args.output_count = 1;
  return call_launch(table_, stream, args, std::move(token));
}

std::vector<TargetConfig> all_targets() {
  constexpr uint64_t kExtras = kAllFeatures & ~BP_FEATURE_ASYNC_BIT;
  std::vector<TargetConfig> targets;
  // cpu runs each call where it is made: it has no streams of its own to leave out.
  for (const std::string& name : tests::plugin_ids_but({"cpu"})) {
    targets.push_back({name + "_native", name});
    targets.push_back({name + "_streams_emulated", name, {}, BP_FEATURE_ASYNC_BIT});
    targets.push_back({name + "_only_streams_native", name, {}, kExtras});
    targets.push_back({name + "_bare", name, {}, kAllFeatures});
    targets.push_back({name + "_one_call", name, {}, 0, true});
    targets.push_back({name + "_one_call_bare", name, {}, kAllFeatures, true});
  }
  targets.push_back({"npu_slow", "npu", {{"launch_latency_ns", "200000"}}});
  targets.push_back({"cpu_native", "cpu"});
  targets.push_back({"cpu_bare", "cpu", {}, kAllFeatures});
  targets.push_back({"cpu_one_call", "cpu", {}, 0, true});
  for (const char* fake : {"good", "future", "short_tables", "silent_band"}) {
    targets.push_back({std::string("fake_") + fake, fake});
  }
  targets.push_back({"fake_good_inline", "good", {{"inline", "true"}}});
  return targets;
}

}  // namespace bp::model
