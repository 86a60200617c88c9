// SPDX-License-Identifier: Apache-2.0
//
// A warm call of an operator touches no heap: neither the functions of the public API, nor the core
// and kernels behind them. By an interposer that stands before malloc in this program.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <span>
#include <thread>
#include <vector>

#include "backplane/ops.hpp"
#include "tests/fault_injection/interposer.hpp"
#include "tests/integration/resolved_calls.hpp"

namespace warm_calls {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int64_t kSteps = 20;
#else
constexpr int64_t kSteps = 100;
#endif

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

/// Another for each number, and few elements: digits to the base of five are its sizes, plus one.
std::vector<int64_t> other_sizes(int64_t number) {
  std::vector<int64_t> sizes;
  for (int place = 0; place < 8; ++place, number /= 5) sizes.push_back(number % 5 + 1);
  return sizes;
}

// A thread without a processor calls nothing, and its answers would be dropped rightly: so each
// step begins together, and makes fewer answers than are kept.
TEST_F(WarmCallsTest, TwoThreadsOverTwoShapes_WhileAThirdStreamsOthers_NeverMissAndMemoryIsFlat) {
  constexpr int64_t kStreamed = 1000;  // in a step
  constexpr int kTurns = 1000;
  const bp::Tensor a = upload({1}, {1});
  const bp::Tensor b = upload({2, 3}, {2});
  bp::add(a, a);
  bp::add(b, b);
  const uint64_t resolved_before = bp::resolved_calls(device_.handle());
  std::barrier step(3);
  const auto call = [&] {
    for (int64_t i = 0; i < kSteps; ++i) {
      step.arrive_and_wait();
      for (int turn = 0; turn < kTurns; ++turn) {
        bp::add(a, a);
        bp::add(b, b);
      }
    }
  };
  std::thread first(call);
  std::thread second(call);
  int64_t full_blocks = 0;  // as soon as there is no room for more
  int64_t most_blocks = 0;
  for (int64_t i = 0; i < kSteps; ++i) {
    step.arrive_and_wait();
    for (int64_t number = i * kStreamed; number < (i + 1) * kStreamed; ++number) {
      const bp::Tensor x = bp::Tensor::create(device_, BP_DTYPE_F32, other_sizes(number));
      bp::add(x, x);
    }
    most_blocks = std::max(most_blocks, bp::faults::live_blocks());
    if (i == kSteps / 2) full_blocks = most_blocks;
  }
  first.join();
  second.join();
  EXPECT_EQ(bp::resolved_calls(device_.handle()) - resolved_before, uint64_t{kSteps * kStreamed})
      << "each of the others once, and neither of the two again";
  EXPECT_LE(most_blocks, full_blocks + full_blocks / 100) << "the second half needs no more";
}

TEST_F(WarmCallsTest, TheInterposer_CountsThroughTheApi) {
  bp::faults::arm_host(bp::faults::HostFault::kAlloc, UINT64_MAX);
  const bp::Tensor fresh = upload(std::vector<float>(77, 1.0F), {77});
  EXPECT_GT(bp::faults::disarm_host().requests, 1u);  // the vector is one
}

}  // namespace
}  // namespace warm_calls
