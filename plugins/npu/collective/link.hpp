// SPDX-License-Identifier: Apache-2.0
//
// What the NPUs of several processes are linked by: the system they share, and how one process
// learns that another is gone.
#ifndef BACKPLANE_PLUGINS_NPU_COLLECTIVE_LINK_HPP
#define BACKPLANE_PLUGINS_NPU_COLLECTIVE_LINK_HPP

#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>

namespace bp::npu {

/// Closes what it has.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor() {
    if (is_open()) close(number_);
  }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  bool is_open() const { return number_ >= 0; }
  int number() const { return number_; }

 private:
  int number_;
};

/// A process: another that gets its number has begun at another time.
struct ProcessMark {
  int32_t number = 0;
  uint64_t start_time = 0;  // in the system's ticks since it booted; 0: not known
};

ProcessMark this_process();
/// Also where nobody has waited for it yet. False where the system does not tell.
bool has_died(const ProcessMark& process);

uint64_t random_word();
/// Equal bytes are of processes that can map each other's memory: those of one user, who sees them
/// all by the same numbers. Where the system lets nobody in, it is this process's alone.
std::string link_domain(uint32_t layout_version);

}  // namespace bp::npu

#endif
