// SPDX-License-Identifier: Apache-2.0
//
// Linux's answers: the affinity mask for the cores, sysconf for the memory and /proc/cpuinfo for
// the names, which has no name lines on some architectures.
#include "machine.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string_view>

namespace bp::cpu {
namespace {

// "model name\t: AMD EPYC" -> "AMD EPYC", where the line's key is `key`.
bool take_value(std::string_view line, std::string_view key, std::string* out_value) {
  if (!line.starts_with(key) || !out_value->empty()) return false;
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return false;
  const size_t first = line.find_first_not_of(" \t", colon + 1);
  if (first != std::string_view::npos) *out_value = line.substr(first);
  return true;
}

}  // namespace

Machine read_machine() {
  Machine machine;
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page_bytes > 0) {
    machine.memory_bytes = static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes);
  }
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line) && !line.empty();) {
    if (!take_value(line, "model name", &machine.name)) {
      take_value(line, "vendor_id", &machine.vendor);
    }
  }
  if (machine.name.empty()) machine.name = "processor";
  return machine;
}

int usable_core_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  // More cores than cpu_set_t holds: the mask cannot be read with the fixed size.
  return static_cast<int>(std::clamp(sysconf(_SC_NPROCESSORS_ONLN), 1L, 1024L));
}

}  // namespace bp::cpu
