// SPDX-License-Identifier: Apache-2.0
//
// What the commands print for people: tables, sizes, times, shapes.
#ifndef BACKPLANE_CORE_CLI_TEXT_HPP
#define BACKPLANE_CORE_CLI_TEXT_HPP

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dims.hpp"

namespace bp::cli {

/// Columns as wide as their widest cell, two spaces between them. Cells whose column is named in
/// `right` stand at the right.
class Table {
 public:
  explicit Table(std::vector<std::string> titles, std::vector<size_t> right = {});
  void add(std::vector<std::string> cells);
  bool empty() const { return rows_.size() == 1; }
  /// All lines, each with a line end, no trailing spaces.
  std::string to_string(std::string_view indent = "  ") const;

 private:
  std::vector<std::vector<std::string>> rows_;  // the first: titles
  std::vector<bool> right_;
};

/// To standard output; a closed pipe is no error. Other errors are for flush_output().
void print(std::string_view text);
/// Whether standard output took everything printed so far. If not, errno is the reason, or 0 if
/// only an earlier print() met it.
bool flush_output();

/// What a terminal may show of a foreign name, on one line.
std::string visible(std::string_view text);
/// The text, or its beginning and "..." where it takes more bytes. Cut between characters.
std::string shortened(std::string_view text, size_t most_bytes);
/// "256 MiB", "1.5 GiB", "17 bytes".
std::string bytes_text(uint64_t bytes);
/// "41.2 us", "3.05 ms", "2.1 s".
std::string duration_text(double nanoseconds);
/// "0.9987", at most six digits.
std::string number_text(double number);
/// "[1, 3, 8, 8]"
std::string shape_text(const Dims& sizes);
/// "1 plugin", "2 plugins".
std::string count_text(uint64_t count, std::string_view noun);

}  // namespace bp::cli

#endif
