// SPDX-License-Identifier: Apache-2.0
//
// What the kit asks of the operating system: children with a result pipe, what a process holds,
// what a library must leave alone, the dynamic section of a library. platform.cpp is the only file
// of the kit with calls that are not portable.
#ifndef BACKPLANE_SDK_CONFORM_PLATFORM_HPP
#define BACKPLANE_SDK_CONFORM_PLATFORM_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/status.hpp"
#include "sdk/conform/step.hpp"

namespace bp::conform {

/// Zeroed memory that ends where an inaccessible page begins: touching what is behind it crashes.
class GuardedMemory {
 public:
  explicit GuardedMemory(size_t bytes);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  std::byte* data() const { return data_; }

 private:
  std::byte* mapping_ = nullptr;
  size_t mapping_bytes_ = 0;
  std::byte* data_ = nullptr;
};

size_t page_bytes();

/// A page of this process that nothing is to touch while this lives. The first touch is noted and
/// opens the page, so that what touched it goes on and the case can say what it was. Any thread may
/// touch; memory and page are the caller's.
class Tripwire {
 public:
  /// `page`: where a page begins, which nothing else shares.
  explicit Tripwire(std::byte* page);
  ~Tripwire();
  Tripwire(const Tripwire&) = delete;
  Tripwire& operator=(const Tripwire&) = delete;

  /// Bytes from the page's begin to the first touch; nullopt: there was none.
  std::optional<size_t> touched_at() const;

 private:
  size_t wire_;
};

/// Of this process, for names of its own.
int64_t process_number();

/// What this process holds and must not hold more of later.
struct Usage {
  size_t thread_count = 0;
  size_t file_count = 0;

  bool exceeds(const Usage& other) const {
    return thread_count > other.thread_count || file_count > other.file_count;
  }
};
Usage current_usage();
/// The same once it no longer exceeds `limit`, or when `patience` is over: a thread that was joined
/// may still be listed for a moment.
Usage settled_usage(const Usage& limit,
                    std::chrono::milliseconds patience = std::chrono::seconds(2));

/// State of the process that a library may not change, in words, by name: "signal handlers",
/// "signal mask", "locale", "umask", "working directory", "environment", "resource limits",
/// "floating point".
std::map<std::string, std::string> surroundings();

/// The dynamic section of a shared library, read without mapping it.
struct DynamicSection {
  std::vector<std::string> exported;
  std::vector<std::string> imported;
  std::vector<std::string> search_paths;  // RPATH and RUNPATH, split
};
Result<DynamicSection> read_dynamic_section(const std::string& path);

/// A mapped library, mapped as the core does it and for ever.
class Library {
 public:
  static Result<Library> open(const std::string& path);
  void* symbol(const char* name) const;
  /// Whether the address lies in a file with this library's path.
  bool contains(const void* address) const;
  bool operator==(const Library& other) const { return handle_ == other.handle_; }

 private:
  void* handle_ = nullptr;
  std::string base_path_;
};

/// A forked process, the first of a group. Both ends are non-blocking.
struct Child {
  int64_t process = 0;
  int results = -1;      // what it writes to its results pipe
  int output = -1;       // its standard output and error
  Step* step = nullptr;  // shared with it until it is reaped
};

/// Forks. The child runs `body` with the write end of the results pipe and ends with its answer by
/// exit(), so that what plugins and drivers leave for the end of a process is run as well. It does
/// not outlive the calling thread.
Result<Child> start_child(const std::function<int(int results)>& body);
void write_all(int file, std::string_view text);
/// Waits until one of the files can be read or is at its end.
void wait_readable(std::span<const int> files, std::chrono::milliseconds timeout);
/// Appends what is there. False: the other end is closed.
bool read_available(int file, std::string* out);
/// With all processes that it has started.
void kill_child(const Child& child);
/// What it has started may still hold its pipes then.
bool has_ended(const Child& child);
struct Ending {
  std::string words;            // empty for exit code 0, else "signal 11 (...)" or "exit code 3"
  std::string step;             // Step::words() at the end
  bool left_a_process = false;  // of its group, now killed
};
/// Waits for the end and closes the pipes.
Ending reap_child(Child* child);

/// Standard error goes to people.
bool has_terminal();

}  // namespace bp::conform

#endif
