// SPDX-License-Identifier: Apache-2.0
//
// How the nodes of a session were placed, one by one: what is told of each, when, and for how long
// the texts can be read.
#include <algorithm>
#include <atomic>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <thread>

#include "tests/api/api_fixture.hpp"

namespace bp {
namespace {

bpa_node_info empty_info() {
  bpa_node_info info{};
  info.struct_size = sizeof(info);
  return info;
}

class PlacementTest : public ApiTest {
 protected:
  // placements.onnx: relu, flatten, softmax, shape, reshape to that shape, tanh.
  static constexpr uint64_t kNodes = 6;
  static constexpr uint64_t kNodesOfFixedSizes = 5;  // the shape is a constant then

  /// tanh is kept from every device but the host's own.
  void SetUp() override { open({{"BACKPLANE_FALLBACK", "allow"}, {"BACKPLANE_HOST_OPS", "tanh"}}); }
  bool is_cpu() const { return GetParam() == "cpu:0"; }
  NamedTensors input(int64_t rows) {
    return {{"x", make(std::vector<float>(static_cast<size_t>(rows) * 4, 0.5f), {rows, 2, 2})}};
  }
  static std::map<uint32_t, uint64_t> counts_of(const std::vector<NodePlacement>& nodes) {
    std::map<uint32_t, uint64_t> counts;
    for (const NodePlacement& node : nodes) ++counts[node.placement];
    return counts;
  }
  /// The list says what the sums say.
  static void expect_sums(const Session& session) {
    const bpa_placement_info sums = session.placement();
    auto counts = counts_of(session.nodes());
    EXPECT_EQ(counts[BPA_PLACEMENT_NATIVE], sums.native_count);
    EXPECT_EQ(counts[BPA_PLACEMENT_DECOMPOSED], sums.decomposed_count);
    EXPECT_EQ(counts[BPA_PLACEMENT_FALLBACK], sums.fallback_count);
    EXPECT_EQ(counts[BPA_PLACEMENT_VIEW], sums.view_count);
    EXPECT_EQ(counts[BPA_PLACEMENT_KNOWN], sums.known_count);
  }
  static std::string words_for(bpa_session* session, uint64_t index, bpa_node_info* info) {
    EXPECT_EQ(bpa_session_get_node(session, index, info), BP_INVALID_ARGUMENT);
    return bpa_last_error();
  }
};

void expect_without_kernel(const NodePlacement& node, uint32_t placement) {
  EXPECT_EQ(node.placement, placement) << node.name;
  EXPECT_EQ(node.device.handle(), nullptr) << node.name;
  EXPECT_EQ(node.kernels, "") << node.name;
  EXPECT_EQ(node.reason, "") << node.name;
}

TEST_P(PlacementTest, Nodes_TellHowEachRuns) {
  const Session session = load("placements");
  session.run(input(3));
  const std::vector<NodePlacement> nodes = session.nodes();
  ASSERT_EQ(nodes.size(), kNodes);
  std::vector<std::string> ops;
  for (size_t i = 0; i < kNodes; ++i) {
    EXPECT_EQ(nodes[i].name, "node" + std::to_string(i));
    ops.push_back(nodes[i].op);
  }
  EXPECT_EQ(ops,
            (std::vector<std::string>{"relu", "flatten", "softmax", "shape", "reshape", "tanh"}));
  expect_without_kernel(nodes[1], BPA_PLACEMENT_VIEW);
  expect_without_kernel(nodes[3], BPA_PLACEMENT_KNOWN);
  expect_without_kernel(nodes[4], BPA_PLACEMENT_VIEW);
  expect_sums(session);
  if (is_cpu()) {
    for (const size_t i : {0u, 2u, 5u}) {
      EXPECT_EQ(nodes[i].placement, BPA_PLACEMENT_NATIVE) << i;
      EXPECT_EQ(nodes[i].device.name(), "cpu:0");
      EXPECT_NE(nodes[i].kernels, "");
      EXPECT_EQ(nodes[i].reason, "");
    }
    return;
  }
  EXPECT_EQ(nodes[5].placement, BPA_PLACEMENT_FALLBACK);
  EXPECT_EQ(nodes[5].device.name(), "cpu:0");
  EXPECT_NE(nodes[5].kernels, "");
  EXPECT_NE(nodes[5].reason.find("BACKPLANE_HOST_OPS"), std::string::npos) << nodes[5].reason;
  if (GetParam() != "npu:0") return;  // of another plugin nothing more is known here
  EXPECT_EQ(nodes[0].placement, BPA_PLACEMENT_NATIVE);
  EXPECT_EQ(nodes[0].device.name(), "npu:0");
  EXPECT_NE(nodes[0].kernels, "");
  EXPECT_EQ(nodes[0].reason, "");
  EXPECT_EQ(nodes[2].placement, BPA_PLACEMENT_DECOMPOSED);
  EXPECT_NE(nodes[2].kernels.find(", "), std::string::npos) << nodes[2].kernels;
  EXPECT_NE(nodes[2].reason.find("no kernel for this operator"), std::string::npos)
      << nodes[2].reason;
}

TEST_P(PlacementTest, BeforeTheFirstRun_WhatWasPlannedAheadIsTold) {
  const Session open_sizes = load("placements");
  EXPECT_EQ(open_sizes.node_count(), 0u);
  bpa_node_info info = empty_info();
  const std::string words = words_for(open_sizes.handle(), 0, &info);
  EXPECT_NE(words.find("argument index is 0, expected less than 0"), std::string::npos) << words;
  const Session fixed = load("placements", {.dims = {{"N", 2}}});
  EXPECT_EQ(fixed.node_count(), kNodesOfFixedSizes);
  expect_sums(fixed);
  const std::vector<NodePlacement> ahead = fixed.nodes();
  fixed.run(input(2));
  const std::vector<NodePlacement> run = fixed.nodes();
  ASSERT_EQ(run.size(), ahead.size());
  for (size_t i = 0; i < run.size(); ++i) {
    EXPECT_EQ(run[i].kernels, ahead[i].kernels) << i;
    EXPECT_EQ(run[i].placement, ahead[i].placement) << i;
  }
}

TEST_P(PlacementTest, NodeWithoutAName_HasItsOperatorAndPlace) {
  std::ifstream file(model_path("placements"), std::ios::binary);
  std::string model{std::istreambuf_iterator<char>(file), {}};
  const size_t name = model.find("\x1a\x05node0");
  ASSERT_NE(name, std::string::npos);
  model[name] = '\x32';  // the text becomes the node's description
  const Session session = Session::create(*runtime_, std::as_bytes(std::span(model)),
                                          {.device = GetParam(), .dims = {{"N", 2}}});
  ASSERT_EQ(session.node_count(), kNodesOfFixedSizes);
  EXPECT_EQ(session.node(0).name, "Relu#0");
  EXPECT_EQ(session.node(1).name, "node1");
}

TEST_P(PlacementTest, WrongArguments_AreRefusedByName) {
  const Session session = load("placements", {.dims = {{"N", 2}}});
  bpa_node_info info = empty_info();
  for (const uint64_t index : {kNodesOfFixedSizes, UINT64_MAX}) {
    const std::string words = words_for(session.handle(), index, &info);
    EXPECT_NE(words.find("argument index is " + std::to_string(index) + ", expected less than 5"),
              std::string::npos)
        << words;
  }
  EXPECT_NE(words_for(nullptr, 0, &info).find("argument session"), std::string::npos);
  EXPECT_NE(words_for(session.handle(), 0, nullptr).find("argument out_info"), std::string::npos);
  uint64_t count = 4711;
  EXPECT_EQ(bpa_session_node_count(session.handle(), nullptr), BP_INVALID_ARGUMENT);
  EXPECT_EQ(bpa_session_node_count(nullptr, &count), BP_INVALID_ARGUMENT);
  EXPECT_EQ(count, 0u);
  info.struct_size = 4;
  EXPECT_NE(words_for(session.handle(), 0, &info).find("argument out_info"), std::string::npos);
  EXPECT_EQ(info.name, nullptr);
  info = empty_info();
  info.struct_size = offsetof(bpa_node_info, op);  // a caller that knows the name alone
  ASSERT_EQ(bpa_session_get_node(session.handle(), 0, &info), BP_OK) << bpa_last_error();
  EXPECT_STREQ(info.name, "node0");
  EXPECT_EQ(info.op, nullptr);
}

TEST_P(PlacementTest, Texts_LiveAsLongAsTheSession) {
  Session session = load("placements");
  session.run(input(1));
  std::vector<bpa_node_info> first(kNodes, empty_info());
  for (uint64_t i = 0; i < kNodes; ++i) {
    ASSERT_EQ(bpa_session_get_node(session.handle(), i, &first[i]), BP_OK) << bpa_last_error();
  }
  const std::vector<NodePlacement> copies = session.nodes();
  for (int64_t rows = 2; rows < 80; ++rows) session.run(input(rows));  // more plans than are kept
  for (size_t i = 0; i < kNodes; ++i) {
    EXPECT_EQ(first[i].name, copies[i].name);
    EXPECT_EQ(first[i].op, copies[i].op);
    EXPECT_EQ(first[i].kernels, copies[i].kernels);
    EXPECT_EQ(first[i].reason, copies[i].reason);
    bpa_node_info again = empty_info();
    ASSERT_EQ(bpa_session_get_node(session.handle(), i, &again), BP_OK) << bpa_last_error();
    EXPECT_EQ(again.name, first[i].name) << "one text twice";
    EXPECT_EQ(again.op, first[i].op);
  }
  bpa_session* const gone = session.handle();
  session = load("relu");
  bpa_node_info info = empty_info();
  const std::string words = words_for(gone, 0, &info);
  EXPECT_NE(words.find("argument session"), std::string::npos) << words;
  EXPECT_EQ(copies[0].op, "relu");
}

TEST_P(PlacementTest, AfterClose_NodesAreToldStill) {
  const Session session = load("placements", {.dims = {{"N", 2}}});
  const std::vector<NodePlacement> before = session.nodes();
  runtime_->close();
  const std::vector<NodePlacement> after = session.nodes();
  ASSERT_EQ(after.size(), before.size());
  for (size_t i = 0; i < after.size(); ++i) {
    EXPECT_EQ(after[i].kernels, before[i].kernels);
    EXPECT_EQ(after[i].device.handle(), before[i].device.handle());
  }
}

TEST_P(PlacementTest, DefaultInputs_TheNewestRunsNodesAreTold) {
  const Session session = load("relu_plus_default", {});
  const Tensor x = make({1, -2, 3, -4}, {2, 2});
  for (int round = 0; round < 2; ++round) {
    session.run({{"x", x}, {"w", x}});
    EXPECT_EQ(session.nodes().back().op, "add");
    expect_sums(session);
    session.run({{"x", x}});
    expect_sums(session);
  }
}

TEST_P(PlacementTest, ReadWhileOthersRunWithOtherSizes) {
  const Session session = load("placements");
  session.run(input(1));
  std::atomic<bool> over{false};
  std::atomic<uint64_t> problems{0};
  std::atomic<uint64_t> reads{0};
  const auto read = [&] {
    std::vector<std::pair<const char*, std::string>> texts;
    do {
      for (uint64_t i = 0; i < kNodes; ++i) {
        bpa_node_info info = empty_info();
        if (bpa_session_get_node(session.handle(), i, &info) != BP_OK) {
          ++problems;
          continue;
        }
        if (info.name != "node" + std::to_string(i)) ++problems;
        if (texts.size() < 1000) texts.emplace_back(info.reason, info.reason);
        ++reads;
      }
    } while (!over);
    for (const auto& [text, copy] : texts) {
      if (text != copy) ++problems;
    }
  };
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) readers.emplace_back(read);
  for (int64_t i = 0; i < 150; ++i) session.run(input(1 + i % 70));
  over = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(problems, 0u);
  EXPECT_GE(reads, 2 * kNodes);
}

INSTANTIATE_TEST_SUITE_P(Devices, PlacementTest, testing::ValuesIn(tests::device_names()),
                         device_name_of);

}  // namespace
}  // namespace bp
