// SPDX-License-Identifier: Apache-2.0
//
// What the ranks of a group tell each other beside payloads: where are you, here I am, the group
// has failed.
#ifndef BACKPLANE_CCL_GROUP_CONTROL_HPP
#define BACKPLANE_CCL_GROUP_CONTROL_HPP

#include <list>
#include <string>
#include <vector>

#include "ccl/group/message.hpp"
#include "ccl/group/messenger.hpp"

namespace bp::ccl {

/// A message that has come whole.
struct ControlMessage {
  uint32_t rank = 0;
  Header header;
  std::string payload;
};

/// Driven. Ends its transfers by end().
class Control {
 public:
  Control(Messenger& messenger, uint64_t group, std::vector<uint32_t> peers)
      : messenger_(messenger), group_(group), peers_(std::move(peers)) {}

  void send(uint32_t rank, MessageType type, std::string payload, uint64_t sequence = 0);
  void message_arrived(uint32_t rank, const Header& header, uint64_t bytes, uint64_t token);
  /// Messages that have come since.
  std::vector<ControlMessage> take();
  /// take() would find nothing to do.
  bool is_idle() const { return unwanted_.empty() && outgoing_.empty() && incoming_.empty(); }
  /// Some are on their way out.
  bool is_sending() const { return !outgoing_.empty(); }
  void end();

 private:
  struct Outgoing {
    std::string payload;
    Transfer transfer;
  };
  struct Incoming {
    ControlMessage message;
    uint64_t token = 0;
    bool has_begun = false;
    Transfer transfer;
  };
  Messenger& messenger_;
  const uint64_t group_;
  const std::vector<uint32_t> peers_;
  std::list<Outgoing> outgoing_;  // transfers stay where they are
  std::list<Incoming> incoming_;
  std::vector<uint64_t> unwanted_;
};

}  // namespace bp::ccl

#endif
