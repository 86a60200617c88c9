// SPDX-License-Identifier: Apache-2.0
//
// Level 0: the library file and its one function (design 2.1, law 6).
#include <set>

#include "sdk/conform/abi.hpp"

namespace bp::conform {
namespace {

DynamicSection dynamic_section(AbiContext& context) {
  const auto section = read_dynamic_section(context.target().library_path);
  context.require(section.ok(), "a shared library that can be read");
  return *section;
}

void exports_only_the_entry(AbiContext& context) {
  const DynamicSection section = dynamic_section(context);
  const std::set<std::string> exported(section.exported.begin(), section.exported.end());
  for (const std::string& name : exported) {
    context.expect_equal("an exported symbol", name, "bp_plugin_entry");
  }
  context.expect(exported.contains("bp_plugin_entry"), "bp_plugin_entry among the exports");
}

void imports_nothing_of_the_core(AbiContext& context) {
  const DynamicSection section = dynamic_section(context);
  context.expect(!section.imported.empty(), "imported symbols");
  for (const std::string& name : section.imported) {
    const bool of_core = name.starts_with("bp_") || name.starts_with("bpa_") ||
                         name.starts_with("_ZN2bp") || name.starts_with("_ZNK2bp");
    context.expect(!of_core, "no import from the core; found " + name);
  }
}

void imports_none_of(AbiContext& context, const std::set<std::string>& forbidden) {
  for (const std::string& name : dynamic_section(context).imported) {
    context.expect(!forbidden.contains(name), "no import of " + name);
  }
}

void imports_no_process_end(AbiContext& context) {
  imports_none_of(context, {"exit", "_exit", "_Exit", "quick_exit"});
}

void imports_no_signal_handling(AbiContext& context) {
  imports_none_of(context, {"signal", "sigaction", "__sysv_signal", "bsd_signal", "sigset"});
}

void registers_no_fork_handlers(AbiContext& context) {
  imports_none_of(context, {"__register_atfork", "pthread_atfork"});
}

void search_paths_are_relative(AbiContext& context) {
  const DynamicSection section = dynamic_section(context);
  for (const std::string& path : section.search_paths) {
    context.expect(path.starts_with("$ORIGIN"), "search paths from $ORIGIN on; found " + path);
  }
  context.expect(true, "a dynamic section");
}

void null_out(AbiContext& context) {
  context.expect_status("bp_plugin_entry(abi, NULL)", context.entry(BP_ABI_CURRENT, nullptr),
                        BP_INVALID_ARGUMENT);
}

void core_before_every_release(AbiContext& context) {
  bp_plugin plugin{};
  plugin.struct_size = sizeof(plugin);
  context.expect_status("bp_plugin_entry for ABI 0.0", context.entry(0, &plugin), BP_INCOMPATIBLE);
}

void newer_core(AbiContext& context, uint32_t core_abi) {
  bp_plugin plugin{};
  plugin.struct_size = sizeof(plugin);
  context.expect_ok("bp_plugin_entry for a newer core", context.entry(core_abi, &plugin));
  context.expect(plugin.root != nullptr, "a root table for a newer core");
}

void expect_same(AbiContext& context, const bp_plugin& a, const bp_plugin& b) {
  context.expect_equal("flags", a.flags, b.flags);
  context.expect(a.root == b.root && a.device == b.device && a.memory == b.memory &&
                     a.stream == b.stream && a.kernel == b.kernel && a.extensions == b.extensions,
                 "the same tables each time");
  context.expect_equal("extension_count", a.extension_count, b.extension_count);
}

void twice_is_the_same(AbiContext& context) {
  bp_plugin again{};
  again.struct_size = sizeof(again);
  const bp_plugin& first = context.plugin();
  context.require_ok("the second bp_plugin_entry", context.entry(BP_ABI_CURRENT, &again));
  expect_same(context, again, first);
}

void from_another_thread(AbiContext& context) {
  const bp_plugin& first = context.plugin();
  bp_plugin other{};
  other.struct_size = sizeof(other);
  int32_t status = BP_INTERNAL;
  std::thread thread([&] { status = context.entry(BP_ABI_CURRENT, &other); });
  thread.join();
  context.require_ok("bp_plugin_entry on another thread", status);
  expect_same(context, other, first);
}

/// A shorter bp_plugin, as an older core has it, right before an inaccessible page.
void writes_at_most(AbiContext& context, uint32_t bytes) {
  const GuardedMemory memory(bytes);
  auto* plugin = reinterpret_cast<bp_plugin*>(memory.data());
  plugin->struct_size = bytes;
  const int32_t status = context.entry(BP_ABI_CURRENT, plugin);
  context.expect(status == BP_OK || status == BP_INCOMPATIBLE,
                 "OK or INCOMPATIBLE; found " + status_words(status));
  context.expect_equal("struct_size afterwards", plugin->struct_size, bytes);
}

/// A longer one, as a newer core has it: what the plugin doesn't know stays zero.
void leaves_what_it_does_not_know(AbiContext& context) {
  struct Longer {
    bp_plugin known;
    uint64_t unknown[8];
  } longer{};
  longer.known.struct_size = sizeof(longer);
  context.require_ok("bp_plugin_entry of a longer struct",
                     context.entry(BP_ABI_CURRENT, &longer.known));
  context.expect_equal("struct_size afterwards", longer.known.struct_size, sizeof(longer));
  for (const uint64_t word : longer.unknown) context.expect_equal("a later member", word, 0U);
}

void expect_extensions(AbiContext& context) {
  const bp_plugin& plugin = context.plugin();
  context.expect(plugin.extension_count == 0 || plugin.extensions != nullptr,
                 "a list where extension_count is not 0");
  std::set<std::string> names;
  for (uint64_t i = 0; i < plugin.extension_count; ++i) {
    const bp_extension* extension = plugin.extensions[i];
    context.require(extension != nullptr, "extensions that are not NULL");
    context.expect(
        extension->struct_size >= sizeof(bp_extension) && extension->struct_size % 8 == 0,
        words("a struct_size of extension ", i, " that is one; found ", extension->struct_size));
    const std::string name(extension->name.ptr, extension->name.len);
    context.expect(name.find('.') != std::string::npos, "vendor.feature; found " + name);
    context.expect(names.insert(name).second, "each name once; found again " + name);
    context.expect(extension->table != nullptr, "a table of " + name);
  }
}

}  // namespace

void add_entry_cases(CaseList* list) {
  const auto add = [list](const char* name, std::string_view proves, void (*run)(AbiContext&)) {
    list->add({.id = std::string("L0.entry.") + name, .proves = proves, .abi = run});
  };
  add("exports_only_the_entry", "One exported symbol, bp_plugin_entry.", exports_only_the_entry);
  add("imports_nothing_of_the_core", "Plugins import no symbol from the core.",
      imports_nothing_of_the_core);
  add("imports_no_process_end", "A plugin never exits.", imports_no_process_end);
  add("imports_no_signal_handling", "A plugin never installs signal handlers.",
      imports_no_signal_handling);
  add("registers_no_fork_handlers", "A plugin leaves fork() alone.", registers_no_fork_handlers);
  add("search_paths_are_relative", "No absolute RPATH; $ORIGIN is fine.",
      search_paths_are_relative);
  add("null_out", "A pointer that must not be NULL is BP_INVALID_ARGUMENT.", null_out);
  add("core_before_every_release", "BP_INCOMPATIBLE if the plugin cannot serve that core.",
      core_before_every_release);
  add("twice_is_the_same", "The entry only fills pointers to static data.", twice_is_the_same);
  add("from_another_thread", "The entry only fills pointers to static data.", from_another_thread);
  add("leaves_what_it_does_not_know", "The side that allocates a struct sizes it.",
      leaves_what_it_does_not_know);
  add("extensions_are_well_formed", "Extensions are named vendor.feature and have a table.",
      expect_extensions);
  for (const uint32_t core_abi : {BP_ABI_VERSION(0, 99), BP_ABI_VERSION(1, 0), UINT32_MAX}) {
    list->add({.id = words("L0.entry.newer_core.", core_abi >> 16, "_", core_abi & 0xffff),
               .proves = "An old plugin loads in a new core.",
               .abi = [=](AbiContext& context) { newer_core(context, core_abi); }});
  }
  for (uint32_t bytes = 8; bytes <= sizeof(bp_plugin); bytes += 8) {
    list->add({.id = words("L0.entry.writes_at_most.", bytes),
               .proves = "The plugin writes at most struct_size bytes.",
               .abi = [=](AbiContext& context) { writes_at_most(context, bytes); }});
  }
}

}  // namespace bp::conform
