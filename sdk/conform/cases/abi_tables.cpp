// SPDX-License-Identifier: Apache-2.0
//
// Level 0: the tables, as the entry hands them out (design 2.1, laws 2, 3 and 5).
#include <cstddef>
#include <iterator>
#include <sstream>

#include "sdk/conform/abi.hpp"

namespace bp::conform {
namespace {

constexpr uint32_t kLargestTable = 64 * 1024;

constexpr size_t kHeaderBytes = 2 * sizeof(uint32_t);

/// "init shutdown" as a list.
std::vector<std::string> names_in(const char* names) {
  std::istringstream stream(names);
  return {std::istream_iterator<std::string>(stream), {}};
}

const std::byte* address_of(AbiContext& context, const TableInfo& table) {
  return static_cast<const std::byte*>(table.of(context.plugin()));
}

/// struct_size of a table, 0 for an absent one.
uint32_t size_of(AbiContext& context, const TableInfo& table) {
  const std::byte* const address = address_of(context, table);
  uint32_t size = 0;
  if (address != nullptr) std::memcpy(&size, address, sizeof(size));
  context.expect(address != nullptr || !table.is_required, words("a table ", table.name));
  return size;
}

void size_is_one(AbiContext& context, const TableInfo& table) {
  const uint32_t size = size_of(context, table);
  if (address_of(context, table) == nullptr) return;
  context.expect(size % 8 == 0 && size >= table.required_bytes && size <= kLargestTable,
                 words("a struct_size that is a multiple of 8 from ", table.required_bytes, " to ",
                       kLargestTable, "; found ", size));
}

/// Every slot of the table as an address; NULL ones are left out.
std::vector<const void*> slots_of(AbiContext& context, const TableInfo& table) {
  std::vector<const void*> slots;
  const size_t end = std::min<size_t>(size_of(context, table), table.bytes);
  for (size_t at = kHeaderBytes; at + sizeof(void*) <= end; at += sizeof(void*)) {
    const void* slot = nullptr;
    std::memcpy(&slot, address_of(context, table) + at, sizeof(slot));
    if (slot != nullptr) slots.push_back(slot);
  }
  return slots;
}

void slots_are_its_own(AbiContext& context, const TableInfo& table) {
  const std::vector<const void*> slots = slots_of(context, table);
  context.expect(!slots.empty() || !table.is_required, "slots");
  for (const void* slot : slots) {
    context.expect(context.library().contains(slot),
                   words("slots of table ", table.name, " in the plugin's own library"));
  }
}

void is_static_data(AbiContext& context, const TableInfo& table) {
  const uint32_t size = size_of(context, table);
  const std::byte* const address = address_of(context, table);
  if (address == nullptr) return;
  context.expect(context.library().contains(address), "a table inside the plugin's library");
  const Bytes before(address, address + size);
  expect_working(context, context.device(), "in between");
  context.close();
  context.expect_bytes(words("table ", table.name, " after use"), {address, size}, before);
}

/// Whether the slot at this place is there; false for one beyond the table's size as well.
bool is_filled(AbiContext& context, const TableInfo& table, size_t offset) {
  if (size_of(context, table) < offset + sizeof(void*)) return false;
  const void* slot = nullptr;
  std::memcpy(&slot, address_of(context, table) + offset, sizeof(slot));
  return slot != nullptr;
}

/// A table that is absent as a whole has no slot to ask for.
void required_slot(AbiContext& context, const TableInfo& table, const std::string& slot,
                   size_t offset) {
  if (!table.is_required && address_of(context, table) == nullptr) return;
  context.expect(is_filled(context, table, offset), words("slot ", slot));
}

/// Announced bands are whole; parts of others are refused. A whole one that is not announced is
/// legal: the core doesn't look at it.
void band_is_whole_or_absent(AbiContext& context, const TableInfo& table, const Band& band) {
  const size_t slot_count = (band.end - band.begin) / sizeof(void*);
  size_t filled_count = 0;
  for (size_t at = band.begin; at < band.end; at += sizeof(void*)) {
    filled_count += is_filled(context, table, at) ? 1 : 0;
  }
  uint32_t flags = 0;
  const std::byte* const address = address_of(context, table);
  if (address != nullptr) std::memcpy(&flags, address + sizeof(uint32_t), sizeof(flags));
  const bool announced = (flags & band.bit) != 0;
  context.expect(filled_count == slot_count || (filled_count == 0 && !announced),
                 words(slot_count, " slots, or none and no bit; found ", filled_count,
                       announced ? " and the bit" : " and no bit"));
}

void device_bands_are_announced(AbiContext& context) {
  const bp_device_props props = context.props();
  context.expect_equal("features that no table announces",
                       props.features & known_features() & ~context.tables().announced(), 0U);
}

/// The required slots and the bands of a table.
void add_slot_cases(const TableInfo& table, CaseList* list) {
  for (const Band& band : table.bands) {
    if (band.bit != 0) {
      list->add(
          {.id = words("L0.table.band_", band.word),
           .proves = "A band is given whole or not at all.",
           .abi = [=](AbiContext& context) { band_is_whole_or_absent(context, table, band); }});
      continue;
    }
    size_t at = band.begin;
    for (const std::string& slot : names_in(band.slots)) {
      list->add({.id = "L0.table.has_" + slot,
                 .proves = "The required slots are there.",
                 .abi = [=](AbiContext& context) { required_slot(context, table, slot, at); }});
      at += sizeof(void*);
    }
  }
}

}  // namespace

void add_table_cases(CaseList* list) {
  for (const TableInfo& table : kTables) {
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
  for (const TableInfo& table : kTables) add_slot_cases(table, list);
  list->add({.id = "L0.table.device_bands_are_announced",
             .proves = "Per-device bits are a subset of the tables' bits.",
             .abi = device_bands_are_announced});
}

}  // namespace bp::conform
