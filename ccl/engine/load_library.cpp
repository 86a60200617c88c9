// SPDX-License-Identifier: Apache-2.0
//
// From a name to a table: the steps of a plugin's load that hold for an engine's library too. It
// has no manifest, since it is of this release or refused: the number of its table's form is read
// before any of its functions is called.
#include "ccl/engine/load_library.hpp"

#include <dlfcn.h>

#include <filesystem>
#include <optional>
#include <system_error>

#include "core/base/folder.hpp"
#include "core/base/foreign_text.hpp"
#include "core/base/log.hpp"
#include "core/plugin/load_steps.hpp"
#include "core/plugin/process_state.hpp"

namespace bp::ccl {
namespace {

namespace fs = std::filesystem;

using OpenFunction = int32_t (*)(const bp_engine_host*, bp_engine_words*, const bp_engine_api**);

struct Candidate {
  std::string entry;  // real path of the search path's folder
  std::string path;
};

void log_line(uint32_t level, const char* text) {
  [[maybe_unused]] const Status logged = contain([&] { log(level, foreign_text(text)); });
}
constexpr bp_engine_host kHost = {.log = log_line};

std::string file_name(std::string_view engine) {
  return "backplane_engine_" + std::string(engine) + ".so";
}

/// In the order of the search, as plugins are found (core/plugin/discover.cpp).
std::vector<Candidate> find_candidates(const LibraryEngineArgs& args) {
  std::vector<Candidate> candidates;
  for (const std::string& entry : args.search_path) {
    std::error_code error;
    const fs::path real = fs::canonical(entry, error);
    if (error || !fs::path(entry).is_absolute()) continue;  // the Runtime has told of it
    std::vector<fs::path> folders = {real};
    const auto names = names_in_folder(real);
    for (size_t i = 0; names.ok() && i < names->size(); ++i) folders.push_back(real / (*names)[i]);
    for (const fs::path& folder : folders) {
      const fs::path path = folder / file_name(args.name);
      if (fs::exists(path, error)) candidates.push_back({real, path});
    }
  }
  return candidates;
}

bool is_mapped(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (library != nullptr) dlclose(library);
  return library != nullptr;
}

bool is_whole(const bp_engine_api& api) {
  return api.name != nullptr && api.create != nullptr && api.destroy != nullptr &&
         api.address != nullptr && api.connect != nullptr && api.send != nullptr &&
         api.receive != nullptr && api.drop != nullptr && api.cancel != nullptr &&
         api.state_of != nullptr && api.has_unsent != nullptr && api.progress != nullptr &&
         api.wait != nullptr && api.wake != nullptr;
}

Result<const bp_engine_api*> open_candidate(const Candidate& candidate) {
  BP_TRY_ASSIGN(const std::string path,
                check_trust(candidate.path, candidate.entry, process_is_privileged()));
  BP_TRY_ASSIGN(const FileInfo file, file_info(path));
  if (!file.is_regular) return fail(BP_UNAVAILABLE, "{} is not a regular file", path);
  BP_TRY(check_library_complete(path, file.size_bytes));
  BP_TRY(check_runtimes(path, core_build_kind().sanitizer));
  // What belongs to the process is touched by the first opening alone.
  std::optional<KeepProcessState> keep;
  if (!is_mapped(path)) keep.emplace();
  constexpr const char* kSymbols[] = {"bp_engine_abi", "bp_engine_open"};
  BP_TRY_ASSIGN(const std::vector<void*> symbols, map_library(path, file, kSymbols));
  const uint32_t abi = *static_cast<const uint32_t*>(symbols[0]);
  if (abi != BP_ENGINE_ABI) {
    return fail(BP_INCOMPATIBLE,
                "{} has form {} of an engine's table, this libbackplane has {}: expected both of "
                "one release",
                path, abi, BP_ENGINE_ABI);
  }
  bp_engine_words words{};
  const bp_engine_api* api = nullptr;
  const int32_t status = reinterpret_cast<OpenFunction>(symbols[1])(&kHost, &words, &api);
  words.text[sizeof(words.text) - 1] = '\0';
  if (status != BP_OK) return fail(known_status(status), "{}: {}", path, foreign_text(words.text));
  if (api == nullptr) return fail(BP_INTERNAL, "{} gave no table", path);
  if (!is_whole(*api)) return fail(BP_INTERNAL, "{} gave a table with a NULL in it", path);
  return api;
}

std::string folders_of(const LibraryEngineArgs& args) {
  std::string folders;
  for (const std::string& entry : args.search_path)
    folders += (folders.empty() ? "" : ", ") + entry;
  return folders.empty() ? "no folder" : folders;
}

}  // namespace

Result<const bp_engine_api*> load_engine_library(const LibraryEngineArgs& args) {
  Status refused;
  for (const Candidate& candidate : find_candidates(args)) {
    auto api = contain([&] { return open_candidate(candidate); });
    if (api.ok()) return api;
    log(BP_LOG_WARNING, api.status().with_prefix("engine " + args.name).to_string());
    if (refused.ok()) refused = api.status();
  }
  if (!refused.ok()) return refused;
  return fail(BP_UNAVAILABLE,
              "found no {} in the folders where plugins are searched, nor one level below: {} "
              "(BACKPLANE_PLUGIN_PATH)",
              file_name(args.name), folders_of(args));
}

}  // namespace bp::ccl
