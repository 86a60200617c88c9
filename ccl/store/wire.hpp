// SPDX-License-Identifier: Apache-2.0
//
// What goes between a store's server and its clients once they know each other: frames of one
// length-capped form. Only bytes.
#ifndef BACKPLANE_CCL_STORE_WIRE_HPP
#define BACKPLANE_CCL_STORE_WIRE_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ccl/store/store.hpp"
#include "core/base/status.hpp"

namespace bp::ccl {

enum class Opcode : uint8_t {
  kSet = 1,
  kGet = 2,
  kTryGet = 3,
  kAdd = 4,
  kCompareSet = 5,
  kRemove = 6,
  kAnswer = 7,
};

/// u32 length of the body, u8 opcode, u8 status, u16 zero, u64 number of the request.
inline constexpr size_t kFrameHeaderBytes = 16;
/// The longest of a frame; each opcode has a cap of its own.
inline constexpr size_t kMostFrameBytes =
    kFrameHeaderBytes + 2 * Store::kMostValueBytes + Store::kMostKeyBytes + 16;
/// Words of an error that travel.
inline constexpr size_t kMostWordsBytes = 1024;

/// A frame in foreign bytes, whose body points into them.
struct Frame {
  Opcode opcode = Opcode::kAnswer;
  uint8_t status = 0;
  uint64_t number = 0;
  std::string_view body;
  size_t bytes = 0;  // of all of it
};
/// The first frame of the bytes; nullopt: not all of it is there yet. Errors: INVALID_ARGUMENT for
/// an opcode that there is not, or a length that it cannot have, as soon as these are there.
Result<std::optional<Frame>> next_frame(std::string_view bytes);

struct Request {
  Opcode opcode = Opcode::kTryGet;
  uint64_t number = 0;  // by which the answer is known
  std::string_view key = {};
  std::string_view value = {};                    // set, compare_set
  std::optional<std::string_view> expected = {};  // compare_set
  int64_t amount = 0;                             // add
  std::chrono::microseconds wait{0};              // get: how long from now
};
/// A whole frame.
std::string encode_request(const Request& request);
/// Errors: INVALID_ARGUMENT for a frame that is no request, or a key or value that cannot be.
Result<Request> decode_request(const Frame& frame);

/// What an answer brings beside its status.
struct Answer {
  enum class Kind : uint8_t { kNothing = 0, kValue = 1, kNumber = 2, kFlag = 3, kWords = 4 };
  uint64_t number = 0;
  bp_status status = BP_OK;
  Kind kind = Kind::kNothing;
  std::string_view text = {};  // a value, or an error's words
  int64_t amount = 0;          // kNumber, and kFlag as 0 or 1
};
/// A frame without the bytes of `text`, which come behind it.
std::string encode_answer_head(const Answer& answer);
/// Errors: INVALID_ARGUMENT for a frame that is no answer.
Result<Answer> decode_answer(const Frame& frame);

}  // namespace bp::ccl

#endif
