// SPDX-License-Identifier: Apache-2.0
//
// Ranges grow only by neighbours: a gap is other launches, whose faults concern other contents.
#include "core/runtime/fault_marks.hpp"

#include <algorithm>

#include "core/runtime/stream.hpp"

namespace bp {
namespace {

/// Fewer ranges than this cost less to keep than to look through.
constexpr size_t kFewRanges = 16;

}  // namespace

void FaultMarks::add(Stream& stream, uint64_t first_seq, uint64_t last_seq) {
  for (Range& range : ranges_) {
    const bool touches = range.stream == &stream && first_seq <= range.last_seq + 1 &&
                         range.first_seq <= last_seq + 1;
    if (!touches) continue;
    range.first_seq = std::min(range.first_seq, first_seq);
    range.last_seq = std::max(range.last_seq, last_seq);
    return;
  }
  if (ranges_.size() >= kFewRanges) drop_settled();
  ranges_.push_back({&stream, first_seq, last_seq});
}

void FaultMarks::add(const FaultMarks& other) {
  for (const Range& range : other.ranges_) add(*range.stream, range.first_seq, range.last_seq);
}

void FaultMarks::drop_settled() {
  std::erase_if(ranges_, [](const Range& range) {
    return range.stream->known_done(range.last_seq) &&
           !range.stream->has_fault(range.first_seq, range.last_seq);
  });
}

Status FaultMarks::wait() const {
  for (const Range& range : ranges_) {
    if (range.stream->known_done(range.last_seq)) continue;
    if (const Status status = range.stream->sync(); status.code() == BP_TIMEOUT) return status;
  }
  return {};
}

Status FaultMarks::take() const {
  for (const Range& range : ranges_) {
    if (!range.stream->known_done(range.last_seq)) BP_TRY(range.stream->sync());
    BP_TRY(range.stream->claim_fault(range.first_seq, range.last_seq));
  }
  return {};
}

}  // namespace bp
