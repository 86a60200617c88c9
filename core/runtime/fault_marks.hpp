// SPDX-License-Identifier: Apache-2.0
//
// Which launches' data faults concern some contents. Work on a queue ends after the call that
// started it, so a fault is known only at a wait; until then these marks stand for it and go with
// the data from storage to storage.
#ifndef BACKPLANE_CORE_RUNTIME_FAULT_MARKS_HPP
#define BACKPLANE_CORE_RUNTIME_FAULT_MARKS_HPP

#include <cstdint>
#include <vector>

#include "core/base/status.hpp"

namespace bp {

class Stream;

/// Exact: a launch that is not marked is not part of any range. Ranges of launches that ended
/// without a fault are dropped, so there are about as many as launches that have not ended.
class FaultMarks {
 public:
  bool empty() const { return ranges_.empty(); }
  /// A launch in [first_seq, last_seq] of `stream`, which is a queue, may report a fault.
  void add(Stream& stream, uint64_t first_seq, uint64_t last_seq);
  void add(const FaultMarks& other);
  void clear() { ranges_.clear(); }

  /// Waits until all marked launches have ended. Errors: TIMEOUT; a stream that failed is no error
  /// here.
  Status wait() const;
  /// The first fault of a marked launch that was told to no reader; from now on it is told. After
  /// wait(). Errors: that fault; the failure of a marked stream.
  Status take() const;

 private:
  struct Range {
    Stream* stream;
    uint64_t first_seq;
    uint64_t last_seq;
  };
  void drop_settled();

  std::vector<Range> ranges_;
};

}  // namespace bp

#endif
