// SPDX-License-Identifier: Apache-2.0
//
// See status_server.hpp.
#include "ccl/watch/status_server.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "core/base/folder.hpp"
#include "core/base/foreign_text.hpp"
#include "core/base/fork.hpp"

namespace bp::ccl {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kClientTime = std::chrono::seconds(1);
constexpr auto kAnswerTime = std::chrono::seconds(5);
constexpr auto kPause = std::chrono::milliseconds(100);
constexpr size_t kMostClients = 16;
constexpr size_t kMostAnswerBytes = size_t{64} << 20;
constexpr mode_t kOwnerOnly = 0600;

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int get() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

Status refuse(bp_status code, const std::string& path, const std::string& words) {
  return {code, "the status socket " + foreign_text(path) + ": " + words};
}

Status refuse_errno(const std::string& path, const char* action) {
  const int error = errno;
  return refuse(BP_UNAVAILABLE, path,
                std::string("cannot ") + action + ": " + std::generic_category().message(error));
}

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return refuse(BP_INVALID_ARGUMENT, path,
                  "expected a path of at most " + std::to_string(sizeof(address.sun_path) - 1) +
                      " bytes, found " + std::to_string(path.size()));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

Descriptor new_socket() {
  return Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

bool connects(const Descriptor& socket, const sockaddr_un& address) {
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

/// Held while a socket is put into the folder, or taken out: of two processes that find a dead
/// one's there, one replaces it, and the other sees that one's.
Result<Descriptor> lock_folder(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path();
  Descriptor locked(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!locked.is_open()) return refuse_errno(path, "open its folder");
  for (const auto end = Clock::now() + kClientTime;
       ::flock(locked.get(), LOCK_EX | LOCK_NB) != 0;) {
    if (errno != EWOULDBLOCK || Clock::now() > end) return refuse_errno(path, "lock its folder");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return locked;
}

/// With the folder locked: nothing is at the path any more.
Status clear_place(const std::string& path, const sockaddr_un& address) {
  struct stat there {};
  if (::lstat(path.c_str(), &there) != 0) {
    return errno == ENOENT ? Status() : refuse_errno(path, "look at it");
  }
  if (!S_ISSOCK(there.st_mode)) {
    return refuse(BP_INVALID_ARGUMENT, path, "expected a socket, a folder or nothing there");
  }
  const Descriptor probe = new_socket();
  if (!probe.is_open()) return refuse_errno(path, "make a socket");
  if (connects(probe, address) || errno == EAGAIN) {
    return refuse(BP_UNAVAILABLE, path,
                  "another process serves it; in a folder each process has its own");
  }
  if (errno != ECONNREFUSED) return refuse_errno(path, "connect to what is there");
  return ::unlink(path.c_str()) == 0 ? Status() : refuse_errno(path, "remove a dead process's");
}

/// Of a process. Users are counted by open(), under one lock with the socket's end: who opens a
/// path meanwhile would find a server that is about to go.
struct Servers {
  struct Entry {
    StatusServer* server = nullptr;
    size_t use_count = 0;
  };
  std::mutex mutex;
  std::map<std::string, Entry> by_path;

  // Never destroyed: groups may end as late as static objects.
  static Servers& instance() {
    static auto* const servers = new Servers();
    return *servers;
  }
  static void let_go(StatusServer* server) {
    Servers& all = instance();
    const std::lock_guard lock(all.mutex);
    const auto entry = all.by_path.find(server->path());
    if (--entry->second.use_count > 0) return;
    all.by_path.erase(entry);
    delete server;
  }
};

std::string host_name() {
  char host[256] = {};
  return ::gethostname(host, sizeof(host) - 1) == 0 ? host : "";
}

}  // namespace

struct StatusServer::Client {
  Descriptor socket;
  std::shared_ptr<const std::string> text;
  size_t sent = 0;
  Clock::time_point end;       // a second after it has read something
  Clock::time_point last_end;  // however it reads

  /// False: nothing more is to come.
  bool go_on() {
    if (text == nullptr) return false;
    const ssize_t count =
        ::send(socket.get(), text->data() + sent, text->size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) {
      sent += static_cast<size_t>(count);
      end = std::min(Clock::now() + kClientTime, last_end);
    }
    return sent < text->size() && (count > 0 || errno == EAGAIN || errno == EINTR);
  }
};

Result<std::shared_ptr<StatusServer>> StatusServer::open(const std::string& path) {
  return contain([&]() -> Result<std::shared_ptr<StatusServer>> {
    std::error_code error;
    std::string full = std::filesystem::absolute(path, error);
    if (error) return refuse(BP_UNAVAILABLE, path, "the working directory is gone");
    if (std::filesystem::is_directory(full, error)) {
      full += "/backplane-" + std::to_string(::getpid()) + ".sock";
    }
    BP_TRY_ASSIGN(StatusServer* const server, take(full));
    return std::shared_ptr<StatusServer>(server, Servers::let_go);
  });
}

/// For one more user, who lets go of it.
Result<StatusServer*> StatusServer::take(const std::string& path) {
  Servers& all = Servers::instance();
  const std::lock_guard lock(all.mutex);
  Servers::Entry& entry = all.by_path[path];
  if (entry.server == nullptr) {
    std::unique_ptr<StatusServer> made(new StatusServer(path));
    const Status listening = contain([&] { return made->listen(); });
    if (!listening.ok()) {
      all.by_path.erase(path);
      return listening;
    }
    entry.server = made.release();
  }
  ++entry.use_count;
  return entry.server;
}

Status StatusServer::listen() {
  BP_TRY_ASSIGN(const sockaddr_un address, address_of(path_));
  BP_TRY_ASSIGN(const Descriptor folder, lock_folder(path_));
  BP_TRY(clear_place(path_, address));
  Descriptor socket = new_socket();
  Descriptor waker(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  // Before it has a name: so nobody else can ever connect.
  if (!socket.is_open() || !waker.is_open() || ::fchmod(socket.get(), kOwnerOnly) != 0) {
    return refuse_errno(path_, "make a socket");
  }
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return refuse_errno(path_, "put a socket there");
  }
  listener_ = socket.release();
  waker_ = waker.release();
  struct stat there {};
  if (::lstat(path_.c_str(), &there) == 0) file_number_ = there.st_ino;
  if (::listen(listener_, static_cast<int>(kMostClients)) != 0) {
    return refuse_errno(path_, "listen there");
  }
  // Here, since nobody would catch what its thread throws.
  std::vector<Client> clients;
  clients.reserve(kMostClients);
  thread_ = std::thread([this, room = std::move(clients)]() mutable { run(std::move(room)); });
  return {};
}

StatusServer::~StatusServer() {
  // The thread and the file of a forked child are the parent's.
  const bool is_own_process = !forked();
  if (thread_.joinable() && !is_own_process) thread_.detach();
  if (thread_.joinable()) {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(waker_, &one, sizeof(one));
    thread_.join();
  }
  if (file_number_ != 0 && is_own_process) remove_file();
  if (listener_ >= 0) ::close(listener_);
  if (waker_ >= 0) ::close(waker_);
}

/// While the listener is open, no other file has its number.
void StatusServer::remove_file() {
  const auto folder = contain([&] { return lock_folder(path_); });
  struct stat there {};
  const bool is_own = folder.ok() && ::lstat(path_.c_str(), &there) == 0 &&
                      there.st_ino == file_number_ && S_ISSOCK(there.st_mode);
  if (is_own) ::unlink(path_.c_str());
}

void StatusServer::add(const StatusSource* source) {
  const std::lock_guard lock(mutex_);
  sources_.push_back(source);
}

void StatusServer::remove(const StatusSource* source) {
  const std::lock_guard lock(mutex_);
  std::erase(sources_, source);
}

std::string StatusServer::document() {
  ProcessStatus status;
  status.host = host_name();
  status.process_id = static_cast<uint64_t>(::getpid());
  const std::lock_guard lock(mutex_);
  for (const StatusSource* const source : sources_) status.groups.push_back(source->status());
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  status.time_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  return status_text(status);
}

void StatusServer::accept_clients(std::vector<Client>* clients) {
  const size_t before = clients->size();
  while (clients->size() < kMostClients) {
    Descriptor socket(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.is_open()) break;
    clients->push_back({std::move(socket), {}, 0, {}, {}});  // there is room
  }
  if (clients->size() == before) return;
  // One for all of them, made when all have come: many groups take long to write. Without memory
  // for it they get nothing.
  [[maybe_unused]] const Status made = contain([&] {
    const auto text = std::make_shared<const std::string>(document());
    for (size_t i = before; i < clients->size(); ++i) (*clients)[i].text = text;
  });
  const auto now = Clock::now();
  for (size_t i = before; i < clients->size(); ++i) {
    (*clients)[i].end = now + kClientTime;
    (*clients)[i].last_end = now + kAnswerTime;
  }
}

void StatusServer::run(std::vector<Client> clients) {
  auto next_accept = Clock::now();
  for (;;) {
    pollfd waits[2 + kMostClients] = {{waker_, POLLIN, 0}, {listener_, POLLIN, 0}};
    auto now = Clock::now();
    // What cannot be accepted, for want of descriptors, would be there at once again.
    if (clients.size() == kMostClients || now < next_accept) waits[1].fd = -1;
    auto end = waits[1].fd < 0 ? now + kPause : Clock::time_point::max();
    for (size_t i = 0; i < clients.size(); ++i) {
      waits[2 + i] = {clients[i].socket.get(), POLLOUT, 0};
      end = std::min(end, clients[i].end);
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(std::max(end, now) - now);
    const bool is_endless = end == Clock::time_point::max();
    ::poll(waits, 2 + clients.size(), is_endless ? -1 : static_cast<int>(left.count()));
    if ((waits[0].revents & POLLIN) != 0) return;
    now = Clock::now();
    // In this order: who was not looked at for a second, on a busy machine, is not to blame.
    std::erase_if(clients, [&](Client& client) { return !client.go_on() || now >= client.end; });
    if ((waits[1].revents & POLLIN) == 0) continue;
    const size_t before = clients.size();
    accept_clients(&clients);
    if (clients.size() == before) next_accept = now + kPause;
  }
}

namespace {

/// Waits for what `events` are. False: not in time.
bool await(const Descriptor& socket, Clock::time_point end) {
  pollfd wait = {socket.get(), POLLIN, 0};
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
  return left.count() > 0 && ::poll(&wait, 1, static_cast<int>(left.count())) > 0;
}

/// nullopt: its process is dead.
Result<std::optional<std::string>> read_socket(const std::string& path) {
  BP_TRY_ASSIGN(const sockaddr_un address, address_of(path));
  const Descriptor socket = new_socket();
  if (!socket.is_open()) return refuse_errno(path, "make a socket");
  const auto end = Clock::now() + kAnswerTime;
  while (!connects(socket, address)) {
    if (errno == ECONNREFUSED) return std::optional<std::string>();
    if (errno != EAGAIN || Clock::now() > end) return refuse_errno(path, "connect to it");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::string text;
  for (;;) {
    char bytes[65536];
    if (!await(socket, end)) {
      return refuse(BP_UNAVAILABLE, path, "its process does not answer within 5 s");
    }
    const ssize_t count = ::recv(socket.get(), bytes, sizeof(bytes), 0);
    if (count == 0) return std::optional(std::move(text));
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count < 0) return refuse_errno(path, "read from it");
    if (text.size() + static_cast<size_t>(count) > kMostAnswerBytes) {
      return refuse(BP_INVALID_ARGUMENT, path, "its answer is too long for a status");
    }
    text.append(bytes, static_cast<size_t>(count));
  }
}

}  // namespace

Result<std::vector<std::string>> read_status(const std::string& path) {
  struct stat there {};
  if (::stat(path.c_str(), &there) != 0) return refuse_errno(path, "look at it");
  std::vector<std::string> answers;
  if (!S_ISDIR(there.st_mode)) {
    if (!S_ISSOCK(there.st_mode)) {
      return refuse(BP_INVALID_ARGUMENT, path, "expected a socket, or a folder of sockets");
    }
    BP_TRY_ASSIGN(auto answer, read_socket(path));
    if (!answer) return refuse(BP_UNAVAILABLE, path, "its process is dead");
    answers.push_back(*std::move(answer));
    return answers;
  }
  BP_TRY_ASSIGN(const std::vector<std::string> names, names_in_folder(path));
  for (const std::string& name : names) {
    if (!name.starts_with("backplane-") || !name.ends_with(".sock")) continue;
    BP_TRY_ASSIGN(auto answer, read_socket(path + "/" + name));
    if (answer) answers.push_back(*std::move(answer));
  }
  if (answers.empty()) return refuse(BP_UNAVAILABLE, path, "no process serves one in the folder");
  return answers;
}

}  // namespace bp::ccl
