// SPDX-License-Identifier: Apache-2.0
//
// Random legal sequences. The generator runs the model along, told no more than what waits tell, so
// a seed gives the same sequence on every machine and device.
#ifndef BACKPLANE_TESTS_MODEL_BASED_GENERATE_HPP
#define BACKPLANE_TESTS_MODEL_BASED_GENERATE_HPP

#include <cstdint>
#include <vector>

#include "tests/model_based/model.hpp"

namespace bp::model {

/// `count` steps or a few more; every one is legal when its turn comes.
std::vector<Step> generate(uint64_t seed, size_t count, const Traits& traits);

}  // namespace bp::model

#endif
