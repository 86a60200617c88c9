// SPDX-License-Identifier: Apache-2.0
//
// An OpenCL layer for tests: the loader puts it between its callers and every driver (environment
// OPENCL_LAYERS), and it makes one chosen call fail. Real drivers fail too rarely to test with.
#include "xpu_fault_layer.hpp"

#include <CL/cl_layer.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <tuple>
#include <type_traits>
#include <utility>

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

// What failed on the device, as the driver would tell. It is the layer that remembers: PoCL 3.1
// loses count of a queue's commands, and ends the process, when one of them really fails.
struct Failure {
  cl_int code;
  cl_command_queue queue;
};
struct Failures {
  std::mutex mutex;
  std::map<cl_event, Failure> events;  // each is kept, so that no other takes its place
  std::set<cl_command_queue> queues;   // what comes to them fails too, until somebody is told
};
Failures& failures = *new Failures;  // a leak checker sees what is kept

constexpr cl_int kFailedBefore = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;

bool has_failed(cl_uint count, const cl_event* events) {
  const std::lock_guard lock(failures.mutex);
  return std::any_of(events, events + count,
                     [](cl_event event) { return failures.events.contains(event); });
}

bool takes_none(cl_command_queue queue) {
  const std::lock_guard lock(failures.mutex);
  return failures.queues.contains(queue);
}

/// In place of a command: one that fails with the code, behind those before it.
cl_int enqueue_failure(cl_command_queue queue, bool others_go_on, cl_int code,
                       cl_event* out_event) {
  cl_event event = nullptr;
  const cl_int result = target->clEnqueueMarkerWithWaitList(queue, 0, nullptr, &event);
  if (result != CL_SUCCESS) return result;
  const std::lock_guard lock(failures.mutex);
  failures.events[event] = {code, queue};
  if (!others_go_on) failures.queues.insert(queue);
  if (out_event == nullptr) return CL_SUCCESS;
  target->clRetainEvent(event);
  *out_event = event;
  return CL_SUCCESS;
}

cl_int CL_API_CALL get_event_info(cl_event event, cl_event_info name, size_t size, void* value,
                                  size_t* out_size) {
  const cl_int result = target->clGetEventInfo(event, name, size, value, out_size);
  if (result != CL_SUCCESS || name != CL_EVENT_COMMAND_EXECUTION_STATUS || value == nullptr) {
    return result;
  }
  const std::lock_guard lock(failures.mutex);
  const auto failure = failures.events.find(event);
  auto* const status = static_cast<cl_int*>(value);
  if (failure == failures.events.end() || *status != CL_COMPLETE) return result;
  *status = failure->second.code;
  failures.queues.erase(failure->second.queue);
  return result;
}

cl_int CL_API_CALL release_queue(cl_command_queue queue) {
  cl_uint owners = 0;
  target->clGetCommandQueueInfo(queue, CL_QUEUE_REFERENCE_COUNT, sizeof(owners), &owners, nullptr);
  if (owners == 1) {
    const std::lock_guard lock(failures.mutex);
    failures.queues.erase(queue);
  }
  return target->clReleaseCommandQueue(queue);
}

template <auto Member>
struct Hook;

template <class Result, class... Args, Result (CL_API_CALL* cl_icd_dispatch::*Member)(Args...)>
struct Hook<Member> {
  static constexpr size_t kCount = sizeof...(Args);
  using Arguments = std::tuple<Args...>;
  using First = std::tuple_element_t<0, Arguments>;
  using Last = std::tuple_element_t<kCount - 1, Arguments>;
  /// (queue, ..., count, wait list, event)
  static constexpr bool kEnqueues =
      std::is_same_v<First, cl_command_queue> && std::is_same_v<Last, cl_event*>;
  static constexpr bool kWaits = std::is_same_v<Arguments, std::tuple<cl_uint, const cl_event*>>;

  static inline const char* name = "";

  static Result CL_API_CALL call(Args... args) {
    const Arguments arguments(args...);
    cl_int code = CL_SUCCESS;
    const XpuFault fault = take(name, &code);
    if constexpr (kEnqueues) {
      const auto queue = std::get<0>(arguments);
      const bool is_behind = takes_none(queue) || has_failed(std::get<kCount - 3>(arguments),
                                                             std::get<kCount - 2>(arguments));
      const auto event = std::get<kCount - 1>(arguments);
      if (fault != XpuFault::kRefused && is_behind) {
        return enqueue_failure(queue, false, kFailedBefore, event);
      }
      if (fault == XpuFault::kFailsLater || fault == XpuFault::kFailsAlone) {
        return enqueue_failure(queue, fault == XpuFault::kFailsAlone, code, event);
      }
    }
    if (fault == XpuFault::kNone) {
      if constexpr (kWaits) {
        const cl_int result = (target->*Member)(args...);
        return result == CL_SUCCESS && has_failed(args...) ? kFailedBefore : result;
      } else {
        return (target->*Member)(args...);
      }
    }
    if constexpr (std::is_same_v<Result, cl_int>) {
      return code;
    } else {
      *std::get<kCount - 1>(arguments) = code;
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
  table.clGetEventInfo = get_event_info;
  table.clReleaseCommandQueue = release_queue;
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
}

__attribute__((visibility("default"))) const char* xpu_fault_fired() {
  const std::lock_guard lock(armed.mutex);
  return armed.fired;
}

}  // extern "C"
