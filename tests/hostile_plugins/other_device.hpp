// SPDX-License-Identifier: Apache-2.0
//
// What the programs of this folder have in common: each row is a process, whose exit code says what
// became of the application and of the other vendor's device.
#ifndef BACKPLANE_TESTS_HOSTILE_PLUGINS_OTHER_DEVICE_HPP
#define BACKPLANE_TESTS_HOSTILE_PLUGINS_OTHER_DEVICE_HPP

#include <cstdlib>
#include <vector>

#include "backplane/ops.hpp"

namespace bp {

inline constexpr int kGood = 0;
inline constexpr int kOtherDeviceBroken = 3;
inline constexpr int kNotToldOnce = 10;

/// Ends the process if the sound device computes wrongly. Throws bp::Error.
inline void check_other(Runtime& runtime) {
  const Tensor x = Tensor::from_host<float>(runtime.device("sound:0"), {-1, 2}, {2});
  if (relu(x).to_vector<float>() != std::vector<float>{0, 2}) std::_Exit(kOtherDeviceBroken);
}

}  // namespace bp

#endif
