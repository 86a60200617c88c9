// SPDX-License-Identifier: Apache-2.0
//
// OpenCL drivers, and compilers inside them, install handlers of signals, which are the
// application's. A driver for the processor may count on its own for integer divisions by zero: the
// kernels of this plugin have none.
#ifndef BACKPLANE_PLUGINS_XPU_SIGNAL_HANDLERS_HPP
#define BACKPLANE_PLUGINS_XPU_SIGNAL_HANDLERS_HPP

#include <signal.h>

#include <array>
#include <cstddef>

namespace bp::xpu {

/// At its end handlers that were changed meanwhile are as before.
class KeepSignalHandlers {
 public:
  KeepSignalHandlers() {
    for (int number = 1; number < NSIG; ++number) {
      Handler& handler = handlers_[static_cast<size_t>(number)];
      handler.is_known = sigaction(number, nullptr, &handler.action) == 0;
    }
  }
  ~KeepSignalHandlers() {
    for (int number = 1; number < NSIG; ++number) {
      const Handler& before = handlers_[static_cast<size_t>(number)];
      struct sigaction now {};
      if (!before.is_known || sigaction(number, nullptr, &now) != 0) continue;
      if (now.sa_handler != before.action.sa_handler) sigaction(number, &before.action, nullptr);
    }
  }
  KeepSignalHandlers(const KeepSignalHandlers&) = delete;
  KeepSignalHandlers& operator=(const KeepSignalHandlers&) = delete;

 private:
  struct Handler {
    bool is_known = false;  // the system keeps some for itself
    struct sigaction action {};
  };
  std::array<Handler, NSIG> handlers_;
};

}  // namespace bp::xpu

#endif
