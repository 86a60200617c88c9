// SPDX-License-Identifier: Apache-2.0
//
// Epilogues: products that add and activate in the same call where the device has a kernel for
// that, and give what the operators give one by one. The oracle evaluates the graph as it was made.
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "core/op/host_tensor.hpp"
#include "tests/integration/device_fixture.hpp"

namespace bp {
namespace {

class EpilogueTest : public DeviceTest {
 protected:
  static constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  static constexpr double kInf = std::numeric_limits<double>::infinity();

  OracleTensor numbers(const Dims& sizes, int64_t modulus) {
    std::vector<double> values(static_cast<size_t>(element_count(sizes)));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<double>(static_cast<int64_t>(i * 7) % modulus - modulus / 2) / 8;
    }
    return OracleTensor::from_f64(dtype_, sizes, values);
  }
  ValueId constant(const OracleTensor& value) {
    void* data = nullptr;
    auto tensor = HostTensor::allocate(value.dtype, value.sizes, &data);
    EXPECT_TRUE(tensor.ok());
    if (!value.bytes.empty()) std::memcpy(data, value.bytes.data(), value.bytes.size());
    return *graph_->add_constant("", std::move(*tensor));
  }
  ValueId scalar(double value) { return *graph_->add_scalar(dtype_, value); }
  ValueId input(std::string_view name, const Dims& sizes) {
    return *graph_->add_input(name, {dtype_, true, sizes});
  }
  ValueId node(std::string_view name, const std::vector<ValueId>& inputs) {
    auto made = graph_->op(name, inputs);
    EXPECT_TRUE(made.ok()) << name << ": " << made.status().to_string();
    return made.ok() ? *made : kNoValue;
  }
  ValueId conv(ValueId x) { return node("conv", {x, constant(numbers({6, 4, 3, 3}, 11))}); }
  void begin(uint32_t dtype = BP_DTYPE_F32) {
    dtype_ = dtype;
    graph_.emplace(runtime_->registry());
  }
  /// Compares the graph with the oracle, and gives the operators that its plan runs.
  std::vector<std::string> run(ValueId y, const std::vector<OracleTensor>& inputs) {
    EXPECT_TRUE(graph_->set_outputs({y}, {"y"}).ok());
    expect_oracle(*graph_, inputs);
    const Ref<Session> s = session(*graph_);
    if (!s) return {};
    std::vector<NamedTensor> named;
    for (size_t i = 0; i < inputs.size(); ++i) {
      named.emplace_back(s->inputs()[i].name, upload(inputs[i]));
    }
    EXPECT_TRUE(s->run(named).ok());
    std::vector<std::string> ops;
    for (const PlacementRow& row : s->placements()) ops.emplace_back(row.op);
    return ops;
  }
  /// What the plan of a device with the epilogue runs, or of one without.
  void expect_ops(const std::vector<std::string>& found, const std::vector<std::string>& fused,
                  const std::vector<std::string>& apart) {
    EXPECT_EQ(found, GetParam() == "cpu:0" ? fused : apart);
  }

  uint32_t dtype_ = BP_DTYPE_F32;
  std::optional<Graph> graph_;
};

TEST_P(EpilogueTest, ConvAddRelu_IsOneCall) {
  begin();
  const ValueId x = input("x", {2, 4, 9, 8});
  const ValueId more = input("more", {2, 6, 7, 6});
  const ValueId y = node("relu", {node("add", {more, conv(x)})});
  expect_ops(run(y, {numbers({2, 4, 9, 8}, 23), numbers({2, 6, 7, 6}, 19)}), {"conv"},
             {"conv", "add", "relu"});
}

TEST_P(EpilogueTest, AReluAmongOthers_StaysWhereOthersReadTheSum) {
  begin();
  const ValueId x = input("x", {2, 4, 9, 8});
  const ValueId sum = conv(x);
  const ValueId y = node("mul", {sum, node("relu", {sum})});
  const auto apart = std::vector<std::string>{"conv", "relu", "mul"};
  EXPECT_EQ(run(y, {numbers({2, 4, 9, 8}, 23)}), apart);
}

TEST_P(EpilogueTest, ASecondActivation_StaysApart) {
  begin();
  const ValueId x = input("x", {2, 4, 9, 8});
  const ValueId y = node("sigmoid", {node("relu", {conv(x)})});
  expect_ops(run(y, {numbers({2, 4, 9, 8}, 23)}), {"conv", "sigmoid"}, {"conv", "relu", "sigmoid"});
}

TEST_P(EpilogueTest, AnAddendThatRepeats_StaysApartFromConv) {
  begin();
  const ValueId x = input("x", {2, 4, 9, 8});
  const ValueId y = node("add", {conv(x), constant(numbers({1, 6, 1, 1}, 5))});
  const auto apart = std::vector<std::string>{"conv", "add"};
  EXPECT_EQ(run(y, {numbers({2, 4, 9, 8}, 23)}), apart);
}

TEST_P(EpilogueTest, ClipOfConstantLimits_IsTakenIn) {
  begin();
  const ValueId x = input("x", {2, 4, 9, 8});
  const ValueId y = node("clip", {conv(x), scalar(0), scalar(6)});
  expect_ops(run(y, {numbers({2, 4, 9, 8}, 23)}), {"conv"}, {"conv", "clip"});
}

TEST_P(EpilogueTest, ClipOfGivenLimits_StaysApart) {
  begin();
  const ValueId x = input("x", {2, 4, 9, 8});
  const ValueId high = input("high", {});
  const ValueId y = node("clip", {conv(x), scalar(0), high});
  const auto apart = std::vector<std::string>{"conv", "clip"};
  EXPECT_EQ(run(y, {numbers({2, 4, 9, 8}, 23), OracleTensor::from_f64(dtype_, {}, {{3.5}})}),
            apart);
}

TEST_P(EpilogueTest, ADtypeWithoutSuchAKernel_StaysApart) {
  begin(BP_DTYPE_F16);
  const ValueId x = input("x", {2, 4, 9, 8});
  const ValueId y = node("relu", {conv(x)});
  const auto apart = std::vector<std::string>{"conv", "relu"};
  EXPECT_EQ(run(y, {numbers({2, 4, 9, 8}, 23)}), apart);
}

// As most exporters write it.
TEST_P(EpilogueTest, SiluByItsParts_IsSwish) {
  for (const bool swapped : {false, true}) {
    for (const uint32_t dtype : {BP_DTYPE_F32, BP_DTYPE_F64}) {
      begin(dtype);
      const ValueId x = input("x", {5, 13});
      const ValueId gate = node("sigmoid", {x});
      const ValueId y = swapped ? node("mul", {gate, x}) : node("mul", {x, gate});
      EXPECT_EQ(run(y, {numbers({5, 13}, 23)}), std::vector<std::string>{"swish"});
    }
  }
}

TEST_P(EpilogueTest, SiluByItsParts_RoundsHalvesOnce) {
  const OracleTensor given = (dtype_ = BP_DTYPE_F32, numbers({5, 13}, 23));
  for (const uint32_t dtype : {BP_DTYPE_F16, BP_DTYPE_BF16}) {
    std::vector<std::vector<double>> found;
    for (const bool by_parts : {false, true}) {
      begin(dtype);
      const ValueId x = input("x", {5, 13});
      const ValueId y = by_parts ? node("mul", {node("sigmoid", {x}), x}) : node("swish", {x});
      ASSERT_TRUE(graph_->set_outputs({y}, {"y"}).ok());
      const Ref<Session> s = session(*graph_);
      ASSERT_TRUE(s);
      const NamedTensor named[] = {
          {"x", upload(OracleTensor::from_f64(dtype, given.sizes, given.to_f64()))}};
      const auto outputs = s->run(named);
      ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
      found.push_back(values((*outputs)[0]));
      ASSERT_EQ(s->placements().size(), 1u);
      EXPECT_EQ(s->placements()[0].op, "swish");
    }
    EXPECT_EQ(found[1], found[0]);
  }
}

TEST_P(EpilogueTest, SiluByItsParts_IsTakenInByAProduct) {
  begin();
  const ValueId sum = conv(input("x", {2, 4, 9, 8}));
  const ValueId y = node("mul", {node("sigmoid", {sum}), sum});
  expect_ops(run(y, {numbers({2, 4, 9, 8}, 23)}), {"conv"}, {"conv", "swish"});
}

TEST_P(EpilogueTest, AGateOfAnotherValue_StaysApart) {
  begin();
  const ValueId y = node("mul", {node("sigmoid", {input("x", {5, 13})}), input("gated", {5, 13})});
  EXPECT_EQ(run(y, {numbers({5, 13}, 23), numbers({5, 13}, 19)}),
            (std::vector<std::string>{"sigmoid", "mul"}));
}

TEST_P(EpilogueTest, SiluByItsParts_SpecialValuesAreThoseOfTheOperators) {
  begin();
  const Dims sizes = {16};
  const std::vector<double> special = {kNan,  kInf, -kInf, 0.0,  -0.0,  1e-40, -1e-40, 3e38,
                                       -3e38, 1.0,  -1.0,  88.0, -88.0, 110.0, -110.0, 6.5};
  const ValueId x = input("x", sizes);
  run(node("mul", {x, node("sigmoid", {x})}), {OracleTensor::from_f64(dtype_, sizes, special)});
}

// A sum that is NaN or infinite, by a convolution with one weight of 1.
TEST_P(EpilogueTest, SpecialValues_AreThoseOfTheOperators) {
  const std::vector<double> special = {kNan,  kInf, -kInf, 0.0,  -0.0,  1e-40, -1e-40, 3e38,
                                       -3e38, 1.0,  -1.0,  88.0, -88.0, 0.25,  -0.25,  6.5};
  for (const char* name : {"relu", "leaky_relu", "elu", "sigmoid", "hard_sigmoid", "tanh", "swish",
                           "hard_swish", "mish", "gelu", "gelu_tanh"}) {
    SCOPED_TRACE(name);
    for (const int64_t batch : {1, 32}) {  // by the kernel for one image, and by the library
      begin();
      const ValueId x = input("x", {batch, 1, 4, 4});
      const ValueId w = constant(OracleTensor::from_f64(dtype_, {1, 1, 1, 1}, {{1.0}}));
      std::vector<double> values;
      for (int64_t i = 0; i < batch; ++i)
        values.insert(values.end(), special.begin(), special.end());
      const ValueId y = node(name, {node("conv", {x, w})});
      expect_ops(run(y, {OracleTensor::from_f64(dtype_, {batch, 1, 4, 4}, values)}), {"conv"},
                 {"conv", name});
    }
  }
}

// Near zero these are their argument, and exp(x) - 1 would be 0.
TEST_P(EpilogueTest, SmallSums_KeepTheirSize) {
  std::vector<double> small;
  for (int i = 0; i < 256; ++i) small.push_back(std::ldexp(i % 2 == 0 ? 1 : -1, -15 - i / 6));
  for (const char* name : {"elu", "tanh"}) {
    SCOPED_TRACE(name);
    begin();
    const ValueId x = input("x", {16, 1, 4, 4});
    const ValueId w = constant(OracleTensor::from_f64(dtype_, {1, 1, 1, 1}, {{1.0}}));
    ASSERT_TRUE(graph_->set_outputs({node(name, {node("conv", {x, w})})}, {"y"}).ok());
    const Ref<Session> s = session(*graph_);
    ASSERT_TRUE(s);
    const auto outputs = s->run(std::vector<NamedTensor>{{"x", upload_f32({16, 1, 4, 4}, small)}});
    ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
    expect_close(values(outputs->front()), small, 1e-4, 0);
  }
}

TEST_P(EpilogueTest, MatmulBiasGelu_IsOneCall) {
  begin();
  const ValueId x = input("x", {3, 16, 24});
  const ValueId w = constant(numbers({24, 40}, 13));
  const ValueId sum = node("add", {constant(numbers({40}, 9)), node("matmul", {x, w})});
  expect_ops(run(node("gelu", {sum}), {numbers({3, 16, 24}, 23)}), {"matmul"},
             {"matmul", "add", "gelu"});
}

TEST_P(EpilogueTest, MatmulOfManyBatches_AddsARowAndAWhole) {
  for (const Dims& addend : {Dims{40}, Dims{3, 16, 40}, Dims{16, 40}, Dims{16, 1}, Dims{1}}) {
    SCOPED_TRACE(to_string(addend));
    begin();
    const ValueId a = input("a", {3, 16, 24});
    const ValueId b = input("b", {3, 24, 40});
    const ValueId y =
        node("relu", {node("add", {node("matmul", {a, b}), constant(numbers(addend, 9))})});
    expect_ops(run(y, {numbers({3, 16, 24}, 23), numbers({3, 24, 40}, 17)}), {"matmul"},
               {"matmul", "add", "relu"});
  }
}

TEST_P(EpilogueTest, AnAddendThatMakesMore_StaysApart) {
  begin();
  const ValueId a = input("a", {4, 24});
  const ValueId w = constant(numbers({24, 8}, 13));
  const ValueId y = node("add", {node("matmul", {a, w}), constant(numbers({3, 4, 8}, 9))});
  const auto apart = std::vector<std::string>{"matmul", "add"};
  EXPECT_EQ(run(y, {numbers({4, 24}, 23)}), apart);
}

TEST_P(EpilogueTest, IntegersAddButDoNotActivate) {
  begin(BP_DTYPE_I32);
  const ValueId a = input("a", {4, 24});
  const ValueId w = constant(OracleTensor::zeros(dtype_, {24, 8}));
  const ValueId y = node("relu", {node("matmul", {a, w})});
  const auto apart = std::vector<std::string>{"matmul", "relu"};
  EXPECT_EQ(run(y, {numbers({4, 24}, 23)}), apart);
}

TEST_P(EpilogueTest, GemmRelu_OfFewAndOfManyRows) {
  for (const int64_t rows : {2, 64}) {
    begin();
    const ValueId a = input("a", {rows, 96});
    const ValueId y = node(
        "relu", {node("gemm", {a, constant(numbers({96, 80}, 13)), constant(numbers({80}, 9))})});
    const auto ops = run(y, {numbers({rows, 96}, 23)});
    if (GetParam() == "cpu:0") EXPECT_EQ(ops, std::vector<std::string>{"gemm"});
  }
}

TEST_P(EpilogueTest, SymbolicSizes_AreOneCallForEachSize) {
  begin();
  const int64_t batch = graph_->symbol("N");
  const ValueId x = input("x", {batch, 4, 9, 8});
  const ValueId more = input("more", {batch, 6, 7, 6});
  const ValueId y = node("relu", {node("add", {conv(x), more})});
  ASSERT_TRUE(graph_->set_outputs({y}, {"y"}).ok());
  for (const int64_t size : {1, 3, 0}) {
    expect_oracle(*graph_, {numbers({size, 4, 9, 8}, 23), numbers({size, 6, 7, 6}, 19)});
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, EpilogueTest, testing::ValuesIn(tests::device_names()),
                         device_test_name);

}  // namespace
}  // namespace bp
