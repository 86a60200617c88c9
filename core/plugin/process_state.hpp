// SPDX-License-Identifier: Apache-2.0
//
// What belongs to the application while a plugin is loaded, started or opened. Some of it is the
// process's: what other threads print meanwhile goes to standard error too, and handlers of signals
// that they install meanwhile are taken for the plugin's.
#ifndef BACKPLANE_CORE_PLUGIN_PROCESS_STATE_HPP
#define BACKPLANE_CORE_PLUGIN_PROCESS_STATE_HPP

#include <signal.h>

#include "core/base/float_environment.hpp"

namespace bp {

/// While it lives standard output is standard error. At its end working directory, locale, mask of
/// new files, handlers of signals, this thread's signal mask and its arithmetic are as before. May
/// overlap with others, on any threads: the last one puts back what is the process's.
class KeepProcessState {
 public:
  KeepProcessState();
  ~KeepProcessState();
  KeepProcessState(const KeepProcessState&) = delete;
  KeepProcessState& operator=(const KeepProcessState&) = delete;

 private:
  KeepFloatEnvironment arithmetic_;
  sigset_t mask_{};
};

}  // namespace bp

#endif
