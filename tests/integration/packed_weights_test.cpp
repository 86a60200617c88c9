// SPDX-License-Identifier: Apache-2.0
//
// Weights that kernels take packed: the results are those of plain weights, what is packed is made
// once for all plans that want the same form, and counted.
#include <array>
#include <thread>

#include "tests/integration/device_fixture.hpp"

namespace bp {
namespace {

class PackedWeightsTest : public DeviceTest {
 protected:
  void SetUp() override { open(runtime_args()); }
  /// With a device that packs on every machine.
  static RuntimeArgs runtime_args() {
    RuntimeArgs args = test_runtime_args();
    args.plugin_path = {BP_FAKES_DIR "/wrong_kernels"};
    return args;
  }
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
  /// x f32[N, kWide] times weights [kWide, kWide], which lie `lead` bytes behind a cache line; with
  /// `is_added` they are also added to the product, as they are.
  static constexpr int64_t kWide = 144;
  Graph unaligned(size_t lead, bool is_added) {
    constexpr size_t kBytes = sizeof(float) * kWide * kWide;
    void* memory = std::aligned_alloc(64, (kBytes / 64 + 2) * 64);
    const std::shared_ptr<void> owner(memory, std::free);
    auto* const bytes = static_cast<std::byte*>(memory) + lead;
    for (int64_t i = 0; i < kWide * kWide; ++i) {
      const auto number = static_cast<float>(i * 7 % 5 - 2);
      std::memcpy(bytes + static_cast<size_t>(i) * sizeof(float), &number, sizeof(float));
    }
    Graph graph(runtime_->registry());
    const ValueId x = *graph.add_input("x", {BP_DTYPE_F32, true, {kWide, kWide}});
    const ValueId w = *graph.add_constant("w", {.dtype = BP_DTYPE_F32,
                                                .sizes = {kWide, kWide},
                                                .data = bytes,
                                                .bytes = kBytes,
                                                .owner = owner});
    ValueId y = *graph.op("matmul", std::vector{x, w});
    if (is_added) y = *graph.op("add", std::vector{y, w});
    EXPECT_TRUE(graph.set_outputs({y}, {"y"}).ok());
    return graph;
  }
  /// Of a model of its own.
  static std::vector<float> weights() {
    std::vector<float> numbers(kWide * kWide);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i * 7 % 5) - 2;
    return numbers;
  }
  /// x f32[kWide, kWide] times `numbers`, which the session reads where they are.
  static Result<Ref<Session>> wide_product(Device& device, const std::vector<float>& numbers,
                                           uint64_t limit_bytes = 0) {
    Graph graph(device.runtime().registry());
    const ValueId x = *graph.add_input("x", {BP_DTYPE_F32, true, {kWide, kWide}});
    const ValueId w = *graph.add_constant("w", {.dtype = BP_DTYPE_F32,
                                                .sizes = {kWide, kWide},
                                                .data = numbers.data(),
                                                .bytes = numbers.size() * sizeof(float),
                                                .owner = std::make_shared<int>(0)});
    const ValueId y = *graph.op("matmul", std::vector{x, w});
    EXPECT_TRUE(graph.set_outputs({y}, {"y"}).ok());
    return Session::create(device.runtime(), std::move(graph),
                           {.device = &device, .memory_limit_bytes = limit_bytes, .dims = {}});
  }
  Ref<Session> must_make(const std::vector<float>& numbers) {
    auto made = wide_product(*device_, numbers);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return made.ok() ? *made : nullptr;
  }
  /// Expects y = x times `numbers`, for an x of whole numbers.
  void expect_product(const Ref<Session>& s, const std::vector<float>& numbers) {
    ASSERT_TRUE(s);
    std::vector<double> x(kWide * kWide);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i % 3) - 1;
    const NamedTensor input[] = {{"x", upload_f32({kWide, kWide}, x)}};
    const auto outputs = s->run(input);
    ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
    std::vector<double> y(kWide * kWide);
    for (size_t i = 0; i < y.size(); ++i) {
      for (size_t k = 0; k < kWide; ++k) {
        y[i] += x[i / kWide * kWide + k] * numbers[k * kWide + i % kWide];
      }
    }
    EXPECT_EQ(values((*outputs)[0]), y);
  }
  static OracleTensor whole_numbers(const Dims& sizes) {
    std::vector<double> numbers(static_cast<size_t>(element_count(sizes)));
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i * 7 % 5) - 2;
    return OracleTensor::from_f64(BP_DTYPE_F32, sizes, numbers);
  }
  /// x of these sizes, and one constant that both of two operators read.
  void expect_two_readers(const Dims& x_sizes, const Dims& w_sizes,
                          const std::array<std::string_view, 2>& names,
                          const std::array<Attributes, 2>& given) {
    const OracleTensor numbers = whole_numbers(w_sizes);
    void* data = nullptr;
    auto weights = HostTensor::allocate(BP_DTYPE_F32, w_sizes, &data);
    ASSERT_TRUE(weights.ok());
    std::memcpy(data, numbers.bytes.data(), numbers.bytes.size());
    for (const size_t first : {0, 1}) {
      Graph graph(runtime_->registry());
      const ValueId x = *graph.add_input("x", {BP_DTYPE_F32, true, x_sizes});
      const ValueId w = *graph.add_constant("w", *weights);
      const std::vector inputs{x, w, kNoValue};
      const ValueId y = *graph.op(names[first], inputs, given[first]);
      const ValueId z = *graph.op(names[1 - first], inputs, given[1 - first]);
      ASSERT_TRUE(graph.set_outputs({y, z}, {"y", "z"}).ok());
      expect_oracle(graph, {whole_numbers(x_sizes)});
    }
  }
  uint64_t weight_bytes() const {
    const auto stats = device_->allocator().stats();
    return stats.tag_bytes[static_cast<size_t>(MemoryTag::kWeights)];
  }
  static constexpr uint64_t kWideBytes = sizeof(float) * kWide * kWide;

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
    const auto route =
        Dispatcher::of(*device_).resolve(graph.node(0).op, inputs, graph.node(0).attributes.data());
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

TEST_P(PackedWeightsTest, AtAnyAddress_ResultsAreTheSame) {
  std::vector<double> values(kWide * kWide);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 3) - 1;
  const auto x = OracleTensor::from_f64(BP_DTYPE_F32, {kWide, kWide}, values);
  const auto result = [&](Graph graph) {
    const Ref<Session> made = session(std::move(graph));
    const NamedTensor input[] = {{"x", upload(x)}};
    const auto outputs = made->run(input);
    EXPECT_TRUE(outputs.ok()) << outputs.status().to_string();
    return outputs.ok() ? this->values((*outputs)[0]) : std::vector<double>();
  };
  for (const bool is_added : {false, true}) {
    expect_oracle(unaligned(0, is_added), {x});
    const std::vector<double> expected = result(unaligned(0, is_added));
    for (const size_t lead : {size_t{1}, size_t{4}, size_t{6}}) {
      EXPECT_EQ(result(unaligned(lead, is_added)), expected);
    }
  }
}

// The packed forms have equal sizes and blocks, but their dimensions are others of the constant's.
TEST_P(PackedWeightsTest, ConvAndConvTransposeOfOneConstant_HaveTheirOwnForms) {
  Attributes turned = attributes("conv_transpose");
  ASSERT_TRUE(turned.set_i64s("strides", std::array<int64_t, 2>{2, 2}).ok());
  for (const int64_t channels : {8, 16, 32}) {
    for (const int64_t side : {2, 4}) {
      expect_two_readers({1, channels, 14, 14}, {channels, channels, side, side},
                         {"conv", "conv_transpose"}, {attributes("conv"), turned});
    }
  }
}

TEST_P(PackedWeightsTest, GemmsOfOneConstantAsItIsAndTransposed_HaveTheirOwnForms) {
  Attributes turned = attributes("gemm");
  ASSERT_TRUE(turned.set_i64("trans_b", 1).ok());
  expect_two_readers({32, kWide}, {kWide, kWide}, {"gemm", "gemm"}, {attributes("gemm"), turned});
}

TEST_P(PackedWeightsTest, WhatIsReadPackedAlone_TakesNoOtherMemory) {
  if (!packs()) GTEST_SKIP() << "it takes weights as they are";
  constexpr uint64_t kBytes = sizeof(float) * kWide * kWide;
  const Ref<Session> packed = session(unaligned(4, false));
  const Ref<Session> both = session(unaligned(4, true));
  ASSERT_TRUE(packed && both);
  EXPECT_GE(packed->memory_used_bytes(), kBytes);
  EXPECT_EQ(both->memory_used_bytes() - packed->memory_used_bytes(), kBytes);
}

TEST_P(PackedWeightsTest, SessionsOfEqualWeights_ShareWhatIsPacked) {
  if (!packs()) GTEST_SKIP() << "it takes weights as they are";
  const uint64_t before = weight_bytes();
  const std::vector<float> one = weights();
  const std::vector<float> two = weights();
  const Ref<Session> first = must_make(one);
  const uint64_t taken = weight_bytes() - before;
  EXPECT_GE(taken, kWideBytes);
  const Ref<Session> second = must_make(two);
  EXPECT_EQ(weight_bytes() - before, taken) << "the second session packs nothing";
  EXPECT_EQ(second->memory_used_bytes(), first->memory_used_bytes()) << "each counts them";
  expect_product(second, two);
  expect_product(first, one);
}

TEST_P(PackedWeightsTest, OtherWeightsOfTheSameForm_AreNotShared) {
  if (!packs()) GTEST_SKIP() << "it takes weights as they are";
  const uint64_t before = weight_bytes();
  const std::vector<float> one = weights();
  std::vector<float> other = weights();
  other.back() += 1;
  const Ref<Session> first = must_make(one);
  const Ref<Session> second = must_make(other);
  EXPECT_GE(weight_bytes() - before, 2 * kWideBytes);
  expect_product(first, one);
  expect_product(second, other);
}

TEST_P(PackedWeightsTest, Shared_EndWithTheLastUser) {
  if (!packs()) GTEST_SKIP() << "it takes weights as they are";
  const std::vector<float> one = weights();
  const std::vector<float> two = weights();
  const std::vector<float> three = weights();
  const uint64_t before = weight_bytes();
  Ref<Session> first = must_make(one);
  Ref<Session> second = must_make(two);
  const uint64_t taken = weight_bytes() - before;
  first = nullptr;
  EXPECT_EQ(weight_bytes() - before, taken);
  expect_product(second, two);
  // What the second reads is what the third is compared with.
  Ref<Session> third = must_make(three);
  EXPECT_EQ(weight_bytes() - before, taken);
  second = nullptr;
  expect_product(third, three);
  third = nullptr;
  EXPECT_TRUE(device_->quiesce().ok());
  EXPECT_EQ(weight_bytes(), before);
  expect_product(must_make(one), one);
}

/// As a model's file that another program writes while a session has it mapped.
TEST_P(PackedWeightsTest, ValuesThatChangedSince_AreNotTakenForTheOldOnes) {
  if (!packs()) GTEST_SKIP() << "it takes weights as they are";
  std::vector<float> numbers = weights();
  const Ref<Session> first = must_make(numbers);
  numbers.front() += 1;  // where the first session was given it
  const Ref<Session> second = must_make(numbers);
  expect_product(second, numbers);
  expect_product(first, weights());
}

TEST_P(PackedWeightsTest, Shared_CountForEachLimit) {
  if (!packs()) GTEST_SKIP() << "it takes weights as they are";
  const std::vector<float> one = weights();
  const Ref<Session> first = must_make(one);
  const auto second = wide_product(*device_, one, kWideBytes / 2);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), BP_OUT_OF_MEMORY) << second.status().to_string();
  expect_words(second.status(), {"memory_limit_bytes", "packed weights"});
}

TEST_P(PackedWeightsTest, SessionsMadeAtOnce_PackOnce) {
  if (!packs()) GTEST_SKIP() << "it takes weights as they are";
  const uint64_t before = weight_bytes();
  constexpr size_t kThreads = 4;
  const std::vector<std::vector<float>> numbers(kThreads, weights());
  std::vector<Ref<Session>> made(kThreads);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] { made[i] = must_make(numbers[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LT(weight_bytes() - before, 2 * kWideBytes);
  for (size_t i = 0; i < kThreads; ++i) expect_product(made[i], numbers[i]);
}

TEST_P(PackedWeightsTest, AnotherRuntime_HasItsOwn) {
  if (!packs()) GTEST_SKIP() << "it takes weights as they are";
  const std::vector<float> one = weights();
  const Ref<Session> first = must_make(one);
  const uint64_t taken = weight_bytes();
  auto runtime = Runtime::create(runtime_args());
  ASSERT_TRUE(runtime.ok());
  auto device = (*runtime)->find_device(GetParam());
  ASSERT_TRUE(device.ok());
  const auto second = wide_product(**device, one);
  ASSERT_TRUE(second.ok()) << second.status().to_string();
  const auto stats = (*device)->allocator().stats();
  EXPECT_GE(stats.tag_bytes[static_cast<size_t>(MemoryTag::kWeights)], kWideBytes);
  EXPECT_EQ(weight_bytes(), taken);
}

INSTANTIATE_TEST_SUITE_P(Devices, PackedWeightsTest, testing::ValuesIn(tests::device_names()),
                         device_test_name);
INSTANTIATE_TEST_SUITE_P(Fake, PackedWeightsTest, testing::Values("wrong_kernels:0"),
                         device_test_name);

}  // namespace
}  // namespace bp
