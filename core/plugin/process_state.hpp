// SPDX-License-Identifier: Apache-2.0
//
// What belongs to the application while a plugin is loaded, started or opened. Standard output is
// the process's: what other threads print meanwhile goes to standard error too.
#ifndef BACKPLANE_CORE_PLUGIN_PROCESS_STATE_HPP
#define BACKPLANE_CORE_PLUGIN_PROCESS_STATE_HPP

#include <memory>

#include "core/base/float_environment.hpp"

namespace bp {

/// While it lives standard output is standard error. At its end working directory, this thread's
/// signal mask and its arithmetic are as before. May overlap with others, on any threads.
class KeepProcessState {
 public:
  KeepProcessState();
  ~KeepProcessState();
  KeepProcessState(const KeepProcessState&) = delete;
  KeepProcessState& operator=(const KeepProcessState&) = delete;

 private:
  struct Saved;
  KeepFloatEnvironment arithmetic_;
  std::unique_ptr<Saved> saved_;
};

}  // namespace bp

#endif
