// SPDX-License-Identifier: Apache-2.0
//
// Kernels that ask much of the core or answer it badly: workspaces of copies, alignments that no
// workspace has, sizes that cannot be, and memory that runs out while a kernel is chosen.
#include <algorithm>

#include "core/base/log.hpp"
#include "core/dispatch/dispatcher.hpp"
#include "core/dispatch/elsewhere.hpp"
#include "tests/integration/device_fixture.hpp"

namespace bp {
namespace {

class OddKernelsTest : public DeviceTest {
 protected:
  void SetUp() override { open_with("none"); }
  void open_with(const std::string& fault, const std::string& fallback = "allow") {
    RuntimeArgs args = test_runtime_args();
    args.plugin_path = {BP_FAKES_DIR "/odd_kernels"};
    args.plugin_options = {{"odd_kernels.device_fault", fault}};
    args.options = {{"BACKPLANE_FALLBACK", fallback}};
    open(args);
  }
  Ref<Session> session_of(std::string_view name, size_t input_count) {
    Graph graph(runtime_->registry());
    // Planned when it runs, as its sizes are not fixed.
    auto x = graph.add_input("x", {BP_DTYPE_F32, true, {graph.symbol("N")}});
    const std::vector<ValueId> inputs(input_count, *x);
    auto y = graph.op(name, inputs);
    EXPECT_TRUE(y.ok()) << y.status().to_string();
    EXPECT_TRUE(graph.set_outputs({*y}, {"y"}).ok());
    auto made = Session::create(*runtime_, std::move(graph), {.device = device_, .dims = {}});
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return made.ok() ? *made : nullptr;
  }
};

TEST_P(OddKernelsTest, Identity_WantsAWorkspace_CopiesAStridedTensor) {
  const Ref<Tensor> x = upload_f32({2, 3}, {1, 2, 3, 4, 5, 6});
  const Ref<Tensor> turned = must_call("transpose", {x});
  EXPECT_EQ(values(turned), (std::vector<double>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(values(must_call("sub", {turned, turned})), std::vector<double>(6, 0));
  const Ref<Tensor> target = upload_f32({3, 2}, std::vector<double>(6, 0));
  ASSERT_TRUE(copy_into(turned, target, true, device_->default_stream()).ok());
  EXPECT_EQ(values(target), (std::vector<double>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(runtime_->fallback_summary().find("identity"), std::string::npos)
      << runtime_->fallback_summary();
}

TEST_P(OddKernelsTest, Workspace_AlignedToMoreThan256_TheNextKernelIsAsked) {
  EXPECT_EQ(Dispatcher::of(*device_).kernel_names(op("relu")),
            (std::vector<std::string>{"relu_picky", "relu_plain"}));
  EXPECT_EQ(values(must_call("relu", {upload_f32({3}, {-1, 0, 2})})),
            (std::vector<double>{0, 0, 2}));
  EXPECT_EQ(device_->counters().fallback_ops, 0u);
}

TEST_P(OddKernelsTest, Workspace_AlignedToMoreThan256_NoOtherKernel_IsTold) {
  open_with("none", "deny");
  const auto y = try_call("sqrt", {upload_f32({1}, {4})});
  ASSERT_FALSE(y.ok());
  EXPECT_EQ(y.status().code(), BP_UNSUPPORTED);
  expect_words(y.status(), {"sqrt_picky", "workspace", "more than 256 bytes"});
}

TEST_P(OddKernelsTest, ModelThatFallsBack_IsWarnedOfOnce) {
  open_with("none", "warn");
  std::vector<std::string> lines;
  set_log_sink([&](uint32_t, std::string_view line) { lines.emplace_back(line); });
  const Ref<Session> s = session_of("mul", 2);
  ASSERT_TRUE(s);
  for (const int64_t size : {2, 3}) {
    const std::vector<double> ones(static_cast<size_t>(size), 1);
    const NamedTensor named[] = {{"x", upload_f32({size}, ones)}};
    const auto outputs = s->run(named);
    EXPECT_TRUE(outputs.ok()) << outputs.status().to_string();
  }
  set_log_sink({});
  const std::string said = "odd_kernels:0 does not run mul: it runs on cpu:0";
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                          [&](const std::string& line) { return line.starts_with(said); }),
            1)
      << testing::PrintToString(lines);
}

TEST_P(OddKernelsTest, KernelsThatDoNotFit_AreALineOfTheLogForEachKind) {
  std::vector<std::string> lines;
  set_log_sink([&](uint32_t, std::string_view line) { lines.emplace_back(line); });
  open_with("list_misfits", "deny");
  Dispatcher::of(*device_);
  set_log_sink({});
  for (const char* said :
       {"odd_kernels:0: left out: kernel 0 (relu_void): launch is missing",
        "odd_kernels:0: 1 kernels for unknown operators are never used; the first is relu_slip for "
        "'rleu'; did you mean relu?",
        "odd_kernels:0: 2 kernels do not fit their operators and are never used; the "
        "first is add_any which has 0 dtype sets; add has 1"}) {
    EXPECT_EQ(std::count(lines.begin(), lines.end(), said), 1) << testing::PrintToString(lines);
  }
  const Ref<Tensor> x = upload_f32({2}, {1, 2});
  EXPECT_EQ(values(must_call("sub", {x, x})), (std::vector<double>{0, 0}));
}

TEST_P(OddKernelsTest, KernelLeftOut_IsAReasonForItsOwnOperatorOnly) {
  open_with("list_misfits", "deny");
  const Ref<Tensor> x = upload_f32({2}, {1, 2});
  expect_words(try_call("relu", {x}).status(),
               {"(no kernel for this operator; left out: kernel 0 (relu_void): launch is missing"});
  expect_words(try_call("mul", {x, x}).status(), {"(no kernel for this operator) and BACKPLANE"});
  expect_words(try_call("add", {x, x}).status(), {"add_any has 0 dtype sets, the operator has 1"});
}

// By its place in the search it would be the first.
TEST(HostDevice, InlineDeviceWithFewKernels_IsNotTaken) {
  RuntimeArgs args = test_runtime_args();
  args.plugin_path = {BP_FAKES_DIR "/odd_kernels"};
  args.plugin_options = {{"odd_kernels.inline", "true"}, {"odd_kernels.host_memory", "true"}};
  const auto runtime = Runtime::create(args);
  ASSERT_TRUE(runtime.ok()) << runtime.status().to_string();
  const Device& first = *(*runtime)->devices().front();
  ASSERT_EQ(first.name(), "odd_kernels:0");
  ASSERT_TRUE(first.is_inline() && first.has_host_memory());
  ASSERT_NE((*runtime)->host_device(), nullptr);
  EXPECT_EQ((*runtime)->host_device()->name(), "cpu:0");
}

// A vendor reads which simpler operators would have been enough.
TEST_P(OddKernelsTest, Decomposition_LacksParts_TheyAreNamedWithReasons) {
  open_with("none", "deny");
  const Ref<Tensor> x = upload_f32({1, 2, 1}, {1, 2});
  const Ref<Tensor> p = upload_f32({2}, {1, 2});
  const auto y = try_call("batch_norm", {x, p, p, p, p});
  ASSERT_FALSE(y.ok());
  EXPECT_EQ(y.status().code(), BP_UNSUPPORTED);
  expect_words(y.status(), {"not decomposed", "needs sqrt (", "sqrt_picky", "mul ("});
  EXPECT_EQ(y.status().message().find("add ("), std::string::npos) << y.status().message();
}

// The kernels throw if they are launched.
TEST_P(OddKernelsTest, Workspace_OfMoreThanThereIs_IsToldByKernel) {
  open_with("none", "deny");
  const struct {
    const char* op;
    std::initializer_list<const char*> kernels;
    bp_status code;
  } cases[] = {
      {"reciprocal", {"reciprocal_hugest", "reciprocal_huge", "workspace"}, BP_UNSUPPORTED},
      {"softmax", {"softmax_large", "workspace"}, BP_OUT_OF_MEMORY}};
  for (const auto& c : cases) {
    const Status eager = try_call(c.op, {upload_f32({3}, {1, 2, 3})}).status();
    EXPECT_EQ(eager.code(), c.code) << eager.to_string();
    expect_words(eager, c.kernels);
    const auto session =
        Session::create(*runtime_, row_of({c.op}, {3}), {.device = device_, .dims = {}});
    const NamedTensor input[] = {{"x", upload_f32({3}, {1, 2, 3})}};
    const Status run = session.ok() ? (*session)->run(input, {}).status() : session.status();
    EXPECT_EQ(run.code(), c.code) << run.to_string();
    expect_words(run, c.kernels);
  }
}

TEST_P(OddKernelsTest, OrderOfAPlansChoice_ReadersFollowIt) {
  const Graph graph = row_of({"neg", "relu", "neg", "neg"}, {2, 3});
  const NamedTensor input[] = {{"x", upload_f32({2, 3}, {-1, 2, -3, 4, -5, 6})}};
  const Ref<Session> s = session(graph);
  ASSERT_TRUE(s);
  const auto outputs = s->run(input);
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  EXPECT_EQ(values((*outputs)[0]), (std::vector<double>{1, 0, 3, 0, 5, 0}));
  EXPECT_EQ((*outputs)[0]->strides(), (Dims{3, 1})) << "answers are contiguous";
  EXPECT_EQ(device_->counters().fallback_ops, 0u);
  const Ref<Tensor> eager = must_call("neg", {input[0].second});
  EXPECT_EQ(eager->strides(), (Dims{3, 1}));
}

TEST_P(OddKernelsTest, OrderThatCannotBe_ThePlanIsRefusedWithWords) {
  const std::pair<const char*, const char*> faults[] = {
      {"order_overlaps", "[1, 1]"}, {"order_gaps", "[1, 3]"},
      {"order_repeats", "[0, 1]"},  {"order_negative", "[-1, 2]"},
      {"order_short", "[1, 0]"},    {"order_huge", "[9223372036854775807, -9223372036854775808]"}};
  for (const auto& [fault, found] : faults) {
    SCOPED_TRACE(fault);
    open_with(fault, "deny");
    const NamedTensor input[] = {{"x", upload_f32({2, 3}, {-1, 2, -3, 4, -5, 6})}};
    const auto session = Session::create(*runtime_, row_of({"neg", "relu"}, {2, 3}),
                                         {.device = device_, .dims = {}});
    const Status status = session.ok() ? (*session)->run(input).status() : session.status();
    EXPECT_EQ(status.code(), BP_UNSUPPORTED) << status.to_string();
    expect_words(status, {"neg_ordered lays output 0 of sizes [2, 3] by strides", found,
                          "expected [3, 1] or those of another order of the dimensions"});
  }
}

TEST_P(OddKernelsTest, OrderThatNobodyAskedFor_ThePlanIsRefusedWithWords) {
  open_with("order_unasked", "deny");
  const Status status = try_call("neg", {upload_f32({2, 3}, {1, 2, 3, 4, 5, 6})}).status();
  EXPECT_EQ(status.code(), BP_UNSUPPORTED) << status.to_string();
  expect_words(status, {"neg_ordered lays output 0", "[1, 2]", "expected [3, 1]"});
}

TEST_P(OddKernelsTest, OrderThatCannotBeRead_ThePlanIsRefusedWithWords) {
  open_with("order_misaligned", "deny");
  const Status status = try_call("neg", {upload_f32({2, 3}, {1, 2, 3, 4, 5, 6})}).status();
  EXPECT_EQ(status.code(), BP_UNSUPPORTED) << status.to_string();
  expect_words(status,
               {"neg_ordered lays its outputs by strides at an address that is not aligned"});
}

TEST_P(OddKernelsTest, WorkspaceAlignedToNoPowerOfTwo_ThePlanIsRefusedWithWords) {
  open_with("none", "deny");
  const Status status = try_call("ceil", {upload_f32({2}, {1, 2})}).status();
  EXPECT_EQ(status.code(), BP_UNSUPPORTED) << status.to_string();
  expect_words(status, {"ceil_crooked wants its workspace aligned to 48 bytes",
                        "expected a power of two up to 256"});
}

TEST_P(OddKernelsTest, ManyPlansAreRefused_TheFirstAreNamedAndTheRestCounted) {
  open_with("list_unwilling", "deny");
  const Status status = try_call("floor", {upload_f32({2}, {1, 2})}).status();
  EXPECT_EQ(status.code(), BP_UNSUPPORTED) << status.to_string();
  expect_words(status, {"pa wants its workspace", "; and 24 kernels more"});
  EXPECT_EQ(status.message().find("qa wants"), std::string::npos) << status.message();
}

TEST_P(OddKernelsTest, NonZero_SizesAsFound_AreTaken) {
  EXPECT_EQ(download(must_call("non_zero", {upload_f32({3}, {0, 5, 7})})).to_i64(),
            (std::vector<int64_t>{1, 2}));
}

TEST_P(OddKernelsTest, NonZero_SizesThatCannotBe_AreRefused) {
  for (const char* fault : {"extents_above", "extents_negative"}) {
    open_with(fault);
    const char* const found = fault == std::string("extents_above") ? "[1, 4]" : "[1, -1]";
    const Ref<Tensor> x = upload_f32({3}, {0, 5, 7});
    const auto y = try_call("non_zero", {x});
    ASSERT_FALSE(y.ok());
    EXPECT_EQ(y.status().code(), BP_INTERNAL);
    expect_words(y.status(),
                 {"non_zero_told", "reported sizes", found, "from 0 to the bound [1, 3]"});
    const Ref<Session> s = session_of("non_zero", 1);
    ASSERT_TRUE(s);
    const NamedTensor named[] = {{"x", x}};
    const auto outputs = s->run(named);
    ASSERT_FALSE(outputs.ok());
    EXPECT_EQ(outputs.status().code(), BP_INTERNAL);
    expect_words(outputs.status(), {"non_zero_told on odd_kernels:0", "reported sizes", found,
                                    "from 0 to the bound [1, 3]"});
  }
}

// Each read makes a plan, which ends with the work that was queued with it.
TEST_P(OddKernelsTest, StridedReads_KeepFewPlans) {
  const Ref<Tensor> x = upload_f32({2, 3}, {0, 1, 2, 3, 4, 5});
  const Ref<Tensor> turned = x->view({3, 2}, {1, 3}, 0);
  for (int i = 0; i < 2000; ++i) {
    ASSERT_EQ(values(turned), (std::vector<double>{0, 3, 1, 4, 2, 5}));
  }
  EXPECT_LE(device_->deferred_free().count(), 300u);
}

TEST_P(OddKernelsTest, NonZero_SizesThatNoValuesChange_AreHeldToThem) {
  open_with("extents_of_rank");
  const Ref<Tensor> x = upload_f32({3}, {0, 5, 7});
  const auto y = try_call("non_zero", {x});
  ASSERT_FALSE(y.ok());
  EXPECT_EQ(y.status().code(), BP_INTERNAL);
  expect_words(y.status(), {"non_zero_told on odd_kernels:0", "reported sizes [0, 2]",
                            "expected 1 in dimension 0, which no values change"});
  const Ref<Session> s = session_of("non_zero", 1);
  ASSERT_TRUE(s);
  const NamedTensor named[] = {{"x", x}};
  expect_words(s->run(named).status(), {"expected 1 in dimension 0"});
}

TEST_P(OddKernelsTest, Supports_OutOfMemoryOnce_IsNotKeptAsANo) {
  open_with("supports_no_memory");
  const Ref<Session> s = session_of("sub", 2);
  ASSERT_TRUE(s);
  const NamedTensor named[] = {{"x", upload_f32({3}, {1, 2, 3})}};
  EXPECT_EQ(s->run(named).status().code(), BP_OUT_OF_MEMORY);
  const auto outputs = s->run(named);
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  EXPECT_EQ(s->placements()[0].kernels, std::vector<std::string>{"sub_later"});
}

/// One answer of supports is for all sizes: who is outside of its ranges takes the next kernel, and
/// the plan is not asked.
TEST_P(OddKernelsTest, Ranges_SizesOutside_TakeTheNextKernel) {
  open_with("ranges_few");
  const Ref<Session> s = session_of("sub", 2);
  ASSERT_TRUE(s);
  for (const int64_t count : {3, 5, 4, 5}) {
    const std::vector<double> numbers(static_cast<size_t>(count), 2);
    const NamedTensor named[] = {{"x", upload_f32({count}, numbers)}};
    const auto outputs = s->run(named);
    ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
    EXPECT_EQ(values((*outputs)[0]), std::vector<double>(numbers.size(), 0));
    EXPECT_EQ(s->placements()[0].kernels[0], count > 4 ? "sub_dense" : "sub_later") << count;
  }
}

/// Before sizes are known: what they may be decides whether a kernel counts.
TEST_P(OddKernelsTest, Ranges_NoSizeThatMayBeIsInside_HasNoKernel) {
  open_with("ranges_few");
  const auto has_kernel = [&](const DimRange& range) {
    const std::vector<TensorType> inputs(2, {BP_DTYPE_F32, true, {symbol_dim(0)}});
    return Dispatcher::of(*device_).has_kernel(op("sub"), inputs, {inputs.data(), 1},
                                               attributes("sub"), {.deterministic = true},
                                               [&](int64_t) { return range; });
  };
  EXPECT_TRUE(has_kernel({}));
  EXPECT_TRUE(has_kernel({4, 9}));
  EXPECT_TRUE(has_kernel({2, 3}));
  EXPECT_FALSE(has_kernel({5, 9}));
}

TEST_P(OddKernelsTest, Ranges_ThatCannotBe_TheNextKernelIsTakenAndTheLogSaysWhy) {
  for (const auto& [fault, words] :
       {std::pair("ranges_backwards", "its range 0 is from 5 to 4"),
        std::pair("ranges_negative", "its range 0 is from -7 to 4"),
        std::pair("ranges_no_dimension", "its range 0 is of dimension 1 of argument 0"),
        std::pair("ranges_no_argument", "its range 0 is of argument 3; there are 3"),
        std::pair("ranges_many", "its ranges are 257")}) {
    open_with(fault);
    const Ref<Session> s = session_of("sub", 2);
    ASSERT_TRUE(s);
    const NamedTensor named[] = {{"x", upload_f32({3}, {1, 2, 3})}};
    std::string log;
    set_log_sink([&](uint32_t, std::string_view line) { log += std::string(line) + "\n"; });
    const auto outputs = s->run(named);
    set_log_sink({});
    ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
    EXPECT_EQ(s->placements()[0].kernels, std::vector<std::string>{"sub_dense"}) << fault;
    EXPECT_NE(log.find(words), std::string::npos) << log;
    EXPECT_NE(log.find("sub_later"), std::string::npos) << log;
  }
}

TEST_P(OddKernelsTest, KernelList_OutOfMemoryOnce_IsAskedForAgain) {
  open_with("list_no_memory");
  const Ref<Tensor> x = upload_f32({2}, {-1, 1});
  const auto refused = contain([&] { return try_call("add", {x, x}); });
  EXPECT_EQ(refused.status().code(), BP_OUT_OF_MEMORY) << refused.status().to_string();
  EXPECT_EQ(values(must_call("add", {x, x})), (std::vector<double>{-2, 2}));
  EXPECT_EQ(device_->counters().fallback_ops, 0u);
}

TEST_P(OddKernelsTest, KernelList_Fails_ACallSaysWhy) {
  open_with("list_fails", "deny");
  const Ref<Tensor> x = upload_f32({2}, {-1, 1});
  const auto y = try_call("add", {x, x});
  ASSERT_FALSE(y.ok());
  EXPECT_EQ(y.status().code(), BP_UNSUPPORTED);
  expect_words(y.status(), {"offers no kernels", "the kernels are lost"});
}

TEST_P(OddKernelsTest, FaultWordThatCannotBe_IsADefectOfThePlugin) {
  for (const auto& [fault, words] :
       {std::pair("gather_new_fault", "code 77, which is new to this core"),
        std::pair("gather_odd_input", "input 999, which it does not have"),
        std::pair("gather_no_fault", "index 2 of extent 3, which is no fault"),
        std::pair("gather_below_nothing", "index 9 of extent -1, which is no fault")}) {
    RuntimeArgs args = test_runtime_args();
    args.plugin_path = {BP_FAKES_DIR "/wrong_kernels"};
    args.plugin_options = {{"wrong_kernels.device_fault", fault}};
    open_or_skip(args, "wrong_kernels:0", &runtime_, &device_);
    const double beyond[] = {9};
    const Ref<Tensor> index = upload(OracleTensor::from_f64(BP_DTYPE_I64, {1}, beyond));
    const Ref<Tensor> picked =
        must_call("gather", {upload_f32({3}, {1, 2, 3}), index}, attributes("gather"));
    const Status status = copy_to_host(picked).status();
    EXPECT_EQ(status.to_string(),
              "INTERNAL: wrong_kernels:0: launch of kernel gather_told (operator gather) wrote "
              "fault " +
                  std::string(words) + ": a defect of the plugin");
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, OddKernelsTest, testing::Values("odd_kernels:0"),
                         device_test_name);

/// What eager calls and plans ask alike.
class ElsewhereTest : public DeviceTest {
 protected:
  /// refuses[i]: device i has no way either.
  Result<Elsewhere> route(const std::vector<bool>& refuses, bool is_chosen = false) {
    Device* const host = runtime_->host_device();
    const std::vector<Device*> others{device_, host, host};
    asked_.clear();
    return route_elsewhere({"relu", *device_, "too small", others, is_chosen},
                           [&](size_t i) -> Result<std::shared_ptr<const Route>> {
                             asked_.push_back(i);
                             Route route;
                             route.kind = refuses[i] ? RouteKind::kFallback : RouteKind::kNative;
                             route.reason = "reason " + std::to_string(i);
                             return std::make_shared<const Route>(std::move(route));
                           });
  }
  std::vector<size_t> asked_;
};

TEST_P(ElsewhereTest, TheFirstThatHasAWay_AndTheRefusingDeviceIsNotAsked) {
  auto found = route({false, false, false});
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(found->index, 1u);
  EXPECT_EQ(asked_, (std::vector<size_t>{1}));
  found = route({false, true, false});
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(found->index, 2u);
}

TEST_P(ElsewhereTest, AllRefuse_TheWordsHaveEachReason) {
  const auto found = route({true, true, true});
  EXPECT_EQ(found.status().code(), BP_UNSUPPORTED);
  expect_words(found.status(), {"operator relu does not run on npu:0 (too small)",
                                "nor on cpu:0 (reason 1)", "(reason 2)"});
}

TEST_P(ElsewhereTest, FallbackDenied_OnlyChosenDevicesAreAsked) {
  RuntimeArgs args = test_runtime_args();
  args.options = {{"BACKPLANE_FALLBACK", "deny"}};
  open(args);
  const auto denied = route({false, false, false});
  EXPECT_EQ(denied.status().code(), BP_UNSUPPORTED);
  expect_words(denied.status(), {"BACKPLANE_FALLBACK is deny"});
  EXPECT_TRUE(asked_.empty());
  EXPECT_TRUE(route({false, false, false}, true).ok());
}

INSTANTIATE_TEST_SUITE_P(Devices, ElsewhereTest, testing::Values("npu:0"), device_test_name);

}  // namespace
}  // namespace bp
