// SPDX-License-Identifier: Apache-2.0
//
// What a launch does beside arithmetic: it owns its arguments, faults, writes extents, breaks its
// stream when memory is gone, and refuses tensors that reach where they may not.
#include "plugins/npu/kernels/kernel_harness_test.hpp"

namespace bp::npu_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

bp_fault_word fault_of(const Call& call) {
  const auto bytes = call.device.download<uint8_t>(call.fault, sizeof(bp_fault_word));
  bp_fault_word word{};
  std::memcpy(&word, bytes.data(), sizeof word);
  return word;
}

bp_attrs_gather gather_axis(int64_t axis) {
  bp_attrs_gather attributes = bp_attrs_gather_defaults();
  attributes.axis = axis;
  return attributes;
}

TEST(NpuGather, Axes_AndIndexShapes) {
  const Input x = dense<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  bp_attrs_gather attributes = gather_axis(0);
  EXPECT_THAT(compute<float>("gather", {x, dense<int64_t>({2}, {1, 0})}, {2, 3}, &attributes),
              ElementsAre(4, 5, 6, 1, 2, 3));
  attributes = gather_axis(-1);
  EXPECT_THAT(
      compute<float>("gather", {x, dense<int32_t>({1, 2}, {2, -3})}, {2, 1, 2}, &attributes),
      ElementsAre(3, 1, 6, 4));
  EXPECT_THAT(compute<float>("gather", {x, dense<int64_t>({}, {1})}, {2}, &attributes),
              ElementsAre(2, 5));
  EXPECT_THAT(compute<float>("gather", {x, dense<int64_t>({0}, {})}, {2, 0}, &attributes),
              IsEmpty());
}

TEST(NpuGather, StridedOperands_AreRead) {
  const Input x = strided<uint16_t>({3, 2}, {1, 3}, 0, {1, 2, 3, 4, 5, 6});
  const Input indices = strided<int64_t>({2}, {-2}, 2, {0, 9, 2});
  EXPECT_THAT(compute<uint16_t>("gather", {x, indices}, {2, 2}), ElementsAre(3, 6, 1, 4));
}

TEST(NpuGather, IndexOutOfRange_IsClampedAndTheFirstOneReported) {
  const bp_attrs_gather attributes = gather_axis(0);
  for (const bool on_stream : {false, true}) {
    Call call("gather", {dense<float>({3}, {1, 2, 3}), dense<int64_t>({4}, {1, 3, -4, 2})},
              BP_DTYPE_F32, {4}, &attributes);
    const Stream stream(call.device);
    ASSERT_EQ(call.make_plan(), BP_OK);
    EXPECT_TRUE(call.can_fault);
    call.args.fault = call.fault;
    EXPECT_EQ(call.launch(on_stream ? stream.get() : nullptr), BP_OK);
    EXPECT_EQ(stream.sync(), BP_OK);  // A data fault leaves the stream healthy.
    EXPECT_THAT(call.output<float>(), ElementsAre(2, 3, 1, 3));
    const bp_fault_word word = fault_of(call);
    EXPECT_EQ(word.code, BP_FAULT_INDEX);
    EXPECT_EQ(word.input, 1u);
    EXPECT_EQ(word.op_seq, 77u);
    EXPECT_EQ(word.index, 3);
    EXPECT_EQ(word.extent, 3);
  }
}

TEST(NpuGather, GoodIndices_LeaveTheFaultWordAlone) {
  const bp_attrs_gather attributes = gather_axis(0);
  Call call("gather", {dense<float>({2}, {1, 2}), dense<int32_t>({2}, {-2, 1})}, BP_DTYPE_F32, {2},
            &attributes);
  ASSERT_EQ(call.make_plan(), BP_OK);
  call.args.fault = call.fault;
  EXPECT_EQ(call.launch(), BP_OK);
  EXPECT_EQ(fault_of(call).code, BP_FAULT_NONE);
}

TEST(NpuGather, FromNothing_FaultsAndGivesZero) {
  const bp_attrs_gather attributes = gather_axis(0);
  Call call("gather", {dense<float>({0}, {}), dense<int64_t>({1}, {0})}, BP_DTYPE_F32, {1},
            &attributes);
  ASSERT_EQ(call.make_plan(), BP_OK);
  call.args.fault = call.fault;
  EXPECT_EQ(call.launch(), BP_OK);
  EXPECT_THAT(call.output<float>(), ElementsAre(0));
  EXPECT_EQ(fault_of(call).extent, 0);
  EXPECT_EQ(fault_of(call).code, BP_FAULT_INDEX);
}

TEST(NpuGather, AxisOutOfRange_IsRefusedByThePlan) {
  const bp_attrs_gather attributes = gather_axis(-2);
  Call call("gather", {dense<float>({1}, {1}), dense<int64_t>({1}, {0})}, BP_DTYPE_F32, {1},
            &attributes);
  EXPECT_EQ(call.make_plan(), BP_INVALID_ARGUMENT);
  EXPECT_EQ(call.launch(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(call.device.host().last_message(), HasSubstr("without a plan"));
}

TEST(NpuNonZero, Extents_TellTheRealSizes) {
  const Input x = dense<float>({2, 2}, {5, 0, -0.0f, 7});
  for (const bool on_stream : {false, true}) {
    Call call("non_zero", {x}, BP_DTYPE_I64, {2, 4});
    const Stream stream(call.device);
    call.args.out_extents = call.extents;
    EXPECT_EQ(call.launch(on_stream ? stream.get() : nullptr), BP_OK);
    EXPECT_EQ(stream.sync(), BP_OK);
    EXPECT_THAT(call.device.download<int64_t>(call.extents, 2), ElementsAre(2, 2));
    const std::vector<int64_t> y = call.output<int64_t>();  // Rows stay 4 apart.
    EXPECT_THAT(std::vector(y.begin(), y.begin() + 2), ElementsAre(0, 1));
    EXPECT_THAT(std::vector(y.begin() + 4, y.begin() + 6), ElementsAre(0, 1));
  }
}

TEST(NpuNonZero, EmptyAndRankZero_HaveExtentsToo) {
  Call empty("non_zero", {as_bool(dense<uint8_t>({0, 3}, {}))}, BP_DTYPE_I64, {2, 0});
  empty.args.out_extents = empty.extents;
  EXPECT_EQ(empty.launch(), BP_OK);
  EXPECT_THAT(empty.device.download<int64_t>(empty.extents, 2), ElementsAre(2, 0));
  Call scalar("non_zero", {dense<int32_t>({}, {3})}, BP_DTYPE_I64, {0, 1});
  scalar.args.out_extents = scalar.extents;
  EXPECT_EQ(scalar.launch(), BP_OK);
  EXPECT_THAT(scalar.device.download<int64_t>(scalar.extents, 2), ElementsAre(0, 1));
}

TEST(NpuNonZero, WithoutExtents_IsRefused) {
  Call call("non_zero", {dense<int32_t>({1}, {3})}, BP_DTYPE_I64, {1, 1});
  EXPECT_EQ(call.launch(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(call.device.host().last_message(), HasSubstr("out_extents"));
}

TEST(NpuLaunch, ArgumentsThatAreGoneWhenItRuns_DoNotMatter) {
  const Dims axes = {1};
  bp_attrs_reduce_sum attributes = bp_attrs_reduce_sum_defaults();
  attributes.axes = {axes.data(), 1};
  Call call("reduce_sum", {dense<float>({2, 2}, {1, 2, 3, 4})}, BP_DTYPE_F32, {2, 1}, &attributes);
  const Stream stream(call.device);
  Gate gate(stream);
  EXPECT_EQ(call.launch(stream.get()), BP_OK);
  attributes.axes = {nullptr, 99};
  call.infos()[0].sizes = {7, 7};
  call.infos()[0].strides.assign(2, 1000);
  gate.release();
  EXPECT_EQ(stream.sync(), BP_OK);
  EXPECT_THAT(call.output<float>(), ElementsAre(3, 7));
}

TEST(NpuLaunch, MemoryGoneWhenItRuns_BreaksTheStreamByName) {
  Call call("relu", {dense<float>({2}, {-1, 1})}, BP_DTYPE_F32, {2});
  const uint64_t doomed = call.device.alloc(8);
  const Stream stream(call.device);
  Gate gate(stream);
  const Dims sizes = {2}, strides = {1};
  const bp_tensor tensors[] = {
      {doomed, 0, 8, BP_DTYPE_F32, 1, sizes.data(), strides.data(), 0, 0, 0},
      {call.output_handle(), 0, 8, BP_DTYPE_F32, 1, sizes.data(), strides.data(), 0, 0, 0}};
  call.args.tensors = tensors;
  call.args.stream = stream.get();
  EXPECT_EQ(call.kernel->launch(&call.args), BP_OK);
  call.device.free(doomed);
  gate.release();
  EXPECT_EQ(stream.sync(), BP_INVALID_ARGUMENT);
  const std::vector<tests::HostReport> reports = call.device.host().reports();
  ASSERT_FALSE(reports.empty());
  EXPECT_EQ(reports[0].op_seq, 77u);
  EXPECT_EQ(reports[0].stream, stream.get());
  EXPECT_EQ(call.launch(stream.get()), BP_POISONED);
  EXPECT_EQ(call.launch(), BP_OK);  // Without the stream all is well.
  EXPECT_THAT(call.output<float>(), ElementsAre(0, 1));
}

TEST(NpuLaunch, BadTensors_AreCallErrorsWithWords) {
  const auto message_of = [](const auto& spoil) {
    Call call("relu", {dense<float>({2, 2}, {1, 2, 3, 4})}, BP_DTYPE_F32, {2, 2});
    const Stream stream(call.device);
    spoil(call.infos()[0]);
    EXPECT_EQ(call.launch(stream.get()), BP_INVALID_ARGUMENT);
    EXPECT_EQ(stream.sync(), BP_OK);
    return call.device.host().last_message();
  };
  EXPECT_THAT(message_of([](Input& x) { x.strides = {3, 1}; }), HasSubstr("its storage has 16"));
  EXPECT_THAT(message_of([](Input& x) { x.strides = {-2, 1}; }), HasSubstr("8 bytes before"));
  EXPECT_THAT(message_of([](Input& x) {
                x.bytes.resize(20), x.strides = {3, 1};
              }),
              HasSubstr("reach beyond the 16 bytes"));
  EXPECT_THAT(message_of([](Input& x) { x.strides = {INT64_MAX, 1}; }), HasSubstr("2^63"));
  EXPECT_THAT(message_of([](Input& x) { x.sizes = x.strides = Dims(17, 1); }),
              HasSubstr("rank 17"));
}

TEST(NpuLaunch, WrongPointers_AreRefusedWithWords) {
  Call call("relu", {dense<float>({2}, {1, 2})}, BP_DTYPE_F32, {2});
  const Device other;
  const Stream foreign(other);
  EXPECT_EQ(call.launch(foreign.get()), BP_INVALID_ARGUMENT);
  EXPECT_THAT(call.device.host().last_message(), HasSubstr("another device"));
  EXPECT_EQ(call.kernel->launch(nullptr), BP_INVALID_ARGUMENT);
  float host_values[2] = {1, 2};
  const Dims sizes = {2}, strides = {1};
  const uint64_t address = host_mem(host_values).handle;
  const bp_tensor tensors[] = {
      {address, 0, 8, BP_DTYPE_F32, 1, sizes.data(), strides.data(), 0, 0, 0},
      {call.output_handle(), 0, 8, BP_DTYPE_F32, 1, sizes.data(), strides.data(), 0, 0, 0}};
  call.args.tensors = tensors;
  call.args.stream = nullptr;
  EXPECT_EQ(call.kernel->launch(&call.args), BP_INVALID_ARGUMENT);
  EXPECT_THAT(call.device.host().last_message(), HasSubstr("is it a host pointer?"));
}

TEST(NpuLaunch, HostArguments_ComeWhereTheRulesSayThem) {
  Call sum("cumsum", {dense<float>({3}, {1, 2, 3}), dense<int64_t>({}, {0})}, BP_DTYPE_F32, {3});
  EXPECT_EQ(sum.launch(), BP_INVALID_ARGUMENT);
  EXPECT_THAT(sum.device.host().last_message(), HasSubstr("tensor 1 is not in host memory"));
  std::vector<bp_tensor> tensors(sum.args.tensors, sum.args.tensors + 3);
  int64_t axis = 0;
  tensors[1].handle = reinterpret_cast<uint64_t>(&axis);
  tensors[1].flags = BP_TENSOR_HOST_BIT;
  sum.args.tensors = tensors.data();
  const Stream stream(sum.device);
  sum.args.stream = stream.get();
  EXPECT_EQ(sum.kernel->launch(&sum.args), BP_OK) << sum.device.host().last_message();
  axis = 7;
  EXPECT_EQ(stream.sync(), BP_OK);
  EXPECT_THAT(sum.output<float>(), ElementsAre(1, 3, 6));
  tensors[0].flags = BP_TENSOR_HOST_BIT;
  EXPECT_EQ(sum.kernel->launch(&sum.args), BP_INVALID_ARGUMENT);
  EXPECT_THAT(sum.device.host().last_message(), HasSubstr("tensor 0 is in host memory"));
}

TEST(NpuLaunch, UnknownFlags_AreUnsupportedAndNothingRuns) {
  constexpr uint32_t kUnknownFlag = 1u << 30;
  Call call("relu", {dense<float>({2}, {-1, 1})}, BP_DTYPE_F32, {2});
  const Stream stream(call.device);
  call.args.flags = kUnknownFlag;
  for (bp_stream* where : {static_cast<bp_stream*>(nullptr), stream.get()}) {
    EXPECT_EQ(call.launch(where), BP_UNSUPPORTED);
    EXPECT_THAT(call.device.host().last_message(), HasSubstr("flags 1073741824"));
    EXPECT_EQ(stream.sync(), BP_OK);
    EXPECT_THAT(call.output<uint8_t>(), Each(0xee));
  }
}

TEST(NpuKernel, UnknownFlagsInAQuery_AreUnsupported) {
  constexpr uint32_t kUnknownFlag = 1u << 30;
  const bp_attrs_gather along_rows = gather_axis(0);
  Call calls[] = {{"cast", {dense<float>({1}, {1})}, BP_DTYPE_I32, {1}},
                  {"conv",
                   {dense<float>({1, 1, 3}, {1, 2, 3}), dense<float>({1, 1, 1}, {1})},
                   BP_DTYPE_F32,
                   {1, 1, 3}},
                  {"gather",
                   {dense<float>({1}, {1}), dense<int64_t>({1}, {0})},
                   BP_DTYPE_F32,
                   {1},
                   &along_rows}};
  for (Call& call : calls) {
    call.query_flags = kUnknownFlag;
    EXPECT_EQ(call.make_plan(), BP_UNSUPPORTED);
    EXPECT_THAT(call.device.host().last_message(), HasSubstr("flags 1073741824"));
    call.query_flags = 0;
    call.info_flags = kUnknownFlag;
    EXPECT_EQ(call.make_plan(), BP_UNSUPPORTED);
    EXPECT_EQ(call.args.plan, nullptr);
    call.info_flags = 0;
    EXPECT_EQ(call.make_plan(), BP_OK);
  }
}

TEST(NpuLaunch, Latency_ChangesNoResult) {
  Call call("relu", {dense<float>({2}, {-1, 1})}, BP_DTYPE_F32, {2}, nullptr,
            {{"launch_latency_ns", "1000"}});
  const Stream stream(call.device);
  EXPECT_EQ(call.launch(stream.get()), BP_OK);
  EXPECT_EQ(stream.sync(), BP_OK);
  EXPECT_THAT(call.output<float>(), ElementsAre(0, 1));
}

TEST(NpuLaunch, WithoutTheBandAsync_RunsOnTheCallingThread) {
  Call call("add", {dense<int32_t>({2}, {1, 2}), dense<int32_t>({}, {3})}, BP_DTYPE_I32, {2},
            nullptr, {{"async", "false"}});
  EXPECT_EQ(call.launch(), BP_OK);
  EXPECT_THAT(call.output<int32_t>(), ElementsAre(4, 5));
}

}  // namespace
}  // namespace bp::npu_test
