// SPDX-License-Identifier: Apache-2.0
//
// Values whose plan chose the order of their dimensions: whoever reads them sees the same values,
// whatever it demands of its inputs, wherever it runs, and in later segments; answers are
// contiguous.
#include <cstring>
#include <functional>
#include <map>

#include "tests/integration/device_fixture.hpp"

namespace bp {
namespace {

class OrdersTest : public DeviceTest {
 protected:
  static constexpr int64_t kBatch = 2;
  static constexpr int64_t kChannels = 16;
  static constexpr int64_t kSide = 12;
  const Dims image_{kBatch, kChannels, kSide, kSide};

  OracleTensor numbers(const Dims& sizes, int64_t modulus) {
    std::vector<double> values(static_cast<size_t>(element_count(sizes)));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<double>(static_cast<int64_t>(i * 7) % modulus - modulus / 2) / 8;
    }
    return OracleTensor::from_f64(BP_DTYPE_F32, sizes, values);
  }
  ValueId constant(Graph* graph, const OracleTensor& value) {
    void* data = nullptr;
    auto tensor = HostTensor::allocate(value.dtype, value.sizes, &data);
    EXPECT_TRUE(tensor.ok());
    std::memcpy(data, value.bytes.data(), value.bytes.size());
    return *graph->add_constant("", std::move(*tensor));
  }
  ValueId node(Graph* graph, std::string_view name, const std::vector<ValueId>& inputs,
               const Attributes& with = {}) {
    auto made = with.data() == nullptr ? graph->op(name, inputs) : graph->op(name, inputs, with);
    EXPECT_TRUE(made.ok()) << name << ": " << made.status().to_string();
    return made.ok() ? *made : kNoValue;
  }
  /// A convolution that keeps the sizes of an image.
  ValueId conv(Graph* graph, ValueId x) {
    Attributes with = attributes("conv");
    EXPECT_TRUE(with.set_i64s("pads", std::vector<int64_t>{1, 1, 1, 1}).ok());
    const ValueId w = constant(graph, numbers({kChannels, kChannels, 3, 3}, 5));
    return node(graph, "conv", {x, w}, with);
  }
  Attributes window(std::string_view op_name) {
    Attributes with = attributes(op_name);
    EXPECT_TRUE(with.set_i64s("kernel_shape", std::vector<int64_t>{3, 3}).ok());
    EXPECT_TRUE(with.set_i64s("strides", std::vector<int64_t>{2, 2}).ok());
    EXPECT_TRUE(with.set_i64s("pads", std::vector<int64_t>{1, 1, 1, 1}).ok());
    return with;
  }
  /// A convolution's answer, and what `more` makes of it.
  template <class More>
  void expect_after_conv(const More& more) {
    Graph graph(runtime_->registry());
    const ValueId x = *graph.add_input("x", {BP_DTYPE_F32, true, image_});
    const ValueId y = more(&graph, conv(&graph, x));
    ASSERT_TRUE(graph.set_outputs({y}, {"y"}).ok());
    expect_oracle(graph, {numbers(image_, 9)});
  }
  template <class More>
  Ref<Tensor> run_after_conv(const More& more) {
    Graph graph(runtime_->registry());
    const ValueId x = *graph.add_input("x", {BP_DTYPE_F32, true, image_});
    EXPECT_TRUE(graph.set_outputs({more(&graph, conv(&graph, x))}, {"y"}).ok());
    const Ref<Session> s = session(std::move(graph));
    if (!s) return nullptr;
    const NamedTensor input[] = {{"x", upload(numbers(image_, 9))}};
    auto outputs = s->run(input);
    EXPECT_TRUE(outputs.ok()) << outputs.status().to_string();
    return outputs.ok() ? (*outputs)[0] : nullptr;
  }
};

TEST_P(OrdersTest, ReadersOfAllKinds_SeeTheSameValues) {
  using Make = std::function<ValueId(Graph*, ValueId)>;
  const std::map<std::string, Make> readers = {
      {"the answer itself", [](Graph*, ValueId x) { return x; }},
      {"relu", [&](Graph* g, ValueId x) { return node(g, "relu", {x}); }},
      {"conv", [&](Graph* g, ValueId x) { return conv(g, x); }},
      {"softmax", [&](Graph* g, ValueId x) { return node(g, "softmax", {x}); }},
      {"global_average_pool",
       [&](Graph* g, ValueId x) { return node(g, "global_average_pool", {x}); }},
      {"max_pool",
       [&](Graph* g, ValueId x) { return node(g, "max_pool", {x}, window("max_pool")); }},
      {"average_pool",
       [&](Graph* g, ValueId x) { return node(g, "average_pool", {x}, window("average_pool")); }},
      {"transpose", [&](Graph* g, ValueId x) { return node(g, "transpose", {x}); }},
      {"a vector for each column",
       [&](Graph* g, ValueId x) {
         return node(g, "mul", {x, constant(g, numbers({kSide}, 7))});
       }},
      {"a factor for each channel",
       [&](Graph* g, ValueId x) {
         return node(g, "mul", {constant(g, numbers({1, kChannels, 1, 1}, 7)), x});
       }},
      {"an image that lies otherwise",
       [&](Graph* g, ValueId x) {
         return node(g, "add", {x, constant(g, numbers(image_, 7))});
       }},
      {"batch_norm", [&](Graph* g, ValueId x) {
         const ValueId each = constant(g, numbers({kChannels}, 7));
         const ValueId above = node(g, "exp", {each});
         return node(g, "batch_norm", {x, each, each, each, above});
       }}};
  for (const auto& reader : readers) {
    SCOPED_TRACE(reader.first);
    const auto& make = reader.second;  // clang 14 captures no structured binding
    expect_after_conv(make);
    SCOPED_TRACE("and one more");
    expect_after_conv([&](Graph* g, ValueId x) { return node(g, "relu", {make(g, x)}); });
    SCOPED_TRACE("and another convolution reads the same");
    expect_after_conv([&](Graph* g, ValueId x) {
      const ValueId relu = node(g, "relu", {x});
      return node(g, "add", {conv(g, relu), node(g, "reduce_max", {make(g, relu)})});
    });
  }
}

TEST_P(OrdersTest, Concat_OfChannelsAndOfRows) {
  for (const int64_t axis : {0, 1, 2, 3}) {
    SCOPED_TRACE(axis);
    expect_after_conv([&](Graph* g, ValueId x) {
      Attributes with = attributes("concat");
      EXPECT_TRUE(with.set_i64("axis", axis).ok());
      const ValueId relu = node(g, "relu", {x});
      const ValueId other = constant(g, numbers(image_, 7));
      const ValueId all = node(g, "concat", {relu, other, x}, with);
      return node(g, "relu", {all});
    });
  }
}

TEST_P(OrdersTest, Answers_AreContiguousAlsoBehindViews) {
  const auto itself = [](Graph*, ValueId x) { return x; };
  const auto identity = [this](Graph* g, ValueId x) { return node(g, "identity", {x}); };
  for (const Ref<Tensor>& y : {run_after_conv(itself), run_after_conv(identity)}) {
    ASSERT_TRUE(y);
    EXPECT_TRUE(y->contiguous()) << to_string(y->strides());
  }
}

/// What a later segment reads of an earlier one keeps its order.
TEST_P(OrdersTest, LaterSegments_SeeTheSameValues) {
  if (!offers("non_zero")) GTEST_SKIP() << "no sizes that only a run tells";
  expect_after_conv([&](Graph* g, ValueId x) {
    const ValueId relu = node(g, "relu", {x});
    const ValueId places = node(g, "non_zero", {relu});
    const ValueId count = node(g, "shape", {places});
    const ValueId sizes = node(g, "cast", {count}, [&] {
      Attributes with = attributes("cast");
      EXPECT_TRUE(with.set_i64("to", BP_DTYPE_F32).ok());
      return with;
    }());
    const ValueId total = node(g, "reduce_sum", {sizes});
    return node(g, "add", {conv(g, relu), total});
  });
}

/// A node that another device takes gets the values by a copy.
TEST_P(OrdersTest, OtherDevices_SeeTheSameValues) {
  RuntimeArgs args = test_runtime_args();
  args.options.push_back({"BACKPLANE_HOST_OPS", "softmax,batch_norm"});
  open(args);
  if (IsSkipped() || device_ == nullptr) return;
  expect_after_conv([&](Graph* g, ValueId x) {
    const ValueId relu = node(g, "relu", {x});
    return conv(g, node(g, "softmax", {relu}));
  });
}

INSTANTIATE_TEST_SUITE_P(Devices, OrdersTest, testing::ValuesIn(tests::device_names()),
                         device_test_name);

}  // namespace
}  // namespace bp
