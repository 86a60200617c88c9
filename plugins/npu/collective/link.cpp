// SPDX-License-Identifier: Apache-2.0
//
// See link.hpp.
#include "collective/link.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <random>
#include <sstream>

namespace bp::npu {
namespace {

/// The beginning of a small file; "" where there is none.
template <size_t kBytes>
std::array<char, kBytes> read_start(const char* path) {
  std::array<char, kBytes> text{};
  const Descriptor file(open(path, O_RDONLY | O_CLOEXEC));
  if (file.is_open() && read(file.number(), text.data(), kBytes - 1) < 0) text[0] = '\0';
  return text;
}

/// 0: not known.
uint64_t start_time_of(int32_t process) {
  constexpr int kFieldsBefore = 20;  // from the name on, which may hold anything, also spaces
  const std::string path = "/proc/" + std::to_string(process) + "/stat";
  const auto text = read_start<1024>(path.c_str());
  const char* at = std::strrchr(text.data(), ')');
  for (int i = 0; i < kFieldsBefore && at != nullptr; ++i) at = std::strchr(at + 1, ' ');
  return at == nullptr ? 0 : std::strtoull(at, nullptr, 10);
}

std::string target_of(const char* link) {
  std::array<char, 64> name{};
  return readlink(link, name.data(), name.size() - 1) > 0 ? name.data() : "";
}

}  // namespace

ProcessMark this_process() { return {getpid(), start_time_of(getpid())}; }

bool has_died(const ProcessMark& process) {
  if (process.number == getpid()) return false;
  if (process.number <= 0) return true;  // no process writes that
  // By its number: the function of that name came to glibc later.
  const Descriptor held(static_cast<int>(syscall(SYS_pidfd_open, process.number, 0)));
  if (!held.is_open()) return kill(process.number, 0) != 0 && errno == ESRCH;
  const uint64_t start_time = start_time_of(process.number);
  const bool is_known = start_time != 0 && process.start_time != 0;
  if (is_known && start_time != process.start_time) return true;
  pollfd end{held.number(), POLLIN, 0};
  return poll(&end, 1, 0) > 0;
}

uint64_t random_word() {
  std::random_device random;
  return (uint64_t{random()} << 32) | random();
}

std::string link_domain(uint32_t layout_version) {
  const auto boot = read_start<64>("/proc/sys/kernel/random/boot_id");
  const std::string processes = target_of("/proc/self/ns/pid");
  const std::string users = target_of("/proc/self/ns/user");
  std::ostringstream words;
  words << "backplane.npu " << layout_version << ", user " << geteuid() << ", " << users << ", "
        << processes << ", boot " << boot.data();
  const bool is_open = prctl(PR_GET_DUMPABLE) == 1;  // else not even the user may look in
  if (!is_open || processes.empty() || users.empty() || boot[0] == '\0') {
    static const uint64_t kOwn = random_word();
    words << ", process " << std::hex << kOwn;
  }
  return words.str();
}

}  // namespace bp::npu
