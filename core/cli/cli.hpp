// SPDX-License-Identifier: Apache-2.0
//
// What the command line says, as plain structs, and the commands as functions of them. Only
// main.cpp knows the library that parses it, since that library is slow to compile.
#ifndef BACKPLANE_CORE_CLI_CLI_HPP
#define BACKPLANE_CORE_CLI_CLI_HPP

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.hpp"

namespace bp::cli {

// Design section 8.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;       // a wrong result or a failed check
inline constexpr int kExitUsage = 2;        // the command line itself
inline constexpr int kExitEnvironment = 3;  // no plugin gives a device, BACKPLANE_*, output files
inline constexpr int kExitModel = 4;        // the model, an input, an expected output
inline constexpr int kExitDevice = 5;       // the device is not here, or failed

inline constexpr uint64_t kDefaultSeed = 1;

using NameValue = std::pair<std::string, std::string>;

/// A symbolic dimension and what it may be: one size, or any from min to max.
struct DimArg {
  std::string name;
  int64_t min = 0;
  int64_t max = 0;
};

struct GlobalArgs {
  std::vector<std::string> plugin_path;   // searched before BACKPLANE_PLUGIN_PATH
  std::vector<NameValue> plugin_options;  // "npu.memory", "64MiB"
  std::string only_plugin;                // no other is loaded; "": as BACKPLANE_PLUGINS says
};

struct DevicesArgs {
  bool verbose = false;
  bool json = false;
};

struct DoctorArgs {
  bool json = false;
};

struct RunArgs {
  std::string model;
  std::string device;             // empty: the first one
  std::vector<NameValue> inputs;  // name, file
  std::vector<DimArg> dims;
  std::vector<NameValue> expected;  // name, file
  double rtol = 1e-4;
  double atol = 1e-5;
  std::string output_folder;  // empty: outputs are not written
  uint64_t repeat = 1;
  uint64_t seed = kDefaultSeed;
  bool read_weights = false;  // else the model's files are mapped
  bool placement = false;
  bool json = false;
};

struct BenchArgs {
  std::string model;
  std::string device;    // empty: the first one
  std::string vectors;   // empty: inputs are made from the seed; else an .npz with in/ and out/
  uint64_t threads = 0;  // 0: as the plugins' options say
  std::vector<DimArg> dims;
  bool read_weights = false;  // else the model's files are mapped
  double seconds = 3;
  uint64_t seed = kDefaultSeed;
  bool profile = false;  // also what the time goes to
  bool json = false;
};

struct OpsArgs {
  std::string device;               // empty: the first one
  std::vector<std::string> models;  // which kernels these need
  bool decompositions = false;
  bool json = false;
};

struct CclTraceArgs {
  std::vector<std::string> dumps;  // files, and folders of them
  bool json = false;
};

struct CclStatusArgs {
  std::string path;  // of a socket, or a folder of them
  bool json = false;
};

struct LaunchCommand {
  std::vector<std::string> program;  // with its arguments
  uint64_t local_count = 1;
  uint64_t node_count = 1;
  uint64_t node_rank = 0;
  std::string rendezvous;
  std::string token_file;
  std::vector<std::string> devices;
  uint64_t grace_seconds = 5;
  uint64_t restarts = 0;
  bool keep_going = false;
};

// Each prints its results to standard output and its error to standard error, and answers the exit
// code of the process.
int run_devices(const GlobalArgs& global, const DevicesArgs& args);
int run_doctor(const GlobalArgs& global, const DoctorArgs& args);
int run_model(const GlobalArgs& global, const RunArgs& args);
int run_bench(const GlobalArgs& global, const BenchArgs& args);
int run_ops(const GlobalArgs& global, const OpsArgs& args);
int run_ccl_trace(const CclTraceArgs& args);
int run_ccl_status(const CclStatusArgs& args);
/// What is wrong where the program stands in front of the mark, or other launchers' options do;
/// empty: nothing of that. `arguments`: in front of the mark; `left`: those that were not taken.
std::string launch_words(const std::vector<std::string>& arguments,
                         const std::vector<std::string>& left,
                         const std::vector<std::string>& program);
/// Answers the status of the first rank that failed; 128 and the signal of one that was ended so.
int run_launch(const GlobalArgs& global, const LaunchCommand& command);

/// "backplane COMMAND: words" on standard error; answers `exit_code`.
int fail(const char* command, const std::string& words, int exit_code);

}  // namespace bp::cli

#endif
