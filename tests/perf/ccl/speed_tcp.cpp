// SPDX-License-Identifier: Apache-2.0
//
// What the link between two hosts carries: speed_tcp PREFIX RANK ADDRESS. A plain connection to
// rank 0, which listens at the address, an IPv4 one. "transfer" sends bytes of rank 0 to rank 1,
// "swap" those of both at once.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <thread>
#include <vector>

#include "tests/perf/ccl/speed_rank.hpp"

namespace {

constexpr uint16_t kPort = 4712;
constexpr int kPatienceS = 60;

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {
    if (number < 0) fail("a socket");
  }
  ~Descriptor() { close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return number_; }

 private:
  const int number_;
};

void limit_waits(int socket) {
  const timeval patience{.tv_sec = kPatienceS, .tv_usec = 0};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
}

sockaddr_in address_of(const std::string& text) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kPort);
  if (inet_pton(AF_INET, text.c_str(), &address.sin_addr) != 1) {
    throw std::runtime_error("expected an IPv4 address, found " + text);
  }
  return address;
}

int accept_one(const sockaddr_in& address) {
  const Descriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  limit_waits(listener.get());
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(listener.get(), 1) != 0) {
    fail("listening");
  }
  return accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC);
}

/// Until the other rank listens.
int connect_to(const sockaddr_in& address) {
  const auto deadline = perf::Clock::now() + std::chrono::seconds(kPatienceS);
  while (true) {
    const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made < 0) fail("a socket");
    if (connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
      return made;
    }
    close(made);
    if (perf::Clock::now() > deadline) fail("connecting");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

class Link {
 public:
  Link(uint32_t rank, const std::string& address)
      : rank_(rank),
        socket_(rank == 0 ? accept_one(address_of(address)) : connect_to(address_of(address))) {
    limit_waits(socket_.get());
    const int yes = 1;
    setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  }

  double time_transfer(uint64_t bytes, uint64_t iterations) {
    make_room(bytes);
    meet();
    const double each = perf::nanoseconds_of(iterations, [&] {
      if (rank_ == 0) {
        send_all(bytes);
        take(1);  // the other one has it
      } else {
        take(bytes);
        send_all(1);
      }
    });
    if (rank_ != 0) check_received();
    return each;
  }
  double time_swap(uint64_t bytes, uint64_t iterations) {
    make_room(bytes);
    meet();
    const double each = perf::nanoseconds_of(iterations, [&] {
      std::string why;
      std::thread sender([&] {
        try {
          send_all(bytes);
        } catch (const std::exception& error) {
          why = error.what();
        }
      });
      try {
        take(bytes);
      } catch (...) {
        sender.join();
        throw;
      }
      sender.join();
      if (!why.empty()) throw std::runtime_error(why);
    });
    check_received();
    return each;
  }

 private:
  void make_room(uint64_t bytes) {
    sent_.assign(bytes, static_cast<char>(rank_ + 1));
    received_.assign(bytes, 0);
  }
  void check_received() const {
    const auto expected = static_cast<char>(1 - rank_ + 1);  // the other rank's
    const auto is_right = [expected](char byte) { return byte == expected; };
    if (std::all_of(received_.begin(), received_.end(), is_right)) return;
    throw std::runtime_error("received other bytes than were sent");
  }
  void meet() {
    send_all(1);
    take(1);
  }
  void send_all(uint64_t bytes) {
    for (uint64_t done = 0; done < bytes;) {
      const ssize_t sent = send(socket_.get(), sent_.data() + done, bytes - done, MSG_NOSIGNAL);
      if (sent <= 0) fail("sending");
      done += static_cast<uint64_t>(sent);
    }
  }
  void take(uint64_t bytes) {
    for (uint64_t done = 0; done < bytes;) {
      const ssize_t came = recv(socket_.get(), received_.data() + done, bytes - done, 0);
      if (came == 0) throw std::runtime_error("the other rank has ended");
      if (came < 0) fail("receiving");
      done += static_cast<uint64_t>(came);
    }
  }

  const uint32_t rank_;
  const Descriptor socket_;
  std::vector<char> sent_;
  std::vector<char> received_;
};

void run(const std::string& prefix, uint32_t rank, const std::string& address) {
  Link link(rank, address);
  perf::serve(
      {{"transfer",
        [&](uint64_t bytes, uint64_t iterations) { return link.time_transfer(bytes, iterations); }},
       {"swap",
        [&](uint64_t bytes, uint64_t iterations) { return link.time_swap(bytes, iterations); }}},
      prefix, rank);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 4) throw std::runtime_error("expected PREFIX, RANK and ADDRESS");
  run(argv[1], static_cast<uint32_t>(std::stoul(argv[2])), argv[3]);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "speed_tcp: %s\n", error.what());
  return 1;
}
