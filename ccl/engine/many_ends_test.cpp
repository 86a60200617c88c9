// SPDX-License-Identifier: Apache-2.0
//
// More ends over a network than an end keeps messages of strangers, in the moments in which all of
// them connect it and it connects one after the other.
#include <sys/resource.h>

#include <algorithm>
#include <set>

#include "ccl/engine/engine_harness_test.hpp"
#include "ccl/engine/ucx/address.hpp"

namespace bp::ccl {
namespace {

constexpr size_t kEnds = 1200;
constexpr rlim_t kDescriptors = 13 * kEnds + 500;

/// Each takes about 12.
bool make_room_for_descriptors() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::max(limit.rlim_cur, kDescriptors);
  limit.rlim_max = std::max(limit.rlim_max, limit.rlim_cur);
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

TEST(ManyEnds, ThatGreetOneBeforeItConnectsThem_AllMeetIt) {
  if (!make_room_for_descriptors()) GTEST_SKIP() << "NOT RUN: ulimit -n below " << kDescriptors;
  Ends ends(kEnds);
  for (uint32_t i = 0; i < kEnds; ++i) ends.engines[i] = make_engine(EngineKind::kNetwork, i);
  // The end with the greater id greets.
  const auto id_of = [](const auto& end) { return bp_ucx::decode_address(end->address())->end; };
  std::iter_swap(ends.engines.begin(), std::ranges::min_element(ends.engines, {}, id_of));
  for (uint32_t i = 1; i < kEnds; ++i) {
    ASSERT_TRUE(ends[i].connect(0, ends[0].address()).ok());
    Transfer sent;
    ends.send(i, 0, "h", pattern(3, i), &sent);
  }
  for (int pass = 0; pass < 20; ++pass) ends.pass();
  for (uint32_t i = 1; i < kEnds; ++i) ASSERT_TRUE(ends[0].connect(i, ends[i].address()).ok());
  EXPECT_TRUE(ends.await_arrivals(0, kEnds - 1)) << ends.inboxes[0].arrived.size();
  std::set<uint32_t> senders;
  for (const Arrived& arrived : ends.inboxes[0].arrived) senders.insert(arrived.peer);
  EXPECT_EQ(senders.size(), kEnds - 1);
  EXPECT_TRUE(ends.inboxes[0].lost.empty());
}

}  // namespace
}  // namespace bp::ccl
