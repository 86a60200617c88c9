// SPDX-License-Identifier: Apache-2.0
//
// A file is: the mark, the sizes of key and binary, key, binary, and a checksum over all before it.
#include "program_cache.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace bp::xpu {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = "bp-xpu1\n";
constexpr std::string_view kSuffix = ".clbin";
constexpr size_t kHeadBytes = 8 + 2 * sizeof(uint64_t);
constexpr size_t kMaxFileBytes = size_t{1} << 28;  // of a file that is read at all
constexpr size_t kMaxFiles = 4096;                 // in the folder; the oldest go

/// FNV-1a: against torn and decayed files. Keys are compared, so nothing hangs on collisions.
uint64_t checksum(std::string_view bytes) {
  uint64_t hash = 0xCBF2'9CE4'8422'2325U;
  for (const char byte : bytes) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x0000'0100'0000'01B3U;
  }
  return hash;
}

std::string default_folder() {
  // Neither is answered where the process runs with raised privileges.
  const auto absolute = [](const char* value) { return value != nullptr && value[0] == '/'; };
  if (const char* const cache = secure_getenv("XDG_CACHE_HOME"); absolute(cache)) {
    return std::string(cache) + "/backplane";
  }
  if (const char* const home = secure_getenv("HOME"); absolute(home)) {
    return std::string(home) + "/.cache/backplane";
  }
  return {};
}

/// An open file that is closed with its owner.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  bool is_open() const { return descriptor_ >= 0; }

  /// The bytes of a regular file that belongs to the user alone; empty if it is anything else.
  std::string read_own() const {
    struct stat status {};
    if (fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode) ||
        status.st_uid != geteuid() || (status.st_mode & 077) != 0 ||
        std::cmp_greater(status.st_size, kMaxFileBytes)) {
      return {};
    }
    std::string bytes(static_cast<size_t>(status.st_size), '\0');
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t got = ::read(descriptor_, bytes.data() + done, bytes.size() - done);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return {};
      done += static_cast<size_t>(got);
    }
    return bytes;
  }

  bool write_all(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t put = ::write(descriptor_, bytes.data(), bytes.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return false;
      bytes.remove_prefix(static_cast<size_t>(put));
    }
    return true;
  }

 private:
  int descriptor_;
};

void append_size(std::string* out, uint64_t value) {
  std::array<char, sizeof(value)> bytes{};
  std::memcpy(bytes.data(), &value, sizeof(value));
  out->append(bytes.data(), bytes.size());
}

uint64_t size_at(std::string_view bytes, size_t place) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data() + place, sizeof(value));
  return value;
}

std::string pack(std::string_view key, std::span<const unsigned char> binary) {
  std::string bytes(kMark);
  append_size(&bytes, key.size());
  append_size(&bytes, binary.size());
  bytes += key;
  bytes.append(reinterpret_cast<const char*>(binary.data()), binary.size());
  append_size(&bytes, checksum(bytes));
  return bytes;
}

/// The binary of a whole file with this key, else nothing.
std::string_view unpack(std::string_view bytes, std::string_view key) {
  constexpr size_t kTailBytes = sizeof(uint64_t);
  if (bytes.size() < kHeadBytes + kTailBytes || !bytes.starts_with(kMark)) return {};
  const size_t body_bytes = bytes.size() - kHeadBytes - kTailBytes;
  const uint64_t key_bytes = size_at(bytes, kMark.size());
  const uint64_t binary_bytes = size_at(bytes, kMark.size() + sizeof(uint64_t));
  if (key_bytes != key.size() || key_bytes > body_bytes || binary_bytes != body_bytes - key_bytes) {
    return {};
  }
  const size_t tail = bytes.size() - kTailBytes;
  if (bytes.substr(kHeadBytes, key.size()) != key ||
      checksum(bytes.substr(0, tail)) != size_at(bytes, tail)) {
    return {};
  }
  return bytes.substr(kHeadBytes + key.size(), binary_bytes);
}

/// Makes the folder where it is missing. False unless it is the user's and only the user's.
bool make_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(fs::path(folder).parent_path(), error);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return false;
  struct stat status {};
  return stat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == geteuid() && (status.st_mode & 077) == 0;
}

}  // namespace

ProgramCache::ProgramCache(sdk::Host host, std::string_view option) : host_(host) {
  if (option == "off") return;
  if (!option.empty() && option[0] != '/') {
    sdk::refuse("option cache: '", option, "' is neither an absolute path nor 'off'");
  }
  folder_ = option.empty() ? default_folder() : std::string(option);
}

std::string ProgramCache::path_of(std::string_view key) const {
  std::string name;
  uint64_t hash = checksum(key);
  for (int digit = 0; digit < 16; ++digit, hash >>= 4) name += "0123456789abcdef"[hash & 15];
  return folder_ + "/" + name + std::string(kSuffix);
}

std::vector<unsigned char> ProgramCache::read(std::string_view key) const {
  if (!is_on()) return {};
  const File file(::open(path_of(key).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.is_open()) return {};
  const std::string bytes = file.read_own();
  const std::string_view binary = unpack(bytes, key);
  return {binary.begin(), binary.end()};
}

void ProgramCache::write(std::string_view key, std::span<const unsigned char> binary) const {
  if (!is_on()) return;
  if (!make_folder(folder_)) {
    complain(
        "the folder cannot be made, or others than its owner may enter it (it needs mode 0700)");
    return;
  }
  make_room();
  const std::string path = path_of(key);
  std::string temporary = path + ".XXXXXX";
  const File file(::mkostemp(temporary.data(), O_CLOEXEC));  // mode 0600
  if (!file.is_open()) {
    complain(std::system_category().message(errno));
    return;
  }
  const bool written =
      file.write_all(pack(key, binary)) && std::rename(temporary.c_str(), path.c_str()) == 0;
  if (written) return;
  const int error = errno;
  ::unlink(temporary.c_str());
  complain(std::system_category().message(error));
}

/// Drivers are updated, and what the old ones compiled stays behind.
void ProgramCache::make_room() const {
  std::error_code error;
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    // Also those that a process which was killed had begun; another one may remove it meanwhile.
    if (at->path().filename().string().find(kSuffix) == std::string::npos) continue;
    std::error_code gone;
    const fs::file_time_type time = at->last_write_time(gone);
    if (!gone) files.emplace_back(time, at->path());
  }
  if (files.size() < kMaxFiles) return;
  const auto middle = files.begin() + static_cast<std::ptrdiff_t>(files.size() - kMaxFiles / 2);
  std::nth_element(files.begin(), middle, files.end());
  for (auto file = files.begin(); file != middle; ++file) fs::remove(file->second, error);
}

void ProgramCache::complain(const std::string& what) const {
  if (complained_.exchange(true)) return;
  host_.log(BP_LOG_WARNING, "compiled programs are not kept in '" + folder_ + "': " + what +
                                ". The option cache names another folder, or turns it off");
}

}  // namespace bp::xpu
