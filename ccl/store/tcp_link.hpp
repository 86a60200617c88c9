// SPDX-License-Identifier: Apache-2.0
//
// A client's connection to the server of a store, which many threads use at once. One of those that
// wait for an answer does the reading and writing for all; when it has its own answer, another
// takes its place.
#ifndef BACKPLANE_CCL_STORE_TCP_LINK_HPP
#define BACKPLANE_CCL_STORE_TCP_LINK_HPP

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ccl/store/events.hpp"
#include "ccl/store/sockets.hpp"
#include "ccl/store/store_rules.hpp"
#include "ccl/store/tcp_store.hpp"
#include "ccl/store/wire.hpp"
#include "core/base/status.hpp"

namespace bp::ccl {

class TcpLink {
 public:
  using TimePoint = Store::Clock::time_point;
  /// What may wait to be sent to a server that does not read.
  static constexpr size_t kMostUnsentBytes = size_t{8} << 20;

  /// An answer whose text is its own.
  struct Reply {
    bp_status status = BP_OK;
    Answer::Kind kind = Answer::Kind::kNothing;
    std::string text;
    int64_t amount = 0;
  };

  /// Errors: as connect_tcp_store().
  static Result<std::shared_ptr<TcpLink>> connect(const TcpStoreOptions& options);

  /// "tcp 127.0.0.1:4711".
  const std::string& name() const { return name_; }
  /// Sends a request, whose number is chosen here, and waits for its answer. Errors: TIMEOUT;
  /// CANCELLED once the flag is set; UNAVAILABLE once the connection is lost.
  Result<Reply> call(Request request, TimePoint until, const AbortFlag& aborted);
  /// To be called when a flag was set. Never waits.
  void wake() noexcept;

 private:
  struct Waiting {
    bool is_done = false;
    Reply reply;
  };
  using Lock = std::unique_lock<std::mutex>;

  TcpLink(std::string name, Descriptor socket, Wakeup wakeup);
  template <class IsSo>
  Status wait(IsSo is_so, std::string_view late, Lock* lock, TimePoint until,
              const AbortFlag& aborted);
  void move_bytes(Lock* lock, TimePoint until);
  void flush();
  void receive();
  Status take_answers();
  void lose(const std::string& words);

  const std::string name_;
  const Descriptor socket_;
  const Wakeup wakeup_;  // of the thread that moves bytes

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_moved_ = false;  // a thread moves bytes
  Status lost_;
  uint64_t next_number_ = 1;
  std::map<uint64_t, Waiting*> waiting_;
  std::string unsent_;
  size_t sent_ = 0;
  std::string input_;
  std::vector<char> room_;
};

}  // namespace bp::ccl

#endif
