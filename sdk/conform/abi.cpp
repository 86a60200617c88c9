// SPDX-License-Identifier: Apache-2.0
//
// Mapping, entry, instances and devices without the core.
#include "sdk/conform/abi.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

#include "sdk/conform/step.hpp"

namespace bp::conform {

void RecordingHost::on_report(void* host_ctx, const bp_report_info* info) {
  auto* self = static_cast<RecordingHost*>(host_ctx);
  if (self == nullptr || info == nullptr) return;
  const std::lock_guard lock(self->mutex_);
  self->reports_.push_back({info->status, std::string(info->message.ptr, info->message.len),
                            info->struct_size, std::this_thread::get_id()});
}

void RecordingHost::on_log(void*, uint32_t, bp_str) {}

std::vector<HostReport> RecordingHost::take_reports() {
  const std::lock_guard lock(mutex_);
  return std::exchange(reports_, {});
}

std::string RecordingHost::newest_words(bp_status status) {
  const std::lock_guard lock(mutex_);
  const auto newest =
      std::find_if(reports_.rbegin(), reports_.rend(),
                   [=](const HostReport& report) { return report.status == status; });
  return newest == reports_.rend() ? std::string() : newest->message;
}

AbiContext::~AbiContext() { close(); }

const Library& AbiContext::library() {
  if (library_) return *library_;
  auto opened = Library::open(target_.library_path);
  require(opened.ok(), "a library that can be mapped: " + opened.status().message());
  library_ = *opened;
  return *library_;
}

int32_t AbiContext::entry(uint32_t core_abi, bp_plugin* out_plugin) {
  using Entry = int32_t(uint32_t, bp_plugin*);
  auto* symbol = reinterpret_cast<Entry*>(library().symbol("bp_plugin_entry"));
  require(symbol != nullptr, "a symbol bp_plugin_entry");
  const InSlot in_slot(Slot::kBpPluginEntry);
  return symbol(core_abi, out_plugin);
}

const bp_plugin& AbiContext::plugin() {
  if (plugin_) return *plugin_;
  bp_plugin plugin{};
  plugin.struct_size = sizeof(plugin);
  require_ok("bp_plugin_entry", entry(BP_ABI_CURRENT, &plugin));
  require(plugin.root != nullptr && plugin.device != nullptr && plugin.memory != nullptr,
          "the tables root, device and memory");
  plugin_ = plugin;
  return *plugin_;
}

const ApiTables& AbiContext::tables() {
  if (tables_) return *tables_;
  ApiTables copies;
  for (const TableInfo& table : kTables) {
    const void* const theirs = table.of(plugin());
    if (theirs == nullptr) continue;
    uint32_t bytes = 0;
    std::memcpy(&bytes, theirs, sizeof(bytes));
    std::memcpy(reinterpret_cast<std::byte*>(&copies) + table.offset, theirs,
                std::min<size_t>(bytes, table.bytes));
  }
  name_slots(&copies.root);
  name_slots(&copies.device);
  name_slots(&copies.memory);
  name_slots(&copies.stream);
  name_slots(&copies.kernel);
  name_slots(&copies.collective);
  tables_ = copies;
  return *tables_;
}

bp_instance* AbiContext::instance() {
  if (instance_ == nullptr) {
    instance_ = std::make_unique<RawInstance>(*this, host_);
    instance_->require();
  }
  return instance_->get();
}

bp_device* AbiContext::device() {
  if (device_ == nullptr) {
    device_ = std::make_unique<RawDevice>(*this, instance(), target_.device_index);
    require_ok("device_open", device_->status());
  }
  return device_->get();
}

bp_device_props AbiContext::props() {
  bp_device_props props{};
  props.struct_size = sizeof(props);
  require_ok("device_props", device_api().device_props(device(), &props));
  return props;
}

void AbiContext::close() {
  device_.reset();
  instance_.reset();
}

OptionArguments::OptionArguments(AbiContext& context, OptionScope scope) {
  auto settings = context.target().options_of(scope);
  context.require(settings.ok(), "options that the manifest declares");
  settings_ = *settings;
  arrays_.emplace(settings_);
}

bp_config OptionArguments::config() const {
  return {.struct_size = sizeof(bp_config),
          .flags = 0,
          .abi_semantics = BP_ABI_CURRENT,
          .option_count = static_cast<uint32_t>(settings_.size()),
          .option_names = arrays_->names.data(),
          .option_values = arrays_->values.data()};
}

bp_open_args OptionArguments::open_args(uint32_t index) const {
  return {.struct_size = sizeof(bp_open_args),
          .flags = 0,
          .index = index,
          .option_count = static_cast<uint32_t>(settings_.size()),
          .option_names = arrays_->names.data(),
          .option_values = arrays_->values.data()};
}

RawInstance::RawInstance(AbiContext& context, RecordingHost& host) : context_(context) {
  const OptionArguments options(context, OptionScope::kInstance);
  const bp_config config = options.config();
  status_ = context.root().init(host.api(), host.context(), &config, &instance_);
}

void RawInstance::require() {
  context_.require_ok("init", status_);
  context_.require(instance_ != nullptr, "an instance that is not NULL");
}

void RawInstance::shutdown() {
  bp_instance* instance = std::exchange(instance_, nullptr);
  if (instance == nullptr) return;
  context_.expect_ok("shutdown", context_.root().shutdown(instance));
}

RawDevice::RawDevice(AbiContext& context, bp_instance* instance, uint32_t index)
    : context_(context) {
  const OptionArguments options(context, OptionScope::kDevice);
  const bp_open_args args = options.open_args(index);
  status_ = context.device_api().device_open(instance, &args, &device_);
}

void RawDevice::close() {
  bp_device* device = std::exchange(device_, nullptr);
  if (device == nullptr) return;
  context_.expect_ok("device_close", context_.device_api().device_close(device));
}

RawGroup::RawGroup(AbiContext& context) : context_(context) {
  const bp_stream_args args{.struct_size = sizeof(bp_stream_args), .flags = 0};
  context.require_ok("stream_create",
                     context.stream().stream_create(context.device(), &args, &stream_));
  join();
}

RawGroup::~RawGroup() {
  if (comm_ != nullptr) {
    context_.expect_ok("comm_destroy", context_.collective().comm_destroy(comm_));
  }
  context_.expect_ok("stream_destroy", context_.stream().stream_destroy(stream_));
}

void RawGroup::join() {
  bp_collective_caps caps{};
  caps.struct_size = sizeof(caps);
  context_.require_ok("collective_caps",
                      context_.collective().collective_caps(context_.device(), &caps));
  context_.require(caps.uid_bytes > 0 && caps.uid_bytes <= BP_UID_BYTES_MAX,
                   "an id of 1 to BP_UID_BYTES_MAX bytes");
  id_bytes_ = caps.uid_bytes;
  Bytes id(id_bytes_);
  bp_uid_space space{
      .struct_size = sizeof(bp_uid_space), .flags = 0, .data = id.data(), .bytes = id.size()};
  context_.require_ok("uid_create", context_.collective().uid_create(context_.device(), &space));
  const bp_comm_args args{.struct_size = sizeof(bp_comm_args),
                          .flags = 0,
                          .uids = id.data(),
                          .uid_bytes = id.size(),
                          .uid_count = 1,
                          .rank = 0,
                          .rank_count = 1,
                          .reserved = 0,
                          .timeout_hint_ns = 0,
                          .name = {"alone", 5}};
  context_.require_ok("comm_init",
                      context_.collective().comm_init(context_.device(), &args, &comm_));
  // The deadline of the case ends it for one that joins for ever.
  note_step("comm_poll of a group of one, expected that it is ready");
  while (poll().state == BP_COMM_JOINING) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  note_step({});
  context_.require(poll().state == BP_COMM_READY, "a group of one that is ready");
}

bp_comm_state RawGroup::poll() const {
  bp_comm_state state{};
  state.struct_size = sizeof(state);
  context_.require_ok("comm_poll", context_.collective().comm_poll(comm_, &state));
  return state;
}

void expect_working(AbiContext& context, bp_device* device, std::string_view when) {
  constexpr uint64_t kBytes = 64;
  const bp_memory_api& memory = context.memory();
  const bp_alloc_args alloc{.struct_size = sizeof(bp_alloc_args),
                            .flags = 0,
                            .bytes = kBytes,
                            .alignment_bytes = 0,
                            .usage = 0,
                            .reserved = 0};
  uint64_t handle = 0;
  context.require_ok(words("mem_alloc ", when), memory.mem_alloc(device, &alloc, &handle));
  const Bytes sent(kBytes, std::byte{0x5a});
  Bytes received(kBytes);
  bp_copy_args copy{.struct_size = sizeof(bp_copy_args),
                    .flags = 0,
                    .kind = BP_COPY_HOST_TO_DEVICE,
                    .reserved = 0,
                    .dst = {handle, 0},
                    .src = {reinterpret_cast<uint64_t>(sent.data()), 0},
                    .bytes = kBytes};
  context.expect_ok(words("mem_copy to the device ", when), memory.mem_copy(device, &copy));
  copy.kind = BP_COPY_DEVICE_TO_HOST;
  copy.src = {handle, 0};
  copy.dst = {reinterpret_cast<uint64_t>(received.data()), 0};
  context.expect_ok(words("mem_copy to the host ", when), memory.mem_copy(device, &copy));
  context.expect_bytes(words("memory ", when), received, sent);
  context.expect_ok(words("mem_free ", when), memory.mem_free(device, handle));
}

}  // namespace bp::conform
