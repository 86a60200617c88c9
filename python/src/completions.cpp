// SPDX-License-Identifier: Apache-2.0
#include "completions.hpp"

#include <nanobind/stl/vector.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "gil.hpp"

namespace bp::python {

CompletionQueue::CompletionQueue() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (descriptor_ >= 0) return;
  throw Error(BP_UNAVAILABLE,
              std::string("no descriptor for the ends of runs: ") + std::strerror(errno));
}

CompletionQueue::~CompletionQueue() { close(descriptor_); }

void CompletionQueue::expect_one() {
  const std::lock_guard lock(mutex_);
  if (ended_.capacity() <= expected_count_) ended_.reserve(2 * expected_count_ + 16);
  ++expected_count_;
}

void CompletionQueue::expect_less() {
  const std::lock_guard lock(mutex_);
  --expected_count_;
}

void CompletionQueue::push(uint64_t number) noexcept {
  const std::lock_guard lock(mutex_);
  ended_.push_back(number);
  static_cast<void>(eventfd_write(descriptor_, 1));  // fails only if it is readable anyway
}

void CompletionQueue::wait() const {
  const WithoutGil release;
  pollfd watched{descriptor_, POLLIN, 0};
  while (poll(&watched, 1, -1) < 0 && errno == EINTR) {
  }
}

std::vector<uint64_t> CompletionQueue::take() {
  const std::lock_guard lock(mutex_);
  eventfd_t count = 0;
  static_cast<void>(eventfd_read(descriptor_, &count));
  std::vector<uint64_t> taken = ended_;
  ended_.clear();  // keeps its room
  expected_count_ -= taken.size();
  return taken;
}

void bind_completions(nb::module_& module) {
  using Self = const CompletionQueueObject&;
  nb::class_<CompletionQueueObject>(module, "_CompletionQueue", nb::is_final())
      .def(nb::init<>())
      .def("fileno", [](Self self) { return self.queue->descriptor(); })
      .def("wait", [](Self self) { self.queue->wait(); })
      .def("take", [](Self self) { return self.queue->take(); });
}

}  // namespace bp::python
