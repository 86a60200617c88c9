// SPDX-License-Identifier: Apache-2.0
//
// Linux: this file asks the operating system.
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "ccl/store/events.hpp"
#include "ccl/store/store_rules.hpp"

namespace bp::ccl {
namespace {

epoll_event event_of(uint64_t id, Poller::Interest interest) {
  epoll_event event = {};
  event.events = (interest.read ? EPOLLIN : 0u) | (interest.write ? EPOLLOUT : 0u);
  event.data.u64 = id;
  return event;
}

}  // namespace

Result<Wakeup> Wakeup::make() {
  Descriptor made(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (made.is_open()) return Wakeup(std::move(made));
  return Status(BP_UNAVAILABLE, "cannot make an event: " + reason_of(errno));
}

void Wakeup::wake() const noexcept {
  const uint64_t one = 1;
  // It fails only where it is awake already.
  [[maybe_unused]] const ssize_t written = ::write(descriptor(), &one, sizeof(one));
}

void Wakeup::clear() const noexcept {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(descriptor(), &count, sizeof(count));
}

Result<Poller> Poller::make() {
  Descriptor made(::epoll_create1(EPOLL_CLOEXEC));
  if (made.is_open()) return Poller(std::move(made));
  return Status(BP_UNAVAILABLE, "cannot make an event queue: " + reason_of(errno));
}

Status Poller::add(int descriptor, uint64_t id, Interest interest) {
  epoll_event event = event_of(id, interest);
  if (::epoll_ctl(descriptor_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0) return {};
  return Status(BP_UNAVAILABLE, "cannot wait for a descriptor: " + reason_of(errno));
}

void Poller::change(int descriptor, uint64_t id, Interest interest) {
  epoll_event event = event_of(id, interest);
  ::epoll_ctl(descriptor_.get(), EPOLL_CTL_MOD, descriptor, &event);
}

void Poller::remove(int descriptor) {
  ::epoll_ctl(descriptor_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
}

std::span<const Poller::Event> Poller::wait(std::chrono::steady_clock::time_point deadline) {
  std::array<epoll_event, 256> ready = {};
  const int count = ::epoll_wait(descriptor_.get(), ready.data(), static_cast<int>(ready.size()),
                                 poll_time(deadline));
  events_.clear();
  for (int i = 0; i < count; ++i) {
    const uint32_t bits = ready[static_cast<size_t>(i)].events;
    events_.push_back({ready[static_cast<size_t>(i)].data.u64, (bits & EPOLLIN) != 0,
                       (bits & EPOLLOUT) != 0, (bits & (EPOLLERR | EPOLLHUP)) != 0});
  }
  return events_;
}

}  // namespace bp::ccl
