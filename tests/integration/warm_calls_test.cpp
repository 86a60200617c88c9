// SPDX-License-Identifier: Apache-2.0
//
// A warm call of an operator touches no heap: neither the functions of the public API, nor the core
// and kernels behind them. By an interposer that stands before malloc in this program.
#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "backplane/ops.hpp"
#include "tests/fault_injection/interposer.hpp"

namespace warm_calls {
namespace {

class WarmCallsTest : public testing::Test {
 protected:
  bp::Tensor upload(const std::vector<float>& values, std::initializer_list<int64_t> sizes) const {
    return bp::Tensor::from_host<float>(device_, values, sizes);
  }

  bp::Runtime runtime_ = bp::Runtime::create({.install_dir = BP_PLUGIN_DIR});
  bp::Device device_ = runtime_.device("cpu:0");
};

/// Requests of a thousand warm calls, whose outputs are released one by one.
template <class Call>
uint64_t requests_of(const Call& call) {
  for (int i = 0; i < 100; ++i) call();
  bp::faults::arm_host(bp::faults::HostFault::kAlloc, UINT64_MAX);
  for (int i = 0; i < 1000; ++i) call();
  return bp::faults::disarm_host().requests;
}

TEST_F(WarmCallsTest, Operators_TouchNoHeap) {
  const bp::Tensor a = upload({1}, {1});
  const bp::Tensor b = upload({2}, {1});
  const bp::Tensor m = upload({1, 2, 3, 4, 5, 6}, {2, 3});
  const bp::ReduceSumOptions over_last{.axes = {1}};
  EXPECT_EQ(requests_of([&] { bp::add(a, b); }), 0u);
  EXPECT_EQ(requests_of([&] { bp::relu(a); }), 0u);
  EXPECT_EQ(requests_of([&] { bp::reduce_sum(m, over_last); }), 0u);
  EXPECT_EQ(requests_of([&] { bp::transpose(m); }), 0u);
  const bp::Tensor transposed = bp::transpose(m);
  EXPECT_EQ(requests_of([&] { bp::add(transposed, transposed); }), 0u) << "a view as it lies";
}

TEST_F(WarmCallsTest, OperatorsInTurns_TouchNoHeap) {
  const bp::Tensor a = upload({1}, {1});
  const bp::Tensor m = upload({1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_EQ(requests_of([&] {
              const bp::Tensor sum = bp::add(bp::add(a, a), m);
              const bp::Tensor turned = bp::transpose(bp::relu(sum));
              bp::Tensor last = bp::relu(turned);
              last = bp::add(last, turned);
            }),
            0u);
}

TEST_F(WarmCallsTest, TheInterposer_CountsThroughTheApi) {
  bp::faults::arm_host(bp::faults::HostFault::kAlloc, UINT64_MAX);
  const bp::Tensor fresh = upload(std::vector<float>(77, 1.0F), {77});
  EXPECT_GT(bp::faults::disarm_host().requests, 1u);  // the vector is one
}

}  // namespace
}  // namespace warm_calls
