// SPDX-License-Identifier: Apache-2.0
//
// Level 0: what a device says about itself, and the kernel descriptors that it lists.
#include <bit>
#include <set>

#include "core/device/kernel_list.hpp"
#include "sdk/conform/abi.hpp"

namespace bp::conform {
namespace {

std::string text_of(bp_str text) { return {text.ptr, text.len}; }

bool same_text(bp_str a, bp_str b) { return text_of(a) == text_of(b); }

bool same_props(const bp_device_props& a, const bp_device_props& b) {
  return a.flags == b.flags && a.features == b.features && a.execution == b.execution &&
         a.compute_unit_count == b.compute_unit_count && a.memory_bytes == b.memory_bytes &&
         a.max_alloc_bytes == b.max_alloc_bytes && a.alignment_bytes == b.alignment_bytes &&
         same_text(a.name, b.name) && same_text(a.vendor, b.vendor) &&
         same_text(a.driver, b.driver) && a.dlpack_device_type == b.dlpack_device_type &&
         a.dlpack_device_id == b.dlpack_device_id;
}

void props_never_change(AbiContext& context) {
  const bp_device_props first = context.props();
  expect_working(context, context.device(), "in between");
  context.expect(same_props(context.props(), first), "the same props each time");
}

void props_are_the_same_when_opened_again(AbiContext& context) {
  const bp_device_props first = context.props();
  const std::string name = text_of(first.name);
  context.close();
  const bp_device_props second = context.props();
  context.expect_equal("features", second.features, first.features);
  context.expect_equal("memory_bytes", second.memory_bytes, first.memory_bytes);
  context.expect_equal("name", text_of(second.name), name);
}

void props_write_at_most(AbiContext& context, uint32_t bytes) {
  const GuardedMemory memory(bytes);
  auto* props = reinterpret_cast<bp_device_props*>(memory.data());
  props->struct_size = bytes;
  context.expect_ok("device_props", context.device_api().device_props(context.device(), props));
  context.expect_equal("struct_size afterwards", props->struct_size, bytes);
  const bp_device_props whole = context.props();
  constexpr size_t kHeaderBytes = 2 * sizeof(uint32_t);
  const auto* expected = reinterpret_cast<const std::byte*>(&whole);
  context.expect_bytes("the members that fit",
                       {memory.data() + sizeof(uint32_t), bytes - sizeof(uint32_t)},
                       {expected + sizeof(uint32_t), bytes - sizeof(uint32_t)});
  context.expect(bytes >= kHeaderBytes, "a size that holds flags");
}

void props_leave_what_they_do_not_know(AbiContext& context) {
  struct Longer {
    bp_device_props known;
    uint64_t unknown[4];
  } longer{};
  longer.known.struct_size = sizeof(longer);
  context.expect_ok("device_props",
                    context.device_api().device_props(context.device(), &longer.known));
  for (const uint64_t word : longer.unknown) context.expect_equal("a later member", word, 0U);
}

void execution_is_known(AbiContext& context) {
  const bp_device_props props = context.props();
  context.expect(props.execution <= BP_EXECUTION_INLINE,
                 words("QUEUED or INLINE; found ", props.execution));
}

void alignment_is_a_power_of_two(AbiContext& context) {
  const uint64_t alignment = context.props().alignment_bytes;
  context.expect(alignment == 0 || std::has_single_bit(alignment),
                 words("a power of two; found ", alignment));
}

void host_memory_has_addresses(AbiContext& context) {
  const uint32_t flags = context.props().flags;
  context.expect((flags & BP_DEVICE_HOST_MEMORY_BIT) == 0 || (flags & BP_DEVICE_ADDRESS_BIT) != 0,
                 "BP_DEVICE_ADDRESS_BIT beside BP_DEVICE_HOST_MEMORY_BIT");
}

void limits_fit_together(AbiContext& context) {
  const bp_device_props props = context.props();
  context.expect(
      props.memory_bytes == 0 || props.max_alloc_bytes <= props.memory_bytes,
      words("max_alloc_bytes of at most ", props.memory_bytes, "; found ", props.max_alloc_bytes));
}

void texts_are_there(AbiContext& context) {
  const bp_device_props props = context.props();
  for (const bp_str& text : {props.name, props.vendor, props.driver}) {
    context.expect(text.ptr != nullptr && text.len > 0, "a text that is not empty");
    for (const char letter : text_of(text)) {
      context.expect(static_cast<unsigned char>(letter) >= 0x20, "a text without control letters");
    }
  }
}

/// Kernel descriptors are asked for by the kernel table, which some plugins may do without.
bp_kernel_list list_of(AbiContext& context) {
  bp_kernel_list list{};
  list.struct_size = sizeof(list);
  context.require(context.kernel().kernel_list != nullptr, "a kernel table");
  context.require_ok("kernel_list", context.kernel().kernel_list(context.device(), &list));
  return list;
}

void kernels_never_change(AbiContext& context) {
  const bp_kernel_list first = list_of(context);
  const std::vector<const bp_kernel*> kernels(first.kernels, first.kernels + first.kernel_count);
  const bp_kernel_list second = list_of(context);
  context.require(second.kernel_count == kernels.size(), "as many kernels each time");
  for (size_t i = 0; i < kernels.size(); ++i) {
    context.expect(second.kernels[i] == kernels[i], "the same descriptors each time");
  }
}

/// The core's own check of descriptors: sizes, texts, pairs of functions, one name each.
void kernels_are_well_formed(AbiContext& context) {
  const auto checked = validate_kernels("tested", list_of(context));
  context.require(checked.ok(), "a list that can be read");
  context.expect(!checked->kernels.empty(), "kernels");
  for (const std::string& refused : checked->refused) context.fail(refused);
}

void kernels_are_static_data(AbiContext& context) {
  const bp_kernel_list list = list_of(context);
  for (uint64_t i = 0; i < list.kernel_count; ++i) {
    const bp_kernel* kernel = list.kernels[i];
    context.expect(context.library().contains(kernel), "descriptors inside the library");
    context.expect(context.library().contains(kernel->name.ptr), "names inside the library");
    context.expect(context.library().contains(reinterpret_cast<const void*>(kernel->launch)),
                   "launch functions inside the library");
  }
  context.expect(list.kernel_count > 0, "kernels");
}

void kernels_name_known_dtypes(AbiContext& context) {
  constexpr uint64_t kKnown = (BP_DTYPE_BIT(BP_DTYPE_F8E8M0) << 1) - 1;
  const bp_kernel_list list = list_of(context);
  for (uint64_t i = 0; i < list.kernel_count; ++i) {
    const bp_kernel& kernel = *list.kernels[i];
    context.expect(kernel.op.len > 0, "an operator");
    for (uint32_t m = 0; m < kernel.dtype_mask_count; ++m) {
      context.expect(kernel.dtype_masks[m] != 0 && (kernel.dtype_masks[m] & ~kKnown) == 0,
                     "known dtypes, at least one: " + text_of(kernel.name));
    }
  }
}

void kernel_list_writes_at_most(AbiContext& context, uint32_t bytes) {
  const GuardedMemory memory(bytes);
  auto* list = reinterpret_cast<bp_kernel_list*>(memory.data());
  list->struct_size = bytes;
  context.expect_ok("kernel_list", context.kernel().kernel_list(context.device(), list));
  context.expect_equal("struct_size afterwards", list->struct_size, bytes);
}

}  // namespace

void add_props_cases(CaseList* list) {
  const auto add = [list](const char* name, std::string_view proves, void (*run)(AbiContext&)) {
    list->add({.id = std::string("L0.") + name, .proves = proves, .abi = run});
  };
  constexpr std::string_view kStable = "The answer never changes while the device is open.";
  add("props.never_change", kStable, props_never_change);
  add("props.same_when_opened_again", "A device is what it is, however often it is opened.",
      props_are_the_same_when_opened_again);
  add("props.leave_what_they_do_not_know", "The side that allocates a struct sizes it.",
      props_leave_what_they_do_not_know);
  add("props.execution_is_known", "execution is QUEUED or INLINE.", execution_is_known);
  add("props.alignment_is_a_power_of_two", "alignment_bytes is a power of two, or 0.",
      alignment_is_a_power_of_two);
  add("props.host_memory_has_addresses", "HOST_MEMORY is ADDRESS and more.",
      host_memory_has_addresses);
  add("props.limits_fit_together", "The largest mem_alloc is no larger than the memory.",
      limits_fit_together);
  add("props.texts_are_there", "name, vendor and driver are texts, and none is empty.",
      texts_are_there);
  add("kernels.never_change", kStable, kernels_never_change);
  add("kernels.are_well_formed", "Descriptors are complete, and each name is unique.",
      kernels_are_well_formed);
  add("kernels.are_static_data", "Descriptors are static data of the plugin.",
      kernels_are_static_data);
  add("kernels.name_known_dtypes", "dtype masks are sets of dtypes.", kernels_name_known_dtypes);
  for (uint32_t bytes = 8; bytes <= sizeof(bp_device_props); bytes += 8) {
    list->add({.id = words("L0.props.write_at_most.", bytes),
               .proves = "The plugin writes at most struct_size bytes.",
               .abi = [=](AbiContext& context) { props_write_at_most(context, bytes); }});
  }
  for (uint32_t bytes = 8; bytes <= sizeof(bp_kernel_list); bytes += 8) {
    list->add({.id = words("L0.kernels.list_writes_at_most.", bytes),
               .proves = "The plugin writes at most struct_size bytes.",
               .abi = [=](AbiContext& context) { kernel_list_writes_at_most(context, bytes); }});
  }
}

}  // namespace bp::conform
