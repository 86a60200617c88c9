// SPDX-License-Identifier: Apache-2.0
//
// Whatever bytes: a model is read, planned and its weights put on cpu:0, or refused with words.
// What libFuzzer calls; replay.cpp calls it for files.
#include <cstdio>
#include <cstdlib>
#include <iterator>

#include "backplane/backplane.h"
#include "backplane/host.h"
#include "tests/fuzz/fuzzer.hpp"

namespace {

// A model may ask for more than a machine has, and is refused then.
constexpr uint64_t kMemoryLimitBytes = uint64_t{256} << 20;

void stop(const char* what) {
  std::fprintf(stderr, "%s: %s\n", what, bpa_last_error());
  std::abort();
}

/// Opened at the first model, and for the rest of the process.
bpa_device* open_device(bpa_runtime** out_runtime) {
  static constexpr const char* kNames[] = {"BACKPLANE_FALLBACK", "BACKPLANE_PLUGINS",
                                           "cpu.threads"};
  static constexpr const char* kValues[] = {"allow", "cpu", "1"};
  if (bpa_log_set_level(BP_LOG_ERROR) != BP_OK) stop("the log level");
  bpa_runtime_args args{};
  args.struct_size = sizeof(args);
  const char* plugins = std::getenv("BP_FUZZ_PLUGINS");
  args.install_dir = plugins != nullptr ? plugins : BP_PLUGIN_DIR;
  args.option_names = kNames;
  args.option_values = kValues;
  args.option_count = std::size(kNames);
  if (bpa_runtime_create(&args, out_runtime) != BP_OK) stop("the runtime");
  bpa_device* device = nullptr;
  if (bpa_runtime_find_device(*out_runtime, "cpu:0", &device) != BP_OK) stop("cpu:0");
  return device;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  static bpa_runtime* runtime = nullptr;
  static bpa_device* const device = open_device(&runtime);
  bpa_session_args args{};
  args.struct_size = sizeof(args);
  args.device = device;
  args.memory_limit_bytes = kMemoryLimitBytes;
  bpa_session* session = nullptr;
  const bpa_status status =
      bpa_session_create(runtime, data, bytes, nullptr, nullptr, &args, &session);
  if (status != BP_OK && (session != nullptr || *bpa_last_error() == '\0')) {
    stop("an error without words, or with a session");
  }
  if (status == BP_INTERNAL) stop("an error of ours");
  bpa_session_release(session);
  return 0;
}
