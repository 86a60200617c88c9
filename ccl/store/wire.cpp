// SPDX-License-Identifier: Apache-2.0
//
// Bodies:
//   set          key, value
//   get          u64 microseconds to wait, key
//   try_get      key
//   add          u64 the amount, key
//   compare_set  u8 whether a value is expected, u32 length of it, it, key, value
//   remove       key
//   answer       u8 kind, then what the kind says: value or words to the end, u64 number or flag
// A key is a u16 length and its bytes; a value goes to the end of the body.
#include "ccl/store/wire.hpp"

#include <algorithm>

#include "ccl/store/bytes.hpp"

namespace bp::ccl {
namespace {

constexpr uint64_t kKeyBytes = sizeof(uint16_t) + Store::kMostKeyBytes;
// Longer waits are as good as for ever, and could not be added to a time.
constexpr uint64_t kMostWaitMicroseconds = uint64_t{3600} * 24 * 365 * 1'000'000;

/// Of a body; 0: there is no such opcode.
uint64_t most_body_bytes(Opcode opcode) {
  switch (opcode) {
    case Opcode::kSet:
      return kKeyBytes + Store::kMostValueBytes;
    case Opcode::kGet:
    case Opcode::kAdd:
      return sizeof(uint64_t) + kKeyBytes;
    case Opcode::kTryGet:
    case Opcode::kRemove:
      return kKeyBytes;
    case Opcode::kCompareSet:
      return 1 + sizeof(uint32_t) + kKeyBytes + 2 * Store::kMostValueBytes;
    case Opcode::kAnswer:
      return 1 + Store::kMostValueBytes;
  }
  return 0;
}

Status bad_frame(const std::string& words) { return Status(BP_INVALID_ARGUMENT, words); }

void put_key(std::string* out, std::string_view key) {
  put(out, static_cast<uint16_t>(key.size()));
  *out += key;
}

void put_header(std::string* out, size_t body_bytes, Opcode opcode, bp_status status,
                uint64_t number) {
  put(out, static_cast<uint32_t>(body_bytes));
  put(out, static_cast<uint8_t>(opcode));
  put(out, static_cast<uint8_t>(status));
  put(out, uint16_t{0});
  put(out, number);
}

std::string body_of(const Request& request) {
  std::string body;
  if (request.opcode == Opcode::kGet) put(&body, static_cast<uint64_t>(request.wait.count()));
  if (request.opcode == Opcode::kAdd) put(&body, static_cast<uint64_t>(request.amount));
  if (request.opcode == Opcode::kCompareSet) {
    put(&body, static_cast<uint8_t>(request.expected ? 1 : 0));
    const std::string_view expected = request.expected.value_or(std::string_view());
    put(&body, static_cast<uint32_t>(expected.size()));
    body += expected;
  }
  put_key(&body, request.key);
  if (request.opcode == Opcode::kSet || request.opcode == Opcode::kCompareSet) {
    body += request.value;
  }
  return body;
}

/// The part of a body before its key.
void take_arguments(Cursor* body, Request* request) {
  if (request->opcode == Opcode::kGet) {
    request->wait = std::chrono::microseconds(
        static_cast<int64_t>(std::min(body->take<uint64_t>(), kMostWaitMicroseconds)));
  }
  if (request->opcode == Opcode::kAdd) {
    request->amount = static_cast<int64_t>(body->take<uint64_t>());
  }
  if (request->opcode == Opcode::kCompareSet) {
    const bool has_expected = body->take<uint8_t>() != 0;
    const std::string_view expected = body->take_bytes(body->take<uint32_t>());
    if (has_expected) request->expected = expected;
  }
}

}  // namespace

Result<std::optional<Frame>> next_frame(std::string_view bytes) {
  if (bytes.size() < kFrameHeaderBytes) return std::optional<Frame>();
  Cursor cursor(bytes);
  const uint64_t body_bytes = cursor.take<uint32_t>();
  Frame frame;
  frame.opcode = static_cast<Opcode>(cursor.take<uint8_t>());
  frame.status = cursor.take<uint8_t>();
  cursor.take<uint16_t>();
  frame.number = cursor.take<uint64_t>();
  const uint64_t most = most_body_bytes(frame.opcode);
  if (most == 0) {
    return bad_frame("there is no request " + std::to_string(static_cast<int>(frame.opcode)));
  }
  if (body_bytes > most) {
    return bad_frame("a request " + std::to_string(static_cast<int>(frame.opcode)) +
                     " has at most " + std::to_string(most) + " bytes, found " +
                     std::to_string(body_bytes));
  }
  frame.bytes = kFrameHeaderBytes + body_bytes;
  if (bytes.size() < frame.bytes) return std::optional<Frame>();
  frame.body = bytes.substr(kFrameHeaderBytes, body_bytes);
  return std::optional(frame);
}

std::string encode_request(const Request& request) {
  const std::string body = body_of(request);
  std::string frame;
  frame.reserve(kFrameHeaderBytes + body.size());
  put_header(&frame, body.size(), request.opcode, BP_OK, request.number);
  return frame += body;
}

Result<Request> decode_request(const Frame& frame) {
  Request request;
  request.opcode = frame.opcode;
  request.number = frame.number;
  if (frame.opcode == Opcode::kAnswer) return bad_frame("an answer is no request");
  Cursor body(frame.body);
  take_arguments(&body, &request);
  request.key = body.take_bytes(body.take<uint16_t>());
  if (frame.opcode == Opcode::kSet || frame.opcode == Opcode::kCompareSet) {
    request.value = body.take_rest();
  }
  if (!body.ended_well()) {
    return bad_frame("a request " + std::to_string(static_cast<int>(frame.opcode)) +
                     " of another length than its parts have");
  }
  const bool key_can_be = !request.key.empty() && request.key.size() <= Store::kMostKeyBytes;
  const uint64_t value_bytes =
      std::max(request.value.size(), request.expected.value_or(std::string_view()).size());
  if (key_can_be && value_bytes <= Store::kMostValueBytes) return request;
  return bad_frame("a request with a key of " + std::to_string(request.key.size()) +
                   " and a value of " + std::to_string(value_bytes) + " bytes");
}

std::string encode_answer_head(const Answer& answer) {
  const bool has_number =
      answer.kind == Answer::Kind::kNumber || answer.kind == Answer::Kind::kFlag;
  std::string head;
  put_header(&head, 1 + (has_number ? sizeof(uint64_t) : answer.text.size()), Opcode::kAnswer,
             answer.status, answer.number);
  put(&head, static_cast<uint8_t>(answer.kind));
  if (has_number) put(&head, static_cast<uint64_t>(answer.amount));
  return head;
}

Result<Answer> decode_answer(const Frame& frame) {
  if (frame.opcode != Opcode::kAnswer) return bad_frame("a request is no answer");
  Answer answer;
  answer.number = frame.number;
  answer.status = known_status(frame.status);
  Cursor body(frame.body);
  answer.kind = static_cast<Answer::Kind>(body.take<uint8_t>());
  switch (answer.kind) {
    case Answer::Kind::kNothing:
      break;
    case Answer::Kind::kValue:
    case Answer::Kind::kWords:
      answer.text = body.take_rest();
      break;
    case Answer::Kind::kNumber:
    case Answer::Kind::kFlag:
      answer.amount = static_cast<int64_t>(body.take<uint64_t>());
      break;
  }
  const bool kind_can_be = answer.kind <= Answer::Kind::kWords;
  const bool words_can_be =
      answer.kind != Answer::Kind::kWords || answer.text.size() <= kMostWordsBytes;
  if (body.ended_well() && kind_can_be && words_can_be) return answer;
  return bad_frame("an answer of another length than its parts have");
}

}  // namespace bp::ccl
