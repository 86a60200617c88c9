// SPDX-License-Identifier: Apache-2.0
//
// A source of its own, without the C++ API, whose names are the core's.
#include "tests/hostile_plugins/core_calls.hpp"

#include <cstdio>
#include <cstdlib>

#include "core/device/kernel_list.hpp"
#include "core/device/open_device.hpp"
#include "core/emulation/emulate_missing.hpp"
#include "core/plugin/loader.hpp"

namespace bp {
namespace {

/// The calls of one open device, and the words of those that fail.
class CallsOfCore {
 public:
  CallsOfCore(const LoadedPlugin& plugin, const DeviceTable& table)
      : plugin_(plugin), table_(table) {}

  void time_and_wait() {
    constexpr uint64_t kTimeoutNs = 1'000'000'000;
    const bp_stream_args stream_args{sizeof(bp_stream_args), 0};
    const bp_event_args event_args{sizeof(bp_event_args), BP_EVENT_TIMING_BIT};
    bp_stream* stream = nullptr;
    bp_event* start = nullptr;
    bp_event* end = nullptr;
    uint64_t elapsed_ns = 0;
    tell(Slot::kStreamCreate, table_.stream_create(stream_args, &stream));
    for (bp_event** event : {&start, &end}) {
      tell(Slot::kEventCreate, table_.event_create(event_args, event));
      tell(Slot::kEventRecord, table_.event_record(*event, stream));
    }
    tell(Slot::kEventQuery, table_.event_query(end));
    tell(Slot::kEventSync, table_.event_sync(end, kTimeoutNs));
    tell(Slot::kEventElapsed, table_.event_elapsed(start, end, &elapsed_ns));
    for (bp_event* event : {start, end}) tell(Slot::kEventDestroy, table_.event_destroy(event));
    tell(Slot::kStreamDestroy, table_.stream_destroy(stream));
  }

  void map() {
    constexpr uint64_t kBytes = 256;
    const bp_alloc_args alloc_args{sizeof(bp_alloc_args), 0, kBytes, 0, BP_USAGE_IO, 0};
    uint64_t handle = 0;
    void* mapped = nullptr;
    tell(Slot::kMemAlloc, table_.mem_alloc(alloc_args, &handle));
    const bp_map_args map_args{sizeof(bp_map_args), 0, {handle, 0}, kBytes, BP_MAP_READ_BIT, 0};
    tell(Slot::kMemMap, table_.mem_map(map_args, &mapped));
    if (mapped != nullptr) tell(Slot::kMemUnmap, table_.mem_unmap(mapped));
    tell(Slot::kMemFree, table_.mem_free(handle));
  }

  void pack() {
    const auto list = list_kernels(plugin_, table_);
    if (!list.ok()) return;  // of an abandoned device
    const KernelRecord& record = list->kernels.at(0);
    bp_prepack_info info{};
    info.struct_size = sizeof(info);
    tell(Slot::kPrepackQuery, table_.prepack_query(record.kernel, nullptr, 0, &info));
    bp_prepack_args args{};
    args.struct_size = sizeof(args);
    tell(Slot::kPrepack, table_.prepack(record.kernel, args));
  }

  /// A group of one rank from its id to its end.
  void collect() {
    const bp_stream_args stream_args{sizeof(bp_stream_args), 0};
    bp_stream* stream = nullptr;
    tell(Slot::kStreamCreate, table_.stream_create(stream_args, &stream));
    bp_collective_caps caps{};
    caps.struct_size = sizeof(caps);
    tell(Slot::kCollectiveCaps, table_.collective_caps(&caps));
    uint64_t id = 0;
    bp_uid_space space{sizeof(space), 0, &id, sizeof(id)};
    tell(Slot::kUidCreate, table_.uid_create(&space));
    const bp_comm_args args{sizeof(args), 0, &id, sizeof(id), 1, 0, 1, 0, 0, {}};
    bp_comm* comm = nullptr;
    tell(Slot::kCommInit, table_.comm_init(args, &comm));
    if (comm != nullptr) use_group(comm, stream);
    tell(Slot::kStreamDestroy, table_.stream_destroy(stream));
  }

  void use_group(bp_comm* comm, bp_stream* stream) {
    bp_comm_state state{};
    state.struct_size = sizeof(state);
    tell(Slot::kCommPoll, table_.comm_poll(comm, &state));
    bp_collective_op op{};
    op.struct_size = sizeof(op);
    op.dtype = BP_DTYPE_F32;
    const bp_collective_batch batch{sizeof(batch), 0, comm, stream, &op, 1, sizeof(op), 1, 1};
    const bp_collective_args args{sizeof(args), 0, &batch, 1, sizeof(batch)};
    tell(Slot::kCollectiveEnqueue, table_.collective_enqueue(args));
    const bp_comm_abort_args abort_args{sizeof(abort_args), 0, &comm, 1};
    tell(Slot::kCommAbort, table_.comm_abort(abort_args));
    tell(Slot::kCommDestroy, table_.comm_destroy(comm));
  }

  void tell(Slot slot, bp_status status) {
    if (status == BP_OK) return;
    const Status told = plugin_.host().to_status(status, table_.gate->call_name(slot));
    std::fprintf(stderr, "told: %s\n", told.to_string().c_str());
  }

 private:
  const LoadedPlugin& plugin_;
  const DeviceTable& table_;
};

}  // namespace

void use_from_core(const std::string& folder, std::chrono::seconds call_timeout) {
  LoadOptions options;
  options.search_path = {folder};
  options.install_directory = "";
  options.call_timeout = call_timeout;
  const PluginSet set = load_plugins(options);
  const LoadedPlugin& plugin = *set.plugins.at(0);
  auto table = open_device(plugin, 0, {});
  if (!table.ok()) std::abort();
  EmulationPtr emulation = emulate_missing(&*table);
  CallsOfCore calls(plugin, *table);
  calls.time_and_wait();
  calls.map();
  calls.pack();
  calls.collect();
  if (table->gate->is_abandoned()) {
    static_cast<void>(emulation.release());  // the late call may use it
    return;
  }
  calls.tell(Slot::kDeviceClose, table->device_close());
}

}  // namespace bp
