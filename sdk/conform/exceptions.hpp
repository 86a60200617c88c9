// SPDX-License-Identifier: Apache-2.0
//
// What a vendor may put down as known: cases that fail on his device, each with a reason and a day
// on which the excuse ends. They stand in the plugin's folder (conformance.json), never in a case.
#ifndef BACKPLANE_SDK_CONFORM_EXCEPTIONS_HPP
#define BACKPLANE_SDK_CONFORM_EXCEPTIONS_HPP

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sdk/conform/runner.hpp"

namespace bp::conform {

struct Exception {
  std::string pattern;  // of ids, with * for any text
  std::string driver;   // pattern of bp_device_props.driver: another driver gets no excuse
  std::string reason;
  std::string expires;  // the last day, "2027-03-31"
};

/// {"exceptions": [{"case", "driver", "reason", "expires"}]}. INVALID_ARGUMENT names what is wrong:
/// a missing or unknown member, no date, a reason of less than a sentence.
Result<std::vector<Exception>> read_exceptions(const std::string& path);

/// Turns failures into XFAIL and passes into XPASS, unless the exception has expired on `today`.
/// INVALID_ARGUMENT for one that fits no case at all.
Status apply_exceptions(std::span<const Exception> exceptions, std::span<const Case> cases,
                        std::string_view today, DeviceRows* device);

/// In the form of Exception::expires.
std::string today();

}  // namespace bp::conform

#endif
