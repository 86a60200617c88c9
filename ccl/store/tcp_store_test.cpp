// SPDX-License-Identifier: Apache-2.0
//
// A client, whose server may be late, gone, stuck or another.
#include "ccl/store/tcp_store.hpp"

#include <atomic>

#include "ccl/store/join_test.hpp"
#include "ccl/store/other_server_test.hpp"
#include "ccl/store/wire.hpp"

namespace bp::ccl {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST(TcpStoreTest, ServerKilledUnderWaits_IsUnavailableAtOnce) {
  OtherServer server;
  const auto client = server.client();
  ASSERT_TRUE(client->set("a", "1").ok());
  std::atomic<int> ended = 0;
  std::vector<std::jthread> threads;
  for (const char* key : {"x", "y", "z"}) {
    threads.emplace_back([&, key] {
      const auto got = client->get(key, soon());
      EXPECT_EQ(got.status().code(), BP_UNAVAILABLE);
      EXPECT_THAT(words_of(got), HasSubstr("tcp " + server.endpoint + ": the "));
      ++ended;
    });
  }
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(ended, 0);
  const auto begin = Store::Clock::now();
  server.end();
  threads.clear();
  EXPECT_LT(Store::Clock::now() - begin, seconds(5));
  EXPECT_EQ(ended, 3);
  for (const Status& status :
       {client->set("a", "1"), client->get("a", soon()).status(), client->try_get("a").status(),
        client->add("a", 1).status(), client->compare_set("a", "1", "2").status(),
        client->remove("a").status(), client->share()->set("a", "1")}) {
    EXPECT_EQ(status.code(), BP_UNAVAILABLE);
    EXPECT_THAT(status.message(), HasSubstr("tcp " + server.endpoint));
  }
}

TEST(TcpStoreTest, ServerKilledBetweenCalls_NextCallIsUnavailable) {
  OtherServer server;
  const auto client = server.client();
  server.end();
  const Status status = client->set("a", std::string(Store::kMostValueBytes, 'v'));
  EXPECT_EQ(status.code(), BP_UNAVAILABLE);
  EXPECT_THAT(status.message(), StartsWith("tcp " + server.endpoint + ": "));
}

TEST(TcpStoreTest, ServerStopped_IsTimeoutAndGoesOnLater) {
  OtherServer server;
  const auto patient = server.client();
  const auto client = server.client(milliseconds(150));
  ASSERT_TRUE(patient->set("a", "1").ok());
  server.signal(SIGSTOP);
  const Status set = client->set("a", "2");
  EXPECT_EQ(set.code(), BP_TIMEOUT);
  EXPECT_EQ(set.message(), "tcp " + server.endpoint + ": the store does not answer");
  const auto begin = Store::Clock::now();
  const auto got = client->get("a", in(milliseconds(100)));
  EXPECT_EQ(got.status().code(), BP_TIMEOUT);
  EXPECT_THAT(words_of(got), HasSubstr("the store does not answer"));
  EXPECT_GE(Store::Clock::now() - begin, milliseconds(1000));
  EXPECT_LT(Store::Clock::now() - begin, milliseconds(6000));
  server.signal(SIGCONT);
  EXPECT_EQ(value_of(client->get("a", soon())), "2") << "it happened all the same";
  EXPECT_TRUE(patient->set("a", "3").ok());
}

/// Who looks who is missing must not wait for a silent store as long as who asks it for something.
TEST(TcpStoreTest, ServerStoppedUnderAWait_IsToldAndEndsItInTime) {
  const OtherServer server;
  const auto client = server.client(seconds(30), milliseconds(50));
  std::vector<std::string> lines;
  const auto tell = [&](const std::string& line) {
    lines.push_back(line);
    if (lines.size() == 1) server.signal(SIGSTOP);
  };
  const auto words = [&]() -> std::string {
    const auto missing = missing_numbers(*client, 0, 2, [](uint32_t) { return "rank"; });
    if (!missing.ok()) return unknown_words("rank 1", missing.status());
    return "rank 1 waits for " + std::to_string(missing->size());
  };
  const auto begin = Store::Clock::now();
  ToldWait wait(in(seconds(3)), {.first = milliseconds(0), .next = milliseconds(1), .tell = tell},
                words);
  EXPECT_EQ(wait.get(*client, "all").status().code(), BP_TIMEOUT);
  EXPECT_GE(Store::Clock::now() - begin, seconds(3));
  EXPECT_LT(Store::Clock::now() - begin, seconds(20)) << "less than a call may take";
  ASSERT_GE(lines.size(), 2u);
  EXPECT_THAT(lines[0], StartsWith("rank 1 waits for 2; for "));
  EXPECT_THAT(lines[1], StartsWith("rank 1 waits, and for whom is not known: tcp " +
                                   server.endpoint + ": the store does not answer; for "));
  server.signal(SIGCONT);
  EXPECT_TRUE(client->set("all", "1").ok());
}

TEST(TcpStoreTest, ServerThatDoesNotRead_TakesNoMoreThanFits) {
  OtherServer server;
  const auto client = server.client(milliseconds(20));
  server.signal(SIGSTOP);
  const std::string large(Store::kMostValueBytes, 'v');
  Status status;
  for (int i = 0; i < 40; ++i) {
    status = client->set("large", large);
    EXPECT_EQ(status.code(), BP_TIMEOUT);
    if (status.message().find("does not read") != std::string::npos) break;
  }
  EXPECT_EQ(status.message(), client->name() + ": the store does not read what it is sent");
  server.signal(SIGCONT);
  EXPECT_TRUE(comes_true([&] { return client->set("small", "1").ok(); }));
  EXPECT_TRUE(value_of(client->get("large", soon())) == large);
}

TEST(TcpStoreTest, ServerEnds_EndsWaits) {
  auto server = std::make_unique<TestServer>();
  const auto client = server->client();
  const std::string name = client->name();
  std::jthread waits([&] {
    const auto got = client->get("never", soon());
    // A request that the server has not read yet makes its end a reset.
    const std::string who = "UNAVAILABLE: " + name + ": ";
    EXPECT_THAT(words_of(got), AnyOf(who + "the store closed the connection",
                                     who + "the connection failed: Connection reset by peer"));
  });
  std::this_thread::sleep_for(milliseconds(30));
  server = nullptr;
}

TEST(TcpStoreTest, NobodyListens_IsUnavailableAtTheDeadline) {
  std::string endpoint;
  {
    const TestServer server;
    endpoint = server.server->endpoint();
  }
  const auto begin = Store::Clock::now();
  const auto client = connect_tcp_store({.endpoint = endpoint,
                                         .token = new_token(),
                                         .job = "job",
                                         .deadline = in(milliseconds(100))});
  EXPECT_EQ(client.status().code(), BP_UNAVAILABLE);
  EXPECT_THAT(words_of(client), HasSubstr(endpoint + ": cannot connect: Connection refused"));
  EXPECT_GE(Store::Clock::now() - begin, milliseconds(100));
  EXPECT_LT(Store::Clock::now() - begin, seconds(5));
}

TEST(TcpStoreTest, ServerThatComesLater_IsWaitedFor) {
  const auto token = new_token();
  std::string endpoint;
  {
    const TestServer server;
    endpoint = server.server->endpoint();
  }
  std::unique_ptr<TcpServer> server;
  std::jthread later([&] {
    std::this_thread::sleep_for(milliseconds(50));
    server = value_of(
        TcpServer::start({.endpoint = endpoint, .token = token, .job = std::string(kTestJob)}));
  });
  const auto client = value_of(connect_tcp_store(
      {.endpoint = endpoint, .token = token, .job = std::string(kTestJob), .deadline = soon()}));
  ASSERT_NE(client, nullptr);
  EXPECT_TRUE(client->set("a", "1").ok());
}

/// A listener that is no server of ours, and says what it is told to say to the first who comes.
class Impostor {
 public:
  explicit Impostor(std::function<void(int socket)> talk)
      : listener_(value_of(listen_at(
            value_of(SocketAddress::of_address(value_of(parse_endpoint("127.0.0.1:0"))))))),
        thread_([this, talk] {
          Awaited awaited{listener_.get(), false, false};
          if (!wait_for_ready({&awaited, 1}, soon())) return;
          const Accepted accepted = accept_from(listener_.get());
          talk(accepted.socket.get());
        }) {}
  std::string endpoint() const {
    return value_of(SocketAddress::of_socket(listener_.get())).text();
  }
  static std::string receive(int socket, size_t bytes) {
    std::string got(bytes, '\0');
    size_t done = 0;
    while (done < bytes) {
      Awaited awaited{socket, false, false};
      if (!wait_for_ready({&awaited, 1}, soon())) break;
      const SocketTransfer transfer = receive_from(socket, std::span(got).subspan(done));
      if (transfer.has_ended || transfer.error != 0) break;
      done += transfer.bytes;
    }
    return got;
  }
  static void send(int socket, std::string_view bytes) { send_to(socket, {&bytes, 1}); }

 private:
  Descriptor listener_;
  std::jthread thread_;
};

Result<std::shared_ptr<Store>> connect_to_impostor(const Impostor& impostor, milliseconds time) {
  return connect_tcp_store(
      {.endpoint = impostor.endpoint(), .token = new_token(), .job = "job", .deadline = in(time)});
}

TEST(TcpStoreTest, ServerThatDoesNotKnowTheToken_IsRefused) {
  const Impostor impostor([](int socket) {
    Impostor::receive(socket, 52);
    Impostor::send(socket, std::string("BPHS\1\2\x20\0", 8) + std::string(32, 'n'));
    const std::string proof = Impostor::receive(socket, 40);
    Impostor::send(socket, std::string("BPHS\1\4\x20\0", 8) + proof.substr(8));
    Impostor::receive(socket, 1);
  });
  const auto client = connect_to_impostor(impostor, seconds(60));
  EXPECT_EQ(client.status().code(), BP_INVALID_ARGUMENT);
  EXPECT_EQ(client.status().message(),
            "tcp " + impostor.endpoint() +
                ": the peer does not know the token of this job, or is of another job");
}

TEST(TcpStoreTest, ServerOfAnotherKind_IsIncompatible) {
  const Impostor impostor([](int socket) {
    Impostor::send(socket, "220 mail.example.org ESMTP\r\n");
    Impostor::receive(socket, 100);
  });
  const auto client = connect_to_impostor(impostor, seconds(60));
  EXPECT_EQ(client.status().code(), BP_INCOMPATIBLE);
  EXPECT_THAT(words_of(client), HasSubstr("expected a handshake, found '220 mail'"));
}

TEST(TcpStoreTest, ServerThatSaysNothing_IsTimeoutAtTheDeadline) {
  const Impostor impostor([](int socket) { Impostor::receive(socket, 100); });
  const auto begin = Store::Clock::now();
  const auto client = connect_to_impostor(impostor, milliseconds(100));
  EXPECT_EQ(client.status().code(), BP_TIMEOUT);
  EXPECT_THAT(words_of(client), HasSubstr("did not answer the handshake by the deadline"));
  EXPECT_GE(Store::Clock::now() - begin, milliseconds(100));
  EXPECT_LT(Store::Clock::now() - begin, seconds(5));
}

TEST(TcpStoreTest, ServerThatLeaves_IsUnavailable) {
  const Impostor impostor([](int socket) { Impostor::receive(socket, 52); });
  const auto client = connect_to_impostor(impostor, seconds(60));
  EXPECT_EQ(client.status().code(), BP_UNAVAILABLE);
  EXPECT_THAT(words_of(client), HasSubstr("closed the connection during the handshake"));
}

/// A server that knows the token, and then says what it likes.
std::string said_after_welcome(const std::string& bytes) {
  const auto token = new_token();
  const Impostor impostor([&](int socket) {
    auto handshake =
        value_of(Handshake::begin(Handshake::Side::kAccepts, {.token = token, .job = "job"}));
    EXPECT_TRUE(handshake.receive(Impostor::receive(socket, 52)).ok());
    Impostor::send(socket, handshake.take_output());
    EXPECT_TRUE(handshake.receive(Impostor::receive(socket, 40)).ok());
    Impostor::send(socket, handshake.take_output());
    Impostor::receive(socket, 1);
    Impostor::send(socket, bytes);
    Impostor::receive(socket, 1000);
  });
  const auto client = value_of(connect_tcp_store(
      {.endpoint = impostor.endpoint(), .token = token, .job = "job", .deadline = soon()}));
  return words_of(client->set("a", "1"));
}

TEST(TcpStoreTest, AnswersThatCannotBe_EndTheConnection) {
  EXPECT_THAT(said_after_welcome(std::string(16, '\xFF')),
              HasSubstr("the server sent what is no answer: there is no request 255"));
  EXPECT_THAT(said_after_welcome(encode_answer_head({.number = 99})),
              HasSubstr("an answer to a request that was not made"));
  EXPECT_THAT(said_after_welcome(encode_request({.opcode = Opcode::kTryGet, .key = "a"})),
              HasSubstr("a request is no answer"));
}

TEST(TcpStoreTest, EndpointsThatCannotBe_AreRefused) {
  const auto words_for = [](std::string endpoint) {
    return words_of(connect_tcp_store(
        {.endpoint = std::move(endpoint), .token = new_token(), .job = "job", .deadline = soon()}));
  };
  EXPECT_THAT(words_for("eth0:1"), HasSubstr("expected the address of the peer, found 'eth0'"));
  EXPECT_THAT(words_for("127.0.0.1"), HasSubstr("it has no port"));
  EXPECT_THAT(words_of(connect_tcp_store({.endpoint = "127.0.0.1:1", .job = "job"})),
              HasSubstr("a handshake needs a token"));
}

TEST(TcpStoreTest, ManyThreads_LargeAndSmallTogether) {
  const TestServer server;
  const auto client = server.client();
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const std::string key = std::to_string(i);
      const std::string value(i % 2 == 0 ? Store::kMostValueBytes - i : i, 'v');
      for (int k = 0; k < 10; ++k) {
        EXPECT_TRUE(client->set(key, value).ok());
        EXPECT_TRUE(value_of(client->get(key, soon())) == value);
      }
    });
  }
}

TEST(TcpStoreTest, WaitsThatEndOneByOne_HandOnTheReading) {
  const TestServer server;
  const auto client = server.client();
  std::vector<std::jthread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      const auto got = client->get("never", in(milliseconds(20 + 15 * i)));
      EXPECT_EQ(got.status().code(), BP_TIMEOUT);
      EXPECT_THAT(words_of(got), HasSubstr("nobody has set the key 'never'"));
    });
  }
  std::jthread last([&] { EXPECT_EQ(value_of(client->get("at last", soon())), "1"); });
  threads.clear();
  EXPECT_TRUE(server.client()->set("at last", "1").ok());
}

TEST(TcpStoreTest, FewHundredClients_Join) { EXPECT_LE(join_clients(256), seconds(20)); }

}  // namespace
}  // namespace bp::ccl
