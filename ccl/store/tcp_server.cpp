// SPDX-License-Identifier: Apache-2.0
//
// POSIX: this file asks the operating system.
#include "ccl/store/tcp_server.hpp"

#include <csignal>
#include <utility>

#include "ccl/store/server_loop.hpp"
#include "core/base/fork.hpp"

namespace bp::ccl {
namespace {

/// A thread to which no signal of the application goes: its handlers run elsewhere. Throws as
/// std::thread.
template <class Body>
std::thread start_without_signals(Body body) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  const Status status = contain([&] { thread = std::thread(std::move(body)); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!status.ok()) throw NoMemory(status);
  return thread;
}

}  // namespace

Result<std::unique_ptr<TcpServer>> TcpServer::start(TcpServerOptions options) {
  Descriptor unused(options.bound_socket);  // owned here where the loop does not come to be
  BP_TRY(check_not_forked());
  watch_forks();
  unused.release();
  BP_TRY_ASSIGN(std::shared_ptr<ServerLoop> loop, ServerLoop::make(std::move(options)));
  std::unique_ptr<TcpServer> server(new TcpServer(std::move(loop)));
  return contain([&]() -> Result<std::unique_ptr<TcpServer>> {
    server->thread_ = start_without_signals([loop = server->loop_] { loop->run(); });
    return std::move(server);
  });
}

TcpServer::TcpServer(std::shared_ptr<ServerLoop> loop) : loop_(std::move(loop)) {}

TcpServer::~TcpServer() {
  if (!thread_.joinable()) return;
  if (forked()) {  // the thread is not in this process: it all stays where it is
    new std::shared_ptr<ServerLoop>(loop_);
    thread_.detach();
    return;
  }
  loop_->stop();
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();  // a log sink ends the server from within its own thread
  } else {
    thread_.join();
  }
}

const std::string& TcpServer::endpoint() const { return loop_->endpoint(); }

size_t TcpServer::client_count() const { return loop_->client_count(); }

}  // namespace bp::ccl
