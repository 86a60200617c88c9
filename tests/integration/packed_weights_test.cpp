// SPDX-License-Identifier: Apache-2.0
//
// Weights that kernels take packed: the results are those of plain weights, what is packed is made
// once for all plans that want the same form, and counted.
#include "tests/integration/device_fixture.hpp"

namespace bp {
namespace {

class PackedWeightsTest : public DeviceTest {
 protected:
  static constexpr int64_t kSide = 64;

  /// x f32[N, 64] times constant weights, one after another.
  Graph products(int count, const Dims& rows) {
    Graph graph(runtime_->registry());
    Dims sizes = rows;
    sizes.push_back(kSide);
    ValueId value = *graph.add_input("x", {BP_DTYPE_F32, true, sizes});
    for (int i = 0; i < count; ++i) {
      void* data = nullptr;
      auto weights = HostTensor::allocate(BP_DTYPE_F32, {kSide, kSide}, &data);
      EXPECT_TRUE(weights.ok());
      auto* const numbers = static_cast<float*>(data);
      for (int64_t j = 0; j < kSide * kSide; ++j) {
        numbers[j] = static_cast<float>((j * 7 + i) % 5 - 2);
      }
      const ValueId w = *graph.add_constant("", std::move(*weights));
      value = *graph.op("matmul", std::vector{value, w});
    }
    EXPECT_TRUE(graph.set_outputs({value}, {"y"}).ok());
    return graph;
  }
  OracleTensor rows(int64_t count) {
    std::vector<double> values(static_cast<size_t>(count * kSide));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 3) - 1;
    return OracleTensor::from_f64(BP_DTYPE_F32, {count, kSide}, values);
  }
  /// Whether the device packs such weights, so that a plan's kernel says so.
  bool packs() {
    const Graph graph = products(1, {8});
    std::vector<ArgType> inputs;
    for (const ValueId id : graph.node(0).inputs) {
      const TensorType& type = graph.value(id).type;
      inputs.push_back({.dtype = type.dtype,
                        .sizes = type.sizes,
                        .strides = contiguous_strides(type.sizes),
                        .is_constant = graph.value(id).constant != nullptr});
    }
    const auto route = Dispatcher::of(*device_).resolve(graph.node(0).op, inputs,
                                                        graph.node(0).attributes.data(), false);
    EXPECT_TRUE(route.ok());
    return route.ok() && (*route)->kernel && !(*route)->kernel->packed_inputs().empty();
  }
};

TEST_P(PackedWeightsTest, Results_AreThoseOfPlainWeights) {
  expect_oracle(products(3, {8}), {rows(8)});
}

TEST_P(PackedWeightsTest, PlansOfTwoShapes_ShareThem) {
  if (!packs()) GTEST_SKIP() << "it takes weights as they are";
  const Ref<Session> s = session([&] {
    Graph symbolic(runtime_->registry());
    const Dims sizes{symbolic.symbol("N"), kSide};
    const ValueId x = *symbolic.add_input("x", {BP_DTYPE_F32, true, sizes});
    const ValueId w = *symbolic.add_constant("w", *products(1, {8}).value(1).constant);
    EXPECT_TRUE(symbolic.set_outputs({*symbolic.op("matmul", std::vector{x, w})}, {"y"}).ok());
    return symbolic;
  }());
  ASSERT_TRUE(s);
  std::vector<uint64_t> used;
  for (const int64_t count : {32, 48}) {
    const NamedTensor input[] = {{"x", upload(rows(count))}};
    ASSERT_TRUE(s->run(input).ok());
    used.push_back(s->memory_used_bytes());
  }
  constexpr uint64_t kPackedBytes = kSide * kSide * sizeof(float);
  EXPECT_GE(used[0], kPackedBytes) << "they are counted";
  EXPECT_LT(used[1] - used[0], kPackedBytes) << "the second plan packs nothing";
}

INSTANTIATE_TEST_SUITE_P(Devices, PackedWeightsTest, testing::ValuesIn(tests::device_names()),
                         device_test_name);

}  // namespace
}  // namespace bp
