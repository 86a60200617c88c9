// SPDX-License-Identifier: Apache-2.0
//
// Linux: prctl, signalfd, pipe2, close_range.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

#include "ccl/launch/processes.hpp"
#include "core/base/quoted.hpp"

namespace bp::ccl {
namespace {

constexpr int kTakenSignals[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP};
constexpr int kStartPatienceMs = 60'000;
constexpr int kNotStarted = 127;

Status system_error(const std::string& words) {
  return Status(BP_UNAVAILABLE, words + ": " + reason_of(errno));
}

struct Pipe {
  Descriptor read;
  Descriptor write;
};

Result<Pipe> make_pipe() {
  int ends[2] = {};
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_error("cannot make a pipe");
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

bool is_ignored(int signal) {
  struct sigaction action = {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

/// Ignored by who started this process, as nohup does, a signal stays ignored: blocked it would be
/// kept all the same, and read as an event.
sigset_t taken_signals() {
  sigset_t taken;
  ::sigemptyset(&taken);
  for (const int signal : kTakenSignals) {
    if (!is_ignored(signal)) ::sigaddset(&taken, signal);
  }
  return taken;
}

bool is_executable_file(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

/// What a new process needs that may not be computed in it.
struct Prepared {
  const char* path;
  char* const* arguments;
  char* const* environment;
  pid_t launcher;
  int input, output, error, failure, guard;
};

/// To a guard: the number of a group, or less than 0, of one that is over. Safe after fork.
void tell_guard(int line, pid_t change) {
  while (::write(line, &change, sizeof(change)) < 0 && errno == EINTR) continue;
}

/// Between fork and exec: only calls that are safe there, since other threads' locks may be held.
[[noreturn]] void become(const Prepared& prepared) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The launcher may have gone before that.
  if (::getppid() != prepared.launcher) ::_exit(kNotStarted);
  tell_guard(prepared.guard, ::getpid());
  ::dup2(prepared.input, STDIN_FILENO);
  ::dup2(prepared.output, STDOUT_FILENO);
  ::dup2(prepared.error, STDERR_FILENO);
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(prepared.path, prepared.arguments, prepared.environment);
  const int reason = errno;
  static_cast<void>(!::write(prepared.failure, &reason, sizeof(reason)));
  ::_exit(kNotStarted);
}

/// Why the program was not executed; 0: it was.
int exec_error(int failure) {
  pollfd wanted = {.fd = failure, .events = POLLIN, .revents = 0};
  while (::poll(&wanted, 1, kStartPatienceMs) < 0 && errno == EINTR) continue;
  if (wanted.revents == 0) return ETIMEDOUT;
  int reason = 0;
  while (::read(failure, &reason, sizeof(reason)) < 0 && errno == EINTR) continue;
  return reason;
}

/// The guard's whole life. No memory is asked for.
[[noreturn]] void guard(int line) {
  constexpr size_t kMostGroups = 4096;  // more than a launcher starts
  static pid_t groups[kMostGroups];
  ::setsid();
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_IGN);
  // Whoever waits for the end of the launcher's output must not wait for the guard.
  if (line > 0) ::close_range(0, static_cast<unsigned>(line - 1), 0);
  ::close_range(static_cast<unsigned>(line + 1), UINT_MAX, 0);
  pid_t change = 0;
  for (;;) {
    const ssize_t count = ::read(line, &change, sizeof(change));
    if (count < 0 && errno == EINTR) continue;
    if (count != sizeof(change)) break;
    const pid_t wanted = change > 0 ? 0 : -change;
    pid_t* const cell = std::find(groups, groups + kMostGroups, wanted);
    if (cell != groups + kMostGroups) *cell = change > 0 ? change : 0;
  }
  for (const pid_t group : groups) {
    if (group != 0) ::kill(-group, SIGKILL);
  }
  ::_exit(0);
}

}  // namespace

Result<std::string> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (is_executable_file(name)) return name;
    struct stat info = {};
    if (::stat(name.c_str(), &info) != 0) {
      return Status(BP_UNAVAILABLE,
                    "there is no program " + bp::quoted(name) + ": " + reason_of(errno));
    }
    if (!S_ISREG(info.st_mode)) {
      return Status(BP_UNAVAILABLE, "expected a program, found " + bp::quoted(name) + ", " +
                                        (S_ISDIR(info.st_mode) ? "a folder" : "no regular file"));
    }
    return Status(BP_UNAVAILABLE, bp::quoted(name) +
                                      " is there, but this user may not execute it: set its mode "
                                      "(chmod +x), or name the program that runs it before it");
  }
  const char* const path = std::getenv("PATH");
  std::string_view left = path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin";
  while (!left.empty() && !name.empty()) {
    const size_t end = std::min(left.find(':'), left.size());
    const std::string found = std::string(left.substr(0, end)) + "/" + name;
    if (end > 0 && is_executable_file(found)) return found;
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return Status(BP_UNAVAILABLE, "there is no program " + bp::quoted(name) + " in PATH");
}

void open_standard_streams() {
  for (int descriptor = 0; descriptor < 3; ++descriptor) {
    // The lowest number that is free is this one.
    if (::fcntl(descriptor, F_GETFD) < 0) static_cast<void>(::open("/dev/null", O_RDWR));
  }
}

Result<Guard> Guard::make() {
  // Orphans of ranks become this process's children, so that their ends are taken also where no
  // process of the system's does so, as in containers.
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return system_error("cannot take orphans");
  BP_TRY_ASSIGN(Pipe line, make_pipe());
  const pid_t process = ::fork();
  if (process < 0) return system_error("cannot start the guard of the ranks");
  if (process == 0) {
    line.write.close();
    guard(line.read.get());
  }
  return Guard(process, std::move(line.write));
}

Guard::~Guard() {
  if (!line_.is_open()) return;
  line_.close();
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) continue;
}

void Guard::remove(pid_t group) const { tell_guard(line_.get(), -group); }

Result<Signals> Signals::make() {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGCHLD, SIG_DFL);  // ignored by who started this process, ends could not be asked for
  const sigset_t taken = taken_signals();
  if (const int error = ::pthread_sigmask(SIG_BLOCK, &taken, nullptr); error != 0) {
    return Status(BP_UNAVAILABLE, "cannot block signals: " + reason_of(error));
  }
  Descriptor descriptor(::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!descriptor.is_open()) return system_error("cannot wait for signals");
  return Signals(std::move(descriptor));
}

Signals::Pass::Pass() {
  const sigset_t taken = taken_signals();
  ::pthread_sigmask(SIG_UNBLOCK, &taken, nullptr);
}

Signals::Pass::~Pass() {
  const sigset_t taken = taken_signals();
  ::pthread_sigmask(SIG_BLOCK, &taken, nullptr);
}

int Signals::take() const {
  signalfd_siginfo info = {};
  const ssize_t count = ::read(descriptor_.get(), &info, sizeof(info));
  return count == sizeof(info) ? static_cast<int>(info.ssi_signo) : 0;
}

Result<StartedProcess> start_process(const ProcessArgs& args, const Guard& guard) {
  const Descriptor input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!input.is_open()) return system_error("cannot open /dev/null");
  BP_TRY_ASSIGN(Pipe output, make_pipe());
  BP_TRY_ASSIGN(Pipe error, make_pipe());
  BP_TRY_ASSIGN(Pipe failure, make_pipe());
  const std::vector<char*> arguments = pointers_to(args.arguments);
  const std::vector<char*> environment = pointers_to(args.environment);
  const Prepared prepared = {.path = args.path.c_str(),
                             .arguments = arguments.data(),
                             .environment = environment.data(),
                             .launcher = ::getpid(),
                             .input = input.get(),
                             .output = output.write.get(),
                             .error = error.write.get(),
                             .failure = failure.write.get(),
                             .guard = guard.line()};
  const pid_t process = ::fork();
  if (process < 0) return system_error("cannot start " + bp::quoted(args.path));
  if (process == 0) become(prepared);
  ::setpgid(process, process);  // whichever of the two comes first
  failure.write.close();
  if (const int reason = exec_error(failure.read.get()); reason != 0) {
    ::kill(-process, SIGKILL);
    while (::waitpid(process, nullptr, 0) < 0 && errno == EINTR) continue;
    guard.remove(process);
    return Status(BP_UNAVAILABLE,
                  "cannot execute " + bp::quoted(args.path) + ": " + reason_of(reason));
  }
  for (const Pipe* pipe : {&output, &error}) ::fcntl(pipe->read.get(), F_SETFL, O_NONBLOCK);
  return StartedProcess{process, std::move(output.read), std::move(error.read)};
}

std::string ProcessEnd::words() const {
  if (signal == 0) return "ended with exit code " + std::to_string(exit_code);
  return "was ended by signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
}

std::optional<ProcessEnd> take_end(pid_t process) {
  siginfo_t info = {};
  const auto number = static_cast<id_t>(process);
  if (::waitid(P_PID, number, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
    return std::nullopt;
  }
  signal_group(process, SIGKILL);
  int status = 0;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) continue;
  ProcessEnd end;
  if (WIFSIGNALED(status)) {
    end.signal = WTERMSIG(status);
  } else {
    end.exit_code = WEXITSTATUS(status);
  }
  return end;
}

void signal_group(pid_t group, int signal) {
  ::kill(-group, signal);
  // Not twice: a program may take a second signal for another wish.
  if (::getpgid(group) != group) ::kill(group, signal);
}

void await_empty_group(pid_t group, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    while (::waitpid(-group, nullptr, WNOHANG) > 0) continue;
    if (::kill(-group, 0) != 0 || std::chrono::steady_clock::now() >= deadline) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void take_orphans(const std::vector<pid_t>& ranks) {
  for (;;) {
    siginfo_t info = {};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    // The end of a rank comes first, then, and is not to be taken here.
    if (std::find(ranks.begin(), ranks.end(), info.si_pid) != ranks.end()) return;
    ::waitpid(info.si_pid, nullptr, WNOHANG);
  }
}

}  // namespace bp::ccl
