// SPDX-License-Identifier: Apache-2.0
//
// The sketch of the capture table against loader, devices, streams, sessions, storages and the
// failure model, over the simulated NPU with streams that record.
#include "backplane/sketch/capture.h"

#include <future>
#include <thread>

#include "tests/sketches/sketch_fixture.hpp"

namespace bp {
namespace {

/// An instantiated capture as the core would keep it in a run context.
class Captured {
 public:
  Captured(Device& device, const bp_capture_api& api) : device_(device), api_(api) {}
  ~Captured() {
    if (handle == nullptr) return;
    EXPECT_EQ(api_.capture_free(handle), BP_OK);
  }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;

  Status begin(Stream& stream) {
    TimedLock lock;
    BP_TRY(stream.hold(lock));
    const bp_status code = api_.capture_begin(stream.handle());
    return code == BP_OK ? Status() : device_.failure(code, "capture_begin");
  }
  Status end(Stream& stream) {
    TimedLock lock;
    BP_TRY(stream.hold(lock));
    info.struct_size = sizeof(info);
    const bp_status code = api_.capture_end(stream.handle(), &info, &handle);
    return code == BP_OK ? Status() : device_.failure(code, "capture_end");
  }
  Status instantiate() {
    const bp_status code = api_.capture_instantiate(handle);
    return code == BP_OK ? Status() : device_.failure(code, "capture_instantiate");
  }
  /// ops: of the captured launches, which only the core knows. Answers the last sequence number.
  Result<uint64_t> launch(Stream& stream, std::span<const OpId> ops = {}, bp_mem fault = {}) {
    uint64_t first = 0;
    uint64_t last = 0;
    bp_status code = BP_OK;
    {
      TimedLock lock;
      BP_TRY(stream.hold(lock));
      BP_TRY(stream.check_healthy());
      for (uint64_t i = 0; i < std::max<uint64_t>(info.launch_count, 1); ++i) {
        last = stream.next_seq();
        if (first == 0) first = last;
        if (i < ops.size()) stream.note_launch(last, ops[i]);
      }
      first_op_seq = stream.op_seq(first);
      const bp_capture_launch_args args{.struct_size = sizeof(args),
                                        .flags = 0,
                                        .capture = handle,
                                        .stream = stream.handle(),
                                        .op_seq = first_op_seq,
                                        .fault = fault};
      code = api_.capture_launch(&args);
    }
    if (code != BP_OK) return stream.failure(code, "capture_launch");
    return last;
  }

  bp_capture* handle = nullptr;
  bp_capture_info info{};
  uint64_t first_op_seq = 0;

 private:
  Device& device_;
  const bp_capture_api& api_;
};

class CaptureSketch : public SketchTest {
 protected:
  void SetUp() override {
    open("capture_npu");
    ASSERT_NE(find_table(*device_, "bp.sketch.capture", BP_SKETCH_CAPTURE, &api_), nullptr);
  }
  Stream& new_stream() {
    auto stream = device_->acquire_stream();
    EXPECT_TRUE(stream.ok());
    return **stream;
  }
  Ref<Session> session(Graph graph) {
    SessionArgs args;
    args.device = device_;
    auto made = Session::create(*runtime_, std::move(graph), args);
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return *made;
  }
  Ref<Tensor> zeros(const Dims& sizes) {
    return upload<float>(BP_DTYPE_F32, sizes,
                         std::vector<float>(static_cast<size_t>(element_count(sizes))));
  }
  /// New contents for a tensor that captures read.
  void overwrite(const Ref<Tensor>& tensor, const float* values) {
    const bp_tensor place = tensor->abi();
    const uint64_t bytes = static_cast<uint64_t>(tensor->element_count()) * sizeof(float);
    ASSERT_TRUE(
        device_
            ->copy_in(device_->default_stream(), {place.handle, place.offset_bytes}, values, bytes)
            .ok());
  }
  OpId op(std::string_view name) const { return *runtime_->registry().find(name); }
  Ref<Tensor> must_call(std::string_view name, const std::vector<Ref<Tensor>>& inputs,
                        Stream& stream) {
    std::vector<Tensor*> pointers;
    for (const Ref<Tensor>& input : inputs) pointers.push_back(input.get());
    Ref<Tensor> output;
    const Status status =
        call(*runtime_, {.op = op(name), .inputs = pointers, .stream = &stream}, {&output, 1});
    EXPECT_TRUE(status.ok()) << status.to_string();
    return output;
  }
  /// Plans, weights and contexts are made by a run that is not captured. It has to be over before a
  /// replay: both use the session's run context.
  Ref<Tensor> warm_up(Session& s, const Ref<Tensor>& input) {
    const NamedTensor named[] = {{s.inputs()[0].name, input}};
    const auto outputs = s.run(named);
    EXPECT_TRUE(outputs.ok()) << outputs.status().to_string();
    EXPECT_TRUE(device_->sync().ok());
    return (*outputs)[0];
  }
  /// Captures one run of the session, begun and ended on `stream`.
  void capture_run(Session& s, const Ref<Tensor>& input, const Ref<Tensor>& output, Stream& stream,
                   Captured* captured) {
    ASSERT_TRUE(captured->begin(stream).ok());
    const NamedTensor named[] = {{s.inputs()[0].name, input}};
    const Ref<Tensor> bound[] = {output};
    const auto outputs = s.run(named, {.outputs = bound, .stream = &stream});
    EXPECT_TRUE(outputs.ok()) << outputs.status().to_string();
    const Status ended = captured->end(stream);
    ASSERT_TRUE(ended.ok()) << ended.to_string();
  }
  /// Nothing after this in the stream's order runs until the promise is kept.
  void hold(Stream& stream, std::promise<void>* gate) {
    const auto wait = [](void* user, bp_status) {
      static_cast<std::promise<void>*>(user)->get_future().wait();
    };
    ASSERT_EQ(device_->table().stream_host_call(stream.handle(), wait, gate), BP_OK);
  }
  uint64_t alloc_async(Stream& stream, uint64_t bytes) {
    const bp_async_alloc_args args{sizeof(args), 0, stream.handle(), bytes, 0};
    uint64_t handle = 0;
    EXPECT_EQ(api_.mem_alloc_async(device_->table().device, &args, &handle), BP_OK);
    return handle;
  }
  void fill(Stream& stream, uint64_t handle, uint32_t value, uint64_t bytes) {
    const bp_fill_args args{.struct_size = sizeof(args),
                            .flags = 0,
                            .dst = {handle, 0},
                            .bytes = bytes,
                            .pattern = value,
                            .pattern_bytes = 4,
                            .reserved = 0,
                            .stream = stream.handle()};
    const DeviceTable& table = device_->table();
    EXPECT_EQ(table.mem_fill(args), BP_OK);
  }

  bp_capture_api api_;
};

TEST_F(CaptureSketch, Launch_DigitsSession_ReplaysWithNewContents) {
  const Ref<Session> s = session(digits());
  Stream& stream = new_stream();
  for (const size_t batch : {size_t{1}, size_t{24}}) {
    const Ref<Tensor> input = images(*device_, 0, batch);
    const Ref<Tensor> output = zeros({static_cast<int64_t>(batch), 10});
    const std::vector<float> uncaptured = values(warm_up(*s, input));
    Captured captured(*device_, api_);
    capture_run(*s, input, output, stream, &captured);
    EXPECT_EQ(values(output), std::vector<float>(batch * 10)) << "captured work does not run";
    EXPECT_EQ(captured.info.stream_count, 2u) << "the session's own stream joined by an event";
    ASSERT_TRUE(captured.instantiate().ok());
    ASSERT_TRUE(captured.launch(stream).ok());
    ASSERT_TRUE(stream.sync().ok());
    EXPECT_EQ(values(output), uncaptured);
    for (size_t first = batch; first < 4 * batch; first += batch) {
      overwrite(input, digit_images_.pixels.data() + first * 64);
      const auto seq = captured.launch(stream);
      ASSERT_TRUE(seq.ok());
      output->storage().note_use(stream, *seq, true);
      EXPECT_EQ(predictions(values(output)), predictions(cpu_probabilities(first, batch)));
    }
  }
  EXPECT_EQ(device_->counters().fallback_ops, 0u);
}

TEST_F(CaptureSketch, Plan_Update_EqualTopologyTakesTheNewAddresses) {
  const Ref<Session> s = session(digits());
  Stream& stream = new_stream();
  const Ref<Tensor> inputs[] = {images(*device_, 0, 4), images(*device_, 10, 4)};
  const Ref<Tensor> outputs[] = {zeros({4, 10}), zeros({4, 10})};
  warm_up(*s, inputs[0]);
  Captured captured(*device_, api_), newer(*device_, api_), other(*device_, api_);
  capture_run(*s, inputs[0], outputs[0], stream, &captured);
  capture_run(*s, inputs[1], outputs[1], stream, &newer);
  ASSERT_TRUE(captured.instantiate().ok());
  ASSERT_EQ(api_.capture_update(captured.handle, newer.handle), BP_OK);
  ASSERT_TRUE(captured.launch(stream).ok());
  ASSERT_TRUE(stream.sync().ok());
  EXPECT_EQ(values(outputs[0]), std::vector<float>(40));
  EXPECT_EQ(predictions(values(outputs[1])), predictions(cpu_probabilities(10, 4)));
  // Another topology is refused, and changes nothing.
  const Ref<Tensor> x = zeros({4});
  ASSERT_TRUE(other.begin(stream).ok());
  const Ref<Tensor> y = must_call("relu", {x}, stream);
  ASSERT_TRUE(other.end(stream).ok());
  EXPECT_EQ(api_.capture_update(captured.handle, other.handle), BP_UNSUPPORTED);
  overwrite(outputs[1], std::vector<float>(40).data());
  ASSERT_TRUE(captured.launch(stream).ok());
  ASSERT_TRUE(stream.sync().ok());
  EXPECT_EQ(predictions(values(outputs[1])), predictions(cpu_probabilities(10, 4)));
}

TEST_F(CaptureSketch, RunContext_TwoCaptures_ReplayOnTwoStreamsAtOnce) {
  const Ref<Session> sessions[] = {session(digits()), session(digits())};
  Stream* const streams[] = {&new_stream(), &new_stream()};
  std::vector<Ref<Tensor>> inputs, outputs;
  std::vector<std::unique_ptr<Captured>> captures;
  std::vector<std::vector<int64_t>> expected;
  for (size_t t = 0; t < 2; ++t) {
    inputs.push_back(images(*device_, t * 20, 8));
    outputs.push_back(zeros({8, 10}));
    warm_up(*sessions[t], inputs[t]);
    captures.push_back(std::make_unique<Captured>(*device_, api_));
    capture_run(*sessions[t], inputs[t], outputs[t], *streams[t], captures[t].get());
    ASSERT_TRUE(captures[t]->instantiate().ok());
    expected.push_back(predictions(cpu_probabilities(t * 20, 8)));
  }
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 3; ++i) {
        ASSERT_TRUE(captures[t]->launch(*streams[t]).ok());
        ASSERT_TRUE(streams[t]->sync().ok());
        EXPECT_EQ(predictions(values(outputs[t])), expected[t]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CaptureSketch, Events_ForkAndJoin_KeepTheirOrderInAReplay) {
  Stream& a = new_stream();
  Stream& b = new_stream();
  const Ref<Tensor> x = upload<float>(BP_DTYPE_F32, {4}, {1, 2, 3, 4});
  must_call("add", {x, x}, a);
  must_call("add", {x, x}, b);
  ASSERT_TRUE(device_->sync().ok());
  Captured captured(*device_, api_);
  ASSERT_TRUE(captured.begin(a).ok());
  const Ref<Tensor> two = must_call("add", {x, x}, a);
  const Ref<Tensor> four = must_call("add", {two, two}, b);      // b joins: its input is made on a
  const Ref<Tensor> three = must_call("add", {two, x}, a);       // beside it
  const Ref<Tensor> seven = must_call("add", {four, three}, a);  // waits for b
  const Status ended = captured.end(a);
  ASSERT_TRUE(ended.ok()) << ended.to_string();
  EXPECT_EQ(captured.info.launch_count, 4u);
  EXPECT_EQ(captured.info.stream_count, 2u);
  ASSERT_TRUE(captured.instantiate().ok());
  const auto seq = captured.launch(a);
  ASSERT_TRUE(seq.ok());
  seven->storage().note_use(a, *seq, true);
  const Ref<Tensor> after = must_call("add", {seven, x}, b);  // outside: waits for the replay
  EXPECT_EQ(values(after), (std::vector<float>{8, 16, 24, 32}));
  EXPECT_EQ(device_->counters().host_waits, 0u);
}

TEST_F(CaptureSketch, Events_ForkWithoutJoin_IsRefusedAtTheEnd) {
  Stream& a = new_stream();
  Stream& b = new_stream();
  const Ref<Tensor> x = upload<float>(BP_DTYPE_F32, {1}, {1});
  Captured captured(*device_, api_);
  ASSERT_TRUE(captured.begin(a).ok());
  const Ref<Tensor> two = must_call("add", {x, x}, a);
  const Ref<Tensor> four = must_call("add", {two, two}, b);
  const Status ended = captured.end(a);
  EXPECT_EQ(ended.code(), BP_INVALID_ARGUMENT);
  expect_words(ended, {"nothing waits for node", "launch"});
  EXPECT_TRUE(a.sync().ok()) << "neither stream records any more";
  EXPECT_TRUE(b.sync().ok());
}

TEST_F(CaptureSketch, Events_UnfinishedWorkOutside_IsNotWaitedForInside) {
  Stream& a = new_stream();
  Stream& b = new_stream();
  std::promise<void> gate;
  hold(b, &gate);
  Captured captured(*device_, api_);
  ASSERT_TRUE(captured.begin(a).ok());
  EXPECT_EQ(device_->insert_wait(a, b).code(), BP_UNSUPPORTED);
  const DeviceTable& table = device_->table();
  const bp_event_args event_args{sizeof(event_args), 0};
  bp_event* event = nullptr;
  ASSERT_EQ(table.event_create(event_args, &event), BP_OK);
  ASSERT_EQ(table.event_record(event, b.handle()), BP_OK);
  EXPECT_EQ(table.event_wait(event, a.handle()), BP_UNSUPPORTED);
  gate.set_value();
  ASSERT_TRUE(b.sync().ok());
  EXPECT_EQ(table.event_wait(event, a.handle()), BP_OK) << "what is done needs no wait";
  EXPECT_EQ(table.event_destroy(event), BP_OK);
  ASSERT_TRUE(captured.end(a).ok());
  EXPECT_EQ(captured.info.stream_count, 1u);
}

TEST_F(CaptureSketch, Errors_HostWaitsInside_AreRefusedAndTheCaptureGoesOn) {
  Stream& stream = new_stream();
  const DeviceTable& table = device_->table();
  const Ref<Tensor> x = upload<float>(BP_DTYPE_F32, {2}, {-1, 2});
  bp_event* event = nullptr;
  const bp_event_args event_args{sizeof(event_args), 0};
  ASSERT_EQ(table.event_create(event_args, &event), BP_OK);
  Captured captured(*device_, api_);
  ASSERT_TRUE(captured.begin(stream).ok());
  EXPECT_EQ(captured.begin(stream).code(), BP_BUSY);
  const Ref<Tensor> y = must_call("relu", {x}, stream);
  ASSERT_EQ(table.event_record(event, stream.handle()), BP_OK);
  EXPECT_EQ(table.stream_sync(stream.handle(), 0), BP_UNSUPPORTED);
  EXPECT_EQ(table.stream_query(stream.handle()), BP_UNSUPPORTED);
  EXPECT_EQ(table.event_sync(event, 0), BP_UNSUPPORTED);
  EXPECT_EQ(table.event_query(event), BP_UNSUPPORTED);
  const auto never = [](void*, bp_status) { ADD_FAILURE() << "a refused host call ran"; };
  EXPECT_EQ(table.stream_host_call(stream.handle(), never, nullptr), BP_UNSUPPORTED);
  ASSERT_TRUE(captured.end(stream).ok());
  EXPECT_EQ(captured.launch(stream).status().code(), BP_INVALID_ARGUMENT) << "not instantiated";
  ASSERT_TRUE(captured.instantiate().ok());
  const auto seq = captured.launch(stream);
  ASSERT_TRUE(seq.ok());
  y->storage().note_use(stream, *seq, true);
  EXPECT_EQ(values(y), (std::vector<float>{0, 2}));
  EXPECT_EQ(table.event_destroy(event), BP_OK);
}

TEST_F(CaptureSketch, Errors_FallbackInside_IsRefusedNamingTheNode) {
  Graph graph(runtime_->registry());
  const ValueId x = *graph.add_input("x", {BP_DTYPE_F32, true, {1, 1, 2, 2}});
  const ValueId inputs[] = {x};
  ASSERT_TRUE(graph.set_outputs({*graph.op("reduce_l1", inputs)}, {"y"}).ok());
  const Ref<Session> s = session(std::move(graph));
  const Ref<Tensor> input = upload<float>(BP_DTYPE_F32, {1, 1, 2, 2}, {1, 2, 3, 4});
  const NamedTensor named[] = {{"x", input}};
  ASSERT_TRUE(s->run(named).ok());
  ASSERT_GT(s->placement_counts().fallback, 0u);
  Stream& stream = new_stream();
  Captured captured(*device_, api_);
  ASSERT_TRUE(captured.begin(stream).ok());
  const auto outputs = s->run(named, {.stream = &stream});
  EXPECT_EQ(outputs.status().code(), BP_UNSUPPORTED) << outputs.status().to_string();
  expect_words(outputs.status(), {"reduce_l1", "captured"});
}

TEST_F(CaptureSketch, Errors_DataFaultInAReplay_NamesTheLaunch) {
  Stream& stream = new_stream();
  const Ref<Tensor> x = upload<float>(BP_DTYPE_F32, {3}, {1, 2, 3});
  const Ref<Tensor> index = upload<int64_t>(BP_DTYPE_I64, {1}, {1});
  must_call("gather", {x, index}, stream);  // the stream's fault words are there from now on
  const Ref<Tensor> word = upload<uint64_t>(BP_DTYPE_U64, {4}, {0, 0, 0, 0});
  Captured captured(*device_, api_);
  ASSERT_TRUE(captured.begin(stream).ok());
  const Ref<Tensor> clipped = must_call("relu", {x}, stream);
  const Ref<Tensor> picked = must_call("gather", {clipped, index}, stream);
  ASSERT_TRUE(captured.end(stream).ok());
  ASSERT_TRUE(captured.instantiate().ok());
  const bp_mem fault{word->abi().handle, word->abi().offset_bytes};
  const auto replay = [&](int64_t chosen) {
    const std::vector<int64_t> chosen_index{chosen};
    EXPECT_TRUE(device_
                    ->copy_in(stream, {index->abi().handle, index->abi().offset_bytes},
                              chosen_index.data(), 8)
                    .ok());
    EXPECT_TRUE(captured.launch(stream, {}, fault).ok());
    EXPECT_TRUE(stream.sync().ok()) << "a data fault leaves the stream healthy";
    bp_fault_word found{};
    EXPECT_TRUE(device_->read(&found, fault, sizeof(found)).ok());
    return found;
  };
  EXPECT_EQ(replay(2).code, BP_FAULT_NONE);
  const bp_fault_word found = replay(7);
  EXPECT_EQ(found.code, BP_FAULT_INDEX);
  EXPECT_EQ(found.op_seq - captured.first_op_seq, 1u) << "the second launch: gather";
  EXPECT_EQ(found.index, 7);
  EXPECT_EQ(found.extent, 3);
}

TEST_F(CaptureSketch, Errors_FailureInAReplay_NamesTheOperatorAndIsSticky) {
  Stream& stream = new_stream();
  const Ref<Tensor> x = upload<float>(BP_DTYPE_F32, {3}, {-1, 2, 3});
  Captured captured(*device_, api_);
  ASSERT_TRUE(captured.begin(stream).ok());
  const Ref<Tensor> clipped = must_call("relu", {x}, stream);
  const Ref<Tensor> doubled = must_call("add", {clipped, clipped}, stream);
  ASSERT_TRUE(captured.end(stream).ok());
  ASSERT_TRUE(captured.instantiate().ok());
  const OpId ops[] = {op("relu"), op("add")};
  // Driver calls of a replay: the push, the command, then one for each launch.
  inject(BP_INJECT_FAIL_CALL, 4);
  ASSERT_TRUE(captured.launch(stream, ops).ok());
  for (int i = 0; i < 2; ++i) {
    const Status status = stream.sync();
    EXPECT_EQ(status.code(), BP_INTERNAL) << status.to_string();
    expect_words(status, {"operator add", "injected"});
  }
  EXPECT_EQ(captured.launch(stream, ops).status().code(), BP_POISONED);
  ASSERT_TRUE(stream.reset().ok());
  ASSERT_TRUE(captured.launch(stream, ops).ok()) << "the capture outlives the failure";
  ASSERT_TRUE(stream.sync().ok());
  std::vector<float> found(3);
  const bp_mem place{doubled->abi().handle, doubled->abi().offset_bytes};
  ASSERT_TRUE(device_->read(found.data(), place, 12).ok());
  EXPECT_EQ(found, (std::vector<float>{0, 4, 6}));
}

TEST_F(CaptureSketch, Memory_FreedBlock_ServesTheSameStreamAtOnceAndOthersWhenDone) {
  Stream& a = new_stream();
  Stream& b = new_stream();
  const uint64_t first = alloc_async(a, 1024);
  std::promise<void> gate;
  hold(a, &gate);
  ASSERT_EQ(api_.mem_free_async(a.handle(), first), BP_OK);
  EXPECT_EQ(api_.mem_free_async(a.handle(), first), BP_INVALID_ARGUMENT);
  const uint64_t on_b = alloc_async(b, 1024);
  EXPECT_NE(on_b, first) << "a's work may still use it";
  EXPECT_EQ(alloc_async(a, 512), first);
  ASSERT_EQ(api_.mem_free_async(a.handle(), first), BP_OK);
  gate.set_value();
  ASSERT_TRUE(a.sync().ok());
  EXPECT_EQ(alloc_async(b, 1024), first);
  EXPECT_NE(api_.mem_free_async(a.handle(), 4711), BP_OK);
}

TEST_F(CaptureSketch, Memory_InCaptures_BlocksAreReusedWithinAndAcross) {
  Stream& stream = new_stream();
  const Ref<Tensor> out = zeros({64});
  const bp_mem target{out->abi().handle, out->abi().offset_bytes};
  const auto copy_to_out = [&](uint64_t handle, uint64_t offset) {
    const bp_copy_args args{.struct_size = sizeof(args),
                            .flags = 0,
                            .kind = BP_COPY_DEVICE_TO_DEVICE,
                            .reserved = 0,
                            .dst = {target.handle, target.offset_bytes + offset},
                            .src = {handle, 0},
                            .bytes = 128};
    EXPECT_EQ(device_->table().mem_copy_async(stream.handle(), args), BP_OK);
  };
  const float one = 1, two = 2;
  uint32_t patterns[2];
  std::memcpy(&patterns[0], &one, 4);
  std::memcpy(&patterns[1], &two, 4);
  Captured captures[2] = {{*device_, api_}, {*device_, api_}};
  uint64_t blocks[2] = {};
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(captures[i].begin(stream).ok());
    blocks[i] = alloc_async(stream, 128);
    fill(stream, blocks[i], patterns[i], 128);
    copy_to_out(blocks[i], 0);
    ASSERT_EQ(api_.mem_free_async(stream.handle(), blocks[i]), BP_OK);
    const uint64_t again = alloc_async(stream, 128);
    EXPECT_EQ(again, blocks[i]) << "within a capture";
    fill(stream, again, patterns[1 - i], 128);
    copy_to_out(again, 128);
    ASSERT_EQ(api_.mem_free_async(stream.handle(), again), BP_OK);
    ASSERT_TRUE(captures[i].end(stream).ok());
    EXPECT_EQ(captures[i].info.block_bytes, 128u);
    ASSERT_TRUE(captures[i].instantiate().ok());
  }
  EXPECT_EQ(blocks[0], blocks[1]) << "across captures of one stream";
  for (const size_t i : {0u, 1u, 0u}) {
    ASSERT_TRUE(captures[i].launch(stream).ok());
    ASSERT_TRUE(stream.sync().ok());
    std::vector<float> expected(32, i == 0 ? one : two);
    expected.insert(expected.end(), 32, i == 0 ? two : one);
    EXPECT_EQ(values(out), expected);
  }
}

TEST_F(CaptureSketch, Memory_UnfreedBlock_StaysWithItsCapture) {
  Stream& stream = new_stream();
  auto first = std::make_unique<Captured>(*device_, api_);
  ASSERT_TRUE(first->begin(stream).ok());
  const uint64_t kept = alloc_async(stream, 256);
  ASSERT_TRUE(first->end(stream).ok());
  Captured second(*device_, api_);
  ASSERT_TRUE(second.begin(stream).ok());
  EXPECT_NE(alloc_async(stream, 256), kept);
  ASSERT_TRUE(second.end(stream).ok());
  first = nullptr;
  Captured third(*device_, api_);
  ASSERT_TRUE(third.begin(stream).ok());
  EXPECT_EQ(alloc_async(stream, 256), kept) << "its capture is gone";
  ASSERT_TRUE(third.end(stream).ok());
}

}  // namespace
}  // namespace bp
