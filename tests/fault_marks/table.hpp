// SPDX-License-Identifier: Apache-2.0
//
// The committed table: for each producer, consumer and device, who is told of the fault.
#ifndef BACKPLANE_TESTS_FAULT_MARKS_TABLE_HPP
#define BACKPLANE_TESTS_FAULT_MARKS_TABLE_HPP

#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace bp::marks {

/// Producer, consumer, device.
using CellName = std::tuple<std::string, std::string, std::string>;
/// "producer", "consumer" or "read": the first of them that answers the fault.
using Table = std::map<CellName, std::string>;
bool is_place(const std::string& word);

/// Reads "producer,consumer,DEVICE..." and a line for each pair. Throws std::runtime_error that
/// names the line: a wrong number of fields, an empty or unknown one, a pair that stands twice.
Table read_table(const std::string& path);

/// What happened in one cell.
struct CellResult {
  CellName name;
  std::string expected;  // "": the table has no such cell
  std::string found;     // also "not run" and what went wrong, in words
};

/// fault_marks.md and fault_marks.json in `folder`; and fault_marks.csv, the table as it was found.
/// False: not written.
bool write_report(const std::string& folder, const std::vector<CellResult>& results);

}  // namespace bp::marks

#endif
