// SPDX-License-Identifier: Apache-2.0
//
// One function per slot stands between the kit and the plugin.
#include "sdk/conform/step.hpp"

#include <algorithm>
#include <exception>
#include <mutex>

#include "sdk/conform/checks.hpp"

namespace bp::conform {
namespace {

Step* step_of_child = nullptr;  // set before the child has threads

template <Slot slot, class... Arguments>
void name_slot(bp_status (**function)(Arguments...)) {
  static std::atomic<bp_status (*)(Arguments...)> named;
  if (*function == nullptr) return;
  named = *function;
  *function = [](Arguments... arguments) {
    const InSlot in_slot(slot);
    return named.load()(arguments...);
  };
}

}  // namespace

std::string Step::words() const {
  std::string text;
  if (const char* name = slot.load(); name != nullptr) text += conform::words(" in ", name);
  if (what[0] != '\0') text += conform::words(" at ", what.data());
  return text;
}

Step& current_step() {
  static Step own;
  return step_of_child != nullptr ? *step_of_child : own;
}

void set_current_step(Step* step) { step_of_child = step; }

void note_step(std::string_view what) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::array<char, std::tuple_size_v<decltype(Step::what)>>& text = current_step().what;
  const size_t length = std::min(what.size(), text.size() - 1);
  std::copy_n(what.begin(), length, text.begin());
  text[length] = '\0';
}

InSlot::InSlot(Slot slot) : name_(slot_info(slot).name), exceptions_(std::uncaught_exceptions()) {
  current_step().slot = name_;
}

InSlot::~InSlot() {
  if (std::uncaught_exceptions() > exceptions_) current_step().threw = name_;
  // Another thread may have gone into another slot since.
  const char* noted = name_;
  current_step().slot.compare_exchange_strong(noted, nullptr);
}

void name_slots(bp_root_api* table) {
  name_slot<Slot::kInit>(&table->init);
  name_slot<Slot::kShutdown>(&table->shutdown);
}

void name_slots(bp_device_api* table) {
  name_slot<Slot::kDeviceCount>(&table->device_count);
  name_slot<Slot::kDeviceOpen>(&table->device_open);
  name_slot<Slot::kDeviceClose>(&table->device_close);
  name_slot<Slot::kDeviceProps>(&table->device_props);
}

void name_slots(bp_memory_api* table) {
  name_slot<Slot::kMemAlloc>(&table->mem_alloc);
  name_slot<Slot::kMemFree>(&table->mem_free);
  name_slot<Slot::kMemCopy>(&table->mem_copy);
  name_slot<Slot::kMemFill>(&table->mem_fill);
  name_slot<Slot::kHostAlloc>(&table->host_alloc);
  name_slot<Slot::kHostFree>(&table->host_free);
  name_slot<Slot::kMemMap>(&table->mem_map);
  name_slot<Slot::kMemUnmap>(&table->mem_unmap);
}

void name_slots(bp_stream_api* table) {
  name_slot<Slot::kStreamCreate>(&table->stream_create);
  name_slot<Slot::kStreamDestroy>(&table->stream_destroy);
  name_slot<Slot::kStreamSync>(&table->stream_sync);
  name_slot<Slot::kStreamQuery>(&table->stream_query);
  name_slot<Slot::kEventCreate>(&table->event_create);
  name_slot<Slot::kEventDestroy>(&table->event_destroy);
  name_slot<Slot::kEventRecord>(&table->event_record);
  name_slot<Slot::kEventWait>(&table->event_wait);
  name_slot<Slot::kEventSync>(&table->event_sync);
  name_slot<Slot::kEventQuery>(&table->event_query);
  name_slot<Slot::kMemCopyAsync>(&table->mem_copy_async);
  name_slot<Slot::kStreamHostCall>(&table->stream_host_call);
  name_slot<Slot::kEventElapsed>(&table->event_elapsed);
  name_slot<Slot::kStreamNativeHandle>(&table->stream_native_handle);
  name_slot<Slot::kStreamWrap>(&table->stream_wrap);
}

void name_slots(bp_kernel_api* table) { name_slot<Slot::kKernelList>(&table->kernel_list); }

void name_slots(bp_collective_api* table) {
  name_slot<Slot::kCollectiveCaps>(&table->collective_caps);
  name_slot<Slot::kUidCreate>(&table->uid_create);
  name_slot<Slot::kCommInit>(&table->comm_init);
  name_slot<Slot::kCommPoll>(&table->comm_poll);
  name_slot<Slot::kCommAbort>(&table->comm_abort);
  name_slot<Slot::kCommDestroy>(&table->comm_destroy);
  name_slot<Slot::kCollectiveEnqueue>(&table->collective_enqueue);
}

}  // namespace bp::conform
