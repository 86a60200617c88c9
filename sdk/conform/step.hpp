// SPDX-License-Identifier: Apache-2.0
//
// What a child is at, kept where its parent can read it after a crash or a kill: the slot that it
// is in, and what for.
#ifndef BACKPLANE_SDK_CONFORM_STEP_HPP
#define BACKPLANE_SDK_CONFORM_STEP_HPP

#include <array>
#include <atomic>
#include <string>
#include <string_view>

#include "core/plugin/api_tables.hpp"

namespace bp::conform {

/// Lies in memory that parent and child share. Slot names are static data of this program, so they
/// have the same address in both.
struct Step {
  std::atomic<const char*> slot{nullptr};   // nullptr: in none
  std::atomic<const char*> threw{nullptr};  // the slot that an exception left last
  std::array<char, 512> what{};             // ends with a zero

  /// " in mem_copy at WHAT", after words on how the child ended; empty: nothing is noted.
  std::string words() const;
};

/// That of this process.
Step& current_step();
/// In a child, before all else.
void set_current_step(Step* step);
/// What the slots that follow are called for; empty: nothing in particular. Any thread.
void note_step(std::string_view what);

/// While it lives, this process is in that slot.
class InSlot {
 public:
  explicit InSlot(Slot slot);
  ~InSlot();
  InSlot(const InSlot&) = delete;
  InSlot& operator=(const InSlot&) = delete;

 private:
  const char* const name_;
  const int exceptions_;
};

/// Puts in the place of each slot one that notes its name and calls it. All tables that a process
/// names are of one plugin.
void name_slots(bp_root_api* table);
void name_slots(bp_device_api* table);
void name_slots(bp_memory_api* table);
void name_slots(bp_stream_api* table);
void name_slots(bp_kernel_api* table);
void name_slots(bp_collective_api* table);

}  // namespace bp::conform

#endif
