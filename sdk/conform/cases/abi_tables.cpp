// SPDX-License-Identifier: Apache-2.0
//
// Level 0: the tables, as the entry hands them out (design 2.1, laws 2, 3 and 5).
#include <cstddef>

#include "sdk/conform/abi.hpp"

namespace bp::conform {
namespace {

constexpr uint32_t kLargestTable = 64 * 1024;

/// One table: where it is, and where its slots begin that every plugin fills.
struct TableView {
  const char* name;
  const void* (*get)(AbiContext& context);
  size_t bytes;           // as this kit knows it
  size_t required_bytes;  // a table ends behind these slots at the earliest
  bool optional;
};

constexpr size_t kHeaderBytes = 2 * sizeof(uint32_t);

constexpr TableView kTables[] = {
    {"root", [](AbiContext& c) -> const void* { return c.plugin().root; }, sizeof(bp_root_api),
     sizeof(bp_root_api), false},
    {"device", [](AbiContext& c) -> const void* { return c.plugin().device; },
     sizeof(bp_device_api), sizeof(bp_device_api), false},
    {"memory", [](AbiContext& c) -> const void* { return c.plugin().memory; },
     sizeof(bp_memory_api), offsetof(bp_memory_api, mem_fill), false},
    {"stream", [](AbiContext& c) -> const void* { return c.plugin().stream; },
     sizeof(bp_stream_api), kHeaderBytes, true},
    {"kernel", [](AbiContext& c) -> const void* { return c.plugin().kernel; },
     sizeof(bp_kernel_api), sizeof(bp_kernel_api), true}};

/// struct_size of a table, 0 for an absent one.
uint32_t size_of(AbiContext& context, const TableView& table) {
  const void* address = table.get(context);
  uint32_t size = 0;
  if (address != nullptr) std::memcpy(&size, address, sizeof(size));
  context.expect(address != nullptr || table.optional, words("a table ", table.name));
  return size;
}

void size_is_one(AbiContext& context, const TableView& table) {
  const uint32_t size = size_of(context, table);
  if (table.get(context) == nullptr) return;
  context.expect(size % 8 == 0 && size >= table.required_bytes && size <= kLargestTable,
                 words("a struct_size that is a multiple of 8 from ", table.required_bytes, " to ",
                       kLargestTable, "; found ", size));
}

/// Every slot of the table as an address; NULL ones are left out.
std::vector<const void*> slots_of(AbiContext& context, const TableView& table) {
  std::vector<const void*> slots;
  const size_t end = std::min<size_t>(size_of(context, table), table.bytes);
  for (size_t at = kHeaderBytes; at + sizeof(void*) <= end; at += sizeof(void*)) {
    const void* slot = nullptr;
    std::memcpy(&slot, static_cast<const std::byte*>(table.get(context)) + at, sizeof(slot));
    if (slot != nullptr) slots.push_back(slot);
  }
  return slots;
}

void slots_are_its_own(AbiContext& context, const TableView& table) {
  const std::vector<const void*> slots = slots_of(context, table);
  context.expect(!slots.empty() || table.optional, "slots");
  for (const void* slot : slots) {
    context.expect(context.library().contains(slot),
                   words("slots of table ", table.name, " in the plugin's own library"));
  }
}

void is_static_data(AbiContext& context, const TableView& table) {
  const uint32_t size = size_of(context, table);
  const auto* address = static_cast<const std::byte*>(table.get(context));
  if (address == nullptr) return;
  context.expect(context.library().contains(address), "a table inside the plugin's library");
  const Bytes before(address, address + size);
  expect_working(context, context.device(), "in between");
  context.close();
  context.expect_bytes(words("table ", table.name, " after use"), {address, size}, before);
}

struct SlotView {
  const char* name;
  size_t table;  // in kTables
  size_t offset;
  uint32_t band;  // 0: required
};

#define BP_SLOT(number, table, slot, band) \
  { #slot, number, offsetof(bp_##table##_api, slot), band }
constexpr SlotView kSlots[] = {
    BP_SLOT(0, root, init, 0),
    BP_SLOT(0, root, shutdown, 0),
    BP_SLOT(1, device, device_count, 0),
    BP_SLOT(1, device, device_open, 0),
    BP_SLOT(1, device, device_close, 0),
    BP_SLOT(1, device, device_props, 0),
    BP_SLOT(2, memory, mem_alloc, 0),
    BP_SLOT(2, memory, mem_free, 0),
    BP_SLOT(2, memory, mem_copy, 0),
    BP_SLOT(2, memory, mem_fill, BP_FEATURE_FILL_BIT),
    BP_SLOT(2, memory, host_alloc, BP_FEATURE_PINNED_BIT),
    BP_SLOT(2, memory, host_free, BP_FEATURE_PINNED_BIT),
    BP_SLOT(2, memory, mem_map, BP_FEATURE_MAP_BIT),
    BP_SLOT(2, memory, mem_unmap, BP_FEATURE_MAP_BIT),
    BP_SLOT(3, stream, stream_create, BP_FEATURE_ASYNC_BIT),
    BP_SLOT(3, stream, stream_destroy, BP_FEATURE_ASYNC_BIT),
    BP_SLOT(3, stream, stream_sync, BP_FEATURE_ASYNC_BIT),
    BP_SLOT(3, stream, stream_query, BP_FEATURE_ASYNC_BIT),
    BP_SLOT(3, stream, event_create, BP_FEATURE_ASYNC_BIT),
    BP_SLOT(3, stream, event_destroy, BP_FEATURE_ASYNC_BIT),
    BP_SLOT(3, stream, event_record, BP_FEATURE_ASYNC_BIT),
    BP_SLOT(3, stream, event_wait, BP_FEATURE_ASYNC_BIT),
    BP_SLOT(3, stream, event_sync, BP_FEATURE_ASYNC_BIT),
    BP_SLOT(3, stream, event_query, BP_FEATURE_ASYNC_BIT),
    BP_SLOT(3, stream, mem_copy_async, BP_FEATURE_ASYNC_BIT),
    BP_SLOT(3, stream, stream_host_call, BP_FEATURE_ASYNC_BIT),
    BP_SLOT(3, stream, event_elapsed, BP_FEATURE_TIMING_BIT),
    BP_SLOT(3, stream, stream_native_handle, BP_FEATURE_NATIVE_BIT),
    BP_SLOT(3, stream, stream_wrap, BP_FEATURE_NATIVE_BIT),
    BP_SLOT(4, kernel, kernel_list, 0),
};
#undef BP_SLOT

/// The slot is there; false for one beyond the table's size as well.
bool is_filled(AbiContext& context, const SlotView& slot) {
  const TableView& table = kTables[slot.table];
  if (size_of(context, table) < slot.offset + sizeof(void*)) return false;
  const void* address = nullptr;
  std::memcpy(&address, static_cast<const std::byte*>(table.get(context)) + slot.offset,
              sizeof(address));
  return address != nullptr;
}

void required_slot(AbiContext& context, const SlotView& slot) {
  context.expect(is_filled(context, slot), words("slot ", slot.name));
}

/// Announced bands are whole; parts of others are refused. A whole one that nobody announces is
/// legal: the core doesn't look at it.
void band_is_whole_or_absent(AbiContext& context, uint64_t band) {
  size_t filled_count = 0;
  size_t slot_count = 0;
  uint32_t flags = 0;
  for (const SlotView& slot : kSlots) {
    if (slot.band != band) continue;
    ++slot_count;
    filled_count += is_filled(context, slot) ? 1 : 0;
    const void* table = kTables[slot.table].get(context);
    if (table != nullptr) {
      std::memcpy(&flags, static_cast<const std::byte*>(table) + sizeof(uint32_t), sizeof(flags));
    }
  }
  const bool announced = (flags & band) != 0;
  context.expect(filled_count == slot_count || (filled_count == 0 && !announced),
                 words(slot_count, " slots, or none and no bit; found ", filled_count,
                       announced ? " and the bit" : " and no bit"));
}

void device_bands_are_announced(AbiContext& context) {
  const bp_device_props props = context.props();
  uint64_t announced = 0;
  const bp_plugin& plugin = context.plugin();
  announced |= plugin.memory->flags;
  if (plugin.stream != nullptr) announced |= plugin.stream->flags;
  constexpr uint64_t kKnown = BP_FEATURE_ASYNC_BIT | BP_FEATURE_TIMING_BIT | BP_FEATURE_FILL_BIT |
                              BP_FEATURE_PINNED_BIT | BP_FEATURE_MAP_BIT | BP_FEATURE_NATIVE_BIT;
  context.expect_equal("features that no table announces", props.features & kKnown & ~announced,
                       0U);
}

}  // namespace

void add_table_cases(CaseList* list) {
  for (const TableView& table : kTables) {
    const std::string id = std::string("L0.table.") + table.name;
    list->add({.id = id + ".size",
               .proves = "Sizes are multiples of 8, hold the required slots, at most 64 KiB.",
               .abi = [=](AbiContext& context) { size_is_one(context, table); }});
    list->add({.id = id + ".slots_are_its_own",
               .proves = "Tables hold the plugin's own functions.",
               .abi = [=](AbiContext& context) { slots_are_its_own(context, table); }});
    list->add({.id = id + ".is_static_data",
               .proves = "All tables are static data of the plugin.",
               .abi = [=](AbiContext& context) { is_static_data(context, table); }});
  }
  for (const SlotView& slot : kSlots) {
    if (slot.band != 0) continue;
    list->add({.id = std::string("L0.table.has_") + slot.name,
               .proves = "The required slots are there.",
               .abi = [=](AbiContext& context) { required_slot(context, slot); }});
  }
  for (const Feature& band : kBands) {
    if (band.bit == kOneCallAtATime) continue;
    list->add({.id = std::string("L0.table.band_") + std::string(band.name),
               .proves = "A band is given whole or not at all.",
               .abi = [=](AbiContext& context) { band_is_whole_or_absent(context, band.bit); }});
  }
  list->add({.id = "L0.table.device_bands_are_announced",
             .proves = "Per-device bits are a subset of the tables' bits.",
             .abi = device_bands_are_announced});
}

}  // namespace bp::conform
