// SPDX-License-Identifier: Apache-2.0
//
// Slots have no room for a context of ours, so the original table is kept in one place: one defect
// at a time, in one thread.
#include "tests/model_based/planted.hpp"

#include <cstring>
#include <vector>

namespace bp::model {
namespace {

struct Planted {
  DeviceTable original;
  bp_stream* idle_stream = nullptr;
  std::vector<std::vector<std::byte>> staging;
};

Planted& planted() {
  static Planted instance;
  return instance;
}

bp_status dropped_wait(bp_event*, bp_stream*) { return BP_OK; }

bp_status early_record(bp_event* event, bp_stream*) {
  const DeviceTable& api = planted().original;
  const bp_status status = api.event_record(event, planted().idle_stream);
  api.stream_sync(planted().idle_stream, BP_TIMEOUT_FOREVER);
  return status;
}

bp_status early_free(bp_stream* stream, const bp_copy_args* args) {
  if (args->kind != BP_COPY_HOST_TO_DEVICE || args->bytes == 0) {
    return planted().original.mem_copy_async(stream, *args);
  }
  auto& staging = planted().staging.emplace_back(args->bytes);
  std::memcpy(staging.data(),
              reinterpret_cast<const std::byte*>(args->src.handle) + args->src.offset_bytes,
              args->bytes);
  bp_copy_args staged = *args;
  staged.src = {reinterpret_cast<uint64_t>(staging.data()), 0};
  const bp_status status = planted().original.mem_copy_async(stream, staged);
  // The memory itself is kept, so that this stays a defect that only the values show.
  std::memset(staging.data(), 0xdd, staging.size());
  return status;
}

void keep(const DeviceTable& table) {
  unplant();
  planted().original = table;
}

}  // namespace

void plant_dropped_wait(DeviceTable* table) {
  keep(*table);
  table->emulated_stream.event_wait = dropped_wait;
}

void plant_early_record(DeviceTable* table) {
  keep(*table);
  const bp_stream_args args{sizeof(args), 0};
  table->stream_create(args, &planted().idle_stream);
  table->emulated_stream.event_record = early_record;
}

void plant_early_free(DeviceTable* table) {
  keep(*table);
  table->emulated_stream.mem_copy_async = early_free;
}

void unplant() {
  if (planted().idle_stream != nullptr) {
    planted().original.stream_destroy(planted().idle_stream);
  }
  planted() = {};
}

}  // namespace bp::model
