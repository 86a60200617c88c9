// SPDX-License-Identifier: Apache-2.0
//
// One call of a random sequence. Objects are named by small slot numbers, so that a sequence with
// calls left out still makes sense: a call on a slot that is empty then is skipped.
#ifndef BACKPLANE_TESTS_MODEL_BASED_STEP_HPP
#define BACKPLANE_TESTS_MODEL_BASED_STEP_HPP

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bp::model {

inline constexpr int kStreamSlots = 4;
inline constexpr int kEventSlots = 5;
inline constexpr int kDeviceMemorySlots = 5;
inline constexpr int kMemorySlots = 9;  // the rest is host memory
inline constexpr int kNone = -1;        // as a stream: the call is done when it returns

constexpr bool is_host_memory(int slot) { return slot >= kDeviceMemorySlots; }

/// The slot of the tables that is called; `write_host` and `unmap` write host memory too.
enum class Op : uint8_t {
  kStreamCreate,
  kStreamDestroy,
  kStreamSync,
  kStreamQuery,
  kEventCreate,
  kEventDestroy,
  kEventRecord,
  kEventWait,
  kEventSync,
  kEventQuery,
  kEventElapsed,
  kAlloc,
  kFree,
  kWriteHost,
  kCopy,
  kFill,
  kHostCall,
  kAdd,
  kRelu,
  kMap,
  kUnmap,
};

struct Place {
  int memory = kNone;
  uint32_t offset = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

// Step::flags
inline constexpr uint32_t kPinned = 1;   // alloc of host memory: by host_alloc
inline constexpr uint32_t kTiming = 1;   // event_create
inline constexpr uint32_t kNoWait = 1;   // syncs: timeout 0
inline constexpr uint32_t kSlow = 1;     // host_call: takes a while, so that others can overtake
inline constexpr uint32_t kMapRead = 1;  // map; as BP_MAP_*_BIT
inline constexpr uint32_t kMapWrite = 2;

struct Step {
  Op op = Op::kStreamCreate;
  int stream = kNone;
  int event = kNone;
  int event2 = kNone;  // event_elapsed: the end
  Place dst = {};      // also what alloc, free, map, unmap and write_host are about
  Place src = {};
  Place src2 = {};
  uint32_t bytes = 0;
  uint64_t value = 0;          // fill: the pattern; host writes: what numbers are written
  uint32_t pattern_bytes = 0;  // fill
  uint32_t flags = 0;
  friend bool operator==(const Step&, const Step&) = default;
};

/// "copy stream=1 dst=2+16 src=7+0 bytes=64"
std::string to_text(const Step& step);
std::string to_text(std::span<const Step> steps);  // one line each
/// The inverse; nullopt: no step.
std::optional<Step> parse_step(std::string_view line);

}  // namespace bp::model

#endif
