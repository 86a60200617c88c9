// SPDX-License-Identifier: Apache-2.0
//
// Part of every test program under AddressSanitizer: leaks are looked for when the tests are over,
// and not again at the end of the process. There the OpenCL driver has ended the map of its
// compiled passes and not the passes: a leak of its own, which shows once in some thirty runs.
#include <gtest/gtest.h>
#include <sanitizer/lsan_interface.h>

namespace {

class LeakCheck : public testing::Environment {
 public:
  void TearDown() override { __lsan_do_leak_check(); }
};

[[maybe_unused]] const testing::Environment* const kLeakCheck =
    testing::AddGlobalTestEnvironment(new LeakCheck);

}  // namespace
