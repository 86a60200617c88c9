// SPDX-License-Identifier: Apache-2.0
//
// External streams of xpu: an application that has OpenCL calls of its own, on queues of the plugin
// and on queues that it makes itself and has wrapped.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "xpu_test_support.hpp"

namespace bp::xpu_test {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<uint8_t>;

constexpr uint64_t kBytes = 256;

/// The application's own way to OpenCL.
template <class Function>
Function* find(const char* name) {
  static void* const library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function*>(dlsym(library, name));
}
#define CL(name) find<decltype(::name)>(#name)

class XpuNativeTest : public XpuTest {
 protected:
  void SetUp() override {
    XpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    stream_ = make_stream();
    queue_ = native_queue(stream_);
    ASSERT_NE(queue_, nullptr);
    ASSERT_EQ(info(CL_QUEUE_CONTEXT, &context_), CL_SUCCESS);
    ASSERT_EQ(info(CL_QUEUE_DEVICE, &id_), CL_SUCCESS);
    memory_ = alloc(kBytes);
  }
  void TearDown() override {
    if (stream_ != nullptr) {
      free(memory_);
      EXPECT_EQ(api().stream_destroy(stream_), BP_OK);
    }
    XpuTest::TearDown();
  }
  const bp_stream_api& api() { return *plugin_.stream; }
  bp_status sync(bp_stream* stream) { return api().stream_sync(stream, BP_TIMEOUT_FOREVER); }

  cl_command_queue native_queue(bp_stream* stream) {
    bp_native_stream native{};
    native.struct_size = sizeof(native);
    EXPECT_EQ(api().stream_native_handle(stream, &native), BP_OK);
    EXPECT_EQ(std::string_view(native.kind.ptr, native.kind.len), "opencl.command_queue");
    return reinterpret_cast<cl_command_queue>(native.handle);
  }
  template <class T>
  cl_int info(cl_command_queue_info what, T* out_value) {
    return CL(clGetCommandQueueInfo)(queue_, what, sizeof(*out_value), out_value, nullptr);
  }
  cl_uint owners_of(cl_command_queue queue) {
    cl_uint count = 0;
    CL(clGetCommandQueueInfo)(queue, CL_QUEUE_REFERENCE_COUNT, sizeof(count), &count, nullptr);
    return count;
  }
  /// ... once there is one owner at most. Those of work that has ended go when the driver's thread
  /// likes.
  cl_uint owners_left_of(cl_command_queue queue) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (owners_of(queue) > 1 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return owners_of(queue);
  }
  cl_command_queue make_queue(cl_context context, cl_command_queue_properties properties = 0) {
    cl_int code = CL_SUCCESS;
    cl_command_queue queue = CL(clCreateCommandQueue)(context, id_, properties, &code);
    EXPECT_EQ(code, CL_SUCCESS);
    return queue;
  }
  bp_status wrap(cl_command_queue queue, bp_stream** out_stream,
                 std::string_view kind = "opencl.command_queue") {
    bp_stream_wrap_args args{};
    args.struct_size = sizeof(args);
    args.handle = reinterpret_cast<uint64_t>(queue);
    args.kind = {kind.data(), kind.size()};
    return api().stream_wrap(device_, &args, out_stream);
  }
  /// The application's own work.
  void fill_by_hand(cl_command_queue queue, uint8_t value) {
    auto* memory = reinterpret_cast<cl_mem>(memory_);
    EXPECT_EQ(CL(clEnqueueFillBuffer)(queue, memory, &value, 1, 0, kBytes, 0, nullptr, nullptr),
              CL_SUCCESS);
  }

  bp_stream* stream_ = nullptr;
  cl_command_queue queue_ = nullptr;
  cl_context context_ = nullptr;
  cl_device_id id_ = nullptr;
  uint64_t memory_ = 0;
};

TEST_F(XpuNativeTest, NativeHandle_IsTheQueueThatTheStreamsWorkGoesTo) {
  Gate gate;
  ASSERT_EQ(gate.hold(api(), stream_), BP_OK);
  ASSERT_EQ(fill({memory_, 0}, kBytes, 1, 1, stream_), BP_OK);
  fill_by_hand(queue_, 2);  // behind the fill, which is held
  Bytes found(kBytes);
  ASSERT_EQ(download(found.data(), {memory_, 0}, kBytes, stream_), BP_OK);
  gate.release();
  ASSERT_EQ(sync(stream_), BP_OK);
  EXPECT_EQ(found, Bytes(kBytes, 2));
  EXPECT_EQ(native_queue(stream_), queue_) << "the same each time";
}

TEST_F(XpuNativeTest, Sync_AfterARecord_CoversTheApplicationsWork) {
  bp_event* event = make_event();
  cl_int code = CL_SUCCESS;
  const cl_event held = CL(clCreateUserEvent)(context_, &code);
  ASSERT_EQ(code, CL_SUCCESS);
  ASSERT_EQ(CL(clEnqueueBarrierWithWaitList)(queue_, 1, &held, nullptr), CL_SUCCESS);
  fill_by_hand(queue_, 3);
  ASSERT_EQ(api().event_record(event, stream_), BP_OK);
  EXPECT_EQ(api().stream_sync(stream_, 0), BP_TIMEOUT);
  EXPECT_EQ(api().stream_query(stream_), BP_PENDING);
  EXPECT_EQ(CL(clSetUserEventStatus)(held, CL_COMPLETE), CL_SUCCESS);
  EXPECT_EQ(sync(stream_), BP_OK);
  EXPECT_EQ(read_bytes(memory_, kBytes), Bytes(kBytes, 3));
  CL(clReleaseEvent)(held);
  EXPECT_EQ(api().event_destroy(event), BP_OK);
}

TEST_F(XpuNativeTest, Wrap_OwnQueue_OrdersWithOtherStreams) {
  const cl_command_queue own = make_queue(context_);
  bp_stream* wrapped = nullptr;
  ASSERT_EQ(wrap(own, &wrapped), BP_OK);
  EXPECT_EQ(native_queue(wrapped), own);
  bp_event* event = make_event();
  Gate gate;
  // The plugin's stream writes 4, the application 5 after it, and the plugin's stream reads.
  ASSERT_EQ(gate.hold(api(), stream_), BP_OK);
  ASSERT_EQ(fill({memory_, 0}, kBytes, 4, 1, stream_), BP_OK);
  ASSERT_EQ(api().event_record(event, stream_), BP_OK);
  ASSERT_EQ(api().event_wait(event, wrapped), BP_OK);
  fill_by_hand(own, 5);
  ASSERT_EQ(api().event_record(event, wrapped), BP_OK);
  ASSERT_EQ(api().event_wait(event, stream_), BP_OK);
  Bytes found(kBytes);
  ASSERT_EQ(download(found.data(), {memory_, 0}, kBytes, stream_), BP_OK);
  gate.release();
  ASSERT_EQ(sync(stream_), BP_OK);
  EXPECT_EQ(found, Bytes(kBytes, 5));
  EXPECT_EQ(api().event_destroy(event), BP_OK);
  EXPECT_EQ(api().stream_destroy(wrapped), BP_OK);
  CL(clReleaseCommandQueue)(own);
}

TEST_F(XpuNativeTest, Destroy_OfAWrapper_LeavesTheQueueToItsOwner) {
  const cl_command_queue own = make_queue(context_);
  bp_stream* first = nullptr;
  bp_stream* second = nullptr;
  ASSERT_EQ(wrap(own, &first), BP_OK);
  ASSERT_EQ(wrap(own, &second), BP_OK) << "twice is legal";
  EXPECT_EQ(owners_of(own), 3u);
  ASSERT_EQ(fill({memory_, 0}, kBytes, 6, 1, first), BP_OK);
  EXPECT_EQ(api().stream_destroy(first), BP_OK);
  EXPECT_EQ(read_bytes(memory_, kBytes), Bytes(kBytes, 6)) << "its work is over";
  EXPECT_EQ(api().stream_destroy(second), BP_OK);
  EXPECT_EQ(owners_left_of(own), 1u);
  fill_by_hand(own, 7);
  EXPECT_EQ(CL(clFinish)(own), CL_SUCCESS);
  EXPECT_EQ(read_bytes(memory_, kBytes), Bytes(kBytes, 7));
  CL(clReleaseCommandQueue)(own);
}

TEST_F(XpuNativeTest, Destroy_OfAWrapper_DoesNotWaitForTheApplication) {
  const cl_command_queue own = make_queue(context_);
  bp_stream* wrapped = nullptr;
  ASSERT_EQ(wrap(own, &wrapped), BP_OK);
  ASSERT_EQ(fill({memory_, 0}, kBytes, 8, 1, wrapped), BP_OK);
  cl_int code = CL_SUCCESS;
  const cl_event held = CL(clCreateUserEvent)(context_, &code);
  ASSERT_EQ(code, CL_SUCCESS);
  ASSERT_EQ(CL(clEnqueueBarrierWithWaitList)(own, 1, &held, nullptr), CL_SUCCESS);
  fill_by_hand(own, 9);
  EXPECT_EQ(api().stream_destroy(wrapped), BP_OK);  // a hang, if it waited
  EXPECT_EQ(CL(clSetUserEventStatus)(held, CL_COMPLETE), CL_SUCCESS);
  EXPECT_EQ(CL(clFinish)(own), CL_SUCCESS);
  EXPECT_EQ(read_bytes(memory_, kBytes), Bytes(kBytes, 9));
  CL(clReleaseEvent)(held);
  CL(clReleaseCommandQueue)(own);
}

TEST_F(XpuNativeTest, Wrap_WhatIsNoQueueOfThisDevice_IsRefused) {
  bp_stream* wrapped = nullptr;
  EXPECT_EQ(wrap(queue_, &wrapped, "acme.queue"), BP_UNSUPPORTED);
  EXPECT_THAT(services().last_message(), HasSubstr("'opencl.command_queue', not 'acme.queue'"));
  EXPECT_EQ(wrap(queue_, &wrapped, ""), BP_UNSUPPORTED);
  EXPECT_EQ(wrap(nullptr, &wrapped), BP_INVALID_ARGUMENT);
  EXPECT_THAT(services().last_message(), HasSubstr("NULL"));
  cl_int code = CL_SUCCESS;
  const cl_context other = CL(clCreateContext)(nullptr, 1, &id_, nullptr, nullptr, &code);
  ASSERT_EQ(code, CL_SUCCESS);
  const cl_command_queue foreign = make_queue(other);
  EXPECT_EQ(wrap(foreign, &wrapped), BP_INVALID_ARGUMENT);
  EXPECT_THAT(services().last_message(), HasSubstr("another context or device"));
  EXPECT_EQ(owners_of(foreign), 1u);
  CL(clReleaseCommandQueue)(foreign);
  CL(clReleaseContext)(other);
  const cl_command_queue loose = make_queue(context_, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
  EXPECT_EQ(wrap(loose, &wrapped), BP_INVALID_ARGUMENT);
  EXPECT_THAT(services().last_message(), HasSubstr("out of order"));
  EXPECT_EQ(owners_of(loose), 1u);
  CL(clReleaseCommandQueue)(loose);
  EXPECT_EQ(wrapped, nullptr);
}

TEST_F(XpuNativeTest, Timing_OnAQueueWithoutProfiling_IsRefusedInWords) {
  const cl_command_queue own = make_queue(context_);
  bp_stream* wrapped = nullptr;
  ASSERT_EQ(wrap(own, &wrapped), BP_OK);
  bp_event* event = make_event(BP_EVENT_TIMING_BIT);
  ASSERT_EQ(api().event_record(event, wrapped), BP_OK);
  ASSERT_EQ(sync(wrapped), BP_OK);
  uint64_t elapsed_ns = 77;
  EXPECT_EQ(api().event_elapsed(event, event, &elapsed_ns), BP_INVALID_ARGUMENT);
  EXPECT_THAT(services().last_message(), HasSubstr("CL_QUEUE_PROFILING_ENABLE"));
  EXPECT_EQ(elapsed_ns, 77u);
  EXPECT_EQ(api().event_destroy(event), BP_OK);
  EXPECT_EQ(api().stream_destroy(wrapped), BP_OK);
  CL(clReleaseCommandQueue)(own);
}

}  // namespace
}  // namespace bp::xpu_test
