// SPDX-License-Identifier: Apache-2.0
//
// Opening the loader library and reading its codes. The only file that knows how libraries are
// opened on this system.
#include "driver.hpp"

#include <dlfcn.h>

#include <chrono>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

namespace bp::xpu {
namespace {

constexpr const char* kLibrary = "libOpenCL.so.1";

template <class Function>
void resolve(void* library, const char* name, Function* out_function) {
  *out_function = reinterpret_cast<Function>(dlsym(library, name));
  if (*out_function == nullptr) {
    throw sdk::Failure{BP_UNAVAILABLE, std::string(kLibrary) + " lacks " + name +
                                           ": install an OpenCL loader of version 1.2 or newer"};
  }
}

std::string_view error_name(cl_int code) {
#define BP_XPU_CASE(name) \
  case name:              \
    return #name;
  switch (code) {
    BP_XPU_CASE(CL_DEVICE_NOT_FOUND)
    BP_XPU_CASE(CL_DEVICE_NOT_AVAILABLE)
    BP_XPU_CASE(CL_COMPILER_NOT_AVAILABLE)
    BP_XPU_CASE(CL_MEM_OBJECT_ALLOCATION_FAILURE)
    BP_XPU_CASE(CL_OUT_OF_RESOURCES)
    BP_XPU_CASE(CL_OUT_OF_HOST_MEMORY)
    BP_XPU_CASE(CL_PROFILING_INFO_NOT_AVAILABLE)
    BP_XPU_CASE(CL_MEM_COPY_OVERLAP)
    BP_XPU_CASE(CL_BUILD_PROGRAM_FAILURE)
    BP_XPU_CASE(CL_MAP_FAILURE)
    BP_XPU_CASE(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
    BP_XPU_CASE(CL_INVALID_VALUE)
    BP_XPU_CASE(CL_INVALID_PLATFORM)
    BP_XPU_CASE(CL_INVALID_DEVICE)
    BP_XPU_CASE(CL_INVALID_CONTEXT)
    BP_XPU_CASE(CL_INVALID_COMMAND_QUEUE)
    BP_XPU_CASE(CL_INVALID_MEM_OBJECT)
    BP_XPU_CASE(CL_INVALID_BUILD_OPTIONS)
    BP_XPU_CASE(CL_INVALID_PROGRAM)
    BP_XPU_CASE(CL_INVALID_KERNEL_NAME)
    BP_XPU_CASE(CL_INVALID_KERNEL)
    BP_XPU_CASE(CL_INVALID_ARG_INDEX)
    BP_XPU_CASE(CL_INVALID_ARG_VALUE)
    BP_XPU_CASE(CL_INVALID_ARG_SIZE)
    BP_XPU_CASE(CL_INVALID_KERNEL_ARGS)
    BP_XPU_CASE(CL_INVALID_WORK_GROUP_SIZE)
    BP_XPU_CASE(CL_INVALID_EVENT_WAIT_LIST)
    BP_XPU_CASE(CL_INVALID_EVENT)
    BP_XPU_CASE(CL_INVALID_OPERATION)
    BP_XPU_CASE(CL_INVALID_BUFFER_SIZE)
    BP_XPU_CASE(CL_INVALID_GLOBAL_WORK_SIZE)
    default:
      return "OpenCL error";
  }
#undef BP_XPU_CASE
}

}  // namespace

std::shared_ptr<const Driver> Driver::open() {
  std::shared_ptr<Driver> driver(new Driver());
  // NODELETE: vendor drivers start threads that outlive the last instance, so their code must stay.
  driver->library_ = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (driver->library_ == nullptr) {
    const char* reason = dlerror();
    throw sdk::Failure{BP_UNAVAILABLE,
                       std::string("the OpenCL loader cannot be opened (") +
                           (reason != nullptr ? reason : kLibrary) +
                           "): install one, on Debian the package ocl-icd-libopencl1"};
  }
#define BP_XPU_RESOLVE(name) resolve(driver->library_, #name, &driver->name);
  BP_XPU_DRIVER_SYMBOLS(BP_XPU_RESOLVE)
#undef BP_XPU_RESOLVE
  return driver;
}

Driver::~Driver() {
  if (library_ != nullptr) dlclose(library_);
}

cl_int Driver::execution_status(cl_event event) const {
  cl_int status = CL_COMPLETE;
  const cl_int code =
      clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status, nullptr);
  return code == CL_SUCCESS ? status : code;
}

void Driver::wait(cl_event event) const {
  clWaitForEvents(1, &event);
  while (execution_status(event) > CL_COMPLETE) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void keep_until_the_end(void* object) noexcept {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  try {
    static auto* const kept = new std::vector<void*>();
    kept->push_back(object);
  } catch (const std::bad_alloc&) {  // then a leak checker will name it
  }
}

Owned<cl_event> share(const Driver& driver, const Owned<cl_event>& event) {
  if (event) check(driver.clRetainEvent(event.get()), "clRetainEvent");
  return {driver, event.get()};
}

std::string error_text(cl_int code) {
  return std::string(error_name(code)) + " (" + std::to_string(code) + ")";
}

std::string command_error_text(cl_int code) { return code == -1 ? "status -1" : error_text(code); }

bp_status status_of_call(cl_int code) {
  switch (code) {
    case CL_SUCCESS:
      return BP_OK;
    case CL_DEVICE_NOT_FOUND:
    case CL_DEVICE_NOT_AVAILABLE:
      return BP_UNAVAILABLE;
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_RESOURCES:
    case CL_OUT_OF_HOST_MEMORY:
    case CL_INVALID_BUFFER_SIZE:
      return BP_OUT_OF_MEMORY;
    default:
      return BP_INTERNAL;
  }
}

bp_status status_of_command(cl_int code) {
  return code == CL_MEM_OBJECT_ALLOCATION_FAILURE ? BP_OUT_OF_MEMORY : BP_INTERNAL;
}

void check(cl_int code, std::string_view what) {
  if (code == CL_SUCCESS) return;
  throw sdk::Failure{status_of_call(code), std::string(what) + " failed: " + error_text(code),
                     code};
}

}  // namespace bp::xpu
