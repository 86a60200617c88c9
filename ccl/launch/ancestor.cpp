// SPDX-License-Identifier: Apache-2.0
#include "ccl/launch/ancestor.hpp"

#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <sstream>

namespace bp::ccl {
namespace {

std::string proc_file(int64_t process, const char* name) {
  std::ifstream file("/proc/" + std::to_string(process) + "/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

struct ProcessStat {
  int64_t parent = 0;  // 0: not known
  std::string began;   // in ticks since the system began
};

ProcessStat stat_of(int64_t process) {
  const std::string text = proc_file(process, "stat");
  ProcessStat found;
  const size_t name_end = text.rfind(')');  // a program's name may have any character
  if (name_end == std::string::npos) return found;
  std::istringstream fields(text.substr(name_end + 1));
  std::string state;
  fields >> state >> found.parent;
  constexpr int kFieldsBetween = 17;  // from the parent, the 4th, to the 22nd
  std::string skipped;
  for (int i = 0; i < kFieldsBetween; ++i) fields >> skipped;
  fields >> found.began;
  if (!fields) return {};
  return found;
}

}  // namespace

Result<std::string> nearest_ancestor_without(std::string_view variable) {
  const std::string wanted = std::string(1, '\0') + std::string(variable) + "=";
  for (int64_t process = ::getppid(); process > 0;) {
    const ProcessStat stat = stat_of(process);
    if (stat.began.empty()) break;
    const std::string environment = std::string(1, '\0') + proc_file(process, "environ");
    if (environment.find(wanted) == std::string::npos) {
      return std::to_string(process) + "-" + stat.began;
    }
    process = stat.parent;
  }
  return Status(BP_UNAVAILABLE,
                "cannot find in /proc which process started the ranks of this host; set "
                "BACKPLANE_CCL_JOB to a name of the job");
}

}  // namespace bp::ccl
