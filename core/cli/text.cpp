// SPDX-License-Identifier: Apache-2.0
//
// Widths count characters, not bytes, so that names in any script line up.
#include "core/cli/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

#include "core/base/foreign_text.hpp"
#include "core/base/utf8.hpp"

namespace bp::cli {
namespace {

size_t width_of(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !is_utf8_continuation(c); }));
}

/// A reader that goes away (`| head`) had what it wanted. Called right behind the writing, since
/// the stream remembers that there was an error, but not which.
void forgive_closed_pipe() {
  if (std::ferror(stdout) != 0 && errno == EPIPE) std::clearerr(stdout);
}

}  // namespace

Table::Table(std::vector<std::string> titles, std::vector<size_t> right)
    : right_(titles.size(), false) {
  for (const size_t column : right) right_[column] = true;
  rows_.push_back(std::move(titles));
}

void Table::add(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = visible(cell);
  cells.resize(right_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::to_string(std::string_view indent) const {
  std::vector<size_t> widths(right_.size(), 0);
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line(indent);
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - width_of(row[i]), ' ');
      line += right_[i] ? padding + row[i] : row[i] + padding;
      line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

void print(std::string_view text) {
  errno = 0;
  std::fwrite(text.data(), 1, text.size(), stdout);
  forgive_closed_pipe();
}

bool flush_output() {
  errno = 0;
  std::fflush(stdout);
  forgive_closed_pipe();
  return std::ferror(stdout) == 0;
}

std::string visible(std::string_view text) { return one_line(std::string(text)); }

std::string bytes_text(uint64_t bytes) {
  static constexpr std::array<const char*, 4> kUnits = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return count_text(bytes, "byte");
  double size = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (size >= 1024 && unit + 1 < kUnits.size()) {
    size /= 1024;
    ++unit;
  }
  const bool is_whole = size == static_cast<double>(static_cast<uint64_t>(size));
  return is_whole ? fmt::format("{:.0f} {}", size, kUnits[unit])
                  : fmt::format("{:.1f} {}", size, kUnits[unit]);
}

std::string shortened(std::string_view text, size_t most_bytes) {
  if (text.size() <= most_bytes) return std::string(text);
  return std::string(utf8_prefix(text, most_bytes - 3)) + "...";
}

std::string duration_text(double nanoseconds) {
  if (nanoseconds < 1e6) return fmt::format("{:.1f} us", nanoseconds / 1e3);
  if (nanoseconds < 1e9) return fmt::format("{:.2f} ms", nanoseconds / 1e6);
  return fmt::format("{:.2f} s", nanoseconds / 1e9);
}

std::string number_text(double number) { return fmt::format("{:.6g}", number); }

std::string shape_text(const Dims& sizes) { return bp::to_string(sizes); }

std::string count_text(uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace bp::cli
