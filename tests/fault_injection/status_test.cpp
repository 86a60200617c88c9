// SPDX-License-Identifier: Apache-2.0
//
// How errors are told when there is no memory to tell them in.
#include "core/base/status.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <system_error>

#include "tests/fault_injection/interposer.hpp"

namespace bp {
namespace {

using faults::arm_host;
using faults::disarm_host;
using faults::HostFault;

const std::string kLongWords(100, 'w');

TEST(StatusWithoutMemory, EveryCode_IsKept) {
  for (bp_status code = BP_INVALID_ARGUMENT; code <= BP_INTERNAL; ++code) {
    std::string words = kLongWords;
    arm_host(HostFault::kAllocFrom, 1);
    const Status status(code, std::move(words));
    const Status copy = status;
    disarm_host();
    EXPECT_EQ(copy.code(), code);
    EXPECT_EQ(copy.message(), "no host memory");
  }
}

TEST(StatusWithoutMemory, Op_IsLeftOut) {
  const Status status(BP_UNSUPPORTED, kLongWords);
  arm_host(HostFault::kAllocFrom, 1);
  const Status without = status.with_op("add");
  disarm_host();
  EXPECT_EQ(without.code(), BP_UNSUPPORTED);
  EXPECT_EQ(without.message(), kLongWords);
  EXPECT_EQ(without.op(), "");
}

TEST(StatusWithoutMemory, Contain_BadAlloc_IsOutOfMemory) {
  arm_host(HostFault::kAllocFrom, 1);
  const Status status = contain([] { throw std::bad_alloc(); });
  disarm_host();
  EXPECT_EQ(status.code(), BP_OUT_OF_MEMORY);
  EXPECT_EQ(status.message(), "no host memory");
}

TEST(Contain, Answers_AreHandedOn) {
  EXPECT_TRUE(contain([] {}).ok());
  EXPECT_EQ(contain([] { return Status(BP_BUSY, "taken"); }).code(), BP_BUSY);
  const Result<int> seven = contain([]() -> Result<int> { return 7; });
  ASSERT_TRUE(seven.ok());
  EXPECT_EQ(*seven, 7);
}

TEST(Contain, Exceptions_BecomeTheirStatus) {
  const Result<int> none = contain([]() -> Result<int> { throw std::bad_alloc(); });
  EXPECT_EQ(none.status().code(), BP_OUT_OF_MEMORY);
  const auto of = [](auto error) { return contain([&] { throw error; }); };
  const auto again = std::make_error_code(std::errc::resource_unavailable_try_again);
  EXPECT_EQ(of(std::system_error(again)).code(), BP_OUT_OF_MEMORY);
  EXPECT_EQ(of(std::system_error(again)).message(), "no more threads");
  const auto broken = std::make_error_code(std::errc::io_error);
  EXPECT_EQ(of(std::system_error(broken)).code(), BP_INTERNAL);
  EXPECT_EQ(of(std::runtime_error("words")).code(), BP_INTERNAL);
  EXPECT_EQ(of(std::runtime_error("words")).message(), "words");
  EXPECT_EQ(of(42).code(), BP_INTERNAL);
}

}  // namespace
}  // namespace bp
