// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ccl/store/join_test.hpp"
#include "ccl/store/wire.hpp"

namespace bp::ccl {
namespace {

/// The best of a few: a machine may do much else at the time of one.
TEST(StoreScaleTest, FourThousandClients_JoinWithinFiveSeconds) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr seconds kLongest{20};
#else
  constexpr seconds kLongest{5};
#endif
  auto best = join_clients(4096);
  for (int more = 0; more < 2 && best > kLongest; ++more) {
    best = std::min(best, join_clients(4096));
  }
  EXPECT_LE(best, kLongest);
}

/// As at a barrier: all wait for one key, which then comes.
TEST(StoreScaleTest, FourThousandWaits_AreAllAnswered) {
  const TestServer server;
  std::vector<std::unique_ptr<RawClient>> clients;
  const std::string request = encode_request(
      {.opcode = Opcode::kGet, .number = 7, .key = "go", .wait = std::chrono::seconds(60)});
  for (int i = 0; i < 4096; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.server->endpoint()));
    clients.back()->shake_hands(server);
    clients.back()->send(request);
  }
  const auto client = server.client();
  EXPECT_EQ(server.server->client_count(), clients.size() + 1);
  const std::string value(10'000, 'v');
  const auto begin = Store::Clock::now();
  ASSERT_TRUE(client->set("go", value).ok());
  const size_t answer_bytes = kFrameHeaderBytes + 1 + value.size();
  for (const auto& waiting : clients) {
    const std::string got = waiting->receive(answer_bytes);
    ASSERT_EQ(got.size(), answer_bytes);
    EXPECT_TRUE(got.substr(kFrameHeaderBytes + 1) == value);
  }
  const auto took = std::chrono::ceil<milliseconds>(Store::Clock::now() - begin);
  std::printf("4096 waits for one key answered: %lld ms\n", static_cast<long long>(took.count()));
  EXPECT_LE(took, seconds(20));
}

}  // namespace
}  // namespace bp::ccl
