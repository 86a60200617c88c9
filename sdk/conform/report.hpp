// SPDX-License-Identifier: Apache-2.0
//
// The result of runs as JSON, as JUnit XML, and as a table and a page for people.
#ifndef BACKPLANE_SDK_CONFORM_REPORT_HPP
#define BACKPLANE_SDK_CONFORM_REPORT_HPP

#include <span>
#include <string>
#include <string_view>

#include "sdk/conform/runner.hpp"

namespace bp::conform {

/// The command that runs one row again.
std::string repeat_command(const DeviceRows& device, const Row& row);

/// {"passed", "failed", "unsupported", "total", "case_count", "devices": [...]}; every row that did
/// not pass is listed with its words.
std::string report_json(std::span<const DeviceRows> devices, size_t case_count);
/// A test case per row; UNSUPPORTED and XFAIL are skipped ones.
std::string report_junit(std::span<const DeviceRows> devices);
/// One page that loads nothing, with the numbers of the JSON.
std::string report_html(std::span<const DeviceRows> devices, size_t case_count);
/// Text for an element or an attribute of XML or HTML. Control characters have no place there.
std::string escaped_markup(std::string_view text);
/// "cpu:0, npu:0: 12 passed, 0 failed, 3 unsupported, 1 failed as expected, of 16"
std::string totals_line(std::span<const DeviceRows> devices);
std::string report_markdown(std::span<const DeviceRows> devices, size_t case_count);

}  // namespace bp::conform

#endif
