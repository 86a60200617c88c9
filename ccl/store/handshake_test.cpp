// SPDX-License-Identifier: Apache-2.0
//
// Who gets through the handshake, and whatever else a peer may say.
#include "ccl/store/handshake.hpp"

#include <random>

#include "ccl/store/store_harness_test.hpp"

namespace bp::ccl {
namespace {

using testing::HasSubstr;
using Side = Handshake::Side;
using Purpose = HandshakeTerms::Purpose;

/// Both sides, and the messages between them.
struct Talk {
  Talk(const HandshakeTerms& connecting, const HandshakeTerms& accepting)
      : client(value_of(Handshake::begin(Side::kConnects, connecting))),
        server(value_of(Handshake::begin(Side::kAccepts, accepting))) {}

  /// Until nobody has anything to say; `bytes_at_once` of each message.
  void run(size_t bytes_at_once = SIZE_MAX) {
    for (int i = 0; i < 4 && client_status.ok() && server_status.ok(); ++i) {
      from_client += give(&client, &server, &server_status, bytes_at_once);
      from_server += give(&server, &client, &client_status, bytes_at_once);
    }
  }
  static std::string give(Handshake* from, Handshake* to, Status* status, size_t bytes_at_once) {
    const std::string sent = from->take_output();
    for (size_t at = 0; at < sent.size() && status->ok(); at += bytes_at_once) {
      *status = as_status(to->receive(std::string_view(sent).substr(at, bytes_at_once)));
      if (bytes_at_once == SIZE_MAX) break;
    }
    return sent;
  }
  bool is_done() const { return client.is_done() && server.is_done(); }

  Handshake client;
  Handshake server;
  Status client_status;
  Status server_status;
  std::string from_client;
  std::string from_server;
};

class HandshakeTest : public testing::Test {
 protected:
  HandshakeTerms terms(std::string job = "job") const { return {.token = token_, .job = job}; }
  HandshakeTerms engine(uint32_t own, uint32_t peer) const {
    return {.token = token_,
            .job = "job",
            .purpose = Purpose::kEngine,
            .own_rank = own,
            .peer_rank = peer};
  }
  const std::shared_ptr<const Token> token_ = new_token();
};

TEST_F(HandshakeTest, SameToken_BothAreDone) {
  for (const size_t bytes_at_once : {SIZE_MAX, size_t{1}, size_t{7}}) {
    Talk talk(terms(), terms());
    talk.run(bytes_at_once);
    EXPECT_TRUE(talk.is_done());
    EXPECT_EQ(words_of(talk.client_status) + words_of(talk.server_status), "OKOK");
    EXPECT_EQ(talk.from_client.size(), 52u + 40u);
    EXPECT_EQ(talk.from_server.size(), 40u + 40u);
  }
}

TEST_F(HandshakeTest, TokenIsInNoMessage) {
  Talk talk(terms(), terms());
  talk.run();
  ASSERT_TRUE(talk.is_done());
  const std::string digits = token_->text();
  std::string bytes;
  for (size_t i = 0; i < digits.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  }
  for (const std::string& said : {talk.from_client, talk.from_server}) {
    EXPECT_EQ(said.find(bytes.substr(0, 8)), std::string::npos);
    EXPECT_EQ(said.find(digits.substr(0, 16)), std::string::npos);
  }
}

TEST_F(HandshakeTest, WhatFollowsTheLastMessage_IsLeftToTheCaller) {
  Talk talk(terms(), terms());
  const std::string hello = talk.client.take_output();
  EXPECT_EQ(value_of(talk.server.receive(hello)), hello.size());
  EXPECT_EQ(value_of(talk.client.receive(talk.server.take_output())), 40u);
  EXPECT_EQ(value_of(talk.server.receive(talk.client.take_output() + "request")), 40u);
  EXPECT_TRUE(talk.server.is_done());
  EXPECT_EQ(value_of(talk.client.receive(talk.server.take_output() + "answer")), 40u);
  EXPECT_TRUE(talk.client.is_done());
}

TEST_F(HandshakeTest, WrongToken_BothAreToldAndNeitherIsDone) {
  HandshakeTerms stranger = terms();
  stranger.token = new_token();
  Talk talk(stranger, terms());
  talk.run();
  EXPECT_FALSE(talk.client.is_done());
  EXPECT_FALSE(talk.server.is_done());
  EXPECT_EQ(words_of(talk.server_status),
            "INVALID_ARGUMENT: the peer does not know the token of this job, or is of another job");
  EXPECT_EQ(talk.client_status.code(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(words_of(talk.client_status),
              HasSubstr("the peer refused: this process does not know the token of the peer's "
                        "job, or is of another job"));
}

TEST_F(HandshakeTest, OtherJob_IsRefused) {
  Talk talk(terms("job/1"), terms("job/2"));
  talk.run();
  EXPECT_FALSE(talk.server.is_done());
  EXPECT_THAT(words_of(talk.server_status), HasSubstr("or is of another job"));
}

TEST_F(HandshakeTest, OtherPurposeOrRank_IsRefusedInWords) {
  Talk purpose(engine(0, HandshakeTerms::kNoRank), terms());
  purpose.run();
  EXPECT_THAT(words_of(purpose.server_status),
              HasSubstr("looks for no rank and purpose 2, this is no rank and purpose 1"));
  Talk rank(engine(0, 2), engine(3, HandshakeTerms::kNoRank));
  rank.run();
  EXPECT_THAT(words_of(rank.server_status),
              HasSubstr("looks for rank 2 and purpose 2, this is rank "
                        "3"));
  EXPECT_THAT(words_of(rank.client_status), HasSubstr("it is not rank 2"));
}

TEST_F(HandshakeTest, Ranks_AreLearned) {
  Talk talk(engine(4, 3), engine(3, HandshakeTerms::kNoRank));
  talk.run();
  ASSERT_TRUE(talk.is_done());
  EXPECT_EQ(talk.server.peer_rank(), 4u);
  EXPECT_EQ(talk.client.peer_rank(), 3u);
}

TEST_F(HandshakeTest, Replayed_IsRefused) {
  Talk recorded(terms(), terms());
  recorded.run();
  ASSERT_TRUE(recorded.is_done());
  auto server = value_of(Handshake::begin(Side::kAccepts, terms()));
  EXPECT_EQ(value_of(server.receive(recorded.from_client.substr(0, 52))), 52u);
  const auto proof = server.receive(recorded.from_client.substr(52));
  EXPECT_THAT(words_of(proof), HasSubstr("does not know the token"));
  EXPECT_FALSE(server.is_done());
  // And a server that has only heard another one.
  auto client = value_of(Handshake::begin(Side::kConnects, terms()));
  EXPECT_TRUE(client.receive(recorded.from_server.substr(0, 40)).ok());
  EXPECT_THAT(words_of(client.receive(recorded.from_server.substr(40))),
              HasSubstr("does not know the token"));
  EXPECT_FALSE(client.is_done());
}

/// A message of another kind with the same body.
std::string with_kind(std::string message, char kind) {
  message[5] = kind;
  return message;
}

TEST_F(HandshakeTest, Reflected_IsRefused) {
  // A server that knows no token gives the client its own proof back.
  auto client = value_of(Handshake::begin(Side::kConnects, terms()));
  const std::string hello = client.take_output();
  std::string challenge("BPHS\1\2\x20\0", 8);
  challenge += hello.substr(20);  // its own nonce, too
  ASSERT_EQ(value_of(client.receive(challenge)), 40u);
  const std::string proof = client.take_output();
  ASSERT_EQ(proof.size(), 40u);
  EXPECT_THAT(words_of(client.receive(with_kind(proof, 4))), HasSubstr("does not know the token"));
  EXPECT_FALSE(client.is_done());
  // A client that knows none lets a server answer itself: with the nonce of a second connection.
  auto first = value_of(Handshake::begin(Side::kAccepts, terms()));
  auto second = value_of(Handshake::begin(Side::kAccepts, terms()));
  ASSERT_TRUE(first.receive(hello).ok());
  const std::string nonce = first.take_output().substr(8);
  ASSERT_TRUE(second.receive(hello.substr(0, 20) + nonce).ok());
  const std::string from_second = second.take_output();
  EXPECT_THAT(words_of(first.receive(with_kind(from_second, 3))),
              HasSubstr("does not know the token"));
}

TEST_F(HandshakeTest, RelayedToItself_IsRefused) {
  // Rank 3 connects to rank 5, and one between gives all that it says to rank 3's own listener.
  Talk talk(engine(3, 5), engine(3, HandshakeTerms::kNoRank));
  talk.run();
  EXPECT_FALSE(talk.server.is_done());
  EXPECT_THAT(words_of(talk.server_status), HasSubstr("looks for rank 5"));
  // Also where the hello is changed on its way.
  auto client = value_of(Handshake::begin(Side::kConnects, engine(3, 5)));
  auto server = value_of(Handshake::begin(Side::kAccepts, engine(3, HandshakeTerms::kNoRank)));
  std::string hello = client.take_output();
  hello[16] = 3;
  ASSERT_TRUE(server.receive(hello).ok());
  ASSERT_TRUE(client.receive(server.take_output()).ok());
  EXPECT_THAT(words_of(server.receive(client.take_output())), HasSubstr("does not know the token"));
}

TEST_F(HandshakeTest, EveryBitThatChanges_EndsIt) {
  Talk good(terms(), terms());
  good.run();
  ASSERT_TRUE(good.is_done());
  for (const bool changes_client : {true, false}) {
    const size_t bytes = changes_client ? good.from_client.size() : good.from_server.size();
    for (size_t bit = 0; bit < 8 * bytes; ++bit) {
      Talk talk(terms(), terms());
      size_t passed = 0;
      const auto pass = [&](Handshake* from, Handshake* to, bool changes) {
        std::string said = from->take_output();
        const bool is_here = changes && bit / 8 >= passed && bit / 8 < passed + said.size();
        if (is_here) {
          char& byte = said[bit / 8 - passed];
          byte = static_cast<char>(byte ^ (1 << (bit % 8)));
        }
        if (changes) passed += said.size();
        return to->receive(said).ok();
      };
      for (int i = 0; i < 2; ++i) {
        if (!pass(&talk.client, &talk.server, changes_client)) break;
        if (!pass(&talk.server, &talk.client, !changes_client)) break;
      }
      EXPECT_FALSE(talk.is_done()) << "bit " << bit << (changes_client ? " of the client" : "");
    }
  }
}

TEST_F(HandshakeTest, OtherVersion_IsToldOnBothSides) {
  Talk talk(terms(), terms());
  std::string hello = talk.client.take_output();
  hello[4] = 9;
  EXPECT_EQ(words_of(talk.server.receive(hello)),
            "INCOMPATIBLE: the peer speaks version 9 of the handshake, expected 1");
  std::string refusal = talk.server.take_output();
  refusal[4] = 2;  // as a newer server says it
  EXPECT_EQ(words_of(talk.client.receive(refusal)),
            "INCOMPATIBLE: the peer speaks version 2 of the handshake, expected 1");
}

TEST_F(HandshakeTest, OtherProtocol_IsIncompatible) {
  auto server = value_of(Handshake::begin(Side::kAccepts, terms()));
  const auto got = server.receive("GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(words_of(got),
            "INCOMPATIBLE: the peer does not speak this protocol: expected a handshake, found "
            "'GET / HT'");
  EXPECT_EQ(server.take_output(), "") << "nothing is said to who speaks something else";
}

TEST_F(HandshakeTest, MoreThanAMessage_BeforeTheEnd_IsRefused) {
  Talk talk(terms(), terms());
  const auto got = talk.server.receive(talk.client.take_output() + "x");
  EXPECT_THAT(words_of(got), HasSubstr("the peer sent more before the handshake was done"));
  EXPECT_THAT(words_of(talk.server.receive("y")), HasSubstr("went on after the handshake"));
}

TEST_F(HandshakeTest, LengthAndOrder_AreChecked) {
  auto server = value_of(Handshake::begin(Side::kAccepts, terms()));
  EXPECT_THAT(words_of(server.receive(std::string_view("BPHS\1\1\xFF\xFF", 8))),
              HasSubstr("a message of 65535 bytes in the handshake, expected 44"));
  auto second = value_of(Handshake::begin(Side::kAccepts, terms()));
  EXPECT_THAT(words_of(second.receive(std::string_view("BPHS\1\3\x20\0", 8))),
              HasSubstr("broke the order of the handshake: expected message 1, found 3"));
  auto third = value_of(Handshake::begin(Side::kAccepts, terms()));
  EXPECT_THAT(words_of(third.receive(std::string_view("BPHS\1\5\4\0", 8))),
              HasSubstr("expected message 1, found 5"))
      << "only a server refuses";
}

TEST_F(HandshakeTest, Garbage_NeverGetsThrough) {
  std::mt19937 random(20261127);
  for (int i = 0; i < 20'000; ++i) {
    const Side side = i % 2 == 0 ? Side::kAccepts : Side::kConnects;
    auto handshake = value_of(Handshake::begin(side, terms()));
    std::string bytes(random() % 200, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    // Most begin as they should, to come further.
    if (i % 4 != 0) {
      bytes.replace(0, std::min<size_t>(bytes.size(), 6),
                    std::string("BPHS\1") + static_cast<char>(1 + random() % 6));
    }
    for (size_t at = 0; at < bytes.size();) {
      const size_t count = 1 + random() % 60;
      if (!handshake.receive(std::string_view(bytes).substr(at, count)).ok()) break;
      at += count;
    }
    ASSERT_FALSE(handshake.is_done()) << i;
  }
}

TEST_F(HandshakeTest, TermsThatCannotBe_AreRefused) {
  EXPECT_EQ(words_of(Handshake::begin(Side::kAccepts, {.job = "job"})),
            "INVALID_ARGUMENT: a handshake needs a token");
  EXPECT_EQ(words_of(Handshake::begin(Side::kAccepts, terms(std::string(257, 'j')))),
            "INVALID_ARGUMENT: a job's name has at most 256 bytes, found 257");
  Talk longest(terms(std::string(256, 'j')), terms(std::string(256, 'j')));
  longest.run();
  EXPECT_TRUE(longest.is_done());
}

}  // namespace
}  // namespace bp::ccl
