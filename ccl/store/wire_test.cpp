// SPDX-License-Identifier: Apache-2.0
//
// Frames and what is no frame.
#include "ccl/store/wire.hpp"

#include <random>

#include "ccl/store/store_harness_test.hpp"
#include "ccl/store/store_service.hpp"

namespace bp::ccl {
namespace {

using testing::HasSubstr;

std::vector<Request> all_requests() {
  return {
      {.opcode = Opcode::kSet, .number = 1, .key = "key", .value = "value"},
      {.opcode = Opcode::kGet, .number = 2, .key = "key", .wait = std::chrono::seconds(3)},
      {.opcode = Opcode::kTryGet, .number = 3, .key = "k"},
      {.opcode = Opcode::kAdd, .number = 4, .key = "key", .amount = -5},
      {.opcode = Opcode::kCompareSet, .number = 5, .key = "key", .value = "new", .expected = "old"},
      {.opcode = Opcode::kCompareSet, .number = 6, .key = "key", .value = "new"},
      {.opcode = Opcode::kRemove, .number = UINT64_MAX, .key = "key"}};
}

Result<Request> read_again(const std::string& frame) {
  const auto found = next_frame(frame);
  if (!found.ok()) return found.status();
  if (!*found) return Status(BP_PENDING, "more is to come");
  EXPECT_EQ((*found)->bytes, frame.size());
  return decode_request(**found);
}

/// A header with any length.
std::string header_of(uint32_t body_bytes, uint8_t opcode) {
  std::string header(kFrameHeaderBytes, '\0');
  for (size_t i = 0; i < 4; ++i) header[i] = static_cast<char>(body_bytes >> (8 * i));
  header[4] = static_cast<char>(opcode);
  return header;
}

TEST(WireTest, Requests_GoRound) {
  for (const Request& request : all_requests()) {
    const std::string frame = encode_request(request);
    const Request got = value_of(read_again(frame));
    EXPECT_EQ(got.opcode, request.opcode);
    EXPECT_EQ(got.number, request.number);
    EXPECT_EQ(got.key, request.key);
    EXPECT_EQ(got.value, request.value);
    EXPECT_EQ(got.expected, request.expected);
    EXPECT_EQ(got.amount, request.amount);
    EXPECT_EQ(got.wait, request.wait);
  }
}

TEST(WireTest, Answers_GoRound) {
  const std::vector<Answer> answers = {
      {.number = 1, .kind = Answer::Kind::kNothing},
      {.number = 2, .kind = Answer::Kind::kValue, .text = "value"},
      {.number = 3, .kind = Answer::Kind::kNumber, .amount = -9},
      {.number = 4, .kind = Answer::Kind::kFlag, .amount = 1},
      {.number = 5, .status = BP_INVALID_ARGUMENT, .kind = Answer::Kind::kWords, .text = "no"}};
  for (const Answer& answer : answers) {
    const std::string frame = encode_answer_head(answer) + std::string(answer.text);
    const auto found = value_of(next_frame(frame));
    ASSERT_TRUE(found.has_value());
    const Answer got = value_of(decode_answer(*found));
    EXPECT_EQ(got.number, answer.number);
    EXPECT_EQ(got.status, answer.status);
    EXPECT_EQ(got.kind, answer.kind);
    EXPECT_EQ(got.text, answer.text);
    EXPECT_EQ(got.amount, answer.amount);
  }
}

TEST(WireTest, PartOfAFrame_IsWaitedFor) {
  for (const Request& request : all_requests()) {
    const std::string frame = encode_request(request);
    for (size_t bytes = 0; bytes < frame.size(); ++bytes) {
      const auto found = next_frame(std::string_view(frame).substr(0, bytes));
      ASSERT_TRUE(found.ok()) << found.status().to_string();
      EXPECT_FALSE(found->has_value()) << bytes;
    }
  }
}

TEST(WireTest, LengthThatABodyDoesNotHave_IsRefused) {
  for (const Request& request : all_requests()) {
    const std::string frame = encode_request(request);
    for (size_t bytes = 0; bytes < frame.size() - kFrameHeaderBytes; ++bytes) {
      std::string cut = frame.substr(0, kFrameHeaderBytes + bytes);
      cut.replace(0, 4, header_of(static_cast<uint32_t>(bytes), 0).substr(0, 4));
      const auto got = read_again(cut);
      // A value goes to the end, wherever that is.
      const bool has_key = got.ok() && got->key == request.key;
      EXPECT_TRUE(!got.ok() || (has_key && !request.value.empty())) << bytes;
    }
    const bool has_value = !request.value.empty();
    std::string longer = frame + "x";
    longer.replace(0, 4, header_of(static_cast<uint32_t>(longer.size() - 16), 0).substr(0, 4));
    EXPECT_EQ(read_again(longer).ok(), has_value);
  }
}

TEST(WireTest, OpcodesThatThereAreNot_AreRefusedByTheHeaderAlone) {
  for (int opcode = 0; opcode < 256; ++opcode) {
    const auto found = next_frame(header_of(1, static_cast<uint8_t>(opcode)));
    const bool is_one = opcode >= 1 && opcode <= 7;
    EXPECT_EQ(found.ok(), is_one) << opcode;
    if (!is_one) {
      EXPECT_EQ(words_of(found), "INVALID_ARGUMENT: there is no request " + std::to_string(opcode));
    }
  }
}

TEST(WireTest, LengthsBeyondTheCap_AreRefusedByTheHeaderAlone) {
  for (uint8_t opcode = 1; opcode <= 7; ++opcode) {
    const auto found = next_frame(header_of(UINT32_MAX, opcode));
    EXPECT_EQ(found.status().code(), BP_INVALID_ARGUMENT);
    EXPECT_THAT(words_of(found), HasSubstr("bytes, found 4294967295"));
  }
  EXPECT_EQ(words_of(next_frame(header_of(1035, 2))),
            "INVALID_ARGUMENT: a request 2 has at most 1034 bytes, found 1035");
  EXPECT_TRUE(next_frame(header_of(1034, 2)).ok());
}

TEST(WireTest, KeysAndValuesThatCannotBe_AreRefused) {
  const std::string long_key(1025, 'k');
  for (const std::string_view key : {std::string_view(), std::string_view(long_key)}) {
    const auto got = read_again(encode_request({.opcode = Opcode::kSet, .key = key}));
    EXPECT_EQ(got.status().code(), BP_INVALID_ARGUMENT) << key.size();
  }
  const std::string large(Store::kMostValueBytes + 1, 'v');
  EXPECT_THAT(words_of(read_again(
                  encode_request({.opcode = Opcode::kCompareSet, .key = "k", .value = large}))),
              HasSubstr("a request with a key of 1 and a value of 1048577 bytes"));
  EXPECT_EQ(
      read_again(encode_request({.opcode = Opcode::kCompareSet, .key = "k", .expected = large}))
          .status()
          .code(),
      BP_INVALID_ARGUMENT);
}

/// What a server makes of any bytes: an error, or one answer for each request that they are.
TEST(WireTest, Garbage_IsRefusedOrAnswered) {
  std::mt19937 random(4711);
  StoreService service(uint64_t{1} << 24);
  const auto now = Store::Clock::now();
  size_t handled = 0;
  size_t refused = 0;
  for (int i = 0; i < 50'000; ++i) {
    const auto requests = all_requests();
    std::string bytes = encode_request(requests[random() % requests.size()]);
    for (size_t k = random() % 4; k > 0; --k) {
      const size_t at = random() % bytes.size();
      if (random() % 3 == 0) bytes.resize(at + 1);
      bytes[at] = static_cast<char>(random() % 2 == 0 ? random() : random() % 8);
    }
    const auto frame = next_frame(bytes);
    if (frame.ok() && !*frame) continue;
    const auto request = frame.ok() ? decode_request(**frame) : frame.status();
    refused += request.ok() ? 0 : 1;
    if (!request.ok()) continue;
    ++handled;
    ASSERT_TRUE(service.handle(1, *request, now).ok());
    service.expire(now + std::chrono::hours(24) * 366);
    EXPECT_EQ(service.take_replies().size(), 1u);
  }
  EXPECT_GT(handled, 1000u);
  EXPECT_GT(refused, 1000u);
  EXPECT_EQ(service.next_deadline(), Store::Clock::time_point::max());
}

TEST(WireTest, GarbageAnswers_AreRefusedOrRead) {
  std::mt19937 random(815);
  size_t refused = 0;
  for (int i = 0; i < 50'000; ++i) {
    std::string bytes = encode_answer_head(
        {.number = 7, .kind = static_cast<Answer::Kind>(random() % 5), .text = "some words"});
    bytes += "some words";
    bytes[random() % bytes.size()] = static_cast<char>(random());
    const auto frame = next_frame(bytes);
    if (!frame.ok() || !*frame) continue;
    const auto answer = decode_answer(**frame);
    refused += answer.ok() ? 0 : 1;
    if (answer.ok()) EXPECT_LE(answer->kind, Answer::Kind::kWords);
  }
  EXPECT_GT(refused, 100u);
}

TEST(StoreServiceTest, WaitsOfOneSession_AreLimited) {
  StoreService service(UINT64_MAX);
  const auto now = Store::Clock::now();
  Request request = {.opcode = Opcode::kGet, .key = "k", .wait = std::chrono::seconds(9)};
  for (size_t i = 0; i < StoreService::kMostWaits; ++i) {
    request.number = i;
    ASSERT_TRUE(service.handle(1, request, now).ok());
  }
  EXPECT_THAT(words_of(service.handle(1, request, now)),
              HasSubstr("the peer waits for more than 1024 keys at once"));
  ASSERT_TRUE(service.handle(2, request, now).ok()) << "another's are its own";
  EXPECT_EQ(service.next_deadline(), now + std::chrono::seconds(9));
  service.forget(1);
  ASSERT_TRUE(service.handle(3, {.opcode = Opcode::kSet, .number = 5, .key = "k"}, now).ok());
  const auto replies = service.take_replies();
  ASSERT_EQ(replies.size(), 2u) << "those of the session that has gone are not answered";
  EXPECT_EQ(replies[0].session, 2u);
  EXPECT_EQ(replies[1].session, 3u);
  EXPECT_EQ(service.next_deadline(), Store::Clock::time_point::max());
}

}  // namespace
}  // namespace bp::ccl
