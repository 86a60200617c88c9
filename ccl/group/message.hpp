// SPDX-License-Identifier: Apache-2.0
//
// What stands in front of every payload between two ranks, and what ranks tell each other beside
// payloads. A receiver compares the header with its own operation before it takes the payload, so
// that ranks that disagree get an error and no wrong data.
#ifndef BACKPLANE_CCL_GROUP_MESSAGE_HPP
#define BACKPLANE_CCL_GROUP_MESSAGE_HPP

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "ccl/engine/engine.hpp"
#include "ccl/operation.hpp"

namespace bp::ccl {

enum class MessageType : uint32_t {
  kPayload = 1,  // of an operation
  kAbort = 2,    // the group has failed: an EncodedFailure
  kWhere = 3,    // where are you? `sequence` is what the asker waits in
  kHere = 4,     // the answer: a Whereabouts
};

/// On the wire as it lies in memory; both ends are little-endian.
struct Header {
  static constexpr uint32_t kMagic = 0x31434342;  // "BCC1"
  uint32_t magic = kMagic;
  MessageType type = MessageType::kPayload;
  uint64_t group = 0;     // of the group's name, epoch and job
  uint64_t sequence = 0;  // of collectives, or of sends and recvs of a pair in one direction
  uint64_t count = 0;     // of all_to_all with own blocks: of the one for the receiver
  Kind kind = Kind::kBarrier;
  uint32_t dtype = 0;
  Reduction reduction = Reduction::kSum;
  uint32_t root = 0;
  uint32_t step = 0;  // step_of()
  uint32_t is_deterministic = 0;
  uint64_t bytes = 0;   // of the payload
  uint64_t blocks = 0;  // as in Operation
};
static_assert(sizeof(Header) == 72 && sizeof(Header) <= Engine::kMostHeaderBytes);
static_assert(std::has_unique_object_representations_v<Header>, "they are compared as bytes");

/// nullopt: it is none of ours.
std::optional<Header> read_header(std::span<const std::byte> bytes);
std::span<const std::byte> bytes_of(const Header& header);

/// The chunks of an operation are run by turns on tracks, each of which numbers its messages from
/// one rank to another by itself.
inline constexpr uint32_t kTracks = 2;
constexpr uint32_t step_of(uint32_t message, uint32_t track) { return message * kTracks + track; }
constexpr uint32_t track_of(const Header& header) { return header.step % kTracks; }

/// The header of the messages of one operation, but for `step` and `bytes`.
Header header_of(const Operation& operation, uint64_t group, uint64_t sequence);
/// What the sender of the header has called.
Operation operation_of(const Header& header);

/// Why a group ended, the same words on all ranks that are told.
struct Failure {
  bp_status code = BP_OK;
  std::string words = {};
  std::vector<uint32_t> culprits = {};  // ranks, where they are known
  uint64_t sequence = 0;                // of what was waited for; 0: none
  std::string operation = {};           // in words; empty: none
  bool ok() const { return code == BP_OK; }
  /// A group made anew of the same ranks may work.
  bool is_retryable() const;
  /// As the failure of a stream, which is never TIMEOUT: such a stream would look busy.
  Status to_stream_status() const noexcept {
    return contain([this] { return Status(code == BP_TIMEOUT ? BP_UNAVAILABLE : code, words); });
  }
  Status to_status() const noexcept {
    return contain([this] { return ok() ? Status() : Status(code, words); });
  }
};
/// One that `tell(failure)` gives its words. Where there is no memory for these its code has to
/// tell, and a few words, which take none.
template <size_t kBytes, class Tell>
Failure tell_or_few(bp_status code, const char (&few)[kBytes], Tell tell) noexcept {
  static_assert(kBytes <= 16, "they have to lie in the string itself");
  Failure failure{.code = code, .words = few};
  [[maybe_unused]] const Status told = contain([&] { tell(failure); });
  return failure;
}
std::string encode(const Failure& failure);
/// Such that a group of so many ranks may have failed by it. nullopt: garbage.
std::optional<Failure> decode_failure(std::string_view bytes, uint32_t rank_count);

/// Whether two ranks have called the same: the two ends of a pair, or a collective.
bool agree(const Operation& ours, const Operation& theirs);

/// How far a rank has come, told to one that waits for it.
struct Whereabouts {
  std::optional<Operation> called;  // what it called as the collective that it was asked about
  uint64_t entered = 0;             // the latest collective that was called
  uint64_t completed = 0;           // ... that is done
  std::string operation;            // the one in progress, or the latest
  uint64_t held = 0;                // the first that was called and cannot begin; 0: none
  std::string held_by;              // "queued behind all_reduce f32 3 of group b"
  std::string held_group;           // ... "b"; empty: that is no other group's work
};
std::string encode(const Whereabouts& whereabouts);
std::optional<Whereabouts> decode_whereabouts(std::string_view bytes);

inline constexpr uint64_t kMostControlBytes = 16384;

}  // namespace bp::ccl

#endif
