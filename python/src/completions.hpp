// SPDX-License-Identifier: Apache-2.0
//
// Where runs that have ended wait for Python. Their callbacks come on threads of the library, which
// never take the GIL: they put the run's number into a queue, whose descriptor becomes readable. An
// event loop watches it; for futures one Python thread waits.
#ifndef BACKPLANE_PYTHON_COMPLETIONS_HPP
#define BACKPLANE_PYTHON_COMPLETIONS_HPP

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "errors.hpp"

namespace bp::python {

/// Any thread, but for `wait`.
class CompletionQueue {
 public:
  CompletionQueue();
  ~CompletionQueue();
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  /// Makes room for one run more, so that its end cannot fail.
  void expect_one();
  /// What was expected does not come.
  void expect_less();
  void push(uint64_t number) noexcept;

  int descriptor() const { return descriptor_; }
  /// Until there is something to take. The GIL is held, and given away meanwhile.
  void wait() const;
  std::vector<uint64_t> take();

 private:
  int descriptor_;
  std::mutex mutex_;
  std::vector<uint64_t> ended_;
  size_t expected_count_ = 0;
};

/// Backs the Python class _CompletionQueue. Runs own the queue without owning Python's object.
struct CompletionQueueObject {
  std::shared_ptr<CompletionQueue> queue = std::make_shared<CompletionQueue>();
};

void bind_completions(nb::module_& module);

}  // namespace bp::python

#endif
