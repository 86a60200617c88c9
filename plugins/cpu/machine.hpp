// SPDX-License-Identifier: Apache-2.0
//
// What the operating system tells about the processor. The only file of this plugin with calls that
// other systems spell differently.
#ifndef BACKPLANE_PLUGINS_CPU_MACHINE_HPP
#define BACKPLANE_PLUGINS_CPU_MACHINE_HPP

#include <cstdint>
#include <string>

namespace bp::cpu {

/// A text or number that cannot be found out stays empty or 0.
struct Machine {
  std::string name;    // "AMD EPYC 7763"
  std::string vendor;  // "AuthenticAMD"
  uint64_t memory_bytes = 0;
};

Machine read_machine();

/// Cores that this process may run on, at least 1: fewer than the machine has in a container or
/// under taskset.
int usable_core_count();

}  // namespace bp::cpu

#endif
