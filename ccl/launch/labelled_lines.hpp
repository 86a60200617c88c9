// SPDX-License-Identifier: Apache-2.0
//
// The output of ranks as whole lines, each behind the name of its rank, so that lines of several
// ranks never run into each other. Bytes are handed on as they are.
#ifndef BACKPLANE_CCL_LAUNCH_LABELLED_LINES_HPP
#define BACKPLANE_CCL_LAUNCH_LABELLED_LINES_HPP

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <utility>

namespace bp::ccl {

/// One stream of one rank.
class LabelledLines {
 public:
  /// A longer line is cut into pieces of that size, each a line of its own with its label.
  static constexpr size_t kMostLineBytes = size_t{1} << 22;

  explicit LabelledLines(std::string label) : label_(std::move(label)) {}
  /// Takes bytes; answers the lines that are whole by now.
  std::string take(std::string_view bytes);
  /// The last line, if its end is missing.
  std::string finish();

 private:
  std::string label_;
  std::string begun_;  // of a line
};

/// What waits to be written, in order. A line is written to its end before another begins, wherever
/// the two go: standard output and error may be one file. Never waits: an output that nobody reads
/// must not keep the launcher from its signals.
class OutputQueue {
 public:
  void add(int descriptor, std::string text);
  bool is_empty() const { return queue_.empty(); }
  size_t bytes() const { return bytes_; }
  /// Where the first text goes.
  int descriptor() const { return queue_.front().descriptor; }
  /// To be called when descriptor() can be written to. What cannot be written any more, since its
  /// reader has gone, is dropped: the ranks go on.
  void write_some();

 private:
  struct Text {
    int descriptor;
    std::string bytes;
  };
  std::deque<Text> queue_;
  size_t written_ = 0;  // of the first text
  size_t bytes_ = 0;
};

}  // namespace bp::ccl

#endif
