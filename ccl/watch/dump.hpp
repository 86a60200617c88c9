// SPDX-License-Identifier: Apache-2.0
//
// A dump: what one rank of one group recorded, as a file. The fields of c10d's flight recorder
// have its names and meanings, so that tools for those dumps read these; the others are ours.
#ifndef BACKPLANE_CCL_WATCH_DUMP_HPP
#define BACKPLANE_CCL_WATCH_DUMP_HPP

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ccl/watch/record.hpp"
#include "core/base/status.hpp"

namespace bp::ccl {

struct RankDump {
  std::string path;  // of the file that it was read from
  GroupInfo group;
  std::string host;
  uint64_t process_id = 0;
  int64_t dumped_ns = 0;  // by the wall clock
  LastSequences last;
  std::vector<Record> records;  // by number
};

/// Host, process and time are those of this call.
void set_origin(RankDump* dump);

/// The JSON text.
std::string dump_text(const RankDump& dump);

/// What dump_text() wrote; other fields are passed over. Every field is checked, also against the
/// others. Errors: INVALID_ARGUMENT naming the path, the field, what was expected and found.
Result<RankDump> parse_dump(std::string_view text, const std::string& path);

inline constexpr uint64_t kMostDumpBytes = uint64_t{64} << 20;

/// Errors: those of parse_dump(); UNAVAILABLE if the file cannot be read, INVALID_ARGUMENT if it is
/// none, empty, or larger than kMostDumpBytes.
Result<RankDump> read_dump(const std::string& path);

/// "world-0-rank3.json". In the group's name, what does not belong in a file name becomes _, and a
/// number keeps such groups apart.
std::string dump_file_name(const GroupInfo& group);

/// Whether write_dump_file() can write there, as far as a file that it makes and removes tells. A
/// folder that is missing is made, for this user alone, where the one above it is there. Errors: as
/// write_dump_file()'s.
Status check_dump_folder(const std::string& folder);

/// Writes the file for this user alone, whole or not at all; one that is there is replaced. Follows
/// no symbolic link: the folder is none, and in place of a file's link comes the file. Errors:
/// UNAVAILABLE naming the path.
Status write_dump_file(const std::string& folder, const RankDump& dump);

/// What the dump says in the terms of c10d, from what it says in ours.
struct TheirWords {
  std::string profiling_name;  // "xccl:send 1->2"
  uint64_t input_count = 0;    // elements of the tensors that their calls have
  uint64_t output_count = 0;
  uint64_t timeout_ms = 0;
};
TheirWords their_words(const RecordEntry& entry, RankPlace place);
/// "epoch 3".
std::string their_description(const GroupInfo& group);
/// "[0, 1, 2]", ranks of the job.
std::string their_ranks(const GroupInfo& group);
/// "none" for that of a barrier.
std::string_view record_dtype_name(uint32_t dtype);

inline constexpr std::string_view kDumpFormat = "backplane-ccl-dump-1";
/// Of c10d's dump: what check_version of their tools wants.
inline constexpr std::string_view kTheirVersion = "2.10";

}  // namespace bp::ccl

#endif
