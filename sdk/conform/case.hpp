// SPDX-License-Identifier: Apache-2.0
//
// A conformance case, and the lists of them: one function per topic file. Level 0 cases get the
// plugin's own tables; cases of the others get an open device as the core sees it. Those of
// levels 1 and 2 must hold whether a band is native or emulated.
#ifndef BACKPLANE_SDK_CONFORM_CASE_HPP
#define BACKPLANE_SDK_CONFORM_CASE_HPP

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bp::conform {

class AbiContext;
class Context;

/// What a device must have, beside bands, for a case to mean anything. Each is an announced
/// capability: where it is there, the case may not be UNSUPPORTED.
inline constexpr uint32_t kNeedAdd = 1u << 0;          // a kernel for "add" of f32
inline constexpr uint32_t kNeedAddress = 1u << 1;      // BP_DEVICE_ADDRESS_BIT
inline constexpr uint32_t kNeedHostMemory = 1u << 2;   // BP_DEVICE_HOST_MEMORY_BIT
inline constexpr uint32_t kNeedTwoDevices = 1u << 3;   // in one instance
inline constexpr uint32_t kNeedSmallMemory = 1u << 4;  // at most 1 GiB, so that it can be filled up
inline constexpr uint32_t kNeedCollectives = 1u << 5;  // of its own, as collective_caps answers

inline constexpr int kHighestLevel = 4;

struct Case {
  std::string id;           // "L1.event.unrecorded_wait_is_noop"
  std::string_view proves;  // the rule, in a sentence
  uint64_t bands = 0;       // that it exercises. Level 0: the plugin's own are needed
  uint32_t needs = 0;       // kNeed*
  bool brief = false;       // one of the few that are enough for a first look
  std::function<void(AbiContext&)> abi = {};  // one of these two
  std::function<void(Context&)> run = {};

  int level() const { return id.size() > 1 ? id[1] - '0' : -1; }
};

class CaseList {
 public:
  void add(Case added) { cases_.push_back(std::move(added)); }
  std::span<const Case> cases() const { return cases_; }

 private:
  std::vector<Case> cases_;
};

// Level 0, the ABI.
void add_entry_cases(CaseList* list);
void add_load_cases(CaseList* list);
void add_table_cases(CaseList* list);
void add_props_cases(CaseList* list);
void add_null_cases(CaseList* list);
void add_argument_cases(CaseList* list);
void add_instance_cases(CaseList* list);
void add_abandon_cases(CaseList* list);
// Level 1, the runtime.
void add_stream_cases(CaseList* list);
void add_order_cases(CaseList* list);
void add_event_cases(CaseList* list);
void add_timing_cases(CaseList* list);
void add_native_cases(CaseList* list);
void add_host_call_cases(CaseList* list);
void add_launch_cases(CaseList* list);
void add_failure_cases(CaseList* list);
// Level 2, memory.
void add_alloc_cases(CaseList* list);
void add_copy_cases(CaseList* list);
void add_fill_cases(CaseList* list);
void add_map_cases(CaseList* list);
void add_pinned_cases(CaseList* list);
void add_teardown_cases(CaseList* list);
// Level 3, kernels.
void add_kernel_cases(CaseList* list);
// Level 4, collectives.
void add_collective_join_cases(CaseList* list);
void add_collective_order_cases(CaseList* list);
void add_collective_end_cases(CaseList* list);
void add_collective_value_cases(CaseList* list);

/// All of the above.
CaseList all_cases();

}  // namespace bp::conform

#endif
