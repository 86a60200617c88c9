// SPDX-License-Identifier: Apache-2.0
//
// Runs with bound outputs, with a deadline or a token, and asynchronous ones.
#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <thread>

#include "tests/api/api_fixture.hpp"

namespace bp {
namespace {

class RunTest : public ApiTest {
 protected:
  static std::vector<float> ramp(size_t count) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i) - 40.0f;
    return values;
  }
  static std::vector<float> positive(std::vector<float> values) {
    for (float& value : values) value = std::max(value, 0.0f);
    return values;
  }
  /// A plugin that is new in the tree may have few.
  bool has_relu_and_add() const {
    const Tensor x = Tensor::from_host<float>(device_, {1}, {1});
    add(relu(x), x);
    return device_.info().fallback_count == 0;
  }
  /// On the device, or on the host where the device has no kernel.
  uint64_t launches() {
    const Device host = runtime_->device("cpu:0");
    return device_.info().launch_count + (GetParam() == "cpu:0" ? 0 : host.info().launch_count);
  }
  uint64_t output_copies() const { return device_.info().output_copy_count; }
  /// chain.onnx adds x to itself: y = (kChainNodes + 1) x.
  Tensor chain_input() { return make(std::vector<float>(20'000, 1.0f), {20'000}); }
  static void expect_chain(const NamedTensors& outputs) {
    EXPECT_EQ(outputs.at("y").to_vector<float>(), std::vector<float>(20'000, kChainNodes + 1.0f));
  }
};

TEST_P(RunTest, Bound_OnTheDevice_IsWrittenInPlace) {
  const Session session = load("two");
  const Tensor a = Tensor::create(device_, BP_DTYPE_F32, {2, 64});
  const Tensor b = Tensor::create(device_, BP_DTYPE_F32, {2, 64});
  const std::vector<float> x = ramp(128);
  const uint64_t before = output_copies();
  const NamedTensors outputs =
      session.run({{"x", make(x, {2, 64})}}, {.outputs = {{"a", a}, {"b", b}}});
  EXPECT_EQ(outputs.at("a").handle(), a.handle());
  EXPECT_EQ(a.to_vector<float>(), positive(x));
  const std::vector<float> sum = b.to_vector<float>();
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(sum[i], std::max(x[i], 0.0f) + x[i]);
  if (!has_relu_and_add()) return;  // the host's results are copied
  EXPECT_EQ(output_copies(), before) << "the plan could have written straight into them";
}

TEST_P(RunTest, Bound_OneOfTwo_TheOtherIsAllocated) {
  const Session session = load("two");
  const Tensor b = Tensor::create(device_, BP_DTYPE_F32, {1, 64});
  const std::vector<float> x = ramp(64);
  const NamedTensors outputs = session.run({{"x", make(x, {1, 64})}}, {.outputs = {{"b", b}}});
  EXPECT_NE(outputs.at("a").handle(), nullptr);
  EXPECT_EQ(outputs.at("a").to_vector<float>(), positive(x));
  EXPECT_EQ(outputs.at("b").handle(), b.handle());
}

TEST_P(RunTest, Bound_InHostMemory_IsACountedCopy) {
  const Session session = load("two");
  std::vector<float> room(64);
  const Tensor a = Tensor::wrap_host(Device(), room, {1, 64});
  const std::vector<float> x = ramp(64);
  const uint64_t before = output_copies();
  session.run({{"x", make(x, {1, 64})}}, {.outputs = {{"a", a}}});
  EXPECT_EQ(room, positive(x));
  EXPECT_EQ(output_copies(), before + 1);
}

TEST_P(RunTest, Bound_Unaligned_IsACountedCopy) {
  const Session session = load("two");
  const Tensor base = make(std::vector<float>(65), {65});
  const bpa_tensor_info info = base.info();
  const int64_t sizes[] = {1, 64};
  bpa_wrap_args args{};
  args.memory = {info.memory.handle, info.memory.offset_bytes + sizeof(float)};
  args.bytes = info.memory.offset_bytes + info.bytes;
  args.dtype = BP_DTYPE_F32;
  args.rank = 2;
  args.sizes = sizes;
  const Tensor a = Tensor::wrap(device_, args);
  const std::vector<float> x = ramp(64);
  const uint64_t before = output_copies();
  session.run({{"x", make(x, {1, 64})}}, {.outputs = {{"a", a}}});
  EXPECT_EQ(a.to_vector<float>(), positive(x));
  EXPECT_EQ(output_copies(), before + 1);
}

TEST_P(RunTest, Bound_ToTheInput_IsWrittenAfterTheLastRead) {
  const Session session = load("two");
  const std::vector<float> values = ramp(64);
  const Tensor x = make(values, {1, 64});
  const NamedTensors outputs = session.run({{"x", x}}, {.outputs = {{"a", x}}});
  EXPECT_EQ(x.to_vector<float>(), positive(values));
  const std::vector<float> sum = outputs.at("b").to_vector<float>();
  for (size_t i = 0; i < sum.size(); ++i) {
    EXPECT_EQ(sum[i], std::max(values[i], 0.0f) + values[i]);
  }
}

TEST_P(RunTest, Bound_Wrong_IsRefusedByName) {
  const Session session = load("two");
  const NamedTensors x = {{"x", make(ramp(64), {1, 64})}};
  const auto words_for = [&](const NamedTensors& outputs) {
    std::string words;
    EXPECT_EQ(status_of([&] { session.run(x, {.outputs = outputs}); }, &words),
              BP_INVALID_ARGUMENT);
    return words;
  };
  EXPECT_NE(words_for({{"a", Tensor::create(device_, BP_DTYPE_F32, {2, 64})}}).find("output 'a'"),
            std::string::npos);
  EXPECT_NE(words_for({{"b", Tensor::create(device_, BP_DTYPE_I32, {1, 64})}}).find("output 'b'"),
            std::string::npos);
  const Tensor both = Tensor::create(device_, BP_DTYPE_F32, {1, 64});
  EXPECT_NE(words_for({{"a", both}, {"b", both}}).find("bound"), std::string::npos);
  const Tensor view = reshape(both, {1, 64});
  EXPECT_NE(words_for({{"a", both}, {"b", view}}).find("same memory"), std::string::npos);
  EXPECT_NE(words_for({{"c", both}}).find("'c'"), std::string::npos);
  EXPECT_NE(words_for({{"a", Tensor()}}).find("empty Tensor is bound to output 'a'"),
            std::string::npos);
  EXPECT_EQ(session.run(x).size(), 2u);
}

TEST_P(RunTest, Cancelled_BeforeTheRun) {
  const Session session = load("relu");
  const NamedTensors x = {{"x", make({1, -2, 3, -4}, {2, 2})}};
  const Cancel cancel = Cancel::create();
  EXPECT_EQ(session.run(x, {.cancel = cancel}).size(), 1u);
  cancel.request();
  EXPECT_EQ(status_of([&] { session.run(x, {.cancel = cancel}); }), BP_CANCELLED);
  EXPECT_EQ(session.run(x).at("y").to_vector<float>(), (std::vector<float>{1, 0, 3, 0}));
}

TEST_P(RunTest, Cancelled_OnTheWay_TheSessionGoesOn) {
  const Session session = load("chain");
  const NamedTensors x = {{"x", chain_input()}};
  expect_chain(session.run(x));
  // A run may be over before the request comes; then the next one is tried.
  bpa_status status = BP_OK;
  for (int attempt = 0; attempt < 100 && status == BP_OK; ++attempt) {
    const Cancel cancel = Cancel::create();
    const uint64_t before = launches();
    std::atomic<bool> over{false};
    std::thread canceller([&] {
      while (!over && launches() < before + 10) std::this_thread::yield();
      cancel.request();
    });
    status = status_of([&] { session.run(x, {.cancel = cancel}); });
    over = true;
    canceller.join();
  }
  EXPECT_EQ(status, BP_CANCELLED);
  expect_chain(session.run(x));
}

TEST_P(RunTest, Timeout_Passes_TheSessionGoesOn) {
  const Session session = load("chain");
  const NamedTensors x = {{"x", chain_input()}};
  EXPECT_EQ(status_of([&] { session.run(x, {.timeout = std::chrono::nanoseconds(1)}); }),
            BP_TIMEOUT);
  expect_chain(session.run(x, {.timeout = kTestDeadline}));
  expect_chain(session.run(x));
}

TEST_P(RunTest, Async_GivesOutputsThatAreDone) {
  const Session session = load("two");
  std::vector<std::future<NamedTensors>> futures;
  for (int64_t n = 1; n <= 8; ++n) {
    const std::vector<float> x = ramp(static_cast<size_t>(n) * 64);
    futures.push_back(session.run_async({{"x", make(x, {n, 64})}}));
  }
  for (size_t i = 0; i < futures.size(); ++i) {
    ASSERT_EQ(futures[i].wait_for(kTestDeadline), std::future_status::ready);
    EXPECT_EQ(futures[i].get().at("a").to_vector<float>(), positive(ramp((i + 1) * 64)));
  }
}

TEST_P(RunTest, Async_Fails_TheCallbackGetsTheWords) {
  const Session session = load("relu");
  auto future = session.run_async({{"x", make({1, 2, 3}, {3})}});
  ASSERT_EQ(future.wait_for(kTestDeadline), std::future_status::ready);
  std::string words;
  EXPECT_EQ(status_of([&] { future.get(); }, &words), BP_INVALID_ARGUMENT);
  EXPECT_NE(words.find("input 'x'"), std::string::npos) << words;
}

TEST_P(RunTest, Async_DataFault_TheFutureThrowsItAndTheNextOneIsWell) {
  const Session session = load("lookup");
  const Tensor x = make({1, -2, 3, -4}, {4});
  const auto index = [&](int64_t second) {
    return Tensor::from_host<int64_t>(device_, std::vector<int64_t>{2, second}, {2});
  };
  auto faulty = session.run_async({{"x", x}, {"index", index(99)}});
  auto well = session.run_async({{"x", x}, {"index", index(1)}});
  ASSERT_EQ(faulty.wait_for(kTestDeadline), std::future_status::ready);
  ASSERT_EQ(well.wait_for(kTestDeadline), std::future_status::ready);
  std::string words;
  // Where the fault is not known when the run ends, it travels with the output to its reader.
  const bpa_status told = status_of([&] { faulty.get().at("y").to_vector<float>(); }, &words);
  EXPECT_EQ(told, BP_INVALID_ARGUMENT);
  for (const char* word : {"gather", "index 99", "extent 4"}) {
    EXPECT_NE(words.find(word), std::string::npos) << words;
  }
  EXPECT_EQ(well.get().at("y").to_vector<float>(), (std::vector<float>{3, 0}));
}

TEST_P(RunTest, Async_EverythingReleasedAtOnce_StillRuns) {
  std::future<NamedTensors> future;
  {
    Session session = load("chain");
    const Tensor bound = Tensor::create(device_, BP_DTYPE_F32, {20'000});
    future = session.run_async({{"x", chain_input()}}, {.outputs = {{"y", bound}}});
  }
  runtime_.reset();
  ASSERT_EQ(future.wait_for(kTestDeadline), std::future_status::ready);
  expect_chain(future.get());
}

TEST_P(RunTest, Async_BoundByTwoRuns_TheSecondIsBusy) {
  const Session session = load("relu");
  const NamedTensors x = {{"x", make({1, -2, 3, -4}, {2, 2})}};
  const RunOptions options{.outputs = {{"y", Tensor::create(device_, BP_DTYPE_F32, {2, 2})}}};
  // While the pool's threads are held, the run with the bound tensor is in progress for sure.
  std::promise<void> go;
  auto released = go.get_future().share();
  const auto hold = [released](std::exception_ptr, const NamedTensors&) { released.wait(); };
  for (int i = 0; i < 2; ++i) session.run_async(x, {}, hold);
  auto first = session.run_async(x, options);
  std::string words;
  EXPECT_EQ(status_of([&] { session.run(x, options); }, &words), BP_BUSY);
  EXPECT_NE(words.find("args.bound_outputs[0]"), std::string::npos) << words;
  go.set_value();
  ASSERT_EQ(first.wait_for(kTestDeadline), std::future_status::ready);
  EXPECT_EQ(first.get().at("y").to_vector<float>(), (std::vector<float>{1, 0, 3, 0}));
  EXPECT_EQ(session.run(x, options).size(), 1u);
}

TEST_P(RunTest, Close_EndsRunsThatHaveNotBegun) {
  open({{"BACKPLANE_FALLBACK", "allow"}, {"BACKPLANE_WORKERS", "1"}});
  const Session session = load("relu");
  const NamedTensors x = {{"x", make({1, -2, 3, -4}, {2, 2})}};
  std::promise<void> begun;
  std::promise<void> go;
  std::atomic<int> cancelled{0};
  std::atomic<bool> close_refused{false};
  session.run_async(x, {}, [&](std::exception_ptr, const NamedTensors&) {
    close_refused = status_of([&] { runtime_->close(); }) == BP_BUSY;
    begun.set_value();
    go.get_future().wait();
  });
  ASSERT_EQ(begun.get_future().wait_for(kTestDeadline), std::future_status::ready);
  for (int i = 0; i < 3; ++i) {
    session.run_async(x, {}, [&](std::exception_ptr error, const NamedTensors&) {
      const auto rethrow = [&] { std::rethrow_exception(error); };
      if (error && status_of(rethrow) == BP_CANCELLED && ++cancelled == 3) go.set_value();
    });
  }
  runtime_->close();
  EXPECT_TRUE(close_refused);
  EXPECT_EQ(cancelled, 3);
  EXPECT_EQ(status_of([&] { session.run_async(x); }), BP_GONE);
  EXPECT_EQ(status_of([&] { session.run(x); }), BP_GONE);
}

TEST_P(RunTest, Close_StopsARunInProgress) {
  // Several times, for a run that a worker takes just before the close, one in it and one after.
  for (int round = 0; round < 8; ++round) {
    open({{"BACKPLANE_FALLBACK", "allow"}, {"BACKPLANE_WORKERS", "1"}});
    const Session session = load("chain");
    auto future = session.run_async({{"x", chain_input()}});
    runtime_->close();
    // Over or stopped, but not in progress any more.
    ASSERT_EQ(future.wait_for(std::chrono::seconds(0)), std::future_status::ready);
    std::string words;
    const bpa_status status = status_of([&] { future.get(); }, &words);
    EXPECT_TRUE(status == BP_OK || status == BP_CANCELLED) << bpa_status_name(status) << words;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, RunTest, testing::ValuesIn(tests::device_names()),
                         device_name_of);

}  // namespace
}  // namespace bp
