// SPDX-License-Identifier: Apache-2.0
//
// Memory, launches and reports of the tests' device; its native streams are in fake_stream.cpp.
#include "core/emulation/fake_device.hpp"

#include <cstring>
#include <new>
#include <thread>

#include "core/emulation/host_buffer.hpp"

namespace bp::testing {
namespace {

bp_status mem_alloc(bp_device* self, const bp_alloc_args* args, uint64_t* out_handle) {
  FakeDevice& device = FakeDevice::from(self);
  const CallScope scope(device);
  const std::lock_guard lock(device.memory_mutex);
  device.next_handle += 1000;
  device.memory[device.next_handle].resize(args->bytes);
  *out_handle = device.next_handle;
  return BP_OK;
}

bp_status mem_free(bp_device* self, uint64_t handle) {
  FakeDevice& device = FakeDevice::from(self);
  const CallScope scope(device);
  const std::lock_guard lock(device.memory_mutex);
  return device.memory.erase(handle) == 1 ? BP_OK : BP_INVALID_ARGUMENT;
}

bp_status mem_copy(bp_device* self, const bp_copy_args* args) {
  FakeDevice& device = FakeDevice::from(self);
  const CallScope scope(device);
  return device.copy(*args);
}

bp_status mem_fill(bp_device* self, const bp_fill_args* args) {
  FakeDevice& device = FakeDevice::from(self);
  const CallScope scope(device);
  ++device.native_fill_count;
  if (args->stream == nullptr) return device.fill(*args);
  const std::lock_guard lock(device.stream_mutex);
  reinterpret_cast<FakeStream*>(args->stream)
      ->tasks.push_back([&device, copy = *args](bp_status* failure) {
        if (*failure == BP_OK) *failure = device.fill(copy);
        return true;
      });
  return BP_OK;
}

bp_status host_alloc(bp_device* self, const bp_host_alloc_args* args, void** out_ptr) {
  const CallScope scope(FakeDevice::from(self));
  *out_ptr = ::operator new (args->bytes, std::align_val_t{64});
  return BP_OK;
}

bp_status host_free(bp_device* self, void* ptr) {
  const CallScope scope(FakeDevice::from(self));
  ::operator delete (ptr, std::align_val_t{64});
  return BP_OK;
}

bp_status mem_map(bp_device* self, const bp_map_args* args, void** out_ptr) {
  FakeDevice& device = FakeDevice::from(self);
  const CallScope scope(device);
  const std::lock_guard lock(device.memory_mutex);
  ++device.mapped_count;
  *out_ptr = device.memory.at(args->mem.handle).data() + args->mem.offset_bytes;
  return BP_OK;
}

bp_status mem_unmap(bp_device* self, void*) {
  FakeDevice& device = FakeDevice::from(self);
  const CallScope scope(device);
  --device.mapped_count;
  return BP_OK;
}

bp_status launch(const bp_launch_args* args) {
  FakeDevice& device = FakeDevice::from(args->device);
  const CallScope scope(device);
  return device.on_launch(*args);
}

bp_memory_api memory_api(uint64_t features) {
  bp_memory_api api{};
  api.struct_size = sizeof(api);
  api.mem_alloc = mem_alloc;
  api.mem_free = mem_free;
  api.mem_copy = mem_copy;
  if ((features & BP_FEATURE_FILL_BIT) != 0) api.mem_fill = mem_fill;
  if ((features & BP_FEATURE_PINNED_BIT) != 0) {
    api.host_alloc = host_alloc;
    api.host_free = host_free;
  }
  if ((features & BP_FEATURE_MAP_BIT) != 0) {
    api.mem_map = mem_map;
    api.mem_unmap = mem_unmap;
  }
  return api;
}

}  // namespace

struct FakeHost {
  static void report(void* context, const bp_report_info* info) {
    auto& device = *static_cast<FakeDevice*>(context);
    const std::lock_guard lock(device.reports_mutex_);
    device.reports_.push_back({info->status, info->op_seq, info->stream,
                               std::string(info->message.ptr, info->message.len)});
  }
};

void Gate::open() const {
  const std::lock_guard lock(state_->mutex);
  state_->open = true;
  state_->opened.notify_all();
}

void Gate::wait() const {
  std::unique_lock lock(state_->mutex);
  state_->opened.wait(lock, [this] { return state_->open; });
}

CallScope::CallScope(FakeDevice& device) : device_(device) {
  ++device_.call_count;
  if (device_.active_count.fetch_add(1) > 0) ++device_.overlap_count;
  std::this_thread::yield();  // gives another thread the chance to overlap
}

CallScope::~CallScope() { --device_.active_count; }

FakeDevice::FakeDevice(uint32_t device_flags, uint64_t features)
    : device_flags_(device_flags), features_(features) {
  on_launch = [](const bp_launch_args&) { return BP_OK; };
  kernel.struct_size = sizeof(kernel);
  kernel.name = {"fake_kernel", 11};
  kernel.launch = launch;
}

DeviceTable FakeDevice::table() {
  static constexpr bp_host_api kHost{sizeof(bp_host_api), 0, FakeHost::report, nullptr};
  DeviceTable table;
  table.device = handle();
  table.props.struct_size = sizeof(table.props);
  table.props.flags = device_flags_;
  table.props.features = features_;
  table.memory = memory_api(features_);
  if ((features_ & BP_FEATURE_ASYNC_BIT) != 0) table.stream = fake_stream_api(features_);
  table.host = &kHost;
  table.host_ctx = this;
  return table;
}

std::vector<Reported> FakeDevice::reports() {
  const std::lock_guard lock(reports_mutex_);
  return reports_;
}

size_t FakeDevice::allocation_count() {
  const std::lock_guard lock(memory_mutex);
  return memory.size();
}

std::byte* FakeDevice::resolve(const bp_mem& mem, uint64_t bytes) {
  const auto found = memory.find(mem.handle);
  if (found == memory.end()) return nullptr;
  const uint64_t size = found->second.size();
  if (mem.offset_bytes > size || bytes > size - mem.offset_bytes) return nullptr;
  return found->second.data() + mem.offset_bytes;
}

bp_status FakeDevice::copy(const bp_copy_args& args) {
  ++copy_count;
  if (copy_status != BP_OK && copies_before_failure-- <= 0) return copy_status;
  const std::lock_guard lock(memory_mutex);
  const auto host = [](const bp_mem& mem) { return host_address(mem.handle) + mem.offset_bytes; };
  std::byte* dst =
      args.kind == BP_COPY_DEVICE_TO_HOST ? host(args.dst) : resolve(args.dst, args.bytes);
  std::byte* src =
      args.kind == BP_COPY_HOST_TO_DEVICE ? host(args.src) : resolve(args.src, args.bytes);
  if (dst == nullptr || src == nullptr) return BP_INVALID_ARGUMENT;
  if (args.bytes > 0) std::memcpy(dst, src, args.bytes);
  return BP_OK;
}

bp_status FakeDevice::fill(const bp_fill_args& args) {
  const std::lock_guard lock(memory_mutex);
  std::byte* dst = resolve(args.dst, args.bytes);
  if (dst == nullptr) return BP_INVALID_ARGUMENT;
  for (uint64_t at = 0; at < args.bytes; at += args.pattern_bytes) {
    std::memcpy(dst + at, &args.pattern, args.pattern_bytes);
  }
  return BP_OK;
}

Opened::Opened(uint64_t features, uint32_t device_flags)
    : fake(device_flags, features), table(fake.table()), emulation(emulate_missing(&table)) {}

bp_stream* Opened::stream() {
  const bp_stream_args args{sizeof(bp_stream_args), 0};
  bp_stream* stream = nullptr;
  const bp_status status = table.stream_create(args, &stream);
  return status == BP_OK ? stream : nullptr;
}

bp_event* Opened::event(uint32_t flags) {
  const bp_event_args args{sizeof(bp_event_args), flags};
  bp_event* event = nullptr;
  const bp_status status = table.event_create(args, &event);
  return status == BP_OK ? event : nullptr;
}

uint64_t Opened::alloc(uint64_t bytes) {
  const bp_alloc_args args{sizeof(bp_alloc_args), 0, bytes, 0, BP_USAGE_ACTIVATIONS, 0};
  uint64_t handle = 0;
  table.mem_alloc(args, &handle);
  return handle;
}

std::vector<std::byte> Opened::bytes_of(uint64_t handle) {
  const std::lock_guard lock(fake.memory_mutex);
  return fake.memory.at(handle);
}

bp_status Opened::copy_to_device(bp_stream* stream, uint64_t handle, const void* source,
                                 uint64_t bytes) {
  const bp_copy_args args{sizeof(bp_copy_args),
                          0,
                          BP_COPY_HOST_TO_DEVICE,
                          0,
                          {handle, 0},
                          {reinterpret_cast<uint64_t>(source), 0},
                          bytes};
  return table.mem_copy_async(stream, args);
}

bp_status Opened::host_alloc(uint64_t bytes, void** out_ptr) {
  const bp_host_alloc_args args{sizeof(bp_host_alloc_args), 0, bytes};
  return table.host_alloc(args, out_ptr);
}

bp_status Opened::fill(bp_stream* stream, bp_mem dst, uint64_t bytes, uint64_t pattern,
                       uint32_t pattern_bytes) {
  const bp_fill_args args{sizeof(bp_fill_args), 0, dst, bytes, pattern, pattern_bytes, 0, stream};
  return table.mem_fill(args);
}

bp_launch_args Opened::launch_args(uint64_t op_seq) {
  bp_launch_args args{};
  args.struct_size = sizeof(args);
  args.device = table.device;
  args.kernel = &fake.kernel;
  args.op_seq = op_seq;
  return args;
}

bp_status Opened::launch(bp_stream* stream, uint64_t op_seq,
                         std::shared_ptr<const void> keep_alive) {
  return call_launch(table, stream, launch_args(op_seq), std::move(keep_alive));
}

bp_status Opened::host_call(bp_stream* stream, std::function<void(bp_status)> fn) {
  auto owned = std::make_unique<std::function<void(bp_status)>>(std::move(fn));
  const bp_host_fn call = [](void* user, bp_status status) {
    const std::unique_ptr<std::function<void(bp_status)>> body(
        static_cast<std::function<void(bp_status)>*>(user));
    (*body)(status);
  };
  const bp_status status = table.stream_host_call(stream, call, owned.get());
  if (status == BP_OK) static_cast<void>(owned.release());
  return status;
}

}  // namespace bp::testing
