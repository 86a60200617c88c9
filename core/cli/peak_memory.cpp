// SPDX-License-Identifier: Apache-2.0
//
// getrusage() would also tell of the process that started this one, as it was between fork and
// exec.
#include "core/cli/peak_memory.hpp"

#include <charconv>
#include <string>
#include <string_view>

#include "core/base/mapped_file.hpp"

namespace bp::cli {

uint64_t peak_memory_bytes() {
  constexpr size_t kMostBytes = 65536;
  constexpr std::string_view kKey = "VmHWM:";
  const auto status = read_file("/proc/self/status", kMostBytes);
  if (!status.ok()) return 0;
  const size_t key = status->find(kKey);
  const size_t digits = status->find_first_of("0123456789", key);
  if (key == std::string::npos || digits == std::string::npos) return 0;
  uint64_t kib = 0;
  std::from_chars(status->data() + digits, status->data() + status->size(), kib);
  return kib * 1024;
}

}  // namespace bp::cli
