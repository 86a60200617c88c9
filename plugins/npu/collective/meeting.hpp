// SPDX-License-Identifier: Apache-2.0
//
// Where ranks of a group meet, whichever processes they are in: memory without a name (a memfd)
// that each of them maps. What ranks on real links learn over wires they find here. Nothing that
// another process writes is believed: numbers are checked before they are used, and a rank may end
// between any two of its writes.
#ifndef BACKPLANE_PLUGINS_NPU_COLLECTIVE_MEETING_HPP
#define BACKPLANE_PLUGINS_NPU_COLLECTIVE_MEETING_HPP

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "collective/link.hpp"
#include "collective/operation.hpp"

namespace bp::npu {

inline constexpr uint32_t kMostRanks = 64;
inline constexpr uint32_t kLayoutVersion = 1;

/// A group's id, which no other group of any process has. Its memory is made by the first rank that
/// joins in the process that has made the id, whose ranks have it open until all have joined.
struct GroupId {
  uint64_t tag;
  int32_t process;
  uint32_t reserved;  // 0
  std::array<uint64_t, 2> nonce;
  auto operator<=>(const GroupId&) const = default;
};
/// Takes nothing that would have to be given back.
GroupId new_group_id();

/// What goes from one rank to another, or from one to all, piece by piece. A step is told by a
/// position: operation `number`'s i-th piece is at position_of(number) + i, and 0 is before all.
struct Lane {
  std::atomic<uint64_t> put_end;   // behind what has been put into the lane's room
  std::atomic<uint64_t> read_end;  // behind what has been read: by this rank of all lanes, or by
                                   // the one other rank of this lane
  std::array<std::atomic<uint64_t>, std::tuple_size_v<OperationWords>> words;  // what is put
};
constexpr uint64_t kMostSteps = uint64_t{1} << 28;  // of an operation
constexpr uint64_t position_of(uint64_t number) { return (number - 1) * kMostSteps; }

struct Lanes {
  std::span<Lane> all;
  std::byte* rooms;
  size_t room_bytes;  // of each lane
  std::byte* room(size_t lane) const { return rooms + lane * room_bytes; }
};

/// Two ranks whose operations do not fit together.
struct Disagreement {
  uint32_t first;
  uint32_t second;
  OperationWords of_first;
  OperationWords of_second;
};

/// Any-thread.
class Meeting {
 public:
  /// nullptr: its memory is not there yet. Throws Failure: INVALID_ARGUMENT for an id that is
  /// none, for memory that is no group's, and for another number of ranks than others said;
  /// UNAVAILABLE where its process has ended or does not let this one in.
  static std::unique_ptr<Meeting> find(const GroupId& id, uint32_t rank_count);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  uint32_t rank_count() const { return rank_count_; }
  /// False: the rank is taken.
  bool join(uint32_t rank, const ProcessMark& process);
  /// From then on nobody else finds the memory.
  bool is_complete();
  void leave(uint32_t rank);
  bool has_left(uint32_t rank) const;
  /// Without a word.
  bool is_dead(uint32_t rank) const;

  /// As rank `rank` has found it; its first.
  void tell(uint32_t rank, const Disagreement& found);
  /// The first that any rank has found.
  std::optional<Disagreement> disagreement() const;

  Lanes lanes_of_all() const;
  Lanes lane_between(uint32_t from, uint32_t to) const;

  // All who wait hear the bell. To wait takes the count from before the look that found nothing.
  uint32_t bell_count() const;
  void ring() const;
  void wait(uint32_t bell_count, std::chrono::nanoseconds most) const;

 private:
  struct Header;
  struct Place;
  Meeting(Descriptor file, uint32_t rank_count);
  static size_t byte_count(uint32_t rank_count);
  static Descriptor make_file(const GroupId& id);
  /// Throws Failure where it is no group's, or another's.
  static bool is_finished(const Descriptor& file, const GroupId& id);
  Header& header() const;
  Place& place(uint32_t rank) const;
  Lane* lanes() const;
  std::byte* rooms() const;

  const uint32_t rank_count_;
  std::byte* memory_ = nullptr;
  std::mutex file_mutex_;
  Descriptor file_;  // under file_mutex_; by which others find it
};

}  // namespace bp::npu

#endif
