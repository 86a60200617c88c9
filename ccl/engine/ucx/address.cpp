// SPDX-License-Identifier: Apache-2.0
#include "ccl/engine/ucx/address.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include "ccl/engine/ucx/ucp.hpp"

namespace bp_ucx {
namespace {

constexpr std::string_view kAddressMark = "BPUCX002";
constexpr size_t kMostTextBytes = 65536;

template <class Number>
void put(std::string* out, Number value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void put_text(std::string* out, const std::string& text) {
  put(out, static_cast<uint64_t>(text.size()));
  *out += text;
}

template <class Number>
bool take(std::string_view* left, Number* out) {
  if (left->size() < sizeof(*out)) return false;
  std::memcpy(out, left->data(), sizeof(*out));
  left->remove_prefix(sizeof(*out));
  return true;
}

bool take_text(std::string_view* left, std::string* out) {
  uint64_t size = 0;
  if (!take(left, &size) || size > kMostTextBytes || size > left->size()) return false;
  *out = left->substr(0, size);
  left->remove_prefix(size);
  return true;
}

/// FNV-1a of 64 bits.
uint64_t sum_of(std::string_view bytes) {
  uint64_t sum = 14695981039346656037u;
  for (const char byte : bytes) sum = (sum ^ static_cast<unsigned char>(byte)) * 1099511628211u;
  return sum;
}

/// Opens a file of the kernel's. False: there is none. Throws Refusal where it cannot be read:
/// taken for none, a peer of this host would look dead, or like one of another host, which is not
/// watched.
bool open_file(const std::string& path, std::ifstream* out) {
  errno = 0;
  out->open(path);
  if (out->is_open()) return true;
  if (errno == ENOENT || errno == ESRCH || errno == EACCES) return false;
  throw Refusal(BP_UNAVAILABLE, path + ": " + std::strerror(errno));
}

/// What tells one set of process numbers from another: the boot, and the name space.
std::string process_host() {
  std::string boot;
  std::ifstream file;
  if (open_file("/proc/sys/kernel/random/boot_id", &file)) file >> boot;
  std::array<char, 64> name{};
  const ssize_t size = readlink("/proc/self/ns/pid", name.data(), name.size());
  return boot + "/" + std::string(name.data(), size > 0 ? static_cast<size_t>(size) : 0);
}

}  // namespace

std::string encode(const Address& address) {
  std::string bytes(kAddressMark);
  put(&bytes, address.end[0]);
  put(&bytes, address.end[1]);
  put(&bytes, address.process);
  put(&bytes, address.start_time);
  put_text(&bytes, address.host);
  put_text(&bytes, address.worker);
  put_text(&bytes, address.network);
  put(&bytes, sum_of(bytes));
  return bytes;
}

std::optional<Address> decode_address(std::string_view bytes) {
  uint64_t sum = 0;
  if (!bytes.starts_with(kAddressMark) || bytes.size() < kAddressMark.size() + sizeof(sum))
    return std::nullopt;
  std::string_view end = bytes.substr(bytes.size() - sizeof(sum));
  take(&end, &sum);
  bytes.remove_suffix(sizeof(sum));
  if (sum != sum_of(bytes)) return std::nullopt;
  bytes.remove_prefix(kAddressMark.size());
  Address address;
  const bool is_whole = take(&bytes, &address.end[0]) && take(&bytes, &address.end[1]) &&
                        take(&bytes, &address.process) && take(&bytes, &address.start_time) &&
                        take_text(&bytes, &address.host) && take_text(&bytes, &address.worker) &&
                        take_text(&bytes, &address.network);
  if (!is_whole || !bytes.empty() || address.worker.empty()) return std::nullopt;
  return address;
}

Address own_address() {
  Address address;
  if (getrandom(address.end.data(), sizeof(address.end), 0) != sizeof(address.end)) {
    throw Refusal(BP_UNAVAILABLE, "the system gives no random bytes");
  }
  address.process = getpid();
  const auto state = state_of_process(address.process);
  if (state) address.start_time = state->start_time;
  address.host = process_host();
  return address;
}

std::optional<ProcessState> state_of_process(int32_t process) {
  std::ifstream file;
  if (!open_file("/proc/" + std::to_string(process) + "/stat", &file)) return std::nullopt;
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  // The second field is the program's name in brackets, which may hold anything.
  const size_t end = text.rfind(')');
  if (end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(end + 1));
  constexpr int kFieldsBetween = 18;  // the fourth to the twenty-first
  ProcessState state;
  fields >> state.letter;
  std::string skipped;
  for (int i = 0; i < kFieldsBetween; ++i) fields >> skipped;
  if (!(fields >> state.start_time)) return std::nullopt;
  return state;
}

}  // namespace bp_ucx
