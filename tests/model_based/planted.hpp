// SPDX-License-Identifier: Apache-2.0
//
// Defects to plant into completed slots, one at a time: the harness must find each of them.
#ifndef BACKPLANE_TESTS_MODEL_BASED_PLANTED_HPP
#define BACKPLANE_TESTS_MODEL_BASED_PLANTED_HPP

#include "tests/model_based/target.hpp"

namespace bp::model {

/// event_wait does nothing.
void plant_dropped_wait(DeviceTable* table);
/// event_record marks a point before the stream's work.
void plant_early_record(DeviceTable* table);
/// Copies from the host are staged, and the staging memory is used anew before they are done.
void plant_early_free(DeviceTable* table);
/// Ends what the defects needed; before the device is closed.
void unplant();

}  // namespace bp::model

#endif
