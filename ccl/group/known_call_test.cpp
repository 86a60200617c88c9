// SPDX-License-Identifier: Apache-2.0
//
// What is recalled of a call is what a check would say.
#include "ccl/group/known_call.hpp"

#include <functional>
#include <random>
#include <vector>

#include "ccl/group/group_harness_test.hpp"

namespace bp::ccl {
namespace {

constexpr RankPlace kPlace{1, 2};

class KnownCallTest : public GroupTest {
 protected:
  Device& host() { return device("cpu:0"); }
  Ref<Tensor> tensor(const Dims& sizes, uint32_t dtype = BP_DTYPE_F32) {
    auto made = Tensor::create(host(), dtype, sizes);
    EXPECT_TRUE(made.ok());
    return *made;
  }
  /// Remembers the call, which must be a good one.
  void remember(const Call& call) {
    CheckedCall checked;
    ASSERT_TRUE(check_call(call, kPlace, host(), &checked).ok());
    known_.remember(call, checked, {});
  }
  bool recalls(const Call& call) {
    CheckedCall out;
    return known_.recall(call, host(), &out) != nullptr;
  }
  KnownCall known_;
};

TEST_F(KnownCallTest, ReadOnlyResult_IsNotRecalled) {
  remember({.send = tensor({3}), .recv = tensor({3})});
  const Ref<Tensor> result = tensor({3});
  EXPECT_TRUE(recalls({.send = tensor({3}), .recv = result}));
  result->forbid_writes();
  EXPECT_FALSE(recalls({.send = tensor({3}), .recv = result}));
}

TEST_F(KnownCallTest, SameShapesElsewhere_AreRecalled) {
  EXPECT_FALSE(recalls({.send = tensor({3}), .recv = tensor({3})})) << "nothing is known yet";
  remember({.send = tensor({3}), .recv = tensor({3})});
  EXPECT_TRUE(recalls({.send = tensor({3}), .recv = tensor({3})}));
  const auto both = tensor({3});
  EXPECT_FALSE(recalls({.send = both, .recv = both}));
  remember({.send = both, .recv = both});
  const auto other = tensor({3});
  EXPECT_TRUE(recalls({.send = other, .recv = other}));
  EXPECT_FALSE(recalls({.send = both, .recv = other}));
  remember({.kind = Kind::kBarrier});
  EXPECT_TRUE(recalls({.kind = Kind::kBarrier}));
}

TEST_F(KnownCallTest, OtherCalls_AreNot) {
  const auto send = tensor({3});
  const auto recv = tensor({3});
  remember({.send = send, .recv = recv});
  EXPECT_FALSE(recalls({.kind = Kind::kReduce, .send = send, .recv = recv}));
  EXPECT_FALSE(recalls({.reduction = Reduction::kMax, .send = send, .recv = recv}));
  EXPECT_FALSE(recalls({.root = 1, .send = send, .recv = recv}));
  EXPECT_FALSE(recalls({.is_deterministic = true, .send = send, .recv = recv}));
  EXPECT_FALSE(recalls({.send = send}));
  EXPECT_FALSE(recalls({.recv = recv}));
  EXPECT_FALSE(recalls({.send = send, .recv = recv, .counts = {1, 2}}));
  EXPECT_FALSE(recalls({.send = tensor({3}, BP_DTYPE_I32), .recv = recv}));
  EXPECT_FALSE(recalls({.send = send, .recv = tensor({3}, BP_DTYPE_I32)}));
  EXPECT_FALSE(recalls({.send = tensor({4}), .recv = recv}));
  EXPECT_FALSE(recalls({.send = send, .recv = tensor({1, 3})}));
  const auto wide = tensor({3, 2});
  EXPECT_FALSE(recalls({.send = wide->view({3}, {2}, 0), .recv = recv})) << "it has strides";
  EXPECT_FALSE(recalls({.send = wide->view({3}, {1}, 0), .recv = wide->view({3}, {1}, 2)}))
      << "they overlap";
  EXPECT_TRUE(recalls({.send = wide->view({3}, {1}, 0), .recv = wide->view({3}, {1}, 3)}));
  const auto foreign = Tensor::create(device("npu:0"), BP_DTYPE_F32, {3});
  ASSERT_TRUE(foreign.ok());
  EXPECT_FALSE(recalls({.send = send, .recv = *foreign}));
}

/// Calls that differ from the known one in a thing or two.
TEST_F(KnownCallTest, WhateverIsRecalled_ACheckSaysToo) {
  const auto memory = tensor({12});
  std::vector<Ref<Tensor>> tensors{{}};
  for (const int64_t size : {0, 3, 6}) {
    for (const int64_t first : {0, 1, 3, 6}) {
      tensors.push_back(memory->view({size}, {1}, first));
      tensors.push_back(memory->view({size / 3, 3}, {3, 1}, first));
      tensors.push_back(memory->view_as(BP_DTYPE_I32, {size}, {1}, first));
    }
  }
  tensors.push_back(memory->view({3}, {2}, 0));
  constexpr uint32_t kSeed = 20261128;
  std::mt19937 random(kSeed);
  const auto pick = [&](size_t count) { return random() % count; };
  Call call;
  Call known;
  size_t recalled_count = 0;
  const std::vector<std::function<void()>> changes = {
      [&] { call.kind = static_cast<Kind>(pick(kKindCount)); },
      [&] { call.reduction = static_cast<Reduction>(pick(2)); },
      [&] { call.root = static_cast<uint32_t>(pick(2)); },
      [&] { call.is_deterministic = pick(2) == 0; },
      [&] { call.send = tensors[pick(tensors.size())]; },
      [&] { call.recv = tensors[pick(tensors.size())]; },
      [&] { call.recv = call.send; }};
  for (int i = 0; i < 200000; ++i) {
    call = known;
    for (size_t left = 1 + pick(3); left > 0; --left) changes[pick(changes.size())]();
    CheckedCall checked;
    const bool is_good = check_call(call, kPlace, host(), &checked).ok();
    CheckedCall recalled;
    if (known_.recall(call, host(), &recalled) != nullptr) {
      ++recalled_count;
      ASSERT_TRUE(is_good) << "seed " << kSeed << ", call " << i;
      ASSERT_EQ(recalled.operation, checked.operation);
      ASSERT_EQ(recalled.send.get(), checked.send.get());
      ASSERT_EQ(recalled.recv.get(), checked.recv.get());
      ASSERT_EQ(recalled.send_bytes, checked.send_bytes);
      ASSERT_EQ(recalled.recv_bytes, checked.recv_bytes);
      ASSERT_EQ(recalled.is_in_place, checked.is_in_place);
      ASSERT_EQ(recalled.blocks, nullptr);
    } else if (is_good) {
      known_.remember(call, checked, {});
      known = call;
    }
  }
  EXPECT_GT(recalled_count, 10000u);
}

}  // namespace
}  // namespace bp::ccl
