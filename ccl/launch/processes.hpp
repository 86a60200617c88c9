// SPDX-License-Identifier: Apache-2.0
//
// What the launcher asks of the operating system: processes with their groups, signals as events,
// and a guard that outlives the launcher. processes_linux.cpp is the only file of the launcher with
// calls that are not POSIX.
#ifndef BACKPLANE_CCL_LAUNCH_PROCESSES_HPP
#define BACKPLANE_CCL_LAUNCH_PROCESSES_HPP

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "ccl/store/descriptor.hpp"
#include "core/base/status.hpp"

namespace bp::ccl {

/// The path of a program, found as a shell finds it. Errors: UNAVAILABLE.
Result<std::string> find_program(const std::string& name);

/// Opens /dev/null in the place of standard streams that are closed, so that no pipe takes their
/// numbers.
void open_standard_streams();

/// A process that ends all groups once the launcher has gone, however it ended: SIGKILL leaves it
/// no chance to do so itself. Made before there are other threads.
class Guard {
 public:
  /// Errors: UNAVAILABLE where there is no process for it.
  static Result<Guard> make();
  Guard(Guard&& other) noexcept = default;
  Guard& operator=(Guard&&) = delete;
  /// Its groups have ended by then.
  ~Guard();
  pid_t process() const { return process_; }

  /// The line on which a new process tells its own number, before it runs what may start others:
  /// the launcher may be gone before it could.
  int line() const { return line_.get(); }
  void remove(pid_t group) const;

 private:
  Guard(pid_t process, Descriptor line) : process_(process), line_(std::move(line)) {}

  pid_t process_;
  Descriptor line_;
};

/// Signals to the launcher as events: SIGCHLD, and of SIGINT, SIGTERM and SIGHUP those that are not
/// ignored, are blocked in this thread, and in those that it starts from then on.
class Signals {
 public:
  /// Errors: UNAVAILABLE.
  static Result<Signals> make();
  /// Can be read when there is a signal.
  int descriptor() const { return descriptor_.get(); }
  /// The next one; 0: there is none.
  int take() const;

  /// While it lives, signals end this process as they end any other: for waits without ranks.
  class Pass {
   public:
    Pass();
    ~Pass();
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;
  };

 private:
  explicit Signals(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}
  Descriptor descriptor_;
};

struct ProcessArgs {
  std::string path;
  std::vector<std::string> arguments;    // the first: the program's name
  std::vector<std::string> environment;  // "NAME=VALUE"
};

struct StartedProcess {
  pid_t process = 0;  // the leader of a group of its own
  Descriptor output;  // its standard output and error, to be read; reading never waits
  Descriptor error;
};

/// Starts a process without standard input and with the signals as they are for a new one. The
/// system ends it with the calling thread, and the guard its group. Errors: UNAVAILABLE, also where
/// the program cannot be executed.
Result<StartedProcess> start_process(const ProcessArgs& args, const Guard& guard);

/// How a process ended: an exit code, or a signal.
struct ProcessEnd {
  int exit_code = 0;
  int signal = 0;  // 0: none
  bool ok() const { return exit_code == 0 && signal == 0; }
  /// As shells have it.
  int status() const { return signal != 0 ? 128 + signal : exit_code; }
  /// "ended with exit code 3", "was ended by signal 11 (Segmentation fault)".
  std::string words() const;
};

/// Whether a child has ended. What is left of its group is killed then, before its number can be
/// another's.
std::optional<ProcessEnd> take_end(pid_t process);
/// To all processes of the group, and to the one that it was made for, also where that has left it;
/// whose end was not taken yet.
void signal_group(pid_t group, int signal);
/// Waits until no process of a group that was killed is left, and takes the ends of those whose
/// parents have gone, which are children of the launcher then.
void await_empty_group(pid_t group, std::chrono::milliseconds patience);
/// Takes the ends of processes that ranks started and left, but for `ranks` themselves.
void take_orphans(const std::vector<pid_t>& ranks);

}  // namespace bp::ccl

#endif
