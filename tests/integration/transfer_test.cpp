// SPDX-License-Identifier: Apache-2.0
//
// Copies that are queued through staging memory: how often the host waits, that sources are the
// caller's again at once, that the memory is bounded, and what happens where there is none.
#include <cstring>
#include <functional>
#include <map>

#include "core/dispatch/dispatcher.hpp"
#include "core/runtime/stream.hpp"
#include "tests/integration/device_fixture.hpp"
#include "tests/integration/stream_gate.hpp"

namespace bp {
namespace {

/// The device's slots, for tests that stand in for one of them. Before its first call.
DeviceTable& slots_of(Device& device) { return const_cast<DeviceTable&>(device.table()); }

/// Stand-ins of one test at a time, and what was there before.
struct StandIn {
  decltype(bp_memory_api::host_alloc) host_alloc = nullptr;
  decltype(bp_stream_api::mem_copy_async) copy = nullptr;
  int allocations = 0;
  int refusals_left = 0;
  std::vector<uint64_t> copied_bytes;
};
StandIn stand_in;

bp_status counted_host_alloc(bp_device* self, const bp_host_alloc_args* args, void** out_ptr) {
  ++stand_in.allocations;
  if (stand_in.refusals_left > 0) {
    --stand_in.refusals_left;
    return BP_OUT_OF_MEMORY;
  }
  return stand_in.host_alloc(self, args, out_ptr);
}

bp_status counted_copy(bp_stream* stream, const bp_copy_args* args) {
  stand_in.copied_bytes.push_back(args->bytes);
  return stand_in.copy(stream, args);
}

class TransferTest : public testing::TestWithParam<DeviceTarget> {
 protected:
  void SetUp() override { open({}); }

  void open(std::vector<OptionSetting> settings) {
    RuntimeArgs args = test_runtime_args();
    args.plugin_path = {BP_FAKES_DIR "/queues", BP_FAKES_DIR "/good"};
    args.plugin_options = GetParam().options;
    args.options.insert(args.options.end(), settings.begin(), settings.end());
    open_or_skip(args, GetParam().device, &runtime_, &device_);
    if (device_ == nullptr) return;
    watch();
  }

  void watch() {
    DeviceTable& slots = slots_of(*device_);
    stand_in = {};
    auto& host_alloc = slots.emulated_memory.host_alloc != nullptr
                           ? slots.emulated_memory.host_alloc
                           : slots.memory.host_alloc;
    auto& copy = slots.emulated_stream.mem_copy_async != nullptr
                     ? slots.emulated_stream.mem_copy_async
                     : slots.stream.mem_copy_async;
    stand_in.host_alloc = std::exchange(host_alloc, counted_host_alloc);
    stand_in.copy = std::exchange(copy, counted_copy);
  }

  /// A gate can be held: the fake's queues run inside the core's calls, which it would block.
  bool can_hold() const {
    return device_->table().stream_emulated() ||
           (device_->table().props.flags & BP_DEVICE_CONCURRENT_BIT) != 0;
  }

  bool adds_in_a_queue() {
    static_cast<void>(add_and_read(upload_f32({1})));
    return !device_->is_inline() && device_->counters().fallback_ops == 0;
  }

  uint64_t waits() const { return device_->counters().waits; }
  uint64_t unstaged() const { return device_->counters().unstaged_copies; }

  static Ref<Tensor> on_host(uint32_t dtype, const Dims& sizes, const void* data, uint64_t bytes) {
    return Tensor::wrap_host(
        {.dtype = dtype, .sizes = sizes, .data = data, .bytes = bytes, .owner = nullptr});
  }
  Result<Ref<Tensor>> try_upload(const std::vector<uint8_t>& bytes, Stream& stream) {
    const Dims sizes{static_cast<int64_t>(bytes.size())};
    return copy_to_device(on_host(BP_DTYPE_U8, sizes, bytes.data(), bytes.size()), *device_, stream,
                          MemoryTag::kIo);
  }
  Ref<Tensor> upload(const std::vector<uint8_t>& bytes, Stream& stream) {
    auto tensor = try_upload(bytes, stream);
    EXPECT_TRUE(tensor.ok()) << tensor.status().to_string();
    return tensor.ok() ? *tensor : nullptr;
  }
  Ref<Tensor> upload(const std::vector<uint8_t>& bytes) {
    return upload(bytes, device_->default_stream());
  }
  Ref<Tensor> upload_f32(const std::vector<float>& values) {
    const Dims sizes{static_cast<int64_t>(values.size())};
    auto tensor =
        copy_to_device(on_host(BP_DTYPE_F32, sizes, values.data(), values.size() * sizeof(float)),
                       *device_, device_->default_stream(), MemoryTag::kIo);
    EXPECT_TRUE(tensor.ok()) << tensor.status().to_string();
    return tensor.ok() ? *tensor : nullptr;
  }
  static std::vector<uint8_t> download(const Ref<Tensor>& tensor) {
    auto host = copy_to_host(tensor);
    EXPECT_TRUE(host.ok()) << host.status().to_string();
    if (!host.ok()) return {};
    const auto* first = static_cast<const uint8_t*>(host->data);
    return {first, first + host->bytes};
  }
  static std::vector<uint8_t> pattern(uint64_t bytes, uint32_t seed = 1) {
    std::vector<uint8_t> values(bytes);
    for (uint8_t& value : values) value = static_cast<uint8_t>((seed = seed * 1664525 + 7) >> 24);
    return values;
  }
  /// Uploads that take all chunks, filling_ each.
  std::vector<Ref<Tensor>> fill_chunks(Stream& stream) {
    std::vector<Ref<Tensor>> tensors;
    for (uint64_t bytes = 0; bytes < Staging::kAllBytes; bytes += filling_.size()) {
      tensors.push_back(upload(filling_, stream));
    }
    return tensors;
  }
  const std::vector<uint8_t> filling_ = pattern(Staging::kMostBytes);

  std::vector<float> add_and_read(const Ref<Tensor>& x) {
    Ref<Tensor> y;
    Tensor* const inputs[] = {x.get(), x.get()};
    const CallArgs args{.op = *runtime_->registry().find("add"), .inputs = inputs};
    const Status status = call(*runtime_, args, {&y, 1});
    EXPECT_TRUE(status.ok()) << status.to_string();
    if (!status.ok()) return {};
    std::vector<float> values(static_cast<size_t>(y->element_count()));
    EXPECT_TRUE(copy_to_host(y, values.data(), values.size() * sizeof(float)).ok());
    return values;
  }

  Ref<Runtime> runtime_;
  Device* device_ = nullptr;
};

TEST_P(TransferTest, UploadRunRead_OfACall_IsOneWait) {
  if (!adds_in_a_queue()) GTEST_SKIP() << "nothing to wait for, or waits for the host's copies";
  for (const float first : {1.0F, 2.0F, 3.0F}) {
    const uint64_t before = waits();
    EXPECT_EQ(add_and_read(upload_f32({first, -4})), (std::vector<float>{2 * first, -8}));
    EXPECT_EQ(waits(), before + 1);
  }
  EXPECT_EQ(unstaged(), 0u);
}

TEST_P(TransferTest, UploadRunRead_OfASession_IsOneWait) {
  if (!adds_in_a_queue()) GTEST_SKIP() << "nothing to wait for, or waits for the host's copies";
  Graph graph(runtime_->registry());
  auto x = graph.add_input("x", {BP_DTYPE_F32, true, {3}});
  ASSERT_TRUE(x.ok());
  const ValueId both[] = {*x, *x};
  auto y = graph.op("add", both);
  ASSERT_TRUE(y.ok() && graph.set_outputs({*y}, {"y"}).ok());
  auto session = Session::create(*runtime_, std::move(graph), {.device = device_, .dims = {}});
  ASSERT_TRUE(session.ok()) << session.status().to_string();
  for (const float first : {1.0F, 2.0F, 3.0F}) {
    const std::vector<float> values{first, 5, -6};
    const NamedTensor input{"x", on_host(BP_DTYPE_F32, {3}, values.data(), 12)};
    const uint64_t before = waits();
    auto outputs = (*session)->run({&input, 1});
    ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
    EXPECT_EQ(waits(), before) << "a run waits for nothing";
    std::vector<float> found(3);
    ASSERT_TRUE(copy_to_host((*outputs)[0], found.data(), 12).ok());
    EXPECT_EQ(found, (std::vector<float>{2 * first, 10, -12}));
    EXPECT_EQ(waits(), before + 1);
  }
}

TEST_P(TransferTest, UploadRunRead_OfManyOutputs_IsOneWait) {
  constexpr size_t kOutputs = 4;
  Graph graph(runtime_->registry());
  auto x = graph.add_input("x", {BP_DTYPE_F32, true, {3}});
  ASSERT_TRUE(x.ok());
  std::vector<ValueId> sums{*x};
  for (size_t i = 0; i < kOutputs; ++i) {
    const ValueId both[] = {sums.back(), *x};
    const auto sum = graph.op("add", both);
    ASSERT_TRUE(sum.ok());
    sums.push_back(*sum);
  }
  sums.erase(sums.begin());
  ASSERT_TRUE(graph.set_outputs(sums, {"a", "b", "c", "d"}).ok());
  auto session = Session::create(*runtime_, std::move(graph), {.device = device_, .dims = {}});
  ASSERT_TRUE(session.ok()) << session.status().to_string();
  const std::vector<float> values{1, -2, 3};
  const NamedTensor input{"x", on_host(BP_DTYPE_F32, {3}, values.data(), 12)};
  std::array<std::array<float, 3>, kOutputs> found{};
  std::vector<HostCopy> copies;
  std::vector<Ref<Tensor>> bound;
  for (auto& memory : found) {
    copies.push_back({nullptr, memory.data(), 12});
    bound.push_back(on_host(BP_DTYPE_F32, {3}, memory.data(), 12));
  }
  const auto expect_sums = [&] {
    for (size_t i = 0; i < kOutputs; ++i) {
      const auto times = static_cast<float>(i + 2);
      EXPECT_EQ(found[i], (std::array<float, 3>{times, -2 * times, 3 * times})) << i;
    }
    found = {};
  };
  for (int round = 0; round < 3; ++round) {
    uint64_t before = waits();
    auto outputs = (*session)->run({&input, 1});
    ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
    for (size_t i = 0; i < kOutputs; ++i) copies[i].tensor = (*outputs)[i];
    size_t failed = 0;
    ASSERT_TRUE(copy_to_host(copies, &failed).ok());
    EXPECT_EQ(waits(), before + 1) << "read together";
    expect_sums();
    before = waits();
    outputs = (*session)->run({&input, 1}, {.outputs = bound});
    ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
    EXPECT_EQ(waits(), before + 1) << "bound to host memory";
    expect_sums();
  }
}

TEST_P(TransferTest, LaunchThatMayFault_ItsWordComesWithTheResult) {
  const auto gather = runtime_->registry().find("gather");
  ASSERT_TRUE(gather.has_value());
  const auto pick = [&](int64_t index) -> Result<Ref<Tensor>> {
    const Ref<Tensor> x = upload_f32({10, 11, 12});
    auto i = copy_to_device(on_host(BP_DTYPE_I64, {1}, &index, sizeof(index)), *device_,
                            device_->default_stream(), MemoryTag::kIo);
    BP_TRY(i);
    Ref<Tensor> y;
    Tensor* const inputs[] = {x.get(), i->get()};
    BP_TRY(call(*runtime_, {.op = *gather, .inputs = inputs}, {&y, 1}));
    return y;
  };
  auto first = pick(0);
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  if (device_->counters().fallback_ops > 0) GTEST_SKIP() << "no kernel of its own";
  ASSERT_TRUE(copy_to_host(*first).ok());
  // More than the words are, so that they are used round and round.
  for (int64_t i = 0; i < 100; ++i) {
    const uint64_t before = waits();
    auto y = pick(i % 3);
    ASSERT_TRUE(y.ok()) << y.status().to_string();
    float found = 0;
    ASSERT_TRUE(copy_to_host(*y, &found, sizeof(found)).ok());
    ASSERT_EQ(found, static_cast<float>(10 + i % 3));
    ASSERT_EQ(waits(), before + 1);
    if (i % 10 != 9) continue;
    auto bad = pick(5);
    ASSERT_TRUE(bad.ok()) << bad.status().to_string();
    const Status status = copy_to_host(*bad, &found, sizeof(found));
    ASSERT_EQ(status.code(), BP_INVALID_ARGUMENT) << status.to_string();
    expect_words(status, {"gather", "index 5", "extent 3"});
  }
}

TEST_P(TransferTest, AnySize_GoesThereAndBack_InOneQueuedCopyOrBehindAWait) {
  constexpr uint64_t kChunk = Staging::kChunkBytes;
  constexpr uint64_t kMost = Staging::kMostBytes;
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{63}, uint64_t{65}, kMost - 1,
                               kMost, kMost + 1, kChunk, 3 * kChunk + 5}) {
    const std::vector<uint8_t> sent = pattern(bytes, static_cast<uint32_t>(bytes));
    stand_in.copied_bytes.clear();
    const Ref<Tensor> tensor = upload(sent);
    std::vector<uint64_t> expected;
    if (bytes > 0 && bytes <= kMost) expected = {bytes};
    EXPECT_EQ(stand_in.copied_bytes, expected) << "long copies have no queue";
    EXPECT_EQ(download(tensor), sent) << bytes << " bytes, behind the copy in";
    EXPECT_EQ(download(tensor), sent) << bytes << " bytes, when that is done";
  }
  EXPECT_LE(stand_in.allocations, static_cast<int>(Staging::kChunks));
}

TEST_P(TransferTest, LongCopy_WaitsForTheStreamOnlyWhereThatHasWork) {
  const std::vector<uint8_t> sent = pattern(Staging::kMostBytes + 1);
  ASSERT_TRUE(device_->sync().ok());
  uint64_t before = waits();
  const Ref<Tensor> first = upload(sent);
  EXPECT_EQ(waits(), before + 1) << "for the copy alone";
  const Ref<Tensor> small = upload(pattern(10));
  before = waits();
  const Ref<Tensor> second = upload(sent);
  EXPECT_EQ(waits(), before + 2);
  EXPECT_EQ(download(first), sent);
  EXPECT_EQ(download(second), sent);
  EXPECT_EQ(download(small), pattern(10));
}

TEST_P(TransferTest, ManySmallCopies_ShareChunks) {
  constexpr int kCopies = 1000;
  std::vector<Ref<Tensor>> tensors;
  const uint64_t before = waits();
  for (int i = 0; i < kCopies; ++i) {
    tensors.push_back(upload(pattern(100, static_cast<uint32_t>(i))));
  }
  EXPECT_EQ(waits(), before);
  EXPECT_EQ(stand_in.allocations, 1) << "128 bytes each of 256 KiB";
  for (int i = 0; i < kCopies; ++i) {
    EXPECT_EQ(download(tensors[static_cast<size_t>(i)]), pattern(100, static_cast<uint32_t>(i)));
  }
}

TEST_P(TransferTest, Source_IsTheCallersAgainOnReturn) {
  if (!can_hold()) GTEST_SKIP() << "its queues run inside calls";
  StreamGate gate;
  ASSERT_TRUE(gate.hold(device_->default_stream()));
  std::vector<uint8_t> source = filling_;
  const std::vector<uint8_t> sent = source;
  const Ref<Tensor> tensor = upload(source);
  std::fill(source.begin(), source.end(), uint8_t{0});
  EXPECT_EQ(device_->default_stream().query().code(), BP_PENDING);
  gate.open();
  EXPECT_EQ(download(tensor), sent);
}

TEST_P(TransferTest, FromHost_IsQueued_AndOtherStreamsComeAfterIt) {
  if (!can_hold()) GTEST_SKIP() << "its queues run inside calls";
  auto other = device_->acquire_stream();
  ASSERT_TRUE(other.ok());
  const std::vector<float> values(1000, 2.5F);
  std::vector<float> source = values;
  const auto there = [&](const std::vector<float>& from) {
    return copy_from_host(device_->default_stream(), BP_DTYPE_F32, {1000}, from.data(),
                          MemoryTag::kIo);
  };
  const Ref<Tensor> ones = *there(std::vector<float>(1000, 1.0F));
  ASSERT_TRUE(device_->sync().ok());
  StreamGate gate;
  ASSERT_TRUE(gate.hold(device_->default_stream()));
  const uint64_t before = waits();
  const auto tensor = there(source);
  ASSERT_TRUE(tensor.ok()) << tensor.status().to_string();
  std::fill(source.begin(), source.end(), 0.0F);
  EXPECT_EQ(waits(), before);
  EXPECT_EQ(device_->default_stream().query().code(), BP_PENDING);
  Ref<Tensor> sum;
  Tensor* const inputs[] = {tensor->get(), ones.get()};
  const CallArgs args{.op = *runtime_->registry().find("add"), .inputs = inputs, .stream = *other};
  // A call on the host device would wait for the copy.
  if (Dispatcher::of(*device_).kernel_names(args.op).empty()) gate.open();
  ASSERT_TRUE(call(*runtime_, args, {&sum, 1}).ok());
  gate.open();
  std::vector<float> found(1000);
  ASSERT_TRUE(copy_to_host(sum, found.data(), found.size() * sizeof(float)).ok());
  EXPECT_EQ(found, std::vector<float>(1000, 3.5F));
  device_->release_stream(*other);
}

TEST_P(TransferTest, WeightsOfASession_AreOneWait_AndThereBeforeItsRuns) {
  // x and the weights 1, 2, 4, ..., added up one by one.
  const auto sum_of = [&](int weights) {
    Graph graph(runtime_->registry());
    auto sum = graph.add_input("x", {BP_DTYPE_F32, true, {3}});
    for (int i = 0; i < weights; ++i) {
      void* data = nullptr;
      auto weight = HostTensor::allocate(BP_DTYPE_F32, {3}, &data);
      EXPECT_TRUE(sum.ok() && weight.ok());
      std::fill_n(static_cast<float*>(data), 3, static_cast<float>(1 << i));
      const auto constant = graph.add_constant("w" + std::to_string(i), std::move(*weight));
      EXPECT_TRUE(constant.ok()) << constant.status().to_string();
      const ValueId both[] = {*sum, *constant};
      sum = graph.op("add", both);
    }
    const ValueId only[] = {*sum};
    sum = graph.op("relu", only);
    EXPECT_TRUE(sum.ok() && graph.set_outputs({*sum}, {"y"}).ok());
    return graph;
  };
  // Planning ends the context that it made, which waits as well, whatever came through it.
  std::map<int, uint64_t> waits_of;
  for (const int weights : {0, 1, 5}) {
    const uint64_t before = waits();
    auto session = Session::create(*runtime_, sum_of(weights), {.device = device_, .dims = {}});
    ASSERT_TRUE(session.ok()) << session.status().to_string();
    waits_of[weights] = waits() - before;
    const std::vector<float> values{1, 2, 3};
    const NamedTensor input{"x", on_host(BP_DTYPE_F32, {3}, values.data(), 12)};
    auto outputs = (*session)->run({&input, 1});
    ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
    std::vector<float> found(3);
    ASSERT_TRUE(copy_to_host((*outputs)[0], found.data(), 12).ok());
    const auto all = static_cast<float>((1 << weights) - 1);
    EXPECT_EQ(found, (std::vector<float>{1 + all, 2 + all, 3 + all}));
  }
  const uint64_t one = device_->has_host_memory() ? 0 : 1;  // there the host's own are used
  EXPECT_EQ(waits_of[1], waits_of[0] + one);
  EXPECT_EQ(waits_of[5], waits_of[0] + one) << "not one for each";
}

TEST_P(TransferTest, NoStagingMemory_CopiesWait_AndAreCounted) {
  stand_in.refusals_left = 1000;
  const std::vector<uint8_t> sent = pattern(1000);
  const uint64_t before = unstaged();
  EXPECT_EQ(download(upload(sent)), sent);
  EXPECT_GE(unstaged(), before + 1);
  EXPECT_EQ(add_and_read(upload_f32({1, 2})), (std::vector<float>{2, 4}));
  EXPECT_TRUE(stand_in.copied_bytes.empty());
  stand_in.refusals_left = 0;
  const uint64_t then = unstaged();
  EXPECT_EQ(download(upload(sent)), sent);
  EXPECT_EQ(unstaged(), then) << "there is memory again";
}

TEST_P(TransferTest, SomeStagingMemory_FurtherCopiesWaitForTheirOwnStream) {
  ASSERT_EQ(download(upload(pattern(1))), pattern(1));
  stand_in.refusals_left = 1000;
  const uint64_t before = waits();
  std::vector<Ref<Tensor>> tensors;
  for (uint64_t bytes = 0; bytes <= Staging::kChunkBytes; bytes += filling_.size()) {
    tensors.push_back(upload(filling_));
  }
  EXPECT_EQ(waits(), before + 1) << "the last one found the only chunk full";
  EXPECT_EQ(unstaged(), 0u);
  for (const Ref<Tensor>& tensor : tensors) EXPECT_EQ(download(tensor), filling_);
}

TEST_P(TransferTest, ChunksFullOfAnotherStreams_CopyDoesWithout) {
  if (!can_hold()) GTEST_SKIP() << "its queues run inside calls";
  auto other = device_->acquire_stream();
  ASSERT_TRUE(other.ok());
  const std::vector<uint8_t> sent = pattern(100);
  StreamGate gate;
  ASSERT_TRUE(gate.hold(**other));
  const std::vector<Ref<Tensor>> held = fill_chunks(**other);
  EXPECT_EQ(unstaged(), 0u);
  const Ref<Tensor> tensor = upload(sent);
  EXPECT_EQ(download(tensor), sent) << "no wait for the other stream";
  EXPECT_EQ(unstaged(), 1u);
  EXPECT_EQ((*other)->query().code(), BP_PENDING);
  gate.open();
  for (const Ref<Tensor>& tensor_held : held) EXPECT_EQ(download(tensor_held), filling_);
  device_->release_stream(*other);
}

TEST_P(TransferTest, ReadOfWhatIsDone_NeedsNoQueue) {
  const std::vector<uint8_t> sent = pattern(500);
  const Ref<Tensor> tensor = upload(sent);
  ASSERT_TRUE(device_->sync().ok());
  stand_in.copied_bytes.clear();
  const uint64_t before = waits();
  EXPECT_EQ(download(tensor), sent);
  EXPECT_EQ(waits(), before + 1);
  EXPECT_TRUE(stand_in.copied_bytes.empty());
}

TEST_P(TransferTest, ReadOfAnInput_WaitsForItsWriterAndNotForItsReaders) {
  if (!can_hold()) GTEST_SKIP() << "its queues run inside calls";
  const OpId add = *runtime_->registry().find("add");
  if (Dispatcher::of(*device_).kernel_names(add).empty()) GTEST_SKIP() << "no kernel of its own";
  const std::vector<float> sent{1, 2, 3};
  const Ref<Tensor> x = upload_f32(sent);
  ASSERT_TRUE(device_->sync().ok());
  StreamGate gate;
  ASSERT_TRUE(gate.hold(device_->default_stream()));
  Ref<Tensor> sum;
  Tensor* const inputs[] = {x.get(), x.get()};
  ASSERT_TRUE(call(*runtime_, {.op = add, .inputs = inputs}, {&sum, 1}).ok());
  std::vector<float> found(3);
  ASSERT_TRUE(copy_to_host(x, found.data(), 12).ok());
  EXPECT_EQ(found, sent);
  EXPECT_EQ(device_->default_stream().query().code(), BP_PENDING);
  gate.open();
  EXPECT_TRUE(device_->sync().ok());
}

class StuckCopyTest : public TransferTest {
 protected:
  void SetUp() override { open({{"BACKPLANE_TIMEOUT", "2"}}); }
};

TEST_P(StuckCopyTest, ChunksFullOfItsOwn_UploadAnswersAtTheDeadline) {
  StreamGate gate;
  ASSERT_TRUE(gate.hold(device_->default_stream()));
  const std::vector<Ref<Tensor>> held = fill_chunks(device_->default_stream());
  const uint64_t before = waits();
  EXPECT_EQ(try_upload(pattern(10), device_->default_stream()).status().code(), BP_TIMEOUT);
  EXPECT_EQ(waits(), before + 1) << "one deadline, not two";
  EXPECT_EQ(stand_in.allocations, static_cast<int>(Staging::kChunks));
  gate.open();
  for (const Ref<Tensor>& tensor : held) EXPECT_EQ(download(tensor), filling_);
  EXPECT_EQ(download(upload(pattern(10))), pattern(10));
}

TEST_P(StuckCopyTest, Read_AnswersAtTheDeadline_AndTouchesNothingLater) {
  const std::vector<uint8_t> sent = pattern(100);
  StreamGate gate;
  ASSERT_TRUE(gate.hold(device_->default_stream()));
  Ref<Tensor> tensor = upload(sent);
  std::vector<uint8_t> found(100, 5);
  const uint64_t before = waits();
  EXPECT_EQ(copy_to_host(tensor, found.data(), found.size()).code(), BP_TIMEOUT);
  EXPECT_EQ(waits(), before + 1) << "one deadline, not two";
  gate.open();
  ASSERT_TRUE(device_->sync().ok());
  EXPECT_EQ(found, std::vector<uint8_t>(100, 5));
  EXPECT_EQ(download(tensor), sent);
}

const std::vector<DeviceTarget>& transfer_targets() {
  static const std::vector<DeviceTarget> kTargets = [] {
    std::vector<DeviceTarget> all = {{"npu_emulated", "npu:0", {{"npu.async", "false"}}},
                                     {"npu_without_pinned", "npu:0", {{"npu.pinned", "false"}}},
                                     {"fake_queues", "queues:0"},
                                     {"fake", "good:0"}};
    // cpu copies in the call itself: nothing is staged.
    for (const std::string& id : tests::plugin_ids_but({"cpu"})) all.push_back({id, id + ":0"});
    return all;
  }();
  return kTargets;
}

std::vector<DeviceTarget> held_targets() {
  std::vector<DeviceTarget> targets = transfer_targets();
  std::erase_if(targets, [](const DeviceTarget& target) { return target.name == "fake_queues"; });
  return targets;
}

std::string target_name(const testing::TestParamInfo<DeviceTarget>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Devices, TransferTest, testing::ValuesIn(transfer_targets()), target_name);
INSTANTIATE_TEST_SUITE_P(Devices, StuckCopyTest, testing::ValuesIn(held_targets()), target_name);

}  // namespace
}  // namespace bp
