// SPDX-License-Identifier: Apache-2.0
//
// Steps 5 and 6: maps the admitted library and calls its one symbol. It stays mapped for ever: code
// and texts of a plugin may be referred to after its shutdown.
#include <dlfcn.h>

#include <boost/dll/shared_library.hpp>
#include <system_error>

#include "core/base/foreign_text.hpp"
#include "core/plugin/load_steps.hpp"

namespace bp {
namespace {

/// The system hands out what it has mapped under a name before, even if another file has that name
/// now. Through a detour that is different for each file, it looks at the file again; a file that
/// is mapped already it knows by its inode.
std::string name_to_open(const std::string& path, const FileInfo& file) {
  void* const mapped = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (mapped == nullptr) return path;
  dlclose(mapped);
  const auto* const bytes = reinterpret_cast<const char*>(file.identity.data());
  size_t hash = std::hash<std::string_view>()({bytes, sizeof(file.identity)});
  std::string name = path;
  const size_t end = path.rfind('/') + 1;
  for (; hash != 0; hash >>= 1) name.insert(end, (hash & 1) != 0 ? "./" : "/");
  return name;
}

struct EntryCall {
  int32_t (*entry)(uint32_t core_abi, bp_plugin* out_plugin);
  uint32_t core_abi;
  bp_plugin offered;
  bp_status operator()() { return entry(core_abi, &offered); }
};

}  // namespace

// A manifest may say less than the file: the runtime of a sanitizer ends a process that was started
// without it.
Status check_runtimes(const std::string& path, std::string_view own_sanitizer) {
  const std::pair<std::string_view, std::string_view> runtimes[] = {
      {"libasan.", "address"}, {"libubsan.", "address"},  {"libtsan.", "thread"},
      {"liblsan.", "leak"},    {"libhwasan.", "address"}, {"libclang_rt.", ""}};
  BP_TRY_ASSIGN(const std::vector<std::string> names, needed_libraries(path));
  for (const std::string& name : names) {
    for (const auto& [runtime, sanitizer] : runtimes) {
      const bool fits =
          own_sanitizer != "none" && (sanitizer == own_sanitizer || sanitizer.empty());
      if (!name.starts_with(runtime) || fits) continue;
      return fail(BP_INCOMPATIBLE, "the plugin needs {}, and this core has sanitizer {}", name,
                  own_sanitizer);
    }
  }
  return {};
}

Result<std::vector<void*>> map_library(const std::string& path, const FileInfo& file,
                                       std::span<const char* const> symbols) {
  try {
    // RTLD_NODELETE makes the close in the destructor one that unmaps nothing.
    constexpr int kMode = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
    boost::dll::shared_library library(name_to_open(path, file),
                                       static_cast<boost::dll::load_mode::type>(kMode));
    BP_TRY_ASSIGN(const FileInfo now, file_info(path));
    if (now.identity != file.identity) {
      return fail(BP_INVALID_ARGUMENT, "{} was replaced between its check and its opening", path);
    }
    std::vector<void*> found;
    for (const char* const symbol : symbols) found.push_back(&library.get<char>(symbol));
    return found;
  } catch (const std::system_error& error) {
    // "...load() failed (dlerror system message: WORDS): Bad file descriptor": WORDS tell.
    constexpr std::string_view kBefore = "dlerror system message: ";
    std::string_view words = error.what();
    const size_t begin = words.find(kBefore);
    if (begin != std::string_view::npos) {
      words = words.substr(begin + kBefore.size(), words.rfind("): ") - begin - kBefore.size());
    }
    return fail(BP_UNAVAILABLE, "{}", foreign_text(words));
  }
}

Status open_library(Attempt* attempt) {
  const std::string& path = attempt->parts.path;
  BP_TRY(check_library_complete(path, attempt->library_file.size_bytes));
  BP_TRY(check_runtimes(path, attempt->options.build.sanitizer));
  LoadedPlugin::Parts& parts = attempt->parts;
  parts.gate = std::make_shared<CallGate>("plugin " + parts.manifest.id);
  parts.host = HostContext::lend(parts.manifest.id);
  parts.gate->report_to(HostContext::api(), parts.host);
  parts.gate->set_timeout(parts.call_timeout);
  parts.gate->set_logs_at_once();
  parts.gate->watch();
  // Its static constructors run under the loader's lock, so they cannot be abandoned (ADR 21).
  const WatchedCall watched(*parts.gate, "opening its library", nullptr);
  constexpr const char* kSymbols[] = {"bp_plugin_entry"};
  BP_TRY_ASSIGN(const std::vector<void*> found, map_library(path, attempt->library_file, kSymbols));
  attempt->entry = reinterpret_cast<int32_t (*)(uint32_t, bp_plugin*)>(found[0]);
  return {};
}

Status call_entry(Attempt* attempt) {
  LoadedPlugin::Parts& parts = attempt->parts;
  EntryCall call{attempt->entry, attempt->options.abi_max, {}};
  call.offered.struct_size = sizeof(bp_plugin);
  const bp_status code = parts.gate->control(Slot::kBpPluginEntry, &call);
  attempt->offered = call.offered;
  if (code == BP_OK) return {};
  std::optional<PluginReport> report = parts.host->take_report();
  // The entry function has no host to speak to: words, if there are some, are the gate's.
  if (!report) {
    report =
        PluginReport{.status = code, .raw_status = code, .message = "the plugin refused this core"};
  }
  return HostContext::error_of(code, parts.gate->call_name(Slot::kBpPluginEntry), report);
}

}  // namespace bp
