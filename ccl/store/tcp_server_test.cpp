// SPDX-License-Identifier: Apache-2.0
//
// Where a server listens, and what it makes of peers that are no clients.
#include "ccl/store/tcp_server.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <random>

#include "ccl/store/store_harness_test.hpp"
#include "ccl/store/wire.hpp"

namespace bp::ccl {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TcpServerOptions options_at(std::string endpoint) {
  return {.endpoint = std::move(endpoint), .token = new_token(), .job = std::string(kTestJob)};
}

std::string bytes_of(std::mt19937* random, size_t most) {
  std::string bytes((*random)() % most, '\0');
  for (char& byte : bytes) byte = static_cast<char>((*random)());
  return bytes;
}

// --- where it listens ---

TEST(TcpServerTest, NoEndpointGiven_IsALoopbackPort) {
  const TestServer server;
  EXPECT_THAT(server.server->endpoint(), StartsWith("127.0.0.1:"));
  EXPECT_THAT(server.server->endpoint(), Not(testing::EndsWith(":0")));
  EXPECT_TRUE(server.client()->set("a", "1").ok());
}

TEST(TcpServerTest, Interface_IsItsAddress) {
  const TestServer server(options_at("lo:0"));
  EXPECT_THAT(server.server->endpoint(), StartsWith("127.0.0.1:"));
  EXPECT_TRUE(server.client()->set("a", "1").ok());
}

TEST(TcpServerTest, UnknownInterface_IsAnErrorWithThoseThatThereAre) {
  const auto server = TcpServer::start(options_at("nope0:0"));
  EXPECT_EQ(server.status().code(), BP_UNAVAILABLE);
  EXPECT_THAT(words_of(server), testing::ContainsRegex("'nope0' is not there; there are .*lo"));
}

TEST(TcpServerTest, Ipv6_ServesClients) {
  auto started = TcpServer::start(options_at("[::1]:0"));
  if (!started.ok()) GTEST_SKIP() << "no IPv6 here: " << words_of(started);
  const TestServer server(options_at("[::1]:0"));
  EXPECT_THAT(server.server->endpoint(), StartsWith("[::1]:"));
  const auto client = server.client();
  EXPECT_EQ(client->name(), "tcp " + server.server->endpoint());
  ASSERT_TRUE(client->set("a", "1").ok());
  EXPECT_EQ(value_of(server.client()->get("a", soon())), "1");
}

TEST(TcpServerTest, PortThatIsTaken_IsAnErrorWithAddressAndPort) {
  const TestServer first;
  const auto second = TcpServer::start(options_at(first.server->endpoint()));
  EXPECT_EQ(second.status().code(), BP_UNAVAILABLE);
  EXPECT_EQ(second.status().message(),
            first.server->endpoint() + ": cannot bind: Address already in use");
}

TEST(TcpServerTest, PortOfAServerThatHasGone_IsFreeAtOnce) {
  std::string endpoint;
  std::shared_ptr<Store> client;  // still there when the server closes
  {
    const TestServer server;
    endpoint = server.server->endpoint();
    client = server.client();
  }
  EXPECT_EQ(words_of(TcpServer::start(options_at(endpoint))), "OK");
}

TEST(TcpServerTest, OptionsThatCannotBe_AreRefused) {
  EXPECT_THAT(words_of(TcpServer::start({.job = "job"})), HasSubstr("a handshake needs a token"));
  EXPECT_THAT(words_of(TcpServer::start(options_at("localhost.example:0"))),
              HasSubstr("names of hosts are not looked up"));
  auto long_job = options_at("127.0.0.1:0");
  long_job.job = std::string(257, 'j');
  EXPECT_THAT(words_of(TcpServer::start(std::move(long_job))), HasSubstr("at most 256 bytes"));
  EXPECT_THAT(words_of(TcpServer::start(options_at("192.0.2.77:0"))),
              HasSubstr("192.0.2.77:0: cannot bind: Cannot assign requested address"));
}

/// A socket as a launcher makes it.
int bound_socket(int type, bool is_bound = true) {
  const int made = socket(AF_INET, type, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (is_bound) {
    EXPECT_EQ(bind(made, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  return made;
}

TEST(TcpServerTest, BoundSocket_IsTaken) {
  const int bound = bound_socket(SOCK_STREAM);
  const std::string endpoint = value_of(SocketAddress::of_socket(bound)).text();
  auto options = options_at("");
  options.bound_socket = bound;
  const TestServer server(std::move(options));
  EXPECT_EQ(server.server->endpoint(), endpoint);
  EXPECT_TRUE(server.client()->set("a", "1").ok());
  EXPECT_NE(fcntl(bound, F_GETFD) & FD_CLOEXEC, 0);
}

TEST(TcpServerTest, SocketThatCannotBe_IsRefusedAndClosed) {
  const auto words_for = [](int bound) {
    auto options = options_at("");
    options.bound_socket = bound;
    const auto server = TcpServer::start(std::move(options));
    EXPECT_EQ(server.status().code(), BP_INVALID_ARGUMENT);
    EXPECT_EQ(fcntl(bound, F_GETFD), -1) << "it was the server's";
    return words_of(server);
  };
  EXPECT_THAT(words_for(bound_socket(SOCK_STREAM, false)),
              HasSubstr("is no bound stream socket: it has no port"));
  EXPECT_THAT(words_for(bound_socket(SOCK_DGRAM)), HasSubstr("its type is another"));
  EXPECT_THAT(words_for(open("/dev/null", O_RDONLY)), HasSubstr("Socket operation on non-socket"));
  EXPECT_THAT(words_for(socket(AF_UNIX, SOCK_STREAM, 0)), HasSubstr("no socket of IPv4 or IPv6"));
}

// --- who may not use it ---

TEST(TcpServerTest, WrongToken_IsRefusedAndLoggedWithoutTheTokens) {
  const LogLines lines;
  const TestServer server;
  auto options = server.client_options();
  options.token = new_token();
  const auto client = connect_tcp_store(options);
  EXPECT_EQ(client.status().code(), BP_INVALID_ARGUMENT);
  EXPECT_EQ(client.status().message(),
            "tcp " + server.server->endpoint() +
                ": the peer refused: this process does not know the token of the peer's job, or is "
                "of another job");
  EXPECT_TRUE(lines.has("store tcp " + server.server->endpoint() + ": refused 127.0.0.1:"));
  EXPECT_TRUE(lines.has(": the peer does not know the token of this job, or is of another job"));
  for (const auto& token : {server.token, options.token}) {
    const std::string digits = token->text();
    for (size_t at = 0; at + 8 <= digits.size(); at += 4) {
      EXPECT_EQ(lines.count(digits.substr(at, 8)), 0u);
      EXPECT_THAT(client.status().message(), Not(HasSubstr(digits.substr(at, 8))));
    }
  }
  EXPECT_EQ(server.server->client_count(), 0u);
  EXPECT_TRUE(server.client()->set("a", "1").ok());
}

TEST(TcpServerTest, WrongTokenManyTimes_IsLoggedOnce) {
  const LogLines lines;
  const TestServer server;
  auto options = server.client_options();
  options.token = new_token();
  for (int i = 0; i < 50; ++i) EXPECT_FALSE(connect_tcp_store(options).ok());
  EXPECT_TRUE(lines.has("refused"));
  EXPECT_EQ(lines.all().size(), 1u);
}

TEST(TcpServerTest, OtherJob_IsRefused) {
  const LogLines lines;
  const TestServer server;
  auto options = server.client_options();
  options.job = "test/2";
  EXPECT_THAT(words_of(connect_tcp_store(options)), HasSubstr("or is of another job"));
}

TEST(TcpServerTest, ReplayedHandshake_IsRefused) {
  const LogLines lines;
  const TestServer server;
  RawClient good(server.server->endpoint());
  const std::string said = good.shake_hands(server);
  ASSERT_EQ(said.size(), 92u);
  RawClient bad(server.server->endpoint());
  ASSERT_TRUE(bad.send(said.substr(0, 52)));
  ASSERT_EQ(bad.receive(40).size(), 40u);
  bad.send(said.substr(52));
  EXPECT_EQ(bad.receive(100).size(), 12u) << "a refusal, and no welcome";
  EXPECT_TRUE(bad.is_closed());
  EXPECT_TRUE(lines.has("the peer does not know the token of this job"));
  EXPECT_EQ(server.server->client_count(), 1u);
}

TEST(TcpServerTest, RequestsBeforeTheHandshake_AreNotHeard) {
  const LogLines lines;
  const TestServer server;
  RawClient bad(server.server->endpoint());
  bad.send(encode_request({.opcode = Opcode::kSet, .number = 1, .key = "a", .value = "1"}));
  EXPECT_TRUE(bad.is_closed());
  EXPECT_TRUE(lines.has("the peer does not speak this protocol"));
  EXPECT_EQ(value_of(server.client()->try_get("a")), std::nullopt);
}

TEST(TcpServerTest, GarbageByThousands_HarmsNobody) {
  const LogLines lines;
  const TestServer server;
  const auto client = server.client();
  const size_t descriptors = open_descriptors();
  std::mt19937 random(20261127);
  for (int i = 0; i < 3000; ++i) {
    RawClient bad(server.server->endpoint());
    std::string bytes = bytes_of(&random, 300);
    // Some begin well.
    if (i % 3 == 0) bytes = std::string("BPHS\1\1\x2C\0", 8) + bytes;
    bad.send(bytes);
    if (i % 100 == 0) {
      ASSERT_TRUE(client->set("a", std::to_string(i)).ok());
      EXPECT_EQ(value_of(client->get("a", soon())), std::to_string(i));
    }
  }
  EXPECT_TRUE(comes_true([&] { return open_descriptors() <= descriptors; }));
  EXPECT_EQ(server.server->client_count(), 1u);
  EXPECT_LE(lines.all().size(), 20u) << "one in ten seconds";
}

TEST(TcpServerTest, GarbageFromKnownClients_EndsTheirConnectionsOnly) {
  const LogLines lines;
  const TestServer server;
  const auto client = server.client();
  ASSERT_TRUE(client->set("a", "1").ok());
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    RawClient bad(server.server->endpoint());
    bad.shake_hands(server);
    bad.send(bytes_of(&random, 2000));
    // No opcode.
    EXPECT_TRUE(!bad.send(std::string(16, '\xFF')) || bad.is_closed());
  }
  EXPECT_EQ(value_of(client->get("a", soon())), "1");
  EXPECT_TRUE(comes_true([&] { return server.server->client_count() == 1; }));
  EXPECT_TRUE(lines.has("refused 127.0.0.1:"));
}

TEST(TcpServerTest, LengthBeyondTheCap_IsRefusedByTheHeader) {
  const LogLines lines;
  const TestServer server;
  RawClient bad(server.server->endpoint());
  bad.shake_hands(server);
  std::string header = encode_request({.opcode = Opcode::kSet, .number = 1, .key = "a"});
  header.resize(kFrameHeaderBytes);
  header.replace(0, 4, "\xFF\xFF\xFF\xFF");
  bad.send(header);
  EXPECT_TRUE(bad.is_closed());
  EXPECT_TRUE(lines.has("a request 1 has at most 1049602 bytes, found 4294967295"));
}

TEST(TcpServerTest, SlowPeers_HoldNobodyAndAreClosed) {
  const LogLines lines;
  TcpServerOptions options = options_at("127.0.0.1:0");
  options.handshake_timeout = seconds(6);  // which the good client has, too
  const TestServer server(std::move(options));
  std::vector<std::unique_ptr<RawClient>> slow;
  const auto begin = Store::Clock::now();
  for (int i = 0; i < 50; ++i) {
    slow.push_back(std::make_unique<RawClient>(server.server->endpoint()));
    slow.back()->send(std::string_view("BPHS\1").substr(0, static_cast<size_t>(i % 6)));
  }
  const auto come = Store::Clock::now();
  const auto client = server.client();
  EXPECT_TRUE(client->set("a", "1").ok());
  EXPECT_LT(Store::Clock::now() - come, seconds(4)) << "nobody waits for the slow";
  for (const auto& peer : slow) EXPECT_TRUE(peer->is_closed());
  EXPECT_GE(Store::Clock::now() - begin, seconds(6));
  EXPECT_TRUE(lines.has("the peer did not finish the handshake within 6000 ms"));
  EXPECT_EQ(value_of(client->get("a", soon())), "1") << "a client that is known stays";
}

TEST(TcpServerTest, PeerThatOnlyLooks_IsNotLogged) {
  const LogLines lines;
  const TestServer server;
  { const RawClient looks(server.server->endpoint()); }
  EXPECT_TRUE(server.client()->set("a", "1").ok());
  EXPECT_EQ(lines.all().size(), 0u);
}

// --- limits ---

TEST(TcpServerTest, ClientThatDoesNotRead_HoldsNobody) {
  const TestServer server;
  const auto client = server.client();
  const std::string large(Store::kMostValueBytes, 'v');
  ASSERT_TRUE(client->set("large", large).ok());
  RawClient greedy(server.server->endpoint());
  greedy.shake_hands(server);
  constexpr uint64_t kTimes = 100;
  for (uint64_t i = 1; i <= kTimes; ++i) {
    greedy.send(encode_request({.opcode = Opcode::kTryGet, .number = i, .key = "large"}));
  }
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(client->set("a", std::to_string(i)).ok());
  const size_t answer_bytes = kFrameHeaderBytes + 1 + large.size();
  for (uint64_t i = 1; i <= kTimes; ++i) {
    const std::string got = greedy.receive(answer_bytes);
    ASSERT_EQ(got.size(), answer_bytes) << i;
    const Answer answer = value_of(decode_answer(*value_of(next_frame(got))));
    EXPECT_EQ(answer.number, i);
    EXPECT_TRUE(answer.text == large);
  }
}

TEST(TcpServerTest, ClientThatAsksAndDoesNotRead_IsNotReadEither) {
  const TestServer server;
  const auto client = server.client();
  ASSERT_TRUE(client->set("large", std::string(Store::kMostValueBytes, 'v')).ok());
  RawClient greedy(server.server->endpoint());
  greedy.shake_hands(server);
  const std::string request = encode_request({.opcode = Opcode::kTryGet, .key = "large"});
  std::string requests;
  while (requests.size() < 64'000) requests += request;
  bool is_held = false;
  uint64_t sent_bytes = 0;
  const std::string_view piece = requests;
  while (!is_held && sent_bytes < (uint64_t{64} << 20)) {
    const SocketTransfer transfer = send_to(greedy.descriptor(), {&piece, 1});
    sent_bytes += transfer.bytes;
    pollfd room = {greedy.descriptor(), POLLOUT, 0};
    is_held = transfer.would_wait && poll(&room, 1, 300) == 0;
    ASSERT_EQ(transfer.error, 0);
  }
  EXPECT_TRUE(is_held) << "more than the system's buffers take";
  EXPECT_TRUE(client->set("a", "1").ok());
}

TEST(TcpServerTest, MoreThanTheStoreMayHold_IsOutOfMemory) {
  TcpServerOptions options = options_at("127.0.0.1:0");
  options.most_bytes = 10'000;
  const TestServer server(std::move(options));
  const auto client = server.client();
  ASSERT_TRUE(client->set("a", std::string(5000, 'a')).ok());
  const Status status = client->set("b", std::string(6000, 'b'));
  EXPECT_EQ(status.code(), BP_OUT_OF_MEMORY);
  EXPECT_THAT(status.message(), StartsWith(client->name() + ": no room for the key 'b': "));
  ASSERT_TRUE(client->set("a", std::string(9000, 'a')).ok()) << "it takes the place of the first";
  EXPECT_TRUE(value_of(client->remove("a")));
  EXPECT_TRUE(client->set("b", std::string(6000, 'b')).ok());
}

milliseconds processor_time() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto as_time = [](const timeval& time) {
    return seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
  };
  return std::chrono::ceil<milliseconds>(as_time(usage.ru_utime) + as_time(usage.ru_stime));
}

TEST(TcpServerTest, NoDescriptorsLeft_OthersGoOnAndLaterOnesAreServed) {
  const LogLines lines;
  const TestServer server;
  const auto client = server.client();
  const auto address =
      value_of(SocketAddress::of_address(value_of(parse_endpoint(server.server->endpoint()))));
  const Descriptor waiting(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  // The lowest that is free: none of that number and above can be had.
  const int lowest = dup(waiting.get());
  close(lowest);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(lowest);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_EQ(connect(waiting.get(), address.get(), address.size()), 0);
  const bool is_told = lines.has("store tcp " + server.server->endpoint() +
                                 ": cannot accept a client, and tries again: Too many open files");
  const Status status = client->set("a", "1");
  const milliseconds worked_before = processor_time();
  std::this_thread::sleep_for(milliseconds(300));
  const milliseconds worked = processor_time() - worked_before;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_LT(worked, milliseconds(100)) << "it does not try all the time";
  EXPECT_TRUE(is_told);
  EXPECT_EQ(words_of(status), "OK");
  EXPECT_EQ(value_of(server.client()->get("a", soon())), "1");
  EXPECT_EQ(lines.count("cannot accept"), 1u);
}

TEST(TcpServerTest, Ended_LeavesNoThreadAndNoDescriptor) {
  const size_t threads = running_threads();
  const size_t descriptors = open_descriptors();
  for (int i = 0; i < 20; ++i) {
    const TestServer server;
    std::vector<std::shared_ptr<Store>> clients;
    for (int k = 0; k < 5; ++k) clients.push_back(server.client());
    EXPECT_TRUE(clients[0]->set("a", "1").ok());
    EXPECT_EQ(running_threads(), threads + 1) << "clients have none";
  }
  EXPECT_EQ(running_threads(), threads);
  EXPECT_EQ(open_descriptors(), descriptors);
}

TEST(TcpServerTest, NothingIsInherited) {
  const TestServer server;
  const auto client = server.client();
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::stoi(entry.path().filename());
    const int flags = fcntl(descriptor, F_GETFD);
    struct stat info = {};
    if (flags < 0 || fstat(descriptor, &info) != 0 || !S_ISSOCK(info.st_mode)) continue;
    EXPECT_NE(flags & FD_CLOEXEC, 0) << std::filesystem::read_symlink(entry.path());
  }
}

TEST(TcpServerTest, EndedByALogSink_Ends) {
  std::unique_ptr<TcpServer> server = value_of(TcpServer::start(options_at("127.0.0.1:0")));
  std::atomic<bool> has_ended = false;
  set_log_sink([&](uint32_t, std::string_view) {
    server = nullptr;
    has_ended = true;
  });
  RawClient bad(server->endpoint());
  bad.send("GET / HTTP/1.1\r\n");
  EXPECT_TRUE(comes_true([&] { return has_ended.load(); }));
  EXPECT_TRUE(bad.is_closed());
  set_log_sink({});
}

}  // namespace
}  // namespace bp::ccl
