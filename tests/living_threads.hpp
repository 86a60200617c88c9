// SPDX-License-Identifier: Apache-2.0
//
// The threads of this process, for tests that look for threads left behind. /proc/self/task lists a
// thread that has been joined until the kernel has taken it off, which on a busy machine takes as
// long as it gets no processor.
#ifndef BACKPLANE_TESTS_LIVING_THREADS_HPP
#define BACKPLANE_TESTS_LIVING_THREADS_HPP

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace bp::tests {

/// Whether the thread, of whose /proc/self/task/ID/stat this is the text, has begun to exit: which
/// it has before a join returns.
inline bool is_exiting(const std::string& stat) {
  constexpr unsigned kExiting = 0x4;  // PF_EXITING of the kernel
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return true;  // it has gone
  // The state, then parent, group, session, terminal and that one's group.
  std::istringstream rest(stat.substr(name_end + 1));
  std::string skipped;
  for (int i = 0; i < 6; ++i) rest >> skipped;
  unsigned flags = 0;
  rest >> flags;
  return (flags & kExiting) != 0;
}

/// By number, without those that have begun to exit.
inline std::set<std::string> living_threads() {
  std::set<std::string> found;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string stat;
    std::getline(std::ifstream(task.path() / "stat"), stat, '\0');
    if (!is_exiting(stat)) found.insert(task.path().filename());
  }
  return found;
}

}  // namespace bp::tests

#endif
