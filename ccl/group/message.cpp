// SPDX-License-Identifier: Apache-2.0
//
// See message.hpp. What comes from another rank is read with bounds, whoever sent it.
#include "ccl/group/message.hpp"

#include <algorithm>
#include <cstring>

#include "ccl/store/bytes.hpp"

namespace bp::ccl {
namespace {

constexpr size_t kMostWords = 4096;
constexpr size_t kMostCulprits = 1024;

void put_text(std::string* out, const std::string& text) {
  const size_t bytes = std::min(text.size(), kMostWords);
  put(out, uint64_t{bytes});
  out->append(text, 0, bytes);
}

std::string take_text(Cursor* cursor) {
  return std::string(cursor->take_bytes(cursor->take<uint64_t>()));
}

}  // namespace

std::optional<Header> read_header(std::span<const std::byte> bytes) {
  Header header;
  if (bytes.size() != sizeof(header)) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof(header));
  const auto type = static_cast<uint32_t>(header.type);
  const bool is_ours = header.magic == Header::kMagic && type >= 1 && type <= 4 &&
                       static_cast<uint32_t>(header.kind) < kKindCount &&
                       static_cast<uint32_t>(header.reduction) < kReductionCount;
  return is_ours ? std::optional(header) : std::nullopt;
}

std::span<const std::byte> bytes_of(const Header& header) {
  return std::as_bytes(std::span(&header, 1));
}

Header header_of(const Operation& operation, uint64_t group, uint64_t sequence) {
  Header header;
  header.group = group;
  header.sequence = sequence;
  header.count = operation.count;
  header.kind = operation.kind;
  header.dtype = operation.dtype;
  header.reduction = operation.reduction;
  header.root = operation.root;
  header.is_deterministic = operation.is_deterministic ? 1 : 0;
  header.blocks = operation.blocks;
  return header;
}

Operation operation_of(const Header& header) {
  return {.kind = header.kind,
          .dtype = header.dtype,
          .reduction = header.reduction,
          .root = header.root,
          .count = header.count,
          .is_deterministic = header.is_deterministic != 0,
          .blocks = header.blocks};
}

bool Failure::is_retryable() const {
  return code == BP_UNAVAILABLE || code == BP_TIMEOUT || code == BP_CANCELLED;
}

std::string encode(const Failure& failure) {
  std::string bytes;
  put(&bytes, static_cast<uint32_t>(failure.code));
  put(&bytes, failure.sequence);
  put_text(&bytes, failure.words);
  put_text(&bytes, failure.operation);
  const size_t count = std::min(failure.culprits.size(), kMostCulprits);
  put(&bytes, uint64_t{count});
  for (size_t i = 0; i < count; ++i) put(&bytes, failure.culprits[i]);
  return bytes;
}

std::optional<Failure> decode_failure(std::string_view bytes, uint32_t rank_count) {
  Cursor cursor(bytes);
  Failure failure;
  failure.code = known_status(static_cast<bp_status>(cursor.take<uint32_t>()));
  failure.sequence = cursor.take<uint64_t>();
  failure.words = take_text(&cursor);
  failure.operation = take_text(&cursor);
  const uint64_t count = cursor.take<uint64_t>();
  if (!cursor.ok() || count > kMostCulprits) return std::nullopt;
  for (uint64_t i = 0; i < count; ++i) failure.culprits.push_back(cursor.take<uint32_t>());
  if (!cursor.ended_well() || failure.ok()) return std::nullopt;
  if (!can_fail_work(failure.code) && failure.code != BP_TIMEOUT) failure.code = BP_INTERNAL;
  std::erase_if(failure.culprits, [&](uint32_t rank) { return rank >= rank_count; });
  return failure;
}

bool agree(const Operation& ours, const Operation& theirs) {
  if (ours.kind != Kind::kRecv) return ours == theirs;
  return theirs.kind == Kind::kSend && ours.count == theirs.count && ours.dtype == theirs.dtype;
}

std::string encode(const Whereabouts& whereabouts) {
  std::string bytes;
  // Without a sequence it is none.
  const Header called =
      header_of(whereabouts.called.value_or(Operation()), 0, whereabouts.called ? 1 : 0);
  bytes.append(reinterpret_cast<const char*>(&called), sizeof(called));
  put(&bytes, whereabouts.entered);
  put(&bytes, whereabouts.completed);
  put_text(&bytes, whereabouts.operation);
  put(&bytes, whereabouts.held);
  put_text(&bytes, whereabouts.held_by);
  put_text(&bytes, whereabouts.held_group);
  return bytes;
}

std::optional<Whereabouts> decode_whereabouts(std::string_view bytes) {
  Cursor cursor(bytes);
  Whereabouts whereabouts;
  const std::string_view header = cursor.take_bytes(sizeof(Header));
  const auto called = read_header(std::as_bytes(std::span(header.data(), header.size())));
  if (!called) return std::nullopt;
  if (called->sequence != 0) whereabouts.called = operation_of(*called);
  whereabouts.entered = cursor.take<uint64_t>();
  whereabouts.completed = cursor.take<uint64_t>();
  whereabouts.operation = take_text(&cursor);
  whereabouts.held = cursor.take<uint64_t>();
  whereabouts.held_by = take_text(&cursor);
  whereabouts.held_group = take_text(&cursor);
  return cursor.ended_well() ? std::optional(whereabouts) : std::nullopt;
}

}  // namespace bp::ccl
