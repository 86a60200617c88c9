// SPDX-License-Identifier: Apache-2.0
//
// The child's side of a run, and the lines that it writes to its parent.
#ifndef BACKPLANE_SDK_CONFORM_CHILD_HPP
#define BACKPLANE_SDK_CONFORM_CHILD_HPP

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sdk/conform/runner.hpp"

namespace bp::conform {

/// One line of the pipe: "begin 3", "end 3 PASS", "closed 0 LEAK words...".
struct Message {
  enum class Kind { kBegin, kEnd, kClosed, kProbe };
  Kind kind = Kind::kBegin;
  uint64_t number = 0;  // position in the batch; probe: native bands, or the status of a failure
  Verdict verdict = Verdict::kPass;
  std::string words;  // probe: the needs that are met, as a number, and the driver; or why there is
                      // no device

  std::string to_line() const;
  /// nullopt for a line that no child writes.
  static std::optional<Message> parse(std::string_view line);
};

struct Batch {
  const Target& target;
  uint64_t masked;
  std::span<const Case* const> cases;
  std::chrono::nanoseconds patience;       // of waits of a case
  std::chrono::milliseconds call_timeout;  // of control calls
};

/// Bodies of children; the answer is the exit code.
int run_batch(const Batch& batch, int results);
int probe(const Target& target, std::chrono::milliseconds call_timeout, int results);

}  // namespace bp::conform

#endif
