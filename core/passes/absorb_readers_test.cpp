// SPDX-License-Identifier: Apache-2.0
//
// Epilogues: sum(a, b) takes in a plus as its c, where that alone reads it, and half(a) with a plus
// of a is whole(a), which a sum takes in too.
#include "core/passes/absorb_readers.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/graph/tiny_ops_test.hpp"
#include "core/op/absorb.hpp"

namespace bp {
namespace {

using tiny::f32;

/// sum(a, b, c) absorbs a plus as its c, and whole.
std::optional<Absorbed> absorb_plus(const AbsorbContext& context) {
  if (context.reader.name == "whole") return Absorbed{.attributes = {}, .inputs = {}};
  const bool is_taken =
      context.call.inputs.size() > 2 && context.call.inputs[2].dtype != BP_DTYPE_NONE;
  if (context.reader.name != "plus" || is_taken) return std::nullopt;
  return Absorbed{.attributes = {}, .inputs = {{1 - context.reader_input, 2}}};
}

/// plus(half(a), a) is whole(a).
std::optional<Absorbed> absorb_other_half(const AbsorbContext& context) {
  const bool is_same = context.reader.name == "plus" &&
                       context.reader_values[1 - context.reader_input] == context.call_values[0];
  if (!is_same) return std::nullopt;
  return Absorbed{.attributes = {}, .inputs = {}, .op = context.registry.find("whole")};
}

const OpRegistry& registry() {
  static const OpRegistry* made = [] {
    auto* ops = new OpRegistry;
    OpSchema sum = tiny::schema("sum", 20, tiny::kPlusIn, tiny::kOneOut, tiny::infer_plus);
    sum.absorb = absorb_plus;
    OpSchema half = tiny::schema("half", 21, tiny::kOneIn, tiny::kOneOut, tiny::infer_same);
    half.absorb = absorb_other_half;
    for (const OpSchema& row :
         {sum, half, tiny::schema("plus", 1, tiny::kPlusIn, tiny::kOneOut, tiny::infer_plus),
          tiny::schema("whole", 22, tiny::kOneIn, tiny::kOneOut, tiny::infer_same),
          tiny::schema("same", 4, tiny::kOneIn, tiny::kOneOut, tiny::infer_same)}) {
      if (!ops->add(row).ok()) std::abort();
    }
    return ops;
  }();
  return *made;
}

bool has_all(OpId, std::span<const TensorType>, std::span<const TensorType>, const Attributes&) {
  return true;
}
bool has_none(OpId, std::span<const TensorType>, std::span<const TensorType>, const Attributes&) {
  return false;
}

class AbsorbReaders : public ::testing::Test {
 protected:
  ValueId input(std::string_view name) { return *graph_.add_input(name, f32({2, 3})); }
  ValueId op(std::string_view name, std::vector<ValueId> inputs) {
    return *graph_.op(name, inputs);
  }
  /// The operators that are left, in order.
  std::string run(std::vector<ValueId> outputs, const HasKernelFn& has_kernel = has_all) {
    std::vector<std::string> names;
    for (size_t i = 0; i < outputs.size(); ++i) names.push_back("y" + std::to_string(i));
    EXPECT_TRUE(graph_.set_outputs(outputs, names).ok());
    const Status status = absorb_readers(&graph_, has_kernel);
    EXPECT_TRUE(status.ok()) << status.to_string();
    graph_.remove_dead();
    EXPECT_TRUE(graph_.verify().ok()) << graph_.verify().to_string();
    std::string found;
    for (const Node& node : graph_.nodes()) {
      found += std::string(found.empty() ? "" : " ") +
               std::string(graph_.registry().schema(node.op).name);
    }
    return found;
  }

  Graph graph_{registry()};
};

TEST_F(AbsorbReaders, TakeInTheOneReader) {
  const ValueId a = input("a");
  const ValueId b = input("b");
  const ValueId c = input("c");
  EXPECT_EQ(run({op("plus", {c, op("sum", {a, b})})}), "sum");
  const Node& node = graph_.node(0);
  EXPECT_EQ(node.inputs, (std::vector<ValueId>{0, 1, 2}));
  EXPECT_EQ(node.outputs[0], graph_.outputs()[0]);
}

TEST_F(AbsorbReaders, StandWhereTheReaderStood) {
  const ValueId a = input("a");
  const ValueId sum = op("sum", {a, a});
  const ValueId late = op("same", {a});
  EXPECT_EQ(run({op("plus", {sum, late})}), "same sum");
}

TEST_F(AbsorbReaders, OfTwoTheLaterOneAbsorbs) {
  const ValueId a = input("a");
  const ValueId first = op("sum", {a, a});
  const ValueId between = op("same", {a});
  const ValueId second = op("sum", {between, between});
  EXPECT_EQ(run({op("plus", {first, second})}), "sum same sum");
  EXPECT_EQ(graph_.node(2).inputs[2], graph_.node(0).outputs[0]);
}

TEST_F(AbsorbReaders, LeaveWhatOthersReadToo) {
  const ValueId a = input("a");
  const ValueId sum = op("sum", {a, a});
  EXPECT_EQ(run({op("plus", {sum, a}), op("same", {sum})}), "sum plus same");
}

TEST_F(AbsorbReaders, LeaveAnOutputOfTheGraph) {
  const ValueId a = input("a");
  const ValueId sum = op("sum", {a, a});
  EXPECT_EQ(run({op("plus", {sum, a}), sum}), "sum plus");
}

TEST_F(AbsorbReaders, LeaveAReaderThatReadsTwice) {
  const ValueId a = input("a");
  const ValueId sum = op("sum", {a, a});
  EXPECT_EQ(run({op("plus", {sum, sum})}), "sum plus");
}

TEST_F(AbsorbReaders, LeaveWhatTheOperatorDoesNotTake) {
  const ValueId a = input("a");
  const ValueId taken = op("plus", {op("sum", {a, a}), a});
  EXPECT_EQ(run({op("plus", {taken, a})}), "sum plus");
}

TEST_F(AbsorbReaders, MayBecomeAnotherOperator) {
  const ValueId a = input("a");
  EXPECT_EQ(run({op("plus", {op("half", {a}), a}), op("plus", {a, op("half", {a})})}),
            "whole whole");
  EXPECT_EQ(graph_.node(0).inputs, (std::vector<ValueId>{a}));
}

TEST_F(AbsorbReaders, LeaveAPlusOfAnotherValue) {
  const ValueId a = input("a");
  EXPECT_EQ(run({op("plus", {op("half", {a}), input("b")})}), "half plus");
}

// The sum has two readers until they are one.
TEST_F(AbsorbReaders, WhatBecameAnotherIsAbsorbedItself) {
  const ValueId a = input("a");
  const ValueId sum = op("sum", {a, a});
  EXPECT_EQ(run({op("plus", {op("half", {sum}), sum})}), "sum");
}

TEST_F(AbsorbReaders, WhatBecameAnotherIsLeftWhereMoreIsRead) {
  const ValueId a = input("a");
  const ValueId sum = op("sum", {a, a});
  EXPECT_EQ(run({op("plus", {op("half", {sum}), sum}), op("same", {sum})}), "sum whole same");
}

TEST_F(AbsorbReaders, NeedAKernelOfTheOtherOperator) {
  const ValueId a = input("a");
  const OpId whole = *registry().find("whole");
  const auto has_others = [=](OpId op, std::span<const TensorType>, std::span<const TensorType>,
                              const Attributes&) { return op != whole; };
  EXPECT_EQ(run({op("plus", {op("half", {a}), a})}, has_others), "half plus");
}

TEST_F(AbsorbReaders, NeedAKernel) {
  const ValueId a = input("a");
  EXPECT_EQ(run({op("plus", {op("sum", {a, a}), a})}, has_none), "sum plus");
}

TEST_F(AbsorbReaders, DoNothingWithoutADevice) {
  const ValueId a = input("a");
  EXPECT_EQ(run({op("plus", {op("sum", {a, a}), a})}, {}), "sum plus");
}

}  // namespace
}  // namespace bp
