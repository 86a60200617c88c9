// SPDX-License-Identifier: Apache-2.0
//
// Where the groups of a process are, as a document for whoever asks while they work: dumps
// (dump.hpp) are of groups that have failed.
#ifndef BACKPLANE_CCL_WATCH_STATUS_HPP
#define BACKPLANE_CCL_WATCH_STATUS_HPP

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ccl/watch/record.hpp"
#include "core/base/status.hpp"

namespace bp::ccl {

/// Another rank, as this one sees it.
struct PeerStatus {
  uint32_t rank = 0;
  int64_t heard_ns = 0;  // when a message of it came last, by the wall clock; 0: none so far
  std::string lost;      // why nothing comes any more; empty: it is there
};

struct GroupStatus {
  std::string name;
  uint64_t epoch = 0;
  RankPlace place;
  std::string device;
  LastSequences last;
  std::string operation;          // the oldest in progress: "all_reduce sum f32 3"; empty: none
  uint64_t sequence = 0;          // ... its
  int64_t since_ns = 0;           // ... since when it has been called, by the wall clock
  std::vector<PeerStatus> peers;  // the first kMostPeers of the others
  GroupError error;

  static constexpr uint32_t kMostPeers = 1024;
};

struct ProcessStatus {
  std::string host;
  uint64_t process_id = 0;
  int64_t time_ns = 0;  // by the wall clock, as all times here
  std::vector<GroupStatus> groups;
};

/// The JSON text.
std::string status_text(const ProcessStatus& status);
/// What status_text() wrote. `path`: for errors. Errors: INVALID_ARGUMENT naming path, field, what
/// was expected and found.
Result<ProcessStatus> parse_status(std::string_view text, const std::string& path);
/// Lines for people.
std::string status_words(const ProcessStatus& status);

inline constexpr std::string_view kStatusFormat = "backplane-ccl-status-1";

}  // namespace bp::ccl

#endif
