// SPDX-License-Identifier: Apache-2.0
//
// The whole library, in the order in which it is run.
#include "sdk/conform/case.hpp"

namespace bp::conform {

CaseList all_cases() {
  CaseList list;
  for (void (*add)(CaseList*) : {add_entry_cases,
                                 add_load_cases,
                                 add_table_cases,
                                 add_props_cases,
                                 add_null_cases,
                                 add_argument_cases,
                                 add_instance_cases,
                                 add_abandon_cases,
                                 add_stream_cases,
                                 add_order_cases,
                                 add_event_cases,
                                 add_timing_cases,
                                 add_native_cases,
                                 add_host_call_cases,
                                 add_launch_cases,
                                 add_failure_cases,
                                 add_alloc_cases,
                                 add_copy_cases,
                                 add_fill_cases,
                                 add_map_cases,
                                 add_pinned_cases,
                                 add_teardown_cases,
                                 add_kernel_cases,
                                 add_collective_join_cases,
                                 add_collective_order_cases,
                                 add_collective_end_cases,
                                 add_collective_value_cases}) {
    add(&list);
  }
  return list;
}

}  // namespace bp::conform
