// SPDX-License-Identifier: Apache-2.0
//
// What must end under the GIL, but is let go of where nobody may take it: deleters run on threads
// that work for a device, and in calls that released the GIL. They put it into one list, which
// whoever holds the GIL next empties.
#ifndef BACKPLANE_PYTHON_DEFERRED_HPP
#define BACKPLANE_PYTHON_DEFERRED_HPP

#include <nanobind/nanobind.h>

#include <functional>

namespace bp::python {

/// Any thread, with or without the GIL. `action` is called once under the GIL, and never once the
/// interpreter is on its way out. It must not throw.
void defer(std::function<void()> action);

/// Does what waits. The GIL is held. Costs one load if nothing does.
void run_deferred() noexcept;

/// Its end does what this thread defers meanwhile, under the GIL: the interpreter is not told, and
/// one action needs no list.
class DeferringBriefly {
 public:
  DeferringBriefly();
  ~DeferringBriefly();
  DeferringBriefly(const DeferringBriefly&) = delete;
  DeferringBriefly& operator=(const DeferringBriefly&) = delete;
  bool take(std::function<void()>& action);

 private:
  DeferringBriefly* outer_;
  std::function<void()> first_;
};

/// From now on nothing is done any more: the interpreter ends.
void stop_deferred();

}  // namespace bp::python

#endif
