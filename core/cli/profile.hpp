// SPDX-License-Identifier: Apache-2.0
//
// What a run spends its time on: each kernel's share, from runs that wait after every step.
#ifndef BACKPLANE_CORE_CLI_PROFILE_HPP
#define BACKPLANE_CORE_CLI_PROFILE_HPP

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/cli/json.hpp"
#include "core/execute/session.hpp"

namespace bp::cli {

struct ProfileRow {
  std::string kernel;       // "copy": between devices; "between steps": the rest of a run
  uint64_t call_count = 0;  // in one run
  uint64_t ns = 0;          // of one run, the mean
};

/// The largest first. Errors: those of the runs.
Result<std::vector<ProfileRow>> profile(Session& session, std::span<const NamedTensor> inputs);

void write_profile(std::span<const ProfileRow> rows, JsonWriter* out_json);
std::string profile_text(std::span<const ProfileRow> rows);

}  // namespace bp::cli

#endif
