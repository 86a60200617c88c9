// SPDX-License-Identifier: Apache-2.0
//
// The socket at which a process tells where its groups are: who connects gets one document. It has
// a thread of its own, and what clients do or leave holds up nobody else.
#ifndef BACKPLANE_CCL_WATCH_STATUS_SERVER_HPP
#define BACKPLANE_CCL_WATCH_STATUS_SERVER_HPP

#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ccl/watch/status.hpp"
#include "core/base/status.hpp"

namespace bp::ccl {

/// A group. Any thread; must not wait for long.
class StatusSource {
 public:
  virtual GroupStatus status() const = 0;

 protected:
  ~StatusSource() = default;
};

class StatusServer {
 public:
  /// `path`: of the socket, or a folder, in which it is backplane-PROCESS.sock. One server for each
  /// path in a process: it lives as long as its users do. Only this user may connect. A socket that
  /// a dead process left there is replaced. Errors, naming the path: INVALID_ARGUMENT where there
  /// is something that is no socket, and for a path that is too long; UNAVAILABLE where another
  /// process serves, and for what the system refuses.
  static Result<std::shared_ptr<StatusServer>> open(const std::string& path);
  /// Removes the socket, unless another has taken its place; not in a forked child, which has the
  /// parent's.
  ~StatusServer();
  StatusServer(const StatusServer&) = delete;
  StatusServer& operator=(const StatusServer&) = delete;

  /// Throws std::bad_alloc.
  void add(const StatusSource* source);
  /// When this returns the source is asked no more.
  void remove(const StatusSource* source);
  /// Of the socket.
  const std::string& path() const { return path_; }

 private:
  struct Client;
  explicit StatusServer(std::string path) : path_(std::move(path)) {}
  static Result<StatusServer*> take(const std::string& path);
  Status listen();
  void remove_file();
  void run(std::vector<Client> clients);  // with room for all
  void accept_clients(std::vector<Client>* clients);
  std::string document();

  const std::string path_;
  uint64_t file_number_ = 0;  // of the socket in its folder
  int listener_ = -1;
  int waker_ = -1;
  std::mutex mutex_;
  std::vector<const StatusSource*> sources_;  // under mutex_
  std::thread thread_;
};

/// What the socket at `path` answers; of a folder, all sockets in it that a process serves, by
/// name. Errors: INVALID_ARGUMENT for what is none, and for no document; UNAVAILABLE where no
/// process serves it, or one does not answer within 5 s; all naming the path.
Result<std::vector<std::string>> read_status(const std::string& path);

}  // namespace bp::ccl

#endif
