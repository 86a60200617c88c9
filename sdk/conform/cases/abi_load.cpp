// SPDX-License-Identifier: Apache-2.0
//
// Level 0: what mapping a plugin and starting an instance may not change in its process.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "sdk/conform/abi.hpp"

namespace bp::conform {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAspects[] = {"signal handlers", "signal mask",       "locale",
                                    "umask",           "working directory", "environment",
                                    "resource limits", "floating point"};

void expect_kept(AbiContext& context, const char* aspect, const std::string& before) {
  context.expect_equal(aspect, surroundings().at(aspect), before);
}

void load_keeps(AbiContext& context, const char* aspect) {
  const std::string before = surroundings().at(aspect);
  context.plugin();
  expect_kept(context, aspect, before);
}

/// Threads of a driver have settings of their own; the calling thread's and the process's stay.
void use_keeps(AbiContext& context, const char* aspect) {
  const std::string before = surroundings().at(aspect);
  expect_working(context, context.device(), "in between");
  context.close();
  expect_kept(context, aspect, before);
}

void load_starts_no_thread(AbiContext& context) {
  const Usage before = current_usage();
  context.plugin();
  context.expect_equal("threads", current_usage().thread_count, before.thread_count);
}

void load_opens_no_file(AbiContext& context) {
  const Usage before = current_usage();
  context.plugin();
  context.expect_equal("open files", current_usage().file_count, before.file_count);
}

void under_two_names_it_is_one(AbiContext& context) {
  const fs::path alias = fs::temp_directory_path() / words("bp_alias_", process_number(), ".so");
  std::error_code error;
  fs::remove(alias, error);
  fs::create_symlink(context.target().library_path, alias, error);
  context.require(!error, "a symbolic link that can be made");
  const bp_plugin& first = context.plugin();
  const auto again = Library::open(alias);
  fs::remove(alias, error);
  context.require(again.ok(), "a library that can be mapped by another name");
  context.expect(*again == context.library(), "the same library under both names");
  auto* entry =
      reinterpret_cast<int32_t (*)(uint32_t, bp_plugin*)>(again->symbol("bp_plugin_entry"));
  bp_plugin second{};
  second.struct_size = sizeof(second);
  context.require_ok("bp_plugin_entry by the other name", entry(BP_ABI_CURRENT, &second));
  context.expect(second.root == first.root, "the same tables under both names");
}

/// As two installations side by side: no symbol of one may be taken for the other's.
void two_copies_do_not_mix(AbiContext& context) {
  const fs::path library = context.target().library_path;
  std::error_code error;
  // Not beside the plugin, where others would find it; with all that lies there, since a library
  // looks for its own beside it.
  const fs::path folder =
      fs::temp_directory_path(error) / words("bp_conform_copy_", process_number());
  const fs::path copy = folder / library.filename();
  context.require(fs::create_directory(folder, error), "a new folder among the temporary ones");
  for (const fs::directory_entry& entry : fs::directory_iterator(library.parent_path())) {
    if (!entry.is_directory()) fs::copy(entry.path(), folder / entry.path().filename(), error);
  }
  const auto opened = Library::open(copy);
  fs::remove_all(folder, error);
  context.require(opened.ok(), "a copy that can be mapped beside the plugin");
  context.expect(!(*opened == context.library()), "two libraries");
  auto* entry =
      reinterpret_cast<int32_t (*)(uint32_t, bp_plugin*)>(opened->symbol("bp_plugin_entry"));
  bp_plugin second{};
  second.struct_size = sizeof(second);
  context.require_ok("bp_plugin_entry of the copy", entry(BP_ABI_CURRENT, &second));
  context.expect(second.root != context.plugin().root, "tables of its own");
  expect_working(context, context.device(), "beside a copy of the plugin");
}

void manifest_says_what_is_built(AbiContext& context) {
  const Manifest& manifest = context.target().manifest;
  context.expect(manifest.abi_min <= manifest.abi_built, "abi_min at most abi_built");
  context.expect(manifest.abi_built <= BP_ABI_CURRENT, "abi_built at most this kit's");
  bp_plugin plugin{};
  plugin.struct_size = sizeof(plugin);
  context.expect_ok("bp_plugin_entry for a core of abi_min",
                    context.entry(manifest.abi_min, &plugin));
  context.expect_ok("bp_plugin_entry for a core of abi_built",
                    context.entry(manifest.abi_built, &plugin));
}

std::string as_id(std::string text) {
  std::replace(text.begin(), text.end(), ' ', '_');
  return text;
}

}  // namespace

void add_load_cases(CaseList* list) {
  for (const char* aspect : kAspects) {
    list->add({.id = "L0.load.keeps_" + as_id(aspect),
               .proves = "No static constructor has effects, nor has the entry.",
               .abi = [=](AbiContext& context) { load_keeps(context, aspect); }});
    list->add({.id = "L0.use.keeps_" + as_id(aspect),
               .proves = "A plugin leaves the process round it as it is.",
               .abi = [=](AbiContext& context) { use_keeps(context, aspect); }});
  }
  const auto add = [list](const char* name, std::string_view proves, void (*run)(AbiContext&)) {
    list->add({.id = std::string("L0.load.") + name, .proves = proves, .abi = run});
  };
  add("starts_no_thread", "The entry starts no thread.", load_starts_no_thread);
  add("opens_no_file", "The entry touches no device.", load_opens_no_file);
  add("under_two_names_it_is_one", "A library is mapped once, whatever path names it.",
      under_two_names_it_is_one);
  add("two_copies_do_not_mix", "Hidden visibility: plugins share no symbol by accident.",
      two_copies_do_not_mix);
  add("manifest_says_what_is_built", "The pair loads within the manifest's range.",
      manifest_says_what_is_built);
}

}  // namespace bp::conform
