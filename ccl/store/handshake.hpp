// SPDX-License-Identifier: Apache-2.0
//
// How two processes of one job prove to each other that they know its token, before anything else
// goes over a connection. Only bytes: whoever uses it brings the connection.
//
// The side that connects says what it wants and whom it wants, with a nonce; the other side answers
// a nonce of its own; the first proves itself, then the second. A proof is an HMAC-SHA256 under the
// token of: version, the role of who proves, purpose, both ranks, both nonces and the job. So a
// recorded proof fits no second connection, no side's proof passes for the other's, and none that
// was made for one rank or purpose serves at another.
//
// What follows on the connection is neither encrypted nor signed: whoever can change packets on
// their way can read and change what comes after. On a network that others use too, run the job
// through a tunnel, such as WireGuard.
#ifndef BACKPLANE_CCL_STORE_HANDSHAKE_HPP
#define BACKPLANE_CCL_STORE_HANDSHAKE_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "ccl/store/token.hpp"
#include "core/base/status.hpp"

namespace bp::ccl {

struct HandshakeTerms {
  enum class Purpose : uint8_t { kStore = 1, kEngine = 2 };
  /// Of a process that is no rank, as a store's server is.
  static constexpr uint32_t kNoRank = UINT32_MAX;
  static constexpr size_t kMostJobBytes = 256;

  std::shared_ptr<const Token> token = {};
  std::string job = {};  // its name and run, at most kMostJobBytes; both sides need the same
  Purpose purpose = Purpose::kStore;
  uint32_t own_rank = kNoRank;
  uint32_t peer_rank = kNoRank;  // whom the connecting side means; the other learns it
};

/// One side of one connection. Not for several threads at once.
class Handshake {
 public:
  enum class Side : uint8_t { kConnects, kAccepts };
  static constexpr uint8_t kVersion = 1;
  /// No message is longer.
  static constexpr size_t kMostMessageBytes = 52;

  /// Errors: INVALID_ARGUMENT for terms that cannot be; UNAVAILABLE without a random source.
  static Result<Handshake> begin(Side side, HandshakeTerms terms);

  /// Takes bytes of the peer; answers how many of them belong to the handshake, which are fewer
  /// only once it is done. Errors end it: INCOMPATIBLE for a peer that speaks something else or
  /// another version; INVALID_ARGUMENT for one that breaks the order, does not know the token, or
  /// is of another job, purpose or rank. What is to be sent is to be sent all the same.
  Result<size_t> receive(std::string_view bytes);
  /// What is to be sent now.
  std::string take_output();

  /// Both sides have proved themselves.
  bool is_done() const { return state_ == State::kDone; }
  /// The peer's rank, once it is done.
  uint32_t peer_rank() const { return terms_.peer_rank; }

 private:
  enum class Kind : uint8_t { kHello = 1, kChallenge = 2, kProof = 3, kWelcome = 4, kRefusal = 5 };
  enum class State : uint8_t { kHello, kChallenge, kProof, kWelcome, kDone, kFailed };
  enum class Refusal : uint32_t { kVersion = 1, kProof = 2, kTerms = 3 };

  Handshake(Side side, HandshakeTerms terms);
  Status take_message();
  Status take_hello(std::string_view body);
  Status take_challenge(std::string_view body);
  Status take_proof(std::string_view body);
  Status take_welcome(std::string_view body);
  Status refused_by_peer(std::string_view body) const;
  Status check_header();
  void refuse(Refusal reason);
  void send(Kind kind, std::string_view body);
  Mac proof_of(Side prover) const;
  Kind expected() const;
  size_t body_bytes(Kind kind) const;
  static Status no_peer(std::string_view found);

  Side side_;
  State state_;
  HandshakeTerms terms_;
  Nonce own_nonce_{};
  Nonce peer_nonce_{};
  std::string input_;  // of the message that is coming
  std::string output_;
};

}  // namespace bp::ccl

#endif
