// SPDX-License-Identifier: Apache-2.0
//
// Building OpenCL programs, or taking them from the cache on disk.
#include "kernels/program.hpp"

#include <string_view>
#include <utility>

#include "device.hpp"
#include "program_cache.hpp"

namespace bp::xpu {
namespace {

constexpr size_t kMaxLogBytes = 2000;  // a report is to be read, not scrolled

const char* text_of(std::string_view name) {
  for (const SourceFile* file = kSourceFiles; file->name != nullptr; ++file) {
    if (name == file->name) return file->text;
  }
  throw sdk::Failure{BP_INTERNAL, "no source '" + std::string(name) + "' was embedded"};
}

}  // namespace

ProgramSource program_of(const char* file, std::string options) {
  return {file, {text_of("geometry.h"), text_of("common.cl"), text_of(file)}, std::move(options)};
}

Programs::Slot& Programs::slot_of(const ProgramSource& source) {
  std::string name = source.name;
  name += '\0';
  name += source.options;
  const std::lock_guard lock(mutex_);
  return slots_[std::move(name)];
}

cl_program Programs::get(const ProgramSource& source) {
  Slot& slot = slot_of(source);
  const std::lock_guard lock(slot.mutex);
  if (slot.failure) throw sdk::Failure(*slot.failure);
  if (!slot.program) {
    try {
      build(source, &slot);
    } catch (const sdk::Failure& failure) {
      // Lack of memory passes, a source that the compiler refuses stays so.
      if (failure.status != BP_OUT_OF_MEMORY) slot.failure = failure;
      throw;
    }
  }
  return slot.program.get();
}

void Programs::keep(const ProgramSource& source) {
  Slot& slot = slot_of(source);
  const std::lock_guard lock(slot.mutex);
  if (slot.key.empty()) return;
  write(slot.key, slot.program.get());
  slot.key.clear();
}

void Programs::build(const ProgramSource& source, Slot* slot) const {
  const sdk::ExitGate gate;
  gate.require_open();
  std::string options = "-cl-std=CL1.2";
  if (device_.info().rounds_divide_correctly) options += " -cl-fp32-correctly-rounded-divide-sqrt";
  if (!source.options.empty()) options += " " + source.options;
  std::string key = key_of(source, options);
  slot->program = load(key, options);
  if (!slot->program) {
    slot->program = compile(source, options);
    if (device_.program_cache().is_on()) slot->key = std::move(key);
  }
  sdk::ExitGate::watch(source.name);
}

/// All that the compiled form follows from. The cache compares it byte by byte.
std::string Programs::key_of(const ProgramSource& source, const std::string& options) const {
  const DeviceInfo& info = device_.info();
  std::string key;
  for (const std::string& part : {info.driver, info.vendor, info.name, options}) {
    key += part;
    key += '\0';
  }
  for (const char* const text : source.texts) key += text;
  return key;
}

/// None where the cache has no such program, or one that the driver does not take.
Owned<cl_program> Programs::load(const std::string& key, const std::string& options) const {
  const std::vector<unsigned char> binary = device_.program_cache().read(key);
  if (binary.empty()) return {};
  const Driver& driver = device_.driver();
  const cl_device_id id = device_.info().id;
  const size_t bytes = binary.size();
  const unsigned char* data = binary.data();
  cl_int status = CL_SUCCESS;
  cl_int code = CL_SUCCESS;
  Owned<cl_program> program(driver, driver.clCreateProgramWithBinary(
                                        device_.context(), 1, &id, &bytes, &data, &status, &code));
  if (code == CL_SUCCESS) code = status;
  if (code == CL_SUCCESS) {
    code = driver.clBuildProgram(program.get(), 1, &id, options.c_str(), nullptr, nullptr);
  }
  if (code == CL_SUCCESS) return program;
  device_.host().log(BP_LOG_DEBUG, "a cached program is compiled again: " + error_text(code));
  return {};
}

Owned<cl_program> Programs::compile(const ProgramSource& source, const std::string& options) const {
  const Driver& driver = device_.driver();
  std::vector<const char*> texts = source.texts;
  cl_int code = CL_SUCCESS;
  const cl_program created = driver.clCreateProgramWithSource(
      device_.context(), static_cast<cl_uint>(texts.size()), texts.data(), nullptr, &code);
  check(code, "clCreateProgramWithSource");
  Owned<cl_program> program(driver, created);
  const cl_device_id id = device_.info().id;
  code = driver.clBuildProgram(program.get(), 1, &id, options.c_str(), nullptr, nullptr);
  if (code != CL_SUCCESS) {
    throw sdk::Failure{status_of_call(code),
                       std::string(source.name) + " does not build on " + device_.info().name +
                           ": " + error_text(code) +
                           "; the compiler says: " + build_log(program.get()),
                       code};
  }
  return program;
}

/// A program that cannot be kept is compiled again next time, no more.
void Programs::write(const std::string& key, cl_program program) const {
  const Driver& driver = device_.driver();
  size_t bytes = 0;
  cl_int code =
      driver.clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof(bytes), &bytes, nullptr);
  if (code != CL_SUCCESS || bytes == 0) return;
  std::vector<unsigned char> binary(bytes);
  unsigned char* data = binary.data();
  code = driver.clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof(unsigned char*),
                                 static_cast<void*>(&data), nullptr);
  if (code == CL_SUCCESS) device_.program_cache().write(key, binary);
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
