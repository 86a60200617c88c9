// SPDX-License-Identifier: Apache-2.0
//
// See control.hpp.
#include "ccl/group/control.hpp"

namespace bp::ccl {

void Control::send(uint32_t rank, MessageType type, std::string payload, uint64_t sequence) {
  Outgoing& outgoing = outgoing_.emplace_back();
  outgoing.payload = std::move(payload);
  Header header;
  header.type = type;
  header.group = group_;
  header.sequence = sequence;
  header.bytes = outgoing.payload.size();
  messenger_.engine().send(peers_[rank], bytes_of(header), outgoing.payload.data(),
                           outgoing.payload.size(), &outgoing.transfer);
}

void Control::message_arrived(uint32_t rank, const Header& header, uint64_t bytes, uint64_t token) {
  if (bytes > kMostControlBytes) return unwanted_.push_back(token);
  Incoming& incoming = incoming_.emplace_back();
  incoming.message = {rank, header, std::string(bytes, '\0')};
  incoming.token = token;
}

std::vector<ControlMessage> Control::take() {
  for (const uint64_t token : unwanted_) messenger_.engine().drop(token);
  unwanted_.clear();
  std::erase_if(outgoing_, [](const Outgoing& outgoing) { return outgoing.transfer.is_over(); });
  std::vector<ControlMessage> messages;
  for (auto incoming = incoming_.begin(); incoming != incoming_.end();) {
    if (!incoming->has_begun) {
      incoming->has_begun = true;
      messenger_.engine().receive(incoming->token, incoming->message.payload.data(),
                                  &incoming->transfer);
    }
    const bp_status status = incoming->transfer.status.load(std::memory_order_acquire);
    if (status == BP_PENDING) {
      ++incoming;
      continue;
    }
    if (status == BP_OK) messages.push_back(std::move(incoming->message));
    incoming = incoming_.erase(incoming);
  }
  return messages;
}

void Control::end() {
  for (Outgoing& outgoing : outgoing_) {
    if (!outgoing.transfer.is_over()) messenger_.engine().cancel(&outgoing.transfer);
  }
  for (Incoming& incoming : incoming_) {
    if (!incoming.has_begun) {
      messenger_.engine().drop(incoming.token);
    } else if (!incoming.transfer.is_over()) {
      messenger_.engine().cancel(&incoming.transfer);
    }
  }
  outgoing_.clear();
  incoming_.clear();
}

}  // namespace bp::ccl
