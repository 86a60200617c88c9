// SPDX-License-Identifier: Apache-2.0
//
// POSIX: this file asks the operating system.
#include "ccl/store/store_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "ccl/store/handshake.hpp"
#include "ccl/store/private_file.hpp"
#include "core/base/foreign_text.hpp"
#include "core/base/fork.hpp"
#include "core/base/quoted.hpp"

namespace bp::ccl {
namespace {

constexpr std::chrono::milliseconds kLongestLockPause{5};
// Of the lock among this process's threads, between two looks at the flag.
constexpr std::chrono::milliseconds kThreadSlice{20};
constexpr uint64_t kReadBytes = uint64_t{4} << 20;
static_assert(kReadBytes > kMostChangeBytes);

}  // namespace

StoreFile::StoreFile(const FileStoreOptions& options)
    : path_(options.path), name_("file " + foreign_text(options.path)) {
  header_.job = options.job;
}

Status StoreFile::error(bp_status code, const std::string& words) const {
  return store_error(code, name_, words);
}

Result<std::shared_ptr<StoreFile>> StoreFile::open(const FileStoreOptions& options) {
  std::shared_ptr<StoreFile> file(new StoreFile(options));
  if (options.job.size() > HandshakeTerms::kMostJobBytes) {
    return file->error(BP_INVALID_ARGUMENT,
                       "a job's name has at most " + std::to_string(HandshakeTerms::kMostJobBytes) +
                           " bytes, found " + std::to_string(options.job.size()));
  }
  BP_TRY(file->open_path(true));
  const AbortFlag never;
  BP_TRY(file->take_turn(time_after(Store::Clock::now(), options.answer_timeout), never));
  return file;
}

// --- the file and its lock ---

Status StoreFile::open_path(bool may_make) {
  // O_NONBLOCK: a special file must not be waited for before it is refused.
  const int flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | (may_make ? O_CREAT : 0);
  Descriptor opened(::open(path_.c_str(), flags, 0600));
  if (!opened.is_open()) {
    if (errno == ELOOP) {
      return error(BP_INVALID_ARGUMENT, "expected a regular file, found a symbolic link");
    }
    if (!may_make && errno == ENOENT) return error(BP_UNAVAILABLE, "the file was removed");
    return file_error(path_, "open");
  }
  BP_TRY(check_private(opened.get(), path_));
  file_ = std::move(opened);
  return {};
}

Result<TimedLock> StoreFile::lock_threads(TimePoint until, const AbortFlag& aborted) {
  TimedLock lock(mutex_, std::defer_lock);
  while (!lock_within(lock, kThreadSlice)) {
    if (aborted.is_set()) return aborted_error(name_);
    if (Store::Clock::now() >= until) {
      return error(BP_TIMEOUT, "another thread holds the file");
    }
  }
  return lock;
}

Status StoreFile::lock_file(TimePoint until, const AbortFlag& aborted) {
  const auto begun = Store::Clock::now();
  std::chrono::nanoseconds length = std::chrono::microseconds(20);
  while (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return file_error(path_, "lock");
    if (aborted.is_set()) return aborted_error(name_);
    if (Store::Clock::now() >= until) {
      return error(BP_TIMEOUT, "another process has held the lock of the file for " +
                                   duration_text(Store::Clock::now() - begun));
    }
    pause(length, aborted);
    length = std::min<std::chrono::nanoseconds>(2 * length, kLongestLockPause);
  }
  return {};
}

/// Said and not left to closing, since a child that was just forked has the same open file.
void StoreFile::unlock() noexcept { ::flock(file_.get(), LOCK_UN); }

Result<StoreFile::Turn> StoreFile::take_turn(TimePoint until, const AbortFlag& aborted) {
  BP_TRY_ASSIGN(TimedLock lock, lock_threads(until, aborted));
  BP_TRY(lost_);
  BP_TRY(lock_file(until, aborted));
  Turn turn(this, std::move(lock));
  for (;;) {
    struct stat info = {};
    if (::fstat(file_.get(), &info) != 0) return file_error(path_, "inspect");
    if (info.st_nlink != 0) break;
    // Another process has written the file anew, or it was removed.
    unlock();
    BP_TRY(open_path(!is_begun_));
    is_followed_ = false;
    BP_TRY(lock_file(until, aborted));
  }
  if (!is_begun_) {
    BP_TRY(begin());
  } else if (!is_followed_) {
    BP_TRY(follow());
  }
  BP_TRY(catch_up());
  return turn;
}

/// The first turn: makes the header, or sees whose the file is.
Status StoreFile::begin() {
  BP_TRY_ASSIGN(const std::string bytes, read_at(file_.get(), path_, 0, kMostLogHeaderBytes));
  const auto found = decode_log_header(bytes);
  if (!found.ok()) return error(found.status().code(), found.status().message());
  if (*found) {
    if ((*found)->job != header_.job) {
      return error(BP_INVALID_ARGUMENT, "the file is of job " + quoted((*found)->job) +
                                            ", expected job " + quoted(header_.job) +
                                            "; remove it, or choose another");
    }
    header_ = **found;
  } else {
    BP_TRY_ASSIGN(const Nonce chance, make_nonce());
    std::memcpy(&header_.store, chance.data(), sizeof(header_.store));
    header_.generation = 1;
    const std::string made = encode_log_header(header_);
    header_.bytes = made.size();
    // What is there is the begin of a header, by a process that was killed.
    offset_bytes_ = 0;
    BP_TRY(cut_tail());
    BP_TRY(write_at(file_.get(), path_, made, 0));
  }
  offset_bytes_ = header_.bytes;
  is_begun_ = true;
  is_followed_ = true;
  return {};
}

/// Goes on with the file that another process has put in the place of the one before.
Status StoreFile::follow() {
  BP_TRY_ASSIGN(const std::string bytes, read_at(file_.get(), path_, 0, kMostLogHeaderBytes));
  const auto found = decode_log_header(bytes);
  const bool is_next = found.ok() && *found && (*found)->store == header_.store &&
                       (*found)->job == header_.job && (*found)->generation > header_.generation;
  if (!is_next) {
    return lost_ = error(BP_UNAVAILABLE, "another file has taken the place of the store's");
  }
  header_ = **found;
  offset_bytes_ = header_.bytes;
  keys_.clear();
  is_followed_ = true;
  return {};
}

// --- what it has ---

Result<uint64_t> StoreFile::size_bytes() const {
  struct stat info = {};
  if (::fstat(file_.get(), &info) != 0) return file_error(path_, "inspect");
  return static_cast<uint64_t>(info.st_size);
}

Status StoreFile::catch_up() {
  for (;;) {
    BP_TRY_ASSIGN(const uint64_t size, size_bytes());
    if (size < offset_bytes_) {
      return error(BP_UNAVAILABLE, "the file was cut off: expected at least " +
                                       std::to_string(offset_bytes_) + " bytes, found " +
                                       std::to_string(size));
    }
    if (size == offset_bytes_) return {};
    const uint64_t count = std::min(size - offset_bytes_, kReadBytes);
    BP_TRY_ASSIGN(const std::string bytes, read_at(file_.get(), path_, offset_bytes_, count));
    BP_TRY_ASSIGN(const uint64_t used, take_changes(bytes));
    offset_bytes_ += used;
    // The begin of a change over which a process was killed: the lock says that it writes no more.
    if (used == 0) return cut_tail();
  }
}

/// How many bytes the whole changes have.
Result<uint64_t> StoreFile::take_changes(std::string_view bytes) {
  uint64_t used = 0;
  for (;;) {
    const auto change = next_change(bytes.substr(used));
    if (!change.ok()) {
      return error(BP_UNAVAILABLE, "the file is damaged at byte " +
                                       std::to_string(offset_bytes_ + used) + ": " +
                                       change.status().message());
    }
    if (!*change) return used;
    if ((*change)->value) BP_TRY(keys_.set((*change)->key, *(*change)->value));
    if (!(*change)->value) keys_.remove((*change)->key);
    used += (*change)->bytes;
  }
}

Status StoreFile::cut_tail() {
  if (::ftruncate(file_.get(), static_cast<off_t>(offset_bytes_)) != 0) {
    return file_error(path_, "shorten");
  }
  return {};
}

Status StoreFile::append(std::string_view change) {
  const Status written = write_at(file_.get(), path_, change, offset_bytes_);
  if (!written.ok()) {
    BP_TRY(cut_tail());
    return written;
  }
  BP_TRY(catch_up());
  if (offset_bytes_ >= rewrite_from_bytes_ && offset_bytes_ / 4 >= keys_.bytes()) rewrite();
  return {};
}

/// Another may have removed it, and made one of his own, since this turn began.
bool StoreFile::is_the_named_one() const {
  struct stat own = {};
  struct stat named = {};
  return ::fstat(file_.get(), &own) == 0 && ::lstat(path_.c_str(), &named) == 0 &&
         own.st_dev == named.st_dev && own.st_ino == named.st_ino;
}

/// Puts a file with the same keys in this one's place. Where that fails, this one stays.
void StoreFile::rewrite() {
  rewrite_from_bytes_ = 2 * offset_bytes_;
  if (!is_the_named_one()) return;
  const std::string path = path_ + ".new";
  ::unlink(path.c_str());  // of a process that was killed
  Descriptor made(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!made.is_open()) return;
  uint64_t written = 0;
  // Locked before it has the name, since this turn goes on.
  const bool is_done = write_all(made.get(), path, &written).ok() &&
                       ::flock(made.get(), LOCK_EX | LOCK_NB) == 0 &&
                       ::rename(path.c_str(), path_.c_str()) == 0;
  if (!is_done) {
    ::unlink(path.c_str());
    return;
  }
  unlock();
  file_ = std::move(made);
  header_.generation += 1;
  offset_bytes_ = written;
  rewrite_from_bytes_ = kRewriteBytes;
}

Status StoreFile::write_all(int descriptor, const std::string& path, uint64_t* written) const {
  LogHeader next = header_;
  next.generation += 1;
  std::string bytes = encode_log_header(next);
  for (const auto& [key, value] : keys_.values()) {
    bytes += encode_change(key, *value);
    if (bytes.size() < kReadBytes) continue;
    BP_TRY(write_at(descriptor, path, bytes, *written));
    *written += bytes.size();
    bytes.clear();
  }
  BP_TRY(write_at(descriptor, path, bytes, *written));
  *written += bytes.size();
  return {};
}

/// Whether there is anything that was not read. Not the lock: nobody changes what was read.
Result<bool> StoreFile::has_news() const {
  struct stat info = {};
  if (::fstat(file_.get(), &info) != 0) return file_error(path_, "inspect");
  return info.st_nlink == 0 || !is_followed_ ||
         static_cast<uint64_t>(info.st_size) != offset_bytes_;
}

Result<KeyMap::Value> StoreFile::find(std::string_view key, TimePoint until,
                                      const AbortFlag& aborted) {
  {
    BP_TRY_ASSIGN(const TimedLock lock, lock_threads(until, aborted));
    BP_TRY(lost_);
    BP_TRY_ASSIGN(const bool is_outdated, has_news());
    if (!is_outdated) return keys_.find(key);
  }
  BP_TRY_ASSIGN(const Turn turn, take_turn(until, aborted));
  return turn.keys().find(key);
}

// --- waits ---

void StoreFile::pause(std::chrono::nanoseconds length, const AbortFlag& aborted) {
  std::unique_lock lock(pause_mutex_);
  woken_.wait_for(lock, length, [&] { return aborted.is_set(); });
}

void StoreFile::wake() noexcept {
  if (forked()) return;
  const std::lock_guard lock(pause_mutex_);
  woken_.notify_all();
}

}  // namespace bp::ccl
