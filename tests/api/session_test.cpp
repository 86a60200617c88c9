// SPDX-License-Identifier: Apache-2.0
//
// What a session is made with: several devices, a memory limit, determinism; and what can be asked
// of sessions, devices and the log.
#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>

#include "tests/api/api_fixture.hpp"

namespace bp {
namespace {

const char* const kDigits = BP_DIGITS_DIR "/digits.onnx";

class SessionApiTest : public ApiTest {
 protected:
  std::vector<float> run_digits(const Session& session) {
    std::vector<float> pixels(64);
    for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(i % 7) / 7.0f;
    return session.run({{"image", make(pixels, {1, 1, 8, 8})}}).begin()->second.to_vector<float>();
  }
  bool is_cpu() const { return GetParam() == "cpu:0"; }
};

void expect_near(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-3) << i;
}

TEST_P(SessionApiTest, Devices_TheSecondRunsWhatTheFirstCannot) {
  if (is_cpu()) GTEST_SKIP() << "is the host";
  open({{"BACKPLANE_FALLBACK", "deny"}, {"BACKPLANE_HOST_OPS", "max_pool"}});
  const auto load = [&](const SessionOptions& options) {
    return Session::load(*runtime_, kDigits, options);
  };
  std::string words;
  const Session alone = load({.devices = {GetParam()}});
  EXPECT_EQ(status_of([&] { run_digits(alone); }, &words), BP_UNSUPPORTED);
  EXPECT_NE(words.find("deny"), std::string::npos) << words;
  const Session both = load({.devices = {GetParam(), "cpu:0"}});
  const std::vector<float> found = run_digits(both);
  EXPECT_GT(both.placement().fallback_count, 0u);
  expect_near(found, run_digits(load({.device = "cpu:0"})));
}

TEST_P(SessionApiTest, Devices_BetweenTwoThatTheHostCannotReach_ValuesGoThroughTheHost) {
  if (is_cpu()) GTEST_SKIP() << "is the host";
  // An operator that the first must not run goes to the second, which is no host device either.
  // npu and xpu share no memory, neither with each other nor with the host.
  const std::string other = GetParam() == "npu:0" ? "xpu:0" : "npu:0";
  open({{"BACKPLANE_HOST_OPS", "relu"}});
  const bpa_status found = status_of([&] { runtime_->device(other); });
  if (tests::is_absent(other, found)) GTEST_SKIP() << "needs " << other;
  ASSERT_EQ(found, BP_OK) << other;
  std::string words;
  // HOST_OPS keeps relu from both, and no host device is listed.
  EXPECT_EQ(status_of(
                [&] {
                  load("relu", {.devices = {GetParam(), other}})
                      .run({{"x", make({1, -2, 3, -4}, {2, 2})}});
                },
                &words),
            BP_UNSUPPORTED);
  EXPECT_NE(words.find("nor on " + other), std::string::npos) << words;
  const Session three = load("relu", {.devices = {GetParam(), other, "cpu:0"}});
  EXPECT_EQ(three.run({{"x", make({1, -2, 3, -4}, {2, 2})}}).at("y").to_vector<float>(),
            (std::vector<float>{1, 0, 3, 0}));
  EXPECT_EQ(three.placement().fallback_count, 1u);
}

TEST_P(SessionApiTest, Devices_Xpu_WithNpuBehindIt_RunsAll) {
  if (GetParam() != "xpu:0") GTEST_SKIP() << "one order of the three is enough";
  open({{"BACKPLANE_HOST_OPS", "conv"}});
  const Session session =
      Session::load(*runtime_, kDigits, {.devices = {"xpu:0", "npu:0", "cpu:0"}});
  const std::vector<float> found = run_digits(session);
  EXPECT_GT(session.placement().fallback_count, 0u);
  expect_near(found, run_digits(Session::load(*runtime_, kDigits, {.device = "cpu:0"})));
}

TEST_P(SessionApiTest, Devices_ListedTwice_IsRefused) {
  std::string words;
  EXPECT_EQ(status_of(
                [&] {
                  load("relu", {.devices = {GetParam(), GetParam()}});
                },
                &words),
            BP_INVALID_ARGUMENT);
  EXPECT_NE(words.find("args.devices[1]"), std::string::npos) << words;
}

TEST_P(SessionApiTest, Dims_ListedTwice_AreRefusedByName) {
  const char* const names[] = {"M", "N", "N"};
  const int64_t sizes[] = {1, 3, 5};
  bpa_session_args args{};
  args.struct_size = sizeof(args);
  args.device = device_.handle();
  args.dim_names = names;
  args.dim_sizes = sizes;
  args.dim_count = 3;
  const std::string path = model_path("two");
  bpa_session* session = nullptr;
  EXPECT_EQ(bpa_session_load(runtime_->handle(), path.c_str(), &args, &session),
            BP_INVALID_ARGUMENT);
  const std::string words = bpa_last_error();
  EXPECT_NE(words.find("args.dim_names[2] is 'N'"), std::string::npos) << words;
  EXPECT_EQ(session, nullptr);
}

TEST_P(SessionApiTest, DefaultInputs_MayBeLeftOutOrGiven) {
  const Session session = load("relu_plus_default", {});
  const std::vector<Io> inputs = session.inputs();
  ASSERT_EQ(inputs.size(), 2u);
  EXPECT_EQ(inputs[0].name, "x");
  EXPECT_FALSE(inputs[0].has_default);
  EXPECT_EQ(inputs[1].name, "w");
  EXPECT_TRUE(inputs[1].has_default);
  EXPECT_EQ(inputs[1].sizes, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(session.input_names(), std::vector<std::string>{"x"});
  const Tensor x = make({1, -2, 3, -4}, {2, 2});
  const std::vector<float> plain = {1, 0, 3, 0};
  const auto run = [&](const NamedTensors& given) {
    return session.run(given).at("y").to_vector<float>();
  };
  EXPECT_EQ(run({{"x", x}}), plain);
  for (float w = 1; w < 4; ++w) {
    EXPECT_EQ(run({{"x", x}, {"w", make({w, w, w, w}, {2, 2})}}),
              (std::vector<float>{1 + w, w, 3 + w, w}));
    EXPECT_GT(session.placement().native_count + session.placement().decomposed_count +
                  session.placement().fallback_count,
              1u);
    EXPECT_EQ(run({{"x", x}}), plain) << "the default is the default again";
  }
  std::string words;
  EXPECT_EQ(status_of(
                [&] {
                  run({{"x", x}, {"w", make({1}, {1})}});
                },
                &words),
            BP_INVALID_ARGUMENT);
  EXPECT_NE(words.find("input 'w': expected rank 2 [2, 2], found"), std::string::npos) << words;
  EXPECT_EQ(status_of([&] { run({{"w", x}}); }, &words), BP_INVALID_ARGUMENT);
  EXPECT_NE(words.find("input 'x' is missing"), std::string::npos) << words;
  EXPECT_EQ(status_of([&] { run({{"x", x}, {"v", x}}); }, &words), BP_INVALID_ARGUMENT);
  EXPECT_NE(words.find("the model has no input 'v'; it has 'x' 'w'"), std::string::npos) << words;
}

TEST_P(SessionApiTest, DefaultInputs_OfBoundAndAsynchronousRuns) {
  const Session session = load("relu_plus_default", {});
  const Tensor x = make({1, -2, 3, -4}, {2, 2});
  const Tensor w = make({10, 20, 30, 40}, {2, 2});
  const Tensor y = make({0, 0, 0, 0}, {2, 2});
  const std::vector<float> sum = {11, 20, 33, 40};
  session.run({{"x", x}, {"w", w}}, {.outputs = {{"y", y}}});
  EXPECT_EQ(y.to_vector<float>(), sum);
  EXPECT_EQ(session.run_async({{"x", x}, {"w", w}}).get().at("y").to_vector<float>(), sum);
}

std::string file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_P(SessionApiTest, ModelInMemory_IsCopied) {
  std::string model = file_bytes(kDigits);
  const Session session =
      Session::create(*runtime_, std::as_bytes(std::span(model)), {.device = GetParam()});
  model.assign(model.size(), '\0');
  expect_near(run_digits(session),
              run_digits(Session::load(*runtime_, kDigits, {.device = GetParam()})));
}

TEST_P(SessionApiTest, ModelInMemory_WithAnOwner_IsKeptAndLetGo) {
  auto model = std::make_shared<const std::string>(file_bytes(kDigits));
  const std::weak_ptr<const std::string> watched = model;
  const std::span bytes = std::as_bytes(std::span(*model));
  {
    const Session session =
        Session::create(*runtime_, bytes, {.device = GetParam()}, std::move(model));
    EXPECT_FALSE(watched.expired());
    expect_near(run_digits(session),
                run_digits(Session::load(*runtime_, kDigits, {.device = GetParam()})));
  }
  device_.sync();
  EXPECT_TRUE(watched.expired());
}

TEST_P(SessionApiTest, ModelInMemory_ThatIsRefused_StaysTheCallers) {
  int calls = 0;
  const auto deleter = [](void* user) { ++*static_cast<int*>(user); };
  bpa_session_args args{};
  args.struct_size = sizeof(args);
  args.device = device_.handle();
  bpa_session* session = nullptr;
  const std::string model = file_bytes(kDigits);
  EXPECT_EQ(bpa_session_create(runtime_->handle(), model.data(), model.size() / 2, deleter, &calls,
                               &args, &session),
            BP_INVALID_ARGUMENT);
  const std::string words = bpa_last_error();
  EXPECT_NE(words.find("model in memory: not a valid ONNX file: "), std::string::npos) << words;
  EXPECT_EQ(bpa_session_create(runtime_->handle(), model.data(), uint64_t{1} << 31, deleter, &calls,
                               &args, &session),
            BP_INVALID_ARGUMENT);
  EXPECT_EQ(calls, 0);
  ASSERT_EQ(bpa_session_create(runtime_->handle(), model.data(), model.size(), deleter, &calls,
                               &args, &session),
            BP_OK);
  EXPECT_EQ(calls, 0);
  bpa_session_release(session);
  device_.sync();
  EXPECT_EQ(calls, 1);
}

TEST_P(SessionApiTest, MemoryLimit_IsNamedWhenItIsReached) {
  const NamedTensors x = {{"x", make(std::vector<float>(20'000, 1.0f), {20'000})}};
  const Session small = load("chain", {.memory_limit_bytes = 1000});
  std::string words;
  EXPECT_EQ(status_of([&] { small.run(x); }, &words), BP_OUT_OF_MEMORY);
  EXPECT_NE(words.find("memory_limit_bytes) is 1000"), std::string::npos) << words;
  EXPECT_NE(words.find("need"), std::string::npos) << words;
  EXPECT_EQ(small.placement().memory_used_bytes, 0u) << "a run that failed keeps nothing";
  const Session large = load("chain", {.memory_limit_bytes = 1 << 20});
  for (int i = 0; i < 20; ++i) large.run(x);  // outputs that were given out do not count
  EXPECT_GT(large.placement().memory_used_bytes, 0u);
  EXPECT_LE(large.placement().memory_used_bytes, uint64_t{1} << 20);
}

TEST_P(SessionApiTest, MemoryLimit_CountsWeightsOnEveryDevice) {
  // About 140 KiB of them, used where they lie on a device that reaches the host's memory.
  const Session all = Session::load(*runtime_, kDigits, {.device = GetParam()});
  run_digits(all);
  EXPECT_GT(all.placement().memory_used_bytes, uint64_t{100} << 10);
  std::string words;
  EXPECT_EQ(status_of(
                [&] {
                  run_digits(Session::load(*runtime_, kDigits,
                                           {.device = GetParam(), .memory_limit_bytes = 4096}));
                },
                &words),
            BP_OUT_OF_MEMORY);
  EXPECT_NE(words.find("memory_limit_bytes) is 4096"), std::string::npos) << words;
}

TEST_P(SessionApiTest, MemoryLimit_CountsNoIdlePlansAgainstARun) {
  const auto input = [&](int64_t size) {
    return NamedTensors{{"x", make(std::vector<float>(static_cast<size_t>(size), 1.0f), {size})}};
  };
  constexpr int64_t kSize = 20'000;
  // The least limit, to 256 bytes, that one run alone can do with.
  uint64_t limit = 1 << 20;
  for (uint64_t step = limit / 2; step >= 256; step /= 2) {
    const Session session = load("chain", {.memory_limit_bytes = limit - step});
    if (status_of([&] { session.run(input(kSize)); }) == BP_OK) limit -= step;
  }
  ASSERT_GT(limit, kSize * sizeof(float)) << "or there is no limit";
  const Session session = load("chain", {.memory_limit_bytes = limit});
  for (int64_t size = kSize; size > kSize - 24; --size) {
    const NamedTensors outputs = session.run(input(size));
    ASSERT_EQ(outputs.begin()->second.to_vector<float>(),
              std::vector<float>(static_cast<size_t>(size), 1.0f + kChainNodes))
        << size;
  }
  EXPECT_LE(session.placement().memory_used_bytes, limit);
  EXPECT_EQ(status_of([&] { session.run(input(kSize + 4096)); }), BP_OUT_OF_MEMORY);
  session.run(input(kSize));
}

TEST_P(SessionApiTest, Deterministic_UsesPromisingKernelsOnly) {
  const int64_t n = 96;
  std::vector<float> values(static_cast<size_t>(n * n));
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
  const NamedTensors x = {{"x", make(values, {n, n})}};
  const Session session = load("matmul", {.deterministic = true});
  const std::vector<float> first = session.run(x).at("y").to_vector<float>();
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(session.run(x).at("y").to_vector<float>(), first) << "other bits on a rerun";
  }
  const std::vector<float> other = load("matmul").run(x).at("y").to_vector<float>();
  for (size_t i = 0; i < first.size(); ++i) ASSERT_NEAR(first[i], other[i], 1e-3) << i;
  // The same switch for one operator.
  const bpa_tensor* inputs[] = {x.at("x").handle(), x.at("x").handle()};
  bpa_tensor* output = nullptr;
  ASSERT_EQ(
      bpa_op_call(nullptr, BP_OP_MATMUL, inputs, 2, nullptr, BPA_OP_DETERMINISTIC_BIT, &output, 1),
      BP_OK)
      << bpa_last_error();
  EXPECT_EQ(Tensor::adopt(output).to_vector<float>(), first);
}

TEST_P(SessionApiTest, Io_TellsNamesTypesSizesAndSymbols) {
  const Session session = load("two");
  const std::vector<Io> inputs = session.inputs();
  ASSERT_EQ(inputs.size(), 1u);
  EXPECT_EQ(inputs[0].name, "x");
  EXPECT_EQ(inputs[0].dtype, BP_DTYPE_F32);
  EXPECT_TRUE(inputs[0].has_rank);
  ASSERT_EQ(inputs[0].sizes.size(), 2u);
  EXPECT_LT(inputs[0].sizes[0], 0);
  EXPECT_EQ(inputs[0].sizes[1], 64);
  EXPECT_EQ(inputs[0].dim_names, (std::vector<std::string>{"N", ""}));
  EXPECT_EQ(session.output_names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(load("unknown").inputs()[0].has_rank);
  EXPECT_EQ(load("two", {.dims = {{"N", 3}}}).inputs()[0].sizes, (std::vector<int64_t>{3, 64}));
}

TEST_P(SessionApiTest, Features_AreNativeEmulatedOrAbsent) {
  const bpa_device_info info = device_.info();
  const std::vector<Feature> features = device_.features();
  ASSERT_EQ(features.size(), 6u);
  for (const Feature& feature : features) {
    const bool native = (info.features & feature.bit) != 0;
    const bool emulated = (info.emulated_features & feature.bit) != 0;
    EXPECT_FALSE(native && emulated) << feature.name;
    EXPECT_EQ(feature.state, native     ? BPA_FEATURE_NATIVE
                             : emulated ? BPA_FEATURE_EMULATED
                                        : BPA_FEATURE_ABSENT)
        << feature.name;
  }
  EXPECT_EQ(features[0].name, "async");
  EXPECT_NE(features[0].state, BPA_FEATURE_ABSENT);
  EXPECT_EQ(features[5].name, "native_streams");
  EXPECT_NE(features[5].state, BPA_FEATURE_EMULATED);
  // Known of these three: only xpu has a vendor's queues.
  const std::map<std::string, uint32_t> known = {
      {"cpu:0", BPA_FEATURE_ABSENT}, {"npu:0", BPA_FEATURE_ABSENT}, {"xpu:0", BPA_FEATURE_NATIVE}};
  const auto at = known.find(GetParam());
  if (at != known.end()) {
    EXPECT_EQ(features[5].state, at->second);
  }
  EXPECT_GT(info.alignment_bytes, 0u);
}

struct Lines {
  std::vector<std::string> lines;
  static void add(void* user, uint32_t level, const char* line, uint64_t bytes) {
    static_cast<Lines*>(user)->lines.push_back(std::to_string(level) + std::string(line, bytes));
  }
};

TEST_P(SessionApiTest, Log_LevelAndSink) {
  Lines lines;
  bpa_log_set_sink(Lines::add, &lines);
  const auto stale_release = [&] {
    bpa_cancel* cancel = nullptr;
    EXPECT_EQ(bpa_cancel_create(&cancel), BP_OK);
    bpa_cancel_release(cancel);
    bpa_cancel_release(cancel);
  };
  set_log_level(0);
  stale_release();
  EXPECT_TRUE(lines.lines.empty());
  set_log_level(2);
  stale_release();
  open({{"BACKPLANE_LOG", "debug"}});  // weaker than what the application said
  bpa_log_set_sink(nullptr, nullptr);
  ASSERT_EQ(lines.lines.size(), 1u) << lines.lines.back();
  EXPECT_EQ(lines.lines[0].substr(0, 19), "1bpa_cancel_release");
}

INSTANTIATE_TEST_SUITE_P(Devices, SessionApiTest, testing::ValuesIn(tests::device_names()),
                         device_name_of);

}  // namespace
}  // namespace bp
