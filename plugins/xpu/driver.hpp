// SPDX-License-Identifier: Apache-2.0
//
// The OpenCL loader library, opened while an instance starts and never linked: a machine without
// OpenCL loads this plugin and is told in one sentence that there is nothing to drive. The symbol
// list below is the whole of OpenCL that the plugin uses; it is OpenCL 1.2, which every driver has.
#ifndef BACKPLANE_PLUGINS_XPU_DRIVER_HPP
#define BACKPLANE_PLUGINS_XPU_DRIVER_HPP

#include <CL/cl.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "backplane/sdk/exit_gate.hpp"
#include "backplane/sdk/sdk.hpp"

#define BP_XPU_DRIVER_SYMBOLS(X)  \
  X(clGetPlatformIDs)             \
  X(clGetPlatformInfo)            \
  X(clGetDeviceIDs)               \
  X(clGetDeviceInfo)              \
  X(clCreateContext)              \
  X(clReleaseContext)             \
  X(clCreateCommandQueue)         \
  X(clRetainCommandQueue)         \
  X(clReleaseCommandQueue)        \
  X(clGetCommandQueueInfo)        \
  X(clCreateBuffer)               \
  X(clReleaseMemObject)           \
  X(clCreateProgramWithSource)    \
  X(clCreateProgramWithBinary)    \
  X(clBuildProgram)               \
  X(clGetProgramInfo)             \
  X(clGetProgramBuildInfo)        \
  X(clReleaseProgram)             \
  X(clCreateKernel)               \
  X(clSetKernelArg)               \
  X(clGetKernelWorkGroupInfo)     \
  X(clReleaseKernel)              \
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
  X(clSetUserEventStatus)         \
  X(clWaitForEvents)              \
  X(clGetEventInfo)               \
  X(clGetEventProfilingInfo)      \
  X(clRetainEvent)                \
  X(clReleaseEvent)               \
  X(clFlush)                      \
  X(clFinish)

namespace bp::xpu {

/// The opened library. Immutable, any thread.
class Driver {
 public:
  /// Throws sdk::Failure with BP_UNAVAILABLE and what to install.
  static std::shared_ptr<const Driver> open();
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

// NOLINTNEXTLINE(bugprone-macro-parentheses): the argument is a declared name.
#define BP_XPU_MEMBER(name) decltype(&::name) name = nullptr;
  BP_XPU_DRIVER_SYMBOLS(BP_XPU_MEMBER)
#undef BP_XPU_MEMBER

  void release(cl_context context) const { clReleaseContext(context); }
  void release(cl_command_queue queue) const { clReleaseCommandQueue(queue); }
  void release(cl_mem memory) const { clReleaseMemObject(memory); }
  void release(cl_program program) const { clReleaseProgram(program); }
  void release(cl_kernel kernel) const { clReleaseKernel(kernel); }
  void release(cl_event event) const { clReleaseEvent(event); }

  /// CL_COMPLETE, a positive state of work under way, or the negative code it ended with.
  cl_int execution_status(cl_event event) const;
  /// Returns when a command has ended, well or not. Not every driver's own wait holds that long.
  void wait(cl_event event) const;

 private:
  Driver() = default;
  void* library_ = nullptr;
};

/// For what can no longer be released, as the process is ending: stays reachable, hence no leak.
void keep_until_the_end(void* object) noexcept;

/// An OpenCL object that is released with its owner. Move-only.
template <class T>
class Owned {
 public:
  Owned() = default;
  Owned(const Driver& driver, T object) : driver_(&driver), object_(object) {}
  Owned(Owned&& other) noexcept
      : driver_(other.driver_), object_(std::exchange(other.object_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    if (this != &other) {
      reset();
      driver_ = other.driver_;
      object_ = std::exchange(other.object_, nullptr);
    }
    return *this;
  }
  ~Owned() { reset(); }

  T get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }
  void reset() {
    if (object_ == nullptr) return;
    const sdk::ExitGate gate;
    if (gate.open()) {
      driver_->release(object_);
    } else {
      keep_until_the_end(object_);
    }
    object_ = nullptr;
  }

 private:
  const Driver* driver_ = nullptr;
  T object_ = nullptr;
};

/// Another owner of the same event.
Owned<cl_event> share(const Driver& driver, const Owned<cl_event>& event);

/// "CL_OUT_OF_RESOURCES (-5)"
std::string error_text(cl_int code);
/// The same for what a command ended with, where -1 has no name: drivers give it to what is behind
/// a failure.
std::string command_error_text(cl_int code);

/// What a code that a call answered means to the core.
bp_status status_of_call(cl_int code);
/// What a code that a command ended with means: here lack of resources is no reason to try again.
bp_status status_of_command(cl_int code);

/// Throws sdk::Failure "<what> failed: <code>" unless the code is CL_SUCCESS.
void check(cl_int code, std::string_view what);

}  // namespace bp::xpu

#endif
