// SPDX-License-Identifier: Apache-2.0
//
// A message: "BPHS", u8 version, u8 kind, u16 length of the body, body. Each kind's body has one
// length, so a peer that is not authenticated can make this side keep kMostMessageBytes at most.
#include "ccl/store/handshake.hpp"

#include <algorithm>
#include <utility>

#include "ccl/store/bytes.hpp"
#include "core/base/quoted.hpp"

namespace bp::ccl {
namespace {

constexpr std::string_view kMagic = "BPHS";
constexpr size_t kMessageHeaderBytes = 8;
constexpr size_t kHelloBytes = 12 + kNonceBytes;
static_assert(kMessageHeaderBytes + kHelloBytes == Handshake::kMostMessageBytes);

std::string_view text_of(const std::array<unsigned char, 32>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string rank_text(uint32_t rank) {
  return rank == HandshakeTerms::kNoRank ? "no rank" : "rank " + std::to_string(rank);
}

Status other_version(uint8_t found) {
  return Status(BP_INCOMPATIBLE, "the peer speaks version " + std::to_string(found) +
                                     " of the handshake, expected " +
                                     std::to_string(Handshake::kVersion));
}

}  // namespace

Handshake::Handshake(Side side, HandshakeTerms terms)
    : side_(side),
      state_(side == Side::kConnects ? State::kChallenge : State::kHello),
      terms_(std::move(terms)) {}

Result<Handshake> Handshake::begin(Side side, HandshakeTerms terms) {
  if (terms.token == nullptr) return Status(BP_INVALID_ARGUMENT, "a handshake needs a token");
  if (terms.job.size() > HandshakeTerms::kMostJobBytes) {
    return Status(BP_INVALID_ARGUMENT, "a job's name has at most " +
                                           std::to_string(HandshakeTerms::kMostJobBytes) +
                                           " bytes, found " + std::to_string(terms.job.size()));
  }
  Handshake made(side, std::move(terms));
  BP_TRY_ASSIGN(made.own_nonce_, make_nonce());
  if (side == Side::kAccepts) return made;
  std::string body;
  put(&body, static_cast<uint8_t>(made.terms_.purpose));
  body.append(3, '\0');
  put(&body, made.terms_.own_rank);
  put(&body, made.terms_.peer_rank);
  body += text_of(made.own_nonce_);
  made.send(Kind::kHello, body);
  return made;
}

std::string Handshake::take_output() { return std::exchange(output_, std::string()); }

Result<size_t> Handshake::receive(std::string_view bytes) {
  size_t used = 0;
  while (state_ != State::kDone && used < bytes.size()) {
    if (state_ == State::kFailed) {
      return Status(BP_INVALID_ARGUMENT, "the peer went on after the handshake had failed");
    }
    // First a header, whose length is then known to be one that can be.
    const size_t wanted = input_.size() < kMessageHeaderBytes
                              ? kMessageHeaderBytes
                              : kMessageHeaderBytes + body_bytes(static_cast<Kind>(input_[5]));
    const size_t count = std::min(wanted - input_.size(), bytes.size() - used);
    input_ += bytes.substr(used, count);
    used += count;
    Status status;
    if (input_.size() == kMessageHeaderBytes) status = check_header();
    if (status.ok() && input_.size() > kMessageHeaderBytes && input_.size() == wanted) {
      status = take_message();
      input_.clear();
    }
    if (!status.ok()) {
      state_ = State::kFailed;
      return status;
    }
    // Nobody may send ahead of a proof: a peer would be heard before it is known.
    if (state_ != State::kDone && input_.empty() && used < bytes.size()) {
      state_ = State::kFailed;
      return Status(BP_INVALID_ARGUMENT, "the peer sent more before the handshake was done");
    }
  }
  return used;
}

Handshake::Kind Handshake::expected() const {
  switch (state_) {
    case State::kHello:
      return Kind::kHello;
    case State::kChallenge:
      return Kind::kChallenge;
    case State::kProof:
      return Kind::kProof;
    default:
      return Kind::kWelcome;
  }
}

size_t Handshake::body_bytes(Kind kind) const {
  if (kind == Kind::kHello) return kHelloBytes;
  return kind == Kind::kRefusal ? sizeof(uint32_t) : kNonceBytes;
}

Status Handshake::no_peer(std::string_view found) {
  return Status(
      BP_INCOMPATIBLE,
      "the peer does not speak this protocol: expected a handshake, found " + quoted(found));
}

Status Handshake::check_header() {
  Cursor header(input_);
  if (header.take_bytes(kMagic.size()) != kMagic) return no_peer(input_);
  const auto version = header.take<uint8_t>();
  const auto kind = static_cast<Kind>(header.take<uint8_t>());
  const auto length = header.take<uint16_t>();
  // A refusal keeps its form in all versions, so that its reason is read.
  const bool may_be_refused = side_ == Side::kConnects && kind == Kind::kRefusal;
  if (version != kVersion && !may_be_refused) {
    // The first message of every version begins so: its sender is told, and not just left.
    if (state_ == State::kHello) refuse(Refusal::kVersion);
    return other_version(version);
  }
  if (kind != expected() && !may_be_refused) {
    return Status(BP_INVALID_ARGUMENT,
                  "the peer broke the order of the handshake: expected message " +
                      std::to_string(static_cast<int>(expected())) + ", found " +
                      std::to_string(static_cast<int>(kind)));
  }
  if (length == body_bytes(kind)) return {};
  return Status(BP_INVALID_ARGUMENT, "the peer sent a message of " + std::to_string(length) +
                                         " bytes in the handshake, expected " +
                                         std::to_string(body_bytes(kind)));
}

Status Handshake::take_message() {
  const auto kind = static_cast<Kind>(input_[5]);
  const std::string_view body = std::string_view(input_).substr(kMessageHeaderBytes);
  switch (kind) {
    case Kind::kHello:
      return take_hello(body);
    case Kind::kChallenge:
      return take_challenge(body);
    case Kind::kProof:
      return take_proof(body);
    case Kind::kWelcome:
      return take_welcome(body);
    default:
      return refused_by_peer(body);
  }
}

Status Handshake::take_hello(std::string_view body) {
  Cursor cursor(body);
  const auto purpose = static_cast<HandshakeTerms::Purpose>(cursor.take<uint8_t>());
  const bool is_known = cursor.take_bytes(3) == std::string_view("\0\0\0", 3);
  const auto from = cursor.take<uint32_t>();
  const auto to = cursor.take<uint32_t>();
  std::ranges::copy(cursor.take_rest(), peer_nonce_.begin());
  if (purpose != terms_.purpose || to != terms_.own_rank) {
    refuse(Refusal::kTerms);
    return Status(BP_INVALID_ARGUMENT, "the peer looks for " + rank_text(to) + " and purpose " +
                                           std::to_string(static_cast<int>(purpose)) +
                                           ", this is " + rank_text(terms_.own_rank) +
                                           " and purpose " +
                                           std::to_string(static_cast<int>(terms_.purpose)));
  }
  if (!is_known) {
    refuse(Refusal::kTerms);
    return Status(BP_INVALID_ARGUMENT, "the peer's hello has bytes that mean nothing, expected 0");
  }
  terms_.peer_rank = from;
  send(Kind::kChallenge, text_of(own_nonce_));
  state_ = State::kProof;
  return {};
}

Status Handshake::take_challenge(std::string_view body) {
  std::ranges::copy(body, peer_nonce_.begin());
  send(Kind::kProof, text_of(proof_of(Side::kConnects)));
  state_ = State::kWelcome;
  return {};
}

Status Handshake::take_proof(std::string_view body) {
  if (!is_same_mac(body, proof_of(Side::kConnects))) {
    refuse(Refusal::kProof);
    return Status(BP_INVALID_ARGUMENT,
                  "the peer does not know the token of this job, or is of another job");
  }
  send(Kind::kWelcome, text_of(proof_of(Side::kAccepts)));
  state_ = State::kDone;
  return {};
}

Status Handshake::take_welcome(std::string_view body) {
  if (!is_same_mac(body, proof_of(Side::kAccepts))) {
    return Status(BP_INVALID_ARGUMENT,
                  "the peer does not know the token of this job, or is of another job");
  }
  state_ = State::kDone;
  return {};
}

Status Handshake::refused_by_peer(std::string_view body) const {
  const auto reason = static_cast<Refusal>(Cursor(body).take<uint32_t>());
  if (reason == Refusal::kVersion) return other_version(static_cast<uint8_t>(input_[4]));
  if (reason == Refusal::kTerms) {
    return Status(BP_INVALID_ARGUMENT, "the peer refused: it is not " +
                                           rank_text(terms_.peer_rank) +
                                           ", or is there for another purpose");
  }
  return Status(BP_INVALID_ARGUMENT,
                "the peer refused: this process does not know the token of the peer's job, or is "
                "of another job");
}

void Handshake::refuse(Refusal reason) {
  std::string body;
  put(&body, static_cast<uint32_t>(reason));
  send(Kind::kRefusal, body);
}

void Handshake::send(Kind kind, std::string_view body) {
  output_ += kMagic;
  put(&output_, kVersion);
  put(&output_, static_cast<uint8_t>(kind));
  put(&output_, static_cast<uint16_t>(body.size()));
  output_ += body;
}

Mac Handshake::proof_of(Side prover) const {
  const bool connects = side_ == Side::kConnects;
  std::string bytes = "backplane handshake";
  put(&bytes, kVersion);
  bytes += prover == Side::kConnects ? "connects" : "accepts.";
  put(&bytes, static_cast<uint8_t>(terms_.purpose));
  put(&bytes, connects ? terms_.own_rank : terms_.peer_rank);
  put(&bytes, connects ? terms_.peer_rank : terms_.own_rank);
  bytes += text_of(connects ? own_nonce_ : peer_nonce_);
  bytes += text_of(connects ? peer_nonce_ : own_nonce_);
  bytes += terms_.job;  // the last, so that only one reading makes these bytes
  return terms_.token->mac(bytes);
}

}  // namespace bp::ccl
