// SPDX-License-Identifier: Apache-2.0
//
// What engine.hpp promises, of every engine.
#include <random>
#include <thread>

#include "ccl/engine/engine_harness_test.hpp"

namespace bp::ccl {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kLong = 3'000'001;  // stays in its sender's memory

class EngineContractTest : public testing::TestWithParam<EngineKind> {
 protected:
  Ends make(size_t count) {
    Ends ends(count);
    for (uint32_t i = 0; i < count; ++i) ends.engines[i] = make_engine(GetParam(), i);
    return ends;
  }
  Ends make_connected(size_t count) {
    Ends ends = make(count);
    ends.connect_all();
    return ends;
  }
  static void receive(Ends& ends, size_t end, size_t arrival, const Bytes& expected) {
    const Arrived& arrived = ends.inboxes[end].arrived.at(arrival);
    ASSERT_EQ(arrived.bytes, expected.size());
    Bytes into(expected.size());
    Transfer transfer;
    ends[end].receive(arrived.token, into.data(), &transfer);
    ASSERT_TRUE(ends.await(transfer));
    EXPECT_EQ(transfer.status, BP_OK);
    EXPECT_TRUE(into == expected) << "of " << expected.size() << " bytes";
  }
};

TEST_P(EngineContractTest, Messages_ComeInOrderWithTheirHeadersAndBytes) {
  Ends ends = make_connected(2);
  const std::vector<size_t> sizes = {0,    1,    7,    63,   64,    65,      255,     256, 257,
                                     4096, 8191, 8192, 8193, 65536, 1 << 20, 8 << 20, 3};
  std::deque<Transfer> transfers(sizes.size());
  std::vector<Bytes> payloads;
  for (size_t i = 0; i < sizes.size(); ++i) {
    payloads.push_back(pattern(sizes[i], static_cast<unsigned>(i)));
    const std::string header = std::to_string(i) + std::string(i * 7, 'h');
    ends.send(0, 1, header, payloads[i], &transfers[i]);
  }
  ASSERT_TRUE(ends.await_arrivals(1, sizes.size()));
  for (size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(ends.inboxes[1].arrived[i].header, std::to_string(i) + std::string(i * 7, 'h'));
    EXPECT_EQ(ends.inboxes[1].arrived[i].peer, 0u);
    receive(ends, 1, i, payloads[i]);
  }
  for (const Transfer& transfer : transfers) {
    ASSERT_TRUE(ends.await(transfer));
    EXPECT_EQ(transfer.status, BP_OK);
  }
}

TEST_P(EngineContractTest, ShortSends_AreOverAtOnceOrSoonAndTheirMemoryIsFree) {
  Ends ends = make_connected(2);
  Bytes payload = pattern(8192, 5);
  const Bytes expected = payload;
  Transfer transfer;
  ends.send(0, 1, "h", payload, &transfer);
  ASSERT_TRUE(ends.await(transfer));
  EXPECT_EQ(transfer.status, BP_OK);
  payload.assign(payload.size(), std::byte{0});
  ASSERT_TRUE(ends.await_arrivals(1, 1));
  receive(ends, 1, 0, expected);
}

TEST_P(EngineContractTest, LongSend_IsOverOnlyWhenItWasTaken) {
  Ends ends = make_connected(2);
  const Bytes payload = pattern(kLong, 1);
  Transfer transfer;
  ends.send(0, 1, "h", payload, &transfer);
  ASSERT_TRUE(ends.await_arrivals(1, 1));
  for (int i = 0; i < 100; ++i) ends.pass();
  EXPECT_FALSE(transfer.is_over());
  receive(ends, 1, 0, payload);
  EXPECT_TRUE(ends.await(transfer));
  EXPECT_EQ(transfer.status, BP_OK);
}

TEST_P(EngineContractTest, MessagesBeforeItsConnect_Wait) {
  Ends ends = make(2);
  ASSERT_TRUE(ends[0].connect(1, ends[1].address()).ok());
  const Bytes payload = pattern(100'000, 2);
  std::deque<Transfer> transfers(2);
  ends.send(0, 1, "first", {}, &transfers[0]);
  ends.send(0, 1, "second", payload, &transfers[1]);
  for (int i = 0; i < 1000; ++i) ends.pass();
  EXPECT_TRUE(ends.inboxes[1].arrived.empty());
  ASSERT_TRUE(ends[1].connect(0, ends[0].address()).ok());
  ASSERT_TRUE(ends.await_arrivals(1, 2));
  EXPECT_EQ(ends.inboxes[1].arrived[0].header, "first");
  receive(ends, 1, 1, payload);
}

TEST_P(EngineContractTest, SendToItself_Arrives) {
  Ends ends = make_connected(1);
  for (const size_t size : {size_t{0}, size_t{100}, kLong}) {
    const Bytes payload = pattern(size, 3);
    Transfer transfer;
    ends.send(0, 0, "self", payload, &transfer);
    ASSERT_TRUE(ends.await_arrivals(0, 1));
    receive(ends, 0, 0, payload);
    ASSERT_TRUE(ends.await(transfer));
    EXPECT_EQ(transfer.status, BP_OK);
    ends.inboxes[0].arrived.clear();
  }
}

TEST_P(EngineContractTest, ManyPeers_KeepTheirOwnOrder) {
  constexpr uint32_t kCount = 6;
  constexpr uint32_t kRounds = 40;
  Ends ends = make_connected(kCount);
  std::deque<Transfer> transfers;
  std::deque<Bytes> payloads;
  for (uint32_t round = 0; round < kRounds; ++round) {
    for (uint32_t from = 0; from < kCount; ++from) {
      for (uint32_t to = 0; to < kCount; ++to) {
        payloads.push_back(pattern((round * 977) % 20'000, from + to));
        ends.send(from, to, std::to_string(round), payloads.back(), &transfers.emplace_back());
      }
    }
  }
  for (uint32_t to = 0; to < kCount; ++to) {
    ASSERT_TRUE(ends.await_arrivals(to, kCount * kRounds));
    std::vector<uint32_t> next(kCount);
    for (size_t i = 0; i < kCount * kRounds; ++i) {
      const Arrived arrived = ends.inboxes[to].arrived[i];
      EXPECT_EQ(arrived.header, std::to_string(next[arrived.peer]));
      receive(ends, to, i, pattern((next[arrived.peer]++ * 977) % 20'000, arrived.peer + to));
    }
  }
  for (const Transfer& transfer : transfers) {
    ASSERT_TRUE(ends.await(transfer));
    EXPECT_EQ(transfer.status, BP_OK);
  }
}

TEST_P(EngineContractTest, DroppedMessages_AreSentForTheirSenders) {
  Ends ends = make_connected(2);
  std::deque<Transfer> transfers(3);
  const std::vector<Bytes> payloads = {{}, pattern(100, 1), pattern(kLong, 2)};
  for (size_t i = 0; i < 3; ++i) ends.send(0, 1, "h", payloads[i], &transfers[i]);
  ASSERT_TRUE(ends.await_arrivals(1, 3));
  for (const Arrived& arrived : ends.inboxes[1].arrived) ends[1].drop(arrived.token);
  for (const Transfer& transfer : transfers) {
    ASSERT_TRUE(ends.await(transfer));
    EXPECT_EQ(transfer.status, BP_OK);
  }
  Transfer none;
  ends[1].receive(ends.inboxes[1].arrived[2].token, nullptr, &none);
  EXPECT_EQ(none.status, BP_INVALID_ARGUMENT) << "its token is used up";
  ends[1].drop(12345);
}

TEST_P(EngineContractTest, CancelledLongSend_LeavesItsMemoryAlone) {
  for (const bool has_arrived : {false, true}) {
    Ends ends = make_connected(2);
    Bytes payload = pattern(kLong, 7);
    Transfer sent;
    ends.send(0, 1, "h", payload, &sent);
    if (has_arrived) ASSERT_TRUE(ends.await_arrivals(1, 1));
    ends[0].cancel(&sent);
    EXPECT_EQ(sent.status, BP_CANCELLED);
    payload.assign(payload.size(), std::byte{0});
    payload = {};
    // Whether its message still comes is the engine's; its bytes are never believed.
    const auto& told = ends.inboxes[1];
    for (int i = 0; i < 2000 && told.arrived.empty() && told.lost.empty(); ++i) ends.pass();
    EXPECT_LE(told.arrived.size(), 1u);
    if (told.arrived.empty()) continue;
    Bytes into(kLong);
    Transfer received;
    ends[1].receive(told.arrived[0].token, into.data(), &received);
    ASSERT_TRUE(ends.await(received));
    EXPECT_EQ(received.status, BP_UNAVAILABLE);
  }
}

TEST_P(EngineContractTest, CancelledReceive_LeavesItsMemoryAlone) {
  Ends ends = make_connected(2);
  const Bytes payload = pattern(kLong, 7);
  Transfer sent;
  ends.send(0, 1, "h", payload, &sent);
  ASSERT_TRUE(ends.await_arrivals(1, 1));
  Bytes into(kLong);
  Transfer received;
  ends[1].receive(ends.inboxes[1].arrived[0].token, into.data(), &received);
  ends[1].cancel(&received);
  ASSERT_TRUE(received.is_over());
  EXPECT_TRUE(received.status == BP_CANCELLED || received.status == BP_OK);
  into.assign(into.size(), std::byte{9});
  ASSERT_TRUE(ends.await(sent));
  for (int i = 0; i < 1000; ++i) ends.pass();
  EXPECT_TRUE(into == Bytes(kLong, std::byte{9}));
}

/// A pass more each time, so that all states of a long transfer are met.
TEST_P(EngineContractTest, CancelAfterEachPass_EndsBothSides) {
  bool has_ended_first = false;
  for (int passes = 0; passes < 200 && !has_ended_first; ++passes) {
    Ends ends = make_connected(2);
    const Bytes payload = pattern(300'000, 7);
    Bytes into(payload.size());
    Transfer sent;
    Transfer received;
    ends.send(0, 1, "h", payload, &sent);
    ASSERT_TRUE(ends.await_arrivals(1, 1));
    ends[1].receive(ends.inboxes[1].arrived[0].token, into.data(), &received);
    for (int i = 0; i < passes; ++i) ends.engines[i % 2]->progress(ends.inboxes[i % 2]);
    has_ended_first = sent.is_over() && received.is_over();
    Engine& canceller = ends[static_cast<size_t>(passes / 2 % 2)];
    canceller.cancel(&canceller == &ends[0] ? &sent : &received);
    ASSERT_TRUE(ends.await(sent));
    ASSERT_TRUE(ends.await(received));
    if (received.status == BP_OK) EXPECT_TRUE(into == payload) << passes;
  }
  EXPECT_TRUE(has_ended_first);
}

/// Their connection may be in the making. Within a host the other one, which takes nothing while
/// this one cancels, learns it at its own deadline.
TEST_P(EngineContractTest, CancelAtOnceOverANetwork_IsToldToTheOther) {
  if (GetParam() != EngineKind::kNetwork) return;
  for (int passes = 0; passes < 8; ++passes) {
    Ends ends = make_connected(2);
    const Bytes payload = pattern(300'000, 7);
    Transfer sent;
    const size_t canceller = static_cast<size_t>(passes / 4);
    const size_t other = 1 - canceller;
    ends.send(canceller, static_cast<uint32_t>(other), "h", payload, &sent);
    for (int i = 0; i < passes % 4; ++i) ends.pass();
    ends[canceller].cancel(&sent);
    EXPECT_EQ(sent.status, BP_CANCELLED) << passes;
    EXPECT_TRUE(ends.drive_until([&] { return !ends.inboxes[other].lost.empty(); })) << passes;
  }
}

TEST_P(EngineContractTest, EndThatGoes_IsToldBehindItsMessages) {
  Ends ends = make_connected(2);
  const Bytes payload = pattern(10, 1);
  Transfer sent;
  ends.send(0, 1, "last", payload, &sent);
  ASSERT_TRUE(ends.await(sent));
  std::thread leaver([gone = std::move(ends.engines[0])]() mutable { gone.reset(); });
  EXPECT_TRUE(ends.drive_until([&] { return !ends.inboxes[1].lost.empty(); }));
  leaver.join();
  ASSERT_EQ(ends.inboxes[1].arrived.size(), 1u);
  EXPECT_THAT(ends.inboxes[1].lost[0], testing::HasSubstr("closed"));
  receive(ends, 1, 0, payload);
  Transfer reply;
  ends.send(1, 0, "reply", {}, &reply);
  EXPECT_EQ(reply.status, BP_UNAVAILABLE);
}

/// A rank that leaves says why; another may have proved nothing by then.
TEST_P(EngineContractTest, EndThatGoesAtOnce_IsToldBehindItsShortMessages) {
  Ends ends = make_connected(2);
  const Bytes payload = pattern(8192, 6);
  Transfer transfer;
  ends.send(0, 1, "why", payload, &transfer);
  EXPECT_EQ(transfer.status, BP_OK) << "nobody has to wait for a short one";
  std::thread leaver([leaving = std::move(ends.engines[0])]() mutable { leaving.reset(); });
  EXPECT_TRUE(ends.drive_until([&] { return !ends.inboxes[1].lost.empty(); }));
  leaver.join();
  ASSERT_EQ(ends.inboxes[1].arrived.size(), 1u);
  EXPECT_EQ(ends.inboxes[1].arrived[0].header, "why");
  EXPECT_THAT(ends.inboxes[1].lost[0], testing::HasSubstr("closed"));
  receive(ends, 1, 0, payload);
}

/// UCX ends the process of the other one, if their endpoints are being joined at that moment.
TEST_P(EngineContractTest, EndThatGoesUnconnected_LeavesTheOtherAsItWas) {
  Ends ends = make(3);
  ASSERT_TRUE(ends[0].connect(1, ends[1].address()).ok());
  const Bytes payload = pattern(100'000, 4);
  std::deque<Transfer> transfers(2);
  ends.send(0, 1, "short", {}, &transfers[0]);
  ends.send(0, 1, "long", payload, &transfers[1]);
  for (int i = 0; i < 20; ++i) ends[1].progress(ends.inboxes[1]);
  ends.engines[0].reset();
  for (int i = 0; i < 2000; ++i) ends[1].progress(ends.inboxes[1]);
  ASSERT_TRUE(ends[1].connect(2, ends[2].address()).ok());
  ASSERT_TRUE(ends[2].connect(1, ends[1].address()).ok());
  Transfer transfer;
  ends.send(2, 1, "of another", {}, &transfer);
  EXPECT_TRUE(ends.await_arrivals(1, 1));
}

TEST_P(EngineContractTest, EndThatGoesAfterEachPass_IsToldToTheOther) {
  for (int passes = 0; passes < 16; ++passes) {
    Ends ends = make_connected(2);
    const Bytes payload = pattern(100'000, 4);
    std::deque<Transfer> transfers(2);
    for (uint32_t i = 0; i < 2; ++i) ends.send(i, 1 - i, "h", payload, &transfers[i]);
    for (int i = 0; i < passes; ++i) ends.engines[i / 2 % 2]->progress(ends.inboxes[i / 2 % 2]);
    const size_t leaves = static_cast<size_t>(passes % 2);
    const size_t stays = 1 - leaves;
    std::thread leaver([gone = std::move(ends.engines[leaves])]() mutable { gone.reset(); });
    EXPECT_TRUE(ends.drive_until([&] { return !ends.inboxes[stays].lost.empty(); })) << passes;
    leaver.join();
    EXPECT_TRUE(ends.await(transfers[stays])) << passes;
  }
}

TEST_P(EngineContractTest, ReceiverThatGoes_EndsTheLongSend) {
  Ends ends = make_connected(3);
  std::deque<Transfer> sent(2);
  const Bytes payload = pattern(kLong, 1);
  for (uint32_t i = 0; i < 2; ++i) ends.send(2, i, "h", payload, &sent[i]);
  ASSERT_TRUE(ends.await_arrivals(0, 1));
  ends.engines[0].reset();
  ASSERT_TRUE(ends.await(sent[0]));
  EXPECT_EQ(sent[0].status, BP_UNAVAILABLE);
  ASSERT_TRUE(ends.await_arrivals(1, 1));
  receive(ends, 1, 0, payload);
  ASSERT_TRUE(ends.await(sent[1]));
  EXPECT_EQ(sent[1].status, BP_OK) << "another peer is no concern of it";
}

TEST_P(EngineContractTest, OwnEndThatGoes_EndsItsTransfers) {
  Ends ends = make_connected(2);
  const Bytes payload = pattern(kLong, 1);
  Bytes into(kLong);
  Transfer sent;
  Transfer received;
  ends.send(0, 1, "h", payload, &sent);
  ends.send(1, 0, "h", payload, &received);
  ASSERT_TRUE(ends.await_arrivals(0, 1));
  ends.engines[0].reset();
  EXPECT_EQ(sent.status, BP_CANCELLED);
  ASSERT_TRUE(ends.await(received));
  EXPECT_EQ(received.status, BP_UNAVAILABLE);
}

TEST_P(EngineContractTest, UnknownPeer_IsUnavailable) {
  Ends ends = make(1);
  Transfer transfer;
  ends.send(0, 5, "h", {}, &transfer);
  EXPECT_EQ(transfer.status, BP_UNAVAILABLE);
}

TEST_P(EngineContractTest, Wake_EndsTheWaitInProgressOrTheNext) {
  Ends ends = make_connected(2);
  Transfer transfer;
  ends.send(0, 1, "h", {}, &transfer);
  ASSERT_TRUE(ends.await_arrivals(1, 1));
  const auto wait = [&] {
    const auto begin = Clock::now();
    while (ends[1].progress(ends.inboxes[1])) continue;
    ends[1].wait(begin + seconds(20));
    return Clock::now() - begin;
  };
  ends[1].wake();
  EXPECT_LT(wait(), seconds(10));
  std::thread waker([&] {
    std::this_thread::sleep_for(milliseconds(20));
    ends[1].wake();
  });
  EXPECT_LT(wait(), seconds(10));
  waker.join();
}

TEST_P(EngineContractTest, Message_EndsAWait) {
  Ends ends = make_connected(2);
  Transfer first;
  ends.send(0, 1, "first", {}, &first);
  ASSERT_TRUE(ends.await_arrivals(1, 1));
  while (ends[1].progress(ends.inboxes[1])) continue;
  std::thread sender([&] {
    std::this_thread::sleep_for(milliseconds(20));
    Transfer transfer;
    ends.send(0, 1, "second", {}, &transfer);
    const auto end = Clock::now() + seconds(1);
    while (Clock::now() < end && ends[0].progress(ends.inboxes[0])) continue;
  });
  const auto begin = Clock::now();
  while (ends.inboxes[1].arrived.size() < 2 && Clock::now() < begin + seconds(20)) {
    if (!ends[1].progress(ends.inboxes[1])) ends[1].wait(begin + seconds(20));
  }
  sender.join();
  EXPECT_EQ(ends.inboxes[1].arrived.size(), 2u);
  EXPECT_LT(Clock::now() - begin, seconds(10));
}

TEST_P(EngineContractTest, PastTime_EndsAWaitAtOnce) {
  Ends ends = make(1);
  ends[0].wait(Clock::time_point::min());
  const auto begin = Clock::now();
  ends[0].wait(begin + milliseconds(5));
  EXPECT_LT(Clock::now() - begin, seconds(10));
}

TEST_P(EngineContractTest, GarbageForAnAddress_IsRefused) {
  Ends ends = make(2);
  const std::string good = ends[1].address();
  std::mt19937 random(1);
  for (int i = 0; i < 5'000; ++i) {
    std::string bad;
    if (i % 3 == 0) {
      bad.resize(random() % 300);
      for (char& byte : bad) byte = static_cast<char>(random());
    } else if (i % 3 == 1) {
      bad = good.substr(0, random() % good.size());
      if (GetParam() == EngineKind::kLoop) bad = "loop" + std::string(i % 7, '1');
    } else {
      bad = good;
      bad[random() % bad.size()] ^= static_cast<char>(1 + random() % 255);
      if (GetParam() == EngineKind::kLoop) bad[0] = 'x';
    }
    ASSERT_EQ(ends[0].connect(1, bad).code(), BP_INVALID_ARGUMENT) << i;
  }
  EXPECT_TRUE(ends[0].connect(1, good).ok());
}

INSTANTIATE_TEST_SUITE_P(All, EngineContractTest,
                         testing::Values(EngineKind::kLoop, EngineKind::kShared,
                                         EngineKind::kNetwork, EngineKind::kProvenLoop,
                                         EngineKind::kProvenShared),
                         [](const auto& of) { return kind_name(of.param); });

}  // namespace
}  // namespace bp::ccl
