// SPDX-License-Identifier: Apache-2.0
//
// OpenCL programs: the sources that the build embeds, compiled once per device, when the first plan
// needs them and never in a launch.
#ifndef BACKPLANE_PLUGINS_XPU_KERNELS_PROGRAM_HPP
#define BACKPLANE_PLUGINS_XPU_KERNELS_PROGRAM_HPP

#include <array>
#include <cstddef>
#include <mutex>
#include <optional>

#include "driver.hpp"

namespace bp::xpu {

class Device;

// In the build folder, made from the files in kernels/ by embed.cmake.
extern const char* const kGeometrySource;
extern const char* const kElementwiseSource;
extern const char* const kMatmulSource;
extern const char* const kIndexingSource;

enum class ProgramId : size_t { kElementwise, kMatmul, kIndexing, kCount };

/// The programs of one device. Any thread.
class Programs {
 public:
  explicit Programs(Device& device) : device_(device) {}
  Programs(const Programs&) = delete;
  Programs& operator=(const Programs&) = delete;

  /// Builds at first use. Throws sdk::Failure with the compiler's log; a program that did not build
  /// is not tried again. Valid while the device is open.
  cl_program get(ProgramId id);

 private:
  struct Slot {
    std::mutex mutex;
    Owned<cl_program> program;
    std::optional<sdk::Failure> failure;
  };

  Owned<cl_program> build(ProgramId id) const;
  std::string build_log(cl_program program) const;

  Device& device_;
  std::array<Slot, static_cast<size_t>(ProgramId::kCount)> slots_;
};

}  // namespace bp::xpu

#endif
