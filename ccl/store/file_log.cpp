// SPDX-License-Identifier: Apache-2.0
//
// Header: "BPSTORE1", u64 store, u64 generation, u16 length of the job, job, u64 hash of all that.
// Change: u32 length of its body, u64 hash of the length and the body, body: u8 kind, u16 length of
// the key, key, value.
#include "ccl/store/file_log.hpp"

#include <span>

#include "ccl/store/bytes.hpp"
#include "ccl/store/handshake.hpp"
#include "core/base/hash.hpp"

namespace bp::ccl {
namespace {

constexpr std::string_view kLogMagic = "BPSTORE1";
constexpr size_t kFixedHeaderBytes = 8 + 8 + 8 + 2;
constexpr size_t kHashBytes = 8;
static_assert(kFixedHeaderBytes + HandshakeTerms::kMostJobBytes + kHashBytes <=
              kMostLogHeaderBytes);

constexpr size_t kChangeHeadBytes = 4 + kHashBytes;
constexpr size_t kLeastBodyBytes = 3;
constexpr uint8_t kSetKind = 1;
constexpr uint8_t kRemoveKind = 2;

uint64_t hash_of(std::string_view bytes) {
  return mix(content_hash(std::as_bytes(std::span(bytes))), bytes.size());
}

Status no_header() { return Status(BP_INVALID_ARGUMENT, "its header is not what a store wrote"); }

Status no_change() { return Status(BP_INVALID_ARGUMENT, "its bytes are not what a store wrote"); }

}  // namespace

std::string encode_log_header(const LogHeader& header) {
  std::string bytes(kLogMagic);
  put(&bytes, header.store);
  put(&bytes, header.generation);
  put(&bytes, static_cast<uint16_t>(header.job.size()));
  bytes += header.job;
  put(&bytes, hash_of(bytes));
  return bytes;
}

Result<std::optional<LogHeader>> decode_log_header(std::string_view bytes) {
  if (bytes.substr(0, kLogMagic.size()) != kLogMagic.substr(0, bytes.size())) {
    return Status(BP_INVALID_ARGUMENT, "it is no store's file");
  }
  Cursor cursor(bytes);
  cursor.take_bytes(kLogMagic.size());
  LogHeader header;
  header.store = cursor.take<uint64_t>();
  header.generation = cursor.take<uint64_t>();
  const auto job_bytes = cursor.take<uint16_t>();
  if (job_bytes > HandshakeTerms::kMostJobBytes) return no_header();
  header.job = cursor.take_bytes(job_bytes);
  header.bytes = kFixedHeaderBytes + header.job.size() + kHashBytes;
  const auto hash = cursor.take<uint64_t>();
  if (!cursor.ok()) return std::optional<LogHeader>();
  if (hash == hash_of(bytes.substr(0, header.bytes - kHashBytes))) return std::optional(header);
  return no_header();
}

std::string encode_change(std::string_view key, std::optional<std::string_view> value) {
  std::string body;
  put(&body, value ? kSetKind : kRemoveKind);
  put(&body, static_cast<uint16_t>(key.size()));
  body += key;
  body += value.value_or(std::string_view());
  std::string change;
  put(&change, static_cast<uint32_t>(body.size()));
  put(&change, hash_of(body));
  return change += body;
}

Result<std::optional<LogChange>> next_change(std::string_view bytes) {
  if (bytes.size() < kChangeHeadBytes) return std::optional<LogChange>();
  Cursor head(bytes);
  const size_t body_bytes = head.take<uint32_t>();
  const auto hash = head.take<uint64_t>();
  if (body_bytes < kLeastBodyBytes || body_bytes > kMostChangeBytes - kChangeHeadBytes) {
    return no_change();
  }
  const std::string_view body = head.take_bytes(body_bytes);
  if (!head.ok()) return std::optional<LogChange>();
  if (hash != hash_of(body)) return no_change();
  Cursor cursor(body);
  const auto kind = cursor.take<uint8_t>();
  LogChange change;
  change.key = cursor.take_bytes(cursor.take<uint16_t>());
  if (kind == kSetKind) change.value = cursor.take_rest();
  change.bytes = kChangeHeadBytes + body_bytes;
  const bool can_be = !change.key.empty() && change.key.size() <= Store::kMostKeyBytes &&
                      (kind == kSetKind || kind == kRemoveKind);
  if (cursor.ended_well() && can_be) return std::optional(change);
  return no_change();
}

}  // namespace bp::ccl
