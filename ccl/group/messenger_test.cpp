// SPDX-License-Identifier: Apache-2.0
//
// The loop engine and the messenger over it: order, sizes, ends that go, garbage for a group.
#include "ccl/group/messenger.hpp"

#include <gmock/gmock.h>

#include <deque>
#include <thread>

#include "ccl/group/control.hpp"
#include "ccl/group/lanes.hpp"

namespace bp::ccl {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Arrived {
  uint32_t peer;
  Header header;
  uint64_t bytes;
  uint64_t token;
};

struct RecordingInbox final : Inbox {
  void message_arrived(uint32_t peer, std::span<const std::byte> header, uint64_t bytes,
                       uint64_t token) noexcept override {
    arrived.push_back({peer, read_header(header).value_or(Header{.group = 999}), bytes, token});
  }
  void peer_lost(uint32_t peer, const Status&) noexcept override { lost.push_back(peer); }
  std::vector<Arrived> arrived;
  std::vector<uint32_t> lost;
};

class LoopEngineTest : public testing::Test {
 protected:
  LoopEngineTest() : a_(make_loop_engine()), b_(make_loop_engine()) {
    EXPECT_TRUE(a_->connect(1, b_->address()).ok());
    EXPECT_TRUE(b_->connect(0, a_->address()).ok());
  }
  void send(uint64_t sequence, const std::vector<std::byte>& payload, Transfer* transfer) {
    const Header header{.sequence = sequence, .bytes = payload.size()};
    a_->send(1, bytes_of(header), payload.data(), payload.size(), transfer);
  }
  std::unique_ptr<Engine> a_;
  std::unique_ptr<Engine> b_;
  RecordingInbox inbox_;
};

TEST_F(LoopEngineTest, Messages_ComeInOrderWithTheirBytes) {
  const std::vector<size_t> sizes = {0, 1, 8192, 8193, 1 << 20};
  std::deque<Transfer> transfers(sizes.size());
  std::vector<std::vector<std::byte>> payloads;
  for (size_t i = 0; i < sizes.size(); ++i) {
    payloads.emplace_back(sizes[i], static_cast<std::byte>(i + 1));
    send(i, payloads[i], &transfers[i]);
    EXPECT_EQ(transfers[i].is_over(), sizes[i] <= 8192) << "small ones are copied at once";
  }
  EXPECT_TRUE(b_->progress(inbox_));
  ASSERT_EQ(inbox_.arrived.size(), sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(inbox_.arrived[i].header.sequence, i);
    EXPECT_EQ(inbox_.arrived[i].peer, 0u);
    ASSERT_EQ(inbox_.arrived[i].bytes, sizes[i]);
    std::vector<std::byte> into(sizes[i]);
    Transfer transfer;
    b_->receive(inbox_.arrived[i].token, into.data(), &transfer);
    EXPECT_EQ(transfer.status, BP_OK);
    EXPECT_EQ(into, payloads[i]);
    EXPECT_EQ(transfers[i].status, BP_OK);
  }
}

TEST_F(LoopEngineTest, CancelledSend_IsNotTouchedAnyMore) {
  std::vector<std::byte> payload(100'000, std::byte{7});
  Transfer sent;
  send(1, payload, &sent);
  a_->cancel(&sent);
  EXPECT_EQ(sent.status, BP_CANCELLED);
  payload = {};
  b_->progress(inbox_);
  std::vector<std::byte> into(100'000);
  Transfer received;
  b_->receive(inbox_.arrived.at(0).token, into.data(), &received);
  EXPECT_EQ(received.status, BP_UNAVAILABLE);
  EXPECT_EQ(into[0], std::byte{0});
}

TEST_F(LoopEngineTest, DroppedMessage_IsSentForItsSender) {
  const std::vector<std::byte> payload(100'000);
  Transfer sent;
  send(1, payload, &sent);
  b_->progress(inbox_);
  b_->drop(inbox_.arrived.at(0).token);
  EXPECT_EQ(sent.status, BP_OK);
}

TEST_F(LoopEngineTest, EndThatGoes_IsToldBehindItsMessages) {
  Transfer sent;
  send(5, {std::byte{1}}, &sent);
  a_.reset();
  EXPECT_TRUE(b_->progress(inbox_));
  EXPECT_EQ(inbox_.arrived.size(), 1u);
  EXPECT_EQ(inbox_.lost, (std::vector<uint32_t>{0}));
  Transfer reply;
  b_->send(0, {}, nullptr, 0, &reply);
  EXPECT_EQ(reply.status, BP_UNAVAILABLE);
}

TEST_F(LoopEngineTest, ReceiverThatGoes_EndsTheSend) {
  const std::vector<std::byte> payload(100'000);
  Transfer unread;
  send(1, payload, &unread);
  b_.reset();
  EXPECT_EQ(unread.status, BP_UNAVAILABLE);
}

TEST_F(LoopEngineTest, BadAddress_IsNamed) {
  for (const char* address :
       {"", "loop:", "loop:x", "loop:0", "tcp:1", "loop:99999999999999999999"}) {
    EXPECT_EQ(a_->connect(2, address).code(), BP_INVALID_ARGUMENT) << address;
  }
  EXPECT_EQ(a_->connect(2, "loop:123456789").code(), BP_UNAVAILABLE);
}

TEST_F(LoopEngineTest, Wake_EndsAWait) {
  std::thread waker([this] {
    std::this_thread::sleep_for(milliseconds(20));
    b_->wake();
  });
  const auto begin = Clock::now();
  b_->wait(begin + seconds(20));
  EXPECT_LT(Clock::now() - begin, seconds(10));
  waker.join();
}

/// A port that counts, and answers nothing.
struct CountingPort final : Port {
  void message_arrived(uint32_t, const Header& header, uint64_t, uint64_t token) noexcept override {
    sequences.push_back(header.sequence);
    tokens.push_back(token);
  }
  void peer_lost(uint32_t peer, const Status&) noexcept override { lost.push_back(peer); }
  void messages_lost() noexcept override { ADD_FAILURE() << "no memory"; }
  bool advance(Clock::time_point) noexcept override {
    ++advances;
    return false;
  }
  bool is_busy() const noexcept override { return false; }
  Clock::time_point next_look() const noexcept override { return Clock::time_point::max(); }
  std::vector<uint64_t> sequences;
  std::vector<uint64_t> tokens;
  std::vector<uint32_t> lost;
  std::atomic<int> advances = 0;
};

/// False: so many have not come.
bool await_sequences(Messenger& messenger, const CountingPort& port, size_t count) {
  const auto have_come = [&] {
    bool found = false;
    messenger.run_exclusively([&] { found = port.sequences.size() >= count; });
    return found;
  };
  const auto end = Clock::now() + seconds(20);
  while (!have_come()) {
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
}

TEST(MessengerTest, EarlyMessages_WaitForTheirGroupAndOthersAreDropped) {
  auto engine = make_loop_engine();
  Engine* const sender = engine.get();
  const auto receiver = *Messenger::create(make_loop_engine());
  ASSERT_TRUE(sender->connect(1, receiver->address()).ok());
  ASSERT_TRUE(receiver->connect(0, sender->address()).ok());
  const std::vector<std::byte> payload(100'000);
  std::deque<Transfer> transfers(3);
  const auto send = [&](uint64_t group, uint64_t sequence, Transfer* transfer) {
    const Header header{.group = group, .sequence = sequence, .bytes = payload.size()};
    sender->send(1, bytes_of(header), payload.data(), payload.size(), transfer);
  };
  send(7, 1, &transfers[0]);
  send(7, 2, &transfers[1]);
  // This thread brings them, whenever the receiver's own runs.
  EXPECT_FALSE(receiver->drive_until([] { return false; }, Clock::now() + milliseconds(20)));
  CountingPort port;
  ASSERT_TRUE(receiver->add(7, &port).ok());
  EXPECT_EQ(receiver->add(7, &port).code(), BP_INVALID_ARGUMENT);
  // If that had the turn and was held up in it, they come with its next one.
  EXPECT_TRUE(await_sequences(*receiver, port, 2));
  receiver->run_exclusively([&] {
    EXPECT_EQ(port.sequences, (std::vector<uint64_t>{1, 2}));
    for (const uint64_t token : port.tokens) receiver->engine().drop(token);
  });
  receiver->remove(7);
  send(7, 3, &transfers[2]);  // for a group that has left: nobody waits for it
  const auto is_sent = [&] { return transfers[2].is_over(); };
  EXPECT_TRUE(receiver->drive_until(is_sent, Clock::now() + seconds(20)));
  EXPECT_EQ(port.sequences.size(), 2u);
}

TEST(MessengerTest, GarbageHeaders_ReachNoGroup) {
  const auto engine = make_loop_engine();
  const auto receiver = *Messenger::create(make_loop_engine());
  ASSERT_TRUE(engine->connect(1, receiver->address()).ok());
  ASSERT_TRUE(receiver->connect(0, engine->address()).ok());
  CountingPort port;
  ASSERT_TRUE(receiver->add(0, &port).ok());
  uint64_t state = 1;
  for (int i = 0; i < 20'000; ++i) {
    std::array<std::byte, Engine::kMostHeaderBytes> garbage{};
    for (std::byte& byte : garbage)
      byte = static_cast<std::byte>((state = state * 6364136223846793005u + 1442695040888963407u) >>
                                    56);
    Transfer transfer;
    engine->send(1, std::span(garbage).first(state % (garbage.size() + 1)), nullptr, 0, &transfer);
    EXPECT_EQ(transfer.status, BP_OK);
  }
  Header wrong{.sequence = 1};
  wrong.kind = static_cast<Kind>(kKindCount);
  Transfer transfer;
  engine->send(1, bytes_of(wrong), nullptr, 0, &transfer);
  engine->send(1, bytes_of(Header{.sequence = 77}), nullptr, 0, &transfer);
  EXPECT_TRUE(await_sequences(*receiver, port, 1));
  receiver->remove(0);
  EXPECT_EQ(port.sequences, (std::vector<uint64_t>{77}));
}

TEST(MessengerTest, ManyThreads_DriveInTurn) {
  const auto messenger = *Messenger::create(make_loop_engine());
  CountingPort port;
  ASSERT_TRUE(messenger->add(1, &port).ok());
  std::atomic<int> done = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 100; ++round) {
        const auto until = Clock::now() + std::chrono::microseconds(50);
        EXPECT_TRUE(messenger->drive_until([&] { return Clock::now() >= until; },
                                           Clock::now() + seconds(20)));
        messenger->run_exclusively([&] { ++done; });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  messenger->remove(1);
  EXPECT_EQ(done, 800);
  EXPECT_GT(port.advances, 0);
  EXPECT_FALSE(messenger->drive_until([] { return false; }, Clock::now() + milliseconds(5)));
}

TEST(FailureTest, Encoded_ComesBackAndGarbageDoesNot) {
  const Failure failure{.code = BP_TIMEOUT,
                        .words = "words",
                        .culprits = {3, 5},
                        .sequence = 118,
                        .operation = "all_reduce sum f32 3"};
  const std::string bytes = encode(failure);
  const auto read = decode_failure(bytes, 6);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->code, BP_TIMEOUT);
  EXPECT_EQ(read->words, "words");
  EXPECT_EQ(read->culprits, failure.culprits);
  EXPECT_EQ(read->sequence, 118u);
  EXPECT_EQ(read->operation, failure.operation);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_failure(bytes.substr(0, size), 6)) << size;
  }
  EXPECT_FALSE(decode_failure(bytes + "x", 6));
  uint64_t state = 7;
  for (int i = 0; i < 20'000; ++i) {
    std::string garbage = bytes;
    state = state * 6364136223846793005u + 1442695040888963407u;
    garbage[(state >> 33) % garbage.size()] = static_cast<char>(state >> 56);
    const auto decoded = decode_failure(garbage, 6);  // no crash, no more than was sent
    if (decoded) EXPECT_LE(decoded->culprits.size(), 2u);
  }
}

TEST(FailureTest, ThatNoGroupCanHave_IsMadeOne) {
  const auto told = [](bp_status code) {
    const auto read = decode_failure(encode(Failure{.code = code, .culprits = {0, 2, 3, 4711}}), 3);
    EXPECT_TRUE(read);
    EXPECT_THAT(read->culprits, testing::ElementsAre(0, 2));
    return read->code;
  };
  // Who waits would be told to ask again.
  for (const bp_status code : {BP_PENDING, BP_GONE, BP_FORKED}) EXPECT_EQ(told(code), BP_INTERNAL);
  for (const bp_status code : {BP_TIMEOUT, BP_CANCELLED, BP_UNAVAILABLE, BP_DEVICE_LOST}) {
    EXPECT_EQ(told(code), code);
  }
}

// A receiver has room for what its own operation says, and compares that with the header.
TEST(LanesTest, Arrival_IsAsLongAsItIsAndNotAsItsHeaderSays) {
  const auto messenger = *Messenger::create(make_loop_engine());
  Recorder recorder;
  Lanes lanes({*messenger, recorder, {0, 2}, {0, 1}, {"rank 0", "rank 1"}});
  for (const Kind kind : {Kind::kBroadcast, Kind::kSend}) {
    lanes.message_arrived(1, Header{.sequence = 1, .kind = kind, .bytes = 16}, 400'000, 5);
    const Arrival* const arrival = lanes.front({1, kind == Kind::kSend, 0});
    ASSERT_NE(arrival, nullptr);
    EXPECT_EQ(arrival->header.bytes, 400'000u);
  }
}

}  // namespace
}  // namespace bp::ccl
