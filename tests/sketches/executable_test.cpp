// SPDX-License-Identifier: Apache-2.0
//
// The sketch of the executable table against loader, devices, streams, storages, allocator and the
// failure model, over a chip that runs whole graphs and has no kernels.
#include <future>
#include <thread>

#include "tests/sketches/executable_driver.hpp"
#include "tests/sketches/sketch_fixture.hpp"

namespace bp {
namespace {

class ExecutableSketch : public SketchTest {
 protected:
  void SetUp() override { open_chip({}); }

  void open_chip(std::vector<OptionSetting> options) {
    open("graph_npu", std::move(options));
    ASSERT_NE(find_table(*device_, "bp.sketch.executable", BP_SKETCH_EXECUTABLE, &api_), nullptr);
  }

  std::unique_ptr<CompiledGraph> compiled(const Graph& graph) {
    auto made = std::make_unique<CompiledGraph>(*device_, api_, graph);
    const Status status = made->compile();
    EXPECT_TRUE(status.ok()) << status.to_string();
    return made;
  }
  std::unique_ptr<CompiledContext> context_of(const CompiledGraph& graph, Stream& stream) {
    auto made = std::make_unique<CompiledContext>(graph, stream);
    const Status status = made->prepare();
    EXPECT_TRUE(status.ok()) << status.to_string();
    return made;
  }
  Stream& new_stream() {
    auto stream = device_->acquire_stream();
    EXPECT_TRUE(stream.ok());
    return **stream;
  }
  std::vector<float> run(CompiledContext& context, const Ref<Tensor>& input) {
    auto outputs = context.run({&input, 1});
    EXPECT_TRUE(outputs.ok()) << outputs.status().to_string();
    return outputs.ok() ? values((*outputs)[0]) : std::vector<float>{};
  }

  /// y = relu(x[i]), nodes "pick" and "clip".
  Graph gather_graph() {
    Graph graph(runtime_->registry());
    const ValueId x = *graph.add_input("x", {BP_DTYPE_F32, true, {4}});
    const ValueId i = *graph.add_input("i", {BP_DTYPE_I64, true, {graph.symbol("N")}});
    const ValueId both[] = {x, i};
    const NodeId pick = *graph.add_node(op("gather"), "pick", both, {});
    const ValueId picked[] = {graph.node(pick).outputs[0]};
    const NodeId clip = *graph.add_node(op("relu"), "clip", picked, {});
    EXPECT_TRUE(graph.set_outputs({graph.node(clip).outputs[0]}, {"y"}).ok());
    return graph;
  }
  OpId op(std::string_view name) const { return *runtime_->registry().find(name); }

  bp_executable_api api_;
};

TEST_F(ExecutableSketch, Plugin_HasNoKernels_AndStillLoads) {
  const Ref<Tensor> x = upload<float>(BP_DTYPE_F32, {1}, {1});
  Tensor* const inputs[] = {x.get()};
  Ref<Tensor> y;
  ASSERT_TRUE(call(*runtime_, {.op = op("relu"), .inputs = inputs}, {&y, 1}).ok());
  EXPECT_EQ(device_->counters().fallback_ops, 1u) << "only the host device has kernels";
}

TEST_F(ExecutableSketch, Plan_Claim_TakesDigitsAsOneGroup) {
  const auto image = write_image(digits());
  ASSERT_TRUE(image.ok()) << image.status().to_string();
  std::vector<uint32_t> groups(image->node_count);
  bp_claim claim{sizeof(claim), 0, groups.size(), groups.data(), {}};
  ASSERT_EQ(api_.executable_claim(device_->table().device, image->data(), image->bytes(), &claim),
            BP_OK);
  EXPECT_EQ(groups, std::vector<uint32_t>(16, 1));
  EXPECT_EQ(claim.reason.len, 0u);
}

TEST_F(ExecutableSketch, Plan_Claim_LeavesOutWhatItHasNotAndSplitsThere) {
  Graph graph(runtime_->registry());
  ValueId value = *graph.add_input("x", {BP_DTYPE_F32, true, {2}});
  for (const char* const name : {"relu", "sqrt", "relu"}) {
    const ValueId inputs[] = {value};
    value = *graph.op(name, inputs);
  }
  ASSERT_TRUE(graph.set_outputs({value}, {"y"}).ok());
  const auto image = write_image(graph);
  ASSERT_TRUE(image.ok());
  std::vector<uint32_t> groups(3);
  bp_claim claim{sizeof(claim), 0, groups.size(), groups.data(), {}};
  ASSERT_EQ(api_.executable_claim(device_->table().device, image->data(), image->bytes(), &claim),
            BP_OK);
  EXPECT_EQ(groups, (std::vector<uint32_t>{1, 0, 2}));
  EXPECT_GT(claim.reason.len, 0u);
  CompiledGraph whole(*device_, api_, graph);
  EXPECT_EQ(whole.compile().code(), BP_UNSUPPORTED);
}

TEST_F(ExecutableSketch, Launch_Digits_AnyBatchReadsWhatCpuReads) {
  const auto graph = compiled(digits());
  const auto context = context_of(*graph, new_stream());
  for (size_t first = 0; first < 8; ++first) {
    const std::vector<float> found = run(*context, images(*device_, first, 1));
    EXPECT_EQ(predictions(found), predictions(cpu_probabilities(first, 1)));
  }
  const std::vector<float> all = run(*context, images(*device_, 0, 360));
  const std::vector<float> expected = cpu_probabilities(0, 360);
  EXPECT_EQ(predictions(all), predictions(expected));
  for (size_t i = 0; i < all.size(); ++i) ASSERT_NEAR(all[i], expected[i], 1e-5) << i;
  const std::vector<int64_t> read = predictions(all);
  int right = 0;
  for (size_t i = 0; i < read.size(); ++i) right += read[i] == digit_images_.labels[i];
  EXPECT_EQ(right, 358);
  EXPECT_EQ(device_->counters().launches.load(), 0u) << "no kernel ran";
}

TEST_F(ExecutableSketch, Plan_Serialized_RunsTheSameElsewhere) {
  std::vector<std::byte> blob;
  std::vector<float> expected;
  {
    const auto graph = compiled(digits());
    auto bytes = graph->serialize();
    ASSERT_TRUE(bytes.ok());
    blob = std::move(*bytes);
    expected = run(*context_of(*graph, new_stream()), images(*device_, 0, 5));
  }
  open_chip({});  // another Runtime
  CompiledGraph loaded(*device_, api_, digits());
  const Status status = loaded.load(blob);
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(run(*context_of(loaded, new_stream()), images(*device_, 0, 5)), expected);
}

TEST_F(ExecutableSketch, RunContext_TwoThreads_EachWithItsOwn_ShareTheExecutable) {
  const auto graph = compiled(digits());
  std::vector<std::unique_ptr<CompiledContext>> contexts;
  for (int i = 0; i < 2; ++i) contexts.push_back(context_of(*graph, new_stream()));
  const std::vector<float> expected[] = {cpu_probabilities(0, 3), cpu_probabilities(7, 2)};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        const Ref<Tensor> input = t == 0 ? images(*device_, 0, 3) : images(*device_, 7, 2);
        EXPECT_EQ(predictions(run(*contexts[t], input)), predictions(expected[t]));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ExecutableSketch, RunContext_DestroyedTooEarly_SaysSo) {
  const auto graph = compiled(gather_graph());
  bp_executable_context* context = nullptr;
  ASSERT_EQ(api_.executable_context_create(graph->handle(), &context), BP_OK);
  Stream& stream = new_stream();
  std::promise<void> gate;
  const auto wait = [](void* user, bp_status) {
    static_cast<std::promise<void>*>(user)->get_future().wait();
  };
  ASSERT_EQ(device_->table().stream_host_call(stream.handle(), wait, &gate), BP_OK);
  const Ref<Tensor> tensors[] = {upload<float>(BP_DTYPE_F32, {4}, {1, 2, 3, 4}),
                                 upload<int64_t>(BP_DTYPE_I64, {1}, {3}),
                                 upload<float>(BP_DTYPE_F32, {1}, {0}),
                                 upload<float>(BP_DTYPE_F32, {64}, std::vector<float>(64))};
  const bp_tensor places[] = {tensors[0]->abi(), tensors[1]->abi(), tensors[2]->abi()};
  const bp_run_args args{.struct_size = sizeof(args),
                         .flags = 0,
                         .context = context,
                         .stream = stream.handle(),
                         .tensors = places,
                         .input_count = 2,
                         .output_count = 1,
                         .workspace = {tensors[3]->abi().handle, tensors[3]->abi().offset_bytes},
                         .op_seq = 1,
                         .fault = {}};
  ASSERT_EQ(api_.executable_run(&args), BP_OK);
  EXPECT_EQ(api_.executable_context_destroy(context), BP_BUSY);
  gate.set_value();
  ASSERT_TRUE(stream.sync().ok());
  EXPECT_EQ(values(tensors[2]), (std::vector<float>{4})) << "the run had all that it needs";
}

TEST_F(ExecutableSketch, Events_OutputUsedOnAnotherStream_WaitsForItsRun) {
  const auto graph = compiled(digits());
  Graph last(runtime_->registry());
  const ValueId p = *last.add_input("p", {BP_DTYPE_F32, true, {last.symbol("N"), 10}});
  const ValueId twice[] = {p, p};
  ASSERT_TRUE(last.set_outputs({*last.op("add", twice)}, {"q"}).ok());
  const auto doubling = compiled(last);
  const auto first = context_of(*graph, new_stream());
  const auto second = context_of(*doubling, new_stream());
  const Ref<Tensor> input = images(*device_, 0, 64);
  const std::vector<float> expected = cpu_probabilities(0, 64);
  for (int i = 0; i < 5; ++i) {
    const auto made = first->run({&input, 1});  // still in the making
    ASSERT_TRUE(made.ok());
    const std::vector<float> doubled = run(*second, (*made)[0]);
    for (size_t k = 0; k < doubled.size(); ++k) ASSERT_NEAR(doubled[k], 2 * expected[k], 2e-5);
  }
  EXPECT_EQ(device_->counters().host_waits, 0u) << "ordered by an event";
}

TEST_F(ExecutableSketch, Memory_Workspace_IsTheCoresAndRunsAllocateNothingNew) {
  const uint64_t before = device_->allocator().stats().allocated_bytes;
  {
    const auto graph = compiled(digits());
    EXPECT_GE(graph->weight_bytes(), 36458u * 4);
    const auto context = context_of(*graph, new_stream());
    const Ref<Tensor> input = images(*device_, 0, 4);
    run(*context, input);
    const MemoryStats warm = device_->allocator().stats();
    EXPECT_GT(warm.tag_bytes[static_cast<size_t>(MemoryTag::kActivations)], 0u);
    for (int i = 0; i < 5; ++i) run(*context, input);
    EXPECT_EQ(device_->allocator().stats().device_alloc_count, warm.device_alloc_count);
    EXPECT_EQ(device_->allocator().stats().allocated_bytes, warm.allocated_bytes);
  }
  EXPECT_EQ(device_->allocator().stats().allocated_bytes, before);
}

TEST_F(ExecutableSketch, Memory_WeightsDoNotFit_CompileSaysSoAndNothingIsKept) {
  open_chip({{"graph_npu.memory", "100KiB"}});
  CompiledGraph graph(*device_, api_, digits());
  const Status status = graph.compile();
  EXPECT_EQ(status.code(), BP_OUT_OF_MEMORY) << status.to_string();
  const auto small = compiled(gather_graph());
  EXPECT_NE(small->handle(), nullptr);
}

TEST_F(ExecutableSketch, Errors_CallError_HasNoEffect) {
  const auto graph = compiled(digits());
  const auto context = context_of(*graph, new_stream());
  const Ref<Tensor> wrong = upload<float>(BP_DTYPE_F32, {1, 1, 8, 9}, std::vector<float>(72));
  const auto refused = context->run({&wrong, 1});
  EXPECT_EQ(refused.status().code(), BP_INVALID_ARGUMENT) << refused.status().to_string();
  EXPECT_EQ(predictions(run(*context, images(*device_, 0, 2))),
            predictions(cpu_probabilities(0, 2)));
}

TEST_F(ExecutableSketch, Errors_DataFaultInside_NamesTheNodeOnce) {
  const auto graph = compiled(gather_graph());
  const auto context = context_of(*graph, new_stream());
  const Ref<Tensor> x = upload<float>(BP_DTYPE_F32, {4}, {10, 11, -12, 13});
  const Ref<Tensor> bad[] = {x, upload<int64_t>(BP_DTYPE_I64, {3}, {1, 9, 3})};
  const Ref<Tensor> good[] = {x, upload<int64_t>(BP_DTYPE_I64, {2}, {2, 0})};
  const auto outputs = context->run(bad);
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  const Status status = context->wait();
  EXPECT_EQ(status.code(), BP_INVALID_ARGUMENT);
  expect_words(status, {"node 'pick'", "index 9", "input 1", "extent 4"});
  EXPECT_EQ(values((*outputs)[0]), (std::vector<float>{11, 13, 13})) << "clamped";
  const auto again = context->run(good);
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(context->wait().ok());
  EXPECT_EQ(values((*again)[0]), (std::vector<float>{0, 10}));
}

TEST_F(ExecutableSketch, Errors_StreamFailureInside_NamesOperatorAndNodeAndIsSticky) {
  const auto graph = compiled(gather_graph());
  Stream& stream = new_stream();
  const auto context = context_of(*graph, stream);
  const Ref<Tensor> inputs[] = {upload<float>(BP_DTYPE_F32, {4}, {1, 2, 3, 4}),
                                upload<int64_t>(BP_DTYPE_I64, {1}, {3})};
  ASSERT_TRUE(context->run(inputs).ok());
  ASSERT_TRUE(context->wait().ok());
  // Driver calls of a run: the push, the command, then one for each node.
  inject(BP_INJECT_FAIL_CALL, 4);
  const auto lost = context->run(inputs);
  ASSERT_TRUE(lost.ok());
  for (int i = 0; i < 2; ++i) {
    const Status status = context->wait();
    EXPECT_EQ(status.code(), BP_INTERNAL) << status.to_string();
    expect_words(status, {"operator relu", "node 'clip'", "injected"});
  }
  EXPECT_EQ(context->run(inputs).status().code(), BP_POISONED);
  ASSERT_TRUE(stream.reset().ok());
  EXPECT_FALSE(copy_to_host((*lost)[0]).ok()) << "what was lost stays lost";
  const auto next = context->run(inputs);
  ASSERT_TRUE(next.ok()) << next.status().to_string();
  EXPECT_EQ(values((*next)[0]), (std::vector<float>{4}));
}

TEST_F(ExecutableSketch, Errors_LostDevice_AnswersAtOnceAndDestroysWork) {
  const auto graph = compiled(gather_graph());
  const auto context = context_of(*graph, new_stream());
  const Ref<Tensor> inputs[] = {upload<float>(BP_DTYPE_F32, {4}, {1, 2, 3, 4}),
                                upload<int64_t>(BP_DTYPE_I64, {1}, {3})};
  inject(BP_INJECT_LOSE_DEVICE, 3);
  const auto run = context->run(inputs);  // its own call may be told already
  if (!run.ok()) {
    EXPECT_EQ(run.status().code(), BP_DEVICE_LOST);
  }
  EXPECT_EQ(context->wait().code(), BP_DEVICE_LOST);
  EXPECT_EQ(context->run(inputs).status().code(), BP_DEVICE_LOST);
}

TEST_F(ExecutableSketch, Errors_ImagesAndBlobsThatAreNone_AreRefused) {
  const auto image = write_image(gather_graph());
  ASSERT_TRUE(image.ok());
  bp_device* const device = device_->table().device;
  std::vector<uint32_t> groups(2);
  for (uint64_t bytes = 0; bytes < image->bytes(); bytes += 8) {
    bp_claim claim{sizeof(claim), 0, groups.size(), groups.data(), {}};
    EXPECT_EQ(api_.executable_claim(device, image->data(), bytes, &claim), BP_INVALID_ARGUMENT);
  }
  for (size_t i = 0; i < image->words.size(); ++i) {
    for (const uint64_t flip : {uint64_t{1}, uint64_t{1} << 35, ~uint64_t{0}}) {
      GraphImage damaged = *image;
      damaged.words[i] ^= flip;
      bp_claim claim{sizeof(claim), 0, groups.size(), groups.data(), {}};
      // Whatever it answers: it must not read beyond the image.
      api_.executable_claim(device, damaged.data(), damaged.bytes(), &claim);
    }
  }
  const auto graph = compiled(gather_graph());
  auto bytes = graph->serialize();
  ASSERT_TRUE(bytes.ok());
  const auto verdict = [&](std::span<const std::byte> given) {
    const bp_blob blob{sizeof(blob), 0, given.data(), given.size()};
    bp_compat compat{};
    compat.struct_size = sizeof(compat);
    EXPECT_EQ(api_.executable_compat(device, &blob, &compat), BP_OK);
    return compat.verdict;
  };
  EXPECT_EQ(verdict(*bytes), BP_COMPAT_YES);
  EXPECT_EQ(verdict(std::span(*bytes).first(10)), BP_COMPAT_NO);
  bytes->back() ^= std::byte{1};
  CompiledGraph loaded(*device_, api_, gather_graph());
  EXPECT_EQ(loaded.load(*bytes).code(), BP_INCOMPATIBLE);
  (*bytes)[0] ^= std::byte{1};
  EXPECT_EQ(verdict(*bytes), BP_COMPAT_NO);
}

}  // namespace
}  // namespace bp
