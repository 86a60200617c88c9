// SPDX-License-Identifier: Apache-2.0
#include "ccl/launch/labelled_lines.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace bp::ccl {

std::string LabelledLines::take(std::string_view bytes) {
  std::string lines;
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const size_t room = kMostLineBytes - begun_.size();
    const size_t length = std::min({end, bytes.size(), room});
    begun_ += bytes.substr(0, length);
    bytes.remove_prefix(length);
    const bool is_whole = !bytes.empty() && bytes.front() == '\n';
    if (is_whole) bytes.remove_prefix(1);
    if (!is_whole && begun_.size() < kMostLineBytes) continue;
    lines += label_ + begun_ + "\n";
    begun_.clear();
  }
  return lines;
}

std::string LabelledLines::finish() { return begun_.empty() ? "" : take("\n"); }

void OutputQueue::add(int descriptor, std::string text) {
  if (text.empty()) return;
  bytes_ += text.size();
  queue_.push_back({descriptor, std::move(text)});
}

void OutputQueue::write_some() {
  const Text& first = queue_.front();
  // A pipe that can be written to takes that much at once, whatever else it holds.
  const size_t length = std::min<size_t>(first.bytes.size() - written_, PIPE_BUF);
  const ssize_t count = ::write(first.descriptor, first.bytes.data() + written_, length);
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
  written_ += count > 0 ? static_cast<size_t>(count) : first.bytes.size() - written_;
  if (written_ < first.bytes.size()) return;
  bytes_ -= first.bytes.size();
  written_ = 0;
  queue_.pop_front();
}

}  // namespace bp::ccl
