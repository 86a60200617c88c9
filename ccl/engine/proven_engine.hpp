// SPDX-License-Identifier: Apache-2.0
//
// An engine whose peers prove that they know the job's token, before anything that they send is
// delivered, or anything is sent to them. The handshake (ccl/store/handshake.hpp) goes over the
// engine's own messages.
#ifndef BACKPLANE_CCL_ENGINE_PROVEN_ENGINE_HPP
#define BACKPLANE_CCL_ENGINE_PROVEN_ENGINE_HPP

#include <memory>
#include <string>

#include "ccl/engine/engine.hpp"
#include "ccl/store/token.hpp"

namespace bp::ccl {

struct Proof {
  std::shared_ptr<const Token> token;
  std::string job;        // the same on all ranks, at most HandshakeTerms::kMostJobBytes
  uint32_t own_rank = 0;  // peers are called by their ranks
};

/// As `inner`, but for this. Its address has a code that only who knows the token can make: what
/// has another is none, and never reaches `inner`. A send to a peer that has not proved itself yet
/// waits until it has. A peer that fails is lost, with the reason; what it sends, and what anybody
/// sends before, is dropped, counted and told in the log. This end needs no proof of itself.
std::unique_ptr<Engine> make_proven_engine(std::unique_ptr<Engine> inner, Proof proof);

}  // namespace bp::ccl

#endif
