// SPDX-License-Identifier: Apache-2.0
//
// The three kinds of failure, on every device that can have them: a data fault reaches whoever uses
// what it concerns, once; a stream's failure stays until reset; a lost device answers at once. Each
// leaves everybody else alone.
#include "core/runtime/copy_args.hpp"
#include "core/runtime/stream.hpp"
#include "tests/integration/device_fixture.hpp"

namespace bp {
namespace {

class DataFaultTest : public DeviceTest {
 protected:
  Ref<Tensor> indices(std::vector<int64_t> values) {
    const Dims sizes{static_cast<int64_t>(values.size())};
    return upload(OracleTensor::from_i64(BP_DTYPE_I64, sizes, values));
  }
  Status read(const Ref<Tensor>& tensor) { return copy_to_host(tensor).status(); }
  /// y = relu(gather(x, i)), of f32 [4] and i64 [2].
  Ref<Session> gather_relu() {
    Graph graph(runtime_->registry());
    auto x = graph.add_input("x", {BP_DTYPE_F32, true, {4}});
    auto i = graph.add_input("i", {BP_DTYPE_I64, true, {2}});
    EXPECT_TRUE(x.ok() && i.ok());
    const ValueId both[] = {*x, *i};
    auto picked = graph.op("gather", both);
    EXPECT_TRUE(picked.ok()) << picked.status().to_string();
    const ValueId only[] = {*picked};
    auto y = graph.op("relu", only);
    EXPECT_TRUE(y.ok() && graph.set_outputs({*y}, {"y"}).ok());
    auto session = Session::create(*runtime_, std::move(graph), {.device = device_, .dims = {}});
    EXPECT_TRUE(session.ok()) << session.status().to_string();
    return session.ok() ? *session : nullptr;
  }
};

TEST_P(DataFaultTest, Gather_OutOfRange_ConcernsItsResultsOnly) {
  const Ref<Tensor> x = upload_f32({4}, {10, 11, 12, 13});
  const auto bad = try_call("gather", {x, indices({1, 9})});
  const Ref<Tensor> good = must_call("gather", {x, indices({3, 0})});
  if (!bad.ok()) {  // the device knows before the launch returns
    EXPECT_EQ(bad.status().code(), BP_INVALID_ARGUMENT);
    EXPECT_EQ(bad.status().op(), "gather");
  } else {
    const Ref<Tensor> derived = must_call("add", {*bad, good});
    EXPECT_EQ(values(good), (std::vector<double>{13, 10})) << "a wait by somebody else";
    const Status status = read(derived);
    EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT) << status.to_string();
    expect_words(status, {"gather", "index 9", "input 1", "extent 4"});
    EXPECT_EQ(status.op(), "gather");
    EXPECT_TRUE(read(*bad).ok()) << "a fault is reported once";
  }
  EXPECT_TRUE(device_->sync().ok());
  EXPECT_EQ(values(must_call("relu", {x})), (std::vector<double>{10, 11, 12, 13}));
}

TEST_P(DataFaultTest, Gather_OutOfRangeBetweenTwoOthers_IsToldToItsOwnReader) {
  const Ref<Tensor> x = upload_f32({4}, {10, 11, 12, 13});
  const Ref<Tensor> before = must_call("gather", {x, indices({0, 1})});
  const auto bad = try_call("gather", {x, indices({1, 9})});
  const Ref<Tensor> after = must_call("gather", {x, indices({2, 3})});
  const Ref<Tensor> sum = must_call("add", {before, after});
  EXPECT_EQ(values(sum), (std::vector<double>{22, 24}));
  const Status status = bad.ok() ? read(*bad) : bad.status();
  EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT) << status.to_string();
  expect_words(status, {"gather", "index 9"});
}

TEST_P(DataFaultTest, Sync_OfTheDevice_ReportsAFaultThatNobodyRead) {
  const Ref<Tensor> x = upload_f32({3}, {1, 2, 3});
  const auto y = try_call("gather", {x, indices({-4})});
  const Status status = y.ok() ? device_->sync() : y.status();
  EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT) << status.to_string();
  expect_words(status, {"gather", "index -4", "extent 3"});
  EXPECT_TRUE(device_->sync().ok());
}

TEST_P(DataFaultTest, MoreFaultsThanWords_AreAllTold) {
  const Ref<Tensor> x = upload_f32({2}, {1, 2});
  constexpr int kCalls = 200;
  std::vector<Result<Ref<Tensor>>> results;
  for (int i = 0; i < kCalls; ++i) {
    results.push_back(try_call("gather", {x, indices({i % 2 == 0 ? 1 : 2 + i})}));
  }
  for (int i = 0; i < kCalls; ++i) {
    const auto& result = results[static_cast<size_t>(i)];
    const Status status = result.ok() ? read(*result) : result.status();
    if (i % 2 == 0) {
      EXPECT_TRUE(status.ok()) << i << ": " << status.to_string();
    } else {
      EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT) << i;
      expect_words(status, {("index " + std::to_string(2 + i)).c_str()});
    }
  }
}

TEST_P(DataFaultTest, ReaderOfTwoFaults_OnlyTheOneThatItIsToldOfIsTold) {
  const Ref<Tensor> x = upload_f32({4}, {10, 11, 12, 13});
  const Ref<Tensor> first = indices({9});
  const Ref<Tensor> second = indices({8});
  const auto a = try_call("gather", {x, first});
  must_call("relu", {x});  // so that no range covers both
  const auto b = try_call("gather", {x, second});
  if (!a.ok() || !b.ok()) {  // the device knows before the launch returns
    EXPECT_EQ(a.status().code(), BP_INVALID_ARGUMENT);
    EXPECT_EQ(b.status().code(), BP_INVALID_ARGUMENT);
    return;
  }
  expect_words(read(must_call("add", {*a, *b})), {"gather", "index 9"});
  expect_words(read(*b), {"gather", "index 8"});
}

TEST_P(DataFaultTest, SumOfManyLookups_IsNotAccusedOfFaultsBetweenThem) {
  const Ref<Tensor> x = upload_f32({4}, {1, 2, 3, 4});
  const Ref<Tensor> good = indices({0});
  const Ref<Tensor> bad = indices({9});
  Ref<Tensor> sum = must_call("gather", {x, good});
  std::vector<Result<Ref<Tensor>>> others;
  constexpr int kCalls = 25;
  for (int i = 0; i < kCalls; ++i) {
    others.push_back(try_call("gather", {x, bad}));
    sum = must_call("add", {sum, must_call("gather", {x, good})});
  }
  EXPECT_EQ(values(sum), (std::vector<double>{kCalls + 1}));
  for (const auto& other : others) {
    const Status status = other.ok() ? read(*other) : other.status();
    EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT) << status.to_string();
  }
}

TEST_P(DataFaultTest, FaultsThatAreNotAskedAbout_HideNone) {
  const Ref<Tensor> x = upload_f32({2}, {1, 2});
  const Ref<Tensor> bad = indices({7});
  const auto first = try_call("gather", {x, bad});
  for (int i = 0; i < 1100; ++i) {
    [[maybe_unused]] const auto ignored = try_call("gather", {x, bad});
  }
  const Status status = first.ok() ? read(*first) : first.status();
  EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT) << status.to_string();
  expect_words(status, {"gather", "index 7", "extent 2"});
  const Ref<Tensor> good = must_call("gather", {x, indices({1})});
  EXPECT_EQ(values(good), (std::vector<double>{2}));
  for (int i = 0; i < 2000 && !device_->sync().ok(); ++i) continue;
  EXPECT_TRUE(device_->sync().ok());
}

TEST_P(DataFaultTest, Contents_WrittenAnew_HaveNoOldFault) {
  const Ref<Tensor> x = upload_f32({4}, {10, 11, 12, 13});
  const auto bad = try_call("gather", {x, indices({1, 9})});
  if (!bad.ok()) return;  // it has no contents
  const Ref<Tensor> good = must_call("gather", {x, indices({3, 0})});
  ASSERT_TRUE(copy_into(good, *bad, true, device_->default_stream()).ok());
  EXPECT_EQ(values(*bad), (std::vector<double>{13, 10}));

  const auto again = try_call("gather", {x, indices({1, 9})});
  ASSERT_TRUE(again.ok());
  const Ref<Tensor> host = Tensor::wrap_host(*copy_to_host(good));
  ASSERT_TRUE(copy_into(host, *again, true, device_->default_stream()).ok());
  EXPECT_EQ(values(*again), (std::vector<double>{13, 10}));
  EXPECT_FALSE(device_->sync().ok()) << "the device's user is told all the same";
  EXPECT_FALSE(device_->sync().ok());
  EXPECT_TRUE(device_->sync().ok());
}

TEST_P(DataFaultTest, BoundOutput_OfAHealthyRun_HasNoOldFault) {
  const Ref<Session> s = gather_relu();
  ASSERT_TRUE(s);
  const Ref<Tensor> bound[] = {upload_f32({2}, {0, 0})};
  const auto run = [&](std::vector<int64_t> index) {
    const std::vector<NamedTensor> inputs{{"x", upload_f32({4}, {1, -2, 3, -4})},
                                          {"i", indices(std::move(index))}};
    return s->run(inputs, {.outputs = bound}).status();
  };
  const Status first = run({0, 7});
  EXPECT_TRUE(first.ok() || first.code() == BP_INVALID_ARGUMENT) << first.to_string();
  ASSERT_TRUE(run({2, 0}).ok());
  EXPECT_EQ(values(bound[0]), (std::vector<double>{3, 1}));
}

TEST_P(DataFaultTest, Stream_GivenToAnotherUser_LeavesFaultsToTheirReaders) {
  if (device_->is_inline()) return;  // sessions have no streams of their own there
  if (!offers("gather")) return;     // the host tells of the fault in the run itself
  Ref<Tensor> y;
  {
    const Ref<Session> s = gather_relu();
    ASSERT_TRUE(s);
    const std::vector<NamedTensor> inputs{{"x", upload_f32({4}, {1, 2, 3, 4})},
                                          {"i", indices({0, 7})}};
    auto outputs = s->run(inputs);
    ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
    y = (*outputs)[0];
  }
  std::vector<Stream*> streams;
  for (int i = 0; i < 3; ++i) {
    auto stream = device_->acquire_stream();
    ASSERT_TRUE(stream.ok());
    EXPECT_TRUE((*stream)->sync_and_claim_own().ok()) << "it was another user's work";
    streams.push_back(*stream);
  }
  expect_words(read(y), {"gather", "index 7"});
  for (Stream* stream : streams) device_->release_stream(stream);
}

TEST_P(DataFaultTest, Session_OutOfRangeInside_IsToldByItsOutputsAndTheSessionGoesOn) {
  const Ref<Session> session = gather_relu();
  ASSERT_TRUE(session);
  const auto run = [&](std::vector<int64_t> index) -> Result<std::vector<double>> {
    const std::vector<NamedTensor> inputs{{"x", upload_f32({4}, {1, -2, 3, -4})},
                                          {"i", indices(std::move(index))}};
    BP_TRY_ASSIGN(std::vector<Ref<Tensor>> outputs, session->run(inputs));
    BP_TRY_ASSIGN(HostTensor host, copy_to_host(outputs[0]));
    return oracle_tensor(host).to_f64();
  };
  const auto bad = run({0, 7});
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.status().code(), BP_INVALID_ARGUMENT);
  expect_words(bad.status(), {"gather", "index 7", "extent 4"});
  const auto good = run({2, 1});
  ASSERT_TRUE(good.ok()) << good.status().to_string();
  EXPECT_EQ(*good, (std::vector<double>{3, 0}));
}

INSTANTIATE_TEST_SUITE_P(Devices, DataFaultTest, testing::ValuesIn(tests::device_names()),
                         device_test_name);

/// The nine-function fake, whose relu fails as its option says; add works.
class BrokenDeviceTest : public DeviceTest {
 protected:
  void SetUp() override {}
  void open_with(const std::string& fault, std::vector<OptionSetting> options = {}) {
    RuntimeArgs args = test_runtime_args();
    args.plugin_path = {BP_FAKES_DIR "/good"};
    args.plugin_options = {{"good.device_fault", fault}};
    for (OptionSetting& option : options) args.options.push_back(std::move(option));
    open(args);
  }
  /// There before anything fails: what is still in a queue then is lost with it.
  Ref<Tensor> upload_f32(const Dims& sizes, const std::vector<double>& values) {
    Ref<Tensor> tensor = DeviceTest::upload_f32(sizes, values);
    EXPECT_TRUE(device_->sync().ok());
    return tensor;
  }
};

// The worker of the stream comes upon it, when the call that is to blame has long returned.
TEST_P(BrokenDeviceTest, WorkFailsLater_TheWaitNamesTheCallThatFailed) {
  open_with("relu_is_new");
  const Ref<Tensor> x = upload_f32({2}, {-1, 2});
  ASSERT_TRUE(try_call("relu", {x}).ok());
  Stream& stream = device_->default_stream();
  EXPECT_EQ(stream.sync().message(),
            "good:0: launch of kernel relu_plain (operator relu) failed: the unit sulks "
            "(INTERNAL, status 4711)");
  ASSERT_TRUE(stream.reset().ok());
  double there = 0;
  ASSERT_TRUE(
      stream.enqueue_copy(copy_args(BP_COPY_DEVICE_TO_HOST, host_end(&there), {999, 0}, 8)).ok());
  EXPECT_EQ(stream.sync().message(),
            "good:0: mem_copy failed: mem_copy outside the device's memory (INVALID_ARGUMENT, "
            "status 1)");
  ASSERT_TRUE(stream.reset().ok());
}

TEST_P(BrokenDeviceTest, Stream_Failed_IsPoisonedUntilReset) {
  open_with("relu_fails");
  const Ref<Tensor> x = upload_f32({2}, {-1, 2});
  const auto broken = try_call("relu", {x});
  ASSERT_TRUE(broken.ok()) << "emulated streams fail later: " << broken.status().to_string();
  const Status first = copy_to_host(*broken).status();
  EXPECT_EQ(first.code(), BP_INTERNAL);
  expect_words(first, {"good:0", "relu", "the unit overheated"});
  EXPECT_EQ(copy_to_host(*broken).status().message(), first.message()) << "it repeats the first";

  const auto refused = try_call("add", {x, x});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), BP_POISONED);
  expect_words(refused.status(), {"add", "relu"});
  EXPECT_EQ(values(x), (std::vector<double>{-1, 2})) << "results from before can be read";

  Stream& stream = device_->default_stream();
  EXPECT_EQ(stream.query().code(), BP_INTERNAL);
  ASSERT_TRUE(stream.reset().ok());
  EXPECT_TRUE(stream.query().ok());
  EXPECT_EQ(values(must_call("add", {x, x})), (std::vector<double>{-2, 4}));
  EXPECT_EQ(copy_to_host(*broken).status().message(), first.message()) << "lost for good";
  EXPECT_FALSE(try_call("add", {*broken, x}).ok()) << "nothing is made from lost contents";
  EXPECT_FALSE((*broken)->storage().order_before(stream, Access::kWrite).ok())
      << "a part of them would stay lost";
  EXPECT_EQ(values(must_call("add", {x, x})), (std::vector<double>{-2, 4}));
}

TEST_P(BrokenDeviceTest, Contents_Lost_AreMissedByNobodyOnceAllIsOverwritten) {
  open_with("relu_fails");
  const Ref<Tensor> x = upload_f32({2}, {-1, 2});
  const Ref<Tensor> host = Tensor::wrap_host(*copy_to_host(x));
  const Ref<Tensor> target = must_call("relu", {x});
  Stream& stream = device_->default_stream();
  ASSERT_FALSE(stream.sync().ok());
  ASSERT_TRUE(stream.reset().ok());
  const Ref<Tensor> part = target->view({1}, {1}, 1);
  const Ref<Tensor> one = upload_f32({1}, {7});
  EXPECT_FALSE(copy_into(one, part, false, stream).ok()) << "the rest would stay lost";
  ASSERT_TRUE(copy_into(host, target, false, stream).ok());
  EXPECT_EQ(values(target), (std::vector<double>{-1, 2}));
  ASSERT_TRUE(copy_into(one, part, false, stream).ok());
  EXPECT_EQ(values(must_call("add", {target, target})), (std::vector<double>{-2, 14}));
}

TEST_P(BrokenDeviceTest, Stream_FailedInAReader_WhatItReadIsNotLost) {
  open_with("relu_fails");
  const Ref<Tensor> x = upload_f32({2}, {-1, 2});
  const Ref<Tensor> sum = must_call("add", {x, x});
  EXPECT_EQ(values(sum), (std::vector<double>{-2, 4}));
  const Ref<Tensor> broken = must_call("relu", {sum});
  EXPECT_FALSE(copy_to_host(broken).ok());
  ASSERT_TRUE(device_->default_stream().reset().ok());
  EXPECT_EQ(values(sum), (std::vector<double>{-2, 4})) << "no failed work was to write it";
  EXPECT_FALSE(copy_to_host(broken).ok());
}

TEST_P(BrokenDeviceTest, Stream_FailedOfTheUser_LeavesTheDefaultOneAlone) {
  open_with("relu_fails");
  auto stream = device_->acquire_stream();
  ASSERT_TRUE(stream.ok());
  const Ref<Tensor> x = upload_f32({2}, {-1, 2});
  Tensor* inputs[] = {x.get()};
  Ref<Tensor> y;
  const CallArgs args{.op = op("relu"),
                      .inputs = inputs,
                      .attributes = nullptr,
                      .stream = *stream,
                      .device = nullptr};
  ASSERT_TRUE(call(*runtime_, args, {&y, 1}).ok());
  EXPECT_FALSE((*stream)->sync().ok());
  EXPECT_FALSE(copy_to_host(y).ok());
  EXPECT_EQ(values(must_call("add", {x, x})), (std::vector<double>{-2, 4}));
  device_->release_stream(*stream);
  auto again = device_->acquire_stream();
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE((*again)->sync().ok()) << "what is given out is healthy";
  EXPECT_FALSE(copy_to_host(y).ok()) << "lost contents stay lost";
  device_->release_stream(*again);
}

TEST_P(BrokenDeviceTest, SyncLaunches_TheFailingCallItselfSaysSo) {
  open_with("relu_fails", {{"BACKPLANE_SYNC", "1"}});
  const auto y = try_call("relu", {upload_f32({1}, {1})});
  ASSERT_FALSE(y.ok());
  expect_words(y.status(), {"relu", "the unit overheated"});
}

TEST_P(BrokenDeviceTest, Device_Lost_AnswersAtOnceAndOthersGoOn) {
  open_with("relu_loses");
  const Ref<Tensor> x = upload_f32({2}, {-1, 2});
  const auto y = try_call("relu", {x});
  const Status status = y.ok() ? copy_to_host(*y).status() : y.status();
  EXPECT_EQ(status.code(), BP_DEVICE_LOST) << status.to_string();
  EXPECT_EQ(try_call("add", {x, x}).status().code(), BP_DEVICE_LOST);
  EXPECT_EQ(copy_to_host(x).status().code(), BP_DEVICE_LOST);
  EXPECT_EQ(device_->sync().code(), BP_DEVICE_LOST);
  EXPECT_EQ(device_->acquire_stream().status().code(), BP_DEVICE_LOST);
  auto other = runtime_->find_device("cpu:0");
  ASSERT_TRUE(other.ok());
  device_ = *other;
  const Ref<Tensor> z = upload_f32({2}, {-1, 2});
  EXPECT_EQ(values(must_call("relu", {z})), (std::vector<double>{0, 2}));
}

INSTANTIATE_TEST_SUITE_P(Devices, BrokenDeviceTest, testing::Values("good:0"), device_test_name);

}  // namespace
}  // namespace bp
