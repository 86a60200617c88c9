// SPDX-License-Identifier: Apache-2.0
//
// What xpu does when the driver fails: call errors leave the stream healthy, failures on the device
// stick to it in their first words, and whatever call fails, nothing hangs and the next try works.
// The driver fails through xpu_fault_layer, which the test's environment puts into the loader.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "xpu_fault_layer.hpp"
#include "xpu_test_support.hpp"

namespace bp::xpu_test {
namespace {

using ::testing::HasSubstr;

constexpr int32_t kOutOfResources = -5;
constexpr int32_t kOutOfHostMemory = -6;
constexpr int32_t kBuildFailure = -11;

/// One relu of four elements: plan, state and memory of its own.
class Relu {
 public:
  Relu(const bp_plugin& plugin, bp_device* device) : device_(device) {
    bp_kernel_list list{};
    list.struct_size = sizeof(list);
    plugin.kernel->kernel_list(device, &list);
    for (uint64_t i = 0; i < list.kernel_count; ++i) {
      const bp_str op = list.kernels[i]->op;
      if (std::string_view(op.ptr, op.len) == "relu") kernel_ = list.kernels[i];
    }
  }
  ~Relu() {
    if (state_ != nullptr) kernel_->state_destroy(device_, state_);
    if (plan_ != nullptr) kernel_->plan_free(device_, plan_);
  }

  bp_status plan() {
    const bp_arg_info info{.struct_size = sizeof(bp_arg_info),
                           .flags = 0,
                           .dtype = BP_DTYPE_F32,
                           .rank = 1,
                           .sizes = &kSize,
                           .strides = &kStride,
                           .host_data = nullptr};
    const std::array<bp_arg_info, 2> infos{info, info};
    bp_kernel_query query{};
    query.struct_size = sizeof(query);
    query.kernel = kernel_;
    query.op_version = 1;
    query.input_count = 1;
    query.output_count = 1;
    query.arg_stride_bytes = sizeof(bp_arg_info);
    query.args = infos.data();
    bp_plan_info plan_info{};
    plan_info.struct_size = sizeof(plan_info);
    return kernel_->plan(device_, &query, &plan_info, &plan_);
  }

  bp_status create_state() { return kernel_->state_create(device_, kernel_, plan_, &state_); }

  bp_status launch(uint64_t handle, bp_stream* stream, uint64_t op_seq) {
    bp_tensor tensor{};
    tensor.handle = handle;
    tensor.storage_bytes = 16;
    tensor.dtype = BP_DTYPE_F32;
    tensor.rank = 1;
    tensor.sizes = &kSize;
    tensor.strides = &kStride;
    const std::array<bp_tensor, 2> tensors{tensor, tensor};
    bp_launch_args args{};
    args.struct_size = sizeof(args);
    args.device = device_;
    args.kernel = kernel_;
    args.plan = plan_;
    args.state = state_;
    args.stream = stream;
    args.tensors = tensors.data();
    args.input_count = 1;
    args.output_count = 1;
    args.op_seq = op_seq;
    return kernel_->launch(&args);
  }

 private:
  static constexpr int64_t kSize = 4;
  static constexpr int64_t kStride = 1;
  bp_device* device_;
  const bp_kernel* kernel_ = nullptr;
  bp_kernel_plan* plan_ = nullptr;
  bp_kernel_state* state_ = nullptr;
};

/// Counts calls and keeps the last status.
struct CallCount {
  static void note(void* user, bp_status status) {
    auto* count = static_cast<CallCount*>(user);
    const std::lock_guard lock(count->mutex);
    count->calls += 1;
    count->status = status;
  }
  int read() {
    const std::lock_guard lock(mutex);
    return calls;
  }
  std::mutex mutex;
  int calls = 0;
  bp_status status = BP_OK;
};

class XpuFaultTest : public XpuTest {
 protected:
  void SetUp() override {
    void* layer = dlopen(BP_XPU_FAULT_LAYER_PATH, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(layer, nullptr) << dlerror();
    arm_ = reinterpret_cast<XpuFaultArm*>(dlsym(layer, "xpu_fault_arm"));
    fired_ = reinterpret_cast<XpuFaultFired*>(dlsym(layer, "xpu_fault_fired"));
    ASSERT_NE(arm_, nullptr);
    ASSERT_NE(fired_, nullptr);
    XpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    // A loader that knows no layers would let every test here pass for nothing.
    arm_("clCreateBuffer", XpuFault::kRefused, kOutOfResources, 0);
    uint64_t handle = 0;
    const bp_alloc_args args{.struct_size = sizeof(args),
                             .flags = 0,
                             .bytes = 4,
                             .alignment_bytes = 0,
                             .usage = 0,
                             .reserved = 0};
    ASSERT_EQ(plugin_.memory->mem_alloc(device_, &args, &handle), BP_OUT_OF_MEMORY)
        << "the OpenCL loader does not put OPENCL_LAYERS between its callers and the drivers";
    ASSERT_STREQ(fired_(), "clCreateBuffer");
    EXPECT_EQ(services().last_message(),
              "clCreateBuffer of 4 bytes failed: CL_OUT_OF_RESOURCES (-5)");
    EXPECT_EQ(services().last_report().vendor_code, kOutOfResources);
    instance_->host().clear();
  }

  const bp_stream_api& api() { return *plugin_.stream; }
  bp_status sync(bp_stream* stream) { return api().stream_sync(stream, BP_TIMEOUT_FOREVER); }

  XpuFaultArm* arm_ = nullptr;
  XpuFaultFired* fired_ = nullptr;
};

TEST_F(XpuFaultTest, RefusedCommand_IsACallErrorAndTheStreamGoesOn) {
  bp_stream* stream = make_stream();
  const uint64_t handle = alloc(64);
  arm_("clEnqueueFillBuffer", XpuFault::kRefused, kOutOfHostMemory, 0);
  EXPECT_EQ(fill({handle, 0}, 64, 1, 1, stream), BP_OUT_OF_MEMORY);
  EXPECT_EQ(services().last_message(), "mem_fill failed: CL_OUT_OF_HOST_MEMORY (-6)");
  EXPECT_EQ(api().stream_query(stream), BP_OK);
  EXPECT_EQ(fill({handle, 0}, 64, 2, 1, stream), BP_OK);
  EXPECT_EQ(sync(stream), BP_OK);
  EXPECT_EQ(read_bytes(handle, 64), std::vector<uint8_t>(64, 2));
  EXPECT_EQ(api().stream_destroy(stream), BP_OK);
  free(handle);
}

TEST_F(XpuFaultTest, FailedLaunch_IsStickyAndNamesItsOpSeq) {
  for (const XpuFault fault : {XpuFault::kFailsLater, XpuFault::kFailsAlone}) {
    bp_stream* stream = make_stream();
    const uint64_t handle = alloc(16);
    {
      Relu relu(plugin_, device_);
      ASSERT_EQ(relu.plan(), BP_OK);
      ASSERT_EQ(relu.create_state(), BP_OK);
      ASSERT_EQ(fill({handle, 0}, 16, 0, 4, stream), BP_OK);
      ASSERT_EQ(relu.launch(handle, stream, 40), BP_OK);
      arm_("clEnqueueNDRangeKernel", fault, kOutOfResources, 0);
      ASSERT_EQ(relu.launch(handle, stream, 41), BP_OK);
      // Behind the failure; enqueued or refused, depending on when the failure is seen.
      const bp_status behind = relu.launch(handle, stream, 42);
      EXPECT_TRUE(behind == BP_OK || behind == BP_POISONED) << behind;

      for (int i = 0; i < 2; ++i) {
        instance_->host().clear();
        EXPECT_EQ(sync(stream), BP_INTERNAL);
        const tests::HostReport report = services().last_report();
        EXPECT_EQ(report.op_seq, 41u);
        EXPECT_EQ(report.stream, stream);
        EXPECT_EQ(report.status, BP_INTERNAL);
        EXPECT_THAT(report.message, HasSubstr("relu_dense failed on the device: "));
        EXPECT_EQ(api().stream_query(stream), BP_INTERNAL);
      }
      EXPECT_EQ(relu.launch(handle, stream, 43), BP_POISONED);
      EXPECT_EQ(services().last_report().op_seq, 41u);
      EXPECT_THAT(services().last_message(),
                  HasSubstr("the stream failed before: relu_dense failed on the device"));
    }
    EXPECT_EQ(fill({handle, 0}, 16, 0, 4, stream), BP_POISONED);
    EXPECT_EQ(fill({0, 0}, 0, 0, 4, stream), BP_POISONED);
    bp_event* event = make_event();
    EXPECT_EQ(api().event_record(event, stream), BP_POISONED);
    EXPECT_EQ(api().event_wait(event, stream), BP_POISONED);
    EXPECT_EQ(api().event_query(event), BP_OK) << "it was never recorded";
    EXPECT_EQ(api().event_destroy(event), BP_OK);
    EXPECT_EQ(api().stream_destroy(stream), BP_OK);
    EXPECT_EQ(fill({handle, 0}, 16, 0, 4), BP_OK) << "the device goes on";
    free(handle);
  }
}

TEST_F(XpuFaultTest, FailedCode_IsReportedWhereTheDriverKeepsIt) {
  bp_stream* stream = make_stream();
  const uint64_t handle = alloc(16);
  arm_("clEnqueueFillBuffer", XpuFault::kFailsAlone, kOutOfResources, 0);
  ASSERT_EQ(fill({handle, 0}, 16, 0, 4, stream), BP_OK);
  EXPECT_EQ(sync(stream), BP_INTERNAL);
  EXPECT_EQ(services().last_message(), "mem_fill failed on the device: CL_OUT_OF_RESOURCES (-5)");
  EXPECT_EQ(services().last_report().vendor_code, kOutOfResources);
  EXPECT_EQ(services().last_report().op_seq, 0u);
  EXPECT_EQ(api().stream_destroy(stream), BP_OK);
  free(handle);
}

TEST_F(XpuFaultTest, FailureOfAStream_ReachesThoseThatWaitForItInTheFirstWords) {
  for (const XpuFault fault : {XpuFault::kFailsLater, XpuFault::kFailsAlone}) {
    Gate gate;
    bp_stream* first = make_stream();
    bp_stream* second = make_stream();
    bp_stream* third = make_stream();
    bp_stream* bystander = make_stream();
    bp_event* before = make_event();
    bp_event* after = make_event();
    bp_event* onward = make_event();
    const uint64_t handle = alloc(16);
    ASSERT_EQ(gate.hold(api(), first), BP_OK);
    ASSERT_EQ(api().event_record(before, first), BP_OK);
    ASSERT_EQ(api().event_wait(before, bystander), BP_OK);
    arm_("clEnqueueFillBuffer", fault, kOutOfResources, 0);
    ASSERT_EQ(fill({handle, 0}, 16, 0, 4, first), BP_OK);
    ASSERT_EQ(api().event_record(after, first), BP_OK);
    ASSERT_EQ(api().event_wait(after, second), BP_OK);
    ASSERT_EQ(api().event_record(onward, second), BP_OK);
    ASSERT_EQ(api().event_wait(onward, third), BP_OK);
    gate.release();

    EXPECT_EQ(sync(third), BP_INTERNAL);
    EXPECT_THAT(services().last_message(), HasSubstr("mem_fill failed on the device: "));
    EXPECT_EQ(services().last_report().stream, third);
    EXPECT_EQ(sync(second), BP_INTERNAL);
    EXPECT_EQ(sync(first), BP_INTERNAL);
    EXPECT_EQ(api().event_sync(after, BP_TIMEOUT_FOREVER), BP_INTERNAL);
    EXPECT_EQ(api().event_query(onward), BP_INTERNAL);
    EXPECT_THAT(services().last_message(), HasSubstr("mem_fill failed on the device: "));
    EXPECT_EQ(api().event_sync(before, BP_TIMEOUT_FOREVER), BP_OK);
    EXPECT_EQ(sync(bystander), BP_OK);

    // A failure that is old news fails later waiters as well, even if the stream is gone.
    ASSERT_EQ(api().stream_destroy(first), BP_OK);
    ASSERT_EQ(api().event_wait(before, bystander), BP_OK);
    EXPECT_EQ(sync(bystander), BP_OK);
    ASSERT_EQ(api().event_wait(after, bystander), BP_OK);
    EXPECT_EQ(sync(bystander), BP_INTERNAL);
    EXPECT_THAT(services().last_message(), HasSubstr("mem_fill failed on the device: "));
    for (bp_event* event : {before, after, onward}) {
      EXPECT_EQ(api().event_destroy(event), BP_OK);
    }
    for (bp_stream* stream : {second, third, bystander}) {
      EXPECT_EQ(api().stream_destroy(stream), BP_OK);
    }
    free(handle);
  }
}

TEST_F(XpuFaultTest, HostCalls_OfAFailedStream_AreMadeOnceWithItsStatus) {
  for (const XpuFault fault : {XpuFault::kFailsLater, XpuFault::kFailsAlone}) {
    CallCount before;
    CallCount behind;
    CallCount poisoned;
    bp_stream* stream = make_stream();
    const uint64_t handle = alloc(16);
    ASSERT_EQ(api().stream_host_call(stream, CallCount::note, &before), BP_OK);
    arm_("clEnqueueFillBuffer", fault, kOutOfResources, 0);
    ASSERT_EQ(fill({handle, 0}, 16, 0, 4, stream), BP_OK);
    ASSERT_EQ(api().stream_host_call(stream, CallCount::note, &behind), BP_OK);
    EXPECT_EQ(sync(stream), BP_INTERNAL);
    ASSERT_EQ(api().stream_host_call(stream, CallCount::note, &poisoned), BP_OK);
    ASSERT_EQ(api().stream_destroy(stream), BP_OK);
    EXPECT_EQ(before.read(), 1);
    EXPECT_EQ(before.status, BP_OK);
    EXPECT_EQ(behind.read(), 1);
    EXPECT_EQ(behind.status, BP_INTERNAL);
    EXPECT_EQ(poisoned.read(), 1);
    EXPECT_EQ(poisoned.status, BP_INTERNAL);
    free(handle);
  }
}

TEST_F(XpuFaultTest, HostCall_ThatCannotBeEnqueued_IsNeverMade) {
  for (const char* function :
       {"clCreateUserEvent", "clEnqueueMarkerWithWaitList", "clEnqueueBarrierWithWaitList"}) {
    CallCount refused;
    CallCount made;
    bp_stream* stream = make_stream();
    arm_(function, XpuFault::kRefused, kOutOfHostMemory, 0);
    EXPECT_EQ(api().stream_host_call(stream, CallCount::note, &refused), BP_OUT_OF_MEMORY);
    EXPECT_STREQ(fired_(), function);
    ASSERT_EQ(api().stream_host_call(stream, CallCount::note, &made), BP_OK);
    EXPECT_EQ(sync(stream), BP_OK);
    ASSERT_EQ(api().stream_destroy(stream), BP_OK);
    EXPECT_EQ(refused.read(), 0) << function;
    EXPECT_EQ(made.read(), 1) << function;
  }
}

TEST_F(XpuFaultTest, DriverWaitThatFails_StillWaits) {
  Gate gate;
  bp_stream* stream = make_stream();
  const uint64_t handle = alloc(1 << 20);
  std::vector<uint8_t> result(1 << 20);
  for (int round = 0; round < 20; ++round) {
    const auto value = static_cast<uint8_t>(round + 1);
    ASSERT_EQ(fill({handle, 0}, 1 << 20, value, 1), BP_OK);
    arm_("clWaitForEvents", XpuFault::kRefused, kOutOfHostMemory, 0);
    ASSERT_EQ(download(result.data(), {handle, 0}, 1 << 20), BP_OK);
    EXPECT_STREQ(fired_(), "clWaitForEvents");
    EXPECT_EQ(result, std::vector<uint8_t>(1 << 20, value));
    ASSERT_EQ(download(result.data(), {handle, 0}, 1 << 20, stream), BP_OK);
    arm_("clWaitForEvents", XpuFault::kRefused, kOutOfHostMemory, 0);
    EXPECT_EQ(sync(stream), BP_OK);
  }
  EXPECT_EQ(api().stream_destroy(stream), BP_OK);
  free(handle);
}

TEST_F(XpuFaultTest, FailedWorkOnTheInternalQueue_IsTheCallsErrorOnly) {
  const uint64_t handle = alloc(16);
  for (const XpuFault fault : {XpuFault::kFailsLater, XpuFault::kFailsAlone}) {
    arm_("clEnqueueFillBuffer", fault, kOutOfResources, 0);
    EXPECT_EQ(fill({handle, 0}, 16, 0, 4), BP_INTERNAL);
    EXPECT_THAT(services().last_message(), HasSubstr("mem_fill failed on the device: "));
    EXPECT_EQ(fill({handle, 0}, 16, 0x01010101, 4), BP_OK);
    EXPECT_EQ(read_bytes(handle, 16), std::vector<uint8_t>(16, 1));
  }
  free(handle);
}

TEST_F(XpuFaultTest, SourceThatDoesNotBuild_IsToldWithTheLogAndNotTriedAgain) {
  Relu relu(plugin_, device_);
  arm_("clBuildProgram", XpuFault::kRefused, kBuildFailure, 0);
  EXPECT_EQ(relu.plan(), BP_INTERNAL);
  const std::string words = services().last_message();
  EXPECT_THAT(words, HasSubstr("relu does not build on "));
  EXPECT_THAT(words, HasSubstr(": CL_BUILD_PROGRAM_FAILURE (-11); the compiler says: "));
  arm_("clBuildProgram", XpuFault::kRefused, kBuildFailure, 0);
  EXPECT_EQ(relu.plan(), BP_INTERNAL);
  EXPECT_EQ(services().last_message(), words);
  EXPECT_EQ(fired_(), nullptr) << "it was built again";
}

TEST_F(XpuFaultTest, BuildWithoutMemory_IsTriedAgain) {
  Relu relu(plugin_, device_);
  arm_("clBuildProgram", XpuFault::kRefused, kOutOfHostMemory, 0);
  EXPECT_EQ(relu.plan(), BP_OUT_OF_MEMORY);
  EXPECT_EQ(relu.plan(), BP_OK);
}

class XpuFaultSweepTest : public XpuFaultTest {
 protected:
  /// A bit of everything in an instance of its own; the first error, with everything ended.
  bp_status use_everything() {
    tests::RawInstance instance(plugin_, kWithoutCache);
    bp_device* device = nullptr;
    bp_status status = instance.status();
    if (status == BP_OK) status = instance.open(0, {}, &device);
    if (device != nullptr) {
      std::swap(device, device_);
      status = use_device();
      std::swap(device, device_);
      plugin_.device->device_close(device);
    }
    words_ = instance.host().last_message();
    return status;
  }

  bp_status use_device() {
    const bp_alloc_args alloc_args{.struct_size = sizeof(alloc_args),
                                   .flags = 0,
                                   .bytes = 64,
                                   .alignment_bytes = 0,
                                   .usage = 0,
                                   .reserved = 0};
    uint64_t handle = 0;
    bp_status status = plugin_.memory->mem_alloc(device_, &alloc_args, &handle);
    if (status != BP_OK) return status;
    status = use_memory(handle);
    if (status == BP_OK) status = use_streams(handle);
    const bp_status freed = plugin_.memory->mem_free(device_, handle);
    EXPECT_EQ(freed, BP_OK) << services().last_message();
    return status;
  }

  bp_status use_memory(uint64_t handle) {
    std::array<uint8_t, 64> bytes{};
    bp_status status = upload({handle, 0}, bytes.data(), 64);
    if (status == BP_OK) status = download(bytes.data(), {handle, 0}, 64);
    if (status == BP_OK) status = copy(BP_COPY_DEVICE_TO_DEVICE, {handle, 0}, {handle, 32}, 32);
    if (status == BP_OK) status = fill({handle, 0}, 64, 0, 8);
    if (status == BP_OK) status = use_pinned();
    return status == BP_OK ? use_mapping(handle) : status;
  }

  bp_status use_pinned() {
    void* ptr = nullptr;
    bp_status status = host_alloc(64, &ptr);
    if (status != BP_OK) return status;
    status = plugin_.memory->host_free(device_, ptr);
    // A free that failed leaves the memory, so that it can be tried again.
    if (status != BP_OK) {
      EXPECT_EQ(plugin_.memory->host_free(device_, ptr), BP_OK);
    }
    return status;
  }

  bp_status use_mapping(uint64_t handle) {
    const bp_map_args args{.struct_size = sizeof(args),
                           .flags = 0,
                           .mem = {handle, 0},
                           .bytes = 64,
                           .access = BP_MAP_READ_BIT,
                           .reserved = 0};
    void* ptr = nullptr;
    bp_status status = plugin_.memory->mem_map(device_, &args, &ptr);
    if (status != BP_OK) return status;
    status = plugin_.memory->mem_unmap(device_, ptr);
    // An unmap that failed leaves the mapping, so that it can be tried again.
    if (status != BP_OK) {
      EXPECT_EQ(plugin_.memory->mem_unmap(device_, ptr), BP_OK);
    }
    return status;
  }

  bp_status use_streams(uint64_t handle) {
    const bp_stream_args args{.struct_size = sizeof(args), .flags = 0};
    bp_stream* first = nullptr;
    bp_stream* second = nullptr;
    bp_status status = api().stream_create(device_, &args, &first);
    if (status == BP_OK) status = api().stream_create(device_, &args, &second);
    bp_event* event = make_event();
    if (status == BP_OK) status = use_kernel(handle, first);
    if (status == BP_OK) status = api().event_record(event, first);
    if (status == BP_OK) status = api().event_wait(event, second);
    CallCount count;
    bool called = false;
    if (status == BP_OK) {
      status = api().stream_host_call(second, CallCount::note, &count);
      called = status == BP_OK;
    }
    if (status == BP_OK) status = sync(second);
    EXPECT_EQ(api().event_destroy(event), BP_OK);
    if (first != nullptr) {
      EXPECT_EQ(api().stream_destroy(first), BP_OK);
    }
    if (second != nullptr) {
      EXPECT_EQ(api().stream_destroy(second), BP_OK);
    }
    EXPECT_EQ(count.read(), called ? 1 : 0);
    return status;
  }

  bp_status use_kernel(uint64_t handle, bp_stream* stream) {
    Relu relu(plugin_, device_);
    bp_status status = relu.plan();
    if (status == BP_OK) status = relu.create_state();
    if (status == BP_OK) status = relu.launch(handle, stream, 1);
    if (status == BP_OK) status = relu.launch(handle, nullptr, 2);
    // The plan and state must stay until the launch on the stream is done.
    const bp_status done = sync(stream);
    return status == BP_OK ? done : status;
  }

  std::string words_;  // the last ones of use_everything()'s instance
};

TEST_F(XpuFaultSweepTest, EveryCallRefusedOnce_IsReportedAndTheNextTryWorks) {
  ASSERT_EQ(use_everything(), BP_OK) << words_;
  uint32_t fault_count = 0;
  for (;; ++fault_count) {
    arm_(nullptr, XpuFault::kRefused, kOutOfHostMemory, fault_count);
    const bp_status status = use_everything();
    const char* fired = fired_();
    arm_(nullptr, XpuFault::kNone, 0, 0);
    if (fired == nullptr) {
      EXPECT_EQ(status, BP_OK);
      break;
    }
    SCOPED_TRACE(std::string(fired) + " refused, call " + std::to_string(fault_count));
    // clGetDeviceIDs is the one call whose failure only hides a platform.
    const bool hides_platform = std::string_view(fired) == "clGetDeviceIDs";
    EXPECT_EQ(status, hides_platform ? BP_UNAVAILABLE : BP_OUT_OF_MEMORY);
    EXPECT_FALSE(words_.empty());
    // On the fixture's device, which has its programs: building them is what takes long here.
    ASSERT_EQ(use_device(), BP_OK) << services().last_message();
  }
  EXPECT_GE(fault_count, 30u);
}

}  // namespace
}  // namespace bp::xpu_test
