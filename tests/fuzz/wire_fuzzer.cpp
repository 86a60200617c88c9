// SPDX-License-Identifier: Apache-2.0
//
// Whatever bytes for what ranks read of each other and of their environment. The first byte chooses
// the reader. A text is refused with words, or what was read of it can be written and read again.
// What libFuzzer calls; replay.cpp calls it for files.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ccl/group/join.hpp"
#include "ccl/group/message.hpp"
#include "ccl/launch/slurm_tasks.hpp"
#include "ccl/schedule/select.hpp"
#include "ccl/store/endpoint.hpp"
#include "ccl/store/handshake.hpp"
#include "ccl/store/store_service.hpp"
#include "ccl/store/token.hpp"
#include "ccl/store/wire.hpp"
#include "ccl/watch/dump.hpp"
#include "ccl/watch/status.hpp"
#include "ccl/watch/trace.hpp"
#include "ccl/watch/words.hpp"
#include "tests/fuzz/fuzzer.hpp"

namespace {

using namespace bp;       // NOLINT(google-build-using-namespace)
using namespace bp::ccl;  // NOLINT(google-build-using-namespace)

void check(bool is_so, const char* what) {
  if (is_so) return;
  std::fprintf(stderr, "wire_fuzzer: %s\n", what);
  std::abort();
}

void check_words(const Status& status) {
  check(!status.message().empty() && status.code() != BP_INTERNAL, "an error without words");
}

// --- The store

void check_answer(const StoreService::Reply& reply) {
  const std::string bytes = reply.head + (reply.body != nullptr ? *reply.body : std::string());
  const auto frame = next_frame(bytes);
  check(frame.ok() && *frame && (*frame)->bytes == bytes.size(), "an answer is no frame");
  check(decode_answer(**frame).ok(), "an answer that cannot be read");
}

/// Two clients' frames, as a server takes them: each request is answered once.
void feed_server(std::string_view bytes) {
  constexpr uint64_t kMostBytes = 65536;
  StoreService service(kMostBytes);
  const auto now = Store::Clock::now();
  size_t asked = 0;
  for (;;) {
    const auto frame = next_frame(bytes);
    if (!frame.ok()) check_words(frame.status());
    if (!frame.ok() || !*frame) break;
    const auto request = decode_request(**frame);
    if (!request.ok()) {
      check_words(request.status());
      break;
    }
    if (!service.handle(1 + asked % 2, *request, now).ok()) break;
    ++asked;
    bytes.remove_prefix((*frame)->bytes);
  }
  service.expire(Store::Clock::time_point::max());
  const auto replies = service.take_replies();
  check(replies.size() == asked, "requests and answers differ in number");
  for (const auto& reply : replies) check_answer(reply);
  service.forget(1);
  service.forget(2);
}

void feed_client(std::string_view bytes) {
  for (;;) {
    const auto frame = next_frame(bytes);
    if (!frame.ok()) return check_words(frame.status());
    if (!*frame) return;
    const auto answer = decode_answer(**frame);
    if (!answer.ok()) return check_words(answer.status());
    bytes.remove_prefix((*frame)->bytes);
  }
}

/// Three bytes each: after how many bytes on the way one is changed, and how. Whom a changed byte
/// reaches does not believe its peer.
void shake_hands(std::string_view edits) {
  static const auto token = Token::from_text(std::string(Token::kTextDigits, '7'), "fuzz");
  HandshakeTerms terms{.token = *token, .job = "job 1"};
  auto accepting = *Handshake::begin(Handshake::Side::kAccepts, terms);
  auto connecting = *Handshake::begin(Handshake::Side::kConnects, terms);
  Handshake* const sides[] = {&connecting, &accepting};
  bool is_changed[] = {false, false};
  size_t until = edits.size() >= 3 ? static_cast<unsigned char>(edits[0]) : SIZE_MAX;
  for (int turn = 0; turn < 8; ++turn) {
    std::string bytes = sides[turn % 2]->take_output();
    for (char& byte : bytes) {
      if (until-- != 0) continue;
      const char change = static_cast<char>(edits[1] | (edits[2] & 1));
      byte = static_cast<char>(byte ^ change);
      if (change != 0) is_changed[1 - turn % 2] = true;
      edits.remove_prefix(3);
      until = edits.size() >= 3 ? static_cast<unsigned char>(edits[0]) : SIZE_MAX;
    }
    Handshake& other = *sides[1 - turn % 2];
    if (bytes.empty() || other.is_done()) continue;
    const auto taken = other.receive(bytes);
    if (!taken.ok()) check_words(taken.status());
  }
  for (int side = 0; side < 2; ++side) {
    check(!is_changed[side] || !sides[side]->is_done(), "a changed handshake is believed");
  }
  const bool is_any = is_changed[0] || is_changed[1];
  check(is_any || (accepting.is_done() && connecting.is_done()), "a good handshake fails");
}

/// A peer that knows nothing.
void greet(std::string_view bytes) {
  static const auto token = Token::from_text(std::string(Token::kTextDigits, '7'), "fuzz");
  for (const auto side : {Handshake::Side::kAccepts, Handshake::Side::kConnects}) {
    auto own = *Handshake::begin(side, {.token = *token, .job = "job 1"});
    const auto taken = own.receive(bytes);
    if (!taken.ok()) check_words(taken.status());
    check(!own.is_done(), "a peer without the token is believed");
    check(own.take_output().size() <= 2 * Handshake::kMostMessageBytes, "a long answer");
  }
}

// --- Messages of groups

void feed_header(std::string_view bytes) {
  const auto header = read_header(std::as_bytes(std::span(bytes)));
  if (!header) return;
  const Operation operation = operation_of(*header);
  check(!describe(operation).empty(), "an operation without a name");
  const Header again = header_of(operation, header->group, header->sequence);
  check(agree(operation_of(again), operation), "a header that does not say what was called");
}

void feed_failure(std::string_view bytes) {
  const auto failure = decode_failure(bytes, UINT32_MAX);
  if (!failure) return;
  check(!failure->ok(), "a failure that is none");
  const auto again = decode_failure(encode(*failure), UINT32_MAX);
  check(again && again->code == failure->code && again->culprits == failure->culprits,
        "a failure that does not come again");
}

void feed_whereabouts(std::string_view bytes) {
  const auto here = decode_whereabouts(bytes);
  if (!here) return;
  const auto again = decode_whereabouts(encode(*here));
  check(again && again->entered == here->entered && again->held == here->held,
        "whereabouts that do not come again");
}

void feed_card(std::string_view bytes) {
  const auto card = decode_card(bytes);
  if (!card.ok()) return check_words(card.status());
  const auto again = decode_card(encode(*card));
  check(again.ok() && encode(*again) == encode(*card), "a card that does not come again");
}

// --- Texts

/// Of two ranks, with a byte 0 between them.
void feed_dumps(std::string_view text) {
  std::vector<RankDump> dumps;
  while (dumps.size() < 2) {
    const size_t end = std::min(text.find('\0'), text.size());
    auto dump = parse_dump(text.substr(0, end), "fuzz.json");
    if (!dump.ok()) return check_words(dump.status());
    const auto again = parse_dump(dump_text(*dump), "fuzz.json");
    check(again.ok() && again->records.size() == dump->records.size(),
          "a dump that does not come again");
    dumps.push_back(*std::move(dump));
    if (end == text.size()) break;
    text.remove_prefix(end + 1);
  }
  const auto trace = trace_dumps(dumps);
  if (!trace.ok()) check_words(trace.status());
}

void feed_status(std::string_view text) {
  const auto status = parse_status(text, "fuzz.sock");
  if (!status.ok()) return check_words(status.status());
  check(!status_words(*status).empty(), "a status without words");
  check(parse_status(status_text(*status), "fuzz.sock").ok(), "a status that does not come again");
}

void feed_settings(std::string_view text) {
  if (const auto endpoint = parse_endpoint(text); !endpoint.ok()) check_words(endpoint.status());
  if (const auto token = Token::from_text(text, "fuzz"); !token.ok()) check_words(token.status());
  if (const auto rules = AlgorithmRules::parse(text); !rules.ok()) check_words(rules.status());
  constexpr uint32_t kMost = 4096;
  const auto tasks = parse_slurm_tasks(text, kMost);
  check(!tasks || (!tasks->empty() && tasks->size() <= kMost), "tasks of no node, or too many");
}

using Reader = void (*)(std::string_view);
constexpr Reader kReaders[] = {feed_server, feed_client,  shake_hands,      greet,
                               feed_header, feed_failure, feed_whereabouts, feed_card,
                               feed_dumps,  feed_status,  feed_settings};

// --- What to begin with

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string some_requests() {
  return encode_request({.opcode = Opcode::kSet, .number = 1, .key = "a", .value = "1"}) +
         encode_request({.opcode = Opcode::kGet,
                         .number = 2,
                         .key = "b",
                         .wait = std::chrono::microseconds(9)}) +
         encode_request({.opcode = Opcode::kAdd, .number = 3, .key = "a", .amount = 5}) +
         encode_request({.opcode = Opcode::kCompareSet,
                         .number = 4,
                         .key = "b",
                         .value = "2",
                         .expected = "x"}) +
         encode_request({.opcode = Opcode::kTryGet, .number = 5, .key = "b"}) +
         encode_request({.opcode = Opcode::kRemove, .number = 6, .key = "b"});
}

std::string some_dump(uint32_t rank) {
  RankDump dump;
  dump.group.name = "fuzz";
  dump.group.place = {rank, 2};
  set_origin(&dump);
  return dump_text(dump);
}

std::string some_status() {
  ProcessStatus status{.host = "here", .process_id = 1, .time_ns = 1, .groups = {}};
  GroupStatus group;
  group.name = "fuzz";
  group.place = {0, 2};
  group.device = "cpu:0";
  group.peers = {{.rank = 1, .heard_ns = 1, .lost = "it left"}};
  status.groups = {group};
  return status_text(status);
}

std::string some_card() {
  RankCard card;
  card.engine = "ucx";
  card.device = "cpu:0";
  card.rows.emplace_back();
  return encode(card);
}

/// One for each reader and more, which the mutations begin with.
std::vector<std::pair<Reader, std::string>> seeds() {
  const Operation operation{.kind = Kind::kAllReduce, .dtype = BP_DTYPE_F32, .count = 3};
  const std::string value = "text";
  const std::string answers =
      encode_answer_head({.number = 1, .kind = Answer::Kind::kValue, .text = value}) + value +
      encode_answer_head({.number = 2, .kind = Answer::Kind::kNumber, .amount = 7});
  return {{feed_server, some_requests()},
          {feed_client, answers},
          {shake_hands, ""},
          {shake_hands, std::string("\x05\x10\x01", 3)},
          {greet, "BPHS\x01\x01"},
          {feed_header, text_of(bytes_of(header_of(operation, 5, 6)))},
          {feed_failure, encode(Failure{.code = BP_TIMEOUT,
                                        .words = "late",
                                        .culprits = {1, 2},
                                        .sequence = 3,
                                        .operation = "barrier"})},
          {feed_whereabouts, encode(Whereabouts{.called = operation,
                                                .entered = 2,
                                                .completed = 1,
                                                .operation = "barrier",
                                                .held = 2,
                                                .held_by = "queued",
                                                .held_group = "b"})},
          {feed_card, some_card()},
          {feed_dumps, some_dump(0) + '\0' + some_dump(1)},
          {feed_status, some_status()},
          {feed_settings, "127.0.0.1:80"},
          {feed_settings, "[::1]:80"},
          {feed_settings, "2(x3),1"},
          {feed_settings, "all_reduce:0-8K=recursive_doubling;8K-=ring,broadcast:binomial"},
          {feed_settings, std::string(Token::kTextDigits, 'a')}};
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  if (bytes == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, bytes - 1);
  kReaders[data[0] % std::size(kReaders)](rest);
  return 0;
}

/// With BP_FUZZ_SEEDS=FOLDER it writes what to begin with, and ends.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* const folder = std::getenv("BP_FUZZ_SEEDS");
  if (folder == nullptr) return 0;
  int number = 0;
  for (const auto& [reader, text] : seeds()) {
    const auto path = std::filesystem::path(folder) / std::to_string(number++);
    const auto place = std::find(std::begin(kReaders), std::end(kReaders), reader);
    std::ofstream(path, std::ios::binary)
        << static_cast<char>(place - std::begin(kReaders)) << text;
  }
  std::exit(0);
}
