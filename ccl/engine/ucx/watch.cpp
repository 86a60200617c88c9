// SPDX-License-Identifier: Apache-2.0
#include "ccl/engine/ucx/watch.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "ccl/engine/ucx/address.hpp"
#include "ccl/engine/ucx/ucp.hpp"

namespace bp_ucx {
namespace {

// Tags of what is watched; those of processes are their peers.
constexpr uint64_t kMessages = uint64_t{1} << 32;
constexpr uint64_t kWake = uint64_t{2} << 32;

Refusal refusal(const std::string& what) {
  return Refusal(BP_UNAVAILABLE, what + ": " + std::strerror(errno));
}

}  // namespace

Watch::Watch() {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  wake_ = epoll_ < 0 ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_ < 0) {
    const Refusal why = refusal("descriptors to wait with");
    if (epoll_ >= 0) close(epoll_);
    throw why;
  }
  try {
    add(wake_, kWake);
  } catch (...) {
    close(wake_);
    close(epoll_);
    throw;
  }
}

Watch::~Watch() {
  for (const auto& [peer, descriptor] : processes_) close(descriptor);
  close(wake_);
  close(epoll_);
}

void Watch::add(int descriptor, uint64_t tag) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = tag;
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event) != 0) throw refusal("epoll");
}

void Watch::add_messages(int descriptor) { add(descriptor, kMessages); }

bool Watch::add_process(uint32_t peer, int32_t process, uint64_t start_time) {
  // By its number: glibc 2.36 has a function for it, and older ones that run the build do not.
  const auto descriptor = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  if (descriptor < 0) {
    if (errno == ESRCH) return false;
    if (errno == ENOSYS || errno == EPERM) {
      tell(kLogInfo,
           "engine ucx: the system tells of no process's death; UCX does, a little later");
      return true;
    }
    throw refusal("a descriptor of process " + std::to_string(process));
  }
  // Asked of the number after the descriptor is there: if it is that process now, the descriptor is
  // its own, also if it ends meanwhile.
  try {
    const auto state = state_of_process(process);
    if (!state || state->start_time != start_time) {
      close(descriptor);
      return false;
    }
    add(descriptor, peer);
    processes_.emplace(peer, descriptor);
  } catch (...) {
    close(descriptor);
    throw;
  }
  return true;
}

void Watch::remove_process(uint32_t peer) {
  const auto found = processes_.find(peer);
  if (found == processes_.end()) return;
  close(found->second);  // epoll forgets it
  processes_.erase(found);
}

void Watch::sleep(int64_t until_ns) {
  constexpr int64_t kSecond = 1'000'000'000;
  constexpr int64_t kLongest = 3600 * kSecond;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t now_ns = now.tv_sec * kSecond + now.tv_nsec;
  if (until_ns <= now_ns) return;
  const int64_t left = until_ns - now_ns < kLongest ? until_ns - now_ns : kLongest;
  const timespec time{left / kSecond, left % kSecond};
  // epoll_wait() counts milliseconds.
  pollfd all{epoll_, POLLIN, 0};
  ppoll(&all, 1, &time, nullptr);
}

std::vector<uint32_t> Watch::look(bool ends_wake) {
  std::array<epoll_event, 32> events;
  std::vector<uint32_t> ended;
  const int count = epoll_wait(epoll_, events.data(), events.size(), 0);
  for (int i = 0; i < count; ++i) {
    const uint64_t tag = events[static_cast<size_t>(i)].data.u64;
    if (tag < kMessages) ended.push_back(static_cast<uint32_t>(tag));
    if (tag != kWake || !ends_wake) continue;
    uint64_t wakes = 0;
    [[maybe_unused]] const ssize_t size = read(wake_, &wakes, sizeof(wakes));
  }
  return ended;
}

void Watch::wake() noexcept {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t size = write(wake_, &one, sizeof(one));
}

}  // namespace bp_ucx
