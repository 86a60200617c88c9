// SPDX-License-Identifier: Apache-2.0
//
// A data fault is told, once, to whoever first reads what it concerns, on every way from the launch
// to the reader. The table says on which; a cell that is not in it, or that is nothing, fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "tests/fault_marks/cells.hpp"
#include "tests/fault_marks/table.hpp"
#include "tests/plugins.hpp"

namespace bp::marks {
namespace {

Table& expected() {
  static Table table;
  return table;
}

std::vector<CellResult>& results() {
  static std::vector<CellResult> all;
  return all;
}

bool is_the_fault(const Status& status) {
  if (status.code() != BP_INVALID_ARGUMENT) return false;
  for (const char* word : {"gather", "index 99", "input 1", "extent 4"}) {
    if (status.message().find(word) == std::string::npos) return false;
  }
  return true;
}

/// `place` if the status is the fault that the lookup has, else what it is in words.
std::string told(const Status& status, const std::string& place) {
  return is_the_fault(status) ? place : place + " failed: " + status.to_string();
}

std::string use(World& world, const Producer& producer, const Consumer& consumer) {
  const auto made = producer.make(world);
  if (!made.ok()) return told(made.status(), "producer");
  const auto used = consumer.use(world, *made);
  if (!used.ok()) return told(used.status(), "consumer");
  if (!*used) return "lost";
  const Status status = read(*used);
  if (status.ok()) return "lost";
  if (const Status again = read(*used); !again.ok()) return "told twice: " + again.to_string();
  return told(status, "read");
}

/// Nothing may be left of a cell: streams are healthy, and whoever asks later is told nothing.
std::string leftover(World& world) {
  for (Device* device : {&world.device(), &world.other()}) {
    if (const Status status = device->sync(); !status.ok()) return status.to_string();
  }
  const auto healthy = world.call("relu", {world.x(world.device())});
  const Status status = healthy.ok() ? read(*healthy) : healthy.status();
  return status.ok() ? "" : status.to_string();
}

std::string run_cell(World& world, const Producer& producer, const Consumer& consumer) {
  std::string found = use(world, producer, consumer);
  world.end_sessions();
  const std::string left = leftover(world);
  if (!left.empty()) found += ", and left over is " + left;
  return found;
}

/// A plugin that is new in the tree has none: then it does not matter who is told.
bool has_column(const Target& target) {
  return std::any_of(expected().begin(), expected().end(), [&](const auto& cell) {
    return std::get<2>(cell.first) == target.name && !cell.second.empty();
  });
}

class FaultMarksTest : public testing::TestWithParam<Target> {};

TEST_P(FaultMarksTest, EveryCell_TheFirstReaderIsTold) {
  const Target& target = GetParam();
  for (const Producer& producer : producers()) {
    auto world = World::open(target, producer.host_ops);
    const bp_status status = world.status().code();
    const bool is_absent =
        tests::is_absent(target.device, status) || tests::is_absent(target.fallback, status);
    ASSERT_TRUE(world.ok() || is_absent) << world.status().to_string();
    for (const Consumer& consumer : consumers()) {
      const CellName name{producer.name, consumer.name, target.name};
      CellResult result{.name = name, .expected = expected()[name], .found = "not run"};
      if (!is_absent) {
        result.found = run_cell(*world, producer, consumer);
        if (!has_column(target) && is_place(result.found)) result.expected = result.found;
        EXPECT_EQ(result.found, result.expected)
            << producer.name << ", " << consumer.name << ", " << target.name;
      }
      EXPECT_NE(result.expected, "") << "the table has no cell " << producer.name << ", "
                                     << consumer.name << ", " << target.name;
      results().push_back(std::move(result));
    }
  }
}

std::string target_name(const testing::TestParamInfo<Target>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Devices, FaultMarksTest, testing::ValuesIn(targets()), target_name);

TEST(FaultMarksTable, Cell_ThatNoTestRuns_IsNotInTheTable) {
  std::set<std::string> names;
  for (const Producer& producer : producers()) names.insert(producer.name);
  for (const Consumer& consumer : consumers()) names.insert(consumer.name);
  for (const Target& target : targets()) names.insert(target.name);
  for (const auto& [cell, place] : expected()) {
    const auto& [producer, consumer, device] = cell;
    for (const std::string& name : {producer, consumer, device}) {
      EXPECT_TRUE(names.contains(name)) << "the table names '" << name << "'";
    }
  }
}

class Report : public testing::Environment {
 public:
  void SetUp() override { expected() = read_table(BP_FAULT_MARKS_TABLE); }
  void TearDown() override {
    EXPECT_TRUE(write_report(BP_REPORTS_DIR, results())) << BP_REPORTS_DIR;
    std::printf("fault marks: %zu cells, see %s/fault_marks.md\n", results().size(),
                BP_REPORTS_DIR);
  }
};

[[maybe_unused]] const testing::Environment* const kReport =
    testing::AddGlobalTestEnvironment(new Report);

}  // namespace
}  // namespace bp::marks
