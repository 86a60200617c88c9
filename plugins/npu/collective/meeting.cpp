// SPDX-License-Identifier: Apache-2.0
//
// See meeting.hpp. The file is as large as the largest group needs, and takes memory for the ranks
// that there are. It is sealed against shrinking, so that no access to a mapping can fault.
#include "collective/meeting.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstring>
#include <sstream>
#include <string>
#include <utility>

#include "device.hpp"

namespace bp::npu {
namespace {

constexpr uint64_t kTag = 0x756e'6c69'6e6b'0000 + kLayoutVersion;
constexpr size_t kPageBytes = 4096;
constexpr size_t kRoomBytes = 65536;     // of what goes to all
constexpr size_t kPairRoomBytes = 8192;  // from one rank to another
static_assert(std::atomic<uint64_t>::is_always_lock_free, "locks are a process's own");

[[noreturn]] void fail_by_system(const char* what) {
  const int error = errno;
  const bool is_memory = error == ENOMEM || error == ENOSPC;
  fail(is_memory ? BP_OUT_OF_MEMORY : BP_UNAVAILABLE, what, ": ", std::strerror(error));
}

std::string name_of(const GroupId& id) {
  std::ostringstream name;
  name << "backplane.npu." << std::hex << id.nonce[0] << '.' << id.nonce[1];
  return name.str();
}

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};

/// By its name among what the id's process has open; not open: it is not there.
Descriptor find_file(const GroupId& id) {
  const std::string path = "/proc/" + std::to_string(id.process) + "/fd/";
  const std::unique_ptr<DIR, CloseFolder> folder(opendir(path.c_str()));
  const bool is_own = id.process == getpid();
  if (folder == nullptr && !is_own && (errno == ENOENT || errno == ESRCH)) {
    fail(BP_UNAVAILABLE, "comm_init: process ", id.process, ", which has made the id, has ended");
  }
  if (folder == nullptr) fail_by_system("comm_init: what the process of the id has open");
  const std::string wanted = "/memfd:" + name_of(id) + " (deleted)";  // as the system tells it
  while (const dirent* const entry = readdir(folder.get())) {
    char target[128] = {};
    const std::string link = path + entry->d_name;
    if (readlink(link.c_str(), target, sizeof(target) - 1) < 0 || target != wanted) continue;
    Descriptor found(open(link.c_str(), O_RDWR | O_CLOEXEC));
    if (!found.is_open() && errno != ENOENT) fail_by_system("comm_init: the memory of the group");
    return found;
  }
  return Descriptor();
}

}  // namespace

struct alignas(64) Meeting::Header {
  struct Name {
    uint64_t tag;
    std::array<uint64_t, 2> nonce;
    bool operator==(const Name&) const = default;
  };
  Name name;
  std::atomic<uint32_t> rank_count;  // 0: nobody has said
  std::atomic<uint32_t> bell;
};

/// One rank's.
struct alignas(64) Meeting::Place {
  enum State : uint32_t { kFree, kComing, kJoined, kLeft };
  std::atomic<uint32_t> state;
  std::atomic<uint32_t> has_found;  // what follows is whole
  std::atomic<int32_t> process;
  std::atomic<uint64_t> start_time;
  std::array<std::atomic<uint32_t>, 2> ranks;
  std::array<std::array<std::atomic<uint64_t>, std::tuple_size_v<OperationWords>>, 2> words;
};

size_t Meeting::byte_count(uint32_t rank_count) {
  const size_t pairs = size_t{rank_count} * rank_count;
  const size_t control =
      sizeof(Header) + rank_count * sizeof(Place) + (rank_count + pairs) * sizeof(Lane);
  return (control + kPageBytes - 1) / kPageBytes * kPageBytes + rank_count * kRoomBytes +
         pairs * kPairRoomBytes;
}

GroupId new_group_id() { return {kTag, getpid(), 0, {random_word(), random_word()}}; }

Descriptor Meeting::make_file(const GroupId& id) {
  const size_t bytes = byte_count(kMostRanks);
  rlimit most{};
  if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur < bytes) {  // a signal would tell
    fail(BP_UNAVAILABLE, "comm_init: files of this process have at most ", most.rlim_cur,
         " bytes, a group's memory ", bytes);
  }
  // Others may find it at once: in this order they know what is not finished.
  Descriptor file(memfd_create(name_of(id).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const auto write = [&file](const auto& what, size_t offset) {
    return pwrite(file.number(), &what, sizeof(what), static_cast<off_t>(offset)) == sizeof(what);
  };
  if (!file.is_open() || fcntl(file.number(), F_ADD_SEALS, F_SEAL_SHRINK) != 0 ||
      ftruncate(file.number(), static_cast<off_t>(bytes)) != 0 ||
      !write(id.nonce, offsetof(Header::Name, nonce)) || !write(id.tag, 0) ||
      fcntl(file.number(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    fail_by_system("comm_init: the memory of a group");
  }
  return file;
}

bool Meeting::is_finished(const Descriptor& file, const GroupId& id) {
  struct stat about {};
  if (fstat(file.number(), &about) != 0) fail_by_system("comm_init: the memory of the group");
  if (about.st_size == 0) return false;
  const int seals = fcntl(file.number(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    refuse("comm_init: the memory of the group is not sealed against shrinking");
  }
  const size_t expected = byte_count(kMostRanks);
  if (static_cast<uint64_t>(about.st_size) != expected) {
    refuse("comm_init: the memory of the group has ", about.st_size, " bytes, expected ", expected);
  }
  Header::Name name{};
  if (pread(file.number(), &name, sizeof(name), 0) != sizeof(name)) {
    fail_by_system("comm_init: the memory of the group");
  }
  if (name.tag == 0) return false;
  if (name != Header::Name{id.tag, id.nonce}) {
    refuse("comm_init: the memory of the group is another's");
  }
  return true;
}

std::unique_ptr<Meeting> Meeting::find(const GroupId& id, uint32_t rank_count) {
  if (id.tag != kTag || id.process <= 0 || id.reserved != 0) {
    refuse("comm_init: the id is none of the NPUs'");
  }
  static std::mutex making;  // two ranks of the process do not both make it
  const std::scoped_lock lock(making);
  Descriptor file = find_file(id);
  if (!file.is_open() && id.process != getpid()) return nullptr;
  if (!file.is_open()) file = make_file(id);
  if (!is_finished(file, id)) return nullptr;
  return std::unique_ptr<Meeting>(new Meeting(std::move(file), rank_count));
}

Meeting::Meeting(Descriptor file, uint32_t rank_count)
    : rank_count_(rank_count), file_(std::move(file)) {
  const size_t bytes = byte_count(rank_count);
  // Now, with an error: later there would be a signal.
  while (fallocate(file_.number(), 0, 0, static_cast<off_t>(bytes)) != 0) {
    if (errno != EINTR) fail_by_system("comm_init: the memory of the group");
  }
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.number(), 0);
  if (mapped == MAP_FAILED) fail_by_system("comm_init: the memory of the group");
  memory_ = static_cast<std::byte*>(mapped);
  uint32_t said = 0;
  if (header().rank_count.compare_exchange_strong(said, rank_count) || said == rank_count) return;
  munmap(memory_, bytes);
  refuse("comm_init: ", rank_count, " ranks, others said ", said);
}

Meeting::~Meeting() { munmap(memory_, byte_count(rank_count_)); }

Meeting::Header& Meeting::header() const { return *reinterpret_cast<Header*>(memory_); }

Meeting::Place& Meeting::place(uint32_t rank) const {
  return reinterpret_cast<Place*>(memory_ + sizeof(Header))[rank];
}

Lane* Meeting::lanes() const { return reinterpret_cast<Lane*>(&place(rank_count_)); }

std::byte* Meeting::rooms() const {
  const size_t pairs = size_t{rank_count_} * rank_count_;
  return memory_ + byte_count(rank_count_) - rank_count_ * kRoomBytes - pairs * kPairRoomBytes;
}

Lanes Meeting::lanes_of_all() const { return {{lanes(), rank_count_}, rooms(), kRoomBytes}; }

Lanes Meeting::lane_between(uint32_t from, uint32_t to) const {
  const size_t pair = size_t{from} * rank_count_ + to;
  std::byte* const pair_rooms = rooms() + rank_count_ * kRoomBytes;
  return {{lanes() + rank_count_ + pair, 1}, pair_rooms + pair * kPairRoomBytes, kPairRoomBytes};
}

bool Meeting::join(uint32_t rank, const ProcessMark& process) {
  Place& own = place(rank);
  uint32_t was = Place::kFree;
  if (!own.state.compare_exchange_strong(was, Place::kComing)) return false;
  own.process = process.number;
  own.start_time = process.start_time;
  own.state = Place::kJoined;
  return true;
}

bool Meeting::is_complete() {
  for (uint32_t rank = 0; rank < rank_count_; ++rank) {
    if (place(rank).state < Place::kJoined) return false;
  }
  const std::scoped_lock lock(file_mutex_);
  file_ = Descriptor();
  return true;
}

void Meeting::leave(uint32_t rank) {
  place(rank).state = Place::kLeft;
  ring();
}

bool Meeting::has_left(uint32_t rank) const { return place(rank).state == Place::kLeft; }

bool Meeting::is_dead(uint32_t rank) const {
  const Place& other = place(rank);
  return other.state == Place::kJoined && has_died({other.process, other.start_time});
}

void Meeting::tell(uint32_t rank, const Disagreement& found) {
  Place& own = place(rank);
  if (own.has_found != 0) return;
  own.ranks[0] = found.first;
  own.ranks[1] = found.second;
  std::copy(found.of_first.begin(), found.of_first.end(), own.words[0].begin());
  std::copy(found.of_second.begin(), found.of_second.end(), own.words[1].begin());
  own.has_found = 1;
  ring();
}

std::optional<Disagreement> Meeting::disagreement() const {
  for (uint32_t rank = 0; rank < rank_count_; ++rank) {
    const Place& other = place(rank);
    if (other.has_found == 0) continue;
    Disagreement found{other.ranks[0], other.ranks[1], {}, {}};
    std::copy(other.words[0].begin(), other.words[0].end(), found.of_first.begin());
    std::copy(other.words[1].begin(), other.words[1].end(), found.of_second.begin());
    if (found.first < rank_count_ && found.second < rank_count_) return found;
  }
  return std::nullopt;
}

uint32_t Meeting::bell_count() const { return header().bell; }

void Meeting::ring() const {
  ++header().bell;
  syscall(SYS_futex, &header().bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Meeting::wait(uint32_t bell_count, std::chrono::nanoseconds most) const {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(most);
  const timespec time{seconds.count(), (most - seconds).count()};
  syscall(SYS_futex, &header().bell, FUTEX_WAIT, bell_count, &time, nullptr, 0);
}

}  // namespace bp::npu
