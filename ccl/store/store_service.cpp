// SPDX-License-Identifier: Apache-2.0
#include "ccl/store/store_service.hpp"

#include "core/base/utf8.hpp"

namespace bp::ccl {

Status StoreService::handle(SessionId session, const Request& request, TimePoint now) {
  switch (request.opcode) {
    case Opcode::kSet:
      reply_status(session, request.number, put(request.key, request.value));
      return {};
    case Opcode::kGet:
      return wait(session, request, now);
    case Opcode::kTryGet:
      reply_value(session, request.number, keys_.find(request.key));
      return {};
    case Opcode::kAdd:
      add(session, request);
      return {};
    case Opcode::kCompareSet:
      compare_set(session, request);
      return {};
    case Opcode::kRemove:
      reply(session, {.number = request.number,
                      .kind = Answer::Kind::kFlag,
                      .amount = keys_.remove(request.key) ? 1 : 0});
      return {};
    case Opcode::kAnswer:
      break;
  }
  return Status(BP_INVALID_ARGUMENT, "an answer is no request");
}

Status StoreService::wait(SessionId session, const Request& request, TimePoint now) {
  const KeyMap::Value value = keys_.find(request.key);
  if (value != nullptr || request.wait.count() <= 0) {
    if (value != nullptr) reply_value(session, request.number, value);
    if (value == nullptr) reply(session, {.number = request.number, .status = BP_TIMEOUT});
    return {};
  }
  std::set<WaitId>& waits = waits_of_sessions_[session];
  if (waits.size() >= kMostWaits) {
    return Status(BP_INVALID_ARGUMENT,
                  "the peer waits for more than " + std::to_string(kMostWaits) + " keys at once");
  }
  const WaitId id = next_wait_++;
  const auto [made, is_new] = waits_.emplace(
      id, Wait{session, request.number, std::string(request.key), now + request.wait});
  waits.insert(id);
  waits_of_keys_[made->second.key].insert(id);
  deadlines_.emplace(made->second.deadline, id);
  return {};
}

void StoreService::end_wait(WaitId id) {
  const auto found = waits_.find(id);
  if (found == waits_.end()) return;
  const Wait& wait = found->second;
  deadlines_.erase({wait.deadline, id});
  const auto of_key = waits_of_keys_.find(wait.key);
  if (of_key != waits_of_keys_.end()) {
    of_key->second.erase(id);
    if (of_key->second.empty()) waits_of_keys_.erase(of_key);
  }
  const auto of_session = waits_of_sessions_.find(wait.session);
  if (of_session != waits_of_sessions_.end()) {
    of_session->second.erase(id);
    if (of_session->second.empty()) waits_of_sessions_.erase(of_session);
  }
  waits_.erase(found);
}

void StoreService::forget(SessionId session) {
  const auto found = waits_of_sessions_.find(session);
  if (found == waits_of_sessions_.end()) return;
  const std::set<WaitId> ended = found->second;
  for (const WaitId id : ended) end_wait(id);
}

void StoreService::expire(TimePoint now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const WaitId id = deadlines_.begin()->second;
    const Wait& wait = waits_.at(id);
    reply(wait.session, {.number = wait.number, .status = BP_TIMEOUT});
    end_wait(id);
  }
}

StoreService::TimePoint StoreService::next_deadline() const {
  return deadlines_.empty() ? TimePoint::max() : deadlines_.begin()->first;
}

/// Also ends the waits for the key.
Status StoreService::put(std::string_view key, std::string_view value) {
  BP_TRY(keys_.set(key, value));
  const auto found = waits_of_keys_.find(key);
  if (found == waits_of_keys_.end()) return {};
  const std::set<WaitId> ended = found->second;
  const KeyMap::Value shared = keys_.find(key);
  for (const WaitId id : ended) {
    const Wait& wait = waits_.at(id);
    reply_value(wait.session, wait.number, shared);
    end_wait(id);
  }
  return {};
}

void StoreService::add(SessionId session, const Request& request) {
  const auto sum = keys_.sum(request.key, request.amount);
  if (!sum.ok()) return reply_status(session, request.number, sum.status());
  const Status status = put(request.key, std::to_string(*sum));
  if (!status.ok()) return reply_status(session, request.number, status);
  reply(session, {.number = request.number, .kind = Answer::Kind::kNumber, .amount = *sum});
}

void StoreService::compare_set(SessionId session, const Request& request) {
  if (keys_.has(request.key, request.expected)) {
    const Status status = put(request.key, request.value);
    if (!status.ok()) return reply_status(session, request.number, status);
  }
  reply_value(session, request.number, keys_.find(request.key));
}

void StoreService::reply(SessionId session, const Answer& answer, KeyMap::Value body) {
  replies_.push_back({session, encode_answer_head(answer), std::move(body)});
}

void StoreService::reply_value(SessionId session, uint64_t number, const KeyMap::Value& value) {
  if (value == nullptr) return reply(session, {.number = number});
  reply(session, {.number = number, .kind = Answer::Kind::kValue, .text = *value}, value);
}

void StoreService::reply_status(SessionId session, uint64_t number, const Status& status) {
  if (status.ok()) return reply(session, {.number = number});
  auto words = std::make_shared<const std::string>(utf8_prefix(status.message(), kMostWordsBytes));
  const Answer answer = {
      .number = number, .status = status.code(), .kind = Answer::Kind::kWords, .text = *words};
  reply(session, answer, std::move(words));
}

}  // namespace bp::ccl
