// SPDX-License-Identifier: Apache-2.0
//
// A store that another process serves over TCP (tcp_server.hpp).
#ifndef BACKPLANE_CCL_STORE_TCP_STORE_HPP
#define BACKPLANE_CCL_STORE_TCP_STORE_HPP

#include <chrono>
#include <memory>
#include <string>

#include "ccl/store/store.hpp"
#include "ccl/store/token.hpp"
#include "ccl/store/told_wait.hpp"
#include "core/base/status.hpp"

namespace bp::ccl {

struct TcpStoreOptions {
  std::string endpoint = {};  // of the server: an address and a port
  std::shared_ptr<const Token> token = {};
  std::string job = {};  // see HandshakeTerms
  /// By then the server has answered. One that does not listen yet is tried again until then.
  Store::Clock::time_point deadline = Store::Clock::now() + std::chrono::seconds(60);
  /// For how long a server that does not answer is waited for in each call; less long where the
  /// deadline to connect was nearer, but a second at least.
  std::chrono::milliseconds answer_timeout{30'000};
  /// By which the answer to a get() may come after its deadline.
  std::chrono::milliseconds answer_grace{1'000};
  Telling telling = {.set_by = {}};  // while nobody listens
};

/// Connects, and proves both sides to each other. Uses one connection, which is never made again:
/// once it is lost, all calls answer UNAVAILABLE. Has no thread of its own: the callers that wait
/// read for each other. A get() waits for at most `answer_grace` beyond its deadline, which is how
/// a server that does not answer is told from a key that nobody set.
///
/// Errors: INVALID_ARGUMENT for options that cannot be, and for a server that refuses this token,
/// or does not know it; INCOMPATIBLE for one that speaks something else; UNAVAILABLE with the
/// address where nobody listens; TIMEOUT for one that listens and does not answer; FORKED.
Result<std::shared_ptr<Store>> connect_tcp_store(TcpStoreOptions options);

}  // namespace bp::ccl

#endif
