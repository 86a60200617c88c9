// SPDX-License-Identifier: Apache-2.0
//
// What an end tells of itself, so that others reach it and notice its death.
#ifndef BACKPLANE_CCL_ENGINE_UCX_ADDRESS_HPP
#define BACKPLANE_CCL_ENGINE_UCX_ADDRESS_HPP

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace bp_ucx {

/// Of no other end, ever, and known only to those who have its address.
using EndId = std::array<uint64_t, 2>;

struct Address {
  EndId end{};
  int32_t process = 0;      // its number, among those of `host`
  uint64_t start_time = 0;  // the kernel's: another process with that number has another
  std::string host;         // and of its process numbers
  std::string worker;       // UCX's own
  std::string network;      // ... with what serves over the network alone; empty: no interface
};

std::string encode(const Address& address);
/// nullopt for what encode() did not make. UCX reads past the end of an address that is not whole,
/// so a sum of the bytes stands at the end. It is no proof: UCX ends the process (an assertion)
/// with one that somebody has forged, so who made an address is proved above this (ProvenEngine).
std::optional<Address> decode_address(std::string_view bytes);

/// Of this process: all but `worker` and `network`. Throws Refusal where the system has no random
/// bytes, or tells nothing of this process.
Address own_address();
struct ProcessState {
  char letter = 0;          // the kernel's: 'R' runs, 'T' is stopped, 't' by a debugger
  uint64_t start_time = 0;  // as above
};
/// nullopt: there is no such process. Throws Refusal where that cannot be read.
std::optional<ProcessState> state_of_process(int32_t process);

}  // namespace bp_ucx

#endif
