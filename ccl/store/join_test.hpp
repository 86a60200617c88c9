// SPDX-License-Identifier: Apache-2.0
//
// Many clients that are all there at once, each of which reads what another has written.
#ifndef BACKPLANE_CCL_STORE_JOIN_TEST_HPP
#define BACKPLANE_CCL_STORE_JOIN_TEST_HPP

#include <sys/resource.h>

#include <cstdio>

#include "ccl/store/store_harness_test.hpp"

namespace bp::ccl {

/// How long it took; and checks that everything was right.
inline milliseconds join_clients(size_t count) {
  rlimit limit = {};
  EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_GT(limit.rlim_cur, 3 * count + 100) << "descriptors, of which each client takes three";

  const TestServer server;
  std::vector<std::shared_ptr<Store>> clients(count);
  constexpr size_t kThreads = 8;
  const auto in_threads = [&](const std::function<void(size_t)>& body) {
    std::vector<std::jthread> threads;
    for (size_t first = 0; first < kThreads; ++first) {
      threads.emplace_back([&, first] {
        for (size_t i = first; i < count; i += kThreads) body(i);
      });
    }
  };
  const auto begin = Store::Clock::now();
  in_threads([&](size_t i) {
    clients[i] = server.client();
    if (clients[i] == nullptr) return;
    EXPECT_TRUE(
        clients[i]->set("rank/" + std::to_string(i), "address of " + std::to_string(i)).ok());
  });
  EXPECT_EQ(server.server->client_count(), count);
  in_threads([&](size_t i) {
    if (clients[i] == nullptr) return;
    const std::string other = std::to_string((i + count / 2) % count);
    EXPECT_EQ(value_of(clients[i]->get("rank/" + other, soon())), "address of " + other);
  });
  const auto took = std::chrono::ceil<milliseconds>(Store::Clock::now() - begin);
  EXPECT_EQ(server.server->client_count(), count);
  std::printf("%zu clients joined, authenticated, each read another's key: %lld ms\n", count,
              static_cast<long long>(took.count()));
  return took;
}

}  // namespace bp::ccl

#endif
