// SPDX-License-Identifier: Apache-2.0
//
// An OpenCL layer for tests: the loader puts it between its callers and every driver (environment
// OPENCL_LAYERS), and it makes one chosen call fail. Real drivers fail too rarely to test with.
#include "xpu_fault_layer.hpp"

#include <CL/cl_layer.h>

#include <cstring>
#include <mutex>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#define BP_XPU_FAULT_FUNCTIONS(X) \
  X(clCreateContext)              \
  X(clCreateCommandQueue)         \
  X(clCreateBuffer)               \
  X(clCreateProgramWithSource)    \
  X(clBuildProgram)               \
  X(clCreateKernel)               \
  X(clSetKernelArg)               \
  X(clGetKernelWorkGroupInfo)     \
  X(clEnqueueNDRangeKernel)       \
  X(clEnqueueReadBuffer)          \
  X(clEnqueueWriteBuffer)         \
  X(clEnqueueCopyBuffer)          \
  X(clEnqueueFillBuffer)          \
  X(clEnqueueMapBuffer)           \
  X(clEnqueueUnmapMemObject)      \
  X(clEnqueueMigrateMemObjects)   \
  X(clEnqueueMarkerWithWaitList)  \
  X(clEnqueueBarrierWithWaitList) \
  X(clCreateUserEvent)            \
  X(clGetDeviceIDs)               \
  X(clWaitForEvents)

namespace {

struct Armed {
  std::mutex mutex;
  const char* function = nullptr;
  XpuFault fault = XpuFault::kNone;
  int32_t code = 0;
  uint32_t skip_count = 0;
  const char* fired = nullptr;
  std::vector<cl_event> kept;  // released when the next fault is armed
};

Armed armed;
const cl_icd_dispatch* target = nullptr;
cl_icd_dispatch table;

/// What shall happen to this call of `function`. Waiting cannot fail as far as callers of "any
/// function" are concerned, so it must be named.
XpuFault take(const char* function, int32_t* out_code) {
  const std::lock_guard lock(armed.mutex);
  if (armed.fault == XpuFault::kNone) return XpuFault::kNone;
  const bool chosen = armed.function != nullptr ? std::strcmp(function, armed.function) == 0
                                                : std::strcmp(function, "clWaitForEvents") != 0;
  if (!chosen || armed.skip_count-- != 0) return XpuFault::kNone;
  *out_code = armed.code;
  armed.fired = function;
  return std::exchange(armed.fault, XpuFault::kNone);
}

/// In place of a command: one that fails on the device.
cl_int enqueue_failure(cl_command_queue queue, XpuFault fault, cl_int code, cl_event* out_event) {
  cl_context context = nullptr;
  target->clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof(cl_context), &context, nullptr);
  const cl_event failing = target->clCreateUserEvent(context, nullptr);
  if (fault == XpuFault::kFailsAlone) {
    target->clSetUserEventStatus(failing, code);
    *out_event = failing;
    return CL_SUCCESS;
  }
  // The event fails only now that the barrier waits for it: PoCL 3.1 never ends a command that is
  // enqueued behind an event which has failed before.
  const cl_int result = target->clEnqueueBarrierWithWaitList(queue, 1, &failing, out_event);
  target->clSetUserEventStatus(failing, code);
  target->clReleaseEvent(failing);
  // It may also touch a failed event that has no owner any more.
  target->clRetainEvent(*out_event);
  const std::lock_guard lock(armed.mutex);
  armed.kept.push_back(*out_event);
  return result;
}

template <auto Member>
struct Hook;

template <class Result, class... Args, Result (CL_API_CALL* cl_icd_dispatch::*Member)(Args...)>
struct Hook<Member> {
  static inline const char* name = "";

  static Result CL_API_CALL call(Args... args) {
    cl_int code = CL_SUCCESS;
    const XpuFault fault = take(name, &code);
    if (fault == XpuFault::kNone) return (target->*Member)(args...);
    const auto arguments = std::tie(args...);
    const auto& first = std::get<0>(arguments);
    const auto& last = std::get<sizeof...(Args) - 1>(arguments);
    using First = std::decay_t<decltype(first)>;
    using Last = std::decay_t<decltype(last)>;
    if constexpr (std::is_same_v<First, cl_command_queue> && std::is_same_v<Last, cl_event*>) {
      if (fault != XpuFault::kRefused) return enqueue_failure(first, fault, code, last);
    }
    if constexpr (std::is_same_v<Result, cl_int>) {
      return code;
    } else {
      *last = code;
      return nullptr;
    }
  }
};

}  // namespace

extern "C" {

__attribute__((visibility("default"))) cl_int clGetLayerInfo(cl_layer_info name, size_t size,
                                                             void* value, size_t* out_size) {
  const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
  if (name != CL_LAYER_API_VERSION) return CL_INVALID_VALUE;
  if (out_size != nullptr) *out_size = sizeof(version);
  if (value == nullptr) return CL_SUCCESS;
  if (size < sizeof(version)) return CL_INVALID_VALUE;
  std::memcpy(value, &version, sizeof(version));
  return CL_SUCCESS;
}

__attribute__((visibility("default"))) cl_int clInitLayer(cl_uint entry_count,
                                                          const cl_icd_dispatch* target_dispatch,
                                                          cl_uint* out_entry_count,
                                                          const cl_icd_dispatch** out_dispatch) {
  if (entry_count < sizeof(table) / sizeof(void*)) return CL_INVALID_VALUE;
  target = target_dispatch;
  std::memcpy(&table, target_dispatch, sizeof(table));
#define BP_XPU_HOOK(function)                          \
  Hook<& cl_icd_dispatch::function>::name = #function; \
  table.function = Hook<&cl_icd_dispatch::function>::call;
  BP_XPU_FAULT_FUNCTIONS(BP_XPU_HOOK)
#undef BP_XPU_HOOK
  *out_entry_count = sizeof(table) / sizeof(void*);
  *out_dispatch = &table;
  return CL_SUCCESS;
}

__attribute__((visibility("default"))) void xpu_fault_arm(const char* function, XpuFault fault,
                                                          int32_t code, uint32_t skip_count) {
  const std::lock_guard lock(armed.mutex);
  armed.function = function;
  armed.fault = fault;
  armed.code = code;
  armed.skip_count = skip_count;
  armed.fired = nullptr;
  for (cl_event event : armed.kept) target->clReleaseEvent(event);
  armed.kept.clear();
}

__attribute__((visibility("default"))) const char* xpu_fault_fired() {
  const std::lock_guard lock(armed.mutex);
  return armed.fired;
}

}  // extern "C"
