// SPDX-License-Identifier: Apache-2.0
//
// Defects to plant into completed slots, one at a time: the harness must find each of them.
#ifndef BACKPLANE_TESTS_MODEL_PLANTED_HPP
#define BACKPLANE_TESTS_MODEL_PLANTED_HPP

#include "tests/model/target.hpp"

namespace bp::model {

/// event_wait does nothing.
void plant_dropped_wait(DeviceSlots* slots);
/// event_record marks a point before the stream's work.
void plant_early_record(DeviceSlots* slots);
/// Copies from the host are staged, and the staging memory is used anew before they are done.
void plant_early_free(DeviceSlots* slots);
/// Ends what the defects needed; before the device is closed.
void unplant();

}  // namespace bp::model

#endif
