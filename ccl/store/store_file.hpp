// SPDX-License-Identifier: Apache-2.0
//
// POSIX: the file of a store, its lock among processes, and what this process has read of it.
#ifndef BACKPLANE_CCL_STORE_STORE_FILE_HPP
#define BACKPLANE_CCL_STORE_STORE_FILE_HPP

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "ccl/store/descriptor.hpp"
#include "ccl/store/file_log.hpp"
#include "ccl/store/file_store.hpp"
#include "ccl/store/key_map.hpp"
#include "ccl/store/store_rules.hpp"
#include "core/base/status.hpp"
#include "core/base/timed_lock.hpp"

namespace bp::ccl {

/// Any thread.
class StoreFile {
 public:
  using TimePoint = Store::Clock::time_point;
  /// From that size on the file is written anew when a quarter of it would do.
  static constexpr uint64_t kRewriteBytes = uint64_t{1} << 20;

  /// Errors: as open_file_store().
  static Result<std::shared_ptr<StoreFile>> open(const FileStoreOptions& options);

  /// "file /tmp/x".
  const std::string& name() const { return name_; }

  /// While it lives, no other process and no other thread has the file; keys() is what it has.
  class Turn {
   public:
    Turn(StoreFile* file, TimedLock lock) : file_(file), lock_(std::move(lock)) {}
    Turn(Turn&& other) noexcept
        : file_(std::exchange(other.file_, nullptr)), lock_(std::move(other.lock_)) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (file_ != nullptr) file_->unlock();
    }
    const KeyMap& keys() const { return file_->keys_; }
    /// nullopt: removes the key. Errors: UNAVAILABLE where it cannot be written.
    Status change(std::string_view key, std::optional<std::string_view> value) {
      return file_->append(encode_change(key, value));
    }

   private:
    StoreFile* file_;  // nullptr: it was moved on
    TimedLock lock_;
  };
  /// Errors: TIMEOUT, CANCELLED; UNAVAILABLE where the file has gone, is another's by now, or is
  /// damaged.
  Result<Turn> take_turn(TimePoint until, const AbortFlag& aborted);

  /// The value as the last turn left it; nullptr: there is none. Takes a turn only where there is
  /// something to read. Errors: as take_turn().
  Result<KeyMap::Value> find(std::string_view key, TimePoint until, const AbortFlag& aborted);

  /// Sleeps, unless the flag is set.
  void pause(std::chrono::nanoseconds length, const AbortFlag& aborted);
  /// To be called when a flag was set. Never waits.
  void wake() noexcept;

 private:
  explicit StoreFile(const FileStoreOptions& options);
  Status open_path(bool may_make);
  Status lock_file(TimePoint until, const AbortFlag& aborted);
  void unlock() noexcept;
  Status begin();
  Status follow();
  Result<uint64_t> size_bytes() const;
  Status catch_up();
  Result<uint64_t> take_changes(std::string_view bytes);
  Status append(std::string_view change);
  Status cut_tail();
  void rewrite();
  bool is_the_named_one() const;
  Status write_all(int descriptor, const std::string& path, uint64_t* written) const;
  Result<bool> has_news() const;
  Result<TimedLock> lock_threads(TimePoint until, const AbortFlag& aborted);
  Status error(bp_status code, const std::string& words) const;

  const std::string path_;
  const std::string name_;
  LogHeader header_;

  std::timed_mutex mutex_;
  Descriptor file_;
  bool is_begun_ = false;      // this process knows whose the file is
  bool is_followed_ = true;    // and that the open one is the next of it
  Status lost_;                // why there is no such file any more
  uint64_t offset_bytes_ = 0;  // up to where it was read
  uint64_t rewrite_from_bytes_ = kRewriteBytes;
  KeyMap keys_;

  std::mutex pause_mutex_;
  std::condition_variable woken_;
};

}  // namespace bp::ccl

#endif
