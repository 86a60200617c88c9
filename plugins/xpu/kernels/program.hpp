// SPDX-License-Identifier: Apache-2.0
//
// OpenCL programs: a source text with build options, compiled once per device, when the first plan
// needs them and never in a launch. What was compiled is kept on disk too (program_cache.hpp).
#ifndef BACKPLANE_PLUGINS_XPU_KERNELS_PROGRAM_HPP
#define BACKPLANE_PLUGINS_XPU_KERNELS_PROGRAM_HPP

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "driver.hpp"

namespace bp::xpu {

class Device;

/// A program as a plan asks for it: one source, one variant of it.
struct ProgramSource {
  /// For people, and with the options what tells one program from another: "matmul.cl".
  const char* name;
  /// Compiled one behind the other. They live as long as the plugin.
  std::vector<const char*> texts;
  /// What makes the variant: "-D T=float -D BP_GROUP=64". They come from dtypes and from the
  /// device's properties, never from the sizes of tensors, so that there are few of them.
  std::string options = {};
};

/// A file of kernels/ that the build embeds (embed.cmake); without a name: the end of the list.
struct SourceFile {
  const char* name;
  const char* text;
};
extern const SourceFile kSourceFiles[];

/// The program of an embedded file, a string literal such as "copy.cl", behind geometry.h and
/// common.cl. Throws sdk::Failure where there is no such file.
ProgramSource program_of(const char* file, std::string options);

/// The programs of one device. Any thread.
class Programs {
 public:
  explicit Programs(Device& device) : device_(device) {}
  Programs(const Programs&) = delete;
  Programs& operator=(const Programs&) = delete;

  /// Builds at first use. Throws sdk::Failure with the compiler's log; a program that did not build
  /// is not tried again. Valid while the device is open.
  cl_program get(const ProgramSource& source);
  /// Writes to the disk what get compiled, the first time. Apart from it, since some drivers only
  /// now compile to the end, and many a plan is never launched.
  void keep(const ProgramSource& source);

 private:
  struct Slot {
    std::mutex mutex;
    Owned<cl_program> program;
    std::optional<sdk::Failure> failure;
    std::string key;  // under which the program is still to be kept; else empty
  };

  Slot& slot_of(const ProgramSource& source);
  void build(const ProgramSource& source, Slot* slot) const;
  Owned<cl_program> load(const std::string& key, const std::string& options) const;
  Owned<cl_program> compile(const ProgramSource& source, const std::string& options) const;
  void write(const std::string& key, cl_program program) const;
  std::string key_of(const ProgramSource& source, const std::string& options) const;
  std::string build_log(cl_program program) const;

  Device& device_;
  std::mutex mutex_;  // of the map; slots stay where they are
  std::map<std::string, Slot, std::less<>> slots_;
};

}  // namespace bp::xpu

#endif
