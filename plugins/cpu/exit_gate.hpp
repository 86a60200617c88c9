// SPDX-License-Identifier: Apache-2.0
//
// Lets no thread compute with oneDNN while the process ends. oneDNN keeps generated code in statics
// that it makes when first needed; exit() destroys them before whatever is older, while threads
// that nobody ended may still run that code.
#ifndef BACKPLANE_PLUGINS_CPU_EXIT_GATE_HPP
#define BACKPLANE_PLUGINS_CPU_EXIT_GATE_HPP

#include <string>

namespace bp::cpu {

/// To be called once a primitive of that implementation was made, and with it its statics: from
/// then on exit() waits, for a few seconds at most, for those inside the gate before it destroys
/// them.
void watch_exit(const std::string& implementation);

/// Being inside the gate, as long as it lives.
class ExitGate {
 public:
  ExitGate();
  ~ExitGate();
  ExitGate(const ExitGate&) = delete;
  ExitGate& operator=(const ExitGate&) = delete;
  /// False: the process is ending, and nothing may be computed any more.
  bool open() const { return open_; }

 private:
  bool open_;
};

}  // namespace bp::cpu

#endif
