// SPDX-License-Identifier: Apache-2.0
//
// A port for a server that has to say beforehand which one it takes.
#ifndef BACKPLANE_TESTS_FREE_ENDPOINT_HPP
#define BACKPLANE_TESTS_FREE_ENDPOINT_HPP

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace bp::tests {

/// "127.0.0.1:4711", which nobody has at this moment.
inline std::string free_endpoint() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  const int found = socket(AF_INET, SOCK_STREAM, 0);
  bind(found, reinterpret_cast<sockaddr*>(&address), size);
  getsockname(found, reinterpret_cast<sockaddr*>(&address), &size);
  close(found);
  return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

}  // namespace bp::tests

#endif
