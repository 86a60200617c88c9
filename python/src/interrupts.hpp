// SPDX-License-Identifier: Apache-2.0
//
// Ctrl-C in long waits. Python's own handler only notes the signal, and Python code acts on it: so
// the main thread waits in short steps, and looks between them.
#ifndef BACKPLANE_PYTHON_INTERRUPTS_HPP
#define BACKPLANE_PYTHON_INTERRUPTS_HPP

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

namespace bp::python {

/// The longest time between two looks.
constexpr std::chrono::milliseconds kLookForSignals{50};

/// Whether this thread is the one on which Python handles signals.
bool is_main_thread();

/// Something that another thread brings to an end.
class Ending {
 public:
  void set() noexcept;
  /// The GIL is held, and given away meanwhile. False: `most_time` passed first.
  bool wait_for(std::chrono::milliseconds most_time);
  /// Waits for the end; on the main thread it throws what a signal's handler raised.
  void wait();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_set_ = false;
};

/// Calls `work` without the GIL, and throws what it throws. On the main thread a signal's handler
/// may raise meanwhile: then that is thrown, and `work` goes on by itself, so that it must own all
/// that it uses.
void call_interruptibly(std::function<void()> work);

/// Remembers the main thread.
void bind_interrupts();

}  // namespace bp::python

#endif
