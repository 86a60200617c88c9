// SPDX-License-Identifier: Apache-2.0
//
// Building OpenCL programs.
#include "kernels/program.hpp"

#include <string>

#include "device.hpp"

namespace bp::xpu {
namespace {

constexpr size_t kMaxLogBytes = 2000;  // a report is to be read, not scrolled

struct ProgramSource {
  const char* name;
  const char* text;
};

ProgramSource source_of(ProgramId id) {
  switch (id) {
    case ProgramId::kMatmul:
      return {"matmul.cl", kMatmulSource};
    case ProgramId::kIndexing:
      return {"indexing.cl", kIndexingSource};
    default:
      return {"elementwise.cl", kElementwiseSource};
  }
}

}  // namespace

cl_program Programs::get(ProgramId id) {
  Slot& slot = slots_[static_cast<size_t>(id)];
  const std::lock_guard lock(slot.mutex);
  if (slot.failure) throw sdk::Failure(*slot.failure);
  if (!slot.program) {
    try {
      slot.program = build(id);
    } catch (const sdk::Failure& failure) {
      // Lack of memory passes, a source that the compiler refuses stays so.
      if (failure.status != BP_OUT_OF_MEMORY) slot.failure = failure;
      throw;
    }
  }
  return slot.program.get();
}

Owned<cl_program> Programs::build(ProgramId id) const {
  const sdk::ExitGate gate;
  gate.require_open();
  const Driver& driver = device_.driver();
  const ProgramSource source = source_of(id);
  std::array<const char*, 2> texts{kGeometrySource, source.text};
  cl_int code = CL_SUCCESS;
  const cl_program created = driver.clCreateProgramWithSource(
      device_.context(), static_cast<cl_uint>(texts.size()), texts.data(), nullptr, &code);
  check(code, "clCreateProgramWithSource");
  Owned<cl_program> program(driver, created);

  std::string options = "-cl-std=CL1.2";
  if (device_.info().rounds_divide_correctly) options += " -cl-fp32-correctly-rounded-divide-sqrt";
  const cl_device_id id_of_device = device_.info().id;
  code = driver.clBuildProgram(program.get(), 1, &id_of_device, options.c_str(), nullptr, nullptr);
  if (code != CL_SUCCESS) {
    throw sdk::Failure{status_of_call(code),
                       std::string(source.name) + " does not build on " + device_.info().name +
                           ": " + error_text(code) +
                           "; the compiler says: " + build_log(program.get()),
                       code};
  }
  sdk::ExitGate::watch(source.name);
  return program;
}

std::string Programs::build_log(cl_program program) const {
  const Driver& driver = device_.driver();
  size_t bytes = 0;
  cl_int code = driver.clGetProgramBuildInfo(program, device_.info().id, CL_PROGRAM_BUILD_LOG, 0,
                                             nullptr, &bytes);
  if (code != CL_SUCCESS || bytes == 0) return "nothing";
  std::string log(bytes, '\0');
  code = driver.clGetProgramBuildInfo(program, device_.info().id, CL_PROGRAM_BUILD_LOG, bytes,
                                      log.data(), nullptr);
  if (code != CL_SUCCESS) return "nothing";
  log.resize(std::string_view(log.c_str()).size());
  if (log.size() > kMaxLogBytes) log.resize(kMaxLogBytes);
  return log.empty() ? "nothing" : log;
}

}  // namespace bp::xpu
