// SPDX-License-Identifier: Apache-2.0
//
// posix_spawn with the output in an unnamed file: a pipe that nobody drains would stop the child,
// and one that a grandchild keeps open would never end.
#include "tests/lifecycle/child.hpp"

#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <system_error>
#include <thread>

extern char** environ;

namespace bp::life {
namespace {

void check(int error, const char* what) {
  if (error != 0) throw std::system_error(error, std::generic_category(), what);
}

std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::string>>& added) {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    bool replaced = false;
    for (const auto& [name, value] : added) replaced |= text.starts_with(name + "=");
    if (!replaced) entries.push_back(text);
  }
  for (const auto& [name, value] : added) entries.push_back(name + "=" + value);
  return entries;
}

std::vector<char*> pointers(std::vector<std::string>* texts) {
  std::vector<char*> result;
  for (std::string& text : *texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

pid_t spawn(const ChildArgs& args, int output) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  check(posix_spawn_file_actions_init(&actions), "file actions");
  check(posix_spawnattr_init(&attributes), "attributes");
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  if (!args.folder.empty()) {
    posix_spawn_file_actions_addchdir_np(&actions, args.folder.c_str());
  }
  // A group of its own, so that the deadline also reaches what it forked.
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  std::vector<std::string> command = args.command;
  std::vector<std::string> environment = environment_with(args.environment);
  pid_t child = 0;
  const int error = posix_spawn(&child, command[0].c_str(), &actions, &attributes,
                                pointers(&command).data(), pointers(&environment).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  check(error, command[0].c_str());
  return child;
}

std::string read_all(std::FILE* file) {
  std::string text;
  char buffer[4096];
  std::rewind(file);
  while (const size_t bytes = std::fread(buffer, 1, sizeof(buffer), file)) {
    text.append(buffer, bytes);
  }
  return text;
}

}  // namespace

std::string ChildResult::describe() const {
  const std::string how = timed_out     ? "timed out"
                          : signal != 0 ? "signal " + std::to_string(signal)
                                        : "exit code " + std::to_string(exit_code);
  return how + "; output:\n" + output;
}

ChildResult run_child(const ChildArgs& args) {
  std::FILE* output = std::tmpfile();
  if (output == nullptr) throw std::runtime_error("no temporary file");
  const pid_t child = spawn(args, fileno(output));
  const auto deadline = std::chrono::steady_clock::now() + args.timeout;
  ChildResult result;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (!result.timed_out && std::chrono::steady_clock::now() > deadline) {
      result.timed_out = true;
      kill(-child, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  kill(-child, SIGKILL);  // what it left behind
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  result.output = read_all(output);
  std::fclose(output);
  return result;
}

}  // namespace bp::life
